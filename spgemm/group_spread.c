/* The distribution of A and B over the devices of a group.
 *
 * NCCL broadcasts B to all devices, while the first one counts intermediate products and cuts the rows (gpu_split.c);
 * then each device copies its rows of A. With 32-bit offsets a range of rows is described by pointers into the arrays
 * of the whole matrix, so nothing is rewritten. Bytes sent: |B| to each device but the first, and |A| in all. */
#include "spgemm/aliases.h"
#include "spgemm/group.h"
#include "spgemm/gpu_split.h"

static size_t value_size(const struct gpumem_spgemm_group *g) { return spg_value_size(g->precision); }

/* The arrays of a matrix, with their sizes: what is sent. */
struct array {
    const void *from;
    struct spg_block *to;
    size_t size;
};

static bool is_root(const struct gpumem_spgemm_group *g, int i) { return g->first + i == 0; }

/* Copies from the lead's device, ordered after the event `ready`. */
static bool send(const struct spg_member *lead, const struct spg_member *m, const struct array *array,
                 struct spg_error *error) {
    return !array->size ||
           spg_cuda(cudaMemcpyPeerAsync(array->to->at, m->device, array->from, lead->device, array->size, m->stream),
                    "copy between devices", error) ||
           spg_member_failed(m, error);
}

/* Begins after the work of the caller's stream. */
static bool order(struct gpumem_spgemm_group *g, struct CUstream_st *stream, struct spg_error *error) {
    struct spg_member *lead = &g->member[0];
    cudaEvent_t ready = lead->multiplier->product.method.gpu.started;
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (!spg_member_enter(lead, error) || !spg_cuda(cudaStreamIsCapturing(stream, &capture), "the stream", error))
        return false;
    if (capture != cudaStreamCaptureStatusNone)
        return spg_fail_as(error, GPUMEM_STREAM_CAPTURE, "the stream is captured, and the group waits for its devices");
    bool done = spg_cuda(cudaEventRecord(ready, stream), "event", error);
    for (int i = 0; done && i < g->count; i++)
        done = spg_member_enter(&g->member[i], error) &&
               spg_cuda(cudaStreamWaitEvent(g->member[i].stream, ready, 0), "event", error);
    return done;
}

/* Lets the device read B where it is. */
static bool read_in_place(const struct spg_member *lead, const struct spg_member *m, const struct gpumem_spgemm_csr *b,
                          struct spg_error *error) {
    struct cudaPointerAttributes about = {0};
    if (!spg_cuda(cudaPointerGetAttributes(&about, b->offsets), "B", error))
        return false;
    if (about.type != cudaMemoryTypeDevice)
        return true;
    return spg_member_reach(m, lead) ||
           spg_fail_as(error, GPUMEM_OUT_OF_MEMORY,
                       "out of device memory: a copy of B, and the device cannot read memory of device %d",
                       lead->device);
}

/* Chooses where a device reads B, and makes memory for a copy. */
static bool choose_b(struct gpumem_spgemm_group *g, int i, const struct gpumem_spgemm_csr *b, bool in_place,
                     struct spg_error *error) {
    struct spg_member *m = &g->member[i];
    m->b = *b;
    m->b_kind = GPUMEM_SPGEMM_B_OWN;
    if (is_root(g, i))
        return true;
    if (!spg_member_enter(m, error))
        return false;
    if (spg_copy_make(&m->b_copy, b->rows, b->stored, g->precision, "a copy of B", error)) {
        m->b.offsets = m->b_copy.offsets.at;
        m->b.indices = m->b_copy.indices.at;
        m->b.values = m->b_copy.values.at;
        m->b_kind = g->by_nccl ? GPUMEM_SPGEMM_B_BROADCAST : GPUMEM_SPGEMM_B_COPIED;
        return true;
    }
    m->b_kind = GPUMEM_SPGEMM_B_READ;
    return (error->status == GPUMEM_OUT_OF_MEMORY && in_place && read_in_place(&g->member[0], m, b, error)) ||
           spg_member_failed(m, error);
}

/* Whether B found memory in all processes. A process that did not would keep the others waiting in the broadcast. */
static bool agree(struct gpumem_spgemm_group *g, bool placed, struct spg_error *error) {
    int32_t refused = !placed, *at[g->count];
    struct spg_error ours = {0};
    bool done = true;
    if (g->total == g->count)
        return placed;
    for (int i = 0; done && i < g->count; i++) {
        struct spg_member *m = &g->member[i];
        at[i] = m->refused.at;
        done = spg_member_enter(m, &ours) && spg_send(m->stream, at[i], &refused, sizeof refused, "agreement", &ours);
    }
    done = done && spg_nccl_largest(g->place, g->count, at, &ours) && spg_member_wait(&g->member[0], &ours) &&
           spg_fetch(g->member[0].stream, &refused, at[0], sizeof refused, "agreement", &ours);
    if (!placed)
        return false;
    if (!done) {
        *error = ours;
        return false;
    }
    return !refused || spg_fail_as(error, GPUMEM_OUT_OF_MEMORY, "out of device memory: B, in another process");
}

