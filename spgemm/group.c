/* Products on several devices: the calls of spgemm.h for groups.
 *
 * Distribution: NCCL broadcasts B to all devices, while the first one counts intermediate products and cuts the rows
 * (gpu_split.c); then each device copies its rows of A. With 32-bit offsets a range of rows is described by pointers
 * into the arrays of the whole matrix, so nothing is rewritten. Bytes sent: |B| to each device but the first, and |A|
 * in all.
 *
 * Product: one thread for each device makes the ordinary call of spgemm.h, because that call waits for its device. */
#include "spgemm/gpu_split.h"
#include "spgemm/multiplier.h"
#include "spgemm/nccl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(GPUMEM_SPGEMM_ID_BYTES == SPG_NCCL_ID, "NCCL's id");

/* Arrays of a matrix in memory of this group, which is kept for the next matrix. */
struct copy {
    struct spg_block offsets, indices, values;
};

struct member {
    int device;
    struct gpumem_spgemm *multiplier;
    cudaStream_t stream; /* in order with the device's legacy default stream */
    struct copy a_copy, b_copy;
    struct spg_block refused;       /* a number for NCCL: whether B finds no memory */
    int64_t first_row, first_entry; /* of A: where its rows begin */
    struct gpumem_spgemm_csr a, b;  /* its operands */
    enum gpumem_spgemm_b b_kind;
    struct gpumem_spgemm_result c;
    /* of one call */
    pthread_t thread;
    bool has_thread;
    uint64_t flags;
    enum gpumem_status status;
    struct spg_error error;
};

struct gpumem_spgemm_group {
    int count, first, total;
    enum spg_precision precision;
    struct member *member;
    struct spg_nccl_place *place; /* of each member; communicators only with NCCL */
    bool by_nccl, has_operands, has_product;
    struct gpumem_spgemm_csr a, b; /* of the last distribution */
};

static bool fail_on(const struct member *m, struct spg_error *error) {
    char where[32];
    snprintf(where, sizeof where, "device %d", m->device);
    return spg_fail_in(error, where);
}

static bool enter_device(const struct member *m, struct spg_error *error) {
    return spg_cuda(cudaSetDevice(m->device), "the device", error) || fail_on(m, error);
}

static bool wait_for(const struct member *m, struct spg_error *error) {
    return enter_device(m, error) &&
           (spg_cuda(cudaStreamSynchronize(m->stream), "the stream", error) || fail_on(m, error));
}

/* ---- memory of copies */

static void drop_copy(struct copy *c) {
    struct spg_memory none = {0};
    spg_block_drop(&c->offsets, &none);
    spg_block_drop(&c->indices, &none);
    spg_block_drop(&c->values, &none);
}

static bool fits(struct spg_block *block, size_t size, const char *what, struct spg_error *error) {
    struct spg_memory none = {0};
    if (block->size >= size)
        return true;
    spg_block_drop(block, &none);
    return spg_block_make(block, &none, size, what, error);
}

static size_t value_size(const struct gpumem_spgemm_group *g) { return spg_value_size(g->precision); }

static bool make_copy(const struct gpumem_spgemm_group *g, struct copy *c, int64_t rows, int64_t stored,
                      const char *what, struct spg_error *error) {
    if (fits(&c->offsets, ((size_t)rows + 1) * sizeof(int32_t), what, error) &&
        fits(&c->indices, (size_t)stored * sizeof(int32_t), what, error) &&
        fits(&c->values, (size_t)stored * value_size(g), what, error))
        return true;
    drop_copy(c);
    return false;
}

static void empty_member(struct member *m) {
    if (cudaSetDevice(m->device) != cudaSuccess)
        cudaGetLastError();
    if (m->multiplier)
        spg_multiplier_empty(m->multiplier);
    drop_copy(&m->a_copy);
    drop_copy(&m->b_copy);
}

/* ---- the group */

