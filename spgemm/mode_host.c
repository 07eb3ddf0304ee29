/* Mode host: the call of spgemm.h for matrices in host memory. A, B and C lie in pinned memory, which is there before
 * the clock of the second run starts: the slabs of the first run show how much C needs. The time of plain copies of as
 * many bytes, in both directions at once, is measured beside it. */
#include "spgemm/client.h"

#include <stdlib.h>
#include <string.h>

/* The rows of C of one slab. */
struct chunk {
    int64_t first, stored, capacity;
    void *memory; /* values, then columns */
};

struct state {
    const struct spg_job *job;
    struct gpumem_spgemm *multiplier;
    struct gpumem_spgemm_csr a, b;
    void *first, *second; /* memory of A, and of B if it is not A */
    int64_t *offsets;
    struct chunk *chunks;
    int used, count; /* chunks of this run; all that there are */
    struct gpumem_spgemm_host_result c;
    double bus_ms; /* 0: not measured yet */
};

static bool pin(void **at, size_t size, struct spg_error *error) {
    return spg_cuda(cudaMallocHost(at, size + 1), "pinned memory", error);
}

/* A copy in one piece of pinned memory: values, offsets, columns. */
static bool copy_matrix(const struct spg_csr *m, enum spg_precision precision, void **memory,
                        struct gpumem_spgemm_csr *copy, struct spg_error *error) {
    size_t stored = (size_t)spg_csr_stored(m), values = stored * spg_value_size(precision),
           offsets = ((size_t)m->rows + 1) * sizeof *m->offsets;
    if (!pin(memory, values + offsets + stored * sizeof *m->indices, error))
        return false;
    char *at = *memory;
    for (size_t k = 0; precision == SPG_FLOAT && k < stored; k++)
        ((float *)*memory)[k] = (float)m->values[k];
    if (precision == SPG_DOUBLE && stored)
        memcpy(at, m->values, values);
    memcpy(at + values, m->offsets, offsets);
    if (stored)
        memcpy(at + values + offsets, m->indices, stored * sizeof *m->indices);
    *copy = (struct gpumem_spgemm_csr){.struct_size = sizeof *copy,
                                       .rows = m->rows,
                                       .columns = m->columns,
                                       .stored = (int64_t)stored,
                                       .offsets = (int32_t *)(at + values),
                                       .indices = (int32_t *)(at + values + offsets),
                                       .values = at};
    return true;
}

static void close_state(void *pointer) {
    struct state *s = pointer;
    if (!s)
        return;
    gpumem_spgemm_destroy(s->multiplier);
    cudaFreeHost(s->first);
    cudaFreeHost(s->second);
    cudaFreeHost(s->offsets);
    for (int i = 0; i < s->count; i++)
        cudaFreeHost(s->chunks[i].memory);
    free(s->chunks);
    free(s);
}

static void *open_state(const struct spg_job *job, struct spg_error *error) {
    struct gpumem_spgemm_options options = {.struct_size = sizeof options,
                                            .limit = job->limit,
                                            .precision = job->precision == SPG_FLOAT ? GPUMEM_SPGEMM_FLOAT
                                                                                     : GPUMEM_SPGEMM_DOUBLE};
    struct state *s = calloc(1, sizeof *s);
    if (!s) {
        spg_fail_as(error, SPG_OUT_OF_MEMORY, "out of host memory");
        return NULL;
    }
    s->job = job;
    if (spg_call_worked(gpumem_spgemm_create(&options, &s->multiplier), error) &&
        copy_matrix(job->a, job->precision, &s->first, &s->a, error) &&
        (job->b == job->a || copy_matrix(job->b, job->precision, &s->second, &s->b, error)) &&
        pin((void **)&s->offsets, ((size_t)job->a->rows + 1) * sizeof *s->offsets, error))
        return s;
    close_state(s);
    return NULL;
}

/* Memory for the next slab: that of the run before, if it suffices. */
static enum gpumem_status place(void *context, struct gpumem_spgemm_rows *rows) {
    struct state *s = context;
    struct spg_error ignored;
    size_t value = spg_value_size(s->job->precision);
    if (s->used == s->count) {
        struct chunk *more = realloc(s->chunks, ((size_t)s->count + 1) * sizeof *more);
        if (!more)
            return GPUMEM_OUT_OF_MEMORY;
        s->chunks = more;
        s->chunks[s->count++] = (struct chunk){0};
    }
    struct chunk *chunk = &s->chunks[s->used++];
    if (!chunk->memory || chunk->capacity < rows->stored) {
        cudaFreeHost(chunk->memory);
        *chunk = (struct chunk){.capacity = rows->stored};
        if (!pin(&chunk->memory, (size_t)chunk->capacity * (value + sizeof(int32_t)), &ignored))
            return GPUMEM_OUT_OF_MEMORY;
    }
    chunk->first = rows->before;
    chunk->stored = rows->stored;
    rows->values = chunk->memory;
    rows->indices = (int32_t *)((char *)chunk->memory + (size_t)chunk->capacity * value);
    return GPUMEM_OK;
}

