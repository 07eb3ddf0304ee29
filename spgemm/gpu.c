#include "spgemm/gpu.h"
#include "shim/gpumem.h"

#include <stdlib.h>
#include <string.h>

bool gm_cuda(cudaError_t status, const char *what, struct gm_spgemm_error *error) {
    if (status == cudaSuccess)
        return true;
    /* Errors of calls stay to be found again by later ones. */
    cudaGetLastError();
    if (status == cudaErrorMemoryAllocation)
        return gm_spgemm_fail(error, "out of device memory: %s", what);
    return gm_spgemm_fail(error, "%s: %s", what, cudaGetErrorString(status));
}

bool gm_memory_take(struct gm_memory *memory, size_t size, const char *what, struct gm_spgemm_error *error) {
    if (memory->limit && size > memory->limit - (memory->now < memory->limit ? memory->now : memory->limit))
        return gm_spgemm_fail(error, "out of device memory: %zu bytes for %s, %zu in use, limit %zu", size, what,
                              memory->now, memory->limit);
    memory->now += size;
    if (memory->now > memory->peak)
        memory->peak = memory->now;
    return true;
}

void gm_memory_give(struct gm_memory *memory, size_t size) { memory->now -= size; }

bool gm_block_make(struct gm_block *block, struct gm_memory *memory, size_t size, const char *what,
                   struct gm_spgemm_error *error) {
    *block = (struct gm_block){0};
    if (!size)
        return true;
    if (!gm_memory_take(memory, size, what, error))
        return false;
    cudaError_t status = cudaMalloc(&block->at, size);
    if (status != cudaSuccess) {
        gm_memory_give(memory, size);
        block->at = NULL;
        cudaGetLastError();
        if (status == cudaErrorMemoryAllocation)
            return gm_spgemm_fail(error, "out of device memory: %zu bytes for %s", size, what);
        return gm_cuda(status, what, error);
    }
    block->size = size;
    return true;
}

void gm_block_drop(struct gm_block *block, struct gm_memory *memory) {
    if (block->at) {
        if (block->region)
            gpumem_region_release(block->region);
        else
            cudaFree(block->at);
        gm_memory_give(memory, block->size);
    }
    *block = (struct gm_block){0};
}

/* ---- matrices */

static size_t rounded(size_t size) { return (size + 255) / 256 * 256; }

static bool send(void *to, const void *from, size_t size, struct gm_spgemm_error *error) {
    return !size || gm_cuda(cudaMemcpy(to, from, size, cudaMemcpyHostToDevice), "copy to the device", error);
}

static float *narrowed(const double *values, int64_t count) {
    float *narrow = malloc((size_t)count * sizeof *narrow + 1);
    for (int64_t k = 0; narrow && k < count; k++)
        narrow[k] = (float)values[k];
    return narrow;
}

bool gm_operand_make(struct gm_operand *o, const struct gm_csr *m, enum gm_precision precision,
                     struct gm_spgemm_error *error) {
    struct gm_memory uncounted = {0};
    size_t stored = (size_t)gm_csr_stored(m), offsets = rounded(((size_t)m->rows + 1) * sizeof(int32_t)),
           indices = rounded(stored * sizeof(int32_t)), values = stored * gm_value_size(precision);
    float *narrow = NULL;
    *o = (struct gm_operand){0};
    if (stored > INT32_MAX - GM_STEP_MOST)
        return gm_spgemm_fail(error, "a matrix of %zu entries is too large for a GPU here (at most %d)", stored,
                              INT32_MAX - GM_STEP_MOST);
    *o = (struct gm_operand){.rows = m->rows, .columns = m->columns, .stored = (int64_t)stored};
    if (!gm_block_make(&o->block, &uncounted, offsets + indices + values, "a matrix", error))
        return false;
    o->offsets = o->block.at;
    o->indices = (int32_t *)((char *)o->block.at + offsets);
    o->values = (char *)o->block.at + offsets + indices;
    bool made = send(o->offsets, m->offsets, ((size_t)m->rows + 1) * sizeof(int32_t), error) &&
                send(o->indices, m->indices, stored * sizeof(int32_t), error);
    if (made && precision == GM_FLOAT) {
        narrow = narrowed(m->values, (int64_t)stored);
        made = narrow ? send(o->values, narrow, values, error) : gm_spgemm_fail(error, "out of memory");
        free(narrow);
    } else if (made) {
        made = send(o->values, m->values, values, error);
    }
    if (!made)
        gm_operand_drop(o);
    return made;
}

void gm_operand_drop(struct gm_operand *o) {
    struct gm_memory uncounted = {0};
    gm_block_drop(&o->block, &uncounted);
    *o = (struct gm_operand){0};
}

