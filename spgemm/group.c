/* Products on several devices: the calls of spgemm.h for groups, but for the distribution (group_spread.c).
 *
 * One thread for each device makes the ordinary call of spgemm.h, because that call waits for its device. */
#include "spgemm/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(GPUMEM_SPGEMM_ID_BYTES == SPG_NCCL_ID, "NCCL's id");

bool spg_member_failed(const struct spg_member *m, struct spg_error *error) {
    char where[32];
    snprintf(where, sizeof where, "device %d", m->device);
    return spg_fail_in(error, where);
}

bool spg_member_enter(const struct spg_member *m, struct spg_error *error) {
    return spg_cuda(cudaSetDevice(m->device), "the device", error) || spg_member_failed(m, error);
}

bool spg_member_wait(const struct spg_member *m, struct spg_error *error) {
    return spg_member_enter(m, error) &&
           (spg_cuda(cudaStreamSynchronize(m->stream), "the stream", error) || spg_member_failed(m, error));
}

bool spg_member_reach(const struct spg_member *m, const struct spg_member *lead) {
    int can = 0;
    cudaError_t status = cudaDeviceCanAccessPeer(&can, m->device, lead->device);
    if (status == cudaSuccess && can)
        status = cudaDeviceEnablePeerAccess(lead->device, 0);
    if (status != cudaSuccess)
        cudaGetLastError();
    return can && (status == cudaSuccess || status == cudaErrorPeerAccessAlreadyEnabled);
}

/* ---- memory of copies */