/* ---- the bus */

#define PIECE ((size_t)64 << 20)

/* Copies so many bytes in pieces. */
static bool copy_pieces(cudaStream_t stream, void *to, const void *from, int64_t bytes, enum cudaMemcpyKind kind,
                        struct spg_error *error) {
    bool done = true;
    for (size_t left = (size_t)bytes; done && left; left -= left < PIECE ? left : PIECE)
        done = spg_cuda(cudaMemcpyAsync(to, from, left < PIECE ? left : PIECE, kind, stream), "plain copies", error);
    return done;
}

static bool measure_bus(struct state *s, struct spg_error *error) {
    cudaStream_t streams[2] = {NULL, NULL};
    void *host = NULL, *device = NULL;
    bool done = pin(&host, 2 * PIECE, error) && spg_cuda(cudaMalloc(&device, 2 * PIECE), "plain copies", error);
    for (int i = 0; done && i < 2; i++)
        done = spg_cuda(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking), "stream", error);
    double start = spg_now_ms();
    done = done && copy_pieces(streams[0], device, host, s->c.sent, cudaMemcpyHostToDevice, error) &&
           copy_pieces(streams[1], (char *)host + PIECE, (char *)device + PIECE, s->c.received, cudaMemcpyDeviceToHost,
                       error) &&
           spg_cuda(cudaDeviceSynchronize(), "plain copies", error);
    s->bus_ms = spg_now_ms() - start;
    for (int i = 0; i < 2; i++)
        if (streams[i])
            cudaStreamDestroy(streams[i]);
    cudaFree(device);
    cudaFreeHost(host);
    return done;
}

/* ---- runs */

static bool run(void *pointer, struct spg_run *run, struct spg_error *error) {
    struct state *s = pointer;
    struct gpumem_spgemm_host_output output = {
        .struct_size = sizeof output, .offsets = s->offsets, .place = place, .context = s};
    *run = (struct spg_run){0};
    s->c = (struct gpumem_spgemm_host_result){.struct_size = sizeof s->c};
    s->used = 0;
    if (!spg_cuda(cudaDeviceSynchronize(), "the device", error))
        return false;
    double start = spg_now_ms();
    if (!spg_call_worked(
            gpumem_spgemm_multiply_host(s->multiplier, &s->a, s->second ? &s->b : &s->a, &output, 0, NULL, &s->c),
            error))
        return false;
    run->ms = spg_now_ms() - start;
    if (s->bus_ms == 0 && !measure_bus(s, error))
        return false;
    run->peak = s->c.peak;
    run->stored = run->entries = s->c.stored;
    run->slabs = s->c.slabs;
    run->sent = s->c.sent;
    run->received = s->c.received;
    run->bus_ms = s->bus_ms;
    return true;
}

static bool fetch(void *pointer, struct spg_csr *c, struct spg_error *error) {
    const struct state *s = pointer;
    size_t value = spg_value_size(s->job->precision);
    if (!spg_result_fits(s->c.stored, error) ||
        !spg_csr_make(c, (int32_t)s->c.rows, (int32_t)s->c.columns, s->c.stored, error))
        return false;
    for (int64_t row = 0; row <= s->c.rows; row++)
        c->offsets[row] = (int32_t)s->offsets[row];
    for (int i = 0; i < s->used; i++) {
        const struct chunk *chunk = &s->chunks[i];
        const int32_t *indices = (const int32_t *)((const char *)chunk->memory + (size_t)chunk->capacity * value);
        for (int64_t k = 0; k < chunk->stored; k++) {
            c->indices[chunk->first + k] = indices[k];
            c->values[chunk->first + k] = s->job->precision == SPG_FLOAT ? (double)((const float *)chunk->memory)[k]
                                                                         : ((const double *)chunk->memory)[k];
        }
    }
    return true;
}

const struct spg_mode_ops spg_mode_host = {open_state, run, fetch, close_state, NULL, NULL};
