/* A fresh context of the (simulated) driver with streams and kernels, for one check. */
#ifndef WORLD_H
#define WORLD_H

#include "contract.h"

#include "shim/driver/driver.h"
#include "simcuda.h"

/* With WATCH_STREAMS in the environment its streams are told to the driver's book-keeping, as hooks would. */
struct world {
    CUcontext context;
    struct origin origin;
    CUstream one, two; /* non-blocking */
    CUfunction fill, check;
};

void world_open(struct world *world);
/* Ends the context as the shim sees it: `resource` is told. */
void world_close(struct world *world, struct gm_resource *resource);
/* Queues a kernel that writes, or compares, 32-bit words. */
void world_fill(const struct world *world, CUstream stream, const struct gm_block *block, uint32_t pattern);
void world_check(const struct world *world, CUstream stream, const struct gm_block *block, uint32_t pattern);
/* Words of the block that differ from the pattern, once all work is done. */
uint64_t world_differing(const struct world *world, const struct gm_block *block, uint32_t pattern);

#define CU(call) assert_int_equal(call, CUDA_SUCCESS)

#endif
