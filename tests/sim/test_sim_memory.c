/* Memory of the simulated driver: blocks, pools, mappings, attributes, other processes and devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_test.h"

SIM_TEST(native_blocks) {
    CUdeviceptr p, q, base;
    size_t size, free, total;
    assert_int_equal(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&p, 1000));
    OK(cuMemAlloc(&q, 1000));
    assert_int_equal(p % 256, 0);
    assert_int_equal(q - p, 1024);
    OK(cuMemGetAddressRange(&base, &size, p + 999));
    assert_true(base == p && size == 1000);
    OK(cuMemGetInfo(&free, &total));
    assert_int_equal(total - free, 2 * MIB);
    assert_int_equal(cuMemFree(p + 8), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
    assert_int_equal(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&base, 1000));
    assert_true(base == p); /* last in, first out */
    OK(cuMemFree(base));
    OK(cuMemFree(q));
    OK(cuMemFree(0));
    assert_int_equal(cuMemAlloc(&p, (size_t)1 << 40), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemsetD8(q, 0, 1000), CUDA_ERROR_INVALID_VALUE);
}

SIM_TEST(limit_is_counted) {
    CUdeviceptr p[64], m;
    unsigned n = 0;
    while (n < 64 && cuMemAlloc(&p[n], 128 * MIB) == CUDA_SUCCESS)
        n++;
    assert_int_equal(n, 32); /* 4 GiB */
    assert_int_equal(cuMemAllocManaged(&m, MIB, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
    while (n)
        OK(cuMemFree(p[--n]));
}

SIM_TEST(free_waits) {
    CUdeviceptr p;
    simcuda_set_streams("manual");
    OK(cuMemAlloc(&p, MIB));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 7, new_stream());
    assert_int_equal(simcuda_pending(), 1);
    OK(cuMemFree(p));
    assert_int_equal(simcuda_pending(), 0);
    assert_int_equal(simcuda_violations(), 0);
}

SIM_TEST(unmap_does_not_wait) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;
    OK(cuMemCreate(&h, 2 * MIB, &prop, 0));
    OK(cuMemAddressReserve(&p, 4 * MIB, 0, 0, 0));
    OK(cuMemMap(p, 2 * MIB, 0, h, 0));
    OK(cuMemSetAccess(p, 2 * MIB, &access, 1));
    simcuda_set_streams("manual");
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 1, new_stream());
    OK(cuMemUnmap(p, 2 * MIB));
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(simcuda_violations(), 1);
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuMemRelease(h));
    OK(cuMemAddressFree(p, 4 * MIB));
}

SIM_TEST(pools) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;
    CUdeviceptr p, q;
    CUstream a = new_stream(), b = new_stream();
    cuuint64_t v, keep = UINT64_MAX;
    int off = 0;
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off));
    OK(cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, a));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &v));
    assert_int_equal(v, 4 * MIB);
    OK(cuMemFreeAsync(p, a));
    assert_int_equal(cuMemFreeAsync(p, a), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(a));
    assert_int_equal(simcuda_used(0), 0); /* threshold 0 */
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, a));
    simcuda_set_streams("manual");
    OK(cuMemFreeAsync(p, a));
    OK(cuMemAllocFromPoolAsync(&q, 3 * MIB, pool, b)); /* the free has not run */
    assert_true(q != p);
    OK(cuMemFreeAsync(q, b));
    simcuda_run_all();
    OK(cuMemAllocFromPoolAsync(&q, 3 * MIB, pool, b)); /* it has */
    OK(cuStreamSynchronize(b));
    assert_int_equal(simcuda_used(0), 8 * MIB);
    OK(cuMemFree(q));
    OK(cuMemPoolTrimTo(pool, 0));
    assert_int_equal(simcuda_used(0), 0);
    OK(cuMemPoolDestroy(pool));
    props.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&p, MIB, pool, a));
    OK(cuStreamSynchronize(a));
    memset((void *)(uintptr_t)p, 3, MIB); /* the host may touch it */
    OK(cuMemFreeAsync(p, a));
    OK(cuMemPoolDestroy(pool));
}

