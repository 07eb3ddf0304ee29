/* A world: a new context of the simulated driver with streams and kernels, for one check. */
#ifndef WORLD_H
#define WORLD_H

#include "contract.h"

#include "shim/driver/driver.h"
#include "simcuda.h"

/* With WATCH_STREAMS in the environment its streams are reported to the stream observer, as the hooks do. */
struct world {
    CUcontext context;
    struct origin origin;
    CUstream one, two; /* non-blocking */
    CUfunction fill, check;
};

void world_open(struct world *world);
/* Destroys the context and notifies `resource`, as the shim does. */
void world_close(struct world *world, struct gm_resource *resource);
/* Queue a kernel that writes the pattern to all 32-bit words, or that compares all words with it. */
void world_fill(const struct world *world, CUstream stream, const struct gm_block *block, uint32_t pattern);
void world_check(const struct world *world, CUstream stream, const struct gm_block *block, uint32_t pattern);
/* Waits for all work. Returns the number of words of the block that differ from the pattern. */
uint64_t world_differing(const struct world *world, const struct gm_block *block, uint32_t pattern);

#define CU(call) assert_int_equal(call, CUDA_SUCCESS)

#endif
