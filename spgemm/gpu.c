#include "spgemm/gpu.h"
#include "shim/gpumem.h"

#include <stdlib.h>
#include <string.h>

bool spg_cuda(cudaError_t status, const char *what, struct spg_error *error) {
    if (status == cudaSuccess)
        return true;
    /* CUDA remembers the error of a call until it is read. */
    cudaGetLastError();
    if (status == cudaErrorMemoryAllocation)
        return spg_fail_as(error, SPG_OUT_OF_MEMORY, "out of device memory: %s", what);
    return spg_fail_as(error, (int)status, "%s: %s", what, cudaGetErrorString(status));
}

bool spg_devices(int *present, struct spg_error *error) {
    cudaError_t status = cudaGetDeviceCount(present);
    if (status == cudaSuccess && *present)
        return true;
    cudaGetLastError();
    return spg_fail_as(error, SPG_NOT_INITIALIZED, "no CUDA device: %s",
                       cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status));
}

bool spg_fetch(cudaStream_t stream, void *to, const void *from, size_t size, const char *what,
               struct spg_error *error) {
    return spg_cuda(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, stream), what, error) &&
           spg_cuda(cudaStreamSynchronize(stream), what, error);
}

/* Pageable memory is copied to a staging buffer before the call returns. */
bool spg_send(cudaStream_t stream, void *to, const void *from, size_t size, const char *what, struct spg_error *error) {
    return !size || spg_cuda(cudaMemcpyAsync(to, from, size, cudaMemcpyHostToDevice, stream), what, error);
}

bool spg_clear(cudaStream_t stream, void *at, size_t size, struct spg_error *error) {
    return !size || spg_cuda(cudaMemsetAsync(at, 0, size, stream), "clearing", error);
}

static bool exceeds(const struct spg_memory *memory, size_t size) {
    return memory->limit && size > memory->limit - (memory->now < memory->limit ? memory->now : memory->limit);
}

bool spg_memory_charge(struct spg_memory *memory, size_t size, const char *what, struct spg_error *error) {
    if (exceeds(memory, size))
        spg_cache_empty(memory);
    if (exceeds(memory, size))
        return spg_fail_as(error, SPG_OUT_OF_MEMORY, "out of device memory: %zu bytes for %s, %zu in use, limit %zu",
                           size, what, memory->now, memory->limit);
    memory->now += size;
    if (memory->now > memory->peak)
        memory->peak = memory->now;
    return true;
}

void spg_memory_release(struct spg_memory *memory, size_t size) { memory->now -= size; }

/* ---- the cache */

static void free_block(struct spg_block *block, struct spg_memory *memory) {
    if (block->region)
        gpumem_region_destroy(block->region);
    else if (memory->allocator.allocate)
        memory->allocator.free(memory->allocator.context, block->at, block->size, memory->stream);
    else if (memory->captured)
        cudaFreeAsync(block->at, memory->stream);
    else
        cudaFree(block->at);
    spg_memory_release(memory, block->size);
    *block = (struct spg_block){0};
}

void spg_cache_empty(struct spg_memory *memory) {
    while (memory->cache && memory->cache->count)
        free_block(&memory->cache->kept[--memory->cache->count], memory);
}

