/* The functions of the driver that the programs call, and the ways by which a program gets them: dlsym, both forms of
 * cuGetProcAddress, and (compiled with LINKED) the linker. */
#ifndef FUZZ_DOORS_H
#define FUZZ_DOORS_H

#include <cuda.h>
#include <stdint.h>

/* symbol, name and version for cuGetProcAddress */
#define DOORS(ROW, TWIN)                                                             \
    ROW(cuInit, cuInit, 2000)                                                        \
    ROW(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000)                    \
    ROW(cuCtxCreate_v2, cuCtxCreate, 3020)                                           \
    ROW(cuCtxDestroy_v2, cuCtxDestroy, 4000)                                         \
    ROW(cuCtxDestroy, cuCtxDestroy, 2000)                                            \
    ROW(cuCtxSetCurrent, cuCtxSetCurrent, 4000)                                      \
    ROW(cuCtxGetCurrent, cuCtxGetCurrent, 4000)                                      \
    ROW(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000)                                 \
    ROW(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000)                                   \
    ROW(cuCtxGetDevice, cuCtxGetDevice, 2000)                                        \
    ROW(cuCtxGetLimit, cuCtxGetLimit, 3010)                                          \
    ROW(cuCtxSynchronize, cuCtxSynchronize, 2000)                                    \
    ROW(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000)                          \
    ROW(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000)                            \
    ROW(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020)                 \
    ROW(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040)                           \
    ROW(cuModuleLoadData, cuModuleLoadData, 2000)                                    \
    ROW(cuModuleLoad, cuModuleLoad, 2000)                                            \
    ROW(cuModuleGetGlobal_v2, cuModuleGetGlobal, 3020)                               \
    ROW(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000)              \
    ROW(cuMemPoolCreate, cuMemPoolCreate, 11020)                                     \
    ROW(cuMemPoolDestroy, cuMemPoolDestroy, 11020)                                   \
    ROW(cuModuleUnload, cuModuleUnload, 2000)                                        \
    ROW(cuModuleGetFunction, cuModuleGetFunction, 2000)                              \
    ROW(cuFuncGetAttribute, cuFuncGetAttribute, 2020)                                \
    ROW(cuMemAlloc_v2, cuMemAlloc, 3020)                                             \
    ROW(cuMemAllocPitch_v2, cuMemAllocPitch, 3020)                                   \
    ROW(cuMemAllocManaged, cuMemAllocManaged, 6000)                                  \
    ROW(cuMemFree_v2, cuMemFree, 3020)                                               \
    ROW(cuMemHostAlloc, cuMemHostAlloc, 2020)                                        \
    ROW(cuMemAllocHost_v2, cuMemAllocHost, 3020)                                     \
    ROW(cuMemFreeHost, cuMemFreeHost, 2000)                                          \
    ROW(cuMemHostRegister_v2, cuMemHostRegister, 6050)                               \
    ROW(cuMemHostUnregister, cuMemHostUnregister, 4000)                              \
    ROW(cuMemGetInfo_v2, cuMemGetInfo, 3020)                                         \
    ROW(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020)                         \
    ROW(cuPointerGetAttribute, cuPointerGetAttribute, 4000)                          \
    ROW(cuMemCreate, cuMemCreate, 10020)                                             \
    ROW(cuMemRelease, cuMemRelease, 10020)                                           \
    ROW(cuMemAddressReserve, cuMemAddressReserve, 10020)                             \
    ROW(cuMemAddressFree, cuMemAddressFree, 10020)                                   \
    ROW(cuMemMap, cuMemMap, 10020)                                                   \
    ROW(cuMemUnmap, cuMemUnmap, 10020)                                               \
    ROW(cuMemSetAccess, cuMemSetAccess, 10020)                                       \
    ROW(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020)                                     \
    ROW(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020)                         \
    ROW(cuStreamCreate, cuStreamCreate, 2000)                                        \
    ROW(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050)                \
    ROW(cuStreamDestroy_v2, cuStreamDestroy, 4000)                                   \
    ROW(cuStreamDestroy, cuStreamDestroy, 2000)                                      \
    ROW(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010) \
    ROW(cuEventCreate, cuEventCreate, 2000)                                          \
    ROW(cuEventDestroy_v2, cuEventDestroy, 4000)                                     \
    ROW(cuIpcGetEventHandle, cuIpcGetEventHandle, 4010)                              \
    ROW(cuEventQuery, cuEventQuery, 2000)                                            \
    ROW(cuEventSynchronize, cuEventSynchronize, 2000)                                \
    ROW(cuEventElapsedTime, cuEventElapsedTime, 2000)                                \
    ROW(cuGraphCreate, cuGraphCreate, 10000)                                         \
    ROW(cuGraphDestroy, cuGraphDestroy, 10000)                                       \
    ROW(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000)                        \
    ROW(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000)                           \
    ROW(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000)                           \
    ROW(cuGraphAddHostNode, cuGraphAddHostNode, 10000)                               \
    ROW(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040)             \
    ROW(cuGraphExecDestroy, cuGraphExecDestroy, 10000)                               \
    ROW(cuMemcpyPeer, cuMemcpyPeer, 4000)                                            \
    TWIN(cuStreamGetFlags, cuStreamGetFlags, 5050, ptsz)                             \
    TWIN(cuStreamGetPriority, cuStreamGetPriority, 5050, ptsz)                       \
    TWIN(cuStreamIsCapturing, cuStreamIsCapturing, 10000, ptsz)                      \
    TWIN(cuMemcpy, cuMemcpy, 4000, ptds)                                             \
    TWIN(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, ptds)                                  \
    TWIN(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, ptds)                                  \
    TWIN(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, ptds)                                  \
    TWIN(cuMemsetD32_v2, cuMemsetD32, 3020, ptds)                                    \
    TWIN(cuMemsetD2D32_v2, cuMemsetD2D32, 3020, ptds)                                \
    TWIN(cuMemcpyAsync, cuMemcpyAsync, 4000, ptsz)                                   \
    TWIN(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, ptsz)                        \
    TWIN(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, ptsz)                        \
    TWIN(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, ptsz)                        \
    TWIN(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, ptsz)                           \
    TWIN(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, ptsz)                            \
    TWIN(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, ptsz)                            \
    TWIN(cuMemsetD32Async, cuMemsetD32Async, 3020, ptsz)                             \
    TWIN(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, ptsz)                         \
    TWIN(cuLaunchKernel, cuLaunchKernel, 4000, ptsz)                                 \
    TWIN(cuLaunchKernelEx, cuLaunchKernelEx, 11060, ptsz)                            \
    TWIN(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, ptsz)           \
    TWIN(cuLaunchHostFunc, cuLaunchHostFunc, 10000, ptsz)                            \
    TWIN(cuStreamAddCallback, cuStreamAddCallback, 5000, ptsz)                       \
    TWIN(cuStreamSynchronize, cuStreamSynchronize, 2000, ptsz)                       \
    TWIN(cuStreamQuery, cuStreamQuery, 2000, ptsz)                                   \
    TWIN(cuStreamWaitEvent, cuStreamWaitEvent, 3020, ptsz)                           \
    TWIN(cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070, ptsz)                   \
    TWIN(cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070, ptsz)                 \
    TWIN(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, ptsz)                 \
    TWIN(cuStreamEndCapture, cuStreamEndCapture, 10000, ptsz)                        \
    TWIN(cuEventRecord, cuEventRecord, 2000, ptsz)                                   \
    TWIN(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, ptsz)                \
    TWIN(cuMemAllocAsync, cuMemAllocAsync, 11020, ptsz)                              \
    TWIN(cuMemFreeAsync, cuMemFreeAsync, 11020, ptsz)                                \
    TWIN(cuGraphLaunch, cuGraphLaunch, 10000, ptsz)

/* Forms that cuda.h does not declare by themselves. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
#undef cuCtxDestroy
CUresult cuCtxDestroy(CUcontext context);
#undef cuStreamDestroy
CUresult cuStreamDestroy(CUstream stream);
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent first, CUevent second);

#define DECLARE(symbol, name, version, twin) extern __typeof__(symbol) symbol##_##twin;
#define NO_ROW(symbol, name, version)
DOORS(NO_ROW, DECLARE)

#define NUMBER_OF(symbol, name, version)             DOOR_##symbol,
#define NUMBERS_OF(symbol, name, version, twin_name) DOOR_##symbol, DOOR_##symbol##_##twin_name,
enum door { DOORS(NUMBER_OF, NUMBERS_OF) DOOR_COUNT };

void open_doors(void); /* once */
/* The function by the way that the random bits choose. */
void *door(enum door door, uint32_t variant);
void *driver_symbol(const char *name); /* by dlsym; NULL: the driver has none */

/* `variant` is the caller's. */
#define CALL(symbol, ...) ((__typeof__(&symbol))door(DOOR_##symbol, variant))(__VA_ARGS__)

#endif