SIM_TEST(vmm_aliases) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;
    char got[16];
    assert_int_equal(cuMemCreate(&h, MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemCreate(&h, 4 * MIB, &prop, 0));
    OK(cuMemAddressReserve(&p, 8 * MIB, 0, 0, 0));
    OK(cuMemMap(p, 4 * MIB, 0, h, 0));
    OK(cuMemMap(p + 4 * MIB, 4 * MIB, 0, h, 0));
    OK(cuMemSetAccess(p, 8 * MIB, &access, 1));
    OK(cuMemsetD8(p, 9, 8 * MIB)); /* across both mappings */
    OK(cuMemsetD8(p + 4 * MIB, 5, 16));
    OK(cuMemcpyDtoH(got, p, 16));
    assert_int_equal(got[15], 5);
    OK(cuMemRelease(h));
    assert_int_equal(cuMemUnmap(p, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(p, 4 * MIB));
    assert_int_equal(simcuda_used(0), 4 * MIB);
    assert_int_equal(cuMemAddressFree(p, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(p + 4 * MIB, 4 * MIB));
    assert_int_equal(simcuda_used(0), 0);
    OK(cuMemAddressFree(p, 8 * MIB));
}

SIM_TEST(some_access_is_to_read_only) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READ};
    CUmemGenericAllocationHandle h;
    unsigned long long flags;
    CUdeviceptr p;
    char got[16];
    OK(cuMemCreate(&h, 2 * MIB, &prop, 0));
    OK(cuMemAddressReserve(&p, 2 * MIB, 0, 0, 0));
    OK(cuMemMap(p, 2 * MIB, 0, h, 0));
    OK(cuMemSetAccess(p, 2 * MIB, &access, 1));
    OK(cuMemGetAccess(&flags, &prop.location, p));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    OK(cuMemcpyDtoH(got, p, 16));
    cuMemsetD8(p, 9, 16);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(simcuda_violations(), 1);
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuCtxSetCurrent(ctx));
    OK(cuMemUnmap(p, 2 * MIB));
    OK(cuMemRelease(h));
    OK(cuMemAddressFree(p, 2 * MIB));
}

SIM_TEST(copies_must_not_overlap) {
    CUdeviceptr p;
    OK(cuMemAlloc(&p, MIB));
    OK(cuMemcpyDtoD(p + 4096, p, 4096));
    cuMemcpyDtoD(p + 4095, p, 4096);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(simcuda_violations(), 1);
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuCtxSetCurrent(ctx));
}

SIM_TEST(pointer_attributes) {
    CUdeviceptr p, m;
    void *host;
    CUmemorytype type;
    unsigned long long first, second;
    unsigned managed = 0;
    int local;
    OK(cuMemAlloc(&p, MIB));
    OK(cuMemAllocManaged(&m, MIB, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemHostAlloc(&host, 4096, 0));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 5));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, m));
    assert_int_equal(managed, 1);
    assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&local),
                     CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    void *data = &type;
    OK(cuPointerGetAttributes(1, &name, &data, (CUdeviceptr)(uintptr_t)&local));
    assert_int_equal(type, 0);
    OK(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    OK(cuMemFree(p));
    OK(cuMemAlloc(&p, MIB));
    OK(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    assert_true(first != second);
    OK(cuMemFree(p));
    OK(cuMemFree(m));
    OK(cuMemFreeHost(host));
}

static int range_attribute(CUmem_range_attribute attribute, CUdeviceptr p, size_t count) {
    int value = -99;
    OK(cuMemRangeGetAttribute(&value, sizeof value, attribute, p, count));
    return value;
}

/* Pages of a pool keep their advice over a free; other managed memory comes without any. */
SIM_TEST(advice_belongs_to_pages) {
    const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED};
    CUmemoryPool pool;
    CUstream s;
    CUdeviceptr p, q;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemPoolCreate(&pool, &props));
    cuuint64_t all = UINT64_MAX;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    OK(cuMemAllocFromPoolAsync(&p, MIB, pool, s));
    assert_int_equal(cuMemAdvise(p, MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, device), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemAdvise(p + 8192, 5000, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    OK(cuMemAdvise(p, MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
    OK(cuMemPrefetchAsync(p, MIB, host, 0, s));
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p + 8192, 8192), 0);
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, MIB), CU_DEVICE_INVALID);
    OK(cuMemFreeAsync(p, s));
    OK(cuMemAllocFromPoolAsync(&q, MIB, pool, s));
    assert_true(p == q);
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, q + 8192, 8192), 0);
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, q, MIB), 0);
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, q, MIB), CU_DEVICE_CPU);
    OK(cuMemAdvise(q, MIB, CU_MEM_ADVISE_UNSET_ACCESSED_BY, device));
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, q, MIB), CU_DEVICE_INVALID);
    OK(cuMemFreeAsync(q, s));
    OK(cuMemPoolDestroy(pool));

    OK(cuMemAllocManaged(&p, MIB, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAdvise(p, MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, MIB), CU_DEVICE_CPU);
    OK(cuMemAdvise(p, 1, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 4096), 1);
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, MIB), 0);
    OK(cuMemFree(p));
    OK(cuMemAllocManaged(&q, MIB, CU_MEM_ATTACH_GLOBAL));
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, q, MIB), CU_DEVICE_INVALID);
    OK(cuMemFree(q));
    OK(cuStreamDestroy(s));
}

/* In the child: a driver of its own (the parent's was never started), opening the parent's block. */
static int child(int in, int out) {
    CUipcMemHandle handle;
    CUdeviceptr p;
    char done = 0;
    if (read(in, &handle, sizeof handle) != sizeof handle || cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) ||
        cuCtxSetCurrent(ctx))
        return 1;
    if (cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) || cuMemsetD32(p, 77, 1024) ||
        cuCtxSynchronize() || cuIpcCloseMemHandle(p))
        return 2;
    return write(out, &done, 1) == 1 ? 0 : 3;
}

