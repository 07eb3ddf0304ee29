/* What all GPU modes share: errors, counted device memory, operands, the result, and the clock of a call. One device is
 * used. A call works in one stream, and in side streams that fork from it and join it again. */
#ifndef SPG_GPU_H
#define SPG_GPU_H

#include "spgemm/matrix.h"
#include "spgemm/mode.h"

#include <cuda_runtime_api.h>

/* Returns true for cudaSuccess. Else fills `error` with "WHAT: CUDA's text", or with "out of device memory: WHAT", and
 * returns false. */
bool spg_cuda(cudaError_t status, const char *what, struct spg_error *error);

/* Counts the devices. Fails if there is none, or if the driver is older than the runtime; the text says which. */
bool spg_devices(int *present, struct spg_error *error);

/* Copies in the stream. A fetch waits for it. The host's memory of a send can be used again at once. */
bool spg_fetch(cudaStream_t stream, void *to, const void *from, size_t size, const char *what, struct spg_error *error);
bool spg_send(cudaStream_t stream, void *to, const void *from, size_t size, const char *what, struct spg_error *error);
bool spg_clear(cudaStream_t stream, void *at, size_t size, struct spg_error *error);

struct spg_cache;

/* Functions of a caller that serve device memory, ordered in the stream. `allocate` returns NULL when there is none. */
struct spg_allocator {
    void *(*allocate)(void *context, size_t size, struct CUstream_st *stream); /* NULL: cudaMalloc() */
    void (*free)(void *context, void *at, size_t size, struct CUstream_st *stream);
    void *context;
};

/* Byte counter of one product's device memory: requested bytes, not what the driver rounds them up to. Memory that the
 * cache keeps is counted. */
struct spg_memory {
    size_t limit; /* 0 = none */
    size_t now, peak;
    struct spg_cache *cache; /* NULL: dropped blocks are freed at once */
    struct spg_allocator allocator;
    cudaStream_t stream; /* of the call: all work that uses the memory is ordered with it */
    void *mailbox;       /* pinned memory of the host (gpu_read.h); NULL: there is none */
    size_t room;   /* new blocks are larger by this and an eighth of their size, for later calls; 0: they are not */
    bool captured; /* the stream is captured: the graph allocates and frees */
};
/* The same source of memory, without a limit, a count and a cache. */
static inline struct spg_memory spg_uncounted(const struct spg_memory *memory) {
    struct spg_memory same = *memory;
    same.limit = same.now = same.peak = 0;
    same.cache = NULL;
    return same;
}
/* Counts `size` bytes more. Fails beyond the limit, as a full device does; the cache is emptied before. */
bool spg_memory_charge(struct spg_memory *memory, size_t size, const char *what, struct spg_error *error);
void spg_memory_release(struct spg_memory *memory, size_t size);

/* Parts of a block begin at multiples of 256 bytes. */
static inline size_t spg_aligned(size_t size) { return (size + 255) / 256 * 256; }

struct gpumem_region;

struct spg_block {
    void *at; /* NULL = no block */
    size_t size;
    struct gpumem_region *region; /* owns the memory; NULL = it was allocated */
    const char *what;             /* its name in errors */
};
/* Allocates a block. Size 0 is no error and makes no block. `what` names the block in errors. */
bool spg_block_make(struct spg_block *block, struct spg_memory *memory, size_t size, const char *what,
                    struct spg_error *error);
/* Frees the block, if there is one. Memory of cudaMalloc() and regions wait for the device. With a cache, the cache
 * keeps it, and nothing waits. */
void spg_block_drop(struct spg_block *block, struct spg_memory *memory);

/* Dropped blocks, kept for the next product. All work is ordered by the streams of calls, and calls are ordered one
 * after the other, so a kept block can be used at once. */
