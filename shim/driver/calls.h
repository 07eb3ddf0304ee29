/* clang-format off */
/* The driver's interface: one row for each function that cuda.h, cudaGL.h, cudaEGL.h, cudaVDPAU.h or cudaProfiler.h
 * declares in a toolkit from 11.8 to 13.5, in every variant. A function without a row counts as NOTICES.
 *
 *   CALL(symbol, name, version, twin, how, role, stream, meaning, why, "reason for the role")
 *
 * symbol   As exported. Where cuda.h is included, a symbol may be a macro (cuMemAlloc stands for cuMemAlloc_v2): use
 *          it with # and ## only, and do not pass it on to another macro.
 * name     For cuGetProcAddress, with
 * version  that introduced this variant: 1000 * major + 10 * minor; 0: cuGetProcAddress does not offer the function;
 * twin     1: for programs built with per-thread default streams (_ptsz, _ptds).
 *
 * how      HOOK: a hook in shim/hook serves it. JUMP: an entry looks at one word and jumps to the driver.
 *
 * role     What the call has to do with work that a free left in flight, W (shim/driver/free_sync.h). A native free
 *          has finished W before it returns, so a program may take W for done.
 *   SUBMITS  puts work into a stream, behind W where the streams order it, otherwise by an event.
 *   NOTICES  result or effect can depend on W, or W can depend on its effect: W is finished first. In doubt a call
 *            has this role: it never waits for more than the native free has waited for.
 *   WAITS    waits for W, or for work of its own, and tells nothing else.
 *   BLIND    neither result nor effect can depend on W, W does not depend on its effect, and no W becomes visible.
 *   SHARES   can make device memory, events or work visible to the host, to another context, device or process, or
 *            lets a stream wait for them. W is finished, and later frees wait.
 *   MEMORY   the hook places or records memory, and notes what becomes visible.
 *
 * stream   Index of the argument of type CUstream. CONFIG: the stream is hStream of the CUlaunchConfig at argument 0.
 *          DEFAULT: the default stream, which is the thread's for twins. NONE: no stream, or streams that the
 *          arguments do not name directly (a context's, those of several launches): any of them.
 *
 * meaning  For the order checker (shim/hook/check.c) and for calls whose arguments decide.
 *   KERNEL CONFIG            a launch
 *   WORK FIXED_WORK          other work; on the default stream
 *   COPY                     a copy to the address at argument 0
 *   COPY_2D COPY_3D COPY_3D_PEER  a copy described by CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER at argument 0
 *   WAITED                   a copy on the default stream that has finished when the call returns
 *   VISIBLE                  work whose result the host can see
 *   FUNCTION                 work of the host
 *   SIGNAL AWAIT BATCH       writes a value or semaphore; waits for one; may do both
 *   RECORD WAIT              records the event at argument 0 in the stream; lets the stream wait for that at argument 1
 *   CONTEXT_RECORD CONTEXT_WAIT  the same for all streams of the context at argument 0, event at argument 1
 *   SYNCHRONISE EVENT_DONE   the work of the stream, or before the event at argument 0, is done at return
 *   CONTEXT_DONE NAMED_CONTEXT_DONE  that of the current context, or of the context at argument 0
 *   QUERY_STREAM QUERY_EVENT QUERY_EVENTS  the same if the call succeeds: the stream; the event at argument 0; the
 *                            events at arguments 1 and 2
 *   ASKS                     submits nothing and changes no memory
 *   FREE                     frees the address at argument 0; the hook itself ends a copy that is deferred
 *   ENDING                   the stream at argument 0 ends
 *   SHARES_MEMORY            the device can access memory of the host from now on
 *   MAY_SHARE_MEMORY         the same if the flags at argument 2 say so
 *   COPY_NODE_i              SHARES if the CUDA_MEMCPY3D at argument i has an operand in host memory; otherwise BLIND
 *   NODE_i                   SHARES if the CUgraphNodeParams at argument i say so by type or operand; otherwise BLIND
 *   NO                       nothing
 *
 * why      The reason that a row with SHARES notes (GM_SYNC_...). NO: the hook, or the arguments by their meaning,
 *          decide; and for other roles.
 *
 * The variants of a name stand together, versions ascending, a twin behind its sibling. C and assembly include this
 * file: macros only. */
#ifndef GM_DRIVER_CALLS_H
#define GM_DRIVER_CALLS_H

