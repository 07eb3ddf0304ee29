/* What the ways to multiply on a GPU share: errors, device memory that is counted, operands. One device, its
 * default stream, and some beside it. */
#ifndef SPG_GPU_H
#define SPG_GPU_H

#include "spgemm/matrix.h"
#include "spgemm/modes.h"

#include <cuda_runtime_api.h>

/* False after filling `error` with "WHAT: what CUDA says", or "out of device memory ..." where that is it. */
bool spg_cuda(cudaError_t status, const char *what, struct spg_error *error);

/* Device memory of one product, counted by what is asked for. */
struct spg_memory {
    size_t limit; /* 0 = none */
    size_t now, peak;
};
/* Counts `size` bytes more; past the limit it fails, as the device does when it is full. */
bool spg_memory_take(struct spg_memory *memory, size_t size, const char *what, struct spg_error *error);
void spg_memory_give(struct spg_memory *memory, size_t size);

struct gpumem_region;

struct spg_block {
    void *at; /* NULL = none */
    size_t size;
    struct gpumem_region *region; /* whose memory it is; NULL = of cudaMalloc */
};
/* A block of cudaMalloc; size 0 makes none, which is no error. `what` names it in errors. */
bool spg_block_make(struct spg_block *block, struct spg_memory *memory, size_t size, const char *what,
                    struct spg_error *error);
void spg_block_drop(struct spg_block *block, struct spg_memory *memory); /* none is fine; waits for the device */

/* A matrix on the device, in compressed rows. */
struct spg_operand {
    int32_t rows, columns;
    int64_t stored;
    int32_t *offsets, *indices;
    void *values; /* float or double */
    struct spg_block block;
};
/* Copies `m`; memory not counted. Threads step through entries by up to SPG_STEP_MOST with 32-bit numbers, so
 * that many fewer than 2^31 - 1 fit. */
#define SPG_STEP_MOST 1024
bool spg_operand_make(struct spg_operand *o, const struct spg_csr *m, enum spg_precision precision,
                      struct spg_error *error);
void spg_operand_drop(struct spg_operand *o);

/* C on the device, exact. */
struct spg_result {
    int32_t rows, columns;
    int64_t stored;
    struct spg_block offsets, indices, values;
};
void spg_result_drop(struct spg_result *c, struct spg_memory *memory);
bool spg_result_fetch(const struct spg_result *c, enum spg_precision precision, struct spg_csr *m,
                      struct spg_error *error);

#define SPG_STREAMS 4

/* A and B, which are one where B is A, and the clock of a call. */
struct spg_gpu {
    const struct spg_job *job;
    struct spg_operand first, second; /* `second` is empty where B is A */
    const struct spg_operand *a, *b;
    struct spg_memory memory;
    struct spg_result c;
    cudaEvent_t begin, estimated, formed, end;
    cudaStream_t beside[SPG_STREAMS]; /* each waits for what the default stream has, and the reverse */
};
/* Fails where there is no device. On failure there is nothing to drop. */
bool spg_gpu_open(struct spg_gpu *g, const struct spg_job *job, struct spg_error *error);
void spg_gpu_close(struct spg_gpu *g);
/* Drops the last C, waits for the device, starts the clock and the count of memory. */
bool spg_gpu_begin(struct spg_gpu *g, struct spg_error *error);
/* Stops the clock and tells what it took: run->ms, estimate_ms (to the event `estimated`), compact_ms (from
 * the event `formed`; both only where they are asked for), peak, stored. */
bool spg_gpu_end(struct spg_gpu *g, bool estimates, bool compacts, struct spg_run *run, struct spg_error *error);

#endif
