/* The simulated runtime from inside: driver entries, errors, devices, modules. */
#ifndef SIM_RUNTIME_H
#define SIM_RUNTIME_H

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

/* Each driver function with the version that is requested; a TWIN is requested again with the per-thread flag. */
#define RT_ROWS(ROW, TWIN)                                          \
    ROW(cuInit, 2000)                                               \
    ROW(cuDriverGetVersion, 2020)                                   \
    ROW(cuGetErrorName, 6000)                                       \
    ROW(cuGetErrorString, 6000)                                     \
    ROW(cuGetProcAddress, 12000)                                    \
    ROW(cuDeviceGet, 2000)                                          \
    ROW(cuDeviceGetCount, 2000)                                     \
    ROW(cuDeviceGetName, 2000)                                      \
    ROW(cuDeviceGetUuid, 11040)                                     \
    ROW(cuDeviceTotalMem, 3020)                                     \
    ROW(cuDeviceGetAttribute, 2000)                                 \
    ROW(cuDeviceGetPCIBusId, 4010)                                  \
    ROW(cuDeviceGetByPCIBusId, 4010)                                \
    ROW(cuDeviceCanAccessPeer, 4000)                                \
    ROW(cuDeviceGetP2PAttribute, 8000)                              \
    ROW(cuDevicePrimaryCtxRetain, 7000)                             \
    ROW(cuDevicePrimaryCtxRelease, 11000)                           \
    ROW(cuDevicePrimaryCtxReset, 11000)                             \
    ROW(cuDevicePrimaryCtxSetFlags, 11000)                          \
    ROW(cuDevicePrimaryCtxGetState, 7000)                           \
    ROW(cuCtxSetCurrent, 4000)                                      \
    ROW(cuCtxGetCurrent, 4000)                                      \
    ROW(cuCtxGetDevice, 2000)                                       \
    ROW(cuCtxSynchronize, 2000)                                     \
    ROW(cuCtxSetLimit, 3010)                                        \
    ROW(cuCtxGetLimit, 3010)                                        \
    ROW(cuCtxGetCacheConfig, 3020)                                  \
    ROW(cuCtxSetCacheConfig, 3020)                                  \
    ROW(cuCtxGetStreamPriorityRange, 5050)                          \
    ROW(cuCtxEnablePeerAccess, 4000)                                \
    ROW(cuCtxDisablePeerAccess, 4000)                               \
    ROW(cuMemAlloc, 3020)                                           \
    ROW(cuMemAllocPitch, 3020)                                      \
    ROW(cuMemAllocManaged, 6000)                                    \
    ROW(cuMemFree, 3020)                                            \
    ROW(cuMemGetInfo, 3020)                                         \
    ROW(cuMemHostAlloc, 2020)                                       \
    ROW(cuMemFreeHost, 2000)                                        \
    ROW(cuMemHostRegister, 6050)                                    \
    ROW(cuMemHostUnregister, 4000)                                  \
    ROW(cuMemHostGetDevicePointer, 3020)                            \
    ROW(cuMemHostGetFlags, 2030)                                    \
    TWIN(cuMemcpy, 4000, 7000)                                      \
    TWIN(cuMemcpyAsync, 4000, 7000)                                 \
    TWIN(cuMemcpyHtoD, 3020, 7000)                                  \
    TWIN(cuMemcpyDtoH, 3020, 7000)                                  \
    TWIN(cuMemcpyDtoD, 3020, 7000)                                  \
    TWIN(cuMemcpyHtoDAsync, 3020, 7000)                             \
    TWIN(cuMemcpyDtoHAsync, 3020, 7000)                             \
    TWIN(cuMemcpyDtoDAsync, 3020, 7000)                             \
    TWIN(cuMemcpyPeer, 4000, 7000)                                  \
    TWIN(cuMemcpyPeerAsync, 4000, 7000)                             \
    TWIN(cuMemcpy2DUnaligned, 3020, 7000)                           \
    TWIN(cuMemcpy2DAsync, 3020, 7000)                               \
    TWIN(cuMemcpy3D, 3020, 7000)                                    \
    TWIN(cuMemcpy3DAsync, 3020, 7000)                               \
    TWIN(cuMemcpy3DPeer, 4000, 7000)                                \
    TWIN(cuMemcpy3DPeerAsync, 4000, 7000)                           \
    TWIN(cuMemsetD8, 3020, 7000)                                    \
    TWIN(cuMemsetD8Async, 3020, 7000)                               \
    TWIN(cuMemsetD2D8, 3020, 7000)                                  \
    TWIN(cuMemsetD2D8Async, 3020, 7000)                             \
    ROW(cuMemAdvise, 12020)                                         \
    TWIN(cuMemPrefetchAsync, 12020, 12020)                          \
    ROW(cuMemRangeGetAttribute, 8000)                               \
    ROW(cuMemRangeGetAttributes, 8000)                              \
    ROW(cuPointerGetAttributes, 7000)                               \
    ROW(cuPointerGetAttribute, 4000)                                \
    TWIN(cuMemAllocAsync, 11020, 11020)                             \
    TWIN(cuMemAllocFromPoolAsync, 11020, 11020)                     \
    TWIN(cuMemFreeAsync, 11020, 11020)                              \
    ROW(cuMemPoolCreate, 11020)                                     \
    ROW(cuMemPoolDestroy, 11020)                                    \
    ROW(cuMemPoolSetAttribute, 11020)                               \
    ROW(cuMemPoolGetAttribute, 11020)                               \
    ROW(cuMemPoolTrimTo, 11020)                                     \
    ROW(cuMemPoolSetAccess, 11020)                                  \
    ROW(cuMemPoolGetAccess, 11020)                                  \
    ROW(cuDeviceGetDefaultMemPool, 11020)                           \
    ROW(cuDeviceGetMemPool, 11020)                                  \
    ROW(cuDeviceSetMemPool, 11020)                                  \
    ROW(cuIpcGetMemHandle, 4010)                                    \
    ROW(cuIpcOpenMemHandle, 11000)                                  \
    ROW(cuIpcCloseMemHandle, 4010)                                  \
    ROW(cuIpcGetEventHandle, 4010)                                  \
    ROW(cuIpcOpenEventHandle, 4010)                                 \
    ROW(cuArray3DCreate, 3020)                                      \
    ROW(cuArray3DGetDescriptor, 3020)                               \
    ROW(cuArrayDestroy, 2000)                                       \
    ROW(cuMipmappedArrayCreate, 5000)                               \
    ROW(cuMipmappedArrayDestroy, 5000)                              \
    ROW(cuMipmappedArrayGetLevel, 5000)                             \
    ROW(cuStreamCreateWithPriority, 5050)                           \
    ROW(cuStreamCreate, 2000)                                       \
    ROW(cuStreamDestroy, 4000)                                      \
    TWIN(cuStreamQuery, 2000, 7000)                                 \
    TWIN(cuStreamSynchronize, 2000, 7000)                           \
    TWIN(cuStreamWaitEvent, 3020, 7000)                             \
    TWIN(cuStreamAddCallback, 5000, 7000)                           \
    TWIN(cuLaunchHostFunc, 10000, 10000)                            \
    TWIN(cuStreamGetPriority, 5050, 7000)                           \
    TWIN(cuStreamGetFlags, 5050, 7000)                              \
    TWIN(cuStreamGetId, 12000, 12000)                               \
    TWIN(cuStreamAttachMemAsync, 6000, 7000)                        \
    TWIN(cuStreamBeginCapture, 10010, 10010)                        \
    TWIN(cuStreamEndCapture, 10000, 10000)                          \
    TWIN(cuStreamIsCapturing, 10000, 10000)                         \
    TWIN(cuStreamGetCaptureInfo, 12030, 12030)                      \
    ROW(cuThreadExchangeStreamCaptureMode, 10010)                   \
    ROW(cuEventCreate, 2000)                                        \
    ROW(cuEventDestroy, 4000)                                       \
    TWIN(cuEventRecord, 2000, 7000)                                 \
    TWIN(cuEventRecordWithFlags, 11010, 11010)                      \
    ROW(cuEventQuery, 2000)                                         \
    ROW(cuEventSynchronize, 2000)                                   \
    ROW(cuEventElapsedTime, 2000)                                   \
    ROW(cuGraphCreate, 10000)                                       \
    ROW(cuGraphDestroy, 10000)                                      \
    ROW(cuGraphInstantiateWithFlags, 11040)                         \
    TWIN(cuGraphLaunch, 10000, 10000)                               \
    TWIN(cuGraphUpload, 11010, 11010)                               \
    ROW(cuGraphExecDestroy, 10000)                                  \
    ROW(cuGraphGetNodes, 10000)                                     \
    ROW(cuGraphClone, 10000)                                        \
    ROW(cuGraphExecUpdate, 12000)                                   \
    ROW(cuGraphAddKernelNode, 12000)                                \
    ROW(cuGraphAddMemcpyNode, 10000)                                \
    ROW(cuGraphAddMemsetNode, 10000)                                \
    ROW(cuGraphAddHostNode, 10000)                                  \
    ROW(cuGraphAddEmptyNode, 10000)                                 \
    ROW(cuGraphAddMemAllocNode, 11040)                              \
    ROW(cuGraphAddMemFreeNode, 11040)                               \
    ROW(cuDeviceGraphMemTrim, 11040)                                \
    ROW(cuDeviceGetGraphMemAttribute, 11040)                        \
    ROW(cuDeviceSetGraphMemAttribute, 11040)                        \
    ROW(cuLibraryLoadData, 12000)                                   \
    ROW(cuLibraryUnload, 12000)                                     \
    ROW(cuLibraryGetKernel, 12000)                                  \
    ROW(cuLibraryGetGlobal, 12000)                                  \
    ROW(cuKernelGetFunction, 12000)                                 \
    ROW(cuFuncGetAttribute, 2020)                                   \
    ROW(cuFuncSetAttribute, 9000)                                   \
    ROW(cuFuncSetCacheConfig, 3000)                                 \
    ROW(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000) \
    ROW(cuOccupancyMaxPotentialBlockSizeWithFlags, 7000)            \
    ROW(cuOccupancyAvailableDynamicSMemPerBlock, 10020)             \
    TWIN(cuLaunchKernel, 4000, 7000)                                \
    TWIN(cuLaunchKernelEx, 11060, 11060)                            \
    TWIN(cuLaunchCooperativeKernel, 9000, 9000)