#define GM_DRIVER_CALLS(CALL)                                                                                          \
    /* the driver, look-ups, errors */                                                                                 \
    CALL(cuInit, cuInit, 2000, 0, JUMP, BLIND, NONE, NO, NO, "no work exists before it")                               \
    CALL(cuDriverGetVersion, cuDriverGetVersion, 2020, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the driver")       \
    CALL(cuGetProcAddress, cuGetProcAddress, 11030, 0, HOOK, BLIND, NONE, NO, NO, "hands out entries of rows")         \
    CALL(cuGetProcAddress_v2, cuGetProcAddress, 12000, 0, HOOK, BLIND, NONE, NO, NO, "hands out entries of rows")      \
    CALL(cuGetExportTable, cuGetExportTable, 3000, 0, JUMP, BLIND, NONE, NO, NO, "private tables are a limit")         \
    CALL(cuGetErrorName, cuGetErrorName, 6000, 0, JUMP, BLIND, NONE, NO, NO, "a constant text")                        \
    CALL(cuGetErrorString, cuGetErrorString, 6000, 0, JUMP, BLIND, NONE, NO, NO, "a constant text")                    \
    /* devices */                                                                                                      \
    CALL(cuDeviceGet, cuDeviceGet, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                     \
    CALL(cuDeviceGetCount, cuDeviceGetCount, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")           \
    CALL(cuDeviceGetName, cuDeviceGetName, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")             \
    CALL(cuDeviceGetUuid, cuDeviceGetUuid, 9020, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")             \
    CALL(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")         \
    CALL(cuDeviceGetLuid, cuDeviceGetLuid, 10000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")            \
    CALL(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")   \
    CALL(cuDeviceGetProperties, cuDeviceGetProperties, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device") \
    CALL(cuDeviceComputeCapability, cuDeviceComputeCapability,                                                         \
         2000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                                               \
    CALL(cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 4010, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device") \
    CALL(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")     \
    CALL(cuDeviceGetTexture1DLinearMaxWidth, cuDeviceGetTexture1DLinearMaxWidth,                                       \
         11010, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                                              \
    CALL(cuDeviceGetExecAffinitySupport, cuDeviceGetExecAffinitySupport,                                               \
         11040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                                              \
    CALL(cuDeviceGetHostAtomicCapabilities, cuDeviceGetHostAtomicCapabilities,                                         \
         13000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                                              \
    CALL(cuDeviceGetNvSciSyncAttributes, cuDeviceGetNvSciSyncAttributes,                                               \
         10020, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                                              \
    CALL(cuDeviceGetFabricClusterUuid, cuDeviceGetFabricClusterUuid,                                                   \
         13040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                                              \
    CALL(cuDeviceGetCliqueCount, cuDeviceGetCliqueCount,                                                               \
         13040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                                              \
    CALL(cuDeviceGetCliqueInfo, cuDeviceGetCliqueInfo,                                                                 \
         13040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                                              \
    CALL(cuDeviceTotalMem, cuDeviceTotalMem, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")           \
    CALL(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, 0, HOOK, BLIND, NONE, NO, NO, "a constant of the device")        \
    CALL(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer,                                                                 \
         4000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of two devices")                                              \
    CALL(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute,                                                             \
         8000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of two devices")                                              \
    CALL(cuDeviceGetP2PAtomicCapabilities, cuDeviceGetP2PAtomicCapabilities,                                           \
         13000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of two devices")                                             \
    CALL(cuDeviceRegisterAsyncNotification, cuDeviceRegisterAsyncNotification,                                         \
         12040, 0, JUMP, NOTICES, NONE, NO, NO, "the driver calls the host")                                           \
    CALL(cuDeviceUnregisterAsyncNotification, cuDeviceUnregisterAsyncNotification,                                     \
         12040, 0, JUMP, NOTICES, NONE, NO, NO, "the driver calls the host")                                           \
    CALL(cuFlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites,                                                       \
         11030, 0, JUMP, NOTICES, NONE, NO, NO, "makes writes of others visible")                                      \
    /* primary contexts */                                                                                             \
    CALL(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain,                                                           \
         7000, 0, HOOK, SHARES, NONE, NO, NO, "may make a second context")                                             \
    CALL(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease,                                                         \
         7000, 0, HOOK, NOTICES, NONE, NO, NO, "ends the context and memory")                                          \
    CALL(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease,                                                      \
         11000, 0, HOOK, NOTICES, NONE, NO, NO, "ends the context and memory")                                         \
    CALL(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset,                                                             \
         7000, 0, HOOK, NOTICES, NONE, NO, NO, "ends the context and memory")                                          \
    CALL(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset,                                                          \
         11000, 0, HOOK, NOTICES, NONE, NO, NO, "ends the context and memory")                                         \
    CALL(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags,                                                       \
         7000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a living context")                                             \
    CALL(cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags,                                                    \
         11000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a living context")                                            \
    CALL(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState,                                                       \
         7000, 0, JUMP, BLIND, NONE, NO, NO, "a count of the host")                                                    \
    /* contexts */                                                                                                     \
    CALL(cuCtxCreate, cuCtxCreate, 2000, 0, HOOK, SHARES, NONE, NO, NO, "may be a second context")                     \
    CALL(cuCtxCreate_v2, cuCtxCreate, 3020, 0, HOOK, SHARES, NONE, NO, NO, "may be a second context")                  \
    CALL(cuCtxCreate_v3, cuCtxCreate, 11040, 0, HOOK, SHARES, NONE, NO, NO, "may be a second context")                 \
    CALL(cuCtxCreate_v4, cuCtxCreate, 12050, 0, HOOK, SHARES, NONE, NO, NO, "may be a second context")                 \
    CALL(cuCtxDestroy, cuCtxDestroy, 2000, 0, HOOK, NOTICES, NONE, NO, NO, "ends the context and memory")              \
    CALL(cuCtxDestroy_v2, cuCtxDestroy, 4000, 0, HOOK, NOTICES, NONE, NO, NO, "ends the context and memory")           \
    CALL(cuCtxAttach, cuCtxAttach, 2000, 0, JUMP, BLIND, NONE, NO, NO, "counts a user")                                \
    CALL(cuCtxDetach, cuCtxDetach, 2000, 0, HOOK, NOTICES, NONE, NO, NO, "may end context and memory")                 \
    CALL(cuCtxPushCurrent, cuCtxPushCurrent, 2000, 0, JUMP, BLIND, NONE, NO, NO, "sets a pointer of the thread")       \
    CALL(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, 0, JUMP, BLIND, NONE, NO, NO, "sets a pointer of the thread")    \
    CALL(cuCtxPopCurrent, cuCtxPopCurrent, 2000, 0, JUMP, BLIND, NONE, NO, NO, "sets a pointer of the thread")         \
    CALL(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, 0, JUMP, BLIND, NONE, NO, NO, "sets a pointer of the thread")      \
    CALL(cuCtxSetCurrent, cuCtxSetCurrent, 4000, 0, JUMP, BLIND, NONE, NO, NO, "sets a pointer of the thread")         \
    CALL(cuCtxGetCurrent, cuCtxGetCurrent, 4000, 0, JUMP, BLIND, NONE, NO, NO, "a pointer of the thread")              \
    CALL(cuCtxGetDevice, cuCtxGetDevice, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the context")              \
    CALL(cuCtxGetDevice_v2, cuCtxGetDevice, 13000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the context")          \
    CALL(cuCtxGetId, cuCtxGetId, 12000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the context")                     \
    CALL(cuCtxGetFlags, cuCtxGetFlags, 7000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the context")                \
    CALL(cuCtxGetApiVersion, cuCtxGetApiVersion, 3020, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the context")      \
    CALL(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange,                                                     \
         5050, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the context")                                              \
    CALL(cuCtxGetExecAffinity, cuCtxGetExecAffinity, 11040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the context") \
    CALL(cuCtxGetLimit, cuCtxGetLimit, 3010, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                \
    CALL(cuCtxGetCacheConfig, cuCtxGetCacheConfig, 3020, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")    \
    CALL(cuCtxGetSharedMemConfig, cuCtxGetSharedMemConfig,                                                             \
         4020, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                                              \
    CALL(cuCtxSetLimit, cuCtxSetLimit, 3010, 0, HOOK, NOTICES, NONE, NO, NO, "may replace memory of kernels")          \
    CALL(cuCtxSetFlags, cuCtxSetFlags, 12010, 0, JUMP, NOTICES, NONE, NO, NO, "changes how calls wait")                \
    CALL(cuCtxSetCacheConfig, cuCtxSetCacheConfig, 3020, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")  \
    CALL(cuCtxSetSharedMemConfig, cuCtxSetSharedMemConfig,                                                             \
         4020, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                                            \
    CALL(cuCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache,                                                     \
         11000, 0, JUMP, NOTICES, NONE, NO, NO, "changes the cache of kernels")                                        \
    CALL(cuCtxSynchronize, cuCtxSynchronize,                                                                           \
         2000, 0, JUMP, WAITS, NONE, CONTEXT_DONE, NO, "waits for all earlier work")                                   \
    CALL(cuCtxSynchronize_v2, cuCtxSynchronize,                                                                        \
         13000, 0, JUMP, WAITS, NONE, NAMED_CONTEXT_DONE, NO, "waits for all earlier work")                            \
    CALL(cuCtxRecordEvent, cuCtxRecordEvent,                                                                           \
         12050, 0, JUMP, SUBMITS, NONE, CONTEXT_RECORD, NO, "behind all work of streams")                              \
    CALL(cuCtxWaitEvent, cuCtxWaitEvent, 12050, 0, JUMP, SUBMITS, NONE, CONTEXT_WAIT, NO, "holds all later work")      \
    CALL(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess,                                                                 \
         4000, 0, HOOK, SHARES, NONE, NO, NO, "another device sees memory")                                            \
    CALL(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess,                                                               \
         4000, 0, HOOK, NOTICES, NONE, NO, NO, "unmaps memory of kernels")                                             \
    /* green contexts and their resources */                                                                           \
    CALL(cuGreenCtxCreate, cuGreenCtxCreate, 12040, 0, HOOK, SHARES, NONE, NO, NO, "another context over the memory")  \
    CALL(cuGreenCtxDestroy, cuGreenCtxDestroy, 12040, 0, HOOK, NOTICES, NONE, NO, NO, "ends its streams")              \
    CALL(cuCtxFromGreenCtx, cuCtxFromGreenCtx,                                                                         \
         12040, 0, JUMP, SHARES, NONE, NO, GREEN, "another context over the memory")                                   \
    CALL(cuGreenCtxStreamCreate, cuGreenCtxStreamCreate,                                                               \
         12050, 0, HOOK, BLIND, NONE, NO, NO, "its first work submits")                                                \
    CALL(cuGreenCtxRecordEvent, cuGreenCtxRecordEvent,                                                                 \
         12040, 0, JUMP, SUBMITS, NONE, NO, NO, "behind work of its streams")                                          \
    CALL(cuGreenCtxWaitEvent, cuGreenCtxWaitEvent, 12040, 0, JUMP, SUBMITS, NONE, NO, NO, "holds its later work")      \
    CALL(cuGreenCtxGetId, cuGreenCtxGetId, 12090, 0, JUMP, BLIND, NONE, NO, NO, "a constant of its object")            \
    CALL(cuGreenCtxGetDevResource, cuGreenCtxGetDevResource,                                                           \
         12040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of its object")                                              \
    CALL(cuCtxGetDevResource, cuCtxGetDevResource, 12040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of its object")    \
    CALL(cuDeviceGetDevResource, cuDeviceGetDevResource,                                                               \
         12040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of its object")                                              \
    CALL(cuStreamGetDevResource, cuStreamGetDevResource, 13010, 0, JUMP, BLIND, 0, NO, NO, "a constant of its object") \
    CALL(cuStreamGetDevResource_ptsz, cuStreamGetDevResource,                                                          \
         13010, 1, JUMP, BLIND, 0, NO, NO, "a constant of its object")                                                 \
    CALL(cuDevResourceGenerateDesc, cuDevResourceGenerateDesc,                                                         \
         12040, 0, JUMP, BLIND, NONE, NO, NO, "computes on the host")                                                  \
    CALL(cuDevSmResourceSplit, cuDevSmResourceSplit, 13010, 0, JUMP, BLIND, NONE, NO, NO, "computes on the host")      \
    CALL(cuDevSmResourceSplitByCount, cuDevSmResourceSplitByCount,                                                     \
         12040, 0, JUMP, BLIND, NONE, NO, NO, "computes on the host")                                                  \
    /* modules and libraries */                                                                                        \
    CALL(cuModuleLoad, cuModuleLoad, 2000, 0, HOOK, SHARES, NONE, NO, NO, "its kernels may print")                     \
    CALL(cuModuleLoadData, cuModuleLoadData, 2000, 0, HOOK, SHARES, NONE, NO, NO, "its kernels may print")             \
    CALL(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, 0, HOOK, SHARES, NONE, NO, NO, "its kernels may print")         \
    CALL(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, 0, HOOK, SHARES, NONE, NO, NO, "its kernels may print")   \
    CALL(cuLibraryLoadData, cuLibraryLoadData, 12000, 0, HOOK, SHARES, NONE, NO, NO, "its kernels may print")          \
    CALL(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000, 0, HOOK, SHARES, NONE, NO, NO, "its kernels may print")  \
    CALL(cuModuleUnload, cuModuleUnload, 2000, 0, JUMP, NOTICES, NONE, NO, NO, "frees code and variables")             \
    CALL(cuLibraryUnload, cuLibraryUnload, 12000, 0, HOOK, NOTICES, NONE, NO, NO, "frees code and variables")          \
    CALL(cuModuleGetGlobal, cuModuleGetGlobal,                                                                         \
         2000, 0, JUMP, SHARES, NONE, NO, HOST_MEMORY, "a variable may be managed")                                    \
    CALL(cuModuleGetGlobal_v2, cuModuleGetGlobal, 3020, 0, HOOK, SHARES, NONE, NO, NO, "a variable may be managed")    \
    CALL(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000, 0, HOOK, SHARES, NONE, NO, NO, "a variable may be managed")    \
    CALL(cuLibraryGetManaged, cuLibraryGetManaged,                                                                     \
         12000, 0, HOOK, SHARES, NONE, SHARES_MEMORY, NO, "the variable is managed")                                   \
    CALL(cuModuleGetFunction, cuModuleGetFunction, 2000, 0, HOOK, BLIND, NONE, NO, NO, "may load code, changes none")  \
    CALL(cuLibraryGetModule, cuLibraryGetModule, 12000, 0, HOOK, SHARES, NONE, NO, NO, "its kernels may print")        \
    CALL(cuModuleGetFunctionCount, cuModuleGetFunctionCount,                                                           \
         12040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                                               \
    CALL(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions,                                                       \
         12040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                                               \
    CALL(cuModuleGetSurfRef, cuModuleGetSurfRef, 3000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")        \
    CALL(cuModuleGetTexRef, cuModuleGetTexRef, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")          \
    CALL(cuLibraryGetKernel, cuLibraryGetKernel, 12000, 0, HOOK, SHARES, NONE, NO, NO, "its kernels may print")         \
    CALL(cuLibraryGetKernelCount, cuLibraryGetKernelCount,                                                             \
         12040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                                               \
    CALL(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels,                                                         \
         12040, 0, HOOK, SHARES, NONE, NO, NO, "its kernels may print")                                                 \
    CALL(cuLibraryGetUnifiedFunction, cuLibraryGetUnifiedFunction,                                                     \
         12000, 0, HOOK, SHARES, NONE, NO, NO, "its kernels may print")                                                 \
    CALL(cuModuleGetLoadingMode, cuModuleGetLoadingMode,                                                               \
         11070, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the process")                                             \
    /* linking on the host */                                                                                          \
    CALL(cuLinkCreate, cuLinkCreate, 5050, 0, JUMP, BLIND, NONE, NO, NO, "works on the host only")                     \
    CALL(cuLinkCreate_v2, cuLinkCreate, 6050, 0, JUMP, BLIND, NONE, NO, NO, "works on the host only")                  \
    CALL(cuLinkAddData, cuLinkAddData, 5050, 0, JUMP, BLIND, NONE, NO, NO, "works on the host only")                   \
    CALL(cuLinkAddData_v2, cuLinkAddData, 6050, 0, JUMP, BLIND, NONE, NO, NO, "works on the host only")                \
    CALL(cuLinkAddFile, cuLinkAddFile, 5050, 0, JUMP, BLIND, NONE, NO, NO, "works on the host only")                   \
    CALL(cuLinkAddFile_v2, cuLinkAddFile, 6050, 0, JUMP, BLIND, NONE, NO, NO, "works on the host only")                \
    CALL(cuLinkComplete, cuLinkComplete, 5050, 0, JUMP, BLIND, NONE, NO, NO, "works on the host only")                 \
    CALL(cuLinkDestroy, cuLinkDestroy, 5050, 0, JUMP, BLIND, NONE, NO, NO, "works on the host only")                   \
    /* functions and kernels */                                                                                        \
    CALL(cuFuncGetModule, cuFuncGetModule, 11000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")             \
    CALL(cuFuncGetName, cuFuncGetName, 12030, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                 \
    CALL(cuFuncGetAttribute, cuFuncGetAttribute, 2020, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")        \
    CALL(cuFuncGetParamCount, cuFuncGetParamCount, 13020, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")     \
    CALL(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")       \
    CALL(cuFuncIsLoaded, cuFuncIsLoaded, 12040, 0, JUMP, BLIND, NONE, NO, NO, "set by calls of host")                  \
    CALL(cuFuncLoad, cuFuncLoad, 12040, 0, HOOK, BLIND, NONE, NO, NO, "may load code, changes none")                   \
    CALL(cuKernelGetFunction, cuKernelGetFunction, 12000, 0, HOOK, BLIND, NONE, NO, NO, "may load code, changes none") \
    CALL(cuFuncSetAttribute, cuFuncSetAttribute, 9000, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")    \
    CALL(cuFuncSetCacheConfig, cuFuncSetCacheConfig,                                                                   \
         3000, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                                            \
    CALL(cuFuncSetSharedMemConfig, cuFuncSetSharedMemConfig,                                                           \
         4020, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                                            \
    CALL(cuFuncSetBlockShape, cuFuncSetBlockShape, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")  \
    CALL(cuFuncSetSharedSize, cuFuncSetSharedSize, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")  \
    CALL(cuKernelGetLibrary, cuKernelGetLibrary, 12050, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")       \
    CALL(cuKernelGetName, cuKernelGetName, 12030, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")             \
    CALL(cuKernelGetAttribute, cuKernelGetAttribute, 12000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")   \
    CALL(cuKernelGetParamCount, cuKernelGetParamCount, 13020, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image") \
    CALL(cuKernelGetParamInfo, cuKernelGetParamInfo, 12040, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the image")   \
    CALL(cuKernelSetAttribute, cuKernelSetAttribute,                                                                   \
         12000, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                                           \
    CALL(cuKernelSetCacheConfig, cuKernelSetCacheConfig,                                                               \
         12000, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                                           \
    CALL(cuParamSetSize, cuParamSetSize, 2000, 0, JUMP, BLIND, NONE, NO, NO, "an argument of later launches")          \
    CALL(cuParamSetTexRef, cuParamSetTexRef, 2000, 0, JUMP, BLIND, NONE, NO, NO, "an argument of later launches")      \
    CALL(cuParamSetf, cuParamSetf, 2000, 0, JUMP, BLIND, NONE, NO, NO, "an argument of later launches")                \
    CALL(cuParamSeti, cuParamSeti, 2000, 0, JUMP, BLIND, NONE, NO, NO, "an argument of later launches")                \
    CALL(cuParamSetv, cuParamSetv, 2000, 0, JUMP, BLIND, NONE, NO, NO, "an argument of later launches")                \
    CALL(cuOccupancyAvailableDynamicSMemPerBlock, cuOccupancyAvailableDynamicSMemPerBlock,                             \
         10020, 0, JUMP, BLIND, NONE, NO, NO, "computes on the host")                                                  \
    CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor,                     \
         6050, 0, JUMP, BLIND, NONE, NO, NO, "computes on the host")                                                   \
    CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,   \
         7000, 0, JUMP, BLIND, NONE, NO, NO, "computes on the host")                                                   \
    CALL(cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters,                                                   \
         11070, 0, JUMP, BLIND, NONE, NO, NO, "computes on the host")                                                  \
    CALL(cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize,                                           \
         6050, 0, JUMP, BLIND, NONE, NO, NO, "computes on the host")                                                   \
    CALL(cuOccupancyMaxPotentialBlockSizeWithFlags, cuOccupancyMaxPotentialBlockSizeWithFlags,                         \
         7000, 0, JUMP, BLIND, NONE, NO, NO, "computes on the host")                                                   \
    CALL(cuOccupancyMaxPotentialClusterSize, cuOccupancyMaxPotentialClusterSize,                                       \
         11070, 0, JUMP, BLIND, NONE, NO, NO, "computes on the host")                                                  \
    /* launches */                                                                                                     \
    CALL(cuLaunchKernel, cuLaunchKernel, 4000, 0, JUMP, SUBMITS, 8, KERNEL, NO, "behind its stream")                   \
    CALL(cuLaunchKernel_ptsz, cuLaunchKernel, 7000, 1, JUMP, SUBMITS, 8, KERNEL, NO, "behind its stream")              \
    CALL(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel,                                                         \
         9000, 0, JUMP, SUBMITS, 8, KERNEL, NO, "behind its stream")                                                   \
    CALL(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel,                                                    \
         9000, 1, JUMP, SUBMITS, 8, KERNEL, NO, "behind its stream")                                                   \
    CALL(cuLaunchKernelEx, cuLaunchKernelEx,                                                                           \
         11060, 0, JUMP, SUBMITS, CONFIG, CONFIG, NO, "attributes may loosen its order")                               \
    CALL(cuLaunchKernelEx_ptsz, cuLaunchKernelEx,                                                                      \
         11060, 1, JUMP, SUBMITS, CONFIG, CONFIG, NO, "attributes may loosen its order")                               \
    CALL(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice,                                   \
         9000, 0, JUMP, SUBMITS, NONE, NO, NO, "behind streams of several devices")                                    \
    CALL(cuLaunch, cuLaunch, 2000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")             \
    CALL(cuLaunchGrid, cuLaunchGrid, 2000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")     \
    CALL(cuLaunchGridAsync, cuLaunchGridAsync, 2000, 0, JUMP, SUBMITS, 3, KERNEL, NO, "behind its stream")             \
    CALL(cuLaunchHostFunc, cuLaunchHostFunc,                                                                           \
         10000, 0, JUMP, SHARES, 0, FUNCTION, HOST_FUNCTION, "the host runs in order")                                 \
    CALL(cuLaunchHostFunc_ptsz, cuLaunchHostFunc,                                                                      \
         10000, 1, JUMP, SHARES, 0, FUNCTION, HOST_FUNCTION, "the host runs in order")                                 \
    CALL(cuLaunchHostFunc_v2, cuLaunchHostFunc,                                                                        \
         13010, 0, JUMP, SHARES, 0, FUNCTION, HOST_FUNCTION, "the host runs in order")                                 \
    CALL(cuLaunchHostFunc_v2_ptsz, cuLaunchHostFunc,                                                                   \
         13010, 1, JUMP, SHARES, 0, FUNCTION, HOST_FUNCTION, "the host runs in order")                                 \
    CALL(cuStreamAddCallback, cuStreamAddCallback,                                                                     \
         5000, 0, JUMP, SHARES, 0, FUNCTION, HOST_FUNCTION, "the host runs in order")                                  \
    CALL(cuStreamAddCallback_ptsz, cuStreamAddCallback,                                                                \
         7000, 1, JUMP, SHARES, 0, FUNCTION, HOST_FUNCTION, "the host runs in order")                                  \
    /* streams */                                                                                                      \
    CALL(cuStreamCreate, cuStreamCreate, 2000, 0, HOOK, NOTICES, NONE, NO, NO, "an event holds no later stream")       \
    CALL(cuStreamCreateWithPriority, cuStreamCreateWithPriority,                                                       \
         5050, 0, HOOK, NOTICES, NONE, NO, NO, "an event holds no later stream")                                          \
    CALL(cuStreamDestroy, cuStreamDestroy, 2000, 0, HOOK, NOTICES, 0, ENDING, NO, "its order ends with it")            \
    CALL(cuStreamDestroy_v2, cuStreamDestroy, 4000, 0, HOOK, NOTICES, 0, ENDING, NO, "its order ends with it")         \
    CALL(cuStreamQuery, cuStreamQuery, 2000, 0, JUMP, NOTICES, 0, QUERY_STREAM, NO, "tells whether work is done")      \
    CALL(cuStreamQuery_ptsz, cuStreamQuery, 7000, 1, JUMP, NOTICES, 0, QUERY_STREAM, NO, "tells whether work is done") \
    CALL(cuStreamSynchronize, cuStreamSynchronize, 2000, 0, JUMP, WAITS, 0, SYNCHRONISE, NO, "tells of its own work")  \
    CALL(cuStreamSynchronize_ptsz, cuStreamSynchronize,                                                                \
         7000, 1, JUMP, WAITS, 0, SYNCHRONISE, NO, "tells of its own work")                                            \
    CALL(cuStreamWaitEvent, cuStreamWaitEvent, 3020, 0, JUMP, SUBMITS, 0, WAIT, NO, "behind its stream")               \
    CALL(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, 7000, 1, JUMP, SUBMITS, 0, WAIT, NO, "behind its stream")          \
    CALL(cuStreamAttachMemAsync, cuStreamAttachMemAsync, 6000, 0, JUMP, SUBMITS, 0, WORK, NO, "behind its stream")     \
    CALL(cuStreamAttachMemAsync_ptsz, cuStreamAttachMemAsync,                                                          \
         7000, 1, JUMP, SUBMITS, 0, WORK, NO, "behind its stream")                                                     \
    CALL(cuStreamGetId, cuStreamGetId, 12000, 0, JUMP, BLIND, 0, NO, NO, "a constant of the stream")                   \
    CALL(cuStreamGetId_ptsz, cuStreamGetId, 12000, 1, JUMP, BLIND, 0, NO, NO, "a constant of the stream")              \
    CALL(cuStreamGetFlags, cuStreamGetFlags, 5050, 0, JUMP, BLIND, 0, NO, NO, "a constant of the stream")              \
    CALL(cuStreamGetFlags_ptsz, cuStreamGetFlags, 7000, 1, JUMP, BLIND, 0, NO, NO, "a constant of the stream")         \
    CALL(cuStreamGetPriority, cuStreamGetPriority, 5050, 0, JUMP, BLIND, 0, NO, NO, "a constant of the stream")        \
    CALL(cuStreamGetPriority_ptsz, cuStreamGetPriority, 7000, 1, JUMP, BLIND, 0, NO, NO, "a constant of the stream")   \
    CALL(cuStreamGetDevice, cuStreamGetDevice, 12080, 0, JUMP, BLIND, 0, NO, NO, "a constant of the stream")           \
    CALL(cuStreamGetDevice_ptsz, cuStreamGetDevice, 12080, 1, JUMP, BLIND, 0, NO, NO, "a constant of the stream")      \
    CALL(cuStreamGetCtx, cuStreamGetCtx, 9020, 0, JUMP, BLIND, 0, NO, NO, "a constant of the stream")                  \
    CALL(cuStreamGetCtx_ptsz, cuStreamGetCtx, 9020, 1, JUMP, BLIND, 0, NO, NO, "a constant of the stream")             \
    CALL(cuStreamGetCtx_v2, cuStreamGetCtx, 12050, 0, JUMP, BLIND, 0, NO, NO, "a constant of the stream")              \
    CALL(cuStreamGetCtx_v2_ptsz, cuStreamGetCtx, 12050, 1, JUMP, BLIND, 0, NO, NO, "a constant of the stream")         \
    CALL(cuStreamGetGreenCtx, cuStreamGetGreenCtx, 12040, 0, JUMP, BLIND, 0, NO, NO, "a constant of the stream")       \
    CALL(cuStreamGetAttribute, cuStreamGetAttribute, 11000, 0, JUMP, BLIND, 0, NO, NO, "a setting that calls made")    \
    CALL(cuStreamGetAttribute_ptsz, cuStreamGetAttribute,                                                              \
         11000, 1, JUMP, BLIND, 0, NO, NO, "a setting that calls made")                                                \
    CALL(cuStreamSetAttribute, cuStreamSetAttribute,                                                                   \
         11000, 0, JUMP, NOTICES, 0, NO, NO, "attributes may loosen later order")                                      \
    CALL(cuStreamSetAttribute_ptsz, cuStreamSetAttribute,                                                              \
         11000, 1, JUMP, NOTICES, 0, NO, NO, "attributes may loosen later order")                                      \
    CALL(cuStreamCopyAttributes, cuStreamCopyAttributes,                                                               \
         11000, 0, JUMP, NOTICES, 0, NO, NO, "attributes may loosen later order")                                      \
    CALL(cuStreamCopyAttributes_ptsz, cuStreamCopyAttributes,                                                          \
         11000, 1, JUMP, NOTICES, 0, NO, NO, "attributes may loosen later order")                                      \
    /* values in memory that streams write and wait for */                                                             \
    CALL(cuStreamWriteValue32, cuStreamWriteValue32, 8000, 0, JUMP, SUBMITS, 0, SIGNAL, NO, "behind its stream")       \
    CALL(cuStreamWriteValue32_ptsz, cuStreamWriteValue32, 8000, 1, JUMP, SUBMITS, 0, SIGNAL, NO, "behind its stream")  \
    CALL(cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070, 0, JUMP, SUBMITS, 0, SIGNAL, NO, "behind its stream")   \
    CALL(cuStreamWriteValue32_v2_ptsz, cuStreamWriteValue32,                                                           \
         11070, 1, JUMP, SUBMITS, 0, SIGNAL, NO, "behind its stream")                                                  \
    CALL(cuStreamWriteValue64, cuStreamWriteValue64, 9000, 0, JUMP, SUBMITS, 0, SIGNAL, NO, "behind its stream")       \
    CALL(cuStreamWriteValue64_ptsz, cuStreamWriteValue64, 9000, 1, JUMP, SUBMITS, 0, SIGNAL, NO, "behind its stream")  \
    CALL(cuStreamWriteValue64_v2, cuStreamWriteValue64, 11070, 0, JUMP, SUBMITS, 0, SIGNAL, NO, "behind its stream")   \
    CALL(cuStreamWriteValue64_v2_ptsz, cuStreamWriteValue64,                                                           \
         11070, 1, JUMP, SUBMITS, 0, SIGNAL, NO, "behind its stream")                                                  \
    CALL(cuStreamWaitValue32, cuStreamWaitValue32,                                                                     \
         8000, 0, JUMP, SHARES, 0, AWAIT, VALUES, "waits for what others write")                                       \
    CALL(cuStreamWaitValue32_ptsz, cuStreamWaitValue32,                                                                \
         8000, 1, JUMP, SHARES, 0, AWAIT, VALUES, "waits for what others write")                                       \
    CALL(cuStreamWaitValue32_v2, cuStreamWaitValue32,                                                                  \
         11070, 0, JUMP, SHARES, 0, AWAIT, VALUES, "waits for what others write")                                      \
    CALL(cuStreamWaitValue32_v2_ptsz, cuStreamWaitValue32,                                                             \
         11070, 1, JUMP, SHARES, 0, AWAIT, VALUES, "waits for what others write")                                      \
    CALL(cuStreamWaitValue64, cuStreamWaitValue64,                                                                     \
         9000, 0, JUMP, SHARES, 0, AWAIT, VALUES, "waits for what others write")                                       \
    CALL(cuStreamWaitValue64_ptsz, cuStreamWaitValue64,                                                                \
         9000, 1, JUMP, SHARES, 0, AWAIT, VALUES, "waits for what others write")                                       \
    CALL(cuStreamWaitValue64_v2, cuStreamWaitValue64,                                                                  \
         11070, 0, JUMP, SHARES, 0, AWAIT, VALUES, "waits for what others write")                                      \
    CALL(cuStreamWaitValue64_v2_ptsz, cuStreamWaitValue64,                                                             \
         11070, 1, JUMP, SHARES, 0, AWAIT, VALUES, "waits for what others write")                                      \
    CALL(cuStreamBatchMemOp, cuStreamBatchMemOp, 8000, 0, JUMP, SHARES, 0, BATCH, VALUES, "may wait for others")       \
    CALL(cuStreamBatchMemOp_ptsz, cuStreamBatchMemOp, 8000, 1, JUMP, SHARES, 0, BATCH, VALUES, "may wait for others")  \
    CALL(cuStreamBatchMemOp_v2, cuStreamBatchMemOp, 11070, 0, JUMP, SHARES, 0, BATCH, VALUES, "may wait for others")   \
    CALL(cuStreamBatchMemOp_v2_ptsz, cuStreamBatchMemOp,                                                               \
         11070, 1, JUMP, SHARES, 0, BATCH, VALUES, "may wait for others")                                              \
    /* events */                                                                                                       \
    CALL(cuEventCreate, cuEventCreate, 2000, 0, JUMP, BLIND, NONE, NO, NO, "it is not recorded yet")                   \
    CALL(cuEventDestroy, cuEventDestroy, 2000, 0, JUMP, BLIND, NONE, NO, NO, "the driver keeps pending ones")          \
    CALL(cuEventDestroy_v2, cuEventDestroy, 4000, 0, JUMP, BLIND, NONE, NO, NO, "the driver keeps pending ones")       \
    CALL(cuEventRecord, cuEventRecord, 2000, 0, JUMP, SUBMITS, 1, RECORD, NO, "behind its stream")                     \
    CALL(cuEventRecord_ptsz, cuEventRecord, 7000, 1, JUMP, SUBMITS, 1, RECORD, NO, "behind its stream")                \
    CALL(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, 0, JUMP, SUBMITS, 1, RECORD, NO, "behind its stream")  \
    CALL(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags,                                                          \
         11010, 1, JUMP, SUBMITS, 1, RECORD, NO, "behind its stream")                                                  \
    CALL(cuEventQuery, cuEventQuery, 2000, 0, JUMP, NOTICES, NONE, QUERY_EVENT, NO, "tells whether work is done")      \
    CALL(cuEventElapsedTime, cuEventElapsedTime,                                                                       \
         2000, 0, JUMP, NOTICES, NONE, QUERY_EVENTS, NO, "tells whether work is done")                                 \
    CALL(cuEventElapsedTime_v2, cuEventElapsedTime,                                                                    \
         12080, 0, JUMP, NOTICES, NONE, QUERY_EVENTS, NO, "tells whether work is done")                                \
    CALL(cuEventSynchronize, cuEventSynchronize, 2000, 0, JUMP, WAITS, NONE, EVENT_DONE, NO, "tells of its own work")  \
    /* capture */                                                                                                      \
    CALL(cuStreamBeginCapture, cuStreamBeginCapture, 10000, 0, HOOK, SUBMITS, 0, NO, NO, "the event must come before") \
    CALL(cuStreamBeginCapture_ptsz, cuStreamBeginCapture,                                                              \
         10000, 1, HOOK, SUBMITS, 0, NO, NO, "the event must come before")                                             \
    CALL(cuStreamBeginCapture_v2, cuStreamBeginCapture,                                                                \
         10010, 0, HOOK, SUBMITS, 0, NO, NO, "the event must come before")                                             \
    CALL(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture,                                                           \
         10010, 1, HOOK, SUBMITS, 0, NO, NO, "the event must come before")                                             \
    CALL(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph,                                                     \
         12030, 0, HOOK, SUBMITS, 0, NO, NO, "the event must come before")                                             \
    CALL(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph,                                                \
         12030, 1, HOOK, SUBMITS, 0, NO, NO, "the event must come before")                                             \
    CALL(cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph,                                                 \
         13030, 0, JUMP, SHARES, 0, NO, HOST_FUNCTION, "a capture that nobody counts")                                 \
    CALL(cuStreamBeginRecaptureToGraph_ptsz, cuStreamBeginRecaptureToGraph,                                            \
         13030, 1, JUMP, SHARES, 0, NO, HOST_FUNCTION, "a capture that nobody counts")                                 \
    CALL(cuStreamEndCapture, cuStreamEndCapture, 10000, 0, HOOK, BLIND, 0, NO, NO, "captured work has not run")        \
    CALL(cuStreamEndCapture_ptsz, cuStreamEndCapture, 10000, 1, HOOK, BLIND, 0, NO, NO, "captured work has not run")   \
    CALL(cuStreamBeginCaptureToCig, cuStreamBeginCaptureToCig,                                                         \
         13010, 0, JUMP, SHARES, 0, NO, EXTERNAL, "graphics libraries run the work")                                   \
    CALL(cuStreamBeginCaptureToCig_ptsz, cuStreamBeginCaptureToCig,                                                    \
         13010, 1, JUMP, SHARES, 0, NO, EXTERNAL, "graphics libraries run the work")                                   \
    CALL(cuStreamEndCaptureToCig, cuStreamEndCaptureToCig,                                                             \
         13010, 0, JUMP, SHARES, 0, NO, EXTERNAL, "graphics libraries run the work")                                   \
    CALL(cuStreamEndCaptureToCig_ptsz, cuStreamEndCaptureToCig,                                                        \
         13010, 1, JUMP, SHARES, 0, NO, EXTERNAL, "graphics libraries run the work")                                   \
    CALL(cuStreamIsCapturing, cuStreamIsCapturing, 10000, 0, JUMP, BLIND, 0, NO, NO, "a state of the host")            \
    CALL(cuStreamIsCapturing_ptsz, cuStreamIsCapturing, 10000, 1, JUMP, BLIND, 0, NO, NO, "a state of the host")       \
    CALL(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, 10010, 0, JUMP, BLIND, 0, NO, NO, "a state of the host")      \
    CALL(cuStreamGetCaptureInfo_ptsz, cuStreamGetCaptureInfo, 10010, 1, JUMP, BLIND, 0, NO, NO, "a state of the host") \
    CALL(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo, 11030, 0, JUMP, BLIND, 0, NO, NO, "a state of the host")   \
    CALL(cuStreamGetCaptureInfo_v2_ptsz, cuStreamGetCaptureInfo,                                                       \
         11030, 1, JUMP, BLIND, 0, NO, NO, "a state of the host")                                                      \
    CALL(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo, 12030, 0, JUMP, BLIND, 0, NO, NO, "a state of the host")   \
    CALL(cuStreamGetCaptureInfo_v3_ptsz, cuStreamGetCaptureInfo,                                                       \
         12030, 1, JUMP, BLIND, 0, NO, NO, "a state of the host")                                                      \
    CALL(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies,                                         \
         11030, 0, JUMP, BLIND, 0, NO, NO, "captured work has not run")                                                \
    CALL(cuStreamUpdateCaptureDependencies_ptsz, cuStreamUpdateCaptureDependencies,                                    \
         11030, 1, JUMP, BLIND, 0, NO, NO, "captured work has not run")                                                \
    CALL(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies,                                      \
         12030, 0, JUMP, BLIND, 0, NO, NO, "captured work has not run")                                                \
    CALL(cuStreamUpdateCaptureDependencies_v2_ptsz, cuStreamUpdateCaptureDependencies,                                 \
         12030, 1, JUMP, BLIND, 0, NO, NO, "captured work has not run")                                                \
    CALL(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode,                                         \
         10010, 0, JUMP, BLIND, NONE, NO, NO, "a setting of the thread")                                               \
    /* memory that gpumem places or records */                                                                         \
    CALL(cuMemAlloc, cuMemAlloc, 2000, 0, JUMP, NOTICES, NONE, NO, NO, "addresses of 32 bits, unplaced")               \
    CALL(cuMemAlloc_v2, cuMemAlloc, 3020, 0, HOOK, MEMORY, NONE, NO, NO, "placed and recorded")                        \
    CALL(cuMemAllocPitch, cuMemAllocPitch, 2000, 0, JUMP, NOTICES, NONE, NO, NO, "addresses of 32 bits, unplaced")     \
    CALL(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, 0, HOOK, MEMORY, NONE, NO, NO, "placed and recorded")              \
    CALL(cuMemFree, cuMemFree, 2000, 0, JUMP, NOTICES, NONE, NO, NO, "frees memory of kernels")                        \
    CALL(cuMemFree_v2, cuMemFree, 3020, 0, HOOK, MEMORY, NONE, FREE, NO, "decides what is in flight")                  \
    CALL(cuMemAllocManaged, cuMemAllocManaged,                                                                         \
         6000, 0, HOOK, MEMORY, NONE, SHARES_MEMORY, NO, "recorded, the host sees it")                                 \
    CALL(cuMemAllocAsync, cuMemAllocAsync, 11020, 0, HOOK, SUBMITS, 2, NO, NO, "behind its stream, recorded")          \
    CALL(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, 1, HOOK, SUBMITS, 2, NO, NO, "behind its stream, recorded")     \
    CALL(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync,                                                             \
         11020, 0, HOOK, SUBMITS, 3, NO, NO, "behind its stream, recorded")                                            \
    CALL(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync,                                                        \
         11020, 1, HOOK, SUBMITS, 3, NO, NO, "behind its stream, recorded")                                            \
    CALL(cuMemFreeAsync, cuMemFreeAsync, 11020, 0, HOOK, SUBMITS, 1, WORK, NO, "behind its stream, recorded")          \
    CALL(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, 1, HOOK, SUBMITS, 1, WORK, NO, "behind its stream, recorded")     \
    /* host memory */                                                                                                  \
    CALL(cuMemAllocHost, cuMemAllocHost, 2000, 0, JUMP, SHARES, NONE, SHARES_MEMORY, HOST_MEMORY, "the host sees it")  \
    CALL(cuMemAllocHost_v2, cuMemAllocHost, 3020, 0, HOOK, MEMORY, NONE, NO, NO, "recorded, the host sees it")         \
    CALL(cuMemHostAlloc, cuMemHostAlloc,                                                                               \
         2020, 0, HOOK, MEMORY, NONE, MAY_SHARE_MEMORY, NO, "recorded, the host sees it")                              \
    CALL(cuMemHostRegister, cuMemHostRegister,                                                                         \
         4000, 0, HOOK, MEMORY, NONE, MAY_SHARE_MEMORY, NO, "recorded, the host sees it")                              \
    CALL(cuMemHostRegister_v2, cuMemHostRegister,                                                                      \
         6050, 0, HOOK, MEMORY, NONE, MAY_SHARE_MEMORY, NO, "recorded, the host sees it")                              \
    CALL(cuMemHostUnregister, cuMemHostUnregister, 4000, 0, HOOK, NOTICES, NONE, NO, NO, "frees memory of kernels")    \
    CALL(cuMemFreeHost, cuMemFreeHost, 2000, 0, HOOK, NOTICES, NONE, NO, NO, "frees memory of kernels")                \
    CALL(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer,                                                         \
         2020, 0, JUMP, BLIND, NONE, SHARES_MEMORY, NO, "its allocation was noted")                                    \
    CALL(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer,                                                      \
         3020, 0, JUMP, BLIND, NONE, SHARES_MEMORY, NO, "its allocation was noted")                                    \
    CALL(cuMemHostGetFlags, cuMemHostGetFlags, 2030, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the memory")         \
    /* facts about memory */                                                                                           \
    CALL(cuMemGetInfo, cuMemGetInfo, 2000, 0, JUMP, NOTICES, NONE, NO, NO, "finished work gives memory back")          \
    CALL(cuMemGetInfo_v2, cuMemGetInfo, 3020, 0, HOOK, NOTICES, NONE, ASKS, NO, "finished work gives memory back")     \
    CALL(cuMemGetAddressRange, cuMemGetAddressRange, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the memory")   \
    CALL(cuMemGetAddressRange_v2, cuMemGetAddressRange,                                                                \
         3020, 0, HOOK, BLIND, NONE, NO, NO, "a constant of the memory")                                               \
    CALL(cuPointerGetAttribute, cuPointerGetAttribute,                                                                 \
         4000, 0, HOOK, SHARES, NONE, ASKS, NO, "tokens let devices see memory")                                       \
    CALL(cuPointerGetAttributes, cuPointerGetAttributes,                                                               \
         7000, 0, HOOK, SHARES, NONE, ASKS, NO, "tokens let devices see memory")                                       \
    CALL(cuPointerSetAttribute, cuPointerSetAttribute,                                                                 \
         6000, 0, HOOK, NOTICES, NONE, NO, NO, "changes how copies wait")                                              \
    CALL(cuMemRangeGetAttribute, cuMemRangeGetAttribute,                                                               \
         8000, 0, JUMP, NOTICES, NONE, NO, NO, "tells where work moved pages")                                         \
    CALL(cuMemRangeGetAttributes, cuMemRangeGetAttributes,                                                             \
         8000, 0, JUMP, NOTICES, NONE, NO, NO, "tells where work moved pages")                                         \
    CALL(cuMemGetLocationInfo, cuMemGetLocationInfo,                                                                   \
         13040, 0, JUMP, NOTICES, NONE, NO, NO, "tells where work moved pages")                                        \
    /* managed memory */                                                                                               \
    CALL(cuMemAdvise, cuMemAdvise, 8000, 0, HOOK, NOTICES, NONE, NO, NO, "moves pages of kernels")                     \
    CALL(cuMemAdvise_v2, cuMemAdvise, 12020, 0, HOOK, NOTICES, NONE, NO, NO, "moves pages of kernels")                 \
    CALL(cuMemPrefetchAsync, cuMemPrefetchAsync, 8000, 0, HOOK, SUBMITS, 3, WORK, NO, "behind its stream")             \
    CALL(cuMemPrefetchAsync_ptsz, cuMemPrefetchAsync, 8000, 1, HOOK, SUBMITS, 3, WORK, NO, "behind its stream")        \
    CALL(cuMemPrefetchAsync_v2, cuMemPrefetchAsync, 12020, 0, HOOK, SUBMITS, 4, WORK, NO, "behind its stream")         \
    CALL(cuMemPrefetchAsync_v2_ptsz, cuMemPrefetchAsync, 12020, 1, HOOK, SUBMITS, 4, WORK, NO, "behind its stream")    \
    CALL(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync, 13000, 0, JUMP, SUBMITS, 7, WORK, NO, "behind its stream")  \
    CALL(cuMemPrefetchBatchAsync_ptsz, cuMemPrefetchBatchAsync,                                                        \
         13000, 1, JUMP, SUBMITS, 7, WORK, NO, "behind its stream")                                                    \
    CALL(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync, 13000, 0, JUMP, SUBMITS, 4, WORK, NO, "behind its stream")    \
    CALL(cuMemDiscardBatchAsync_ptsz, cuMemDiscardBatchAsync,                                                          \
         13000, 1, JUMP, SUBMITS, 4, WORK, NO, "behind its stream")                                                    \
    CALL(cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync,                                         \
         13000, 0, JUMP, SUBMITS, 7, WORK, NO, "behind its stream")                                                    \
    CALL(cuMemDiscardAndPrefetchBatchAsync_ptsz, cuMemDiscardAndPrefetchBatchAsync,                                    \
         13000, 1, JUMP, SUBMITS, 7, WORK, NO, "behind its stream")                                                    \
    /* arrays */                                                                                                       \
    CALL(cuArrayCreate, cuArrayCreate, 2000, 0, JUMP, NOTICES, NONE, NO, NO, "sizes of 32 bits, unrecorded")           \
    CALL(cuArrayCreate_v2, cuArrayCreate, 3020, 0, HOOK, MEMORY, NONE, NO, NO, "recorded")                             \
    CALL(cuArray3DCreate, cuArray3DCreate, 2000, 0, JUMP, NOTICES, NONE, NO, NO, "sizes of 32 bits, unrecorded")       \
    CALL(cuArray3DCreate_v2, cuArray3DCreate, 3020, 0, HOOK, MEMORY, NONE, NO, NO, "recorded")                         \
    CALL(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, 0, HOOK, MEMORY, NONE, NO, NO, "recorded")              \
    CALL(cuArrayDestroy, cuArrayDestroy, 2000, 0, HOOK, NOTICES, NONE, NO, NO, "frees memory of kernels")              \
    CALL(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy,                                                             \
         5000, 0, HOOK, NOTICES, NONE, NO, NO, "frees memory of kernels")                                              \
    CALL(cuArrayGetDescriptor, cuArrayGetDescriptor, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the array")    \
    CALL(cuArrayGetDescriptor_v2, cuArrayGetDescriptor, 3020, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the array") \
    CALL(cuArray3DGetDescriptor, cuArray3DGetDescriptor,                                                               \
         2000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                                                \
    CALL(cuArray3DGetDescriptor_v2, cuArray3DGetDescriptor,                                                            \
         3020, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                                                \
    CALL(cuArrayGetPlane, cuArrayGetPlane, 11020, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the array")             \
    CALL(cuArrayGetMemoryRequirements, cuArrayGetMemoryRequirements,                                                   \
         11060, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                                               \
    CALL(cuArrayGetSparseProperties, cuArrayGetSparseProperties,                                                       \
         11010, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                                               \
    CALL(cuMipmappedArrayGetLevel, cuMipmappedArrayGetLevel,                                                           \
         5000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                                                \
    CALL(cuMipmappedArrayGetMemoryRequirements, cuMipmappedArrayGetMemoryRequirements,                                 \
         11060, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                                               \
    CALL(cuMipmappedArrayGetSparseProperties, cuMipmappedArrayGetSparseProperties,                                     \
         11010, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                                               \
    CALL(cuMemMapArrayAsync, cuMemMapArrayAsync, 11010, 0, JUMP, SUBMITS, 2, WORK, NO, "behind its stream")            \
    CALL(cuMemMapArrayAsync_ptsz, cuMemMapArrayAsync, 11010, 1, JUMP, SUBMITS, 2, WORK, NO, "behind its stream")       \
    /* virtual memory */                                                                                               \
    CALL(cuMemAddressReserve, cuMemAddressReserve, 10020, 0, HOOK, MEMORY, NONE, NO, NO, "recorded")                   \
    CALL(cuMemCreate, cuMemCreate, 10020, 0, HOOK, MEMORY, NONE, NO, NO, "recorded")                                   \
    CALL(cuMemMap, cuMemMap, 10020, 0, HOOK, MEMORY, NONE, NO, NO, "recorded")                                         \
    CALL(cuMemAddressFree, cuMemAddressFree, 10020, 0, HOOK, NOTICES, NONE, NO, NO, "frees memory of kernels")         \
    CALL(cuMemRelease, cuMemRelease, 10020, 0, HOOK, NOTICES, NONE, NO, NO, "frees memory of kernels")                 \
    CALL(cuMemUnmap, cuMemUnmap, 10020, 0, HOOK, NOTICES, NONE, NO, NO, "does not wait for kernels")                   \
    CALL(cuMemSetAccess, cuMemSetAccess, 10020, 0, HOOK, NOTICES, NONE, NO, NO, "does not wait for kernels")           \
    CALL(cuMemGetAccess, cuMemGetAccess, 10020, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")             \
    CALL(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity,                                                 \
         10020, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                                              \
    CALL(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle,                               \
         10020, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the memory")                                              \
    CALL(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle,                                                     \
         11000, 0, HOOK, BLIND, NONE, NO, NO, "a constant of the memory")                                              \
    /* pools */                                                                                                        \
    CALL(cuMemPoolCreate, cuMemPoolCreate, 11020, 0, HOOK, MEMORY, NONE, NO, NO, "recorded, may be of host")           \
    CALL(cuMemPoolDestroy, cuMemPoolDestroy, 11020, 0, HOOK, NOTICES, NONE, NO, NO, "finished frees give memory back") \
    CALL(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, 0, HOOK, NOTICES, NONE, NO, NO, "finished frees give memory back")   \
    CALL(cuMemPoolGetAttribute, cuMemPoolGetAttribute,                                                                 \
         11020, 0, JUMP, NOTICES, NONE, NO, NO, "counts what frees gave back")                                         \
    CALL(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, 0, JUMP, NOTICES, NONE, NO, NO, "may give memory back")  \
    CALL(cuMemPoolSetAccess, cuMemPoolSetAccess,                                                                       \
         11020, 0, JUMP, SHARES, NONE, NO, PEERS, "another device sees memory")                                        \
    CALL(cuMemPoolGetAccess, cuMemPoolGetAccess, 11020, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")     \
    CALL(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool,                                                         \
         11020, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                                             \
    CALL(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")     \
    CALL(cuDeviceSetMemPool, cuDeviceSetMemPool,                                                                       \
         11020, 0, HOOK, BLIND, NONE, NO, NO, "a setting of later allocations")                                        \
    CALL(cuMemSetMemPool, cuMemSetMemPool, 13000, 0, HOOK, BLIND, NONE, NO, NO, "a setting of later allocations")      \
    CALL(cuMemGetDefaultMemPool, cuMemGetDefaultMemPool, 13000, 0, HOOK, SHARES, NONE, NO, NO, "may be of the host")   \
    CALL(cuMemGetMemPool, cuMemGetMemPool, 13000, 0, HOOK, SHARES, NONE, NO, NO, "may be of the host")                 \
    /* memory for other processes and devices */                                                                       \
    CALL(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, 0, HOOK, SHARES, NONE, NO, NO, "another process sees memory")     \
    CALL(cuIpcOpenMemHandle, cuIpcOpenMemHandle, 4010, 0, HOOK, SHARES, NONE, NO, NO, "another process sees memory")   \
    CALL(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle,                                                                    \
         11000, 0, HOOK, SHARES, NONE, NO, NO, "another process sees memory")                                          \
    CALL(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, 0, HOOK, NOTICES, NONE, NO, NO, "unmaps memory of kernels")   \
    CALL(cuIpcGetEventHandle, cuIpcGetEventHandle,                                                                     \
         4010, 0, JUMP, SHARES, NONE, NO, SHARED, "another process sees events")                                       \
    CALL(cuIpcOpenEventHandle, cuIpcOpenEventHandle,                                                                   \
         4010, 0, JUMP, SHARES, NONE, NO, SHARED, "another process sees events")                                       \
    CALL(cuMemExportToShareableHandle, cuMemExportToShareableHandle,                                                   \
         10020, 0, HOOK, SHARES, NONE, NO, NO, "another process sees memory")                                          \
    CALL(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle,                                               \
         10020, 0, HOOK, SHARES, NONE, NO, NO, "another process sees memory")                                          \
    CALL(cuMemPoolExportPointer, cuMemPoolExportPointer,                                                               \
         11020, 0, HOOK, SHARES, NONE, NO, NO, "another process sees memory")                                          \
    CALL(cuMemPoolImportPointer, cuMemPoolImportPointer,                                                               \
         11020, 0, HOOK, SHARES, NONE, NO, NO, "another process sees memory")                                          \
    CALL(cuMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle,                                           \
         11020, 0, JUMP, SHARES, NONE, NO, SHARED, "another process sees memory")                                      \
    CALL(cuMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle,                                       \
         11020, 0, JUMP, SHARES, NONE, NO, SHARED, "another process sees memory")                                      \
    CALL(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange,                                                 \
         11070, 0, HOOK, SHARES, NONE, NO, NO, "another driver sees memory")                                           \
    CALL(cuMulticastCreate, cuMulticastCreate, 12010, 0, JUMP, BLIND, NONE, NO, NO, "no memory is bound yet")          \
    CALL(cuMulticastGetGranularity, cuMulticastGetGranularity,                                                         \
         12010, 0, JUMP, BLIND, NONE, NO, NO, "no memory is bound yet")                                                \
    CALL(cuMulticastAddDevice, cuMulticastAddDevice,                                                                   \
         12010, 0, JUMP, SHARES, NONE, NO, PEERS, "another device sees memory")                                        \
    CALL(cuMulticastBindMem, cuMulticastBindMem, 12010, 0, HOOK, SHARES, NONE, NO, NO, "another device sees memory")   \
    CALL(cuMulticastBindMem_v2, cuMulticastBindMem,                                                                    \
         13010, 0, JUMP, SHARES, NONE, NO, PEERS, "another device sees memory")                                        \
    CALL(cuMulticastBindAddr, cuMulticastBindAddr, 12010, 0, HOOK, SHARES, NONE, NO, NO, "another device sees memory") \
    CALL(cuMulticastBindAddr_v2, cuMulticastBindAddr,                                                                  \
         13010, 0, JUMP, SHARES, NONE, NO, PEERS, "another device sees memory")                                        \
    CALL(cuMulticastUnbind, cuMulticastUnbind, 12010, 0, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of kernels")      \
    CALL(cuLogicalEndpointIdReserve, cuLogicalEndpointIdReserve,                                                       \
         13030, 0, JUMP, BLIND, NONE, NO, NO, "no memory is bound yet")                                                \
    CALL(cuLogicalEndpointIdRelease, cuLogicalEndpointIdRelease,                                                       \
         13030, 0, JUMP, BLIND, NONE, NO, NO, "no memory is bound yet")                                                \
    CALL(cuLogicalEndpointGetLimits, cuLogicalEndpointGetLimits,                                                       \
         13030, 0, JUMP, BLIND, NONE, NO, NO, "no memory is bound yet")                                                \
    CALL(cuLogicalEndpointCreate, cuLogicalEndpointCreate,                                                             \
         13030, 0, JUMP, SHARES, NONE, NO, SHARED, "another device sees memory")                                       \
    CALL(cuLogicalEndpointAddDevice, cuLogicalEndpointAddDevice,                                                       \
         13030, 0, JUMP, SHARES, NONE, NO, SHARED, "another device sees memory")                                       \
    CALL(cuLogicalEndpointBindAddr, cuLogicalEndpointBindAddr,                                                         \
         13030, 0, JUMP, SHARES, NONE, NO, SHARED, "another device sees memory")                                       \
    CALL(cuLogicalEndpointBindMem, cuLogicalEndpointBindMem,                                                           \
         13030, 0, JUMP, SHARES, NONE, NO, SHARED, "another device sees memory")                                       \
    CALL(cuLogicalEndpointExport, cuLogicalEndpointExport,                                                             \
         13030, 0, JUMP, SHARES, NONE, NO, SHARED, "another device sees memory")                                       \
    CALL(cuLogicalEndpointImport, cuLogicalEndpointImport,                                                             \
         13030, 0, JUMP, SHARES, NONE, NO, SHARED, "another device sees memory")                                       \
    CALL(cuLogicalEndpointUnbind, cuLogicalEndpointUnbind,                                                             \
         13030, 0, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of others")                                             \
    CALL(cuLogicalEndpointDestroy, cuLogicalEndpointDestroy,                                                           \
         13030, 0, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of others")                                             \
    CALL(cuLogicalEndpointQuery, cuLogicalEndpointQuery,                                                               \
         13030, 0, JUMP, NOTICES, NONE, NO, NO, "a state that others change")                                          \
    CALL(cuFabricCpyBatchAsync, cuFabricCpyBatchAsync,                                                                 \
         13050, 0, JUMP, SHARES, 3, VISIBLE, SHARED, "another device sees memory")                                     \
    CALL(cuFabricCpyBatchAsync_ptsz, cuFabricCpyBatchAsync,                                                            \
         13050, 1, JUMP, SHARES, 3, VISIBLE, SHARED, "another device sees memory")                                     \
    /* copies */                                                                                                       \
    CALL(cuMemcpy, cuMemcpy, 4000, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")                 \
    CALL(cuMemcpy_ptds, cuMemcpy, 7000, 1, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")            \
    CALL(cuMemcpyPeer, cuMemcpyPeer, 4000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")     \
    CALL(cuMemcpyPeer_ptds, cuMemcpyPeer,                                                                              \
         7000, 1, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                 \
    CALL(cuMemcpyHtoD, cuMemcpyHtoD, 2000, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")         \
    CALL(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")      \
    CALL(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD, 7000, 1, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream") \
    CALL(cuMemcpyDtoH, cuMemcpyDtoH, 2000, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")         \
    CALL(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")      \
    CALL(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH, 7000, 1, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream") \
    CALL(cuMemcpyHtoA, cuMemcpyHtoA, 2000, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")         \
    CALL(cuMemcpyHtoA_v2, cuMemcpyHtoA, 3020, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")      \
    CALL(cuMemcpyHtoA_v2_ptds, cuMemcpyHtoA, 7000, 1, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream") \
    CALL(cuMemcpyAtoH, cuMemcpyAtoH, 2000, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")         \
    CALL(cuMemcpyAtoH_v2, cuMemcpyAtoH, 3020, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")      \
    CALL(cuMemcpyAtoH_v2_ptds, cuMemcpyAtoH, 7000, 1, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream") \
    CALL(cuMemcpyDtoD, cuMemcpyDtoD, 2000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")     \
    CALL(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")  \
    CALL(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD,                                                                           \
         7000, 1, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                 \
    CALL(cuMemcpyDtoA, cuMemcpyDtoA, 2000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")     \
    CALL(cuMemcpyDtoA_v2, cuMemcpyDtoA, 3020, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")  \
    CALL(cuMemcpyDtoA_v2_ptds, cuMemcpyDtoA,                                                                           \
         7000, 1, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                 \
    CALL(cuMemcpyAtoD, cuMemcpyAtoD, 2000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")     \
    CALL(cuMemcpyAtoD_v2, cuMemcpyAtoD, 3020, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")  \
    CALL(cuMemcpyAtoD_v2_ptds, cuMemcpyAtoD,                                                                           \
         7000, 1, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                 \
    CALL(cuMemcpyAtoA, cuMemcpyAtoA, 2000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")     \
    CALL(cuMemcpyAtoA_v2, cuMemcpyAtoA, 3020, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")  \
    CALL(cuMemcpyAtoA_v2_ptds, cuMemcpyAtoA,                                                                           \
         7000, 1, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                 \
    CALL(cuMemcpy2D, cuMemcpy2D, 2000, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")             \
    CALL(cuMemcpy2D_v2, cuMemcpy2D, 3020, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")          \
    CALL(cuMemcpy2D_v2_ptds, cuMemcpy2D, 7000, 1, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")     \
    CALL(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned,                                                                     \
         2000, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")                                     \
    CALL(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned,                                                                  \
         3020, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")                                     \
    CALL(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DUnaligned,                                                             \
         7000, 1, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")                                     \
    CALL(cuMemcpy3D, cuMemcpy3D, 2000, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")             \
    CALL(cuMemcpy3D_v2, cuMemcpy3D, 3020, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")          \
    CALL(cuMemcpy3D_v2_ptds, cuMemcpy3D, 7000, 1, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")     \
    CALL(cuMemcpy3DPeer, cuMemcpy3DPeer, 4000, 0, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")     \
    CALL(cuMemcpy3DPeer_ptds, cuMemcpy3DPeer,                                                                          \
         7000, 1, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")                                     \
    CALL(cuMemcpyAsync, cuMemcpyAsync, 4000, 0, JUMP, SUBMITS, 3, COPY, NO, "behind its stream")                       \
    CALL(cuMemcpyAsync_ptsz, cuMemcpyAsync, 7000, 1, JUMP, SUBMITS, 3, COPY, NO, "behind its stream")                  \
    CALL(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, 0, JUMP, SUBMITS, 5, WORK, NO, "behind its stream")               \
    CALL(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync, 7000, 1, JUMP, SUBMITS, 5, WORK, NO, "behind its stream")          \
    CALL(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync, 2000, 0, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")               \
    CALL(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, 0, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")            \
    CALL(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync, 7000, 1, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")       \
    CALL(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync, 2000, 0, JUMP, SUBMITS, 3, COPY, NO, "behind its stream")               \
    CALL(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, 0, JUMP, SUBMITS, 3, COPY, NO, "behind its stream")            \
    CALL(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync, 7000, 1, JUMP, SUBMITS, 3, COPY, NO, "behind its stream")       \
    CALL(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync, 3000, 0, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")               \
    CALL(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, 0, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")            \
    CALL(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync, 7000, 1, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")       \
    CALL(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync, 2000, 0, JUMP, SUBMITS, 4, WORK, NO, "behind its stream")               \
    CALL(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync, 3020, 0, JUMP, SUBMITS, 4, WORK, NO, "behind its stream")            \
    CALL(cuMemcpyHtoAAsync_v2_ptsz, cuMemcpyHtoAAsync, 7000, 1, JUMP, SUBMITS, 4, WORK, NO, "behind its stream")       \
    CALL(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync, 2000, 0, JUMP, SUBMITS, 4, COPY, NO, "behind its stream")               \
    CALL(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync, 3020, 0, JUMP, SUBMITS, 4, COPY, NO, "behind its stream")            \
    CALL(cuMemcpyAtoHAsync_v2_ptsz, cuMemcpyAtoHAsync, 7000, 1, JUMP, SUBMITS, 4, COPY, NO, "behind its stream")       \
    CALL(cuMemcpy2DAsync, cuMemcpy2DAsync, 2000, 0, JUMP, SUBMITS, 1, WORK, NO, "behind its stream")                   \
    CALL(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, 0, JUMP, SUBMITS, 1, COPY_2D, NO, "behind its stream")             \
    CALL(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync, 7000, 1, JUMP, SUBMITS, 1, COPY_2D, NO, "behind its stream")        \
    CALL(cuMemcpy3DAsync, cuMemcpy3DAsync, 2000, 0, JUMP, SUBMITS, 1, WORK, NO, "behind its stream")                   \
    CALL(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, 0, JUMP, SUBMITS, 1, COPY_3D, NO, "behind its stream")             \
    CALL(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync, 7000, 1, JUMP, SUBMITS, 1, COPY_3D, NO, "behind its stream")        \
    CALL(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, 0, JUMP, SUBMITS, 1, COPY_3D_PEER, NO, "behind its stream")   \
    CALL(cuMemcpy3DPeerAsync_ptsz, cuMemcpy3DPeerAsync,                                                                \
         7000, 1, JUMP, SUBMITS, 1, COPY_3D_PEER, NO, "behind its stream")                                             \
    CALL(cuMemcpyBatchAsync, cuMemcpyBatchAsync,                                                                       \
         12080, 0, JUMP, SHARES, 8, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                           \
    CALL(cuMemcpyBatchAsync_ptsz, cuMemcpyBatchAsync,                                                                  \
         12080, 1, JUMP, SHARES, 8, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                           \
    CALL(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync,                                                                    \
         13000, 0, JUMP, SHARES, 7, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                           \
    CALL(cuMemcpyBatchAsync_v2_ptsz, cuMemcpyBatchAsync,                                                               \
         13000, 1, JUMP, SHARES, 7, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                           \
    CALL(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync,                                                                   \
         12080, 0, JUMP, SHARES, 4, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                           \
    CALL(cuMemcpy3DBatchAsync_ptsz, cuMemcpy3DBatchAsync,                                                              \
         12080, 1, JUMP, SHARES, 4, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                           \
    CALL(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync,                                                                \
         13000, 0, JUMP, SHARES, 3, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                           \
    CALL(cuMemcpy3DBatchAsync_v2_ptsz, cuMemcpy3DBatchAsync,                                                           \
         13000, 1, JUMP, SHARES, 3, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                           \
    CALL(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync,                                                     \
         13020, 0, JUMP, SHARES, 4, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                           \
    CALL(cuMemcpyWithAttributesAsync_ptsz, cuMemcpyWithAttributesAsync,                                                \
         13020, 1, JUMP, SHARES, 4, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                           \
    CALL(cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync,                                                 \
         13020, 0, JUMP, SHARES, 2, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                           \
    CALL(cuMemcpy3DWithAttributesAsync_ptsz, cuMemcpy3DWithAttributesAsync,                                            \
         13020, 1, JUMP, SHARES, 2, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                           \
    CALL(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync,                                                         \
         12060, 0, JUMP, SUBMITS, 4, WORK, NO, "behind its stream")                                                    \
    CALL(cuMemBatchDecompressAsync_ptsz, cuMemBatchDecompressAsync,                                                    \
         12060, 1, JUMP, SUBMITS, 4, WORK, NO, "behind its stream")                                                    \
    /* fills */                                                                                                        \
    CALL(cuMemsetD8, cuMemsetD8, 2000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")         \
    CALL(cuMemsetD8_v2, cuMemsetD8, 3020, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")      \
    CALL(cuMemsetD8_v2_ptds, cuMemsetD8, 7000, 1, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream") \
    CALL(cuMemsetD16, cuMemsetD16, 2000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")       \
    CALL(cuMemsetD16_v2, cuMemsetD16, 3020, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")    \
    CALL(cuMemsetD16_v2_ptds, cuMemsetD16,                                                                             \
         7000, 1, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                 \
    CALL(cuMemsetD32, cuMemsetD32, 2000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")       \
    CALL(cuMemsetD32_v2, cuMemsetD32, 3020, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")    \
    CALL(cuMemsetD32_v2_ptds, cuMemsetD32,                                                                             \
         7000, 1, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                 \
    CALL(cuMemsetD2D8, cuMemsetD2D8, 2000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")     \
    CALL(cuMemsetD2D8_v2, cuMemsetD2D8, 3020, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")  \
    CALL(cuMemsetD2D8_v2_ptds, cuMemsetD2D8,                                                                           \
         7000, 1, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                 \
    CALL(cuMemsetD2D16, cuMemsetD2D16, 2000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")   \
    CALL(cuMemsetD2D16_v2, cuMemsetD2D16,                                                                              \
         3020, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                 \
    CALL(cuMemsetD2D16_v2_ptds, cuMemsetD2D16,                                                                         \
         7000, 1, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                 \
    CALL(cuMemsetD2D32, cuMemsetD2D32, 2000, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")   \
    CALL(cuMemsetD2D32_v2, cuMemsetD2D32,                                                                              \
         3020, 0, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                 \
    CALL(cuMemsetD2D32_v2_ptds, cuMemsetD2D32,                                                                         \
         7000, 1, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                 \
    CALL(cuMemsetD8Async, cuMemsetD8Async, 3020, 0, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")                   \
    CALL(cuMemsetD8Async_ptsz, cuMemsetD8Async, 7000, 1, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")              \
    CALL(cuMemsetD16Async, cuMemsetD16Async, 3020, 0, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")                 \
    CALL(cuMemsetD16Async_ptsz, cuMemsetD16Async, 7000, 1, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")            \
    CALL(cuMemsetD32Async, cuMemsetD32Async, 3020, 0, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")                 \
    CALL(cuMemsetD32Async_ptsz, cuMemsetD32Async, 7000, 1, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")            \
    CALL(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, 0, JUMP, SUBMITS, 5, WORK, NO, "behind its stream")               \
    CALL(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async, 7000, 1, JUMP, SUBMITS, 5, WORK, NO, "behind its stream")          \
    CALL(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, 0, JUMP, SUBMITS, 5, WORK, NO, "behind its stream")             \
    CALL(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async, 7000, 1, JUMP, SUBMITS, 5, WORK, NO, "behind its stream")        \
    CALL(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, 0, JUMP, SUBMITS, 5, WORK, NO, "behind its stream")             \
    CALL(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async, 7000, 1, JUMP, SUBMITS, 5, WORK, NO, "behind its stream")        \
    /* graphs: making them runs nothing */                                                                             \
    CALL(cuGraphCreate, cuGraphCreate, 10000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                   \
    CALL(cuGraphClone, cuGraphClone, 10000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                     \
    CALL(cuGraphAddDependencies, cuGraphAddDependencies, 10000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run") \
    CALL(cuGraphAddDependencies_v2, cuGraphAddDependencies,                                                            \
         12030, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphRemoveDependencies, cuGraphRemoveDependencies,                                                         \
         10000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphRemoveDependencies_v2, cuGraphRemoveDependencies,                                                      \
         12030, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphDestroyNode, cuGraphDestroyNode, 10000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")         \
    CALL(cuGraphDestroy, cuGraphDestroy, 10000, 0, JUMP, BLIND, NONE, NO, NO, "running instances keep their own")      \
    CALL(cuGraphAddEmptyNode, cuGraphAddEmptyNode, 10000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")       \
    CALL(cuGraphAddKernelNode, cuGraphAddKernelNode, 10000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")     \
    CALL(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")  \
    CALL(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")     \
    CALL(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode,                                                           \
         10000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphAddEventRecordNode, cuGraphAddEventRecordNode,                                                         \
         11010, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphAddEventWaitNode, cuGraphAddEventWaitNode,                                                             \
         11010, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphConditionalHandleCreate, cuGraphConditionalHandleCreate,                                               \
         12030, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode,                                                                   \
         10000, 0, JUMP, SHARES, NONE, COPY_NODE_4, NO, "an operand may be host memory")                               \
    CALL(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, 0, HOOK, MEMORY, NONE, NO, NO, "recorded")             \
    CALL(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, 11040, 0, HOOK, MEMORY, NONE, NO, NO, "recorded")               \
    CALL(cuGraphAddHostNode, cuGraphAddHostNode,                                                                       \
         10000, 0, JUMP, SHARES, NONE, NO, HOST_FUNCTION, "the host runs in order")                                    \
    CALL(cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode,                                                           \
         11070, 0, JUMP, SHARES, NONE, NO, VALUES, "may wait for others")                                              \
    CALL(cuGraphAddExternalSemaphoresWaitNode, cuGraphAddExternalSemaphoresWaitNode,                                   \
         11020, 0, JUMP, SHARES, NONE, NO, SEMAPHORES, "waits for other interfaces")                                   \
    CALL(cuGraphAddExternalSemaphoresSignalNode, cuGraphAddExternalSemaphoresSignalNode,                               \
         11020, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see the signal")                                \
    CALL(cuGraphAddNode, cuGraphAddNode, 12020, 0, HOOK, SHARES, NONE, NO, NO, "depends on the type")                  \
    CALL(cuGraphAddNode_v2, cuGraphAddNode, 12030, 0, HOOK, SHARES, NONE, NO, NO, "depends on the type")               \
    CALL(cuGraphAddNode_v3, cuGraphAddNode, 13040, 0, JUMP, SHARES, NONE, NO, HOST_FUNCTION, "depends on the type")    \
    CALL(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams,                                                       \
         10000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphKernelNodeSetParams_v2, cuGraphKernelNodeSetParams,                                                    \
         12000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphKernelNodeSetAttribute, cuGraphKernelNodeSetAttribute,                                                 \
         11000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphKernelNodeCopyAttributes, cuGraphKernelNodeCopyAttributes,                                             \
         11000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams,                                                       \
         10000, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphEventRecordNodeSetEvent, cuGraphEventRecordNodeSetEvent,                                               \
         11010, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphEventWaitNodeSetEvent, cuGraphEventWaitNodeSetEvent,                                                   \
         11010, 0, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                                                 \
    CALL(cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams,                                                       \
         10000, 0, JUMP, SHARES, NONE, COPY_NODE_1, NO, "an operand may be host memory")                               \
    CALL(cuGraphHostNodeSetParams, cuGraphHostNodeSetParams,                                                           \
         10000, 0, JUMP, SHARES, NONE, NO, HOST_FUNCTION, "the host runs in order")                                    \
    CALL(cuGraphBatchMemOpNodeSetParams, cuGraphBatchMemOpNodeSetParams,                                               \
         11070, 0, JUMP, SHARES, NONE, NO, VALUES, "may wait for others")                                              \
    CALL(cuGraphExternalSemaphoresWaitNodeSetParams, cuGraphExternalSemaphoresWaitNodeSetParams,                       \
         11020, 0, JUMP, SHARES, NONE, NO, SEMAPHORES, "waits for other interfaces")                                   \
    CALL(cuGraphExternalSemaphoresSignalNodeSetParams, cuGraphExternalSemaphoresSignalNodeSetParams,                   \
         11020, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see the signal")                                \
    CALL(cuGraphNodeSetParams, cuGraphNodeSetParams, 12020, 0, JUMP, SHARES, NONE, NODE_1, NO, "depends on the type")  \
    CALL(cuGraphNodeSetParams_v2, cuGraphNodeSetParams,                                                                \
         13040, 0, JUMP, SHARES, NONE, NODE_1, NO, "depends on the type")                                              \
    CALL(cuGraphGetId, cuGraphGetId, 13010, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                       \
    CALL(cuGraphGetNodes, cuGraphGetNodes, 10000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                 \
    CALL(cuGraphGetRootNodes, cuGraphGetRootNodes, 10000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")         \
    CALL(cuGraphGetEdges, cuGraphGetEdges, 10000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                 \
    CALL(cuGraphGetEdges_v2, cuGraphGetEdges, 12030, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")              \
    CALL(cuGraphNodeFindInClone, cuGraphNodeFindInClone, 10000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")   \
    CALL(cuGraphNodeGetContainingGraph, cuGraphNodeGetContainingGraph,                                                 \
         13010, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies,                                                       \
         10000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphNodeGetDependencies_v2, cuGraphNodeGetDependencies,                                                    \
         12030, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes,                                                   \
         10000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphNodeGetDependentNodes_v2, cuGraphNodeGetDependentNodes,                                                \
         12030, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphNodeGetLocalId, cuGraphNodeGetLocalId, 13010, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")     \
    CALL(cuGraphNodeGetToolsId, cuGraphNodeGetToolsId, 13010, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")     \
    CALL(cuGraphNodeGetType, cuGraphNodeGetType, 10000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")           \
    CALL(cuGraphNodeGetParams, cuGraphNodeGetParams, 13020, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")       \
    CALL(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams,                                                       \
         10000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphKernelNodeGetParams_v2, cuGraphKernelNodeGetParams,                                                    \
         12000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphKernelNodeGetAttribute, cuGraphKernelNodeGetAttribute,                                                 \
         11000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams,                                                       \
         10000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams,                                                       \
         10000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams,                                                   \
         11040, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams,                                                     \
         11040, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphHostNodeGetParams, cuGraphHostNodeGetParams,                                                           \
         10000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeGetParams,                                               \
         11070, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph,                                                 \
         10000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeGetEvent,                                               \
         11010, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeGetEvent,                                                   \
         11010, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphExternalSemaphoresWaitNodeGetParams, cuGraphExternalSemaphoresWaitNodeGetParams,                       \
         11020, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphExternalSemaphoresSignalNodeGetParams, cuGraphExternalSemaphoresSignalNodeGetParams,                   \
         11020, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                   \
    CALL(cuGraphDebugDotPrint, cuGraphDebugDotPrint, 11030, 0, JUMP, BLIND, NONE, NO, NO, "writes facts of the graph") \
    CALL(cuUserObjectCreate, cuUserObjectCreate,                                                                       \
         11030, 0, JUMP, SHARES, NONE, NO, HOST_FUNCTION, "a finished graph calls host")                               \
    CALL(cuUserObjectRetain, cuUserObjectRetain, 11030, 0, JUMP, BLIND, NONE, NO, NO, "the making was noted")          \
    CALL(cuUserObjectRelease, cuUserObjectRelease, 11030, 0, JUMP, BLIND, NONE, NO, NO, "the making was noted")        \
    CALL(cuGraphRetainUserObject, cuGraphRetainUserObject,                                                             \
         11030, 0, JUMP, BLIND, NONE, NO, NO, "the making was noted")                                                  \
    CALL(cuGraphReleaseUserObject, cuGraphReleaseUserObject,                                                           \
         11030, 0, JUMP, BLIND, NONE, NO, NO, "the making was noted")                                                  \
    /* graphs: instances */                                                                                            \
    CALL(cuGraphInstantiate, cuGraphInstantiate, 10000, 0, HOOK, NOTICES, NONE, NO, NO, "maps memory, may upload")     \
    CALL(cuGraphInstantiate_v2, cuGraphInstantiate, 11000, 0, HOOK, NOTICES, NONE, NO, NO, "maps memory, may upload")  \
    CALL(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,                                                     \
         11040, 0, HOOK, NOTICES, NONE, NO, NO, "maps memory, may upload")                                             \
    CALL(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams,                                                   \
         12000, 0, HOOK, NOTICES, NONE, NO, NO, "maps memory, may upload")                                             \
    CALL(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams,                                              \
         12000, 1, HOOK, NOTICES, NONE, NO, NO, "maps memory, may upload")                                             \
    CALL(cuGraphUpload, cuGraphUpload, 11010, 0, HOOK, SUBMITS, 1, NO, NO, "behind its stream")                        \
    CALL(cuGraphUpload_ptsz, cuGraphUpload, 11010, 1, HOOK, SUBMITS, 1, NO, NO, "behind its stream")                   \
    CALL(cuGraphLaunch, cuGraphLaunch, 10000, 0, JUMP, SUBMITS, 1, KERNEL, NO, "behind its stream")                    \
    CALL(cuGraphLaunch_ptsz, cuGraphLaunch, 10000, 1, JUMP, SUBMITS, 1, KERNEL, NO, "behind its stream")               \
    CALL(cuGraphExecUpdate, cuGraphExecUpdate, 10020, 0, JUMP, NOTICES, NONE, NO, NO, "may replace memory of runs")    \
    CALL(cuGraphExecUpdate_v2, cuGraphExecUpdate, 12000, 0, JUMP, NOTICES, NONE, NO, NO, "may replace memory of runs") \
    CALL(cuGraphExecDestroy, cuGraphExecDestroy, 10000, 0, JUMP, NOTICES, NONE, NO, NO, "frees memory of runs")        \
    CALL(cuGraphExecGetId, cuGraphExecGetId, 13010, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the instance")            \
    CALL(cuGraphExecGetFlags, cuGraphExecGetFlags, 12000, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the instance")      \
    CALL(cuGraphNodeGetEnabled, cuGraphNodeGetEnabled, 11060, 0, JUMP, BLIND, NONE, NO, NO, "a fact of the instance")  \
    CALL(cuGraphNodeSetEnabled, cuGraphNodeSetEnabled,                                                                 \
         11060, 0, HOOK, BLIND, NONE, NO, NO, "a setting of later launches")                                           \
    CALL(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams,                                               \
         10010, 0, HOOK, BLIND, NONE, NO, NO, "a setting of later launches")                                           \
    CALL(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams,                                            \
         12000, 0, HOOK, BLIND, NONE, NO, NO, "a setting of later launches")                                           \
    CALL(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams,                                               \
         10020, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                                           \
    CALL(cuGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams,                                       \
         11010, 0, HOOK, BLIND, NONE, NO, NO, "a setting of later launches")                                           \
    CALL(cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent,                                       \
         11010, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                                           \
    CALL(cuGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent,                                           \
         11010, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                                           \
    CALL(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams,                                               \
         10020, 0, JUMP, SHARES, NONE, COPY_NODE_2, NO, "an operand may be host memory")                               \
    CALL(cuGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams,                                                   \
         10020, 0, JUMP, SHARES, NONE, NO, HOST_FUNCTION, "the host runs in order")                                    \
    CALL(cuGraphExecBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams,                                       \
         11070, 0, JUMP, SHARES, NONE, NO, VALUES, "may wait for others")                                              \
    CALL(cuGraphExecExternalSemaphoresWaitNodeSetParams, cuGraphExecExternalSemaphoresWaitNodeSetParams,               \
         11020, 0, JUMP, SHARES, NONE, NO, SEMAPHORES, "waits for other interfaces")                                   \
    CALL(cuGraphExecExternalSemaphoresSignalNodeSetParams, cuGraphExecExternalSemaphoresSignalNodeSetParams,           \
         11020, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see the signal")                                \
    CALL(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams,                                                           \
         12020, 0, JUMP, SHARES, NONE, NODE_2, NO, "depends on the type")                                              \
    CALL(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute,                                                   \
         11040, 0, JUMP, NOTICES, NONE, NO, NO, "counts memory of finished runs")                                      \
    CALL(cuDeviceSetGraphMemAttribute, cuDeviceSetGraphMemAttribute,                                                   \
         11040, 0, JUMP, NOTICES, NONE, NO, NO, "counts memory of finished runs")                                      \
    CALL(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim,                                                                   \
         11040, 0, JUMP, NOTICES, NONE, NO, NO, "trims memory of finished runs")                                       \
    /* other interfaces of the device */                                                                               \
    CALL(cuImportExternalMemory, cuImportExternalMemory,                                                               \
         10000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see memory")                                    \
    CALL(cuImportExternalSemaphore, cuImportExternalSemaphore,                                                         \
         10000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see memory")                                    \
    CALL(cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer,                                             \
         10000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see memory")                                    \
    CALL(cuExternalMemoryGetMappedMipmappedArray, cuExternalMemoryGetMappedMipmappedArray,                             \
         10000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see memory")                                    \
    CALL(cuDestroyExternalMemory, cuDestroyExternalMemory,                                                             \
         10000, 0, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of kernels")                                            \
    CALL(cuDestroyExternalSemaphore, cuDestroyExternalSemaphore,                                                       \
         10000, 0, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of kernels")                                            \
    CALL(cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync,                                             \
         10000, 0, JUMP, SUBMITS, 3, SIGNAL, NO, "behind its stream, import noted")                                    \
    CALL(cuSignalExternalSemaphoresAsync_ptsz, cuSignalExternalSemaphoresAsync,                                        \
         10000, 1, JUMP, SUBMITS, 3, SIGNAL, NO, "behind its stream, import noted")                                    \
    CALL(cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync,                                                 \
         10000, 0, JUMP, SHARES, 3, AWAIT, SEMAPHORES, "waits for other interfaces")                                   \
    CALL(cuWaitExternalSemaphoresAsync_ptsz, cuWaitExternalSemaphoresAsync,                                            \
         10000, 1, JUMP, SHARES, 3, AWAIT, SEMAPHORES, "waits for other interfaces")                                   \
    CALL(cuGraphicsMapResources, cuGraphicsMapResources,                                                               \
         3000, 0, JUMP, SHARES, 2, NO, EXTERNAL, "other interfaces see memory")                                        \
    CALL(cuGraphicsMapResources_ptsz, cuGraphicsMapResources,                                                          \
         7000, 1, JUMP, SHARES, 2, NO, EXTERNAL, "other interfaces see memory")                                        \
    CALL(cuGraphicsUnmapResources, cuGraphicsUnmapResources,                                                           \
         3000, 0, JUMP, SHARES, 2, NO, EXTERNAL, "other interfaces see memory")                                        \
    CALL(cuGraphicsUnmapResources_ptsz, cuGraphicsUnmapResources,                                                      \
         7000, 1, JUMP, SHARES, 2, NO, EXTERNAL, "other interfaces see memory")                                        \
    CALL(cuGraphicsResourceGetMappedPointer, cuGraphicsResourceGetMappedPointer,                                       \
         3000, 0, JUMP, BLIND, NONE, NO, NO, "the mapping was noted")                                                  \
    CALL(cuGraphicsResourceGetMappedPointer_v2, cuGraphicsResourceGetMappedPointer,                                    \
         3020, 0, JUMP, BLIND, NONE, NO, NO, "the mapping was noted")                                                  \
    CALL(cuGraphicsResourceGetMappedMipmappedArray, cuGraphicsResourceGetMappedMipmappedArray,                         \
         5000, 0, JUMP, BLIND, NONE, NO, NO, "the mapping was noted")                                                  \
    CALL(cuGraphicsSubResourceGetMappedArray, cuGraphicsSubResourceGetMappedArray,                                     \
         3000, 0, JUMP, BLIND, NONE, NO, NO, "the mapping was noted")                                                  \
    CALL(cuGraphicsResourceGetMappedEglFrame, cuGraphicsResourceGetMappedEglFrame,                                     \
         7000, 0, JUMP, BLIND, NONE, NO, NO, "the mapping was noted")                                                  \
    CALL(cuGraphicsResourceSetMapFlags, cuGraphicsResourceSetMapFlags,                                                 \
         3000, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later mappings")                                            \
    CALL(cuGraphicsResourceSetMapFlags_v2, cuGraphicsResourceSetMapFlags,                                              \
         6050, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later mappings")                                            \
    CALL(cuGraphicsUnregisterResource, cuGraphicsUnregisterResource,                                                   \
         3000, 0, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of kernels")                                             \
    /* OpenGL */                                                                                                       \
    CALL(cuGLCtxCreate, cuGLCtxCreate, 2000, 0, JUMP, SHARES, NONE, NO, CONTEXTS, "may be a second context")           \
    CALL(cuGLCtxCreate_v2, cuGLCtxCreate, 3020, 0, JUMP, SHARES, NONE, NO, CONTEXTS, "may be a second context")        \
    CALL(cuGLInit, cuGLInit, 2000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics will see memory")                    \
    CALL(cuGLGetDevices, cuGLGetDevices, 4010, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")               \
    CALL(cuGLGetDevices_v2, cuGLGetDevices, 6050, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")            \
    CALL(cuGraphicsGLRegisterBuffer, cuGraphicsGLRegisterBuffer,                                                       \
         3000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics will see memory")                                        \
    CALL(cuGraphicsGLRegisterImage, cuGraphicsGLRegisterImage,                                                         \
         3000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics will see memory")                                        \
    CALL(cuGLRegisterBufferObject, cuGLRegisterBufferObject,                                                           \
         2000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics will see memory")                                        \
    CALL(cuGLMapBufferObject, cuGLMapBufferObject,                                                                     \
         2000, 0, JUMP, SHARES, DEFAULT, NO, EXTERNAL, "graphics see memory")                                          \
    CALL(cuGLMapBufferObject_v2, cuGLMapBufferObject,                                                                  \
         3020, 0, JUMP, SHARES, DEFAULT, NO, EXTERNAL, "graphics see memory")                                          \
    CALL(cuGLMapBufferObject_v2_ptds, cuGLMapBufferObject,                                                             \
         7000, 1, JUMP, SHARES, DEFAULT, NO, EXTERNAL, "graphics see memory")                                          \
    CALL(cuGLMapBufferObjectAsync, cuGLMapBufferObjectAsync,                                                           \
         2030, 0, JUMP, SHARES, 3, NO, EXTERNAL, "graphics see memory")                                                \
    CALL(cuGLMapBufferObjectAsync_v2, cuGLMapBufferObjectAsync,                                                        \
         3020, 0, JUMP, SHARES, 3, NO, EXTERNAL, "graphics see memory")                                                \
    CALL(cuGLMapBufferObjectAsync_v2_ptsz, cuGLMapBufferObjectAsync,                                                   \
         7000, 1, JUMP, SHARES, 3, NO, EXTERNAL, "graphics see memory")                                                \
    CALL(cuGLUnmapBufferObject, cuGLUnmapBufferObject,                                                                 \
         2000, 0, JUMP, SHARES, DEFAULT, NO, EXTERNAL, "graphics see memory")                                          \
    CALL(cuGLUnmapBufferObjectAsync, cuGLUnmapBufferObjectAsync,                                                       \
         2030, 0, JUMP, SHARES, 1, NO, EXTERNAL, "graphics see memory")                                                \
    CALL(cuGLSetBufferObjectMapFlags, cuGLSetBufferObjectMapFlags,                                                     \
         2030, 0, JUMP, BLIND, NONE, NO, NO, "a setting of later mappings")                                            \
    CALL(cuGLUnregisterBufferObject, cuGLUnregisterBufferObject,                                                       \
         2000, 0, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of kernels")                                             \
    /* EGL */                                                                                                          \
    CALL(cuGraphicsEGLRegisterImage, cuGraphicsEGLRegisterImage,                                                       \
         7000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics see memory and events")                                  \
    CALL(cuEventCreateFromEGLSync, cuEventCreateFromEGLSync,                                                           \
         9000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics see memory and events")                                  \
    CALL(cuEGLStreamConsumerConnect, cuEGLStreamConsumerConnect,                                                       \
         7000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")                                             \
    CALL(cuEGLStreamConsumerConnectWithFlags, cuEGLStreamConsumerConnectWithFlags,                                     \
         8000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")                                             \
    CALL(cuEGLStreamConsumerDisconnect, cuEGLStreamConsumerDisconnect,                                                 \
         7000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")                                             \
    CALL(cuEGLStreamConsumerAcquireFrame, cuEGLStreamConsumerAcquireFrame,                                             \
         7000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")                                             \
    CALL(cuEGLStreamConsumerReleaseFrame, cuEGLStreamConsumerReleaseFrame,                                             \
         7000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")                                             \
    CALL(cuEGLStreamProducerConnect, cuEGLStreamProducerConnect,                                                       \
         7000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")                                             \
    CALL(cuEGLStreamProducerDisconnect, cuEGLStreamProducerDisconnect,                                                 \
         7000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")                                             \
    CALL(cuEGLStreamProducerPresentFrame, cuEGLStreamProducerPresentFrame,                                             \
         7000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")                                             \
    CALL(cuEGLStreamProducerReturnFrame, cuEGLStreamProducerReturnFrame,                                               \
         7000, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")                                             \
    /* VDPAU */                                                                                                        \
    CALL(cuVDPAUCtxCreate, cuVDPAUCtxCreate, 3010, 0, JUMP, SHARES, NONE, NO, CONTEXTS, "may be a second context")     \
    CALL(cuVDPAUCtxCreate_v2, cuVDPAUCtxCreate, 3020, 0, JUMP, SHARES, NONE, NO, CONTEXTS, "may be a second context")  \
    CALL(cuVDPAUGetDevice, cuVDPAUGetDevice, 3010, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the device")           \
    CALL(cuGraphicsVDPAURegisterVideoSurface, cuGraphicsVDPAURegisterVideoSurface,                                     \
         3010, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics will see memory")                                        \
    CALL(cuGraphicsVDPAURegisterOutputSurface, cuGraphicsVDPAURegisterOutputSurface,                                   \
         3010, 0, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics will see memory")                                        \
    /* textures, surfaces, tensor maps */                                                                              \
    CALL(cuTexObjectCreate, cuTexObjectCreate, 5000, 0, JUMP, BLIND, NONE, NO, NO, "no kernel uses it yet")            \
    CALL(cuSurfObjectCreate, cuSurfObjectCreate, 5000, 0, JUMP, BLIND, NONE, NO, NO, "no kernel uses it yet")          \
    CALL(cuTexObjectDestroy, cuTexObjectDestroy,                                                                       \
         5000, 0, JUMP, NOTICES, NONE, NO, NO, "frees a descriptor of kernels")                                        \
    CALL(cuSurfObjectDestroy, cuSurfObjectDestroy,                                                                     \
         5000, 0, JUMP, NOTICES, NONE, NO, NO, "frees a descriptor of kernels")                                        \
    CALL(cuTexObjectGetResourceDesc, cuTexObjectGetResourceDesc,                                                       \
         5000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the object")                                               \
    CALL(cuTexObjectGetResourceViewDesc, cuTexObjectGetResourceViewDesc,                                               \
         5000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the object")                                               \
    CALL(cuTexObjectGetTextureDesc, cuTexObjectGetTextureDesc,                                                         \
         5000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the object")                                               \
    CALL(cuSurfObjectGetResourceDesc, cuSurfObjectGetResourceDesc,                                                     \
         5000, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the object")                                               \
    CALL(cuTexRefCreate, cuTexRefCreate, 2000, 0, JUMP, BLIND, NONE, NO, NO, "no kernel uses it yet")                  \
    CALL(cuTexRefDestroy, cuTexRefDestroy, 2000, 0, JUMP, NOTICES, NONE, NO, NO, "frees a descriptor of kernels")      \
    CALL(cuTexRefSetAddress, cuTexRefSetAddress,                                                                       \
         2000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetAddress_v2, cuTexRefSetAddress,                                                                    \
         3020, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetAddress2D, cuTexRefSetAddress2D,                                                                   \
         2020, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetAddress2D_v2, cuTexRefSetAddress2D,                                                                \
         3020, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetAddress2D_v3, cuTexRefSetAddress2D,                                                                \
         4010, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetArray, cuTexRefSetArray, 2000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")  \
    CALL(cuTexRefSetMipmappedArray, cuTexRefSetMipmappedArray,                                                         \
         5000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetAddressMode, cuTexRefSetAddressMode,                                                               \
         2000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetBorderColor, cuTexRefSetBorderColor,                                                               \
         8000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetFilterMode, cuTexRefSetFilterMode,                                                                 \
         2000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetFlags, cuTexRefSetFlags, 2000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")  \
    CALL(cuTexRefSetFormat, cuTexRefSetFormat,                                                                         \
         2000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetMaxAnisotropy, cuTexRefSetMaxAnisotropy,                                                           \
         5000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetMipmapFilterMode, cuTexRefSetMipmapFilterMode,                                                     \
         5000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetMipmapLevelBias, cuTexRefSetMipmapLevelBias,                                                       \
         5000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefSetMipmapLevelClamp, cuTexRefSetMipmapLevelClamp,                                                     \
         5000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuSurfRefSetArray, cuSurfRefSetArray,                                                                         \
         3000, 0, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")                                      \
    CALL(cuTexRefGetAddress, cuTexRefGetAddress, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")      \
    CALL(cuTexRefGetAddress_v2, cuTexRefGetAddress, 3020, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")   \
    CALL(cuTexRefGetArray, cuTexRefGetArray, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")          \
    CALL(cuTexRefGetMipmappedArray, cuTexRefGetMipmappedArray,                                                         \
         5000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                                              \
    CALL(cuTexRefGetAddressMode, cuTexRefGetAddressMode,                                                               \
         2000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                                              \
    CALL(cuTexRefGetBorderColor, cuTexRefGetBorderColor,                                                               \
         8000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                                              \
    CALL(cuTexRefGetFilterMode, cuTexRefGetFilterMode,                                                                 \
         2000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                                              \
    CALL(cuTexRefGetFlags, cuTexRefGetFlags, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")          \
    CALL(cuTexRefGetFormat, cuTexRefGetFormat, 2000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")        \
    CALL(cuTexRefGetMaxAnisotropy, cuTexRefGetMaxAnisotropy,                                                           \
         5000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                                              \
    CALL(cuTexRefGetMipmapFilterMode, cuTexRefGetMipmapFilterMode,                                                     \
         5000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                                              \
    CALL(cuTexRefGetMipmapLevelBias, cuTexRefGetMipmapLevelBias,                                                       \
         5000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                                              \
    CALL(cuTexRefGetMipmapLevelClamp, cuTexRefGetMipmapLevelClamp,                                                     \
         5000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                                              \
    CALL(cuSurfRefGetArray, cuSurfRefGetArray, 3000, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")        \
    CALL(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled,                                                               \
         12000, 0, JUMP, BLIND, NONE, NO, NO, "writes a struct of host")                                               \
    CALL(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col,                                                             \
         12000, 0, JUMP, BLIND, NONE, NO, NO, "writes a struct of host")                                               \
    CALL(cuTensorMapEncodeIm2colWide, cuTensorMapEncodeIm2colWide,                                                     \
         12080, 0, JUMP, BLIND, NONE, NO, NO, "writes a struct of host")                                               \
    CALL(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress,                                                         \
         12000, 0, JUMP, BLIND, NONE, NO, NO, "writes a struct of host")                                               \
    CALL(cuTensorMapSetAllocationClass, cuTensorMapSetAllocationClass,                                                 \
         13050, 0, JUMP, BLIND, NONE, NO, NO, "writes a struct of host")                                               \
    /* tools: profiles, logs, dumps, checkpoints */                                                                    \
    CALL(cuProfilerInitialize, cuProfilerInitialize, 4000, 0, JUMP, NOTICES, NONE, NO, NO, "bounds what is profiled")  \
    CALL(cuProfilerStart, cuProfilerStart, 4000, 0, JUMP, NOTICES, NONE, NO, NO, "bounds what is profiled")            \
    CALL(cuProfilerStop, cuProfilerStop, 4000, 0, JUMP, NOTICES, NONE, NO, NO, "bounds what is profiled")              \
    CALL(cuLogsCurrent, cuLogsCurrent, 12090, 0, JUMP, NOTICES, NONE, NO, NO, "shows errors of work")                  \
    CALL(cuLogsDumpToFile, cuLogsDumpToFile, 12090, 0, JUMP, NOTICES, NONE, NO, NO, "shows errors of work")            \
    CALL(cuLogsDumpToMemory, cuLogsDumpToMemory, 12090, 0, JUMP, NOTICES, NONE, NO, NO, "shows errors of work")        \
    CALL(cuLogsRegisterCallback, cuLogsRegisterCallback,                                                               \
         12090, 0, JUMP, NOTICES, NONE, NO, NO, "errors of work call host")                                            \
    CALL(cuLogsUnregisterCallback, cuLogsUnregisterCallback,                                                           \
         12090, 0, JUMP, NOTICES, NONE, NO, NO, "errors of work call host")                                            \
    CALL(cuCoredumpGetAttribute, cuCoredumpGetAttribute,                                                               \
         12010, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                                             \
    CALL(cuCoredumpGetAttributeGlobal, cuCoredumpGetAttributeGlobal,                                                   \
         12010, 0, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                                             \
    CALL(cuCoredumpSetAttribute, cuCoredumpSetAttribute,                                                               \
         12010, 0, JUMP, NOTICES, NONE, NO, NO, "decides where faults are written")                                    \
    CALL(cuCoredumpSetAttributeGlobal, cuCoredumpSetAttributeGlobal,                                                   \
         12010, 0, JUMP, NOTICES, NONE, NO, NO, "decides where faults are written")                                    \
    CALL(cuCoredumpRegisterStartCallback, cuCoredumpRegisterStartCallback,                                             \
         13020, 0, JUMP, NOTICES, NONE, NO, NO, "faults of work call host")                                            \
    CALL(cuCoredumpRegisterCompleteCallback, cuCoredumpRegisterCompleteCallback,                                       \
         13020, 0, JUMP, NOTICES, NONE, NO, NO, "faults of work call host")                                            \
    CALL(cuCoredumpDeregisterStartCallback, cuCoredumpDeregisterStartCallback,                                         \
         13020, 0, JUMP, NOTICES, NONE, NO, NO, "faults of work call host")                                            \
    CALL(cuCoredumpDeregisterCompleteCallback, cuCoredumpDeregisterCompleteCallback,                                   \
         13020, 0, JUMP, NOTICES, NONE, NO, NO, "faults of work call host")                                            \
    CALL(cuCheckpointProcessGetRestoreThreadId, cuCheckpointProcessGetRestoreThreadId,                                 \
         12080, 0, JUMP, BLIND, NONE, NO, NO, "a constant of the process")                                             \
    CALL(cuCheckpointProcessGetState, cuCheckpointProcessGetState,                                                     \
         12080, 0, JUMP, NOTICES, NONE, NO, NO, "stops or saves all work")                                             \
    CALL(cuCheckpointProcessLock, cuCheckpointProcessLock,                                                             \
         12080, 0, JUMP, NOTICES, NONE, NO, NO, "stops or saves all work")                                             \
    CALL(cuCheckpointProcessUnlock, cuCheckpointProcessUnlock,                                                         \
         12080, 0, JUMP, NOTICES, NONE, NO, NO, "stops or saves all work")                                             \
    CALL(cuCheckpointProcessCheckpoint, cuCheckpointProcessCheckpoint,                                                 \
         12080, 0, JUMP, NOTICES, NONE, NO, NO, "stops or saves all work")                                             \
    CALL(cuCheckpointProcessRestore, cuCheckpointProcessRestore,                                                       \
         12080, 0, JUMP, NOTICES, NONE, NO, NO, "stops or saves all work")                                             \
    CALL(cuCheckpointOperationComplete, cuCheckpointOperationComplete,                                                 \
         13040, 0, JUMP, NOTICES, NONE, NO, NO, "stops or saves all work")

#endif
