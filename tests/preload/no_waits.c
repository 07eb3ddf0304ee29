/* Allocations that natively do not wait for a running kernel, beside work that runs only when it is waited for
 * (SIMCUDA_STREAMS=manual). Under the shim they must not wait either: such work may wait for the host.
 *
 * usage: no_waits fits|never_fits
 *
 * fits        a request that fits beside the blocks that were freed
 * never_fits  a request that can never fit, which natively fails at once, while freed blocks are kept */
#include <cuda.h>

#include "program.h"

#include "simcuda.h"

static const size_t MIB = (size_t)1 << 20;

static void need_pending(int line) {
    if (!simcuda_pending())
        fail("the call waited for the work that runs", line, 0);
}

int main(int argc, char **argv) {
    CUdeviceptr work, block, kept[8];
    CUcontext context;
    CUstream stream;
    size_t unused, card;
    if (argc != 2)
        return 2;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemGetInfo(&unused, &card));
    MUST(cuMemAlloc(&work, MIB));
    for (int i = 0; i < 8; i++)
        MUST(cuMemAlloc(&kept[i], card / 32));
    for (int i = 0; i < 8; i++)
        MUST(cuMemFree(kept[i]));
    MUST(cuCtxSynchronize());
    MUST(cuMemsetD8Async(work, 1, MIB, stream)); /* the work */
    if (!strcmp(argv[1], "fits")) {
        MUST(cuMemAlloc(&block, card / 2));
    } else if (!strcmp(argv[1], "never_fits")) {
        if (cuMemAlloc(&block, card + MIB) != CUDA_ERROR_OUT_OF_MEMORY)
            fail("a request larger than the device", __LINE__, 0);
    } else {
        return 2;
    }
    need_pending(__LINE__);
    MUST(cuCtxSynchronize());
    return 0;
}