static bool read_options(struct gpumem_spgemm_group_options *o, const struct gpumem_spgemm_group_options *theirs,
                         int *present, struct spg_error *error) {
    *o = (struct gpumem_spgemm_group_options){.struct_size = sizeof *o};
    if (theirs && !spg_struct_read("gpumem_spgemm_group_options", o, sizeof *o, theirs, error))
        return false;
    if (cudaGetDeviceCount(present) != cudaSuccess || !*present) {
        cudaGetLastError();
        return spg_fail_as(error, GPUMEM_NOT_INITIALIZED, "no CUDA device");
    }
    if (!o->devices)
        o->count = (size_t)*present;
    if (!o->count || o->count > (size_t)*present)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "%zu devices: a group has 1 to %d here", o->count, *present);
    if (!o->id) {
        if (o->first || o->total)
            return spg_fail_as(error, GPUMEM_INVALID_VALUE, "place %zu of %zu without an id", o->first, o->total);
        o->total = o->count;
    }
    if (o->total > INT32_MAX || o->count > o->total || o->first > o->total - o->count)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "%zu devices from place %zu do not fit a group of %zu",
                           o->count, o->first, o->total);
    return true;
}

static bool check_devices(const struct gpumem_spgemm_group_options *o, int present, struct spg_error *error) {
    for (size_t i = 0; o->devices && i < o->count; i++) {
        if (o->devices[i] < 0 || o->devices[i] >= present)
            return spg_fail_as(error, GPUMEM_INVALID_VALUE, "device %d: there are 0 to %d", o->devices[i], present - 1);
        for (size_t k = 0; k < i; k++)
            if (o->devices[k] == o->devices[i])
                return spg_fail_as(error, GPUMEM_INVALID_VALUE, "device %d is named twice", o->devices[i]);
    }
    return true;
}

static bool make_member(struct member *m, int device, const struct gpumem_spgemm_group_options *o,
                        struct spg_error *error) {
    struct gpumem_spgemm_options options = {
        .struct_size = sizeof options, .limit = o->limit, .precision = o->precision};
    m->device = device;
    if (!enter_device(m, error))
        return false;
    enum gpumem_status status = gpumem_spgemm_create(&options, &m->multiplier);
    if (status)
        spg_fail_as(error, (int)status, "%s", gpumem_spgemm_last_error());
    struct spg_memory none = {0};
    return (!status && spg_cuda(cudaStreamCreate(&m->stream), "stream", error) &&
            (!o->id || spg_block_make(&m->refused, &none, sizeof(int32_t), "agreement", error))) ||
           fail_on(m, error);
}

/* One process can do without NCCL. */
static bool join(struct gpumem_spgemm_group *g, const void *id, struct spg_error *error) {
    char own[SPG_NCCL_ID];
    if (g->total == 1)
        return true;
    g->by_nccl = spg_nccl_open(error) && (id || spg_nccl_id(own, error)) &&
                 spg_nccl_join(g->place, g->count, g->first, g->total, id ? id : own, error);
    return g->by_nccl || !id;
}

static void destroy(struct gpumem_spgemm_group *g) {
    struct spg_memory none = {0};
    if (g->by_nccl)
        spg_nccl_leave(g->place, g->count);
    for (int i = 0; i < g->count && g->member; i++) {
        struct member *m = &g->member[i];
        empty_member(m);
        spg_block_drop(&m->refused, &none);
        gpumem_spgemm_destroy(m->multiplier);
        if (m->stream)
            cudaStreamDestroy(m->stream);
    }
    free(g->member);
    free(g->place);
    free(g);
}

static bool create(const struct gpumem_spgemm_group_options *options, struct gpumem_spgemm_group **group,
                   struct spg_error *error) {
    struct gpumem_spgemm_group_options o;
    int present = 0;
    if (!read_options(&o, options, &present, error) || !check_devices(&o, present, error))
        return false;
    struct gpumem_spgemm_group *g = calloc(1, sizeof *g);
    if (!g)
        return spg_fail_as(error, GPUMEM_OUT_OF_MEMORY, "out of host memory for a group");
    g->first = (int)o.first;
    g->total = (int)o.total;
    g->precision = o.precision == GPUMEM_SPGEMM_FLOAT ? SPG_FLOAT : SPG_DOUBLE;
    g->member = calloc(o.count, sizeof *g->member);
    g->place = calloc(o.count, sizeof *g->place);
    bool done = (g->member && g->place) ||
                spg_fail_as(error, GPUMEM_OUT_OF_MEMORY, "out of host memory for a group of %zu devices", o.count);
    for (; done && g->count < (int)o.count; g->count++) {
        struct member *m = &g->member[g->count];
        done = make_member(m, o.devices ? o.devices[g->count] : g->count, &o, error);
        g->place[g->count] = (struct spg_nccl_place){m->device, m->stream, NULL};
    }
    if (done && join(g, o.id, error)) {
        *group = g;
        return true;
    }
    destroy(g);
    return false;
}

/* ---- calls that use other devices than the current one */

