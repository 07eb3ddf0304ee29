/* A stream of another device copies from or to a block, without peer access, and the block is freed meanwhile: a native
 * free waits for the copy. So the copy is done when the free returns, and the next owner of the memory comes later.
 *
 * PEER_COPIES_LATE: the free need not wait. */
#include <cuda.h>
#include <stdbool.h>

#include "program.h"

enum { BYTES = 1 << 20, ROUNDS = 6 };

static CUcontext contexts[2];
static CUstream far_stream;

static CUdeviceptr make(int device, unsigned char value) {
    CUdeviceptr block;
    MUST(cuCtxSetCurrent(contexts[device]));
    MUST(cuMemAlloc(&block, BYTES));
    MUST(cuMemsetD8(block, value, BYTES));
    MUST(cuCtxSynchronize());
    return block;
}

static void check_bytes(CUdeviceptr block, unsigned char value) {
    static unsigned char bytes[BYTES];
    MUST(cuMemcpyDtoH(bytes, block, BYTES));
    EXPECT(bytes[0] == value && bytes[BYTES / 2] == value && bytes[BYTES - 1] == value);
}

static void copy(int form, CUdeviceptr to, CUdeviceptr from, int from_device) {
    const CUDA_MEMCPY3D_PEER cube = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .srcDevice = from,
                                     .srcContext = contexts[from_device],
                                     .srcPitch = BYTES / 16,
                                     .srcHeight = 16,
                                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .dstDevice = to,
                                     .dstContext = contexts[1 - from_device],
                                     .dstPitch = BYTES / 16,
                                     .dstHeight = 16,
                                     .WidthInBytes = BYTES / 16,
                                     .Height = 16,
                                     .Depth = 1};
    switch (form) {
    case 0:
        MUST(cuMemcpyPeerAsync(to, contexts[1 - from_device], from, contexts[from_device], BYTES, far_stream));
        break;
    case 1: MUST(cuMemcpyAsync(to, from, BYTES, far_stream)); break;
    case 2: MUST(cuMemcpyDtoDAsync(to, from, BYTES, far_stream)); break;
    default: MUST(cuMemcpy3DPeerAsync(&cube, far_stream)); break;
    }
}

/* The free of the first device's block, which a stream of the second device reads (`out`) or writes. */
static void round_of(int form, bool out, CUdeviceptr far_block, unsigned char value) {
    CUdeviceptr block = make(0, value);
    MUST(cuCtxSetCurrent(contexts[1]));
    MUST(cuMemsetD8Async(far_block, (unsigned char)(value + 1), BYTES, far_stream));
    copy(form, out ? far_block : block, out ? block : far_block, out ? 0 : 1);
    MUST(cuCtxSetCurrent(contexts[0]));
    MUST(cuMemFree(block));
    MUST(cuCtxSetCurrent(contexts[1]));
    EXPECT(cuStreamQuery(far_stream) == CUDA_SUCCESS || getenv("PEER_COPIES_LATE"));
    CUdeviceptr next = make(0, (unsigned char)(value + 2));
    MUST(cuCtxSetCurrent(contexts[1]));
    MUST(cuStreamSynchronize(far_stream));
    check_bytes(far_block, (unsigned char)(out ? value : value + 1));
    MUST(cuCtxSetCurrent(contexts[0]));
    check_bytes(next, (unsigned char)(value + 2));
    MUST(cuMemFree(next));
}

int main(void) {
    MUST(cuInit(0));
    for (int i = 0; i < 2; i++)
        MUST(cuDevicePrimaryCtxRetain(&contexts[i], i));
    CUdeviceptr far_block = make(1, 0);
    MUST(cuStreamCreate(&far_stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < ROUNDS * 8; i++)
        round_of(i % 4, i / 4 % 2 != 0, far_block, (unsigned char)(3 * i));
    printf("ok peer_copies\n");
    return 0;
}