#define RT_FIELD(name, version)            PFN_##name##_v##version name;
#define RT_FIELD_TWIN(name, version, twin) PFN_##name##_v##version name;
struct rt_driver {
    RT_ROWS(RT_FIELD, RT_FIELD_TWIN)
};
extern struct rt_driver rt_legacy, rt_per_thread;
extern PFN_cuCtxSynchronize_v13000
    rt_synchronize; /* what NVIDIA's runtime waits by where the driver has it; else NULL */

#define RT_MAX_DEVICES 8
#define RT_API         __attribute__((visibility("default")))

/* Loads and initialises the driver once; no context. */
cudaError_t rt_driver_ready(void);
/* As above, and the calling thread has a current context (the primary one of its device). */
cudaError_t rt_ready(void);
int rt_device(void);
/* Remembers a failure for cudaGetLastError and hands it back. */
cudaError_t rt_error(cudaError_t e);
/* The driver's library of a registered fat binary is loaded at first use, per device. */
cudaError_t rt_function(const void *host, CUfunction *f);
cudaError_t rt_variable(const void *host, CUdeviceptr *p, size_t *size);
void rt_forget_device(int device); /* after a reset */

#define RT_TRY(step)                 \
    do {                             \
        cudaError_t error_ = (step); \
        if (error_ != cudaSuccess)   \
            return error_;           \
    } while (0)
#define RT_READY() RT_TRY(rt_ready())
/* One driver call as the whole of a runtime call. */
#define RT_CALL(call)                         \
    do {                                      \
        RT_READY();                           \
        return rt_error((cudaError_t)(call)); \
    } while (0)

#define RT_UNWRAP(...) __VA_ARGS__
/* Defines name and its per-thread twin name##suffix over one body, in which d is the matching driver table. */
#define RT_TWIN(suffix, name, params, args)                                                      \
    static cudaError_t name##_on(const struct rt_driver *d, RT_UNWRAP params);                   \
    RT_API cudaError_t name params { return name##_on(&rt_legacy, RT_UNWRAP args); }             \
    RT_API cudaError_t name##suffix params;                                                      \
    RT_API cudaError_t name##suffix params { return name##_on(&rt_per_thread, RT_UNWRAP args); } \
    static cudaError_t name##_on(const struct rt_driver *d, RT_UNWRAP params)

#endif
