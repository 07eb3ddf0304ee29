/* The handle of spgemm.h: its life, its streams, the memory of the last C, and C as an object. */
#include "spgemm/multiplier.h"
#include "gpumem_resource.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(SPG_OUT_OF_MEMORY == GPUMEM_OUT_OF_MEMORY && SPG_INVALID_VALUE == GPUMEM_INVALID_VALUE &&
                   SPG_NOT_SUPPORTED == GPUMEM_NOT_SUPPORTED && SPG_NOT_INITIALIZED == GPUMEM_NOT_INITIALIZED &&
                   SPG_TOO_SMALL == GPUMEM_TOO_SMALL,
               "statuses of spg_fail_as()");
_Static_assert((int)GPUMEM_SPGEMM_DOUBLE == SPG_DOUBLE && (int)GPUMEM_SPGEMM_FLOAT == SPG_FLOAT &&
                   (int)GPUMEM_SPGEMM_COMPLEX_DOUBLE == SPG_COMPLEX_DOUBLE &&
                   (int)GPUMEM_SPGEMM_COMPLEX_FLOAT == SPG_COMPLEX_FLOAT && (int)GPUMEM_SPGEMM_PATTERN == SPG_PATTERN &&
                   (int)GPUMEM_SPGEMM_MIN_PLUS_DOUBLE == SPG_MIN_PLUS_DOUBLE &&
                   (int)GPUMEM_SPGEMM_MIN_PLUS_FLOAT == SPG_MIN_PLUS_FLOAT,
               "precisions");

/* ---- memory of the caller */

static void *allocate_by_resource(void *resource, size_t size, struct CUstream_st *stream) {
    void *memory = NULL;
    enum gpumem_status status = gpumem_resource_allocate_async(resource, size, gpumem_stream(stream), &memory);
    if (status == GPUMEM_INVALID_VALUE) /* it is not stream-ordered */
        status = gpumem_resource_allocate(resource, size, GPUMEM_DEFAULT_ALIGNMENT, &memory);
    return status ? NULL : memory;
}

static void free_by_resource(void *resource, void *memory, size_t size, struct CUstream_st *stream) {
    if (gpumem_resource_deallocate_async(resource, memory, size, gpumem_stream(stream)) == GPUMEM_INVALID_VALUE)
        gpumem_resource_deallocate(resource, memory, size, GPUMEM_DEFAULT_ALIGNMENT);
}

static bool read_allocator(const struct gpumem_spgemm_options *o, struct spg_allocator *a, struct spg_error *error) {
    *a = (struct spg_allocator){o->allocate, o->free, o->context};
    if (!o->allocate != !o->free)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "one function for memory without the other");
    if (!o->resource)
        return true;
    if (o->allocate)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "functions for memory beside a resource");
    *a = (struct spg_allocator){allocate_by_resource, free_by_resource, o->resource};
    return true;
}

/* ---- the multiplier */

static struct gpumem_spgemm *make(enum spg_precision precision, size_t limit, const struct spg_allocator *allocator,
                                  struct spg_error *error) {
    int device;
    struct gpumem_spgemm *m = calloc(1, sizeof *m);
    if (!m) {
        spg_fail_as(error, GPUMEM_OUT_OF_MEMORY, "out of host memory for a multiplier");
        return NULL;
    }
    m->job = (struct spg_job){.argument = "", .precision = precision, .limit = limit};
    if (!spg_gpu_prepare(&m->product.method.gpu, &m->job, error) ||
        !spg_cuda(cudaGetDevice(&device), "the current device", error)) {
        spg_gpu_close(&m->product.method.gpu);
        free(m);
        return NULL;
    }
    m->device = device;
    m->product.method.gpu.memory.cache = &m->product.cache;
    m->product.method.gpu.memory.allocator = *allocator;
    return m;
}

struct gpumem_spgemm *spg_multiplier_like(const struct gpumem_spgemm *m, struct spg_error *error) {
    return make(m->job.precision, m->job.limit, &m->product.method.gpu.memory.allocator, error);
}

static bool create(const struct gpumem_spgemm_options *options, struct gpumem_spgemm **multiplier,
                   struct spg_error *error) {
    struct gpumem_spgemm_options o = {.struct_size = sizeof o};
    struct spg_allocator allocator;
    if (!spg_given(multiplier, "the place for the multiplier", error))
        return false;
    if (options && !spg_struct_read("gpumem_spgemm_options", &o, sizeof o, options, error))
        return false;
    if (o.precision > GPUMEM_SPGEMM_MIN_PLUS_FLOAT)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE,
                           "precision %llu is not 0 (double), 1 (float), 2 (complex double), 3 (complex float), "
                           "4 (pattern), 5 (min-plus double) or 6 (min-plus float)",
                           (unsigned long long)o.precision);
    if (o.precision > GPUMEM_SPGEMM_PATTERN && !spg_semirings)
        return spg_fail_as(error, GPUMEM_NOT_SUPPORTED,
                           "precision %llu (min-plus): the library was built without -Dsemirings=enabled",
                           (unsigned long long)o.precision);
    if (!read_allocator(&o, &allocator, error))
        return false;
    struct gpumem_spgemm *made = make((enum spg_precision)o.precision, o.limit, &allocator, error);
    if (made)
        *multiplier = made;
    return made;
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_create(const struct gpumem_spgemm_options *options, struct gpumem_spgemm **multiplier) {
    struct spg_error error;
    return create(options, multiplier, &error) ? GPUMEM_OK : spg_failed(&error);
}

static bool wait_for_last_call(struct gpumem_spgemm *m, struct spg_error *error) {
    return !m->used || spg_cuda(cudaEventSynchronize(m->product.method.gpu.finished), "the last product", error);
}