#define SPG_CACHED 16
struct spg_cache {
    int count;
    struct spg_block kept[SPG_CACHED];
};
void spg_cache_empty(struct spg_memory *memory);
/* Takes a kept region of this name out of the cache. Returns whether there was one. */
bool spg_cache_take_region(struct spg_memory *memory, const char *what, struct spg_block *block);

/* A matrix in compressed rows on the device. */
struct spg_operand {
    int32_t rows, columns;
    int64_t stored;
    int32_t first; /* number of its first entry: not 0 in rows of a larger matrix, whose arrays these are */
    int32_t *offsets, *indices;
    void *values; /* float or double */
    struct spg_block block;
};
/* Copies `m` to the device; the memory is not counted. Kernels step through entries with 32-bit indices, by at most
 * SPG_STEP_MAX at a time, so a matrix must have that many entries fewer than 2^31 - 1. */
#define SPG_STEP_MAX 1024
bool spg_operand_make(struct spg_operand *o, const struct spg_csr *m, enum spg_precision precision,
                      struct spg_error *error);
void spg_operand_drop(struct spg_operand *o);

/* C on the device, in compressed rows without holes. */
struct spg_result {
    int32_t rows, columns;
    int64_t stored;
    struct spg_block offsets, indices, values;
};
/* Sets the shape of C and makes memory for its offsets; C must have none. */
bool spg_result_start(struct spg_result *c, struct spg_memory *memory, int32_t rows, int32_t columns,
                      struct spg_error *error);
/* Fails beyond 2^31 - 1 entries. */
bool spg_result_fits(int64_t stored, struct spg_error *error);
void spg_result_drop(struct spg_result *c, struct spg_memory *memory);
bool spg_result_fetch(const struct spg_result *c, enum spg_precision precision, struct spg_csr *m,
                      struct spg_error *error);

#define SPG_SIDE_STREAMS 3

struct spg_gpu {
    const struct spg_job *job;
    struct spg_operand first, second; /* `second` is empty when B is A */
    const struct spg_operand *a, *b;
    struct spg_memory memory;
    struct spg_result c;
    cudaEvent_t started, estimated, computed, finished;
    /* Streams of the library do not synchronise with the legacy default stream. */
    cudaStream_t side[SPG_SIDE_STREAMS];
    cudaEvent_t forked, joined[SPG_SIDE_STREAMS];
    cudaStream_t mover; /* of the highest priority (gpu_move.h) */
    cudaEvent_t started_slab, placed_slab, moved_slab;
};
/* Work of the first `count` side streams begins after the work submitted to the stream so far. Makes them if needed.
 * *count becomes the number of those that there are: 0 while the stream is captured and none was made before. */
bool spg_gpu_fork(struct spg_gpu *g, int *count, struct spg_error *error);
/* Work that is submitted to the stream from here on begins after that of these side streams. */
bool spg_gpu_join(struct spg_gpu *g, int count, struct spg_error *error);
/* Makes the mover and its events, unless they are there. */
bool spg_gpu_mover(struct spg_gpu *g, struct spg_error *error);
/* Makes events, for operands that are on the device already: the caller sets a and b. Fails when there is
 * no device. After a failure there is nothing to close. */
bool spg_gpu_prepare(struct spg_gpu *g, const struct spg_job *job, struct spg_error *error);
/* The same, and copies the operands to the device. */
bool spg_gpu_open(struct spg_gpu *g, const struct spg_job *job, struct spg_error *error);
void spg_gpu_close(struct spg_gpu *g);
/* Drops the last C, waits for the device, then starts the clock and the byte counter. */
bool spg_gpu_start(struct spg_gpu *g, struct spg_error *error);
/* Stops the clock and sets ms, peak and stored of `run`. `estimates`: also estimate_ms, up to the event `estimated`.
 * `compacts`: also compact_ms, from the event `computed`. */
bool spg_gpu_stop(struct spg_gpu *g, bool estimates, bool compacts, struct spg_run *run, struct spg_error *error);

#endif