void gm_result_drop(struct gm_result *c, struct gm_memory *memory) {
    gm_block_drop(&c->offsets, memory);
    gm_block_drop(&c->indices, memory);
    gm_block_drop(&c->values, memory);
    *c = (struct gm_result){0};
}

bool gm_result_fetch(const struct gm_result *c, enum gm_precision precision, struct gm_csr *m,
                     struct gm_spgemm_error *error) {
    size_t stored = (size_t)c->stored;
    if (!gm_csr_make(m, c->rows, c->columns, c->stored, error))
        return false;
    bool done =
        gm_cuda(cudaMemcpy(m->offsets, c->offsets.at, ((size_t)c->rows + 1) * sizeof(int32_t), cudaMemcpyDeviceToHost),
                "copy of C", error);
    if (done && stored)
        done = gm_cuda(cudaMemcpy(m->indices, c->indices.at, stored * sizeof(int32_t), cudaMemcpyDeviceToHost),
                       "copy of C", error) &&
               gm_cuda(cudaMemcpy(m->values, c->values.at, stored * gm_value_size(precision), cudaMemcpyDeviceToHost),
                       "copy of C", error);
    if (!done) {
        gm_csr_free(m);
        return false;
    }
    /* Floats lie at the front of the array: widened from the end, none is overwritten before it is read. */
    if (precision == GM_FLOAT) {
        const char *narrow = (const char *)m->values;
        for (size_t k = stored; k-- > 0;) {
            float value;
            memcpy(&value, narrow + k * sizeof value, sizeof value);
            m->values[k] = value;
        }
    }
    return true;
}

/* ---- calls */

/* Plain ones, which the default stream waits for by itself. */
static bool make_streams(struct gm_gpu *g, struct gm_spgemm_error *error) {
    for (int i = 0; i < GM_STREAMS; i++)
        if (!gm_cuda(cudaStreamCreate(&g->beside[i]), "stream", error))
            return false;
    return true;
}

bool gm_gpu_open(struct gm_gpu *g, const struct gm_job *job, struct gm_spgemm_error *error) {
    int devices = 0;
    *g = (struct gm_gpu){.job = job, .memory = {.limit = job->limit}};
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices)
        return gm_spgemm_fail(error, "no CUDA device");
    if (gm_operand_make(&g->first, job->a, job->precision, error) &&
        (job->b == job->a || gm_operand_make(&g->second, job->b, job->precision, error)) &&
        gm_cuda(cudaEventCreate(&g->begin), "event", error) &&
        gm_cuda(cudaEventCreate(&g->estimated), "event", error) &&
        gm_cuda(cudaEventCreate(&g->formed), "event", error) && gm_cuda(cudaEventCreate(&g->end), "event", error) &&
        make_streams(g, error)) {
        g->a = &g->first;
        g->b = job->b == job->a ? &g->first : &g->second;
        return true;
    }
    gm_gpu_close(g);
    return false;
}

void gm_gpu_close(struct gm_gpu *g) {
    cudaEvent_t events[] = {g->begin, g->estimated, g->formed, g->end};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (events[i])
            cudaEventDestroy(events[i]);
    for (int i = 0; i < GM_STREAMS; i++)
        if (g->beside[i])
            cudaStreamDestroy(g->beside[i]);
    gm_result_drop(&g->c, &g->memory);
    gm_operand_drop(&g->first);
    gm_operand_drop(&g->second);
    *g = (struct gm_gpu){0};
}

bool gm_gpu_begin(struct gm_gpu *g, struct gm_spgemm_error *error) {
    gm_result_drop(&g->c, &g->memory);
    g->memory.now = g->memory.peak = 0;
    return gm_cuda(cudaDeviceSynchronize(), "the device", error) &&
           gm_cuda(cudaEventRecord(g->begin, NULL), "event", error);
}

bool gm_gpu_end(struct gm_gpu *g, bool estimates, bool compacts, struct gm_run *run, struct gm_spgemm_error *error) {
    float all = 0, estimate = 0, compact = 0;
    if (!gm_cuda(cudaEventRecord(g->end, NULL), "event", error) ||
        !gm_cuda(cudaEventSynchronize(g->end), "the product", error) ||
        !gm_cuda(cudaEventElapsedTime(&all, g->begin, g->end), "event", error) ||
        (estimates && !gm_cuda(cudaEventElapsedTime(&estimate, g->begin, g->estimated), "event", error)) ||
        (compacts && !gm_cuda(cudaEventElapsedTime(&compact, g->formed, g->end), "event", error)))
        return false;
    run->ms = (double)all;
    run->estimate_ms = (double)estimate;
    run->compact_ms = (double)compact;
    run->peak = g->memory.peak;
    run->stored = g->c.stored;
    return true;
}