static bool broadcast(struct gpumem_spgemm_group *g, const struct gpumem_spgemm_csr *b, bool only_values,
                      struct spg_error *error) {
    const size_t size[] = {((size_t)b->rows + 1) * sizeof(int32_t), (size_t)b->stored * sizeof(int32_t),
                           (size_t)b->stored * value_size(g)};
    bool done = true;
    for (int array = only_values ? 2 : 0; done && array < 3; array++) {
        void *at[g->count];
        for (int i = 0; i < g->count; i++) {
            const struct gpumem_spgemm_csr *theirs = &g->member[i].b;
            at[i] = (void *)(array == 0   ? (const void *)theirs->offsets
                             : array == 1 ? (const void *)theirs->indices
                                          : theirs->values);
        }
        done = !size[array] || spg_nccl_broadcast(g->place, g->count, at, size[array], error);
    }
    return done;
}

static bool copy_b(struct gpumem_spgemm_group *g, const struct gpumem_spgemm_csr *b, bool only_values,
                   struct spg_error *error) {
    bool done = true;
    for (int i = 1; done && i < g->count; i++) {
        struct spg_member *m = &g->member[i];
        if (m->b_kind == GPUMEM_SPGEMM_B_READ)
            continue;
        m->b_kind = GPUMEM_SPGEMM_B_COPIED;
        const struct array arrays[] = {
            {b->offsets, &m->b_copy.offsets, ((size_t)b->rows + 1) * sizeof(int32_t)},
            {b->indices, &m->b_copy.indices, (size_t)b->stored * sizeof(int32_t)},
            {b->values, &m->b_copy.values, (size_t)b->stored * value_size(g)},
        };
        done = spg_member_enter(m, error);
        for (int array = only_values ? 2 : 0; done && array < 3; array++)
            done = send(&g->member[0], m, &arrays[array], error);
    }
    return done;
}

static bool spread_b(struct gpumem_spgemm_group *g, const struct gpumem_spgemm_csr *b, bool same, bool in_place,
                     struct spg_error *error) {
    bool placed = true, by_nccl = g->by_nccl;
    for (int i = 0; !same && placed && i < g->count; i++)
        placed = choose_b(g, i, b, in_place, error);
    if (same && is_root(g, 0))
        g->member[0].b = *b;
    if (!same && !agree(g, placed, error))
        return false;
    for (int i = 0; i < g->count; i++) {
        if (g->member[i].b_kind != GPUMEM_SPGEMM_B_READ)
            continue;
        g->member[i].b = *b;
        by_nccl = false;
    }
    return by_nccl ? broadcast(g, b, same, error) : copy_b(g, b, same, error);
}

/* Rows of A for one device. The pointers are those that the whole matrix would have. */
static bool send_rows(struct gpumem_spgemm_group *g, struct spg_member *m, const struct gpumem_spgemm_csr *a, bool same,
                      struct spg_error *error) {
    struct gpumem_spgemm_csr *rows = &m->a;
    size_t values = (size_t)rows->stored * value_size(g), skipped = (size_t)m->first_entry;
    if (!spg_member_enter(m, error) ||
        (!same && !(spg_copy_make(&m->a_copy, rows->rows, rows->stored, g->precision, "rows of A", error) ||
                    spg_member_failed(m, error))))
        return false;
    const struct array arrays[] = {
        {a->offsets + m->first_row, &m->a_copy.offsets, ((size_t)rows->rows + 1) * sizeof(int32_t)},
        {a->indices + skipped, &m->a_copy.indices, (size_t)rows->stored * sizeof(int32_t)},
        {(const char *)a->values + skipped * value_size(g), &m->a_copy.values, values},
    };
    for (int array = same ? 2 : 0; array < 3; array++)
        if (!send(&g->member[0], m, &arrays[array], error))
            return false;
    rows->offsets = m->a_copy.offsets.at;
    rows->indices = NULL;
    rows->values = NULL;
    if (rows->stored) {
        rows->indices = (int32_t *)((uintptr_t)m->a_copy.indices.at - skipped * sizeof(int32_t));
        rows->values = (void *)((uintptr_t)m->a_copy.values.at - skipped * value_size(g));
    }
    return true;
}

/* The first device has the whole of A, so it counts and cuts. */
static bool cut_rows(struct gpumem_spgemm_group *g, const struct gpumem_spgemm_csr *a, struct spg_error *error) {
    struct spg_member *lead = &g->member[0];
    struct spg_slabs slabs = {.parts = 1};
    struct spg_operand first = spg_operand_of(a), second = spg_operand_of(&lead->b);
    spg_multiplier_take(lead->multiplier, &first, &second);
    lead->multiplier->product.method.gpu.memory.stream = lead->stream;
    const struct spg_request r = {.count = 1, .csr = {*a}};
    if (g->count > 1 && !(spg_member_enter(lead, error) &&
                          ((spg_request_check_offsets(lead->multiplier, &r, error) &&
                            spg_slabs_even(&slabs, &lead->multiplier->product.method, g->count, error)) ||
                           spg_member_failed(lead, error))))
        return false;
    for (int i = 0; i < g->count; i++) {
        struct spg_member *m = &g->member[i];
        m->a = *a;
        m->first_row = m->first_entry = 0;
        if (!slabs.cut)
            continue;
        m->first_row = slabs.cut[i];
        m->first_entry = slabs.at[i];
        m->a.rows = slabs.cut[i + 1] - slabs.cut[i];
        m->a.stored = slabs.at[i + 1] - slabs.at[i];
    }
    spg_slabs_free(&slabs);
    return true;
}