SIM_TEST(ipc_between_processes) {
    int to[2], from[2], status;
    CUipcMemHandle handle;
    CUdeviceptr p, q;
    uint32_t got[1024];
    char done;
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    char in[16], out[16];
    snprintf(in, sizeof in, "%d", to[0]);
    snprintf(out, sizeof out, "%d", from[1]);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "ipc-child", in, out, (char *)NULL);
        _exit(9);
    }
    OK(cuMemAlloc(&q, 4096));
    OK(cuMemAlloc(&p, 4096)); /* not first in its chunk: the handle names the block */
    OK(cuIpcGetMemHandle(&handle, p));
    assert_int_equal(cuIpcOpenMemHandle(&q, handle, 1), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(write(to[1], &handle, sizeof handle), sizeof handle);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(from[0], &done, 1), 1);
    OK(cuMemcpyDtoH(got, p, sizeof got));
    assert_int_equal(got[0], 77);
    assert_int_equal(got[1023], 77);
    OK(cuMemFree(p));
    OK(cuMemFree(q));
    CUstream s = new_stream();
    OK(cuMemAllocAsync(&p, 4096, s));
    assert_int_equal(cuIpcGetMemHandle(&handle, p), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeAsync(p, s));
    for (int i = 0; i < 2; i++) {
        close(to[i]);
        close(from[i]);
    }
    OK(cuStreamSynchronize(s));
}

SIM_TEST(two_devices) {
    CUcontext other;
    CUdeviceptr p;
    int can;
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxPushCurrent(other));
    OK(cuMemAlloc(&p, 4096));
    OK(cuCtxPopCurrent(NULL));
    assert_int_equal(simcuda_used(0), 0);
    assert_int_equal(simcuda_used(1), 2 * MIB);
    OK(cuCtxEnablePeerAccess(other, 0));
    assert_int_equal(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 1, NULL);
    OK(cuCtxSynchronize());
    OK(cuCtxDisablePeerAccess(other));
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 1, NULL);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuDevicePrimaryCtxRelease(1));
    OK(cuDevicePrimaryCtxReset(0));
}

static CUdeviceptr pool_block(CUmemoryPool *pool, CUdevice device, CUstream s) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    CUdeviceptr p;
    OK(cuMemPoolCreate(pool, &props));
    OK(cuMemAllocFromPoolAsync(&p, MIB, *pool, s));
    return p;
}

/* Between devices plain memory is copied in any case, memory of a pool or a mapping where it is open to both. */
SIM_TEST(copies_between_devices) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc to[2] = {{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                             {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr plain, far, pooled, mapped;
    CUmemoryPool pool;
    CUcontext other;
    int can;
    OK(cuMemAlloc(&plain, MIB));
    pooled = pool_block(&pool, 0, NULL);
    OK(cuMemAddressReserve(&mapped, 2 * MIB, 0, 0, 0));
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    OK(cuMemMap(mapped, 2 * MIB, 0, handle, 0));
    OK(cuMemRelease(handle));
    OK(cuMemSetAccess(mapped, 2 * MIB, to, 1));
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxPushCurrent(other));
    OK(cuMemAlloc(&far, MIB));
    OK(cuCtxPopCurrent(NULL));
    OK(cuMemcpyPeer(far, other, plain, ctx, MIB));
    assert_int_equal(cuMemcpyPeer(far, other, pooled, ctx, MIB), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyAsync(pooled, far, MIB, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpy(far, mapped, MIB), CUDA_ERROR_INVALID_VALUE);

    assert_int_equal(simcuda_set_peers("some"), -1);
    assert_int_equal(simcuda_set_peers("none"), 0);
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 0);
    assert_int_equal(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    assert_int_equal(cuMemPoolSetAccess(pool, &to[1], 1), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuMemSetAccess(mapped, 2 * MIB, to, 2), CUDA_ERROR_INVALID_DEVICE);
    OK(cuMemcpy(far, plain, MIB));

    assert_int_equal(simcuda_set_peers("all"), 0);
    OK(cuMemPoolSetAccess(pool, &to[1], 1));
    OK(cuMemSetAccess(mapped, 2 * MIB, to, 2));
    OK(cuMemcpyPeer(far, other, pooled, ctx, MIB));
    OK(cuMemcpyAsync(pooled, far, MIB, NULL));
    OK(cuMemcpy(far, mapped, MIB));
    OK(cuMemUnmap(mapped, 2 * MIB));
    OK(cuMemAddressFree(mapped, 2 * MIB));
    OK(cuMemFreeAsync(pooled, NULL));
    OK(cuMemPoolDestroy(pool));
    OK(cuDevicePrimaryCtxRelease(1));
    OK(cuMemFree(plain));
}

int main(int argc, char **argv) {
    if (argc == 3)
        return child(atoi(argv[1]), atoi(argv[2]));
    return run_all(NULL, NULL);
}
