/* The calls of spgemm.h for one device: streams, statuses and memory of the caller around gpu_product.c and wide.c. */
#include "spgemm/spgemm.h"
#include "spgemm/multiplier.h"
#include "spgemm/wide.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(SPG_OUT_OF_MEMORY == GPUMEM_OUT_OF_MEMORY && SPG_INVALID_VALUE == GPUMEM_INVALID_VALUE &&
                   SPG_NOT_SUPPORTED == GPUMEM_NOT_SUPPORTED && SPG_NOT_INITIALIZED == GPUMEM_NOT_INITIALIZED,
               "statuses of spg_fail_as()");

/* ---- the multiplier */

static bool create(const struct gpumem_spgemm_options *options, struct gpumem_spgemm **multiplier,
                   struct spg_error *error) {
    struct gpumem_spgemm_options o = {.struct_size = sizeof o};
    int device;
    if (options && !spg_struct_read("gpumem_spgemm_options", &o, sizeof o, options, error))
        return false;
    if (o.precision > GPUMEM_SPGEMM_FLOAT)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "precision %llu is not 0 (double) or 1 (float)",
                           (unsigned long long)o.precision);
    struct gpumem_spgemm *m = calloc(1, sizeof *m);
    if (!m)
        return spg_fail_as(error, GPUMEM_OUT_OF_MEMORY, "out of host memory for a multiplier");
    m->job = (struct spg_job){
        .argument = "", .precision = o.precision == GPUMEM_SPGEMM_FLOAT ? SPG_FLOAT : SPG_DOUBLE, .limit = o.limit};
    m->product.sampled_of = -1;
    if (!spg_gpu_prepare(&m->product.method.gpu, &m->job, error) ||
        !spg_cuda(cudaGetDevice(&device), "the current device", error)) {
        spg_gpu_close(&m->product.method.gpu);
        free(m);
        return false;
    }
    m->device = device;
    m->product.method.gpu.memory.cache = &m->product.cache;
    *multiplier = m;
    return true;
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_create(const struct gpumem_spgemm_options *options, struct gpumem_spgemm **multiplier) {
    struct spg_error error;
    return create(options, multiplier, &error) ? GPUMEM_OK : spg_failed(&error);
}

void spg_multiplier_empty(struct gpumem_spgemm *m) {
    struct spg_memory uncounted = {0};
    cudaDeviceSynchronize();
    spg_product_forget(&m->product);
    spg_cache_empty(&m->product.method.gpu.memory);
    spg_block_drop(&m->product.method.sample, &uncounted);
    m->product.sampled_of = -1;
}

__attribute__((visibility("default"))) void gpumem_spgemm_destroy(struct gpumem_spgemm *m) {
    if (!m)
        return;
    spg_multiplier_empty(m);
    spg_gpu_close(&m->product.method.gpu);
    free(m);
}

/* ---- operands */

/* Checks device, stream and operands, and sets the operands. */
static bool enter(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr *a, const struct gpumem_spgemm_csr *b,
                  struct gpumem_spgemm_csr operands[2], bool wide, struct CUstream_st *stream,
                  struct spg_error *error) {
    unsigned accepts = SPG_READ_ARRAYS | (wide ? SPG_READ_WIDE : 0);
    struct spg_gpu *g = &m->product.method.gpu;
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    int device;
    if (!spg_read_csr("A", &operands[0], a, accepts, error) || !spg_read_csr("B", &operands[1], b, accepts, error))
        return false;
    if (operands[0].columns != operands[1].rows)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "A has %lld columns and B has %lld rows",
                           (long long)operands[0].columns, (long long)operands[1].rows);
    if (!spg_cuda(cudaGetDevice(&device), "the current device", error))
        return false;
    if (device != m->device)
        return spg_fail_as(error, GPUMEM_INVALID_CONTEXT, "device %d is current, the multiplier belongs to device %d",
                           device, m->device);
    if (!spg_cuda(cudaStreamIsCapturing(stream, &capture), "the stream", error))
        return false;
    if (capture != cudaStreamCaptureStatusNone)
        return spg_fail_as(error, GPUMEM_STREAM_CAPTURE, "the stream is captured, and a product waits for the device");
    spg_multiplier_take(m, &operands[0], &operands[1]);
    g->memory.peak = g->memory.now;
    return spg_cuda(cudaEventRecord(g->started, stream), "event", error) &&
           spg_cuda(cudaStreamWaitEvent(NULL, g->started, 0), "event", error);
}

static bool leave(struct gpumem_spgemm *m, struct CUstream_st *stream, struct spg_error *error) {
    struct spg_gpu *g = &m->product.method.gpu;
    return spg_cuda(cudaEventRecord(g->finished, NULL), "event", error) &&
           spg_cuda(cudaStreamWaitEvent(stream, g->finished, 0), "event", error);
}