static bool spread_a(struct gpumem_spgemm_group *g, const struct gpumem_spgemm_csr *a, bool same,
                     struct spg_error *error) {
    struct gpumem_spgemm_csr *own = &g->member[0].a;
    if (!same && !cut_rows(g, a, error))
        return false;
    own->offsets = a->offsets;
    own->indices = a->indices;
    own->values = a->values;
    for (int i = 1; i < g->count; i++)
        if (!send_rows(g, &g->member[i], a, same, error))
            return false;
    return true;
}

static bool same_shape(const struct gpumem_spgemm_csr *a, const struct gpumem_spgemm_csr *b) {
    return a->rows == b->rows && a->columns == b->columns && a->stored == b->stored;
}

static bool read_operands(struct gpumem_spgemm_group *g, const struct gpumem_spgemm_csr *a,
                          const struct gpumem_spgemm_csr *b, uint64_t flags, struct gpumem_spgemm_csr ours[2],
                          struct spg_error *error) {
    const uint64_t known = GPUMEM_SPGEMM_SAME_STRUCTURE | GPUMEM_SPGEMM_B_IN_PLACE;
    if (flags & ~known)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "unknown flags %#llx", (unsigned long long)(flags & ~known));
    unsigned pattern = g->precision == SPG_PATTERN ? SPG_READ_PATTERN : 0;
    if (!spg_read_csr("A", &ours[0], a, SPG_READ_ARRAYS | pattern, error) ||
        !spg_read_csr("B", &ours[1], b, is_root(g, 0) ? SPG_READ_ARRAYS | pattern : 0, error))
        return false;
    for (int i = 0; i < 2; i++)
        if (ours[i].operation || ours[i].scale)
            return spg_fail_as(error, GPUMEM_NOT_SUPPORTED, "a group multiplies plain A and B");
    if (ours[0].columns != ours[1].rows)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "A has %lld columns and B has %lld rows",
                           (long long)ours[0].columns, (long long)ours[1].rows);
    if ((flags & GPUMEM_SPGEMM_B_IN_PLACE) && g->total > g->count)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "B in place: the group has devices of other processes");
    if (!(flags & GPUMEM_SPGEMM_SAME_STRUCTURE))
        return true;
    return (g->has_operands && same_shape(&ours[0], &g->a) && same_shape(&ours[1], &g->b)) ||
           spg_fail_as(error, GPUMEM_INVALID_VALUE, "same structure: the group's operands have other sizes, or none");
}

/* The next product overwrites the last one's parts, on several devices at once. */
static bool apart_from_parts(const struct gpumem_spgemm_group *g, const struct gpumem_spgemm_csr ours[2],
                             struct spg_error *error) {
    for (int i = 0; i < g->count; i++)
        for (int k = 0; k < 2; k++)
            if (spg_lies_in(&ours[k], &g->member[i].multiplier->product.method.gpu.c))
                return spg_fail_as(error, GPUMEM_INVALID_VALUE,
                                   "%s lies in part %d of the group's last product, which the next one overwrites",
                                   spg_request_names[k], i);
    return true;
}

static bool distribute(struct gpumem_spgemm_group *g, const struct gpumem_spgemm_csr ours[2], uint64_t flags,
                       struct CUstream_st *stream, struct spg_error *error) {
    bool same = flags & GPUMEM_SPGEMM_SAME_STRUCTURE;
    bool done = order(g, stream, error) && spread_b(g, &ours[1], same, flags & GPUMEM_SPGEMM_B_IN_PLACE, error) &&
                spread_a(g, &ours[0], same, error);
    for (int i = 0; done && g->total > 1 && i < g->count; i++)
        done = spg_member_wait(&g->member[i], error);
    return done;
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_group_distribute(struct gpumem_spgemm_group *g, const struct gpumem_spgemm_csr *a,
                               const struct gpumem_spgemm_csr *b, uint64_t flags, struct CUstream_st *stream) {
    struct spg_error error = {0};
    struct gpumem_spgemm_csr ours[2];
    int device = spg_group_enter();
    if (!spg_given(g, "the group", &error) || !read_operands(g, a, b, flags, ours, &error) ||
        !apart_from_parts(g, ours, &error))
        return spg_failed(&error);
    g->has_product = g->has_product && (flags & GPUMEM_SPGEMM_SAME_STRUCTURE);
    g->has_operands = distribute(g, ours, flags, stream, &error);
    g->a = ours[0];
    g->b = ours[1];
    /* After a failure the caller may free A and B, so no copy may read them any more. */
    for (int i = 0; !g->has_operands && i < g->count; i++) {
        struct spg_error ignored;
        spg_member_wait(&g->member[i], &ignored);
    }
    return spg_group_leave(device, g->has_operands, &error);
}
