/* Devices, limits and peers of the simulated runtime. */
#include "runtime.h"
#include <cuda_profiler_api.h>
#include <string.h>

RT_API cudaError_t cudaGetDeviceCount(int *count) {
    cudaError_t e = rt_driver_ready();
    if (count)
        *count = 0;
    if (e != cudaSuccess)
        return e;
    return rt_error(count ? (cudaError_t)rt_legacy.cuDeviceGetCount(count) : cudaErrorInvalidValue);
}

static int attribute(CUdevice_attribute a, int device) {
    int v = 0;
    rt_legacy.cuDeviceGetAttribute(&v, a, device);
    return v;
}

RT_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    cudaError_t e = rt_driver_ready();
    if (e != cudaSuccess)
        return e;
    if (!p)
        return rt_error(cudaErrorInvalidValue);
    memset(p, 0, sizeof *p);
    CUresult r = rt_legacy.cuDeviceGetName(p->name, sizeof p->name, device);
    if (r != CUDA_SUCCESS)
        return rt_error((cudaError_t)r);
    rt_legacy.cuDeviceGetUuid((CUuuid *)&p->uuid, device);
    rt_legacy.cuDeviceTotalMem(&p->totalGlobalMem, device);
#define TAKE(field, name)      p->field = attribute(CU_DEVICE_ATTRIBUTE_##name, device)
#define TAKE_SIZE(field, name) p->field = (size_t)attribute(CU_DEVICE_ATTRIBUTE_##name, device)
    TAKE_SIZE(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK);
    TAKE(regsPerBlock, MAX_REGISTERS_PER_BLOCK);
    TAKE(warpSize, WARP_SIZE);
    TAKE_SIZE(memPitch, MAX_PITCH);
    TAKE(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK);
    TAKE(maxThreadsDim[0], MAX_BLOCK_DIM_X);
    TAKE(maxThreadsDim[1], MAX_BLOCK_DIM_Y);
    TAKE(maxThreadsDim[2], MAX_BLOCK_DIM_Z);
    TAKE(maxGridSize[0], MAX_GRID_DIM_X);
    TAKE(maxGridSize[1], MAX_GRID_DIM_Y);
    TAKE(maxGridSize[2], MAX_GRID_DIM_Z);
    TAKE_SIZE(totalConstMem, TOTAL_CONSTANT_MEMORY);
    TAKE(major, COMPUTE_CAPABILITY_MAJOR);
    TAKE(minor, COMPUTE_CAPABILITY_MINOR);
    TAKE_SIZE(textureAlignment, TEXTURE_ALIGNMENT);
    TAKE_SIZE(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT);
    TAKE(multiProcessorCount, MULTIPROCESSOR_COUNT);
    TAKE(canMapHostMemory, CAN_MAP_HOST_MEMORY);
    TAKE(concurrentKernels, CONCURRENT_KERNELS);
    TAKE(ECCEnabled, ECC_ENABLED);
    TAKE(pciBusID, PCI_BUS_ID);
    TAKE(asyncEngineCount, ASYNC_ENGINE_COUNT);
    TAKE(unifiedAddressing, UNIFIED_ADDRESSING);
    TAKE(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH);
    TAKE(l2CacheSize, L2_CACHE_SIZE);
    TAKE(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR);
    TAKE(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED);
    TAKE_SIZE(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    TAKE(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR);
    TAKE(managedMemory, MANAGED_MEMORY);
    TAKE(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS);
    TAKE(cooperativeLaunch, COOPERATIVE_LAUNCH);
    TAKE_SIZE(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    TAKE(hostRegisterSupported, HOST_REGISTER_SUPPORTED);
    TAKE(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED);
    TAKE(ipcEventSupported, IPC_EVENT_SUPPORTED);
    return cudaSuccess;
}

RT_API cudaError_t cudaDeviceSynchronize(void) {
    RT_CALL(rt_synchronize ? rt_synchronize(NULL) : rt_legacy.cuCtxSynchronize());
}

RT_API cudaError_t cudaSetDeviceFlags(unsigned int flags) {
    cudaError_t e = rt_driver_ready();
    return e ? e : rt_error((cudaError_t)rt_legacy.cuDevicePrimaryCtxSetFlags(rt_device(), flags));
}
RT_API cudaError_t cudaGetDeviceFlags(unsigned int *flags) {
    int active;
    cudaError_t e = rt_driver_ready();
    return e ? e : rt_error((cudaError_t)rt_legacy.cuDevicePrimaryCtxGetState(rt_device(), flags, &active));
}

/* ---- peers ---- */

static cudaError_t with_peer(int peer, bool enable, unsigned flags) {
    CUcontext ctx = NULL;
    RT_READY();
    CUresult r = rt_legacy.cuDevicePrimaryCtxRetain(&ctx, peer);
    if (r == CUDA_SUCCESS)
        r = enable ? rt_legacy.cuCtxEnablePeerAccess(ctx, flags) : rt_legacy.cuCtxDisablePeerAccess(ctx);
    return rt_error((cudaError_t)r);
}
RT_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) { return with_peer(peer, true, flags); }
RT_API cudaError_t cudaDeviceDisablePeerAccess(int peer) { return with_peer(peer, false, 0); }

RT_API cudaError_t cudaProfilerStart(void) { return rt_driver_ready(); }
RT_API cudaError_t cudaProfilerStop(void) { return rt_driver_ready(); }
