/* A device that GPUMEM_LIMIT makes smaller: checks totals, free bytes and every kind of memory. LIMIT_MIB: the
 * limit; without it only the driver's own answers are checked. HOST_TIER: host memory serves requests above the
 * limit instead of an error; 2: there are two devices. */
#include <cuda.h>
#include <stdbool.h>

#include "program.h"

#define MIB ((size_t)1 << 20)

static size_t limit;

static size_t free_now(void) {
    size_t free_bytes = 0, total = 0;
    MUST(cuMemGetInfo(&free_bytes, &total));
    EXPECT(free_bytes <= total);
    EXPECT(!limit || total == limit);
    return free_bytes;
}

static CUresult array_of(CUarray *array, size_t mib) {
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 1024, .Height = mib * 256, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    return cuArrayCreate(array, &shape);
}

/* Each maker allocates 8 MiB of a limit of 64 MiB, and a request for 80 MiB is refused. */
static void check_kinds(CUdevice device) {
    size_t before = free_now();
    CUdeviceptr plain, pitched, ordered, pooled, managed;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp where = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemoryPool pool;
    CUarray array;
    size_t pitch;

    MUST(cuMemAlloc(&plain, 8 * MIB));
    EXPECT(!limit || before - free_now() == 8 * MIB);
    MUST(cuMemAllocPitch(&pitched, &pitch, 1000, 8192, 4));
    EXPECT(!limit || before - free_now() == 8 * MIB + pitch * 8192);
    MUST(cuMemFree(pitched));
    MUST(cuMemAllocAsync(&ordered, 8 * MIB, 0));
    MUST(cuMemPoolCreate(&pool, &properties));
    MUST(cuMemAllocFromPoolAsync(&pooled, 8 * MIB, pool, 0));
    MUST(cuMemCreate(&handle, 8 * MIB, &where, 0));
    MUST(array_of(&array, 8));
    EXPECT(!limit || before - free_now() == 40 * MIB);
    if (limit) {
        CUdeviceptr no = 1;
        CUmemGenericAllocationHandle none;
        CUarray nothing;
        EXPECT(cuMemAlloc(&no, 80 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(cuMemAlloc(&no, 25 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(cuMemAllocPitch(&no, &pitch, 100, 80000, 4) ==
               CUDA_ERROR_OUT_OF_MEMORY); /* 8 MB of rows, 40 MB with their pitch */
        EXPECT(cuMemAllocAsync(&no, 80 * MIB, 0) == CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(cuMemAllocFromPoolAsync(&no, 80 * MIB, pool, 0) == CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(cuMemCreate(&none, 80 * MIB, &where, 0) == CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(array_of(&nothing, 80) == CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(no == 1);
        EXPECT(before - free_now() == 40 * MIB);
    }
    MUST(cuMemAllocManaged(&managed, 80 * MIB, CU_MEM_ATTACH_GLOBAL)); /* may natively exceed the device */
    EXPECT(!limit || free_now() == 0);
    MUST(cuMemFree(managed));
    MUST(cuArrayDestroy(array));
    MUST(cuMemRelease(handle));
    MUST(cuMemFreeAsync(pooled, 0));
    MUST(cuMemFreeAsync(ordered, 0));
    MUST(cuStreamSynchronize(0));
    MUST(cuMemPoolDestroy(pool));
    MUST(cuMemFree(plain));
    EXPECT(!limit || free_now() == before);
}

/* Above the limit, with host memory among the steps: queries see an ordinary block. */
static void check_host_tier(void) {
    const size_t size = 65 * MIB + 100;
    CUdeviceptr block, base = 0;
    CUipcMemHandle handle;
    size_t range = 0, range_attribute = 0, before = free_now();
    MUST(cuMemAlloc(&block, size));
    EXPECT(free_now() == before);
    MUST(cuMemGetAddressRange(&base, &range, block + 12345));
    EXPECT(base == block && range == size);
    MUST(cuPointerGetAttribute(&range_attribute, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block + 1));
    EXPECT(range_attribute == size);
    EXPECT(cuIpcGetMemHandle(&handle, block) != CUDA_SUCCESS); /* the driver's own answer */
    MUST(cuMemsetD8(block, 0x11, size));
    EXPECT(cuMemFree(block + 4096) != CUDA_SUCCESS);
    MUST(cuMemFree(block));
    EXPECT(cuMemFree(block) != CUDA_SUCCESS);
    EXPECT(free_now() == before);

    CUstream stream;
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 20; i++) {
        MUST(cuMemAllocAsync(&block, size, stream));
        MUST(cuMemsetD8Async(block, (unsigned char)i, size, stream));
        MUST(cuMemFreeAsync(block, stream));
    }
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemAllocAsync(&block, size, stream));
    MUST(cuMemFree(block));
    MUST(cuStreamDestroy(stream));
}

static bool may_write(CUdevice device, CUdeviceptr block) {
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    unsigned long long access = 0;
    MUST(cuMemGetAccess(&access, &location, block));
    return access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/* Peers can access blocks from before and after peer access was enabled. A destroyed context destroys its blocks. */
static void check_peers(CUcontext context) {
    CUdeviceptr early, late, lost;
    CUcontext peer, other;
    MUST(cuMemAlloc(&early, 70 * MIB));
    EXPECT(may_write(0, early) && !may_write(1, early));
    MUST(cuDevicePrimaryCtxRetain(&peer, 1));
    MUST(cuCtxSetCurrent(peer));
    MUST(cuCtxEnablePeerAccess(context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc(&late, 70 * MIB));
    EXPECT(may_write(1, early) && may_write(1, late));
    MUST(cuMemFree(early));
    MUST(cuMemFree(late));
    MUST(cuDevicePrimaryCtxRelease(1));
    for (int i = 0; i < 4; i++) { /* 4 times 300 MiB of pinned memory if it were not released */
        MUST(cuCtxCreate(&other, NULL, 0, 0));
        MUST(cuMemAlloc(&lost, 300 * MIB));
        MUST(cuCtxDestroy(other));
        MUST(cuCtxSetCurrent(context));
        unsigned long long access;
        CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
        EXPECT(cuMemGetAccess(&access, &location, lost) != CUDA_SUCCESS);
    }
}

int main(void) {
    const char *mib = getenv("LIMIT_MIB");
    size_t total = 0, free_bytes = 77;
    CUdevice device;
    CUcontext context;
    limit = mib ? (size_t)atoi(mib) * MIB : 0;

    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDeviceTotalMem(&total, device));
    EXPECT(!limit || total == limit);
    total = 99;
    EXPECT(cuDeviceTotalMem(NULL, device) != CUDA_SUCCESS);
    EXPECT(cuDeviceTotalMem(&total, 1000) != CUDA_SUCCESS && total == 99);
    EXPECT(cuMemGetInfo(&free_bytes, &total) == CUDA_ERROR_INVALID_CONTEXT && free_bytes == 77 && total == 99);
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    CUresult lone = cuMemGetInfo(NULL, &total);
    EXPECT(lone != CUDA_SUCCESS || !limit || total == limit);
    lone = cuMemGetInfo(&free_bytes, NULL);
    EXPECT(lone != CUDA_SUCCESS || !limit || free_bytes == limit);
    if (getenv("HOST_TIER")) {
        check_host_tier();
        if (atoi(getenv("HOST_TIER")) > 1)
            check_peers(context);
    } else {
        check_kinds(device);
        check_kinds(device);
    }
    MUST(cuDevicePrimaryCtxRelease(device));
    printf("ok limit_calls\n");
    return 0;
}