static bool same_name(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static struct spg_block take(struct spg_cache *cache, int at) {
    struct spg_block taken = cache->kept[at];
    cache->kept[at] = cache->kept[--cache->count];
    return taken;
}

/* A block of another purpose fits, too, unless most of it would be unused. A block of the same purpose that is too
 * small is freed, so that the cache does not hold what no later product takes. */
static bool take_block(struct spg_memory *memory, size_t size, const char *what, struct spg_block *block) {
    struct spg_cache *cache = memory->cache;
    int best = -1;
    for (int i = 0; cache && i < cache->count; i++) {
        const struct spg_block *kept = &cache->kept[i];
        bool fits = !kept->region && kept->size >= size && (kept->size / 2 <= size || same_name(kept->what, what));
        if (fits && (best < 0 || kept->size < cache->kept[best].size))
            best = i;
    }
    if (best >= 0) {
        *block = take(cache, best);
        block->what = what;
        return true;
    }
    for (int i = 0; cache && i < cache->count; i++) {
        if (!cache->kept[i].region && same_name(cache->kept[i].what, what)) {
            struct spg_block small = take(cache, i--);
            free_block(&small, memory);
        }
    }
    return false;
}

bool spg_cache_take_region(struct spg_memory *memory, const char *what, struct spg_block *block) {
    for (int i = 0; memory->cache && i < memory->cache->count; i++) {
        if (memory->cache->kept[i].region && same_name(memory->cache->kept[i].what, what)) {
            *block = take(memory->cache, i);
            return true;
        }
    }
    return false;
}

/* ---- blocks */

static cudaError_t allocate(const struct spg_memory *memory, size_t size, void **at) {
    const struct spg_allocator *a = &memory->allocator;
    if (a->allocate) {
        *at = a->allocate(a->context, size, memory->stream);
        return *at ? cudaSuccess : cudaErrorMemoryAllocation;
    }
    return memory->captured ? cudaMallocAsync(at, size, memory->stream) : cudaMalloc(at, size);
}

bool spg_block_make(struct spg_block *block, struct spg_memory *memory, size_t size, const char *what,
                    struct spg_error *error) {
    *block = (struct spg_block){0};
    if (!size || (!memory->captured && take_block(memory, size, what, block)))
        return true;
    size += memory->room ? memory->room + size / 8 : 0;
    if (!spg_memory_charge(memory, size, what, error))
        return false;
    cudaError_t status = allocate(memory, size, &block->at);
    if (status == cudaErrorMemoryAllocation && memory->cache && memory->cache->count) {
        cudaGetLastError();
        spg_cache_empty(memory);
        status = allocate(memory, size, &block->at);
    }
    if (status != cudaSuccess) {
        spg_memory_release(memory, size);
        block->at = NULL;
        cudaGetLastError();
        if (status == cudaErrorMemoryAllocation)
            return spg_fail_as(error, SPG_OUT_OF_MEMORY, "out of device memory: %zu bytes for %s", size, what);
        return spg_cuda(status, what, error);
    }
    block->size = size;
    block->what = what;
    return true;
}

void spg_block_drop(struct spg_block *block, struct spg_memory *memory) {
    struct spg_cache *cache = memory->cache;
    if ((block->at || block->region) && cache && !memory->captured && cache->count < SPG_CACHED)
        cache->kept[cache->count++] = *block;
    else if (block->at || block->region)
        free_block(block, memory);
    *block = (struct spg_block){0};
}

/* ---- matrices */

static bool send(void *to, const void *from, size_t size, struct spg_error *error) {
    return !size || spg_cuda(cudaMemcpy(to, from, size, cudaMemcpyHostToDevice), "copy to the device", error);
}

static float *narrowed(const double *values, int64_t count) {
    float *narrow = malloc((size_t)count * sizeof *narrow + 1);
    for (int64_t k = 0; narrow && k < count; k++)
        narrow[k] = (float)values[k];
    return narrow;
}

bool spg_operand_make(struct spg_operand *o, const struct spg_csr *m, enum spg_precision precision,
                      struct spg_error *error) {
    struct spg_memory uncounted = {0};
    size_t stored = (size_t)spg_csr_stored(m), offsets = spg_aligned(((size_t)m->rows + 1) * sizeof(int32_t)),
           indices = spg_aligned(stored * sizeof(int32_t)), values = stored * spg_value_size(precision);
    float *narrow = NULL;
    *o = (struct spg_operand){0};
    if (stored > INT32_MAX - SPG_STEP_MAX)
        return spg_fail_as(error, SPG_NOT_SUPPORTED, "a matrix of %zu entries is too large for a GPU here (at most %d)",
                           stored, INT32_MAX - SPG_STEP_MAX);
    *o = (struct spg_operand){.rows = m->rows, .columns = m->columns, .stored = (int64_t)stored};
    if (!spg_block_make(&o->block, &uncounted, offsets + indices + values, "a matrix", error))
        return false;
    o->offsets = o->block.at;
    o->indices = (int32_t *)((char *)o->block.at + offsets);
    o->values = (char *)o->block.at + offsets + indices;
    bool made = send(o->offsets, m->offsets, ((size_t)m->rows + 1) * sizeof(int32_t), error) &&
                send(o->indices, m->indices, stored * sizeof(int32_t), error);
    if (made && precision == SPG_FLOAT) {
        narrow = narrowed(m->values, (int64_t)stored);
        made = narrow ? send(o->values, narrow, values, error) : spg_fail(error, "out of memory");
        free(narrow);
    } else if (made) {
        made = send(o->values, m->values, values, error);
    }
    if (!made)
        spg_operand_drop(o);
    return made;
}

void spg_operand_drop(struct spg_operand *o) {
    struct spg_memory uncounted = {0};
    spg_block_drop(&o->block, &uncounted);
    *o = (struct spg_operand){0};
}

bool spg_result_start(struct spg_result *c, struct spg_memory *memory, int32_t rows, int32_t columns,
                      struct spg_error *error) {
    *c = (struct spg_result){.rows = rows, .columns = columns};
    return spg_block_make(&c->offsets, memory, ((size_t)rows + 1) * sizeof(int32_t), "offsets of C", error);
}

bool spg_result_fits(int64_t stored, struct spg_error *error) {
    return stored <= INT32_MAX ||
           spg_fail_as(error, SPG_NOT_SUPPORTED, "C has %lld entries, and 32-bit offsets end at %d", (long long)stored,
                       INT32_MAX);
}

void spg_result_drop(struct spg_result *c, struct spg_memory *memory) {
    spg_block_drop(&c->offsets, memory);
    spg_block_drop(&c->indices, memory);
    spg_block_drop(&c->values, memory);
    *c = (struct spg_result){0};
}

bool spg_result_fetch(const struct spg_result *c, enum spg_precision precision, struct spg_csr *m,
                      struct spg_error *error) {
    size_t stored = (size_t)c->stored;
    if (!spg_csr_make(m, c->rows, c->columns, c->stored, error))
        return false;
    bool done =
        spg_cuda(cudaMemcpy(m->offsets, c->offsets.at, ((size_t)c->rows + 1) * sizeof(int32_t), cudaMemcpyDeviceToHost),
                 "copy of C", error);
    if (done && stored)
        done = spg_cuda(cudaMemcpy(m->indices, c->indices.at, stored * sizeof(int32_t), cudaMemcpyDeviceToHost),
                        "copy of C", error) &&
               spg_cuda(cudaMemcpy(m->values, c->values.at, stored * spg_value_size(precision), cudaMemcpyDeviceToHost),
                        "copy of C", error);
    if (!done) {
        spg_csr_free(m);
        return false;
    }
    /* The floats lie at the front of the array. Widening from the end overwrites none before it is read. */
    if (precision == SPG_FLOAT) {
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

static bool make_event(cudaEvent_t *event, struct spg_error *error) {
    return *event || spg_cuda(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "event", error);
}

bool spg_gpu_fork(struct spg_gpu *g, int *count, struct spg_error *error) {
    cudaStream_t stream = g->memory.stream;
    for (int i = 0; i < *count; i++) {
        if (g->side[i])
            continue;
        if (g->memory.captured)
            *count = i;
        else if (!make_event(&g->forked, error) || !make_event(&g->joined[i], error) ||
                 !spg_cuda(cudaStreamCreateWithFlags(&g->side[i], cudaStreamNonBlocking), "stream", error))
            return false;
    }
    bool done = !*count || spg_cuda(cudaEventRecord(g->forked, stream), "event", error);
    for (int i = 0; done && i < *count; i++)
        done = spg_cuda(cudaStreamWaitEvent(g->side[i], g->forked, 0), "event", error);
    return done;
}

bool spg_gpu_join(struct spg_gpu *g, int count, struct spg_error *error) {
    bool done = true;
    for (int i = 0; i < count; i++)
        done = spg_cuda(cudaEventRecord(g->joined[i], g->side[i]), "event", error) &&
               spg_cuda(cudaStreamWaitEvent(g->memory.stream, g->joined[i], 0), "event", error) && done;
    return done;
}

bool spg_gpu_mover(struct spg_gpu *g, struct spg_error *error) {
    cudaEvent_t *events[] = {&g->started_slab, &g->placed_slab, &g->moved_slab};
    int least, greatest;
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (!make_event(events[i], error))
            return false;
    return g->mover ||
           (spg_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream", error) &&
            spg_cuda(cudaStreamCreateWithPriority(&g->mover, cudaStreamNonBlocking, greatest), "stream", error));
}

bool spg_gpu_prepare(struct spg_gpu *g, const struct spg_job *job, struct spg_error *error) {
    int devices = 0;
    *g = (struct spg_gpu){.job = job, .memory = {.limit = job->limit}};
    if (!spg_devices(&devices, error))
        return false;
    if (spg_cuda(cudaEventCreate(&g->started), "event", error) &&
        spg_cuda(cudaEventCreate(&g->estimated), "event", error) &&
        spg_cuda(cudaEventCreate(&g->computed), "event", error) &&
        spg_cuda(cudaEventCreate(&g->finished), "event", error))
        return true;
    spg_gpu_close(g);
    return false;
}

bool spg_gpu_open(struct spg_gpu *g, const struct spg_job *job, struct spg_error *error) {
    if (!spg_gpu_prepare(g, job, error))
        return false;
    if (spg_operand_make(&g->first, job->a, job->precision, error) &&
        (job->b == job->a || spg_operand_make(&g->second, job->b, job->precision, error))) {
        g->a = &g->first;
        g->b = job->b == job->a ? &g->first : &g->second;
        return true;
    }
    spg_gpu_close(g);
    return false;
}

void spg_gpu_close(struct spg_gpu *g) {
    cudaEvent_t events[] = {g->started,      g->estimated,   g->computed,   g->finished,
                            g->started_slab, g->placed_slab, g->moved_slab, g->forked};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (events[i])
            cudaEventDestroy(events[i]);
    for (int i = 0; i < SPG_SIDE_STREAMS; i++) {
        if (g->joined[i])
            cudaEventDestroy(g->joined[i]);
        if (g->side[i])
            cudaStreamDestroy(g->side[i]);
    }
    if (g->mover)
        cudaStreamDestroy(g->mover);
    spg_result_drop(&g->c, &g->memory);
    spg_operand_drop(&g->first);
    spg_operand_drop(&g->second);
    *g = (struct spg_gpu){0};
}

bool spg_gpu_start(struct spg_gpu *g, struct spg_error *error) {
    spg_result_drop(&g->c, &g->memory);
    g->memory.now = g->memory.peak = 0;
    return spg_cuda(cudaDeviceSynchronize(), "the device", error) &&
           spg_cuda(cudaEventRecord(g->started, g->memory.stream), "event", error);
}

bool spg_gpu_stop(struct spg_gpu *g, bool estimates, bool compacts, struct spg_run *run, struct spg_error *error) {
    float all = 0, estimate = 0, compact = 0;
    if (!spg_cuda(cudaEventRecord(g->finished, g->memory.stream), "event", error) ||
        !spg_cuda(cudaEventSynchronize(g->finished), "the product", error) ||
        !spg_cuda(cudaEventElapsedTime(&all, g->started, g->finished), "event", error) ||
        (estimates && !spg_cuda(cudaEventElapsedTime(&estimate, g->started, g->estimated), "event", error)) ||
        (compacts && !spg_cuda(cudaEventElapsedTime(&compact, g->computed, g->finished), "event", error)))
        return false;
    run->ms = (double)all;
    run->estimate_ms = (double)estimate;
    run->compact_ms = (double)compact;
    run->peak = g->memory.peak;
    run->stored = g->c.stored;
    return true;
}
