/* clang-format off */
/* The driver's interface: one row for each function that cuda.h, cudaGL.h, cudaEGL.h, cudaVDPAU.h or cudaProfiler.h
 * declares in a toolkit from 11.8 to 13.5, in every variant. A function without a row counts as NOTICES.
 *
 *   GM_ROW(CALL, name, suffix, version, how, role, stream, meaning, why, "reason for the role")
 *   GM_ROWS(CALL, name, suffix, version, thread, twin's version, how, ...)   the function, and its twin behind it
 *
 * These call CALL(symbol, name, version, twin, how, role, stream, meaning, why, reason) for each function. Where cuda.h
 * is included, a symbol may be a macro (cuMemAlloc stands for cuMemAlloc_v2): CALL uses it with # and ## only, and does
 * not pass it on to another macro.
 *
 * name     For cuGetProcAddress, without cu. With
 * suffix   it is the exported symbol of
 * version  the variant of this version: 1000 * major + 10 * minor; 0: cuGetProcAddress does not offer the function.
 * thread   Suffix of the twin, the variant for programs built with per-thread default streams: _ptsz or _ptds.
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
 * The variants of a name stand together, versions ascending. C and assembly include this file: macros only. */
#ifndef GM_DRIVER_CALLS_H
#define GM_DRIVER_CALLS_H