/* After a failure the caller may free A and B, so no kernel may use them any more. */
static enum gpumem_status abandon(struct gpumem_spgemm *m, const struct spg_error *error) {
    spg_product_forget(&m->product);
    cudaDeviceSynchronize();
    if (error->status == GPUMEM_OUT_OF_MEMORY)
        spg_cache_empty(&m->product.method.gpu.memory);
    return spg_failed(error);
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_workspace(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr *a, const struct gpumem_spgemm_csr *b,
                        struct CUstream_st *stream, struct gpumem_spgemm_workspace *workspace) {
    struct spg_error error;
    struct gpumem_spgemm_csr operands[2];
    struct gpumem_spgemm_workspace w = {0};
    double expected;
    size_t size;
    if (!spg_struct_size("gpumem_spgemm_workspace", workspace, &size, &error) ||
        !enter(m, a, b, operands, false, stream, &error))
        return spg_failed(&error);
    if (!spg_product_analyse(&m->product, &w.helpers, &w.products, &expected, &error) || !leave(m, stream, &error))
        return abandon(m, &error);
    w.expected = (int64_t)(expected + 0.5);
    w.output = ((size_t)operands[0].rows + 1) * sizeof(int32_t) +
               (size_t)w.expected * (sizeof(int32_t) + spg_value_size(m->job.precision));
    spg_struct_write(workspace, &w, sizeof w);
    return GPUMEM_OK;
}

/* ---- products */

/* The caller's memory for C, and what the library has found about C. */
struct target {
    struct gpumem_spgemm_output output;
    bool wide; /* offsets have 64 bits */
    size_t value_size;
    int64_t rows, stored;
    void *offsets;
};

static bool grown(struct gpumem_region *region, size_t size, const char *what, void **at, struct spg_error *error) {
    struct gpumem_view view = {.struct_size = sizeof view};
    enum gpumem_status status = gpumem_region_grow(region, size);
    if (!status)
        status = gpumem_region_view(region, &view);
    if (status)
        return spg_fail_as(error, (int)status, "the region of C's %s: %s", what, gpumem_last_error());
    *at = view.base;
    return true;
}

static void *offsets_of(const struct target *t) {
    return t->wide ? (void *)t->output.wide_offsets : (void *)t->output.offsets;
}

static bool provide(void *context, int64_t stored, int32_t **indices, void **values, struct spg_error *error) {
    struct target *t = context;
    const struct gpumem_spgemm_output *o = &t->output;
    t->stored = stored;
    if (offsets_of(t)) {
        if (stored > o->capacity)
            return spg_fail_as(error, GPUMEM_INVALID_VALUE, "C has %lld entries%s, and the capacity is %lld",
                               (long long)stored, t->wide ? " or more" : "", (long long)o->capacity);
        t->offsets = offsets_of(t);
        *indices = o->indices;
        *values = o->values;
        return true;
    }
    size_t offset = t->wide ? sizeof(int64_t) : sizeof(int32_t);
    void *at;
    if (!grown(o->offsets_region, ((size_t)t->rows + 1) * offset, "offsets", &t->offsets, error) ||
        !grown(o->indices_region, (size_t)stored * sizeof(int32_t), "columns", &at, error) ||
        !grown(o->values_region, (size_t)stored * t->value_size, "values", values, error))
        return false;
    *indices = at;
    return true;
}

static bool read_output(struct target *t, const struct gpumem_spgemm_output *output, struct spg_error *error) {
    struct gpumem_spgemm_output *o = &t->output;
    if (!spg_struct_read("gpumem_spgemm_output", o, sizeof *o, output, error))
        return false;
    bool regions = o->offsets_region && o->indices_region && o->values_region;
    if (!offsets_of(t) && !regions)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "the output has neither arrays nor three regions");
    if (offsets_of(t) && (o->capacity < 0 || (o->capacity && (!o->indices || !o->values))))
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "the output has capacity %lld, and an array is NULL",
                           (long long)o->capacity);
    return true;
}

/* Whether the operands may have the structure of the last product, by their sizes. */
static bool check_repeated(const struct gpumem_spgemm *m, const struct gpumem_spgemm_csr operands[2], bool own,
                           struct spg_error *error) {
    const struct gpumem_spgemm_csr *last[] = {&m->a, &m->b};
    if (!m->product.work.gpu)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "same structure as what? there is no last product");
    for (int i = 0; i < 2; i++)
        if (operands[i].rows != last[i]->rows || operands[i].columns != last[i]->columns ||
            operands[i].stored != last[i]->stored)
            return spg_fail_as(error, GPUMEM_INVALID_VALUE,
                               "%s is %lld x %lld with %lld entries, in the last product %lld x %lld with %lld",
                               i ? "B" : "A", (long long)operands[i].rows, (long long)operands[i].columns,
                               (long long)operands[i].stored, (long long)last[i]->rows, (long long)last[i]->columns,
                               (long long)last[i]->stored);
    return !own || m->in_own_memory ||
           spg_fail_as(error, GPUMEM_INVALID_VALUE,
                       "the last product lies in the caller's memory, so the multiplier "
                       "has none of its own for this one");
}

