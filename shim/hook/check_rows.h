/* clang-format off */
/* Calls that GPUMEM_CHECK_ORDER observes before they are made (check.c), with their meaning for the order of work.
 * Look-ups return their entries only in that mode.
 *
 *   ROW(symbol, meaning: enum meaning of check.c, index of the stream argument,
 *       1 = twin for per-thread default streams)
 *   BOTH: the same for symbol and its twin symbol_ptsz
 *   FIXED: for symbol and its twin symbol_ptds, which have no stream argument
 *
 * C and assembly include this file: macros only. */
#ifndef GM_HOOK_CHECK_ROWS_H
#define GM_HOOK_CHECK_ROWS_H

#define GM_CHECK_ROWS(ROW, BOTH, FIXED)                                                                      \
    BOTH(cuLaunchKernelEx, CONFIG, 0)                                                                        \
    BOTH(cuLaunchKernel, KERNEL, 8)                                                                          \
    BOTH(cuLaunchCooperativeKernel, KERNEL, 8)                                                               \
    BOTH(cuGraphLaunch, KERNEL, 1)                                                                           \
    BOTH(cuMemcpyAsync, COPY, 3)                                                                             \
    BOTH(cuMemcpyPeerAsync, WORK, 5)                                                                         \
    BOTH(cuMemcpyHtoDAsync_v2, WORK, 3)                                                                      \
    BOTH(cuMemcpyDtoHAsync_v2, COPY, 3)                                                                      \
    BOTH(cuMemcpyDtoDAsync_v2, WORK, 3)                                                                      \
    BOTH(cuMemcpyHtoAAsync_v2, WORK, 4)                                                                      \
    BOTH(cuMemcpyAtoHAsync_v2, COPY, 4)                                                                      \
    BOTH(cuMemcpy2DAsync_v2, COPY_2D, 1)                                                                     \
    BOTH(cuMemcpy3DAsync_v2, COPY_3D, 1)                                                                     \
    BOTH(cuMemcpy3DPeerAsync, COPY_3D_PEER, 1)                                                               \
    BOTH(cuMemcpyBatchAsync, VISIBLE, 8)                                                                     \
    BOTH(cuMemcpyBatchAsync_v2, VISIBLE, 7)                                                                  \
    BOTH(cuMemcpy3DBatchAsync, VISIBLE, 4)                                                                   \
    BOTH(cuMemcpy3DBatchAsync_v2, VISIBLE, 3)                                                                \
    BOTH(cuMemsetD8Async, WORK, 3)                                                                           \
    BOTH(cuMemsetD16Async, WORK, 3)                                                                          \
    BOTH(cuMemsetD32Async, WORK, 3)                                                                          \
    BOTH(cuMemsetD2D8Async, WORK, 5)                                                                         \
    BOTH(cuMemsetD2D16Async, WORK, 5)                                                                        \
    BOTH(cuMemsetD2D32Async, WORK, 5)                                                                        \
    BOTH(cuMemPrefetchAsync, WORK, 3)                                                                        \
    BOTH(cuMemPrefetchAsync_v2, WORK, 4)                                                                     \
    BOTH(cuMemBatchDecompressAsync, WORK, 4)                                                                 \
    BOTH(cuMemFreeAsync, WORK, 1)                                                                            \
    BOTH(cuLaunchHostFunc, FUNCTION, 0)                                                                      \
    BOTH(cuStreamAddCallback, FUNCTION, 0)                                                                   \
    BOTH(cuStreamWriteValue32, SIGNAL, 0)                                                                    \
    BOTH(cuStreamWriteValue64, SIGNAL, 0)                                                                    \
    BOTH(cuStreamWriteValue32_v2, SIGNAL, 0)                                                                 \
    BOTH(cuStreamWriteValue64_v2, SIGNAL, 0)                                                                 \
    BOTH(cuSignalExternalSemaphoresAsync, SIGNAL, 3)                                                         \
    BOTH(cuStreamWaitValue32, AWAIT, 0)                                                                      \
    BOTH(cuStreamWaitValue64, AWAIT, 0)                                                                      \
    BOTH(cuStreamWaitValue32_v2, AWAIT, 0)                                                                   \
    BOTH(cuStreamWaitValue64_v2, AWAIT, 0)                                                                   \
    BOTH(cuStreamBatchMemOp, BATCH, 0)                                                                       \
    BOTH(cuStreamBatchMemOp_v2, BATCH, 0)                                                                    \
    BOTH(cuWaitExternalSemaphoresAsync, AWAIT, 3)                                                            \
    BOTH(cuEventRecord, RECORD, 1)                                                                           \
    BOTH(cuEventRecordWithFlags, RECORD, 1)                                                                  \
    BOTH(cuStreamWaitEvent, WAIT, 0)                                                                         \
    BOTH(cuStreamSynchronize, SYNCHRONISE, 0)                                                                \
    ROW(cuEventSynchronize, EVENT_DONE, 0, 0)                                                                \
    ROW(cuCtxSynchronize, CONTEXT_DONE, 0, 0)                                                                \
    ROW(cuCtxSynchronize_v2, NAMED_CONTEXT_DONE, 0, 0)                                                       \
    ROW(cuCtxRecordEvent, CONTEXT_RECORD, 0, 0)                                                              \
    ROW(cuCtxWaitEvent, CONTEXT_WAIT, 0, 0)                                                                  \
    ROW(cuStreamDestroy, ENDING, 0, 0)                                                                       \
    ROW(cuStreamDestroy_v2, ENDING, 0, 0)                                                                    \
    FIXED(cuMemcpy, WAITED)                                                                                  \
    FIXED(cuMemcpyPeer, FIXED_WORK)                                                                          \
    FIXED(cuMemcpyHtoD_v2, WAITED)                                                                           \
    FIXED(cuMemcpyDtoH_v2, WAITED)                                                                           \
    FIXED(cuMemcpyDtoD_v2, FIXED_WORK)                                                                       \
    FIXED(cuMemcpyDtoA_v2, FIXED_WORK)                                                                       \
    FIXED(cuMemcpyAtoD_v2, FIXED_WORK)                                                                       \
    FIXED(cuMemcpyHtoA_v2, WAITED)                                                                           \
    FIXED(cuMemcpyAtoH_v2, WAITED)                                                                           \
    FIXED(cuMemcpyAtoA_v2, FIXED_WORK)                                                                       \
    FIXED(cuMemcpy2D_v2, WAITED)                                                                             \
    FIXED(cuMemcpy2DUnaligned_v2, WAITED)                                                                    \
    FIXED(cuMemcpy3D_v2, WAITED)                                                                             \
    FIXED(cuMemcpy3DPeer, WAITED)                                                                            \
    FIXED(cuMemsetD8_v2, FIXED_WORK)                                                                         \
    FIXED(cuMemsetD16_v2, FIXED_WORK)                                                                        \
    FIXED(cuMemsetD32_v2, FIXED_WORK)                                                                        \
    FIXED(cuMemsetD2D8_v2, FIXED_WORK)                                                                       \
    FIXED(cuMemsetD2D16_v2, FIXED_WORK)                                                                      \
    FIXED(cuMemsetD2D32_v2, FIXED_WORK)                                                                      \
    ROW(cuMemAllocManaged, SHARES_MEMORY, 0, 0)                                                              \
    ROW(cuLibraryGetManaged, SHARES_MEMORY, 0, 0)                                                            \
    ROW(cuMemHostGetDevicePointer_v2, SHARES_MEMORY, 0, 0)                                                   \
    ROW(cuMemHostAlloc, MAY_SHARE_MEMORY, 2, 0)                                                              \
    ROW(cuMemHostRegister, MAY_SHARE_MEMORY, 2, 0)                                                           \
    ROW(cuMemHostRegister_v2, MAY_SHARE_MEMORY, 2, 0)                                                        \
    ROW(cuMemFree_v2, FREE, 0, 0)

#endif