void spg_copy_drop(struct spg_copy *c) {
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

bool spg_copy_make(struct spg_copy *c, int64_t rows, int64_t stored, enum spg_precision precision, const char *what,
                   struct spg_error *error) {
    if (fits(&c->offsets, ((size_t)rows + 1) * sizeof(int32_t), what, error) &&
        fits(&c->indices, (size_t)stored * sizeof(int32_t), what, error) &&
        fits(&c->values, (size_t)stored * spg_value_size(precision), what, error))
        return true;
    spg_copy_drop(c);
    return false;
}

static void empty_member(struct spg_member *m) {
    if (cudaSetDevice(m->device) != cudaSuccess)
        cudaGetLastError();
    if (m->multiplier)
        spg_multiplier_empty(m->multiplier);
    spg_copy_drop(&m->a_copy);
    spg_copy_drop(&m->b_copy);
}

/* ---- the group */

static bool read_options(struct gpumem_spgemm_group_options *o, const struct gpumem_spgemm_group_options *theirs,
                         int *present, struct spg_error *error) {
    *o = (struct gpumem_spgemm_group_options){.struct_size = sizeof *o};
    if (theirs && !spg_struct_read("gpumem_spgemm_group_options", o, sizeof *o, theirs, error))
        return false;
    if (!spg_devices(present, error))
        return false;
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

static bool make_member(struct spg_member *m, int device, const struct gpumem_spgemm_group_options *o,
                        struct spg_error *error) {
    struct gpumem_spgemm_options options = {
        .struct_size = sizeof options, .limit = o->limit, .precision = o->precision};
    m->device = device;
    if (!spg_member_enter(m, error))
        return false;
    enum gpumem_status status = gpumem_spgemm_create(&options, &m->multiplier);
    if (status)
        spg_fail_as(error, (int)status, "%s", gpumem_spgemm_last_error());
    struct spg_memory none = {0};
    return (!status && spg_cuda(cudaStreamCreateWithFlags(&m->stream, cudaStreamNonBlocking), "stream", error) &&
            (!o->id || spg_block_make(&m->refused, &none, sizeof(int32_t), "agreement", error))) ||
           spg_member_failed(m, error);
}

/* One process can do without NCCL. */
static bool join(struct gpumem_spgemm_group *g, const char *nccl, const void *id, struct spg_error *error) {
    char own[SPG_NCCL_ID];
    if (g->total == 1)
        return true;
    g->by_nccl = spg_nccl_open(nccl, error) && (id || spg_nccl_id(own, error)) &&
                 spg_nccl_join(g->place, g->count, g->first, g->total, id ? id : own, error);
    return g->by_nccl || !id;
}

static void destroy(struct gpumem_spgemm_group *g) {
    struct spg_memory none = {0};
    if (g->by_nccl)
        spg_nccl_leave(g->place, g->count);
    for (int i = 0; i < g->count && g->member; i++) {
        struct spg_member *m = &g->member[i];
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
    if (!spg_given(group, "the place for the group", error))
        return false;
    if (!read_options(&o, options, &present, error) || !check_devices(&o, present, error))
        return false;
    struct gpumem_spgemm_group *g = calloc(1, sizeof *g);
    if (!g)
        return spg_fail_as(error, GPUMEM_OUT_OF_MEMORY, "out of host memory for a group");
    g->first = (int)o.first;
    g->total = (int)o.total;
    g->precision = (enum spg_precision)o.precision;
    g->member = calloc(o.count, sizeof *g->member);
    g->place = calloc(o.count, sizeof *g->place);
    bool done = (g->member && g->place) ||
                spg_fail_as(error, GPUMEM_OUT_OF_MEMORY, "out of host memory for a group of %zu devices", o.count);
    for (; done && g->count < (int)o.count; g->count++) {
        struct spg_member *m = &g->member[g->count];
        done = make_member(m, o.devices ? o.devices[g->count] : g->count, &o, error);
        /* Copies between devices that cannot reach each other pass the host, which is slow but works. */
        if (done && g->count)
            spg_member_reach(m, &g->member[0]);
        g->place[g->count] = (struct spg_nccl_place){m->device, m->stream, NULL};
    }
    if (done && join(g, o.nccl, o.id, error)) {
        *group = g;
        return true;
    }
    destroy(g);
    return false;
}

/* ---- calls that use other devices than the current one */

int spg_group_enter(void) {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess)
        cudaGetLastError();
    return device;
}

/* Makes the device current that was current before the call. */
enum gpumem_status spg_group_leave(int device, bool done, const struct spg_error *error) {
    if (cudaSetDevice(device) != cudaSuccess)
        cudaGetLastError();
    return done ? GPUMEM_OK : spg_failed(error);
}

__attribute__((visibility("default"))) enum gpumem_status gpumem_spgemm_group_id(const char *nccl, void *id) {
    struct spg_error error = {0};
    return spg_given(id, "the place for the id", &error) && spg_nccl_open(nccl, &error) && spg_nccl_id(id, &error)
               ? GPUMEM_OK
               : spg_failed(&error);
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_group_create(const struct gpumem_spgemm_group_options *options, struct gpumem_spgemm_group **group) {
    struct spg_error error = {0};
    int device = spg_group_enter();
    return spg_group_leave(device, create(options, group, &error), &error);
}

__attribute__((visibility("default"))) void gpumem_spgemm_group_destroy(struct gpumem_spgemm_group *g) {
    struct spg_error none = {0};
    int device = spg_group_enter();
    if (!g)
        return;
    destroy(g);
    spg_group_leave(device, true, &none);
}

__attribute__((visibility("default"))) int gpumem_spgemm_group_count(const struct gpumem_spgemm_group *g) {
    return g ? g->count : 0;
}

__attribute__((visibility("default"))) enum gpumem_status gpumem_spgemm_group_trim(struct gpumem_spgemm_group *g) {
    struct spg_error error = {0};
    int device = spg_group_enter();
    bool done = true;
    if (!spg_given(g, "the group", &error))
        return spg_failed(&error);
    g->has_operands = g->has_product = false;
    for (int i = 0; i < g->count; i++) {
        done = spg_member_wait(&g->member[i], &error) && done;
        empty_member(&g->member[i]);
    }
    return spg_group_leave(device, done, &error);
}

/* ---- products */

static void *multiply(void *pointer) {
    struct spg_member *m = pointer;
    m->error = (struct spg_error){0};
    m->c = (struct gpumem_spgemm_result){.struct_size = sizeof m->c};
    m->status = GPUMEM_OK;
    if (spg_member_enter(m, &m->error)) {
        m->multiplier->first_entry = (int32_t)m->first_entry;
        m->status = gpumem_spgemm_multiply(m->multiplier, &m->a, &m->b, NULL, m->flags, m->stream, &m->c);
        if (m->status) {
            spg_fail_as(&m->error, (int)m->status, "%s", gpumem_spgemm_last_error());
            spg_member_failed(m, &m->error);
        }
    }
    if (!m->error.text[0])
        spg_member_wait(m, &m->error);
    if (m->error.text[0] && !m->status)
        m->status = m->error.status ? (enum gpumem_status)m->error.status : GPUMEM_UNKNOWN;
    return NULL;
}

static bool multiply_all(struct gpumem_spgemm_group *g, uint64_t flags, struct spg_error *error) {
    for (int i = g->count - 1; i >= 0; i--) {
        struct spg_member *m = &g->member[i];
        m->flags = flags;
        m->has_thread = i > 0 && !pthread_create(&m->thread, NULL, multiply, m);
        if (!m->has_thread)
            multiply(m);
    }
    const struct spg_member *failed = NULL;
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
    int device = spg_group_enter();
    if (!spg_given(g, "the group", &error))
        return spg_failed(&error);
    if (flags & ~(uint64_t)GPUMEM_SPGEMM_SAME_STRUCTURE)
        spg_fail_as(&error, GPUMEM_INVALID_VALUE, "unknown flags %#llx", (unsigned long long)flags);
    else if (!g->has_operands)
        spg_fail_as(&error, GPUMEM_INVALID_VALUE, "the group has no operands");
    else if (flags && !g->has_product)
        spg_fail_as(&error, GPUMEM_INVALID_VALUE, "same structure as what? there is no last product");
    if (error.text[0])
        return spg_failed(&error);
    g->has_product = multiply_all(g, flags, &error);
    return spg_group_leave(device, g->has_product, &error);
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_group_part(const struct gpumem_spgemm_group *g, int index, struct gpumem_spgemm_part *part) {
    struct spg_error error = {0};
    size_t size;
    if (!spg_given(g, "the group", &error) || !spg_struct_size("gpumem_spgemm_part", part, &size, &error))
        return spg_failed(&error);
    if (index < 0 || index >= g->count)
        spg_fail_as(&error, GPUMEM_INVALID_VALUE, "part %d: there are 0 to %d", index, g->count - 1);
    else if (!g->has_product)
        spg_fail_as(&error, GPUMEM_INVALID_VALUE, "the group has no product");
    if (error.text[0])
        return spg_failed(&error);
    const struct spg_member *m = &g->member[index];
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