static int current_device(void) {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess)
        cudaGetLastError();
    return device;
}

/* Makes the device current that was current before the call. */
static enum gpumem_status leave_call(int device, bool done, const struct spg_error *error) {
    if (cudaSetDevice(device) != cudaSuccess)
        cudaGetLastError();
    return done ? GPUMEM_OK : spg_failed(error);
}

__attribute__((visibility("default"))) enum gpumem_status gpumem_spgemm_group_id(void *id) {
    struct spg_error error = {0};
    return spg_nccl_open(&error) && spg_nccl_id(id, &error) ? GPUMEM_OK : spg_failed(&error);
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_group_create(const struct gpumem_spgemm_group_options *options, struct gpumem_spgemm_group **group) {
    struct spg_error error = {0};
    int device = current_device();
    return leave_call(device, create(options, group, &error), &error);
}

__attribute__((visibility("default"))) void gpumem_spgemm_group_destroy(struct gpumem_spgemm_group *g) {
    struct spg_error none = {0};
    int device = current_device();
    if (!g)
        return;
    destroy(g);
    leave_call(device, true, &none);
}

__attribute__((visibility("default"))) int gpumem_spgemm_group_count(const struct gpumem_spgemm_group *g) {
    return g->count;
}

__attribute__((visibility("default"))) enum gpumem_status gpumem_spgemm_group_trim(struct gpumem_spgemm_group *g) {
    struct spg_error error = {0};
    int device = current_device();
    bool done = true;
    g->has_operands = g->has_product = false;
    for (int i = 0; i < g->count; i++) {
        done = wait_for(&g->member[i], &error) && done;
        empty_member(&g->member[i]);
    }
    return leave_call(device, done, &error);
}

/* ---- distribution */

/* The arrays of a matrix, with their sizes: what is sent. */
struct array {
    const void *from;
    struct spg_block *to;
    size_t size;
};

static bool is_root(const struct gpumem_spgemm_group *g, int i) { return g->first + i == 0; }

/* Copies from the lead's device, ordered after the event `ready`. */
static bool send(const struct member *lead, const struct member *m, const struct array *array,
                 struct spg_error *error) {
    return !array->size ||
           spg_cuda(cudaMemcpyPeerAsync(array->to->at, m->device, array->from, lead->device, array->size, m->stream),
                    "copy between devices", error) ||
           fail_on(m, error);
}

/* Begins after the work of the caller's stream. */
static bool order(struct gpumem_spgemm_group *g, struct CUstream_st *stream, struct spg_error *error) {
    struct member *lead = &g->member[0];
    cudaEvent_t ready = lead->multiplier->product.method.gpu.started;
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (!enter_device(lead, error) || !spg_cuda(cudaStreamIsCapturing(stream, &capture), "the stream", error))
        return false;
    if (capture != cudaStreamCaptureStatusNone)
        return spg_fail_as(error, GPUMEM_STREAM_CAPTURE, "the stream is captured, and the group waits for its devices");
    bool done = spg_cuda(cudaEventRecord(ready, stream), "event", error);
    for (int i = 0; done && i < g->count; i++)
        done = enter_device(&g->member[i], error) &&
               spg_cuda(cudaStreamWaitEvent(g->member[i].stream, ready, 0), "event", error);
    return done;
}

/* Lets the device read memory of the lead's device. */
static bool read_in_place(const struct member *lead, const struct member *m, const struct gpumem_spgemm_csr *b,
                          struct spg_error *error) {
    struct cudaPointerAttributes about = {0};
    int can = 1;
    if (!spg_cuda(cudaPointerGetAttributes(&about, b->offsets), "B", error))
        return false;
    if (about.type != cudaMemoryTypeDevice)
        return true;
    if (!spg_cuda(cudaDeviceCanAccessPeer(&can, m->device, lead->device), "devices", error))
        return false;
    if (!can)
        return spg_fail_as(error, GPUMEM_OUT_OF_MEMORY,
                           "out of device memory: a copy of B, and the device cannot read memory of device %d",
                           lead->device);
    cudaError_t status = cudaDeviceEnablePeerAccess(lead->device, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
        status = cudaSuccess;
    }
    return spg_cuda(status, "access to the memory of another device", error);
}

/* Chooses where a device reads B, and makes memory for a copy. */
static bool choose_b(struct gpumem_spgemm_group *g, int i, const struct gpumem_spgemm_csr *b, bool in_place,
                     struct spg_error *error) {
    struct member *m = &g->member[i];
    m->b = *b;
    m->b_kind = GPUMEM_SPGEMM_B_OWN;
    if (is_root(g, i))
        return true;
    if (!enter_device(m, error))
        return false;
    if (make_copy(g, &m->b_copy, b->rows, b->stored, "a copy of B", error)) {
        m->b.offsets = m->b_copy.offsets.at;
        m->b.indices = m->b_copy.indices.at;
        m->b.values = m->b_copy.values.at;
        m->b_kind = g->by_nccl ? GPUMEM_SPGEMM_B_BROADCAST : GPUMEM_SPGEMM_B_COPIED;
        return true;
    }
    m->b_kind = GPUMEM_SPGEMM_B_READ;
    return (error->status == GPUMEM_OUT_OF_MEMORY && in_place && read_in_place(&g->member[0], m, b, error)) ||
           fail_on(m, error);
}

/* Whether B found memory in all processes. A process that did not would keep the others waiting in the broadcast. */
static bool agree(struct gpumem_spgemm_group *g, bool placed, struct spg_error *error) {
    int32_t refused = !placed, *at[g->count];
    struct spg_error ours = {0};
    bool done = true;
    if (g->total == g->count)
        return placed;
    for (int i = 0; done && i < g->count; i++) {
        struct member *m = &g->member[i];
        at[i] = m->refused.at;
        done = enter_device(m, &ours) &&
               spg_cuda(cudaMemcpy(at[i], &refused, sizeof refused, cudaMemcpyHostToDevice), "agreement", &ours);
    }
    done = done && spg_nccl_largest(g->place, g->count, at, &ours) && wait_for(&g->member[0], &ours) &&
           spg_cuda(cudaMemcpy(&refused, at[0], sizeof refused, cudaMemcpyDeviceToHost), "agreement", &ours);
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
        struct member *m = &g->member[i];
        if (m->b_kind == GPUMEM_SPGEMM_B_READ)
            continue;
        m->b_kind = GPUMEM_SPGEMM_B_COPIED;
        const struct array arrays[] = {
            {b->offsets, &m->b_copy.offsets, ((size_t)b->rows + 1) * sizeof(int32_t)},
            {b->indices, &m->b_copy.indices, (size_t)b->stored * sizeof(int32_t)},
            {b->values, &m->b_copy.values, (size_t)b->stored * value_size(g)},
        };
        done = enter_device(m, error);
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
static bool send_rows(struct gpumem_spgemm_group *g, struct member *m, const struct gpumem_spgemm_csr *a, bool same,
                      struct spg_error *error) {
    struct gpumem_spgemm_csr *rows = &m->a;
    size_t values = (size_t)rows->stored * value_size(g), skipped = (size_t)m->first_entry;
    if (!enter_device(m, error) ||
        (!same && !(make_copy(g, &m->a_copy, rows->rows, rows->stored, "rows of A", error) || fail_on(m, error))))
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
    struct member *lead = &g->member[0];
    struct spg_slabs slabs = {.parts = 1};
    spg_multiplier_take(lead->multiplier, a, &lead->b);
    if (g->count > 1 &&
        !(enter_device(lead, error) &&
          (spg_slabs_even(&slabs, &lead->multiplier->product.method, g->count, error) || fail_on(lead, error))))
        return false;
    for (int i = 0; i < g->count; i++) {
        struct member *m = &g->member[i];
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
    if (!spg_read_csr("A", &ours[0], a, SPG_READ_ARRAYS, error) ||
        !spg_read_csr("B", &ours[1], b, is_root(g, 0) ? SPG_READ_ARRAYS : 0, error))
        return false;
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

static bool distribute(struct gpumem_spgemm_group *g, const struct gpumem_spgemm_csr ours[2], uint64_t flags,
                       struct CUstream_st *stream, struct spg_error *error) {
    bool same = flags & GPUMEM_SPGEMM_SAME_STRUCTURE;
    bool done = order(g, stream, error) && spread_b(g, &ours[1], same, flags & GPUMEM_SPGEMM_B_IN_PLACE, error) &&
                spread_a(g, &ours[0], same, error);
    for (int i = 0; done && g->total > 1 && i < g->count; i++)
        done = wait_for(&g->member[i], error);
    return done;
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_group_distribute(struct gpumem_spgemm_group *g, const struct gpumem_spgemm_csr *a,
                               const struct gpumem_spgemm_csr *b, uint64_t flags, struct CUstream_st *stream) {
    struct spg_error error = {0};
    struct gpumem_spgemm_csr ours[2];
    int device = current_device();
    if (!read_operands(g, a, b, flags, ours, &error))
        return spg_failed(&error);
    g->has_product = g->has_product && (flags & GPUMEM_SPGEMM_SAME_STRUCTURE);
    g->has_operands = distribute(g, ours, flags, stream, &error);
    g->a = ours[0];
    g->b = ours[1];
    /* After a failure the caller may free A and B, so no copy may read them any more. */
    for (int i = 0; !g->has_operands && i < g->count; i++) {
        struct spg_error ignored;
        wait_for(&g->member[i], &ignored);
    }
    return leave_call(device, g->has_operands, &error);
}

/* ---- products */

static void *multiply(void *pointer) {
    struct member *m = pointer;
    m->error = (struct spg_error){0};
    m->c = (struct gpumem_spgemm_result){.struct_size = sizeof m->c};
    m->status = GPUMEM_OK;
    if (enter_device(m, &m->error)) {
        m->status = gpumem_spgemm_multiply(m->multiplier, &m->a, &m->b, NULL, m->flags, m->stream, &m->c);
        if (m->status) {
            spg_fail_as(&m->error, (int)m->status, "%s", gpumem_spgemm_last_error());
            fail_on(m, &m->error);
        }
    }
    if (!m->error.text[0])
        wait_for(m, &m->error);
    if (m->error.text[0] && !m->status)
        m->status = m->error.status ? (enum gpumem_status)m->error.status : GPUMEM_UNKNOWN;
    return NULL;
}

static bool multiply_all(struct gpumem_spgemm_group *g, uint64_t flags, struct spg_error *error) {
    for (int i = g->count - 1; i >= 0; i--) {
        struct member *m = &g->member[i];
        m->flags = flags;
        m->has_thread = i > 0 && !pthread_create(&m->thread, NULL, multiply, m);
        if (!m->has_thread)
            multiply(m);
    }
    const struct member *failed = NULL;
    for (int i = 0; i < g->count; i++) {
        if (g->member[i].has_thread)
            pthread_join(g->member[i].thread, NULL);
        if (g->member[i].status && !failed)
            failed = &g->member[i];
    }
    if (failed)
        *error = failed->error;
    return !failed;
}

__attribute__((visibility("default"))) enum gpumem_status gpumem_spgemm_group_multiply(struct gpumem_spgemm_group *g,
                                                                                       uint64_t flags) {
    struct spg_error error = {0};
    int device = current_device();
    if (flags & ~(uint64_t)GPUMEM_SPGEMM_SAME_STRUCTURE)
        spg_fail_as(&error, GPUMEM_INVALID_VALUE, "unknown flags %#llx", (unsigned long long)flags);
    else if (!g->has_operands)
        spg_fail_as(&error, GPUMEM_INVALID_VALUE, "the group has no operands");
    else if (flags && !g->has_product)
        spg_fail_as(&error, GPUMEM_INVALID_VALUE, "same structure as what? there is no last product");
    if (error.text[0])
        return spg_failed(&error);
    g->has_product = multiply_all(g, flags, &error);
    return leave_call(device, g->has_product, &error);
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_group_part(const struct gpumem_spgemm_group *g, int index, struct gpumem_spgemm_part *part) {
    struct spg_error error = {0};
    size_t size;
    if (!spg_struct_size("gpumem_spgemm_part", part, &size, &error))
        return spg_failed(&error);
    if (index < 0 || index >= g->count)
        spg_fail_as(&error, GPUMEM_INVALID_VALUE, "part %d: there are 0 to %d", index, g->count - 1);
    else if (!g->has_product)
        spg_fail_as(&error, GPUMEM_INVALID_VALUE, "the group has no product");
    if (error.text[0])
        return spg_failed(&error);
    const struct member *m = &g->member[index];
    struct gpumem_spgemm_part p = {.device = m->device,
                                   .first_row = m->first_row,
                                   .rows = m->c.rows,
                                   .columns = m->c.columns,
                                   .stored = m->c.stored,
                                   .offsets = m->c.offsets,
                                   .indices = m->c.indices,
                                   .values = m->c.values,
                                   .products = m->c.products,
                                   .peak = m->c.peak,
                                   .b = m->b_kind};
    spg_struct_write(part, &p, sizeof p);
    return GPUMEM_OK;
}
