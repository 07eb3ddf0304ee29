/* clang-format off */
/* Calls that submit work to a stream. They are not hooked; an observer notes that a per-thread default stream is
 * about to be used. From then on frees have to order more (shim/driver/free_sync.h), and with drivers that cannot
 * record a context no memory is reused (shim/driver/streams.h).
 *
 *   EXPLICIT(symbol, index of the stream argument): observes the handle CU_STREAM_PER_THREAD
 *   CONFIG(symbol): the same; the stream is a member of the launch configuration
 *   TWIN(symbol): a twin for programs built with per-thread default streams
 *
 * C and assembly include this file: macros only. */
#ifndef GM_HOOK_OBSERVER_ROWS_H
#define GM_HOOK_OBSERVER_ROWS_H

#define GM_OBSERVER_ROWS(EXPLICIT, CONFIG, TWIN)                                                                \
    CONFIG(cuLaunchKernelEx)                                                                                 \
    TWIN(cuLaunchKernelEx_ptsz)                                                                              \
    EXPLICIT(cuLaunchCooperativeKernel, 8)                                                                   \
    TWIN(cuLaunchCooperativeKernel_ptsz)                                                                     \
    EXPLICIT(cuLaunchKernel, 8)                                                                              \
    TWIN(cuLaunchKernel_ptsz)                                                                                \
    EXPLICIT(cuGraphLaunch, 1)                                                                               \
    TWIN(cuGraphLaunch_ptsz)                                                                                 \
    EXPLICIT(cuMemcpyAsync, 3)                                                                               \
    TWIN(cuMemcpyAsync_ptsz)                                                                                 \
    EXPLICIT(cuMemcpyPeerAsync, 5)                                                                           \
    TWIN(cuMemcpyPeerAsync_ptsz)                                                                             \
    EXPLICIT(cuMemcpyHtoDAsync_v2, 3)                                                                        \
    TWIN(cuMemcpyHtoDAsync_v2_ptsz)                                                                          \
    EXPLICIT(cuMemcpyDtoHAsync_v2, 3)                                                                        \
    TWIN(cuMemcpyDtoHAsync_v2_ptsz)                                                                          \
    EXPLICIT(cuMemcpyDtoDAsync_v2, 3)                                                                        \
    TWIN(cuMemcpyDtoDAsync_v2_ptsz)                                                                          \
    EXPLICIT(cuMemcpyHtoAAsync_v2, 4)                                                                        \
    TWIN(cuMemcpyHtoAAsync_v2_ptsz)                                                                          \
    EXPLICIT(cuMemcpyAtoHAsync_v2, 4)                                                                        \
    TWIN(cuMemcpyAtoHAsync_v2_ptsz)                                                                          \
    EXPLICIT(cuMemcpy2DAsync_v2, 1)                                                                          \
    TWIN(cuMemcpy2DAsync_v2_ptsz)                                                                            \
    EXPLICIT(cuMemcpy3DAsync_v2, 1)                                                                          \
    TWIN(cuMemcpy3DAsync_v2_ptsz)                                                                            \
    EXPLICIT(cuMemcpy3DPeerAsync, 1)                                                                         \
    TWIN(cuMemcpy3DPeerAsync_ptsz)                                                                           \
    EXPLICIT(cuMemsetD8Async, 3)                                                                             \
    TWIN(cuMemsetD8Async_ptsz)                                                                               \
    EXPLICIT(cuMemsetD16Async, 3)                                                                            \
    TWIN(cuMemsetD16Async_ptsz)                                                                              \
    EXPLICIT(cuMemsetD32Async, 3)                                                                            \
    TWIN(cuMemsetD32Async_ptsz)                                                                              \
    EXPLICIT(cuMemsetD2D8Async, 5)                                                                           \
    TWIN(cuMemsetD2D8Async_ptsz)                                                                             \
    EXPLICIT(cuMemsetD2D16Async, 5)                                                                          \
    TWIN(cuMemsetD2D16Async_ptsz)                                                                            \
    EXPLICIT(cuMemsetD2D32Async, 5)                                                                          \
    TWIN(cuMemsetD2D32Async_ptsz)                                                                            \
    EXPLICIT(cuMemPrefetchAsync, 3)                                                                          \
    TWIN(cuMemPrefetchAsync_ptsz)                                                                            \
    EXPLICIT(cuMemPrefetchAsync_v2, 4)                                                                       \
    TWIN(cuMemPrefetchAsync_v2_ptsz)                                                                         \
    EXPLICIT(cuMemMapArrayAsync, 2)                                                                          \
    TWIN(cuMemMapArrayAsync_ptsz)                                                                            \
    EXPLICIT(cuStreamAttachMemAsync, 0)                                                                      \
    TWIN(cuStreamAttachMemAsync_ptsz)                                                                        \
    EXPLICIT(cuStreamWriteValue32, 0)                                                                        \
    TWIN(cuStreamWriteValue32_ptsz)                                                                          \
    EXPLICIT(cuStreamWriteValue64, 0)                                                                        \
    TWIN(cuStreamWriteValue64_ptsz)                                                                          \
    EXPLICIT(cuStreamWriteValue32_v2, 0)                                                                     \
    TWIN(cuStreamWriteValue32_v2_ptsz)                                                                       \
    EXPLICIT(cuStreamWriteValue64_v2, 0)                                                                     \
    TWIN(cuStreamWriteValue64_v2_ptsz)                                                                       \
    EXPLICIT(cuMemBatchDecompressAsync, 4)                                                                   \
    TWIN(cuMemBatchDecompressAsync_ptsz)                                                                     \
    EXPLICIT(cuStreamWaitEvent, 0)                                                                           \
    TWIN(cuStreamWaitEvent_ptsz)                                                                             \
    EXPLICIT(cuEventRecord, 1)                                                                               \
    TWIN(cuEventRecord_ptsz)                                                                                 \
    EXPLICIT(cuEventRecordWithFlags, 1)                                                                      \
    TWIN(cuEventRecordWithFlags_ptsz)                                                                        \
    EXPLICIT(cuSignalExternalSemaphoresAsync, 3)                                                             \
    TWIN(cuSignalExternalSemaphoresAsync_ptsz)                                                               \
    TWIN(cuMemcpy_ptds)                                                                                      \
    TWIN(cuMemcpyPeer_ptds)                                                                                  \
    TWIN(cuMemcpyHtoD_v2_ptds)                                                                               \
    TWIN(cuMemcpyDtoH_v2_ptds)                                                                               \
    TWIN(cuMemcpyDtoD_v2_ptds)                                                                               \
    TWIN(cuMemcpyDtoA_v2_ptds)                                                                               \
    TWIN(cuMemcpyAtoD_v2_ptds)                                                                               \
    TWIN(cuMemcpyHtoA_v2_ptds)                                                                               \
    TWIN(cuMemcpyAtoH_v2_ptds)                                                                               \
    TWIN(cuMemcpyAtoA_v2_ptds)                                                                               \
    TWIN(cuMemcpy2D_v2_ptds)                                                                                 \
    TWIN(cuMemcpy2DUnaligned_v2_ptds)                                                                        \
    TWIN(cuMemcpy3D_v2_ptds)                                                                                 \
    TWIN(cuMemcpy3DPeer_ptds)                                                                                \
    TWIN(cuMemsetD8_v2_ptds)                                                                                 \
    TWIN(cuMemsetD16_v2_ptds)                                                                                \
    TWIN(cuMemsetD32_v2_ptds)                                                                                \
    TWIN(cuMemsetD2D8_v2_ptds)                                                                               \
    TWIN(cuMemsetD2D16_v2_ptds)                                                                              \
    TWIN(cuMemsetD2D32_v2_ptds)

#endif