static bool compute_wide(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr operands[2], struct target *t,
                         struct gpumem_spgemm_result *c, struct spg_error *error) {
    struct spg_place place = {t, provide};
    struct spg_wide_c found = {.values = NULL};
    if (!spg_wide_compute(&m->product, operands, t ? &place : NULL, t ? &t->offsets : NULL, &found, error))
        return false;
    *c = (struct gpumem_spgemm_result){.rows = operands[0].rows,
                                       .columns = operands[1].columns,
                                       .stored = found.stored,
                                       .wide_offsets = found.offsets,
                                       .indices = found.indices,
                                       .values = found.values,
                                       .products = found.products,
                                       .peak = m->product.method.gpu.memory.peak};
    return true;
}

static bool compute(struct gpumem_spgemm *m, struct target *t, bool repeated, struct gpumem_spgemm_result *c,
                    struct spg_error *error) {
    struct spg_place place = {t, provide}, *to = t ? &place : NULL;
    struct spg_result *own = &m->product.method.gpu.c;
    if (!(repeated ? spg_product_recompute : spg_product_compute)(&m->product, to, &c->indices, &c->values, error))
        return false;
    c->offsets = own->offsets.at;
    if (t) {
        c->offsets = t->offsets;
        if (!spg_cuda(cudaMemcpyAsync(c->offsets, own->offsets.at, ((size_t)t->rows + 1) * sizeof(int32_t),
                                      cudaMemcpyDeviceToDevice, NULL),
                      "offsets of C", error))
            return false;
    }
    c->rows = own->rows;
    c->columns = own->columns;
    c->stored = own->stored;
    c->products = m->product.work.totals.bound;
    c->peak = m->product.method.gpu.memory.peak;
    return true;
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_multiply(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr *a, const struct gpumem_spgemm_csr *b,
                       const struct gpumem_spgemm_output *output, uint64_t flags, struct CUstream_st *stream,
                       struct gpumem_spgemm_result *result) {
    struct spg_error error;
    struct gpumem_spgemm_csr operands[2];
    struct target target = {.wide = flags & GPUMEM_SPGEMM_WIDE, .value_size = spg_value_size(m->job.precision)};
    struct gpumem_spgemm_result c = {0};
    bool repeated = flags & GPUMEM_SPGEMM_SAME_STRUCTURE, wide = flags & GPUMEM_SPGEMM_WIDE;
    size_t size;
    const uint64_t known = GPUMEM_SPGEMM_SAME_STRUCTURE | GPUMEM_SPGEMM_WIDE;
    if (flags & ~known || flags == known) {
        spg_fail_as(&error, GPUMEM_INVALID_VALUE,
                    flags == known ? "same structure is not for 64-bit offsets (flags %#llx)" : "unknown flags %#llx",
                    (unsigned long long)flags);
        return spg_failed(&error);
    }
    if (!spg_struct_size("gpumem_spgemm_result", result, &size, &error) ||
        (output && !read_output(&target, output, &error)) || !enter(m, a, b, operands, wide, stream, &error) ||
        (repeated && !check_repeated(m, operands, !output, &error)))
        return spg_failed(&error);
    target.rows = operands[0].rows;
    bool done = wide ? compute_wide(m, operands, output ? &target : NULL, &c, &error)
                     : compute(m, output ? &target : NULL, repeated, &c, &error);
    if (!done || !leave(m, stream, &error)) {
        /* So the caller can make room. */
        if (error.status == GPUMEM_INVALID_VALUE && size >= offsetof(struct gpumem_spgemm_result, offsets))
            result->stored = target.stored;
        return abandon(m, &error);
    }
    m->a = operands[0];
    m->b = operands[1];
    m->in_own_memory = !output;
    spg_struct_write(result, &c, sizeof c);
    return GPUMEM_OK;
}

/* ---- giving memory back */

static bool shrink(struct spg_block *block, size_t size, struct spg_memory *memory, struct spg_error *error) {
    struct gpumem_view view = {.struct_size = sizeof view};
    if (!block->region || !size)
        return true;
    enum gpumem_status status = gpumem_region_shrink(block->region, size);
    if (status)
        return spg_fail_as(error, (int)status, "the unused end of C: %s", gpumem_last_error());
    gpumem_region_view(block->region, &view);
    spg_memory_release(memory, block->size - view.mapped);
    block->size = view.mapped;
    return true;
}

__attribute__((visibility("default"))) enum gpumem_status gpumem_spgemm_trim(struct gpumem_spgemm *m) {
    struct spg_memory *memory = &m->product.method.gpu.memory;
    struct spg_result *c = &m->product.method.gpu.c;
    struct spg_error error;
    if (!spg_cuda(cudaDeviceSynchronize(), "the device", &error))
        return spg_failed(&error);
    spg_work_drop(&m->product.work);
    m->product.work = (struct spg_work){0};
    spg_cache_empty(memory);
    return shrink(&c->indices, (size_t)c->stored * sizeof(int32_t), memory, &error) &&
                   shrink(&c->values, (size_t)c->stored * spg_value_size(m->job.precision), memory, &error)
               ? GPUMEM_OK
               : spg_failed(&error);
}
