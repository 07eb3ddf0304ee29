/* One row for each hooked driver symbol; exports, look-up routes, entries and the coverage report grow from it.
 * ROW(exact symbol, name asked of cuGetProcAddress, version that introduced this variant, 1 = per-thread-default-stream twin)
 * Included by C and by assembly: macros only. */
#ifndef GM_HOOK_ROWS_H
#define GM_HOOK_ROWS_H

#define GM_HOOK_ROWS(ROW)                                                                                    \
    ROW(cuGetProcAddress, cuGetProcAddress, 11030, 0)                                                        \
    ROW(cuGetProcAddress_v2, cuGetProcAddress, 12000, 0)                                                     \
    ROW(cuMemAlloc_v2, cuMemAlloc, 3020, 0)                                                                  \
    ROW(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, 0)                                                        \
    ROW(cuMemAllocManaged, cuMemAllocManaged, 6000, 0)                                                       \
    ROW(cuMemAllocAsync, cuMemAllocAsync, 11020, 0)                                                          \
    ROW(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, 1)                                                     \
    ROW(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, 0)                                          \
    ROW(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020, 1)                                     \
    ROW(cuMemFree_v2, cuMemFree, 3020, 0)                                                                    \
    ROW(cuMemFreeAsync, cuMemFreeAsync, 11020, 0)                                                            \
    ROW(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, 1)                                                       \
    ROW(cuMemAllocHost_v2, cuMemAllocHost, 3020, 0)                                                          \
    ROW(cuMemHostAlloc, cuMemHostAlloc, 2020, 0)                                                             \
    ROW(cuMemHostRegister, cuMemHostRegister, 4000, 0)                                                       \
    ROW(cuMemHostRegister_v2, cuMemHostRegister, 6050, 0)                                                    \
    ROW(cuMemHostUnregister, cuMemHostUnregister, 4000, 0)                                                   \
    ROW(cuMemFreeHost, cuMemFreeHost, 2000, 0)                                                               \
    ROW(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, 0)                                                      \
    ROW(cuMemGetInfo_v2, cuMemGetInfo, 3020, 0)                                                              \
    ROW(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, 0)                                              \
    ROW(cuPointerGetAttribute, cuPointerGetAttribute, 4000, 0)                                               \
    ROW(cuPointerGetAttributes, cuPointerGetAttributes, 7000, 0)                                             \
    ROW(cuPointerSetAttribute, cuPointerSetAttribute, 6000, 0)                                               \
    ROW(cuMemAdvise, cuMemAdvise, 8000, 0)                                                                   \
    ROW(cuMemAdvise_v2, cuMemAdvise, 12020, 0)                                                               \
    ROW(cuArrayCreate_v2, cuArrayCreate, 3020, 0)                                                            \
    ROW(cuArray3DCreate_v2, cuArray3DCreate, 3020, 0)                                                        \
    ROW(cuArrayDestroy, cuArrayDestroy, 2000, 0)                                                             \
    ROW(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, 0)                                             \
    ROW(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, 0)                                           \
    ROW(cuMemAddressReserve, cuMemAddressReserve, 10020, 0)                                                  \
    ROW(cuMemAddressFree, cuMemAddressFree, 10020, 0)                                                        \
    ROW(cuMemCreate, cuMemCreate, 10020, 0)                                                                  \
    ROW(cuMemRelease, cuMemRelease, 10020, 0)                                                                \
    ROW(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, 0)                                  \
    ROW(cuMemMap, cuMemMap, 10020, 0)                                                                        \
    ROW(cuMemUnmap, cuMemUnmap, 10020, 0)                                                                    \
    ROW(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020, 0)                                \
    ROW(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 10020, 0)                            \
    ROW(cuMemPoolCreate, cuMemPoolCreate, 11020, 0)                                                          \
    ROW(cuMemPoolDestroy, cuMemPoolDestroy, 11020, 0)                                                        \
    ROW(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, 0)                                                          \
    ROW(cuMemPoolExportPointer, cuMemPoolExportPointer, 11020, 0)                                            \
    ROW(cuMemPoolImportPointer, cuMemPoolImportPointer, 11020, 0)                                            \
    ROW(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, 0)                                                       \
    ROW(cuIpcOpenMemHandle, cuIpcOpenMemHandle, 4010, 0)                                                     \
    ROW(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000, 0)                                                 \
    ROW(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, 0)                                                   \
    ROW(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070, 0)                              \
    ROW(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, 0)                                               \
    ROW(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, 0)                                             \
    ROW(cuStreamBeginCapture, cuStreamBeginCapture, 10000, 0)                                                \
    ROW(cuStreamBeginCapture_ptsz, cuStreamBeginCapture, 10000, 1)                                           \
    ROW(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, 0)                                             \
    ROW(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture, 10010, 1)                                        \
    ROW(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, 0)                                  \
    ROW(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph, 12030, 1)                             \
    ROW(cuStreamEndCapture, cuStreamEndCapture, 10000, 0)                                                    \
    ROW(cuStreamEndCapture_ptsz, cuStreamEndCapture, 10000, 1)                                               \
    ROW(cuCtxCreate_v2, cuCtxCreate, 3020, 0)                                                                \
    ROW(cuCtxCreate_v3, cuCtxCreate, 11040, 0)                                                               \
    ROW(cuCtxCreate_v4, cuCtxCreate, 12050, 0)                                                               \
    ROW(cuCtxDestroy_v2, cuCtxDestroy, 4000, 0)                                                              \
    ROW(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, 0)                                         \
    ROW(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, 0)                                       \
    ROW(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, 0)                                   \
    ROW(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, 0)                                           \
    ROW(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, 0)                                       \
    ROW(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, 0)                                            \
    ROW(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, 11040, 0)                                              \
    ROW(cuGraphAddNode, cuGraphAddNode, 12020, 0)                                                            \
    ROW(cuGraphAddNode_v2, cuGraphAddNode, 12030, 0)

#endif
