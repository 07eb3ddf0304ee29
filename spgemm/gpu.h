/* What the ways to multiply on a GPU share: errors, device memory that is counted, operands. One device, its
 * default stream, and some beside it. */
#ifndef GM_SPGEMM_GPU_H
#define GM_SPGEMM_GPU_H

#include "spgemm/matrix.h"
#include "spgemm/modes.h"

#include <cuda_runtime_api.h>

/* False after filling `error` with "WHAT: what CUDA says", or "out of device memory ..." where that is it. */
bool gm_cuda(cudaError_t status, const char *what, struct gm_spgemm_error *error);

/* Device memory of one product, counted by what is asked for. */
struct gm_memory {
    size_t limit; /* 0 = none */
    size_t now, peak;
};
/* Counts `size` bytes more; past the limit it fails, as the device does when it is full. */
bool gm_memory_take(struct gm_memory *memory, size_t size, const char *what, struct gm_spgemm_error *error);
void gm_memory_give(struct gm_memory *memory, size_t size);

struct gpumem_region;

struct gm_block {
    void *at; /* NULL = none */
    size_t size;
    struct gpumem_region *region; /* whose memory it is; NULL = of cudaMalloc */
};
/* A block of cudaMalloc; size 0 makes none, which is no error. `what` names it in errors. */
bool gm_block_make(struct gm_block *block, struct gm_memory *memory, size_t size, const char *what,
                   struct gm_spgemm_error *error);
void gm_block_drop(struct gm_block *block, struct gm_memory *memory); /* none is fine; waits for the device */

/* A matrix on the device, in compressed rows. */
struct gm_operand {
    int32_t rows, columns;
    int64_t stored;
    int32_t *offsets, *indices;
    void *values; /* float or double */
    struct gm_block block;
};
/* Copies `m`; memory not counted. Threads step through entries by up to GM_STEP_MOST with 32-bit numbers, so
 * that many fewer than 2^31 - 1 fit. */
#define GM_STEP_MOST 1024
bool gm_operand_make(struct gm_operand *o, const struct gm_csr *m, enum gm_precision precision,
                     struct gm_spgemm_error *error);
void gm_operand_drop(struct gm_operand *o);

/* C on the device, exact. */
struct gm_result {
    int32_t rows, columns;
    int64_t stored;
    struct gm_block offsets, indices, values;
};
void gm_result_drop(struct gm_result *c, struct gm_memory *memory);
bool gm_result_fetch(const struct gm_result *c, enum gm_precision precision, struct gm_csr *m,
                     struct gm_spgemm_error *error);

#define GM_STREAMS 4

/* A and B, which are one where B is A, and the clock of a call. */
struct gm_gpu {
    const struct gm_job *job;
    struct gm_operand first, second; /* `second` is empty where B is A */
    const struct gm_operand *a, *b;
    struct gm_memory memory;
    struct gm_result c;
    cudaEvent_t begin, estimated, formed, end;
    cudaStream_t beside[GM_STREAMS]; /* each waits for what the default stream has, and the reverse */
};
/* Fails where there is no device. On failure there is nothing to drop. */
bool gm_gpu_open(struct gm_gpu *g, const struct gm_job *job, struct gm_spgemm_error *error);
void gm_gpu_close(struct gm_gpu *g);
/* Drops the last C, waits for the device, starts the clock and the count of memory. */
bool gm_gpu_begin(struct gm_gpu *g, struct gm_spgemm_error *error);
/* Stops the clock and tells what it took: run->ms, estimate_ms (to the event `estimated`), compact_ms (from
 * the event `formed`; both only where they are asked for), peak, stored. */
bool gm_gpu_end(struct gm_gpu *g, bool estimates, bool compacts, struct gm_run *run, struct gm_spgemm_error *error);

#endif