static void drop_aside(struct gpumem_spgemm *m) { spg_result_drop(&m->aside, &m->product.method.gpu.memory); }

void spg_multiplier_empty(struct gpumem_spgemm *m) {
    struct spg_error ignored;
    if (m->inner)
        spg_multiplier_empty(m->inner);
    wait_for_last_call(m, &ignored);
    drop_aside(m);
    spg_product_forget(&m->product);
    spg_cache_empty(&m->product.method.gpu.memory);
}

__attribute__((visibility("default"))) void gpumem_spgemm_destroy(struct gpumem_spgemm *m) {
    if (!m)
        return;
    spg_multiplier_empty(m);
    gpumem_spgemm_destroy(m->inner);
    spg_gpu_close(&m->product.method.gpu);
    free(m);
}

/* ---- calls and streams */

bool spg_multiplier_enter(struct gpumem_spgemm *m, bool launches, struct CUstream_st *stream, struct spg_error *error) {
    struct spg_gpu *g = &m->product.method.gpu;
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    int device;
    if (!spg_cuda(cudaGetDevice(&device), "the current device", error))
        return false;
    if (device != m->device)
        return spg_fail_as(error, GPUMEM_INVALID_CONTEXT, "device %d is current, the multiplier belongs to device %d",
                           device, m->device);
    if (!spg_cuda(cudaStreamIsCapturing(stream, &capture), "the stream", error))
        return false;
    bool captured = capture != cudaStreamCaptureStatusNone;
    if (captured && !launches)
        return spg_fail_as(error, GPUMEM_STREAM_CAPTURE, "the stream is captured, and this call waits for the stream");
    /* A captured stream cannot wait for work outside the capture: the graph's user orders its launches. */
    if (m->used && !captured && !spg_cuda(cudaStreamWaitEvent(stream, g->finished, 0), "event", error))
        return false;
    g->memory.stream = stream;
    g->memory.captured = captured;
    g->memory.peak = g->memory.now;
    return true;
}

static void release_operands(struct gpumem_spgemm *m) { spg_formed_drop(&m->formed, &m->product.method.gpu.memory); }

bool spg_multiplier_leave(struct gpumem_spgemm *m, struct spg_error *error) {
    struct spg_gpu *g = &m->product.method.gpu;
    release_operands(m);
    drop_aside(m);
    if (g->memory.captured) {
        g->memory.captured = false;
        return true;
    }
    m->used = true;
    return spg_cuda(cudaEventRecord(g->finished, g->memory.stream), "event", error);
}

enum gpumem_status spg_multiplier_abandon(struct gpumem_spgemm *m, bool forgets, const struct spg_error *error) {
    struct spg_gpu *g = &m->product.method.gpu;
    if (!g->memory.captured && cudaStreamSynchronize(g->memory.stream) != cudaSuccess)
        cudaGetLastError();
    release_operands(m);
    g->memory.captured = false;
    if (error->status != GPUMEM_TOO_SMALL)
        drop_aside(m);
    if (forgets && error->status != GPUMEM_TOO_SMALL)
        spg_product_forget(&m->product);
    if (error->status == GPUMEM_OUT_OF_MEMORY)
        spg_cache_empty(&g->memory);
    return spg_failed(error);
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
    struct spg_error error;
    if (!spg_given(m, "the multiplier", &error) || !wait_for_last_call(m, &error))
        return spg_failed(&error);
    struct spg_memory *memory = &m->product.method.gpu.memory;
    struct spg_result *c = &m->product.method.gpu.c;
    if (m->inner)
        spg_multiplier_empty(m->inner);
    spg_work_drop(&m->product.work);
    m->product.work = (struct spg_work){0};
    drop_aside(m);
    spg_cache_empty(memory);
    return shrink(&c->indices, (size_t)c->stored * sizeof(int32_t), memory, &error) &&
                   shrink(&c->values, (size_t)c->stored * spg_value_size(m->job.precision), memory, &error)
               ? GPUMEM_OK
               : spg_failed(&error);
}

/* ---- C as an object */

struct gpumem_spgemm_matrix {
    struct spg_memory memory; /* where its blocks come from */
    struct spg_result c;
};

__attribute__((visibility("default"))) enum gpumem_status gpumem_spgemm_detach(struct gpumem_spgemm *m,
                                                                               struct gpumem_spgemm_matrix **matrix) {
    struct spg_error error;
    if (!spg_given(m, "the multiplier", &error) || !spg_given(matrix, "the place for the matrix", &error))
        return spg_failed(&error);
    struct spg_gpu *g = &m->product.method.gpu;
    if (!g->c.offsets.at || !m->in_own_memory) {
        spg_fail_as(&error, GPUMEM_INVALID_VALUE, "there is no product in memory of the multiplier");
        return spg_failed(&error);
    }
    struct gpumem_spgemm_matrix *made = malloc(sizeof *made);
    if (!made) {
        spg_fail_as(&error, GPUMEM_OUT_OF_MEMORY, "out of host memory for a matrix");
        return spg_failed(&error);
    }
    *made = (struct gpumem_spgemm_matrix){spg_uncounted(&g->memory), g->c};
    spg_memory_release(&g->memory, g->c.offsets.size + g->c.indices.size + g->c.values.size);
    g->c = (struct spg_result){0};
    m->in_own_memory = false;
    spg_product_forget(&m->product);
    *matrix = made;
    return GPUMEM_OK;
}

__attribute__((visibility("default"))) void gpumem_spgemm_matrix_destroy(struct gpumem_spgemm_matrix *matrix,
                                                                         struct CUstream_st *stream) {
    if (!matrix)
        return;
    matrix->memory.stream = stream;
    spg_result_drop(&matrix->c, &matrix->memory);
    free(matrix);
}