#define GM_ROW(CALL, name, suffix, version, ...) CALL(cu##name##suffix, cu##name, version, 0, __VA_ARGS__)
#define GM_ROWS(CALL, name, suffix, version, thread, its_version, ...) \
    CALL(cu##name##suffix, cu##name, version, 0, __VA_ARGS__)          \
    CALL(cu##name##suffix##thread, cu##name, its_version, 1, __VA_ARGS__)

#define GM_DRIVER_CALLS(CALL)                                                                                          \
    /* the driver, look-ups, errors */                                                                                 \
    GM_ROW(CALL, Init, , 2000, JUMP, BLIND, NONE, NO, NO, "no work exists before it")                                  \
    GM_ROW(CALL, DriverGetVersion, , 2020, JUMP, BLIND, NONE, NO, NO, "a constant of the driver")                      \
    GM_ROW(CALL, GetProcAddress, , 11030, HOOK, BLIND, NONE, NO, NO, "hands out entries of rows")                      \
    GM_ROW(CALL, GetProcAddress, _v2, 12000, HOOK, BLIND, NONE, NO, NO, "hands out entries of rows")                   \
    GM_ROW(CALL, GetExportTable, , 3000, JUMP, BLIND, NONE, NO, NO, "private tables are a limit")                      \
    GM_ROW(CALL, GetErrorName, , 6000, JUMP, BLIND, NONE, NO, NO, "a constant text")                                   \
    GM_ROW(CALL, GetErrorString, , 6000, JUMP, BLIND, NONE, NO, NO, "a constant text")                                 \
    /* devices */                                                                                                      \
    GM_ROW(CALL, DeviceGet, , 2000, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                             \
    GM_ROW(CALL, DeviceGetCount, , 2000, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                        \
    GM_ROW(CALL, DeviceGetName, , 2000, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                         \
    GM_ROW(CALL, DeviceGetUuid, , 9020, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                         \
    GM_ROW(CALL, DeviceGetUuid, _v2, 11040, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                     \
    GM_ROW(CALL, DeviceGetLuid, , 10000, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                        \
    GM_ROW(CALL, DeviceGetAttribute, , 2000, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                    \
    GM_ROW(CALL, DeviceGetProperties, , 2000, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                   \
    GM_ROW(CALL, DeviceComputeCapability, , 2000, JUMP, BLIND, NONE, NO, NO, "a constant of the device")               \
    GM_ROW(CALL, DeviceGetByPCIBusId, , 4010, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                   \
    GM_ROW(CALL, DeviceGetPCIBusId, , 4010, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                     \
    GM_ROW(CALL, DeviceGetTexture1DLinearMaxWidth, , 11010, JUMP, BLIND, NONE, NO, NO, "a constant of the device")     \
    GM_ROW(CALL, DeviceGetExecAffinitySupport, , 11040, JUMP, BLIND, NONE, NO, NO, "a constant of the device")         \
    GM_ROW(CALL, DeviceGetHostAtomicCapabilities, , 13000, JUMP, BLIND, NONE, NO, NO, "a constant of the device")      \
    GM_ROW(CALL, DeviceGetNvSciSyncAttributes, , 10020, JUMP, BLIND, NONE, NO, NO, "a constant of the device")         \
    GM_ROW(CALL, DeviceGetFabricClusterUuid, , 13040, JUMP, BLIND, NONE, NO, NO, "a constant of the device")           \
    GM_ROW(CALL, DeviceGetCliqueCount, , 13040, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                 \
    GM_ROW(CALL, DeviceGetCliqueInfo, , 13040, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                  \
    GM_ROW(CALL, DeviceTotalMem, , 2000, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                        \
    GM_ROW(CALL, DeviceTotalMem, _v2, 3020, HOOK, BLIND, NONE, NO, NO, "a constant of the device")                     \
    GM_ROW(CALL, DeviceCanAccessPeer, , 4000, JUMP, BLIND, NONE, NO, NO, "a constant of two devices")                  \
    GM_ROW(CALL, DeviceGetP2PAttribute, , 8000, JUMP, BLIND, NONE, NO, NO, "a constant of two devices")                \
    GM_ROW(CALL, DeviceGetP2PAtomicCapabilities, , 13000, JUMP, BLIND, NONE, NO, NO, "a constant of two devices")      \
    GM_ROW(CALL, DeviceRegisterAsyncNotification, , 12040, JUMP, NOTICES, NONE, NO, NO, "the driver calls the host")   \
    GM_ROW(CALL, DeviceUnregisterAsyncNotification, , 12040, JUMP, NOTICES, NONE, NO, NO, "the driver calls the host") \
    GM_ROW(CALL, FlushGPUDirectRDMAWrites, , 11030, JUMP, NOTICES, NONE, NO, NO, "makes writes of others visible")     \
    /* primary contexts */                                                                                             \
    GM_ROW(CALL, DevicePrimaryCtxRetain, , 7000, HOOK, SHARES, NONE, NO, NO, "may make a second context")              \
    GM_ROW(CALL, DevicePrimaryCtxRelease, , 7000, HOOK, NOTICES, NONE, NO, NO, "ends the context and memory")          \
    GM_ROW(CALL, DevicePrimaryCtxRelease, _v2, 11000, HOOK, NOTICES, NONE, NO, NO, "ends the context and memory")      \
    GM_ROW(CALL, DevicePrimaryCtxReset, , 7000, HOOK, NOTICES, NONE, NO, NO, "ends the context and memory")            \
    GM_ROW(CALL, DevicePrimaryCtxReset, _v2, 11000, HOOK, NOTICES, NONE, NO, NO, "ends the context and memory")        \
    GM_ROW(CALL, DevicePrimaryCtxSetFlags, , 7000, JUMP, NOTICES, NONE, NO, NO, "changes a living context")            \
    GM_ROW(CALL, DevicePrimaryCtxSetFlags, _v2, 11000, JUMP, NOTICES, NONE, NO, NO, "changes a living context")        \
    GM_ROW(CALL, DevicePrimaryCtxGetState, , 7000, JUMP, BLIND, NONE, NO, NO, "a count of the host")                   \
    /* contexts */                                                                                                     \
    GM_ROW(CALL, CtxCreate, , 2000, HOOK, SHARES, NONE, NO, NO, "may be a second context")                             \
    GM_ROW(CALL, CtxCreate, _v2, 3020, HOOK, SHARES, NONE, NO, NO, "may be a second context")                          \
    GM_ROW(CALL, CtxCreate, _v3, 11040, HOOK, SHARES, NONE, NO, NO, "may be a second context")                         \
    GM_ROW(CALL, CtxCreate, _v4, 12050, HOOK, SHARES, NONE, NO, NO, "may be a second context")                         \
    GM_ROW(CALL, CtxDestroy, , 2000, HOOK, NOTICES, NONE, NO, NO, "ends the context and memory")                       \
    GM_ROW(CALL, CtxDestroy, _v2, 4000, HOOK, NOTICES, NONE, NO, NO, "ends the context and memory")                    \
    GM_ROW(CALL, CtxAttach, , 2000, JUMP, BLIND, NONE, NO, NO, "counts a user")                                        \
    GM_ROW(CALL, CtxDetach, , 2000, HOOK, NOTICES, NONE, NO, NO, "may end context and memory")                         \
    GM_ROW(CALL, CtxPushCurrent, , 2000, JUMP, BLIND, NONE, NO, NO, "sets a pointer of the thread")                    \
    GM_ROW(CALL, CtxPushCurrent, _v2, 4000, JUMP, BLIND, NONE, NO, NO, "sets a pointer of the thread")                 \
    GM_ROW(CALL, CtxPopCurrent, , 2000, JUMP, BLIND, NONE, NO, NO, "sets a pointer of the thread")                     \
    GM_ROW(CALL, CtxPopCurrent, _v2, 4000, JUMP, BLIND, NONE, NO, NO, "sets a pointer of the thread")                  \
    GM_ROW(CALL, CtxSetCurrent, , 4000, JUMP, BLIND, NONE, NO, NO, "sets a pointer of the thread")                     \
    GM_ROW(CALL, CtxGetCurrent, , 4000, JUMP, BLIND, NONE, NO, NO, "a pointer of the thread")                          \
    GM_ROW(CALL, CtxGetDevice, , 2000, JUMP, BLIND, NONE, NO, NO, "a constant of the context")                         \
    GM_ROW(CALL, CtxGetDevice, _v2, 13000, JUMP, BLIND, NONE, NO, NO, "a constant of the context")                     \
    GM_ROW(CALL, CtxGetId, , 12000, JUMP, BLIND, NONE, NO, NO, "a constant of the context")                            \
    GM_ROW(CALL, CtxGetFlags, , 7000, JUMP, BLIND, NONE, NO, NO, "a constant of the context")                          \
    GM_ROW(CALL, CtxGetApiVersion, , 3020, JUMP, BLIND, NONE, NO, NO, "a constant of the context")                     \
    GM_ROW(CALL, CtxGetStreamPriorityRange, , 5050, JUMP, BLIND, NONE, NO, NO, "a constant of the context")            \
    GM_ROW(CALL, CtxGetExecAffinity, , 11040, JUMP, BLIND, NONE, NO, NO, "a constant of the context")                  \
    GM_ROW(CALL, CtxGetLimit, , 3010, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                          \
    GM_ROW(CALL, CtxGetCacheConfig, , 3020, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                    \
    GM_ROW(CALL, CtxGetSharedMemConfig, , 4020, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                \
    GM_ROW(CALL, CtxSetLimit, , 3010, HOOK, NOTICES, NONE, NO, NO, "may replace memory of kernels")                    \
    GM_ROW(CALL, CtxSetFlags, , 12010, JUMP, NOTICES, NONE, NO, NO, "changes how calls wait")                          \
    GM_ROW(CALL, CtxSetCacheConfig, , 3020, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                  \
    GM_ROW(CALL, CtxSetSharedMemConfig, , 4020, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")              \
    GM_ROW(CALL, CtxResetPersistingL2Cache, , 11000, JUMP, NOTICES, NONE, NO, NO, "changes the cache of kernels")      \
    GM_ROW(CALL, CtxSynchronize, , 2000, JUMP, WAITS, NONE, CONTEXT_DONE, NO, "waits for all earlier work")            \
    GM_ROW(CALL, CtxSynchronize, _v2, 13000, JUMP, WAITS, NONE, NAMED_CONTEXT_DONE, NO, "waits for all earlier work")  \
    GM_ROW(CALL, CtxRecordEvent, , 12050, JUMP, SUBMITS, NONE, CONTEXT_RECORD, NO, "behind all work of streams")       \
    GM_ROW(CALL, CtxWaitEvent, , 12050, JUMP, SUBMITS, NONE, CONTEXT_WAIT, NO, "holds all later work")                 \
    GM_ROW(CALL, CtxEnablePeerAccess, , 4000, HOOK, SHARES, NONE, NO, NO, "another device sees memory")                \
    GM_ROW(CALL, CtxDisablePeerAccess, , 4000, HOOK, NOTICES, NONE, NO, NO, "unmaps memory of kernels")                \
    /* green contexts and their resources */                                                                           \
    GM_ROW(CALL, GreenCtxCreate, , 12040, HOOK, SHARES, NONE, NO, NO, "another context over the memory")               \
    GM_ROW(CALL, GreenCtxDestroy, , 12040, HOOK, NOTICES, NONE, NO, NO, "ends its streams")                            \
    GM_ROW(CALL, CtxFromGreenCtx, , 12040, JUMP, SHARES, NONE, NO, GREEN, "another context over the memory")           \
    GM_ROW(CALL, GreenCtxStreamCreate, , 12050, HOOK, BLIND, NONE, NO, NO, "its first work submits")                   \
    GM_ROW(CALL, GreenCtxRecordEvent, , 12040, JUMP, SUBMITS, NONE, NO, NO, "behind work of its streams")              \
    GM_ROW(CALL, GreenCtxWaitEvent, , 12040, JUMP, SUBMITS, NONE, NO, NO, "holds its later work")                      \
    GM_ROW(CALL, GreenCtxGetId, , 12090, JUMP, BLIND, NONE, NO, NO, "a constant of its object")                        \
    GM_ROW(CALL, GreenCtxGetDevResource, , 12040, JUMP, BLIND, NONE, NO, NO, "a constant of its object")               \
    GM_ROW(CALL, CtxGetDevResource, , 12040, JUMP, BLIND, NONE, NO, NO, "a constant of its object")                    \
    GM_ROW(CALL, DeviceGetDevResource, , 12040, JUMP, BLIND, NONE, NO, NO, "a constant of its object")                 \
    GM_ROWS(CALL, StreamGetDevResource, , 13010, _ptsz, 13010, JUMP, BLIND, 0, NO, NO, "a constant of its object")     \
    GM_ROW(CALL, DevResourceGenerateDesc, , 12040, JUMP, BLIND, NONE, NO, NO, "computes on the host")                  \
    GM_ROW(CALL, DevSmResourceSplit, , 13010, JUMP, BLIND, NONE, NO, NO, "computes on the host")                       \
    GM_ROW(CALL, DevSmResourceSplitByCount, , 12040, JUMP, BLIND, NONE, NO, NO, "computes on the host")                \
    /* modules and libraries */                                                                                        \
    GM_ROW(CALL, ModuleLoad, , 2000, HOOK, SHARES, NONE, NO, NO, "its kernels may print")                              \
    GM_ROW(CALL, ModuleLoadData, , 2000, HOOK, SHARES, NONE, NO, NO, "its kernels may print")                          \
    GM_ROW(CALL, ModuleLoadDataEx, , 2010, HOOK, SHARES, NONE, NO, NO, "its kernels may print")                        \
    GM_ROW(CALL, ModuleLoadFatBinary, , 2000, HOOK, SHARES, NONE, NO, NO, "its kernels may print")                     \
    GM_ROW(CALL, LibraryLoadData, , 12000, HOOK, SHARES, NONE, NO, NO, "its kernels may print")                        \
    GM_ROW(CALL, LibraryLoadFromFile, , 12000, HOOK, SHARES, NONE, NO, NO, "its kernels may print")                    \
    GM_ROW(CALL, ModuleUnload, , 2000, JUMP, NOTICES, NONE, NO, NO, "frees code and variables")                        \
    GM_ROW(CALL, LibraryUnload, , 12000, HOOK, NOTICES, NONE, NO, NO, "frees code and variables")                      \
    GM_ROW(CALL, ModuleGetGlobal, , 2000, JUMP, SHARES, NONE, NO, HOST_MEMORY, "a variable may be managed")            \
    GM_ROW(CALL, ModuleGetGlobal, _v2, 3020, HOOK, SHARES, NONE, NO, NO, "a variable may be managed")                  \
    GM_ROW(CALL, LibraryGetGlobal, , 12000, HOOK, SHARES, NONE, NO, NO, "a variable may be managed")                   \
    GM_ROW(CALL, LibraryGetManaged, , 12000, HOOK, SHARES, NONE, SHARES_MEMORY, NO, "the variable is managed")         \
    GM_ROW(CALL, ModuleGetFunction, , 2000, HOOK, BLIND, NONE, NO, NO, "may load code, changes none")                  \
    GM_ROW(CALL, LibraryGetModule, , 12000, HOOK, SHARES, NONE, NO, NO, "its kernels may print")                       \
    GM_ROW(CALL, ModuleGetFunctionCount, , 12040, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                \
    GM_ROW(CALL, ModuleEnumerateFunctions, , 12040, JUMP, BLIND, NONE, NO, NO, "a constant of the image")              \
    GM_ROW(CALL, ModuleGetSurfRef, , 3000, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                       \
    GM_ROW(CALL, ModuleGetTexRef, , 2000, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                        \
    GM_ROW(CALL, LibraryGetKernel, , 12000, HOOK, SHARES, NONE, NO, NO, "its kernels may print")                       \
    GM_ROW(CALL, LibraryGetKernelCount, , 12040, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                 \
    GM_ROW(CALL, LibraryEnumerateKernels, , 12040, HOOK, SHARES, NONE, NO, NO, "its kernels may print")                \
    GM_ROW(CALL, LibraryGetUnifiedFunction, , 12000, HOOK, SHARES, NONE, NO, NO, "its kernels may print")              \
    GM_ROW(CALL, ModuleGetLoadingMode, , 11070, JUMP, BLIND, NONE, NO, NO, "a constant of the process")                \
    /* linking on the host */                                                                                          \
    GM_ROW(CALL, LinkCreate, , 5050, JUMP, BLIND, NONE, NO, NO, "works on the host only")                              \
    GM_ROW(CALL, LinkCreate, _v2, 6050, JUMP, BLIND, NONE, NO, NO, "works on the host only")                           \
    GM_ROW(CALL, LinkAddData, , 5050, JUMP, BLIND, NONE, NO, NO, "works on the host only")                             \
    GM_ROW(CALL, LinkAddData, _v2, 6050, JUMP, BLIND, NONE, NO, NO, "works on the host only")                          \
    GM_ROW(CALL, LinkAddFile, , 5050, JUMP, BLIND, NONE, NO, NO, "works on the host only")                             \
    GM_ROW(CALL, LinkAddFile, _v2, 6050, JUMP, BLIND, NONE, NO, NO, "works on the host only")                          \
    GM_ROW(CALL, LinkComplete, , 5050, JUMP, BLIND, NONE, NO, NO, "works on the host only")                            \
    GM_ROW(CALL, LinkDestroy, , 5050, JUMP, BLIND, NONE, NO, NO, "works on the host only")                             \
    /* functions and kernels */                                                                                        \
    GM_ROW(CALL, FuncGetModule, , 11000, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                         \
    GM_ROW(CALL, FuncGetName, , 12030, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                           \
    GM_ROW(CALL, FuncGetAttribute, , 2020, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                       \
    GM_ROW(CALL, FuncGetParamCount, , 13020, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                     \
    GM_ROW(CALL, FuncGetParamInfo, , 12040, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                      \
    GM_ROW(CALL, FuncIsLoaded, , 12040, JUMP, BLIND, NONE, NO, NO, "set by calls of host")                             \
    GM_ROW(CALL, FuncLoad, , 12040, HOOK, BLIND, NONE, NO, NO, "may load code, changes none")                          \
    GM_ROW(CALL, KernelGetFunction, , 12000, HOOK, BLIND, NONE, NO, NO, "may load code, changes none")                 \
    GM_ROW(CALL, FuncSetAttribute, , 9000, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                   \
    GM_ROW(CALL, FuncSetCacheConfig, , 3000, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                 \
    GM_ROW(CALL, FuncSetSharedMemConfig, , 4020, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")             \
    GM_ROW(CALL, FuncSetBlockShape, , 2000, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                  \
    GM_ROW(CALL, FuncSetSharedSize, , 2000, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                  \
    GM_ROW(CALL, KernelGetLibrary, , 12050, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                      \
    GM_ROW(CALL, KernelGetName, , 12030, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                         \
    GM_ROW(CALL, KernelGetAttribute, , 12000, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                    \
    GM_ROW(CALL, KernelGetParamCount, , 13020, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                   \
    GM_ROW(CALL, KernelGetParamInfo, , 12040, JUMP, BLIND, NONE, NO, NO, "a constant of the image")                    \
    GM_ROW(CALL, KernelSetAttribute, , 12000, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")                \
    GM_ROW(CALL, KernelSetCacheConfig, , 12000, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")              \
    GM_ROW(CALL, ParamSetSize, , 2000, JUMP, BLIND, NONE, NO, NO, "an argument of later launches")                     \
    GM_ROW(CALL, ParamSetTexRef, , 2000, JUMP, BLIND, NONE, NO, NO, "an argument of later launches")                   \
    GM_ROW(CALL, ParamSetf, , 2000, JUMP, BLIND, NONE, NO, NO, "an argument of later launches")                        \
    GM_ROW(CALL, ParamSeti, , 2000, JUMP, BLIND, NONE, NO, NO, "an argument of later launches")                        \
    GM_ROW(CALL, ParamSetv, , 2000, JUMP, BLIND, NONE, NO, NO, "an argument of later launches")                        \
    GM_ROW(CALL, OccupancyAvailableDynamicSMemPerBlock, , 10020, JUMP, BLIND, NONE, NO, NO, "computes on the host")    \
    GM_ROW(CALL, OccupancyMaxActiveBlocksPerMultiprocessor, , 6050, JUMP, BLIND, NONE, NO, NO, "computes on the host") \
    GM_ROW(CALL, OccupancyMaxActiveBlocksPerMultiprocessorWithFlags, , 7000,                                           \
        JUMP, BLIND, NONE, NO, NO, "computes on the host")                                                             \
    GM_ROW(CALL, OccupancyMaxActiveClusters, , 11070, JUMP, BLIND, NONE, NO, NO, "computes on the host")               \
    GM_ROW(CALL, OccupancyMaxPotentialBlockSize, , 6050, JUMP, BLIND, NONE, NO, NO, "computes on the host")            \
    GM_ROW(CALL, OccupancyMaxPotentialBlockSizeWithFlags, , 7000, JUMP, BLIND, NONE, NO, NO, "computes on the host")   \
    GM_ROW(CALL, OccupancyMaxPotentialClusterSize, , 11070, JUMP, BLIND, NONE, NO, NO, "computes on the host")         \
    /* launches */                                                                                                     \
    GM_ROWS(CALL, LaunchKernel, , 4000, _ptsz, 7000, JUMP, SUBMITS, 8, KERNEL, NO, "behind its stream")                \
    GM_ROWS(CALL, LaunchCooperativeKernel, , 9000, _ptsz, 9000, JUMP, SUBMITS, 8, KERNEL, NO, "behind its stream")     \
    GM_ROWS(CALL, LaunchKernelEx, , 11060, _ptsz, 11060,                                                               \
        JUMP, SUBMITS, CONFIG, CONFIG, NO, "attributes may loosen its order")                                          \
    GM_ROW(CALL, LaunchCooperativeKernelMultiDevice, , 9000,                                                           \
        JUMP, SUBMITS, NONE, NO, NO, "behind streams of several devices")                                              \
    GM_ROW(CALL, Launch, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                  \
    GM_ROW(CALL, LaunchGrid, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")              \
    GM_ROW(CALL, LaunchGridAsync, , 2000, JUMP, SUBMITS, 3, KERNEL, NO, "behind its stream")                           \
    GM_ROWS(CALL, LaunchHostFunc, , 10000, _ptsz, 10000,                                                               \
        JUMP, SHARES, 0, FUNCTION, HOST_FUNCTION, "the host runs in order")                                            \
    GM_ROWS(CALL, LaunchHostFunc, _v2, 13010, _ptsz, 13010,                                                            \
        JUMP, SHARES, 0, FUNCTION, HOST_FUNCTION, "the host runs in order")                                            \
    GM_ROWS(CALL, StreamAddCallback, , 5000, _ptsz, 7000,                                                              \
        JUMP, SHARES, 0, FUNCTION, HOST_FUNCTION, "the host runs in order")                                            \
    /* streams */                                                                                                      \
    GM_ROW(CALL, StreamCreate, , 2000, HOOK, NOTICES, NONE, NO, NO, "an event holds no later stream")                  \
    GM_ROW(CALL, StreamCreateWithPriority, , 5050, HOOK, NOTICES, NONE, NO, NO, "an event holds no later stream")      \
    GM_ROW(CALL, StreamDestroy, , 2000, HOOK, NOTICES, 0, ENDING, NO, "its order ends with it")                        \
    GM_ROW(CALL, StreamDestroy, _v2, 4000, HOOK, NOTICES, 0, ENDING, NO, "its order ends with it")                     \
    GM_ROWS(CALL, StreamQuery, , 2000, _ptsz, 7000, JUMP, NOTICES, 0, QUERY_STREAM, NO, "tells whether work is done")  \
    GM_ROWS(CALL, StreamSynchronize, , 2000, _ptsz, 7000, JUMP, WAITS, 0, SYNCHRONISE, NO, "tells of its own work")    \
    GM_ROWS(CALL, StreamWaitEvent, , 3020, _ptsz, 7000, JUMP, SUBMITS, 0, WAIT, NO, "behind its stream")               \
    GM_ROWS(CALL, StreamAttachMemAsync, , 6000, _ptsz, 7000, JUMP, SUBMITS, 0, WORK, NO, "behind its stream")          \
    GM_ROWS(CALL, StreamGetId, , 12000, _ptsz, 12000, JUMP, BLIND, 0, NO, NO, "a constant of the stream")              \
    GM_ROWS(CALL, StreamGetFlags, , 5050, _ptsz, 7000, JUMP, BLIND, 0, NO, NO, "a constant of the stream")             \
    GM_ROWS(CALL, StreamGetPriority, , 5050, _ptsz, 7000, JUMP, BLIND, 0, NO, NO, "a constant of the stream")          \
    GM_ROWS(CALL, StreamGetDevice, , 12080, _ptsz, 12080, JUMP, BLIND, 0, NO, NO, "a constant of the stream")          \
    GM_ROWS(CALL, StreamGetCtx, , 9020, _ptsz, 9020, JUMP, BLIND, 0, NO, NO, "a constant of the stream")               \
    GM_ROWS(CALL, StreamGetCtx, _v2, 12050, _ptsz, 12050, JUMP, BLIND, 0, NO, NO, "a constant of the stream")          \
    GM_ROW(CALL, StreamGetGreenCtx, , 12040, JUMP, BLIND, 0, NO, NO, "a constant of the stream")                       \
    GM_ROWS(CALL, StreamGetAttribute, , 11000, _ptsz, 11000, JUMP, BLIND, 0, NO, NO, "a setting that calls made")      \
    GM_ROWS(CALL, StreamSetAttribute, , 11000, _ptsz, 11000,                                                           \
        JUMP, NOTICES, 0, NO, NO, "attributes may loosen later order")                                                 \
    GM_ROWS(CALL, StreamCopyAttributes, , 11000, _ptsz, 11000,                                                         \
        JUMP, NOTICES, 0, NO, NO, "attributes may loosen later order")                                                 \
    /* values in memory that streams write and wait for */                                                             \
    GM_ROWS(CALL, StreamWriteValue32, , 8000, _ptsz, 8000, JUMP, SUBMITS, 0, SIGNAL, NO, "behind its stream")          \
    GM_ROWS(CALL, StreamWriteValue32, _v2, 11070, _ptsz, 11070, JUMP, SUBMITS, 0, SIGNAL, NO, "behind its stream")     \
    GM_ROWS(CALL, StreamWriteValue64, , 9000, _ptsz, 9000, JUMP, SUBMITS, 0, SIGNAL, NO, "behind its stream")          \
    GM_ROWS(CALL, StreamWriteValue64, _v2, 11070, _ptsz, 11070, JUMP, SUBMITS, 0, SIGNAL, NO, "behind its stream")     \
    GM_ROWS(CALL, StreamWaitValue32, , 8000, _ptsz, 8000,                                                              \
        JUMP, SHARES, 0, AWAIT, VALUES, "waits for what others write")                                                 \
    GM_ROWS(CALL, StreamWaitValue32, _v2, 11070, _ptsz, 11070,                                                         \
        JUMP, SHARES, 0, AWAIT, VALUES, "waits for what others write")                                                 \
    GM_ROWS(CALL, StreamWaitValue64, , 9000, _ptsz, 9000,                                                              \
        JUMP, SHARES, 0, AWAIT, VALUES, "waits for what others write")                                                 \
    GM_ROWS(CALL, StreamWaitValue64, _v2, 11070, _ptsz, 11070,                                                         \
        JUMP, SHARES, 0, AWAIT, VALUES, "waits for what others write")                                                 \
    GM_ROWS(CALL, StreamBatchMemOp, , 8000, _ptsz, 8000, JUMP, SHARES, 0, BATCH, VALUES, "may wait for others")        \
    GM_ROWS(CALL, StreamBatchMemOp, _v2, 11070, _ptsz, 11070, JUMP, SHARES, 0, BATCH, VALUES, "may wait for others")   \
    /* events */                                                                                                       \
    GM_ROW(CALL, EventCreate, , 2000, JUMP, BLIND, NONE, NO, NO, "it is not recorded yet")                             \
    GM_ROW(CALL, EventDestroy, , 2000, JUMP, BLIND, NONE, NO, NO, "the driver keeps pending ones")                     \
    GM_ROW(CALL, EventDestroy, _v2, 4000, JUMP, BLIND, NONE, NO, NO, "the driver keeps pending ones")                  \
    GM_ROWS(CALL, EventRecord, , 2000, _ptsz, 7000, JUMP, SUBMITS, 1, RECORD, NO, "behind its stream")                 \
    GM_ROWS(CALL, EventRecordWithFlags, , 11010, _ptsz, 11010, JUMP, SUBMITS, 1, RECORD, NO, "behind its stream")      \
    GM_ROW(CALL, EventQuery, , 2000, JUMP, NOTICES, NONE, QUERY_EVENT, NO, "tells whether work is done")               \
    GM_ROW(CALL, EventElapsedTime, , 2000, JUMP, NOTICES, NONE, QUERY_EVENTS, NO, "tells whether work is done")        \
    GM_ROW(CALL, EventElapsedTime, _v2, 12080, JUMP, NOTICES, NONE, QUERY_EVENTS, NO, "tells whether work is done")    \
    GM_ROW(CALL, EventSynchronize, , 2000, JUMP, WAITS, NONE, EVENT_DONE, NO, "tells of its own work")                 \
    /* capture */                                                                                                      \
    GM_ROWS(CALL, StreamBeginCapture, , 10000, _ptsz, 10000, HOOK, SUBMITS, 0, NO, NO, "the event must come before")   \
    GM_ROWS(CALL, StreamBeginCapture, _v2, 10010, _ptsz, 10010,                                                        \
        HOOK, SUBMITS, 0, NO, NO, "the event must come before")                                                        \
    GM_ROWS(CALL, StreamBeginCaptureToGraph, , 12030, _ptsz, 12030,                                                    \
        HOOK, SUBMITS, 0, NO, NO, "the event must come before")                                                        \
    GM_ROWS(CALL, StreamBeginRecaptureToGraph, , 13030, _ptsz, 13030,                                                  \
        JUMP, SHARES, 0, NO, HOST_FUNCTION, "a capture that nobody counts")                                            \
    GM_ROWS(CALL, StreamEndCapture, , 10000, _ptsz, 10000, HOOK, BLIND, 0, NO, NO, "captured work has not run")        \
    GM_ROWS(CALL, StreamBeginCaptureToCig, , 13010, _ptsz, 13010,                                                      \
        JUMP, SHARES, 0, NO, EXTERNAL, "graphics libraries run the work")                                              \
    GM_ROWS(CALL, StreamEndCaptureToCig, , 13010, _ptsz, 13010,                                                        \
        JUMP, SHARES, 0, NO, EXTERNAL, "graphics libraries run the work")                                              \
    GM_ROWS(CALL, StreamIsCapturing, , 10000, _ptsz, 10000, JUMP, BLIND, 0, NO, NO, "a state of the host")             \
    GM_ROWS(CALL, StreamGetCaptureInfo, , 10010, _ptsz, 10010, JUMP, BLIND, 0, NO, NO, "a state of the host")          \
    GM_ROWS(CALL, StreamGetCaptureInfo, _v2, 11030, _ptsz, 11030, JUMP, BLIND, 0, NO, NO, "a state of the host")       \
    GM_ROWS(CALL, StreamGetCaptureInfo, _v3, 12030, _ptsz, 12030, JUMP, BLIND, 0, NO, NO, "a state of the host")       \
    GM_ROWS(CALL, StreamUpdateCaptureDependencies, , 11030, _ptsz, 11030,                                              \
        JUMP, BLIND, 0, NO, NO, "captured work has not run")                                                           \
    GM_ROWS(CALL, StreamUpdateCaptureDependencies, _v2, 12030, _ptsz, 12030,                                           \
        JUMP, BLIND, 0, NO, NO, "captured work has not run")                                                           \
    GM_ROW(CALL, ThreadExchangeStreamCaptureMode, , 10010, JUMP, BLIND, NONE, NO, NO, "a setting of the thread")       \
    /* memory that gpumem places or records */                                                                         \
    GM_ROW(CALL, MemAlloc, , 2000, JUMP, NOTICES, NONE, NO, NO, "addresses of 32 bits, unplaced")                      \
    GM_ROW(CALL, MemAlloc, _v2, 3020, HOOK, MEMORY, NONE, NO, NO, "placed and recorded")                               \
    GM_ROW(CALL, MemAllocPitch, , 2000, JUMP, NOTICES, NONE, NO, NO, "addresses of 32 bits, unplaced")                 \
    GM_ROW(CALL, MemAllocPitch, _v2, 3020, HOOK, MEMORY, NONE, NO, NO, "placed and recorded")                          \
    GM_ROW(CALL, MemFree, , 2000, JUMP, NOTICES, NONE, NO, NO, "frees memory of kernels")                              \
    GM_ROW(CALL, MemFree, _v2, 3020, HOOK, MEMORY, NONE, FREE, NO, "decides what is in flight")                        \
    GM_ROW(CALL, MemAllocManaged, , 6000, HOOK, MEMORY, NONE, SHARES_MEMORY, NO, "recorded, the host sees it")         \
    GM_ROWS(CALL, MemAllocAsync, , 11020, _ptsz, 11020, HOOK, SUBMITS, 2, NO, NO, "behind its stream, recorded")       \
    GM_ROWS(CALL, MemAllocFromPoolAsync, , 11020, _ptsz, 11020,                                                        \
        HOOK, SUBMITS, 3, NO, NO, "behind its stream, recorded")                                                       \
    GM_ROWS(CALL, MemFreeAsync, , 11020, _ptsz, 11020, HOOK, SUBMITS, 1, WORK, NO, "behind its stream, recorded")      \
    /* host memory */                                                                                                  \
    GM_ROW(CALL, MemAllocHost, , 2000, JUMP, SHARES, NONE, SHARES_MEMORY, HOST_MEMORY, "the host sees it")             \
    GM_ROW(CALL, MemAllocHost, _v2, 3020, HOOK, MEMORY, NONE, NO, NO, "recorded, the host sees it")                    \
    GM_ROW(CALL, MemHostAlloc, , 2020, HOOK, MEMORY, NONE, MAY_SHARE_MEMORY, NO, "recorded, the host sees it")         \
    GM_ROW(CALL, MemHostRegister, , 4000, HOOK, MEMORY, NONE, MAY_SHARE_MEMORY, NO, "recorded, the host sees it")      \
    GM_ROW(CALL, MemHostRegister, _v2, 6050, HOOK, MEMORY, NONE, MAY_SHARE_MEMORY, NO, "recorded, the host sees it")   \
    GM_ROW(CALL, MemHostUnregister, , 4000, HOOK, NOTICES, NONE, NO, NO, "frees memory of kernels")                    \
    GM_ROW(CALL, MemFreeHost, , 2000, HOOK, NOTICES, NONE, NO, NO, "frees memory of kernels")                          \
    GM_ROW(CALL, MemHostGetDevicePointer, , 2020, JUMP, BLIND, NONE, SHARES_MEMORY, NO, "its allocation was noted")    \
    GM_ROW(CALL, MemHostGetDevicePointer, _v2, 3020, JUMP, BLIND, NONE, SHARES_MEMORY, NO, "its allocation was noted") \
    GM_ROW(CALL, MemHostGetFlags, , 2030, JUMP, BLIND, NONE, NO, NO, "a constant of the memory")                       \
    /* facts about memory */                                                                                           \
    GM_ROW(CALL, MemGetInfo, , 2000, JUMP, NOTICES, NONE, NO, NO, "finished work gives memory back")                   \
    GM_ROW(CALL, MemGetInfo, _v2, 3020, HOOK, NOTICES, NONE, ASKS, NO, "finished work gives memory back")              \
    GM_ROW(CALL, MemGetAddressRange, , 2000, JUMP, BLIND, NONE, NO, NO, "a constant of the memory")                    \
    GM_ROW(CALL, MemGetAddressRange, _v2, 3020, HOOK, BLIND, NONE, NO, NO, "a constant of the memory")                 \
    GM_ROW(CALL, PointerGetAttribute, , 4000, HOOK, SHARES, NONE, ASKS, NO, "tokens let devices see memory")           \
    GM_ROW(CALL, PointerGetAttributes, , 7000, HOOK, SHARES, NONE, ASKS, NO, "tokens let devices see memory")          \
    GM_ROW(CALL, PointerSetAttribute, , 6000, HOOK, NOTICES, NONE, NO, NO, "changes how copies wait")                  \
    GM_ROW(CALL, MemRangeGetAttribute, , 8000, JUMP, NOTICES, NONE, NO, NO, "tells where work moved pages")            \
    GM_ROW(CALL, MemRangeGetAttributes, , 8000, JUMP, NOTICES, NONE, NO, NO, "tells where work moved pages")           \
    GM_ROW(CALL, MemGetLocationInfo, , 13040, JUMP, NOTICES, NONE, NO, NO, "tells where work moved pages")             \
    /* managed memory */                                                                                               \
    GM_ROW(CALL, MemAdvise, , 8000, HOOK, NOTICES, NONE, NO, NO, "moves pages of kernels")                             \
    GM_ROW(CALL, MemAdvise, _v2, 12020, HOOK, NOTICES, NONE, NO, NO, "moves pages of kernels")                         \
    GM_ROWS(CALL, MemPrefetchAsync, , 8000, _ptsz, 8000, HOOK, SUBMITS, 3, WORK, NO, "behind its stream")              \
    GM_ROWS(CALL, MemPrefetchAsync, _v2, 12020, _ptsz, 12020, HOOK, SUBMITS, 4, WORK, NO, "behind its stream")         \
    GM_ROWS(CALL, MemPrefetchBatchAsync, , 13000, _ptsz, 13000, JUMP, SUBMITS, 7, WORK, NO, "behind its stream")       \
    GM_ROWS(CALL, MemDiscardBatchAsync, , 13000, _ptsz, 13000, JUMP, SUBMITS, 4, WORK, NO, "behind its stream")        \
    GM_ROWS(CALL, MemDiscardAndPrefetchBatchAsync, , 13000, _ptsz, 13000,                                              \
        JUMP, SUBMITS, 7, WORK, NO, "behind its stream")                                                               \
    /* arrays */                                                                                                       \
    GM_ROW(CALL, ArrayCreate, , 2000, JUMP, NOTICES, NONE, NO, NO, "sizes of 32 bits, unrecorded")                     \
    GM_ROW(CALL, ArrayCreate, _v2, 3020, HOOK, MEMORY, NONE, NO, NO, "recorded")                                       \
    GM_ROW(CALL, Array3DCreate, , 2000, JUMP, NOTICES, NONE, NO, NO, "sizes of 32 bits, unrecorded")                   \
    GM_ROW(CALL, Array3DCreate, _v2, 3020, HOOK, MEMORY, NONE, NO, NO, "recorded")                                     \
    GM_ROW(CALL, MipmappedArrayCreate, , 5000, HOOK, MEMORY, NONE, NO, NO, "recorded")                                 \
    GM_ROW(CALL, ArrayDestroy, , 2000, HOOK, NOTICES, NONE, NO, NO, "frees memory of kernels")                         \
    GM_ROW(CALL, MipmappedArrayDestroy, , 5000, HOOK, NOTICES, NONE, NO, NO, "frees memory of kernels")                \
    GM_ROW(CALL, ArrayGetDescriptor, , 2000, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                     \
    GM_ROW(CALL, ArrayGetDescriptor, _v2, 3020, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                  \
    GM_ROW(CALL, Array3DGetDescriptor, , 2000, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                   \
    GM_ROW(CALL, Array3DGetDescriptor, _v2, 3020, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                \
    GM_ROW(CALL, ArrayGetPlane, , 11020, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                         \
    GM_ROW(CALL, ArrayGetMemoryRequirements, , 11060, JUMP, BLIND, NONE, NO, NO, "a constant of the array")            \
    GM_ROW(CALL, ArrayGetSparseProperties, , 11010, JUMP, BLIND, NONE, NO, NO, "a constant of the array")              \
    GM_ROW(CALL, MipmappedArrayGetLevel, , 5000, JUMP, BLIND, NONE, NO, NO, "a constant of the array")                 \
    GM_ROW(CALL, MipmappedArrayGetMemoryRequirements, , 11060, JUMP, BLIND, NONE, NO, NO, "a constant of the array")   \
    GM_ROW(CALL, MipmappedArrayGetSparseProperties, , 11010, JUMP, BLIND, NONE, NO, NO, "a constant of the array")     \
    GM_ROWS(CALL, MemMapArrayAsync, , 11010, _ptsz, 11010, JUMP, SUBMITS, 2, WORK, NO, "behind its stream")            \
    /* virtual memory */                                                                                               \
    GM_ROW(CALL, MemAddressReserve, , 10020, HOOK, MEMORY, NONE, NO, NO, "recorded")                                   \
    GM_ROW(CALL, MemCreate, , 10020, HOOK, MEMORY, NONE, NO, NO, "recorded")                                           \
    GM_ROW(CALL, MemMap, , 10020, HOOK, MEMORY, NONE, NO, NO, "recorded")                                              \
    GM_ROW(CALL, MemAddressFree, , 10020, HOOK, NOTICES, NONE, NO, NO, "frees memory of kernels")                      \
    GM_ROW(CALL, MemRelease, , 10020, HOOK, NOTICES, NONE, NO, NO, "frees memory of kernels")                          \
    GM_ROW(CALL, MemUnmap, , 10020, HOOK, NOTICES, NONE, NO, NO, "does not wait for kernels")                          \
    GM_ROW(CALL, MemSetAccess, , 10020, HOOK, NOTICES, NONE, NO, NO, "does not wait for kernels")                      \
    GM_ROW(CALL, MemGetAccess, , 10020, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                        \
    GM_ROW(CALL, MemGetAllocationGranularity, , 10020, JUMP, BLIND, NONE, NO, NO, "a constant of the device")          \
    GM_ROW(CALL, MemGetAllocationPropertiesFromHandle, , 10020, JUMP, BLIND, NONE, NO, NO, "a constant of the memory") \
    GM_ROW(CALL, MemRetainAllocationHandle, , 11000, HOOK, BLIND, NONE, NO, NO, "a constant of the memory")            \
    /* pools */                                                                                                        \
    GM_ROW(CALL, MemPoolCreate, , 11020, HOOK, MEMORY, NONE, NO, NO, "recorded, may be of host")                       \
    GM_ROW(CALL, MemPoolDestroy, , 11020, HOOK, NOTICES, NONE, NO, NO, "finished frees give memory back")              \
    GM_ROW(CALL, MemPoolTrimTo, , 11020, HOOK, NOTICES, NONE, NO, NO, "finished frees give memory back")               \
    GM_ROW(CALL, MemPoolGetAttribute, , 11020, JUMP, NOTICES, NONE, NO, NO, "counts what frees gave back")             \
    GM_ROW(CALL, MemPoolSetAttribute, , 11020, JUMP, NOTICES, NONE, NO, NO, "may give memory back")                    \
    GM_ROW(CALL, MemPoolSetAccess, , 11020, JUMP, SHARES, NONE, NO, PEERS, "another device sees memory")               \
    GM_ROW(CALL, MemPoolGetAccess, , 11020, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                    \
    GM_ROW(CALL, DeviceGetDefaultMemPool, , 11020, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")             \
    GM_ROW(CALL, DeviceGetMemPool, , 11020, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                    \
    GM_ROW(CALL, DeviceSetMemPool, , 11020, HOOK, BLIND, NONE, NO, NO, "a setting of later allocations")               \
    GM_ROW(CALL, MemSetMemPool, , 13000, HOOK, BLIND, NONE, NO, NO, "a setting of later allocations")                  \
    GM_ROW(CALL, MemGetDefaultMemPool, , 13000, HOOK, SHARES, NONE, NO, NO, "may be of the host")                      \
    GM_ROW(CALL, MemGetMemPool, , 13000, HOOK, SHARES, NONE, NO, NO, "may be of the host")                             \
    /* memory for other processes and devices */                                                                       \
    GM_ROW(CALL, IpcGetMemHandle, , 4010, HOOK, SHARES, NONE, NO, NO, "another process sees memory")                   \
    GM_ROW(CALL, IpcOpenMemHandle, , 4010, HOOK, SHARES, NONE, NO, NO, "another process sees memory")                  \
    GM_ROW(CALL, IpcOpenMemHandle, _v2, 11000, HOOK, SHARES, NONE, NO, NO, "another process sees memory")              \
    GM_ROW(CALL, IpcCloseMemHandle, , 4010, HOOK, NOTICES, NONE, NO, NO, "unmaps memory of kernels")                   \
    GM_ROW(CALL, IpcGetEventHandle, , 4010, JUMP, SHARES, NONE, NO, SHARED, "another process sees events")             \
    GM_ROW(CALL, IpcOpenEventHandle, , 4010, JUMP, SHARES, NONE, NO, SHARED, "another process sees events")            \
    GM_ROW(CALL, MemExportToShareableHandle, , 10020, HOOK, SHARES, NONE, NO, NO, "another process sees memory")       \
    GM_ROW(CALL, MemImportFromShareableHandle, , 10020, HOOK, SHARES, NONE, NO, NO, "another process sees memory")     \
    GM_ROW(CALL, MemPoolExportPointer, , 11020, HOOK, SHARES, NONE, NO, NO, "another process sees memory")             \
    GM_ROW(CALL, MemPoolImportPointer, , 11020, HOOK, SHARES, NONE, NO, NO, "another process sees memory")             \
    GM_ROW(CALL, MemPoolExportToShareableHandle, , 11020,                                                              \
        JUMP, SHARES, NONE, NO, SHARED, "another process sees memory")                                                 \
    GM_ROW(CALL, MemPoolImportFromShareableHandle, , 11020,                                                            \
        JUMP, SHARES, NONE, NO, SHARED, "another process sees memory")                                                 \
    GM_ROW(CALL, MemGetHandleForAddressRange, , 11070, HOOK, SHARES, NONE, NO, NO, "another driver sees memory")       \
    GM_ROW(CALL, MulticastCreate, , 12010, JUMP, BLIND, NONE, NO, NO, "no memory is bound yet")                        \
    GM_ROW(CALL, MulticastGetGranularity, , 12010, JUMP, BLIND, NONE, NO, NO, "no memory is bound yet")                \
    GM_ROW(CALL, MulticastAddDevice, , 12010, JUMP, SHARES, NONE, NO, PEERS, "another device sees memory")             \
    GM_ROW(CALL, MulticastBindMem, , 12010, HOOK, SHARES, NONE, NO, NO, "another device sees memory")                  \
    GM_ROW(CALL, MulticastBindMem, _v2, 13010, JUMP, SHARES, NONE, NO, PEERS, "another device sees memory")            \
    GM_ROW(CALL, MulticastBindAddr, , 12010, HOOK, SHARES, NONE, NO, NO, "another device sees memory")                 \
    GM_ROW(CALL, MulticastBindAddr, _v2, 13010, JUMP, SHARES, NONE, NO, PEERS, "another device sees memory")           \
    GM_ROW(CALL, MulticastUnbind, , 12010, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of kernels")                    \
    GM_ROW(CALL, LogicalEndpointIdReserve, , 13030, JUMP, BLIND, NONE, NO, NO, "no memory is bound yet")               \
    GM_ROW(CALL, LogicalEndpointIdRelease, , 13030, JUMP, BLIND, NONE, NO, NO, "no memory is bound yet")               \
    GM_ROW(CALL, LogicalEndpointGetLimits, , 13030, JUMP, BLIND, NONE, NO, NO, "no memory is bound yet")               \
    GM_ROW(CALL, LogicalEndpointCreate, , 13030, JUMP, SHARES, NONE, NO, SHARED, "another device sees memory")         \
    GM_ROW(CALL, LogicalEndpointAddDevice, , 13030, JUMP, SHARES, NONE, NO, SHARED, "another device sees memory")      \
    GM_ROW(CALL, LogicalEndpointBindAddr, , 13030, JUMP, SHARES, NONE, NO, SHARED, "another device sees memory")       \
    GM_ROW(CALL, LogicalEndpointBindMem, , 13030, JUMP, SHARES, NONE, NO, SHARED, "another device sees memory")        \
    GM_ROW(CALL, LogicalEndpointExport, , 13030, JUMP, SHARES, NONE, NO, SHARED, "another device sees memory")         \
    GM_ROW(CALL, LogicalEndpointImport, , 13030, JUMP, SHARES, NONE, NO, SHARED, "another device sees memory")         \
    GM_ROW(CALL, LogicalEndpointUnbind, , 13030, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of others")               \
    GM_ROW(CALL, LogicalEndpointDestroy, , 13030, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of others")              \
    GM_ROW(CALL, LogicalEndpointQuery, , 13030, JUMP, NOTICES, NONE, NO, NO, "a state that others change")             \
    GM_ROWS(CALL, FabricCpyBatchAsync, , 13050, _ptsz, 13050,                                                          \
        JUMP, SHARES, 3, VISIBLE, SHARED, "another device sees memory")                                                \
    /* copies */                                                                                                       \
    GM_ROWS(CALL, Memcpy, , 4000, _ptds, 7000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")        \
    GM_ROWS(CALL, MemcpyPeer, , 4000, _ptds, 7000,                                                                     \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                           \
    GM_ROW(CALL, MemcpyHtoD, , 2000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")                  \
    GM_ROWS(CALL, MemcpyHtoD, _v2, 3020, _ptds, 7000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream") \
    GM_ROW(CALL, MemcpyDtoH, , 2000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")                  \
    GM_ROWS(CALL, MemcpyDtoH, _v2, 3020, _ptds, 7000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream") \
    GM_ROW(CALL, MemcpyHtoA, , 2000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")                  \
    GM_ROWS(CALL, MemcpyHtoA, _v2, 3020, _ptds, 7000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream") \
    GM_ROW(CALL, MemcpyAtoH, , 2000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")                  \
    GM_ROWS(CALL, MemcpyAtoH, _v2, 3020, _ptds, 7000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream") \
    GM_ROW(CALL, MemcpyDtoD, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")              \
    GM_ROWS(CALL, MemcpyDtoD, _v2, 3020, _ptds, 7000,                                                                  \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                           \
    GM_ROW(CALL, MemcpyDtoA, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")              \
    GM_ROWS(CALL, MemcpyDtoA, _v2, 3020, _ptds, 7000,                                                                  \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                           \
    GM_ROW(CALL, MemcpyAtoD, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")              \
    GM_ROWS(CALL, MemcpyAtoD, _v2, 3020, _ptds, 7000,                                                                  \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                           \
    GM_ROW(CALL, MemcpyAtoA, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")              \
    GM_ROWS(CALL, MemcpyAtoA, _v2, 3020, _ptds, 7000,                                                                  \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                           \
    GM_ROW(CALL, Memcpy2D, , 2000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")                    \
    GM_ROWS(CALL, Memcpy2D, _v2, 3020, _ptds, 7000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")   \
    GM_ROW(CALL, Memcpy2DUnaligned, , 2000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")           \
    GM_ROWS(CALL, Memcpy2DUnaligned, _v2, 3020, _ptds, 7000,                                                           \
        JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")                                               \
    GM_ROW(CALL, Memcpy3D, , 2000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")                    \
    GM_ROWS(CALL, Memcpy3D, _v2, 3020, _ptds, 7000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")   \
    GM_ROWS(CALL, Memcpy3DPeer, , 4000, _ptds, 7000, JUMP, SUBMITS, DEFAULT, WAITED, NO, "behind the default stream")  \
    GM_ROWS(CALL, MemcpyAsync, , 4000, _ptsz, 7000, JUMP, SUBMITS, 3, COPY, NO, "behind its stream")                   \
    GM_ROWS(CALL, MemcpyPeerAsync, , 4000, _ptsz, 7000, JUMP, SUBMITS, 5, WORK, NO, "behind its stream")               \
    GM_ROW(CALL, MemcpyHtoDAsync, , 2000, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")                             \
    GM_ROWS(CALL, MemcpyHtoDAsync, _v2, 3020, _ptsz, 7000, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")            \
    GM_ROW(CALL, MemcpyDtoHAsync, , 2000, JUMP, SUBMITS, 3, COPY, NO, "behind its stream")                             \
    GM_ROWS(CALL, MemcpyDtoHAsync, _v2, 3020, _ptsz, 7000, JUMP, SUBMITS, 3, COPY, NO, "behind its stream")            \
    GM_ROW(CALL, MemcpyDtoDAsync, , 3000, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")                             \
    GM_ROWS(CALL, MemcpyDtoDAsync, _v2, 3020, _ptsz, 7000, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")            \
    GM_ROW(CALL, MemcpyHtoAAsync, , 2000, JUMP, SUBMITS, 4, WORK, NO, "behind its stream")                             \
    GM_ROWS(CALL, MemcpyHtoAAsync, _v2, 3020, _ptsz, 7000, JUMP, SUBMITS, 4, WORK, NO, "behind its stream")            \
    GM_ROW(CALL, MemcpyAtoHAsync, , 2000, JUMP, SUBMITS, 4, COPY, NO, "behind its stream")                             \
    GM_ROWS(CALL, MemcpyAtoHAsync, _v2, 3020, _ptsz, 7000, JUMP, SUBMITS, 4, COPY, NO, "behind its stream")            \
    GM_ROW(CALL, Memcpy2DAsync, , 2000, JUMP, SUBMITS, 1, WORK, NO, "behind its stream")                               \
    GM_ROWS(CALL, Memcpy2DAsync, _v2, 3020, _ptsz, 7000, JUMP, SUBMITS, 1, COPY_2D, NO, "behind its stream")           \
    GM_ROW(CALL, Memcpy3DAsync, , 2000, JUMP, SUBMITS, 1, WORK, NO, "behind its stream")                               \
    GM_ROWS(CALL, Memcpy3DAsync, _v2, 3020, _ptsz, 7000, JUMP, SUBMITS, 1, COPY_3D, NO, "behind its stream")           \
    GM_ROWS(CALL, Memcpy3DPeerAsync, , 4000, _ptsz, 7000, JUMP, SUBMITS, 1, COPY_3D_PEER, NO, "behind its stream")     \
    GM_ROWS(CALL, MemcpyBatchAsync, , 12080, _ptsz, 12080,                                                             \
        JUMP, SHARES, 8, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                                      \
    GM_ROWS(CALL, MemcpyBatchAsync, _v2, 13000, _ptsz, 13000,                                                          \
        JUMP, SHARES, 7, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                                      \
    GM_ROWS(CALL, Memcpy3DBatchAsync, , 12080, _ptsz, 12080,                                                           \
        JUMP, SHARES, 4, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                                      \
    GM_ROWS(CALL, Memcpy3DBatchAsync, _v2, 13000, _ptsz, 13000,                                                        \
        JUMP, SHARES, 3, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                                      \
    GM_ROWS(CALL, MemcpyWithAttributesAsync, , 13020, _ptsz, 13020,                                                    \
        JUMP, SHARES, 4, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                                      \
    GM_ROWS(CALL, Memcpy3DWithAttributesAsync, , 13020, _ptsz, 13020,                                                  \
        JUMP, SHARES, 2, VISIBLE, HOST_MEMORY, "host memory, maybe out of order")                                      \
    GM_ROWS(CALL, MemBatchDecompressAsync, , 12060, _ptsz, 12060, JUMP, SUBMITS, 4, WORK, NO, "behind its stream")     \
    /* fills */                                                                                                        \
    GM_ROW(CALL, MemsetD8, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                \
    GM_ROWS(CALL, MemsetD8, _v2, 3020, _ptds, 7000,                                                                    \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                           \
    GM_ROW(CALL, MemsetD16, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")               \
    GM_ROWS(CALL, MemsetD16, _v2, 3020, _ptds, 7000,                                                                   \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                           \
    GM_ROW(CALL, MemsetD32, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")               \
    GM_ROWS(CALL, MemsetD32, _v2, 3020, _ptds, 7000,                                                                   \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                           \
    GM_ROW(CALL, MemsetD2D8, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")              \
    GM_ROWS(CALL, MemsetD2D8, _v2, 3020, _ptds, 7000,                                                                  \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                           \
    GM_ROW(CALL, MemsetD2D16, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")             \
    GM_ROWS(CALL, MemsetD2D16, _v2, 3020, _ptds, 7000,                                                                 \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                           \
    GM_ROW(CALL, MemsetD2D32, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")             \
    GM_ROWS(CALL, MemsetD2D32, _v2, 3020, _ptds, 7000,                                                                 \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, "behind the default stream")                                           \
    GM_ROWS(CALL, MemsetD8Async, , 3020, _ptsz, 7000, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")                 \
    GM_ROWS(CALL, MemsetD16Async, , 3020, _ptsz, 7000, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")                \
    GM_ROWS(CALL, MemsetD32Async, , 3020, _ptsz, 7000, JUMP, SUBMITS, 3, WORK, NO, "behind its stream")                \
    GM_ROWS(CALL, MemsetD2D8Async, , 3020, _ptsz, 7000, JUMP, SUBMITS, 5, WORK, NO, "behind its stream")               \
    GM_ROWS(CALL, MemsetD2D16Async, , 3020, _ptsz, 7000, JUMP, SUBMITS, 5, WORK, NO, "behind its stream")              \
    GM_ROWS(CALL, MemsetD2D32Async, , 3020, _ptsz, 7000, JUMP, SUBMITS, 5, WORK, NO, "behind its stream")              \
    /* graphs: making them runs nothing */                                                                             \
    GM_ROW(CALL, GraphCreate, , 10000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                             \
    GM_ROW(CALL, GraphClone, , 10000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                              \
    GM_ROW(CALL, GraphAddDependencies, , 10000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                    \
    GM_ROW(CALL, GraphAddDependencies, _v2, 12030, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                 \
    GM_ROW(CALL, GraphRemoveDependencies, , 10000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                 \
    GM_ROW(CALL, GraphRemoveDependencies, _v2, 12030, JUMP, BLIND, NONE, NO, NO, "the graph has not run")              \
    GM_ROW(CALL, GraphDestroyNode, , 10000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                        \
    GM_ROW(CALL, GraphDestroy, , 10000, JUMP, BLIND, NONE, NO, NO, "running instances keep their own")                 \
    GM_ROW(CALL, GraphAddEmptyNode, , 10000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                       \
    GM_ROW(CALL, GraphAddKernelNode, , 10000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                      \
    GM_ROW(CALL, GraphAddKernelNode, _v2, 12000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                   \
    GM_ROW(CALL, GraphAddMemsetNode, , 10000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                      \
    GM_ROW(CALL, GraphAddChildGraphNode, , 10000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                  \
    GM_ROW(CALL, GraphAddEventRecordNode, , 11010, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                 \
    GM_ROW(CALL, GraphAddEventWaitNode, , 11010, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                   \
    GM_ROW(CALL, GraphConditionalHandleCreate, , 12030, JUMP, BLIND, NONE, NO, NO, "the graph has not run")            \
    GM_ROW(CALL, GraphAddMemcpyNode, , 10000, JUMP, SHARES, NONE, COPY_NODE_4, NO, "an operand may be host memory")    \
    GM_ROW(CALL, GraphAddMemAllocNode, , 11040, HOOK, MEMORY, NONE, NO, NO, "recorded")                                \
    GM_ROW(CALL, GraphAddMemFreeNode, , 11040, HOOK, MEMORY, NONE, NO, NO, "recorded")                                 \
    GM_ROW(CALL, GraphAddHostNode, , 10000, JUMP, SHARES, NONE, NO, HOST_FUNCTION, "the host runs in order")           \
    GM_ROW(CALL, GraphAddBatchMemOpNode, , 11070, JUMP, SHARES, NONE, NO, VALUES, "may wait for others")               \
    GM_ROW(CALL, GraphAddExternalSemaphoresWaitNode, , 11020,                                                          \
        JUMP, SHARES, NONE, NO, SEMAPHORES, "waits for other interfaces")                                              \
    GM_ROW(CALL, GraphAddExternalSemaphoresSignalNode, , 11020,                                                        \
        JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see the signal")                                           \
    GM_ROW(CALL, GraphAddNode, , 12020, HOOK, SHARES, NONE, NO, NO, "depends on the type")                             \
    GM_ROW(CALL, GraphAddNode, _v2, 12030, HOOK, SHARES, NONE, NO, NO, "depends on the type")                          \
    GM_ROW(CALL, GraphAddNode, _v3, 13040, JUMP, SHARES, NONE, NO, HOST_FUNCTION, "depends on the type")               \
    GM_ROW(CALL, GraphKernelNodeSetParams, , 10000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                \
    GM_ROW(CALL, GraphKernelNodeSetParams, _v2, 12000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")             \
    GM_ROW(CALL, GraphKernelNodeSetAttribute, , 11000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")             \
    GM_ROW(CALL, GraphKernelNodeCopyAttributes, , 11000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")           \
    GM_ROW(CALL, GraphMemsetNodeSetParams, , 10000, JUMP, BLIND, NONE, NO, NO, "the graph has not run")                \
    GM_ROW(CALL, GraphEventRecordNodeSetEvent, , 11010, JUMP, BLIND, NONE, NO, NO, "the graph has not run")            \
    GM_ROW(CALL, GraphEventWaitNodeSetEvent, , 11010, JUMP, BLIND, NONE, NO, NO, "the graph has not run")              \
    GM_ROW(CALL, GraphMemcpyNodeSetParams, , 10000,                                                                    \
        JUMP, SHARES, NONE, COPY_NODE_1, NO, "an operand may be host memory")                                          \
    GM_ROW(CALL, GraphHostNodeSetParams, , 10000, JUMP, SHARES, NONE, NO, HOST_FUNCTION, "the host runs in order")     \
    GM_ROW(CALL, GraphBatchMemOpNodeSetParams, , 11070, JUMP, SHARES, NONE, NO, VALUES, "may wait for others")         \
    GM_ROW(CALL, GraphExternalSemaphoresWaitNodeSetParams, , 11020,                                                    \
        JUMP, SHARES, NONE, NO, SEMAPHORES, "waits for other interfaces")                                              \
    GM_ROW(CALL, GraphExternalSemaphoresSignalNodeSetParams, , 11020,                                                  \
        JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see the signal")                                           \
    GM_ROW(CALL, GraphNodeSetParams, , 12020, JUMP, SHARES, NONE, NODE_1, NO, "depends on the type")                   \
    GM_ROW(CALL, GraphNodeSetParams, _v2, 13040, JUMP, SHARES, NONE, NODE_1, NO, "depends on the type")                \
    GM_ROW(CALL, GraphGetId, , 13010, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                \
    GM_ROW(CALL, GraphGetNodes, , 10000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                             \
    GM_ROW(CALL, GraphGetRootNodes, , 10000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                         \
    GM_ROW(CALL, GraphGetEdges, , 10000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                             \
    GM_ROW(CALL, GraphGetEdges, _v2, 12030, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                          \
    GM_ROW(CALL, GraphNodeFindInClone, , 10000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                      \
    GM_ROW(CALL, GraphNodeGetContainingGraph, , 13010, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")               \
    GM_ROW(CALL, GraphNodeGetDependencies, , 10000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                  \
    GM_ROW(CALL, GraphNodeGetDependencies, _v2, 12030, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")               \
    GM_ROW(CALL, GraphNodeGetDependentNodes, , 10000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                \
    GM_ROW(CALL, GraphNodeGetDependentNodes, _v2, 12030, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")             \
    GM_ROW(CALL, GraphNodeGetLocalId, , 13010, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                       \
    GM_ROW(CALL, GraphNodeGetToolsId, , 13010, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                       \
    GM_ROW(CALL, GraphNodeGetType, , 10000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                          \
    GM_ROW(CALL, GraphNodeGetParams, , 13020, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                        \
    GM_ROW(CALL, GraphKernelNodeGetParams, , 10000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                  \
    GM_ROW(CALL, GraphKernelNodeGetParams, _v2, 12000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")               \
    GM_ROW(CALL, GraphKernelNodeGetAttribute, , 11000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")               \
    GM_ROW(CALL, GraphMemcpyNodeGetParams, , 10000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                  \
    GM_ROW(CALL, GraphMemsetNodeGetParams, , 10000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                  \
    GM_ROW(CALL, GraphMemAllocNodeGetParams, , 11040, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                \
    GM_ROW(CALL, GraphMemFreeNodeGetParams, , 11040, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                 \
    GM_ROW(CALL, GraphHostNodeGetParams, , 10000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                    \
    GM_ROW(CALL, GraphBatchMemOpNodeGetParams, , 11070, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")              \
    GM_ROW(CALL, GraphChildGraphNodeGetGraph, , 10000, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")               \
    GM_ROW(CALL, GraphEventRecordNodeGetEvent, , 11010, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")              \
    GM_ROW(CALL, GraphEventWaitNodeGetEvent, , 11010, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                \
    GM_ROW(CALL, GraphExternalSemaphoresWaitNodeGetParams, , 11020, JUMP, BLIND, NONE, NO, NO, "a fact of the graph")  \
    GM_ROW(CALL, GraphExternalSemaphoresSignalNodeGetParams, , 11020,                                                  \
        JUMP, BLIND, NONE, NO, NO, "a fact of the graph")                                                              \
    GM_ROW(CALL, GraphDebugDotPrint, , 11030, JUMP, BLIND, NONE, NO, NO, "writes facts of the graph")                  \
    GM_ROW(CALL, UserObjectCreate, , 11030, JUMP, SHARES, NONE, NO, HOST_FUNCTION, "a finished graph calls host")      \
    GM_ROW(CALL, UserObjectRetain, , 11030, JUMP, BLIND, NONE, NO, NO, "the making was noted")                         \
    GM_ROW(CALL, UserObjectRelease, , 11030, JUMP, BLIND, NONE, NO, NO, "the making was noted")                        \
    GM_ROW(CALL, GraphRetainUserObject, , 11030, JUMP, BLIND, NONE, NO, NO, "the making was noted")                    \
    GM_ROW(CALL, GraphReleaseUserObject, , 11030, JUMP, BLIND, NONE, NO, NO, "the making was noted")                   \
    /* graphs: instances */                                                                                            \
    GM_ROW(CALL, GraphInstantiate, , 10000, HOOK, NOTICES, NONE, NO, NO, "maps memory, may upload")                    \
    GM_ROW(CALL, GraphInstantiate, _v2, 11000, HOOK, NOTICES, NONE, NO, NO, "maps memory, may upload")                 \
    GM_ROW(CALL, GraphInstantiateWithFlags, , 11040, HOOK, NOTICES, NONE, NO, NO, "maps memory, may upload")           \
    GM_ROWS(CALL, GraphInstantiateWithParams, , 12000, _ptsz, 12000,                                                   \
        HOOK, NOTICES, NONE, NO, NO, "maps memory, may upload")                                                        \
    GM_ROWS(CALL, GraphUpload, , 11010, _ptsz, 11010, HOOK, SUBMITS, 1, NO, NO, "behind its stream")                   \
    GM_ROWS(CALL, GraphLaunch, , 10000, _ptsz, 10000, JUMP, SUBMITS, 1, KERNEL, NO, "behind its stream")               \
    GM_ROW(CALL, GraphExecUpdate, , 10020, JUMP, NOTICES, NONE, NO, NO, "may replace memory of runs")                  \
    GM_ROW(CALL, GraphExecUpdate, _v2, 12000, JUMP, NOTICES, NONE, NO, NO, "may replace memory of runs")               \
    GM_ROW(CALL, GraphExecDestroy, , 10000, JUMP, NOTICES, NONE, NO, NO, "frees memory of runs")                       \
    GM_ROW(CALL, GraphExecGetId, , 13010, JUMP, BLIND, NONE, NO, NO, "a fact of the instance")                         \
    GM_ROW(CALL, GraphExecGetFlags, , 12000, JUMP, BLIND, NONE, NO, NO, "a fact of the instance")                      \
    GM_ROW(CALL, GraphNodeGetEnabled, , 11060, JUMP, BLIND, NONE, NO, NO, "a fact of the instance")                    \
    GM_ROW(CALL, GraphNodeSetEnabled, , 11060, HOOK, BLIND, NONE, NO, NO, "a setting of later launches")               \
    GM_ROW(CALL, GraphExecKernelNodeSetParams, , 10010, HOOK, BLIND, NONE, NO, NO, "a setting of later launches")      \
    GM_ROW(CALL, GraphExecKernelNodeSetParams, _v2, 12000, HOOK, BLIND, NONE, NO, NO, "a setting of later launches")   \
    GM_ROW(CALL, GraphExecMemsetNodeSetParams, , 10020, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")      \
    GM_ROW(CALL, GraphExecChildGraphNodeSetParams, , 11010, HOOK, BLIND, NONE, NO, NO, "a setting of later launches")  \
    GM_ROW(CALL, GraphExecEventRecordNodeSetEvent, , 11010, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")  \
    GM_ROW(CALL, GraphExecEventWaitNodeSetEvent, , 11010, JUMP, BLIND, NONE, NO, NO, "a setting of later launches")    \
    GM_ROW(CALL, GraphExecMemcpyNodeSetParams, , 10020,                                                                \
        JUMP, SHARES, NONE, COPY_NODE_2, NO, "an operand may be host memory")                                          \
    GM_ROW(CALL, GraphExecHostNodeSetParams, , 10020, JUMP, SHARES, NONE, NO, HOST_FUNCTION, "the host runs in order") \
    GM_ROW(CALL, GraphExecBatchMemOpNodeSetParams, , 11070, JUMP, SHARES, NONE, NO, VALUES, "may wait for others")     \
    GM_ROW(CALL, GraphExecExternalSemaphoresWaitNodeSetParams, , 11020,                                                \
        JUMP, SHARES, NONE, NO, SEMAPHORES, "waits for other interfaces")                                              \
    GM_ROW(CALL, GraphExecExternalSemaphoresSignalNodeSetParams, , 11020,                                              \
        JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see the signal")                                           \
    GM_ROW(CALL, GraphExecNodeSetParams, , 12020, JUMP, SHARES, NONE, NODE_2, NO, "depends on the type")               \
    GM_ROW(CALL, DeviceGetGraphMemAttribute, , 11040, JUMP, NOTICES, NONE, NO, NO, "counts memory of finished runs")   \
    GM_ROW(CALL, DeviceSetGraphMemAttribute, , 11040, JUMP, NOTICES, NONE, NO, NO, "counts memory of finished runs")   \
    GM_ROW(CALL, DeviceGraphMemTrim, , 11040, JUMP, NOTICES, NONE, NO, NO, "trims memory of finished runs")            \
    /* other interfaces of the device */                                                                               \
    GM_ROW(CALL, ImportExternalMemory, , 10000, JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see memory")       \
    GM_ROW(CALL, ImportExternalSemaphore, , 10000, JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see memory")    \
    GM_ROW(CALL, ExternalMemoryGetMappedBuffer, , 10000,                                                               \
        JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see memory")                                               \
    GM_ROW(CALL, ExternalMemoryGetMappedMipmappedArray, , 10000,                                                       \
        JUMP, SHARES, NONE, NO, EXTERNAL, "other interfaces see memory")                                               \
    GM_ROW(CALL, DestroyExternalMemory, , 10000, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of kernels")              \
    GM_ROW(CALL, DestroyExternalSemaphore, , 10000, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of kernels")           \
    GM_ROWS(CALL, SignalExternalSemaphoresAsync, , 10000, _ptsz, 10000,                                                \
        JUMP, SUBMITS, 3, SIGNAL, NO, "behind its stream, import noted")                                               \
    GM_ROWS(CALL, WaitExternalSemaphoresAsync, , 10000, _ptsz, 10000,                                                  \
        JUMP, SHARES, 3, AWAIT, SEMAPHORES, "waits for other interfaces")                                              \
    GM_ROWS(CALL, GraphicsMapResources, , 3000, _ptsz, 7000,                                                           \
        JUMP, SHARES, 2, NO, EXTERNAL, "other interfaces see memory")                                                  \
    GM_ROWS(CALL, GraphicsUnmapResources, , 3000, _ptsz, 7000,                                                         \
        JUMP, SHARES, 2, NO, EXTERNAL, "other interfaces see memory")                                                  \
    GM_ROW(CALL, GraphicsResourceGetMappedPointer, , 3000, JUMP, BLIND, NONE, NO, NO, "the mapping was noted")         \
    GM_ROW(CALL, GraphicsResourceGetMappedPointer, _v2, 3020, JUMP, BLIND, NONE, NO, NO, "the mapping was noted")      \
    GM_ROW(CALL, GraphicsResourceGetMappedMipmappedArray, , 5000, JUMP, BLIND, NONE, NO, NO, "the mapping was noted")  \
    GM_ROW(CALL, GraphicsSubResourceGetMappedArray, , 3000, JUMP, BLIND, NONE, NO, NO, "the mapping was noted")        \
    GM_ROW(CALL, GraphicsResourceGetMappedEglFrame, , 7000, JUMP, BLIND, NONE, NO, NO, "the mapping was noted")        \
    GM_ROW(CALL, GraphicsResourceSetMapFlags, , 3000, JUMP, BLIND, NONE, NO, NO, "a setting of later mappings")        \
    GM_ROW(CALL, GraphicsResourceSetMapFlags, _v2, 6050, JUMP, BLIND, NONE, NO, NO, "a setting of later mappings")     \
    GM_ROW(CALL, GraphicsUnregisterResource, , 3000, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of kernels")          \
    /* OpenGL */                                                                                                       \
    GM_ROW(CALL, GLCtxCreate, , 2000, JUMP, SHARES, NONE, NO, CONTEXTS, "may be a second context")                     \
    GM_ROW(CALL, GLCtxCreate, _v2, 3020, JUMP, SHARES, NONE, NO, CONTEXTS, "may be a second context")                  \
    GM_ROW(CALL, GLInit, , 2000, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics will see memory")                         \
    GM_ROW(CALL, GLGetDevices, , 4010, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                          \
    GM_ROW(CALL, GLGetDevices, _v2, 6050, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                       \
    GM_ROW(CALL, GraphicsGLRegisterBuffer, , 3000, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics will see memory")       \
    GM_ROW(CALL, GraphicsGLRegisterImage, , 3000, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics will see memory")        \
    GM_ROW(CALL, GLRegisterBufferObject, , 2000, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics will see memory")         \
    GM_ROW(CALL, GLMapBufferObject, , 2000, JUMP, SHARES, DEFAULT, NO, EXTERNAL, "graphics see memory")                \
    GM_ROWS(CALL, GLMapBufferObject, _v2, 3020, _ptds, 7000,                                                           \
        JUMP, SHARES, DEFAULT, NO, EXTERNAL, "graphics see memory")                                                    \
    GM_ROW(CALL, GLMapBufferObjectAsync, , 2030, JUMP, SHARES, 3, NO, EXTERNAL, "graphics see memory")                 \
    GM_ROWS(CALL, GLMapBufferObjectAsync, _v2, 3020, _ptsz, 7000,                                                      \
        JUMP, SHARES, 3, NO, EXTERNAL, "graphics see memory")                                                          \
    GM_ROW(CALL, GLUnmapBufferObject, , 2000, JUMP, SHARES, DEFAULT, NO, EXTERNAL, "graphics see memory")              \
    GM_ROW(CALL, GLUnmapBufferObjectAsync, , 2030, JUMP, SHARES, 1, NO, EXTERNAL, "graphics see memory")               \
    GM_ROW(CALL, GLSetBufferObjectMapFlags, , 2030, JUMP, BLIND, NONE, NO, NO, "a setting of later mappings")          \
    GM_ROW(CALL, GLUnregisterBufferObject, , 2000, JUMP, NOTICES, NONE, NO, NO, "unmaps memory of kernels")            \
    /* EGL */                                                                                                          \
    GM_ROW(CALL, GraphicsEGLRegisterImage, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics see memory and events") \
    GM_ROW(CALL, EventCreateFromEGLSync, , 9000, JUMP, SHARES, NONE, NO, EXTERNAL, "graphics see memory and events")   \
    GM_ROW(CALL, EGLStreamConsumerConnect, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")            \
    GM_ROW(CALL, EGLStreamConsumerConnectWithFlags, , 8000, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")   \
    GM_ROW(CALL, EGLStreamConsumerDisconnect, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")         \
    GM_ROW(CALL, EGLStreamConsumerAcquireFrame, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")       \
    GM_ROW(CALL, EGLStreamConsumerReleaseFrame, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")       \
    GM_ROW(CALL, EGLStreamProducerConnect, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")            \
    GM_ROW(CALL, EGLStreamProducerDisconnect, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")         \
    GM_ROW(CALL, EGLStreamProducerPresentFrame, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")       \
    GM_ROW(CALL, EGLStreamProducerReturnFrame, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, "frames go to others")        \
    /* VDPAU */                                                                                                        \
    GM_ROW(CALL, VDPAUCtxCreate, , 3010, JUMP, SHARES, NONE, NO, CONTEXTS, "may be a second context")                  \
    GM_ROW(CALL, VDPAUCtxCreate, _v2, 3020, JUMP, SHARES, NONE, NO, CONTEXTS, "may be a second context")               \
    GM_ROW(CALL, VDPAUGetDevice, , 3010, JUMP, BLIND, NONE, NO, NO, "a constant of the device")                        \
    GM_ROW(CALL, GraphicsVDPAURegisterVideoSurface, , 3010,                                                            \
        JUMP, SHARES, NONE, NO, EXTERNAL, "graphics will see memory")                                                  \
    GM_ROW(CALL, GraphicsVDPAURegisterOutputSurface, , 3010,                                                           \
        JUMP, SHARES, NONE, NO, EXTERNAL, "graphics will see memory")                                                  \
    /* textures, surfaces, tensor maps */                                                                              \
    GM_ROW(CALL, TexObjectCreate, , 5000, JUMP, BLIND, NONE, NO, NO, "no kernel uses it yet")                          \
    GM_ROW(CALL, SurfObjectCreate, , 5000, JUMP, BLIND, NONE, NO, NO, "no kernel uses it yet")                         \
    GM_ROW(CALL, TexObjectDestroy, , 5000, JUMP, NOTICES, NONE, NO, NO, "frees a descriptor of kernels")               \
    GM_ROW(CALL, SurfObjectDestroy, , 5000, JUMP, NOTICES, NONE, NO, NO, "frees a descriptor of kernels")              \
    GM_ROW(CALL, TexObjectGetResourceDesc, , 5000, JUMP, BLIND, NONE, NO, NO, "a constant of the object")              \
    GM_ROW(CALL, TexObjectGetResourceViewDesc, , 5000, JUMP, BLIND, NONE, NO, NO, "a constant of the object")          \
    GM_ROW(CALL, TexObjectGetTextureDesc, , 5000, JUMP, BLIND, NONE, NO, NO, "a constant of the object")               \
    GM_ROW(CALL, SurfObjectGetResourceDesc, , 5000, JUMP, BLIND, NONE, NO, NO, "a constant of the object")             \
    GM_ROW(CALL, TexRefCreate, , 2000, JUMP, BLIND, NONE, NO, NO, "no kernel uses it yet")                             \
    GM_ROW(CALL, TexRefDestroy, , 2000, JUMP, NOTICES, NONE, NO, NO, "frees a descriptor of kernels")                  \
    GM_ROW(CALL, TexRefSetAddress, , 2000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")             \
    GM_ROW(CALL, TexRefSetAddress, _v2, 3020, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")          \
    GM_ROW(CALL, TexRefSetAddress2D, , 2020, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")           \
    GM_ROW(CALL, TexRefSetAddress2D, _v2, 3020, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")        \
    GM_ROW(CALL, TexRefSetAddress2D, _v3, 4010, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")        \
    GM_ROW(CALL, TexRefSetArray, , 2000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")               \
    GM_ROW(CALL, TexRefSetMipmappedArray, , 5000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")      \
    GM_ROW(CALL, TexRefSetAddressMode, , 2000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")         \
    GM_ROW(CALL, TexRefSetBorderColor, , 8000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")         \
    GM_ROW(CALL, TexRefSetFilterMode, , 2000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")          \
    GM_ROW(CALL, TexRefSetFlags, , 2000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")               \
    GM_ROW(CALL, TexRefSetFormat, , 2000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")              \
    GM_ROW(CALL, TexRefSetMaxAnisotropy, , 5000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")       \
    GM_ROW(CALL, TexRefSetMipmapFilterMode, , 5000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")    \
    GM_ROW(CALL, TexRefSetMipmapLevelBias, , 5000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")     \
    GM_ROW(CALL, TexRefSetMipmapLevelClamp, , 5000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")    \
    GM_ROW(CALL, SurfRefSetArray, , 3000, JUMP, NOTICES, NONE, NO, NO, "changes a descriptor of kernels")              \
    GM_ROW(CALL, TexRefGetAddress, , 2000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                     \
    GM_ROW(CALL, TexRefGetAddress, _v2, 3020, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                  \
    GM_ROW(CALL, TexRefGetArray, , 2000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                       \
    GM_ROW(CALL, TexRefGetMipmappedArray, , 5000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")              \
    GM_ROW(CALL, TexRefGetAddressMode, , 2000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                 \
    GM_ROW(CALL, TexRefGetBorderColor, , 8000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                 \
    GM_ROW(CALL, TexRefGetFilterMode, , 2000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                  \
    GM_ROW(CALL, TexRefGetFlags, , 2000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                       \
    GM_ROW(CALL, TexRefGetFormat, , 2000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                      \
    GM_ROW(CALL, TexRefGetMaxAnisotropy, , 5000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")               \
    GM_ROW(CALL, TexRefGetMipmapFilterMode, , 5000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")            \
    GM_ROW(CALL, TexRefGetMipmapLevelBias, , 5000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")             \
    GM_ROW(CALL, TexRefGetMipmapLevelClamp, , 5000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")            \
    GM_ROW(CALL, SurfRefGetArray, , 3000, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                      \
    GM_ROW(CALL, TensorMapEncodeTiled, , 12000, JUMP, BLIND, NONE, NO, NO, "writes a struct of host")                  \
    GM_ROW(CALL, TensorMapEncodeIm2col, , 12000, JUMP, BLIND, NONE, NO, NO, "writes a struct of host")                 \
    GM_ROW(CALL, TensorMapEncodeIm2colWide, , 12080, JUMP, BLIND, NONE, NO, NO, "writes a struct of host")             \
    GM_ROW(CALL, TensorMapReplaceAddress, , 12000, JUMP, BLIND, NONE, NO, NO, "writes a struct of host")               \
    GM_ROW(CALL, TensorMapSetAllocationClass, , 13050, JUMP, BLIND, NONE, NO, NO, "writes a struct of host")           \
    /* tools: profiles, logs, dumps, checkpoints */                                                                    \
    GM_ROW(CALL, ProfilerInitialize, , 4000, JUMP, NOTICES, NONE, NO, NO, "bounds what is profiled")                   \
    GM_ROW(CALL, ProfilerStart, , 4000, JUMP, NOTICES, NONE, NO, NO, "bounds what is profiled")                        \
    GM_ROW(CALL, ProfilerStop, , 4000, JUMP, NOTICES, NONE, NO, NO, "bounds what is profiled")                         \
    GM_ROW(CALL, LogsCurrent, , 12090, JUMP, NOTICES, NONE, NO, NO, "shows errors of work")                            \
    GM_ROW(CALL, LogsDumpToFile, , 12090, JUMP, NOTICES, NONE, NO, NO, "shows errors of work")                         \
    GM_ROW(CALL, LogsDumpToMemory, , 12090, JUMP, NOTICES, NONE, NO, NO, "shows errors of work")                       \
    GM_ROW(CALL, LogsRegisterCallback, , 12090, JUMP, NOTICES, NONE, NO, NO, "errors of work call host")               \
    GM_ROW(CALL, LogsUnregisterCallback, , 12090, JUMP, NOTICES, NONE, NO, NO, "errors of work call host")             \
    GM_ROW(CALL, CoredumpGetAttribute, , 12010, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")                \
    GM_ROW(CALL, CoredumpGetAttributeGlobal, , 12010, JUMP, BLIND, NONE, NO, NO, "a setting that calls made")          \
    GM_ROW(CALL, CoredumpSetAttribute, , 12010, JUMP, NOTICES, NONE, NO, NO, "decides where faults are written")       \
    GM_ROW(CALL, CoredumpSetAttributeGlobal, , 12010, JUMP, NOTICES, NONE, NO, NO, "decides where faults are written") \
    GM_ROW(CALL, CoredumpRegisterStartCallback, , 13020, JUMP, NOTICES, NONE, NO, NO, "faults of work call host")      \
    GM_ROW(CALL, CoredumpRegisterCompleteCallback, , 13020, JUMP, NOTICES, NONE, NO, NO, "faults of work call host")   \
    GM_ROW(CALL, CoredumpDeregisterStartCallback, , 13020, JUMP, NOTICES, NONE, NO, NO, "faults of work call host")    \
    GM_ROW(CALL, CoredumpDeregisterCompleteCallback, , 13020, JUMP, NOTICES, NONE, NO, NO, "faults of work call host") \
    GM_ROW(CALL, CheckpointProcessGetRestoreThreadId, , 12080, JUMP, BLIND, NONE, NO, NO, "a constant of the process") \
    GM_ROW(CALL, CheckpointProcessGetState, , 12080, JUMP, NOTICES, NONE, NO, NO, "stops or saves all work")           \
    GM_ROW(CALL, CheckpointProcessLock, , 12080, JUMP, NOTICES, NONE, NO, NO, "stops or saves all work")               \
    GM_ROW(CALL, CheckpointProcessUnlock, , 12080, JUMP, NOTICES, NONE, NO, NO, "stops or saves all work")             \
    GM_ROW(CALL, CheckpointProcessCheckpoint, , 12080, JUMP, NOTICES, NONE, NO, NO, "stops or saves all work")         \
    GM_ROW(CALL, CheckpointProcessRestore, , 12080, JUMP, NOTICES, NONE, NO, NO, "stops or saves all work")            \
    GM_ROW(CALL, CheckpointOperationComplete, , 13040, JUMP, NOTICES, NONE, NO, NO, "stops or saves all work")

#endif
