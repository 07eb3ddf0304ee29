/* clang-format off */
/* The driver's interface: one row for each function that cuda.h, cudaGL.h, cudaEGL.h, cudaVDPAU.h or cudaProfiler.h
 * declares in a toolkit from 11.8 to 13.5, in every variant. A function without a row counts as NOTICES and CALL.
 *
 *   GM_ROW(X, name, suffix, version, how, role, stream, meaning, why, memory, "reason")
 *   GM_ROWS(X, name, suffix, version, thread, how, ...)                 the function, and its twin behind it
 *   GM_ROW_V2(X, name, version, version of _v2, how, ...)               two variants
 *   GM_ROWS_V2(X, name, version, version of _v2, thread, how, ...)      the second one with its twin
 *   GM_ROWS_V1_V2(X, name, version, version of _v2, thread, how, ...)   both with their twins
 *
 * These call X(symbol, name, version, twin, how, role, stream, meaning, why, memory, reason) for each function. Where
 * cuda.h is included, a symbol may be a macro (cuMemAlloc stands for cuMemAlloc_v2): X uses it with # and ## only, and
 * does not pass it on to another macro.
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
 *            lets a stream wait for them. W is finished, and later frees wait. Not finished for WRITES (column why): W
 *            may wait for the call.
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
 * memory   Whether the call can need device memory. What gpumem keeps free must not make it fail: a call that returns
 *          CUDA_ERROR_OUT_OF_MEMORY is made once more after a trim, by its hook or by gm_again (shim/hook/entry.S). In
 *          doubt a call needs memory: to make it again costs time only.
 *   CALL     for what it makes: contexts, code, streams, events, graphs, arrays, textures, blocks, mappings, pools,
 *            and access of others to them. Code is loaded at the first use of a function.
 *   LAUNCH   for the work that it submits: local memory of kernels, memory of graphs, buffers of copies, code
 *   ONCE     it may, but a second call would not do what the first one should have done. The reason says why.
 *   NEVER    it tells a fact, changes a setting, waits, marks or orders work, or gives memory back. What an object of
 *            the host alone needs is no device memory.
 *
 * reason   for the role, and for ONCE
 *
 * The variants of a name stand together, versions ascending. C and assembly include this file: macros only. */
#ifndef GM_DRIVER_CALLS_H
#define GM_DRIVER_CALLS_H

#define GM_ROW(X, name, suffix, version, ...) X(cu##name##suffix, cu##name, version, 0, __VA_ARGS__)
#define GM_ROWS(X, name, suffix, version, thread, ...) \
    GM_ROW(X, name, suffix, version, __VA_ARGS__)      \
    X(cu##name##suffix##thread, cu##name, version > 7000 ? version : 7000, 1, __VA_ARGS__)
#define GM_ROW_V2(X, name, first, second, ...) \
    GM_ROW(X, name, , first, __VA_ARGS__)      \
    GM_ROW(X, name, _v2, second, __VA_ARGS__)
#define GM_ROWS_V2(X, name, first, second, thread, ...) \
    GM_ROW(X, name, , first, __VA_ARGS__)               \
    GM_ROWS(X, name, _v2, second, thread, __VA_ARGS__)
#define GM_ROWS_V1_V2(X, name, first, second, thread, ...) \
    GM_ROWS(X, name, , first, thread, __VA_ARGS__)         \
    GM_ROWS(X, name, _v2, second, thread, __VA_ARGS__)

#define GM_DRIVER_CALLS(X)                                                                                             \
    /* the driver, look-ups, errors */                                                                                 \
    GM_ROW(X, Init, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "no work exists before it")                              \
    GM_ROW(X, DriverGetVersion, , 2020, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the driver")                  \
    GM_ROW_V2(X, GetProcAddress, 11030, 12000, HOOK, BLIND, NONE, NO, NO, NEVER, "hands out entries of rows")          \
    GM_ROW(X, GetExportTable, , 3000, JUMP, BLIND, NONE, NO, NO, NEVER, "private tables are a limit")                  \
    GM_ROW(X, GetErrorName, , 6000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant text")                               \
    GM_ROW(X, GetErrorString, , 6000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant text")                             \
    /* devices */                                                                                                      \
    GM_ROW(X, DeviceGet, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")                         \
    GM_ROW(X, DeviceGetCount, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")                    \
    GM_ROW(X, DeviceGetName, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")                     \
    GM_ROW_V2(X, DeviceGetUuid, 9020, 11040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")             \
    GM_ROW(X, DeviceGetLuid, , 10000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")                    \
    GM_ROW(X, DeviceGetAttribute, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")                \
    GM_ROW(X, DeviceGetProperties, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")               \
    GM_ROW(X, DeviceComputeCapability, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")           \
    GM_ROW(X, DeviceGetByPCIBusId, , 4010, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")               \
    GM_ROW(X, DeviceGetPCIBusId, , 4010, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")                 \
    GM_ROW(X, DeviceGetTexture1DLinearMaxWidth, , 11010, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device") \
    GM_ROW(X, DeviceGetExecAffinitySupport, , 11040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")     \
    GM_ROW(X, DeviceGetHostAtomicCapabilities, , 13000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")  \
    GM_ROW(X, DeviceGetNvSciSyncAttributes, , 10020, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")     \
    GM_ROW(X, DeviceGetFabricClusterUuid, , 13040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")       \
    GM_ROW(X, DeviceGetCliqueCount, , 13040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")             \
    GM_ROW(X, DeviceGetCliqueInfo, , 13040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")              \
    GM_ROW(X, DeviceTotalMem, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")                    \
    GM_ROW(X, DeviceTotalMem, _v2, 3020, HOOK, BLIND, NONE, NO, NO, NEVER, "a constant of the device")                 \
    GM_ROW(X, DeviceCanAccessPeer, , 4000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of two devices")              \
    GM_ROW(X, DeviceGetP2PAttribute, , 8000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of two devices")            \
    GM_ROW(X, DeviceGetP2PAtomicCapabilities, , 13000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of two devices")  \
    GM_ROW(X, DeviceRegisterAsyncNotification, , 12040,                                                                \
        JUMP, NOTICES, NONE, NO, NO, NEVER, "the driver calls the host")                                               \
    GM_ROW(X, DeviceUnregisterAsyncNotification, , 12040,                                                              \
        JUMP, NOTICES, NONE, NO, NO, NEVER, "the driver calls the host")                                               \
    GM_ROW(X, FlushGPUDirectRDMAWrites, , 11030, JUMP, NOTICES, NONE, NO, NO, NEVER, "makes writes of others visible") \
    /* primary contexts */                                                                                             \
    GM_ROW(X, DevicePrimaryCtxRetain, , 7000, HOOK, SHARES, NONE, NO, NO, CALL, "may make a second context")           \
    GM_ROW_V2(X, DevicePrimaryCtxRelease, 7000, 11000,                                                                 \
        HOOK, NOTICES, NONE, NO, NO, NEVER, "ends the context and memory")                                             \
    GM_ROW_V2(X, DevicePrimaryCtxReset, 7000, 11000,                                                                   \
        HOOK, NOTICES, NONE, NO, NO, NEVER, "ends the context and memory")                                             \
    GM_ROW_V2(X, DevicePrimaryCtxSetFlags, 7000, 11000,                                                                \
        JUMP, NOTICES, NONE, NO, NO, NEVER, "changes a living context")                                                \
    GM_ROW(X, DevicePrimaryCtxGetState, , 7000, JUMP, BLIND, NONE, NO, NO, NEVER, "a count of the host")               \
    /* contexts */                                                                                                     \
    GM_ROW_V2(X, CtxCreate, 2000, 3020, HOOK, SHARES, NONE, NO, NO, CALL, "may be a second context")                   \
    GM_ROW(X, CtxCreate, _v3, 11040, HOOK, SHARES, NONE, NO, NO, CALL, "may be a second context")                      \
    GM_ROW(X, CtxCreate, _v4, 12050, HOOK, SHARES, NONE, NO, NO, CALL, "may be a second context")                      \
    GM_ROW_V2(X, CtxDestroy, 2000, 4000, HOOK, NOTICES, NONE, NO, NO, NEVER, "ends the context and memory")            \
    GM_ROW(X, CtxAttach, , 2000, HOOK, BLIND, NONE, NO, NO, NEVER, "counts a user")                                    \
    GM_ROW(X, CtxDetach, , 2000, HOOK, NOTICES, NONE, NO, NO, NEVER, "may end context and memory")                     \
    GM_ROW_V2(X, CtxPushCurrent, 2000, 4000, JUMP, BLIND, NONE, NO, NO, NEVER, "sets a pointer of the thread")         \
    GM_ROW_V2(X, CtxPopCurrent, 2000, 4000, JUMP, BLIND, NONE, NO, NO, NEVER, "sets a pointer of the thread")          \
    GM_ROW(X, CtxSetCurrent, , 4000, JUMP, BLIND, NONE, NO, NO, NEVER, "sets a pointer of the thread")                 \
    GM_ROW(X, CtxGetCurrent, , 4000, JUMP, BLIND, NONE, NO, NO, NEVER, "a pointer of the thread")                      \
    GM_ROW_V2(X, CtxGetDevice, 2000, 13000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the context")             \
    GM_ROW(X, CtxGetId, , 12000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the context")                        \
    GM_ROW(X, CtxGetFlags, , 7000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the context")                      \
    GM_ROW(X, CtxGetApiVersion, , 3020, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the context")                 \
    GM_ROW(X, CtxGetStreamPriorityRange, , 5050, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the context")        \
    GM_ROW(X, CtxGetExecAffinity, , 11040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the context")              \
    GM_ROW(X, CtxGetLimit, , 3010, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")                      \
    GM_ROW(X, CtxGetCacheConfig, , 3020, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")                \
    GM_ROW(X, CtxGetSharedMemConfig, , 4020, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")            \
    GM_ROW(X, CtxSetLimit, , 3010, HOOK, NOTICES, NONE, NO, NO, CALL, "may replace memory of kernels")                 \
    GM_ROW(X, CtxSetFlags, , 12010, JUMP, NOTICES, NONE, NO, NO, NEVER, "changes how calls wait")                      \
    GM_ROW(X, CtxSetCacheConfig, , 3020, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting of later launches")              \
    GM_ROW(X, CtxSetSharedMemConfig, , 4020, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting of later launches")          \
    GM_ROW(X, CtxResetPersistingL2Cache, , 11000, JUMP, NOTICES, NONE, NO, NO, NEVER, "changes the cache of kernels")  \
    GM_ROW(X, CtxSynchronize, , 2000, JUMP, WAITS, NONE, CONTEXT_DONE, NO, NEVER, "waits for all earlier work")        \
    GM_ROW(X, CtxSynchronize, _v2, 13000,                                                                              \
        JUMP, WAITS, NONE, NAMED_CONTEXT_DONE, NO, NEVER, "waits for all earlier work")                                \
    GM_ROW(X, CtxRecordEvent, , 12050, JUMP, SUBMITS, NONE, CONTEXT_RECORD, NO, NEVER, "behind all work of streams")   \
    GM_ROW(X, CtxWaitEvent, , 12050, JUMP, SUBMITS, NONE, CONTEXT_WAIT, NO, NEVER, "holds all later work")             \
    GM_ROW(X, CtxEnablePeerAccess, , 4000, HOOK, SHARES, NONE, NO, NO, CALL, "another device sees memory")             \
    GM_ROW(X, CtxDisablePeerAccess, , 4000, HOOK, NOTICES, NONE, NO, NO, NEVER, "unmaps memory of kernels")            \
    /* green contexts and their resources */                                                                           \
    GM_ROW(X, GreenCtxCreate, , 12040, HOOK, SHARES, NONE, NO, NO, CALL, "another context over the memory")            \
    GM_ROW(X, GreenCtxDestroy, , 12040, HOOK, NOTICES, NONE, NO, NO, NEVER, "ends its streams")                        \
    GM_ROW(X, CtxFromGreenCtx, , 12040, JUMP, SHARES, NONE, NO, GREEN, CALL, "another context over the memory")        \
    GM_ROW(X, GreenCtxStreamCreate, , 12050, HOOK, BLIND, NONE, NO, NO, CALL, "its first work submits")                \
    GM_ROW(X, GreenCtxRecordEvent, , 12040, JUMP, SUBMITS, NONE, NO, NO, NEVER, "behind work of its streams")          \
    GM_ROW(X, GreenCtxWaitEvent, , 12040, JUMP, SUBMITS, NONE, NO, NO, NEVER, "holds its later work")                  \
    GM_ROW(X, GreenCtxGetId, , 12090, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of its object")                    \
    GM_ROW(X, GreenCtxGetDevResource, , 12040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of its object")           \
    GM_ROW(X, CtxGetDevResource, , 12040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of its object")                \
    GM_ROW(X, DeviceGetDevResource, , 12040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of its object")             \
    GM_ROWS(X, StreamGetDevResource, , 13010, _ptsz, JUMP, BLIND, 0, NO, NO, NEVER, "a constant of its object")        \
    GM_ROW(X, DevResourceGenerateDesc, , 12040, JUMP, BLIND, NONE, NO, NO, NEVER, "computes on the host")              \
    GM_ROW(X, DevSmResourceSplit, , 13010, JUMP, BLIND, NONE, NO, NO, NEVER, "computes on the host")                   \
    GM_ROW(X, DevSmResourceSplitByCount, , 12040, JUMP, BLIND, NONE, NO, NO, NEVER, "computes on the host")            \
    /* modules and libraries */                                                                                        \
    GM_ROW(X, ModuleLoad, , 2000, HOOK, SHARES, NONE, NO, NO, CALL, "its kernels may print")                           \
    GM_ROW(X, ModuleLoadData, , 2000, HOOK, SHARES, NONE, NO, NO, CALL, "its kernels may print")                       \
    GM_ROW(X, ModuleLoadDataEx, , 2010, HOOK, SHARES, NONE, NO, NO, CALL, "its kernels may print")                     \
    GM_ROW(X, ModuleLoadFatBinary, , 2000, HOOK, SHARES, NONE, NO, NO, CALL, "its kernels may print")                  \
    GM_ROW(X, LibraryLoadData, , 12000, HOOK, SHARES, NONE, NO, NO, CALL, "its kernels may print")                     \
    GM_ROW(X, LibraryLoadFromFile, , 12000, HOOK, SHARES, NONE, NO, NO, CALL, "its kernels may print")                 \
    GM_ROW(X, ModuleUnload, , 2000, JUMP, NOTICES, NONE, NO, NO, NEVER, "frees code and variables")                    \
    GM_ROW(X, LibraryUnload, , 12000, HOOK, NOTICES, NONE, NO, NO, NEVER, "frees code and variables")                  \
    GM_ROW(X, ModuleGetGlobal, , 2000, JUMP, SHARES, NONE, NO, HOST_MEMORY, CALL, "a variable may be managed")         \
    GM_ROW(X, ModuleGetGlobal, _v2, 3020, HOOK, SHARES, NONE, NO, NO, CALL, "a variable may be managed")               \
    GM_ROW(X, LibraryGetGlobal, , 12000, HOOK, SHARES, NONE, NO, NO, CALL, "a variable may be managed")                \
    GM_ROW(X, LibraryGetManaged, , 12000, HOOK, SHARES, NONE, SHARES_MEMORY, NO, CALL, "the variable is managed")      \
    GM_ROW(X, ModuleGetFunction, , 2000, HOOK, BLIND, NONE, NO, NO, CALL, "may load code, changes none")               \
    GM_ROW(X, LibraryGetModule, , 12000, HOOK, SHARES, NONE, NO, NO, CALL, "its kernels may print")                    \
    GM_ROW(X, ModuleGetFunctionCount, , 12040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the image")            \
    GM_ROW(X, ModuleEnumerateFunctions, , 12040, JUMP, BLIND, NONE, NO, NO, CALL, "a constant of the image")           \
    GM_ROW(X, ModuleGetSurfRef, , 3000, JUMP, BLIND, NONE, NO, NO, CALL, "a constant of the image")                    \
    GM_ROW(X, ModuleGetTexRef, , 2000, JUMP, BLIND, NONE, NO, NO, CALL, "a constant of the image")                     \
    GM_ROW(X, LibraryGetKernel, , 12000, HOOK, SHARES, NONE, NO, NO, NEVER, "its kernels may print")                   \
    GM_ROW(X, LibraryGetKernelCount, , 12040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the image")             \
    GM_ROW(X, LibraryEnumerateKernels, , 12040, HOOK, SHARES, NONE, NO, NO, NEVER, "its kernels may print")            \
    GM_ROW(X, LibraryGetUnifiedFunction, , 12000, HOOK, SHARES, NONE, NO, NO, CALL, "its kernels may print")           \
    GM_ROW(X, ModuleGetLoadingMode, , 11070, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the process")            \
    /* linking on the host */                                                                                          \
    GM_ROW_V2(X, LinkCreate, 5050, 6050, JUMP, BLIND, NONE, NO, NO, NEVER, "works on the host only")                   \
    GM_ROW_V2(X, LinkAddData, 5050, 6050, JUMP, BLIND, NONE, NO, NO, NEVER, "works on the host only")                  \
    GM_ROW_V2(X, LinkAddFile, 5050, 6050, JUMP, BLIND, NONE, NO, NO, NEVER, "works on the host only")                  \
    GM_ROW(X, LinkComplete, , 5050, JUMP, BLIND, NONE, NO, NO, NEVER, "works on the host only")                        \
    GM_ROW(X, LinkDestroy, , 5050, JUMP, BLIND, NONE, NO, NO, NEVER, "works on the host only")                         \
    /* functions and kernels */                                                                                        \
    GM_ROW(X, FuncGetModule, , 11000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the image")                     \
    GM_ROW(X, FuncGetName, , 12030, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the image")                       \
    GM_ROW(X, FuncGetAttribute, , 2020, JUMP, BLIND, NONE, NO, NO, CALL, "a constant of the image")                    \
    GM_ROW(X, FuncGetParamCount, , 13020, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the image")                 \
    GM_ROW(X, FuncGetParamInfo, , 12040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the image")                  \
    GM_ROW(X, FuncIsLoaded, , 12040, JUMP, BLIND, NONE, NO, NO, NEVER, "set by calls of host")                         \
    GM_ROW(X, FuncLoad, , 12040, HOOK, BLIND, NONE, NO, NO, CALL, "may load code, changes none")                       \
    GM_ROW(X, KernelGetFunction, , 12000, HOOK, BLIND, NONE, NO, NO, CALL, "may load code, changes none")              \
    GM_ROW(X, FuncSetAttribute, , 9000, JUMP, BLIND, NONE, NO, NO, CALL, "a setting of later launches")                \
    GM_ROW(X, FuncSetCacheConfig, , 3000, JUMP, BLIND, NONE, NO, NO, CALL, "a setting of later launches")              \
    GM_ROW(X, FuncSetSharedMemConfig, , 4020, JUMP, BLIND, NONE, NO, NO, CALL, "a setting of later launches")          \
    GM_ROW(X, FuncSetBlockShape, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting of later launches")              \
    GM_ROW(X, FuncSetSharedSize, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting of later launches")              \
    GM_ROW(X, KernelGetLibrary, , 12050, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the image")                  \
    GM_ROW(X, KernelGetName, , 12030, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the image")                     \
    GM_ROW(X, KernelGetAttribute, , 12000, JUMP, BLIND, NONE, NO, NO, CALL, "a constant of the image")                 \
    GM_ROW(X, KernelGetParamCount, , 13020, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the image")               \
    GM_ROW(X, KernelGetParamInfo, , 12040, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the image")                \
    GM_ROW(X, KernelSetAttribute, , 12000, JUMP, BLIND, NONE, NO, NO, CALL, "a setting of later launches")             \
    GM_ROW(X, KernelSetCacheConfig, , 12000, JUMP, BLIND, NONE, NO, NO, CALL, "a setting of later launches")           \
    GM_ROW(X, ParamSetSize, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "an argument of later launches")                 \
    GM_ROW(X, ParamSetTexRef, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "an argument of later launches")               \
    GM_ROW(X, ParamSetf, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "an argument of later launches")                    \
    GM_ROW(X, ParamSeti, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "an argument of later launches")                    \
    GM_ROW(X, ParamSetv, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "an argument of later launches")                    \
    GM_ROW(X, OccupancyAvailableDynamicSMemPerBlock, , 10020, JUMP, BLIND, NONE, NO, NO, CALL, "computes on the host") \
    GM_ROW(X, OccupancyMaxActiveBlocksPerMultiprocessor, , 6050,                                                       \
        JUMP, BLIND, NONE, NO, NO, CALL, "computes on the host")                                                       \
    GM_ROW(X, OccupancyMaxActiveBlocksPerMultiprocessorWithFlags, , 7000,                                              \
        JUMP, BLIND, NONE, NO, NO, CALL, "computes on the host")                                                       \
    GM_ROW(X, OccupancyMaxActiveClusters, , 11070, JUMP, BLIND, NONE, NO, NO, CALL, "computes on the host")            \
    GM_ROW(X, OccupancyMaxPotentialBlockSize, , 6050, JUMP, BLIND, NONE, NO, NO, CALL, "computes on the host")         \
    GM_ROW(X, OccupancyMaxPotentialBlockSizeWithFlags, , 7000,                                                         \
        JUMP, BLIND, NONE, NO, NO, CALL, "computes on the host")                                                       \
    GM_ROW(X, OccupancyMaxPotentialClusterSize, , 11070, JUMP, BLIND, NONE, NO, NO, CALL, "computes on the host")      \
    /* launches */                                                                                                     \
    GM_ROWS(X, LaunchKernel, , 4000, _ptsz, JUMP, SUBMITS, 8, KERNEL, NO, LAUNCH, "behind its stream")                 \
    GM_ROWS(X, LaunchCooperativeKernel, , 9000, _ptsz, JUMP, SUBMITS, 8, KERNEL, NO, LAUNCH, "behind its stream")      \
    GM_ROWS(X, LaunchKernelEx, , 11060, _ptsz,                                                                         \
        JUMP, SUBMITS, CONFIG, CONFIG, NO, LAUNCH, "attributes may loosen its order")                                  \
    GM_ROW(X, LaunchCooperativeKernelMultiDevice, , 9000,                                                              \
        JUMP, SUBMITS, NONE, NO, NO, ONCE, "behind several streams; some may have run")                                \
    GM_ROW(X, Launch, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream")             \
    GM_ROW(X, LaunchGrid, , 2000, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream")         \
    GM_ROW(X, LaunchGridAsync, , 2000, JUMP, SUBMITS, 3, KERNEL, NO, LAUNCH, "behind its stream")                      \
    GM_ROWS_V1_V2(X, LaunchHostFunc, 10000, 13010, _ptsz,                                                              \
        JUMP, SHARES, 0, FUNCTION, HOST_FUNCTION, LAUNCH, "the host runs in order")                                    \
    GM_ROWS(X, StreamAddCallback, , 5000, _ptsz,                                                                       \
        JUMP, SHARES, 0, FUNCTION, HOST_FUNCTION, LAUNCH, "the host runs in order")                                    \
    /* streams */                                                                                                      \
    GM_ROW(X, StreamCreate, , 2000, HOOK, NOTICES, NONE, NO, NO, CALL, "an event holds no later stream")               \
    GM_ROW(X, StreamCreateWithPriority, , 5050, HOOK, NOTICES, NONE, NO, NO, CALL, "an event holds no later stream")   \
    GM_ROW_V2(X, StreamDestroy, 2000, 4000, HOOK, NOTICES, 0, ENDING, NO, NEVER, "its order ends with it")             \
    GM_ROWS(X, StreamQuery, , 2000, _ptsz, JUMP, NOTICES, 0, QUERY_STREAM, NO, NEVER, "tells whether work is done")    \
    GM_ROWS(X, StreamSynchronize, , 2000, _ptsz, JUMP, WAITS, 0, SYNCHRONISE, NO, NEVER, "tells of its own work")      \
    GM_ROWS(X, StreamWaitEvent, , 3020, _ptsz, JUMP, SUBMITS, 0, WAIT, NO, NEVER, "behind its stream")                 \
    GM_ROWS(X, StreamAttachMemAsync, , 6000, _ptsz, JUMP, SUBMITS, 0, WORK, NO, LAUNCH, "behind its stream")           \
    GM_ROWS(X, StreamGetId, , 12000, _ptsz, JUMP, BLIND, 0, NO, NO, NEVER, "a constant of the stream")                 \
    GM_ROWS(X, StreamGetFlags, , 5050, _ptsz, JUMP, BLIND, 0, NO, NO, NEVER, "a constant of the stream")               \
    GM_ROWS(X, StreamGetPriority, , 5050, _ptsz, JUMP, BLIND, 0, NO, NO, NEVER, "a constant of the stream")            \
    GM_ROWS(X, StreamGetDevice, , 12080, _ptsz, JUMP, BLIND, 0, NO, NO, NEVER, "a constant of the stream")             \
    GM_ROWS_V1_V2(X, StreamGetCtx, 9020, 12050, _ptsz, JUMP, BLIND, 0, NO, NO, NEVER, "a constant of the stream")      \
    GM_ROW(X, StreamGetGreenCtx, , 12040, JUMP, BLIND, 0, NO, NO, NEVER, "a constant of the stream")                   \
    GM_ROWS(X, StreamGetAttribute, , 11000, _ptsz, JUMP, BLIND, 0, NO, NO, NEVER, "a setting that calls made")         \
    GM_ROWS(X, StreamSetAttribute, , 11000, _ptsz,                                                                     \
        JUMP, NOTICES, 0, NO, NO, NEVER, "attributes may loosen later order")                                          \
    GM_ROWS(X, StreamCopyAttributes, , 11000, _ptsz,                                                                   \
        JUMP, NOTICES, 0, NO, NO, NEVER, "attributes may loosen later order")                                          \
    /* values in memory that streams write and wait for */                                                             \
    GM_ROWS_V1_V2(X, StreamWriteValue32, 8000, 11070, _ptsz,                                                           \
        JUMP, SHARES, 0, SIGNAL, WRITES, NEVER, "kernels may wait for it")                                             \
    GM_ROWS_V1_V2(X, StreamWriteValue64, 9000, 11070, _ptsz,                                                           \
        JUMP, SHARES, 0, SIGNAL, WRITES, NEVER, "kernels may wait for it")                                             \
    GM_ROWS_V1_V2(X, StreamWaitValue32, 8000, 11070, _ptsz,                                                            \
        JUMP, SHARES, 0, AWAIT, VALUES, NEVER, "waits for what others write")                                          \
    GM_ROWS_V1_V2(X, StreamWaitValue64, 9000, 11070, _ptsz,                                                            \
        JUMP, SHARES, 0, AWAIT, VALUES, NEVER, "waits for what others write")                                          \
    GM_ROWS_V1_V2(X, StreamBatchMemOp, 8000, 11070, _ptsz,                                                             \
        JUMP, SHARES, 0, BATCH, VALUES, NEVER, "may wait for others")                                                  \
    /* events */                                                                                                       \
    GM_ROW(X, EventCreate, , 2000, JUMP, BLIND, NONE, NO, NO, CALL, "it is not recorded yet")                          \
    GM_ROW_V2(X, EventDestroy, 2000, 4000, JUMP, BLIND, NONE, NO, NO, NEVER, "the driver keeps pending ones")          \
    GM_ROWS(X, EventRecord, , 2000, _ptsz, JUMP, SUBMITS, 1, RECORD, NO, NEVER, "behind its stream")                   \
    GM_ROWS(X, EventRecordWithFlags, , 11010, _ptsz, JUMP, SUBMITS, 1, RECORD, NO, NEVER, "behind its stream")         \
    GM_ROW(X, EventQuery, , 2000, JUMP, NOTICES, NONE, QUERY_EVENT, NO, NEVER, "tells whether work is done")           \
    GM_ROW_V2(X, EventElapsedTime, 2000, 12080,                                                                        \
        JUMP, NOTICES, NONE, QUERY_EVENTS, NO, NEVER, "tells whether work is done")                                    \
    GM_ROW(X, EventSynchronize, , 2000, JUMP, WAITS, NONE, EVENT_DONE, NO, NEVER, "tells of its own work")             \
    /* capture */                                                                                                      \
    GM_ROWS_V1_V2(X, StreamBeginCapture, 10000, 10010, _ptsz,                                                          \
        HOOK, SUBMITS, 0, NO, NO, NEVER, "the event must come before")                                                 \
    GM_ROWS(X, StreamBeginCaptureToGraph, , 12030, _ptsz,                                                              \
        HOOK, SUBMITS, 0, NO, NO, NEVER, "the event must come before")                                                 \
    GM_ROWS(X, StreamBeginRecaptureToGraph, , 13030, _ptsz,                                                            \
        JUMP, SHARES, 0, NO, HOST_FUNCTION, NEVER, "a capture that nobody counts")                                     \
    GM_ROWS(X, StreamEndCapture, , 10000, _ptsz, HOOK, BLIND, 0, NO, NO, NEVER, "captured work has not run")           \
    GM_ROWS(X, StreamBeginCaptureToCig, , 13010, _ptsz,                                                                \
        JUMP, SHARES, 0, NO, EXTERNAL, CALL, "graphics libraries run the work")                                        \
    GM_ROWS(X, StreamEndCaptureToCig, , 13010, _ptsz,                                                                  \
        JUMP, SHARES, 0, NO, EXTERNAL, ONCE, "graphics run it; a failure ends it, too")                                \
    GM_ROWS(X, StreamIsCapturing, , 10000, _ptsz, JUMP, BLIND, 0, NO, NO, NEVER, "a state of the host")                \
    GM_ROWS_V1_V2(X, StreamGetCaptureInfo, 10010, 11030, _ptsz, JUMP, BLIND, 0, NO, NO, NEVER, "a state of the host")  \
    GM_ROWS(X, StreamGetCaptureInfo, _v3, 12030, _ptsz, JUMP, BLIND, 0, NO, NO, NEVER, "a state of the host")          \
    GM_ROWS_V1_V2(X, StreamUpdateCaptureDependencies, 11030, 12030, _ptsz,                                             \
        JUMP, BLIND, 0, NO, NO, NEVER, "captured work has not run")                                                    \
    GM_ROW(X, ThreadExchangeStreamCaptureMode, , 10010, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting of the thread")   \
    /* memory that gpumem places or records */                                                                         \
    GM_ROW(X, MemAlloc, , 2000, JUMP, NOTICES, NONE, NO, NO, CALL, "addresses of 32 bits, unplaced")                   \
    GM_ROW(X, MemAlloc, _v2, 3020, HOOK, MEMORY, NONE, NO, NO, CALL, "placed and recorded")                            \
    GM_ROW(X, MemAllocPitch, , 2000, JUMP, NOTICES, NONE, NO, NO, CALL, "addresses of 32 bits, unplaced")              \
    GM_ROW(X, MemAllocPitch, _v2, 3020, HOOK, MEMORY, NONE, NO, NO, CALL, "placed and recorded")                       \
    GM_ROW(X, MemFree, , 2000, JUMP, NOTICES, NONE, NO, NO, NEVER, "frees memory of kernels")                          \
    GM_ROW(X, MemFree, _v2, 3020, HOOK, MEMORY, NONE, FREE, NO, NEVER, "decides what is in flight")                    \
    GM_ROW(X, MemAllocManaged, , 6000, HOOK, MEMORY, NONE, SHARES_MEMORY, NO, CALL, "recorded, the host sees it")      \
    GM_ROWS(X, MemAllocAsync, , 11020, _ptsz, HOOK, SUBMITS, 2, NO, NO, CALL, "behind its stream, recorded")           \
    GM_ROWS(X, MemAllocFromPoolAsync, , 11020, _ptsz, HOOK, SUBMITS, 3, NO, NO, CALL, "behind its stream, recorded")   \
    GM_ROWS(X, MemFreeAsync, , 11020, _ptsz, HOOK, SUBMITS, 1, WORK, NO, NEVER, "behind its stream, recorded")         \
    /* host memory */                                                                                                  \
    GM_ROW(X, MemAllocHost, , 2000, JUMP, SHARES, NONE, SHARES_MEMORY, HOST_MEMORY, CALL, "the host sees it")          \
    GM_ROW(X, MemAllocHost, _v2, 3020, HOOK, MEMORY, NONE, NO, NO, CALL, "recorded, the host sees it")                 \
    GM_ROW(X, MemHostAlloc, , 2020, HOOK, MEMORY, NONE, MAY_SHARE_MEMORY, NO, CALL, "recorded, the host sees it")      \
    GM_ROW_V2(X, MemHostRegister, 4000, 6050,                                                                          \
        HOOK, MEMORY, NONE, MAY_SHARE_MEMORY, NO, CALL, "recorded, the host sees it")                                  \
    GM_ROW(X, MemHostUnregister, , 4000, HOOK, NOTICES, NONE, NO, NO, NEVER, "frees memory of kernels")                \
    GM_ROW(X, MemFreeHost, , 2000, HOOK, NOTICES, NONE, NO, NO, NEVER, "frees memory of kernels")                      \
    GM_ROW_V2(X, MemHostGetDevicePointer, 2020, 3020,                                                                  \
        JUMP, BLIND, NONE, SHARES_MEMORY, NO, NEVER, "its allocation was noted")                                       \
    GM_ROW(X, MemHostGetFlags, , 2030, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the memory")                   \
    /* facts about memory */                                                                                           \
    GM_ROW(X, MemGetInfo, , 2000, JUMP, NOTICES, NONE, NO, NO, NEVER, "finished work gives memory back")               \
    GM_ROW(X, MemGetInfo, _v2, 3020, HOOK, NOTICES, NONE, ASKS, NO, NEVER, "finished work gives memory back")          \
    GM_ROW(X, MemGetAddressRange, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the memory")                \
    GM_ROW(X, MemGetAddressRange, _v2, 3020, HOOK, BLIND, NONE, NO, NO, NEVER, "a constant of the memory")             \
    GM_ROW(X, PointerGetAttribute, , 4000, HOOK, SHARES, NONE, ASKS, NO, NEVER, "tokens let devices see memory")       \
    GM_ROW(X, PointerGetAttributes, , 7000, HOOK, SHARES, NONE, ASKS, NO, NEVER, "tokens let devices see memory")      \
    GM_ROW(X, PointerSetAttribute, , 6000, HOOK, NOTICES, NONE, NO, NO, NEVER, "changes how copies wait")              \
    GM_ROW(X, MemRangeGetAttribute, , 8000, JUMP, NOTICES, NONE, NO, NO, NEVER, "tells where work moved pages")        \
    GM_ROW(X, MemRangeGetAttributes, , 8000, JUMP, NOTICES, NONE, NO, NO, NEVER, "tells where work moved pages")       \
    GM_ROW(X, MemGetLocationInfo, , 13040, JUMP, NOTICES, NONE, NO, NO, NEVER, "tells where work moved pages")         \
    /* managed memory */                                                                                               \
    GM_ROW_V2(X, MemAdvise, 8000, 12020, HOOK, NOTICES, NONE, NO, NO, CALL, "moves pages of kernels")                  \
    GM_ROWS(X, MemPrefetchAsync, , 8000, _ptsz, HOOK, SUBMITS, 3, WORK, NO, LAUNCH, "behind its stream")               \
    GM_ROWS(X, MemPrefetchAsync, _v2, 12020, _ptsz, HOOK, SUBMITS, 4, WORK, NO, LAUNCH, "behind its stream")           \
    GM_ROWS(X, MemPrefetchBatchAsync, , 13000, _ptsz, JUMP, SUBMITS, 7, WORK, NO, LAUNCH, "behind its stream")         \
    GM_ROWS(X, MemDiscardBatchAsync, , 13000, _ptsz, JUMP, SUBMITS, 4, WORK, NO, LAUNCH, "behind its stream")          \
    GM_ROWS(X, MemDiscardAndPrefetchBatchAsync, , 13000, _ptsz,                                                        \
        JUMP, SUBMITS, 7, WORK, NO, LAUNCH, "behind its stream")                                                       \
    /* arrays */                                                                                                       \
    GM_ROW(X, ArrayCreate, , 2000, JUMP, NOTICES, NONE, NO, NO, CALL, "sizes of 32 bits, unrecorded")                  \
    GM_ROW(X, ArrayCreate, _v2, 3020, HOOK, MEMORY, NONE, NO, NO, CALL, "recorded")                                    \
    GM_ROW(X, Array3DCreate, , 2000, JUMP, NOTICES, NONE, NO, NO, CALL, "sizes of 32 bits, unrecorded")                \
    GM_ROW(X, Array3DCreate, _v2, 3020, HOOK, MEMORY, NONE, NO, NO, CALL, "recorded")                                  \
    GM_ROW(X, MipmappedArrayCreate, , 5000, HOOK, MEMORY, NONE, NO, NO, CALL, "recorded")                              \
    GM_ROW(X, ArrayDestroy, , 2000, HOOK, NOTICES, NONE, NO, NO, NEVER, "frees memory of kernels")                     \
    GM_ROW(X, MipmappedArrayDestroy, , 5000, HOOK, NOTICES, NONE, NO, NO, NEVER, "frees memory of kernels")            \
    GM_ROW_V2(X, ArrayGetDescriptor, 2000, 3020, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the array")          \
    GM_ROW_V2(X, Array3DGetDescriptor, 2000, 3020, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the array")        \
    GM_ROW(X, ArrayGetPlane, , 11020, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the array")                     \
    GM_ROW(X, ArrayGetMemoryRequirements, , 11060, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the array")        \
    GM_ROW(X, ArrayGetSparseProperties, , 11010, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the array")          \
    GM_ROW(X, MipmappedArrayGetLevel, , 5000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the array")             \
    GM_ROW(X, MipmappedArrayGetMemoryRequirements, , 11060,                                                            \
        JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the array")                                                   \
    GM_ROW(X, MipmappedArrayGetSparseProperties, , 11010, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the array") \
    GM_ROWS(X, MemMapArrayAsync, , 11010, _ptsz, JUMP, SUBMITS, 2, WORK, NO, LAUNCH, "behind its stream")              \
    /* virtual memory */                                                                                               \
    GM_ROW(X, MemAddressReserve, , 10020, HOOK, MEMORY, NONE, NO, NO, NEVER, "recorded")                               \
    GM_ROW(X, MemCreate, , 10020, HOOK, MEMORY, NONE, NO, NO, CALL, "recorded")                                        \
    GM_ROW(X, MemMap, , 10020, HOOK, MEMORY, NONE, NO, NO, CALL, "recorded")                                           \
    GM_ROW(X, MemAddressFree, , 10020, HOOK, NOTICES, NONE, NO, NO, NEVER, "frees memory of kernels")                  \
    GM_ROW(X, MemRelease, , 10020, HOOK, NOTICES, NONE, NO, NO, NEVER, "frees memory of kernels")                      \
    GM_ROW(X, MemUnmap, , 10020, HOOK, NOTICES, NONE, NO, NO, NEVER, "does not wait for kernels")                      \
    GM_ROW(X, MemSetAccess, , 10020, HOOK, NOTICES, NONE, NO, NO, CALL, "does not wait for kernels")                   \
    GM_ROW(X, MemGetAccess, , 10020, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")                    \
    GM_ROW(X, MemGetAllocationGranularity, , 10020, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")      \
    GM_ROW(X, MemGetAllocationPropertiesFromHandle, , 10020,                                                           \
        JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the memory")                                                  \
    GM_ROW(X, MemRetainAllocationHandle, , 11000, HOOK, BLIND, NONE, NO, NO, NEVER, "a constant of the memory")        \
    /* pools */                                                                                                        \
    GM_ROW(X, MemPoolCreate, , 11020, HOOK, MEMORY, NONE, NO, NO, CALL, "recorded, may be of host")                    \
    GM_ROW(X, MemPoolDestroy, , 11020, HOOK, NOTICES, NONE, NO, NO, NEVER, "finished frees give memory back")          \
    GM_ROW(X, MemPoolTrimTo, , 11020, HOOK, NOTICES, NONE, NO, NO, NEVER, "finished frees give memory back")           \
    GM_ROW(X, MemPoolGetAttribute, , 11020, JUMP, NOTICES, NONE, NO, NO, NEVER, "counts what frees gave back")         \
    GM_ROW(X, MemPoolSetAttribute, , 11020, JUMP, NOTICES, NONE, NO, NO, NEVER, "may give memory back")                \
    GM_ROW(X, MemPoolSetAccess, , 11020, JUMP, SHARES, NONE, NO, PEERS, CALL, "another device sees memory")            \
    GM_ROW(X, MemPoolGetAccess, , 11020, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")                \
    GM_ROW(X, DeviceGetDefaultMemPool, , 11020, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")         \
    GM_ROW(X, DeviceGetMemPool, , 11020, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")                \
    GM_ROW(X, DeviceSetMemPool, , 11020, HOOK, BLIND, NONE, NO, NO, NEVER, "a setting of later allocations")           \
    GM_ROW(X, MemSetMemPool, , 13000, HOOK, BLIND, NONE, NO, NO, NEVER, "a setting of later allocations")              \
    GM_ROW(X, MemGetDefaultMemPool, , 13000, HOOK, SHARES, NONE, NO, NO, NEVER, "may be of the host")                  \
    GM_ROW(X, MemGetMemPool, , 13000, HOOK, SHARES, NONE, NO, NO, NEVER, "may be of the host")                         \
    /* memory for other processes and devices */                                                                       \
    GM_ROW(X, IpcGetMemHandle, , 4010, HOOK, SHARES, NONE, NO, NO, NEVER, "another process sees memory")               \
    GM_ROW_V2(X, IpcOpenMemHandle, 4010, 11000, HOOK, SHARES, NONE, NO, NO, CALL, "another process sees memory")       \
    GM_ROW(X, IpcCloseMemHandle, , 4010, HOOK, NOTICES, NONE, NO, NO, NEVER, "unmaps memory of kernels")               \
    GM_ROW(X, IpcGetEventHandle, , 4010, JUMP, SHARES, NONE, NO, SHARED, NEVER, "another process sees events")         \
    GM_ROW(X, IpcOpenEventHandle, , 4010, HOOK, SHARES, NONE, NO, NO, CALL, "another process sees events")             \
    GM_ROW(X, MemExportToShareableHandle, , 10020, HOOK, SHARES, NONE, NO, NO, NEVER, "another process sees memory")   \
    GM_ROW(X, MemImportFromShareableHandle, , 10020, HOOK, SHARES, NONE, NO, NO, CALL, "another process sees memory")  \
    GM_ROW(X, MemPoolExportPointer, , 11020, HOOK, SHARES, NONE, NO, NO, NEVER, "another process sees memory")         \
    GM_ROW(X, MemPoolImportPointer, , 11020, HOOK, SHARES, NONE, NO, NO, CALL, "another process sees memory")          \
    GM_ROW(X, MemPoolExportToShareableHandle, , 11020,                                                                 \
        JUMP, SHARES, NONE, NO, SHARED, NEVER, "another process sees memory")                                          \
    GM_ROW(X, MemPoolImportFromShareableHandle, , 11020,                                                               \
        JUMP, SHARES, NONE, NO, SHARED, CALL, "another process sees memory")                                           \
    GM_ROW(X, MemGetHandleForAddressRange, , 11070, HOOK, SHARES, NONE, NO, NO, NEVER, "another driver sees memory")   \
    GM_ROW(X, MulticastCreate, , 12010, JUMP, BLIND, NONE, NO, NO, CALL, "no memory is bound yet")                     \
    GM_ROW(X, MulticastGetGranularity, , 12010, JUMP, BLIND, NONE, NO, NO, NEVER, "no memory is bound yet")            \
    GM_ROW(X, MulticastAddDevice, , 12010, JUMP, SHARES, NONE, NO, PEERS, CALL, "another device sees memory")          \
    GM_ROW(X, MulticastBindMem, , 12010, HOOK, SHARES, NONE, NO, NO, CALL, "another device sees memory")               \
    GM_ROW(X, MulticastBindMem, _v2, 13010, HOOK, SHARES, NONE, NO, NO, CALL, "another device sees memory")         \
    GM_ROW(X, MulticastBindAddr, , 12010, HOOK, SHARES, NONE, NO, NO, CALL, "another device sees memory")              \
    GM_ROW(X, MulticastBindAddr, _v2, 13010, HOOK, SHARES, NONE, NO, NO, CALL, "another device sees memory")        \
    GM_ROW(X, MulticastUnbind, , 12010, JUMP, NOTICES, NONE, NO, NO, NEVER, "unmaps memory of kernels")                \
    GM_ROW(X, LogicalEndpointIdReserve, , 13030, JUMP, BLIND, NONE, NO, NO, NEVER, "no memory is bound yet")           \
    GM_ROW(X, LogicalEndpointIdRelease, , 13030, JUMP, BLIND, NONE, NO, NO, NEVER, "no memory is bound yet")           \
    GM_ROW(X, LogicalEndpointGetLimits, , 13030, JUMP, BLIND, NONE, NO, NO, NEVER, "no memory is bound yet")           \
    GM_ROW(X, LogicalEndpointCreate, , 13030, JUMP, SHARES, NONE, NO, SHARED, CALL, "another device sees memory")      \
    GM_ROW(X, LogicalEndpointAddDevice, , 13030, JUMP, SHARES, NONE, NO, SHARED, CALL, "another device sees memory")   \
    GM_ROW(X, LogicalEndpointBindAddr, , 13030, JUMP, SHARES, NONE, NO, SHARED, CALL, "another device sees memory")    \
    GM_ROW(X, LogicalEndpointBindMem, , 13030, JUMP, SHARES, NONE, NO, SHARED, CALL, "another device sees memory")     \
    GM_ROW(X, LogicalEndpointExport, , 13030, JUMP, SHARES, NONE, NO, SHARED, NEVER, "another device sees memory")     \
    GM_ROW(X, LogicalEndpointImport, , 13030, JUMP, SHARES, NONE, NO, SHARED, CALL, "another device sees memory")      \
    GM_ROW(X, LogicalEndpointUnbind, , 13030, JUMP, NOTICES, NONE, NO, NO, NEVER, "unmaps memory of others")           \
    GM_ROW(X, LogicalEndpointDestroy, , 13030, JUMP, NOTICES, NONE, NO, NO, NEVER, "unmaps memory of others")          \
    GM_ROW(X, LogicalEndpointQuery, , 13030, JUMP, NOTICES, NONE, NO, NO, NEVER, "a state that others change")         \
    GM_ROWS(X, FabricCpyBatchAsync, , 13050, _ptsz,                                                                    \
        JUMP, SHARES, 3, VISIBLE, SHARED, LAUNCH, "another device sees memory")                                        \
    /* copies */                                                                                                       \
    GM_ROWS(X, Memcpy, , 4000, _ptds, JUMP, SUBMITS, DEFAULT, WAITED, NO, LAUNCH, "behind the default stream")         \
    GM_ROWS(X, MemcpyPeer, , 4000, _ptds, JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream") \
    GM_ROWS_V2(X, MemcpyHtoD, 2000, 3020, _ptds,                                                                       \
        JUMP, SUBMITS, DEFAULT, WAITED, NO, LAUNCH, "behind the default stream")                                       \
    GM_ROWS_V2(X, MemcpyDtoH, 2000, 3020, _ptds,                                                                       \
        JUMP, SUBMITS, DEFAULT, WAITED, NO, LAUNCH, "behind the default stream")                                       \
    GM_ROWS_V2(X, MemcpyHtoA, 2000, 3020, _ptds,                                                                       \
        JUMP, SUBMITS, DEFAULT, WAITED, NO, LAUNCH, "behind the default stream")                                       \
    GM_ROWS_V2(X, MemcpyAtoH, 2000, 3020, _ptds,                                                                       \
        JUMP, SUBMITS, DEFAULT, WAITED, NO, LAUNCH, "behind the default stream")                                       \
    GM_ROWS_V2(X, MemcpyDtoD, 2000, 3020, _ptds,                                                                       \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream")                                   \
    GM_ROWS_V2(X, MemcpyDtoA, 2000, 3020, _ptds,                                                                       \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream")                                   \
    GM_ROWS_V2(X, MemcpyAtoD, 2000, 3020, _ptds,                                                                       \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream")                                   \
    GM_ROWS_V2(X, MemcpyAtoA, 2000, 3020, _ptds,                                                                       \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream")                                   \
    GM_ROWS_V2(X, Memcpy2D, 2000, 3020, _ptds,                                                                         \
        JUMP, SUBMITS, DEFAULT, WAITED, NO, LAUNCH, "behind the default stream")                                       \
    GM_ROWS_V2(X, Memcpy2DUnaligned, 2000, 3020, _ptds,                                                                \
        JUMP, SUBMITS, DEFAULT, WAITED, NO, LAUNCH, "behind the default stream")                                       \
    GM_ROWS_V2(X, Memcpy3D, 2000, 3020, _ptds,                                                                         \
        JUMP, SUBMITS, DEFAULT, WAITED, NO, LAUNCH, "behind the default stream")                                       \
    GM_ROWS(X, Memcpy3DPeer, , 4000, _ptds, JUMP, SUBMITS, DEFAULT, WAITED, NO, LAUNCH, "behind the default stream")   \
    GM_ROWS(X, MemcpyAsync, , 4000, _ptsz, JUMP, SUBMITS, 3, COPY, NO, LAUNCH, "behind its stream")                    \
    GM_ROWS(X, MemcpyPeerAsync, , 4000, _ptsz, JUMP, SUBMITS, 5, WORK, NO, LAUNCH, "behind its stream")                \
    GM_ROWS_V2(X, MemcpyHtoDAsync, 2000, 3020, _ptsz, JUMP, SUBMITS, 3, WORK, NO, LAUNCH, "behind its stream")         \
    GM_ROWS_V2(X, MemcpyDtoHAsync, 2000, 3020, _ptsz, JUMP, SUBMITS, 3, COPY, NO, LAUNCH, "behind its stream")         \
    GM_ROWS_V2(X, MemcpyDtoDAsync, 3000, 3020, _ptsz, JUMP, SUBMITS, 3, WORK, NO, LAUNCH, "behind its stream")         \
    GM_ROWS_V2(X, MemcpyHtoAAsync, 2000, 3020, _ptsz, JUMP, SUBMITS, 4, WORK, NO, LAUNCH, "behind its stream")         \
    GM_ROWS_V2(X, MemcpyAtoHAsync, 2000, 3020, _ptsz, JUMP, SUBMITS, 4, COPY, NO, LAUNCH, "behind its stream")         \
    GM_ROW(X, Memcpy2DAsync, , 2000, JUMP, SUBMITS, 1, WORK, NO, LAUNCH, "behind its stream")                          \
    GM_ROWS(X, Memcpy2DAsync, _v2, 3020, _ptsz, JUMP, SUBMITS, 1, COPY_2D, NO, LAUNCH, "behind its stream")            \
    GM_ROW(X, Memcpy3DAsync, , 2000, JUMP, SUBMITS, 1, WORK, NO, LAUNCH, "behind its stream")                          \
    GM_ROWS(X, Memcpy3DAsync, _v2, 3020, _ptsz, JUMP, SUBMITS, 1, COPY_3D, NO, LAUNCH, "behind its stream")            \
    GM_ROWS(X, Memcpy3DPeerAsync, , 4000, _ptsz, JUMP, SUBMITS, 1, COPY_3D_PEER, NO, LAUNCH, "behind its stream")      \
    GM_ROWS(X, MemcpyBatchAsync, , 12080, _ptsz,                                                                       \
        JUMP, SHARES, 8, VISIBLE, HOST_MEMORY, LAUNCH, "host memory, maybe out of order")                              \
    GM_ROWS(X, MemcpyBatchAsync, _v2, 13000, _ptsz,                                                                    \
        JUMP, SHARES, 7, VISIBLE, HOST_MEMORY, LAUNCH, "host memory, maybe out of order")                              \
    GM_ROWS(X, Memcpy3DBatchAsync, , 12080, _ptsz,                                                                     \
        JUMP, SHARES, 4, VISIBLE, HOST_MEMORY, LAUNCH, "host memory, maybe out of order")                              \
    GM_ROWS(X, Memcpy3DBatchAsync, _v2, 13000, _ptsz,                                                                  \
        JUMP, SHARES, 3, VISIBLE, HOST_MEMORY, LAUNCH, "host memory, maybe out of order")                              \
    GM_ROWS(X, MemcpyWithAttributesAsync, , 13020, _ptsz,                                                              \
        JUMP, SHARES, 4, VISIBLE, HOST_MEMORY, LAUNCH, "host memory, maybe out of order")                              \
    GM_ROWS(X, Memcpy3DWithAttributesAsync, , 13020, _ptsz,                                                            \
        JUMP, SHARES, 2, VISIBLE, HOST_MEMORY, LAUNCH, "host memory, maybe out of order")                              \
    GM_ROWS(X, MemBatchDecompressAsync, , 12060, _ptsz, JUMP, SUBMITS, 4, WORK, NO, LAUNCH, "behind its stream")       \
    /* fills */                                                                                                        \
    GM_ROWS_V2(X, MemsetD8, 2000, 3020, _ptds,                                                                         \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream")                                   \
    GM_ROWS_V2(X, MemsetD16, 2000, 3020, _ptds,                                                                        \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream")                                   \
    GM_ROWS_V2(X, MemsetD32, 2000, 3020, _ptds,                                                                        \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream")                                   \
    GM_ROWS_V2(X, MemsetD2D8, 2000, 3020, _ptds,                                                                       \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream")                                   \
    GM_ROWS_V2(X, MemsetD2D16, 2000, 3020, _ptds,                                                                      \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream")                                   \
    GM_ROWS_V2(X, MemsetD2D32, 2000, 3020, _ptds,                                                                      \
        JUMP, SUBMITS, DEFAULT, FIXED_WORK, NO, LAUNCH, "behind the default stream")                                   \
    GM_ROWS(X, MemsetD8Async, , 3020, _ptsz, JUMP, SUBMITS, 3, WORK, NO, LAUNCH, "behind its stream")                  \
    GM_ROWS(X, MemsetD16Async, , 3020, _ptsz, JUMP, SUBMITS, 3, WORK, NO, LAUNCH, "behind its stream")                 \
    GM_ROWS(X, MemsetD32Async, , 3020, _ptsz, JUMP, SUBMITS, 3, WORK, NO, LAUNCH, "behind its stream")                 \
    GM_ROWS(X, MemsetD2D8Async, , 3020, _ptsz, JUMP, SUBMITS, 5, WORK, NO, LAUNCH, "behind its stream")                \
    GM_ROWS(X, MemsetD2D16Async, , 3020, _ptsz, JUMP, SUBMITS, 5, WORK, NO, LAUNCH, "behind its stream")               \
    GM_ROWS(X, MemsetD2D32Async, , 3020, _ptsz, JUMP, SUBMITS, 5, WORK, NO, LAUNCH, "behind its stream")               \
    /* graphs: making them runs nothing */                                                                             \
    GM_ROW(X, GraphCreate, , 10000, JUMP, BLIND, NONE, NO, NO, CALL, "the graph has not run")                          \
    GM_ROW(X, GraphClone, , 10000, JUMP, BLIND, NONE, NO, NO, CALL, "the graph has not run")                           \
    GM_ROW_V2(X, GraphAddDependencies, 10000, 12030, JUMP, BLIND, NONE, NO, NO, NEVER, "the graph has not run")        \
    GM_ROW_V2(X, GraphRemoveDependencies, 10000, 12030, JUMP, BLIND, NONE, NO, NO, NEVER, "the graph has not run")     \
    GM_ROW(X, GraphDestroyNode, , 10000, JUMP, BLIND, NONE, NO, NO, NEVER, "the graph has not run")                    \
    GM_ROW(X, GraphDestroy, , 10000, JUMP, BLIND, NONE, NO, NO, NEVER, "running instances keep their own")             \
    GM_ROW(X, GraphAddEmptyNode, , 10000, JUMP, BLIND, NONE, NO, NO, CALL, "the graph has not run")                    \
    GM_ROW_V2(X, GraphAddKernelNode, 10000, 12000, JUMP, BLIND, NONE, NO, NO, CALL, "the graph has not run")           \
    GM_ROW(X, GraphAddMemsetNode, , 10000, JUMP, BLIND, NONE, NO, NO, CALL, "the graph has not run")                   \
    GM_ROW(X, GraphAddChildGraphNode, , 10000, JUMP, BLIND, NONE, NO, NO, CALL, "the graph has not run")               \
    GM_ROW(X, GraphAddEventRecordNode, , 11010, JUMP, BLIND, NONE, NO, NO, CALL, "the graph has not run")              \
    GM_ROW(X, GraphAddEventWaitNode, , 11010, JUMP, BLIND, NONE, NO, NO, CALL, "the graph has not run")                \
    GM_ROW(X, GraphConditionalHandleCreate, , 12030, JUMP, BLIND, NONE, NO, NO, CALL, "the graph has not run")         \
    GM_ROW(X, GraphAddMemcpyNode, , 10000, JUMP, SHARES, NONE, COPY_NODE_4, NO, CALL, "an operand may be host memory") \
    GM_ROW(X, GraphAddMemAllocNode, , 11040, HOOK, MEMORY, NONE, NO, NO, CALL, "recorded")                             \
    GM_ROW(X, GraphAddMemFreeNode, , 11040, HOOK, MEMORY, NONE, NO, NO, CALL, "recorded")                              \
    GM_ROW(X, GraphAddHostNode, , 10000, JUMP, SHARES, NONE, NO, HOST_FUNCTION, CALL, "the host runs in order")        \
    GM_ROW(X, GraphAddBatchMemOpNode, , 11070, JUMP, SHARES, NONE, NO, VALUES, CALL, "may wait for others")            \
    GM_ROW(X, GraphAddExternalSemaphoresWaitNode, , 11020,                                                             \
        JUMP, SHARES, NONE, NO, SEMAPHORES, CALL, "waits for other interfaces")                                        \
    GM_ROW(X, GraphAddExternalSemaphoresSignalNode, , 11020,                                                           \
        JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "other interfaces see the signal")                                     \
    GM_ROW_V2(X, GraphAddNode, 12020, 12030, HOOK, SHARES, NONE, NO, NO, CALL, "depends on the type")                  \
    GM_ROW(X, GraphAddNode, _v3, 13040, JUMP, SHARES, NONE, NO, HOST_FUNCTION, CALL, "depends on the type")            \
    GM_ROW_V2(X, GraphKernelNodeSetParams, 10000, 12000, JUMP, BLIND, NONE, NO, NO, CALL, "the graph has not run")     \
    GM_ROW(X, GraphKernelNodeSetAttribute, , 11000, JUMP, BLIND, NONE, NO, NO, NEVER, "the graph has not run")         \
    GM_ROW(X, GraphKernelNodeCopyAttributes, , 11000, JUMP, BLIND, NONE, NO, NO, NEVER, "the graph has not run")       \
    GM_ROW(X, GraphMemsetNodeSetParams, , 10000, JUMP, BLIND, NONE, NO, NO, CALL, "the graph has not run")             \
    GM_ROW(X, GraphEventRecordNodeSetEvent, , 11010, JUMP, BLIND, NONE, NO, NO, NEVER, "the graph has not run")        \
    GM_ROW(X, GraphEventWaitNodeSetEvent, , 11010, JUMP, BLIND, NONE, NO, NO, NEVER, "the graph has not run")          \
    GM_ROW(X, GraphMemcpyNodeSetParams, , 10000,                                                                       \
        JUMP, SHARES, NONE, COPY_NODE_1, NO, CALL, "an operand may be host memory")                                    \
    GM_ROW(X, GraphHostNodeSetParams, , 10000, JUMP, SHARES, NONE, NO, HOST_FUNCTION, NEVER, "the host runs in order") \
    GM_ROW(X, GraphBatchMemOpNodeSetParams, , 11070, JUMP, SHARES, NONE, NO, VALUES, NEVER, "may wait for others")     \
    GM_ROW(X, GraphExternalSemaphoresWaitNodeSetParams, , 11020,                                                       \
        JUMP, SHARES, NONE, NO, SEMAPHORES, NEVER, "waits for other interfaces")                                       \
    GM_ROW(X, GraphExternalSemaphoresSignalNodeSetParams, , 11020,                                                     \
        JUMP, SHARES, NONE, NO, EXTERNAL, NEVER, "other interfaces see the signal")                                    \
    GM_ROW_V2(X, GraphNodeSetParams, 12020, 13040, JUMP, SHARES, NONE, NODE_1, NO, CALL, "depends on the type")        \
    GM_ROW(X, GraphGetId, , 13010, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")                            \
    GM_ROW(X, GraphGetNodes, , 10000, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")                         \
    GM_ROW(X, GraphGetRootNodes, , 10000, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")                     \
    GM_ROW_V2(X, GraphGetEdges, 10000, 12030, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")                 \
    GM_ROW(X, GraphNodeFindInClone, , 10000, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")                  \
    GM_ROW(X, GraphNodeGetContainingGraph, , 13010, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")           \
    GM_ROW_V2(X, GraphNodeGetDependencies, 10000, 12030, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")      \
    GM_ROW_V2(X, GraphNodeGetDependentNodes, 10000, 12030, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")    \
    GM_ROW(X, GraphNodeGetLocalId, , 13010, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")                   \
    GM_ROW(X, GraphNodeGetToolsId, , 13010, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")                   \
    GM_ROW(X, GraphNodeGetType, , 10000, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")                      \
    GM_ROW(X, GraphNodeGetParams, , 13020, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")                    \
    GM_ROW_V2(X, GraphKernelNodeGetParams, 10000, 12000, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")      \
    GM_ROW(X, GraphKernelNodeGetAttribute, , 11000, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")           \
    GM_ROW(X, GraphMemcpyNodeGetParams, , 10000, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")              \
    GM_ROW(X, GraphMemsetNodeGetParams, , 10000, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")              \
    GM_ROW(X, GraphMemAllocNodeGetParams, , 11040, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")            \
    GM_ROW(X, GraphMemFreeNodeGetParams, , 11040, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")             \
    GM_ROW(X, GraphHostNodeGetParams, , 10000, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")                \
    GM_ROW(X, GraphBatchMemOpNodeGetParams, , 11070, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")          \
    GM_ROW(X, GraphChildGraphNodeGetGraph, , 10000, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")           \
    GM_ROW(X, GraphEventRecordNodeGetEvent, , 11010, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")          \
    GM_ROW(X, GraphEventWaitNodeGetEvent, , 11010, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")            \
    GM_ROW(X, GraphExternalSemaphoresWaitNodeGetParams, , 11020,                                                       \
        JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")                                                       \
    GM_ROW(X, GraphExternalSemaphoresSignalNodeGetParams, , 11020,                                                     \
        JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the graph")                                                       \
    GM_ROW(X, GraphDebugDotPrint, , 11030, JUMP, BLIND, NONE, NO, NO, NEVER, "writes facts of the graph")              \
    GM_ROW(X, UserObjectCreate, , 11030, JUMP, SHARES, NONE, NO, HOST_FUNCTION, NEVER, "a finished graph calls host")  \
    GM_ROW(X, UserObjectRetain, , 11030, JUMP, BLIND, NONE, NO, NO, NEVER, "the making was noted")                     \
    GM_ROW(X, UserObjectRelease, , 11030, JUMP, BLIND, NONE, NO, NO, NEVER, "the making was noted")                    \
    GM_ROW(X, GraphRetainUserObject, , 11030, JUMP, BLIND, NONE, NO, NO, NEVER, "the making was noted")                \
    GM_ROW(X, GraphReleaseUserObject, , 11030, JUMP, BLIND, NONE, NO, NO, NEVER, "the making was noted")               \
    /* graphs: instances */                                                                                            \
    GM_ROW_V2(X, GraphInstantiate, 10000, 11000, HOOK, NOTICES, NONE, NO, NO, CALL, "maps memory, may upload")         \
    GM_ROW(X, GraphInstantiateWithFlags, , 11040, HOOK, NOTICES, NONE, NO, NO, CALL, "maps memory, may upload")        \
    GM_ROWS(X, GraphInstantiateWithParams, , 12000, _ptsz,                                                             \
        HOOK, NOTICES, NONE, NO, NO, CALL, "maps memory, may upload")                                                  \
    GM_ROWS(X, GraphUpload, , 11010, _ptsz, HOOK, SUBMITS, 1, NO, NO, LAUNCH, "behind its stream")                     \
    GM_ROWS(X, GraphLaunch, , 10000, _ptsz, JUMP, SUBMITS, 1, KERNEL, NO, LAUNCH, "behind its stream")                 \
    GM_ROW_V2(X, GraphExecUpdate, 10020, 12000,                                                                        \
        JUMP, NOTICES, NONE, NO, NO, ONCE, "a failed update leaves it undefined")                                      \
    GM_ROW(X, GraphExecDestroy, , 10000, JUMP, NOTICES, NONE, NO, NO, NEVER, "frees memory of runs")                   \
    GM_ROW(X, GraphExecGetId, , 13010, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the instance")                     \
    GM_ROW(X, GraphExecGetFlags, , 12000, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the instance")                  \
    GM_ROW(X, GraphNodeGetEnabled, , 11060, JUMP, BLIND, NONE, NO, NO, NEVER, "a fact of the instance")                \
    GM_ROW(X, GraphNodeSetEnabled, , 11060, HOOK, BLIND, NONE, NO, NO, NEVER, "a setting of later launches")           \
    GM_ROW_V2(X, GraphExecKernelNodeSetParams, 10010, 12000,                                                           \
        HOOK, BLIND, NONE, NO, NO, CALL, "a setting of later launches")                                                \
    GM_ROW(X, GraphExecMemsetNodeSetParams, , 10020, JUMP, BLIND, NONE, NO, NO, CALL, "a setting of later launches")   \
    GM_ROW(X, GraphExecChildGraphNodeSetParams, , 11010,                                                               \
        HOOK, BLIND, NONE, NO, NO, ONCE, "for later launches; undefined if it fails")                                  \
    GM_ROW(X, GraphExecEventRecordNodeSetEvent, , 11010,                                                               \
        JUMP, BLIND, NONE, NO, NO, NEVER, "a setting of later launches")                                               \
    GM_ROW(X, GraphExecEventWaitNodeSetEvent, , 11010,                                                                 \
        JUMP, BLIND, NONE, NO, NO, NEVER, "a setting of later launches")                                               \
    GM_ROW(X, GraphExecMemcpyNodeSetParams, , 10020,                                                                   \
        JUMP, SHARES, NONE, COPY_NODE_2, NO, CALL, "an operand may be host memory")                                    \
    GM_ROW(X, GraphExecHostNodeSetParams, , 10020,                                                                     \
        JUMP, SHARES, NONE, NO, HOST_FUNCTION, NEVER, "the host runs in order")                                        \
    GM_ROW(X, GraphExecBatchMemOpNodeSetParams, , 11070, JUMP, SHARES, NONE, NO, VALUES, NEVER, "may wait for others") \
    GM_ROW(X, GraphExecExternalSemaphoresWaitNodeSetParams, , 11020,                                                   \
        JUMP, SHARES, NONE, NO, SEMAPHORES, NEVER, "waits for other interfaces")                                       \
    GM_ROW(X, GraphExecExternalSemaphoresSignalNodeSetParams, , 11020,                                                 \
        JUMP, SHARES, NONE, NO, EXTERNAL, NEVER, "other interfaces see the signal")                                    \
    GM_ROW(X, GraphExecNodeSetParams, , 12020,                                                                         \
        JUMP, SHARES, NONE, NODE_2, NO, ONCE, "by its type; undefined if it fails")                                    \
    GM_ROW(X, DeviceGetGraphMemAttribute, , 11040,                                                                     \
        JUMP, NOTICES, NONE, NO, NO, NEVER, "counts memory of finished runs")                                          \
    GM_ROW(X, DeviceSetGraphMemAttribute, , 11040,                                                                     \
        JUMP, NOTICES, NONE, NO, NO, NEVER, "counts memory of finished runs")                                          \
    GM_ROW(X, DeviceGraphMemTrim, , 11040, JUMP, NOTICES, NONE, NO, NO, NEVER, "trims memory of finished runs")        \
    /* other interfaces of the device */                                                                               \
    GM_ROW(X, ImportExternalMemory, , 10000, JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "other interfaces see memory")    \
    GM_ROW(X, ImportExternalSemaphore, , 10000, JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "other interfaces see memory") \
    GM_ROW(X, ExternalMemoryGetMappedBuffer, , 10000,                                                                  \
        JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "other interfaces see memory")                                         \
    GM_ROW(X, ExternalMemoryGetMappedMipmappedArray, , 10000,                                                          \
        JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "other interfaces see memory")                                         \
    GM_ROW(X, DestroyExternalMemory, , 10000, JUMP, NOTICES, NONE, NO, NO, NEVER, "unmaps memory of kernels")          \
    GM_ROW(X, DestroyExternalSemaphore, , 10000, JUMP, NOTICES, NONE, NO, NO, NEVER, "unmaps memory of kernels")       \
    GM_ROWS(X, SignalExternalSemaphoresAsync, , 10000, _ptsz,                                                          \
        JUMP, SUBMITS, 3, SIGNAL, NO, NEVER, "behind its stream, import noted")                                        \
    GM_ROWS(X, WaitExternalSemaphoresAsync, , 10000, _ptsz,                                                            \
        JUMP, SHARES, 3, AWAIT, SEMAPHORES, NEVER, "waits for other interfaces")                                       \
    GM_ROWS(X, GraphicsMapResources, , 3000, _ptsz,                                                                    \
        JUMP, SHARES, 2, NO, EXTERNAL, LAUNCH, "other interfaces see memory")                                          \
    GM_ROWS(X, GraphicsUnmapResources, , 3000, _ptsz,                                                                  \
        JUMP, SHARES, 2, NO, EXTERNAL, NEVER, "other interfaces see memory")                                           \
    GM_ROW_V2(X, GraphicsResourceGetMappedPointer, 3000, 3020,                                                         \
        JUMP, BLIND, NONE, NO, NO, NEVER, "the mapping was noted")                                                     \
    GM_ROW(X, GraphicsResourceGetMappedMipmappedArray, , 5000,                                                         \
        JUMP, BLIND, NONE, NO, NO, NEVER, "the mapping was noted")                                                     \
    GM_ROW(X, GraphicsSubResourceGetMappedArray, , 3000, JUMP, BLIND, NONE, NO, NO, NEVER, "the mapping was noted")    \
    GM_ROW(X, GraphicsResourceGetMappedEglFrame, , 7000, JUMP, BLIND, NONE, NO, NO, NEVER, "the mapping was noted")    \
    GM_ROW_V2(X, GraphicsResourceSetMapFlags, 3000, 6050,                                                              \
        JUMP, BLIND, NONE, NO, NO, NEVER, "a setting of later mappings")                                               \
    GM_ROW(X, GraphicsUnregisterResource, , 3000, JUMP, NOTICES, NONE, NO, NO, NEVER, "unmaps memory of kernels")      \
    /* OpenGL */                                                                                                       \
    GM_ROW_V2(X, GLCtxCreate, 2000, 3020, JUMP, SHARES, NONE, NO, CONTEXTS, CALL, "may be a second context")           \
    GM_ROW(X, GLInit, , 2000, JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "graphics will see memory")                      \
    GM_ROW_V2(X, GLGetDevices, 4010, 6050, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")               \
    GM_ROW(X, GraphicsGLRegisterBuffer, , 3000, JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "graphics will see memory")    \
    GM_ROW(X, GraphicsGLRegisterImage, , 3000, JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "graphics will see memory")     \
    GM_ROW(X, GLRegisterBufferObject, , 2000, JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "graphics will see memory")      \
    GM_ROWS_V2(X, GLMapBufferObject, 2000, 3020, _ptds,                                                                \
        JUMP, SHARES, DEFAULT, NO, EXTERNAL, LAUNCH, "graphics see memory")                                            \
    GM_ROWS_V2(X, GLMapBufferObjectAsync, 2030, 3020, _ptsz,                                                           \
        JUMP, SHARES, 3, NO, EXTERNAL, LAUNCH, "graphics see memory")                                                  \
    GM_ROW(X, GLUnmapBufferObject, , 2000, JUMP, SHARES, DEFAULT, NO, EXTERNAL, NEVER, "graphics see memory")          \
    GM_ROW(X, GLUnmapBufferObjectAsync, , 2030, JUMP, SHARES, 1, NO, EXTERNAL, NEVER, "graphics see memory")           \
    GM_ROW(X, GLSetBufferObjectMapFlags, , 2030, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting of later mappings")      \
    GM_ROW(X, GLUnregisterBufferObject, , 2000, JUMP, NOTICES, NONE, NO, NO, NEVER, "unmaps memory of kernels")        \
    /* EGL */                                                                                                          \
    GM_ROW(X, GraphicsEGLRegisterImage, , 7000,                                                                        \
        JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "graphics see memory and events")                                      \
    GM_ROW(X, EventCreateFromEGLSync, , 9000,                                                                          \
        JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "graphics see memory and events")                                      \
    GM_ROW(X, EGLStreamConsumerConnect, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "frames go to others")         \
    GM_ROW(X, EGLStreamConsumerConnectWithFlags, , 8000,                                                               \
        JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "frames go to others")                                                 \
    GM_ROW(X, EGLStreamConsumerDisconnect, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, NEVER, "frames go to others")     \
    GM_ROW(X, EGLStreamConsumerAcquireFrame, , 7000,                                                                   \
        JUMP, SHARES, NONE, NO, EXTERNAL, ONCE, "frames go to others, each once")                                      \
    GM_ROW(X, EGLStreamConsumerReleaseFrame, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, NEVER, "frames go to others")   \
    GM_ROW(X, EGLStreamProducerConnect, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "frames go to others")         \
    GM_ROW(X, EGLStreamProducerDisconnect, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, NEVER, "frames go to others")     \
    GM_ROW(X, EGLStreamProducerPresentFrame, , 7000,                                                                   \
        JUMP, SHARES, NONE, NO, EXTERNAL, ONCE, "frames go to others, each once")                                      \
    GM_ROW(X, EGLStreamProducerReturnFrame, , 7000, JUMP, SHARES, NONE, NO, EXTERNAL, NEVER, "frames go to others")    \
    /* VDPAU */                                                                                                        \
    GM_ROW_V2(X, VDPAUCtxCreate, 3010, 3020, JUMP, SHARES, NONE, NO, CONTEXTS, CALL, "may be a second context")        \
    GM_ROW(X, VDPAUGetDevice, , 3010, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the device")                    \
    GM_ROW(X, GraphicsVDPAURegisterVideoSurface, , 3010,                                                               \
        JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "graphics will see memory")                                            \
    GM_ROW(X, GraphicsVDPAURegisterOutputSurface, , 3010,                                                              \
        JUMP, SHARES, NONE, NO, EXTERNAL, CALL, "graphics will see memory")                                            \
    /* textures, surfaces, tensor maps */                                                                              \
    GM_ROW(X, TexObjectCreate, , 5000, JUMP, BLIND, NONE, NO, NO, CALL, "no kernel uses it yet")                       \
    GM_ROW(X, SurfObjectCreate, , 5000, JUMP, BLIND, NONE, NO, NO, CALL, "no kernel uses it yet")                      \
    GM_ROW(X, TexObjectDestroy, , 5000, JUMP, NOTICES, NONE, NO, NO, NEVER, "frees a descriptor of kernels")           \
    GM_ROW(X, SurfObjectDestroy, , 5000, JUMP, NOTICES, NONE, NO, NO, NEVER, "frees a descriptor of kernels")          \
    GM_ROW(X, TexObjectGetResourceDesc, , 5000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the object")          \
    GM_ROW(X, TexObjectGetResourceViewDesc, , 5000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the object")      \
    GM_ROW(X, TexObjectGetTextureDesc, , 5000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the object")           \
    GM_ROW(X, SurfObjectGetResourceDesc, , 5000, JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the object")         \
    GM_ROW(X, TexRefCreate, , 2000, JUMP, BLIND, NONE, NO, NO, CALL, "no kernel uses it yet")                          \
    GM_ROW(X, TexRefDestroy, , 2000, JUMP, NOTICES, NONE, NO, NO, NEVER, "frees a descriptor of kernels")              \
    GM_ROW_V2(X, TexRefSetAddress, 2000, 3020, JUMP, NOTICES, NONE, NO, NO, CALL, "changes a descriptor of kernels")   \
    GM_ROW_V2(X, TexRefSetAddress2D, 2020, 3020, JUMP, NOTICES, NONE, NO, NO, CALL, "changes a descriptor of kernels") \
    GM_ROW(X, TexRefSetAddress2D, _v3, 4010, JUMP, NOTICES, NONE, NO, NO, CALL, "changes a descriptor of kernels")     \
    GM_ROW(X, TexRefSetArray, , 2000, JUMP, NOTICES, NONE, NO, NO, CALL, "changes a descriptor of kernels")            \
    GM_ROW(X, TexRefSetMipmappedArray, , 5000, JUMP, NOTICES, NONE, NO, NO, CALL, "changes a descriptor of kernels")   \
    GM_ROW(X, TexRefSetAddressMode, , 2000, JUMP, NOTICES, NONE, NO, NO, NEVER, "changes a descriptor of kernels")     \
    GM_ROW(X, TexRefSetBorderColor, , 8000, JUMP, NOTICES, NONE, NO, NO, NEVER, "changes a descriptor of kernels")     \
    GM_ROW(X, TexRefSetFilterMode, , 2000, JUMP, NOTICES, NONE, NO, NO, NEVER, "changes a descriptor of kernels")      \
    GM_ROW(X, TexRefSetFlags, , 2000, JUMP, NOTICES, NONE, NO, NO, NEVER, "changes a descriptor of kernels")           \
    GM_ROW(X, TexRefSetFormat, , 2000, JUMP, NOTICES, NONE, NO, NO, NEVER, "changes a descriptor of kernels")          \
    GM_ROW(X, TexRefSetMaxAnisotropy, , 5000, JUMP, NOTICES, NONE, NO, NO, NEVER, "changes a descriptor of kernels")   \
    GM_ROW(X, TexRefSetMipmapFilterMode, , 5000,                                                                       \
        JUMP, NOTICES, NONE, NO, NO, NEVER, "changes a descriptor of kernels")                                         \
    GM_ROW(X, TexRefSetMipmapLevelBias, , 5000, JUMP, NOTICES, NONE, NO, NO, NEVER, "changes a descriptor of kernels") \
    GM_ROW(X, TexRefSetMipmapLevelClamp, , 5000,                                                                       \
        JUMP, NOTICES, NONE, NO, NO, NEVER, "changes a descriptor of kernels")                                         \
    GM_ROW(X, SurfRefSetArray, , 3000, JUMP, NOTICES, NONE, NO, NO, CALL, "changes a descriptor of kernels")           \
    GM_ROW_V2(X, TexRefGetAddress, 2000, 3020, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")          \
    GM_ROW(X, TexRefGetArray, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")                   \
    GM_ROW(X, TexRefGetMipmappedArray, , 5000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")          \
    GM_ROW(X, TexRefGetAddressMode, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")             \
    GM_ROW(X, TexRefGetBorderColor, , 8000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")             \
    GM_ROW(X, TexRefGetFilterMode, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")              \
    GM_ROW(X, TexRefGetFlags, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")                   \
    GM_ROW(X, TexRefGetFormat, , 2000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")                  \
    GM_ROW(X, TexRefGetMaxAnisotropy, , 5000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")           \
    GM_ROW(X, TexRefGetMipmapFilterMode, , 5000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")        \
    GM_ROW(X, TexRefGetMipmapLevelBias, , 5000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")         \
    GM_ROW(X, TexRefGetMipmapLevelClamp, , 5000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")        \
    GM_ROW(X, SurfRefGetArray, , 3000, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")                  \
    GM_ROW(X, TensorMapEncodeTiled, , 12000, JUMP, BLIND, NONE, NO, NO, NEVER, "writes a struct of host")              \
    GM_ROW(X, TensorMapEncodeIm2col, , 12000, JUMP, BLIND, NONE, NO, NO, NEVER, "writes a struct of host")             \
    GM_ROW(X, TensorMapEncodeIm2colWide, , 12080, JUMP, BLIND, NONE, NO, NO, NEVER, "writes a struct of host")         \
    GM_ROW(X, TensorMapReplaceAddress, , 12000, JUMP, BLIND, NONE, NO, NO, NEVER, "writes a struct of host")           \
    GM_ROW(X, TensorMapSetAllocationClass, , 13050, JUMP, BLIND, NONE, NO, NO, NEVER, "writes a struct of host")       \
    /* tools: profiles, logs, dumps, checkpoints */                                                                    \
    GM_ROW(X, ProfilerInitialize, , 4000, JUMP, NOTICES, NONE, NO, NO, CALL, "bounds what is profiled")                \
    GM_ROW(X, ProfilerStart, , 4000, JUMP, NOTICES, NONE, NO, NO, CALL, "bounds what is profiled")                     \
    GM_ROW(X, ProfilerStop, , 4000, JUMP, NOTICES, NONE, NO, NO, NEVER, "bounds what is profiled")                     \
    GM_ROW(X, LogsCurrent, , 12090, JUMP, NOTICES, NONE, NO, NO, NEVER, "shows errors of work")                        \
    GM_ROW(X, LogsDumpToFile, , 12090, JUMP, NOTICES, NONE, NO, NO, NEVER, "shows errors of work")                     \
    GM_ROW(X, LogsDumpToMemory, , 12090, JUMP, NOTICES, NONE, NO, NO, NEVER, "shows errors of work")                   \
    GM_ROW(X, LogsRegisterCallback, , 12090, JUMP, NOTICES, NONE, NO, NO, NEVER, "errors of work call host")           \
    GM_ROW(X, LogsUnregisterCallback, , 12090, JUMP, NOTICES, NONE, NO, NO, NEVER, "errors of work call host")         \
    GM_ROW(X, CoredumpGetAttribute, , 12010, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")            \
    GM_ROW(X, CoredumpGetAttributeGlobal, , 12010, JUMP, BLIND, NONE, NO, NO, NEVER, "a setting that calls made")      \
    GM_ROW(X, CoredumpSetAttribute, , 12010, JUMP, NOTICES, NONE, NO, NO, NEVER, "decides where faults are written")   \
    GM_ROW(X, CoredumpSetAttributeGlobal, , 12010,                                                                     \
        JUMP, NOTICES, NONE, NO, NO, NEVER, "decides where faults are written")                                        \
    GM_ROW(X, CoredumpRegisterStartCallback, , 13020, JUMP, NOTICES, NONE, NO, NO, NEVER, "faults of work call host")  \
    GM_ROW(X, CoredumpRegisterCompleteCallback, , 13020,                                                               \
        JUMP, NOTICES, NONE, NO, NO, NEVER, "faults of work call host")                                                \
    GM_ROW(X, CoredumpDeregisterStartCallback, , 13020,                                                                \
        JUMP, NOTICES, NONE, NO, NO, NEVER, "faults of work call host")                                                \
    GM_ROW(X, CoredumpDeregisterCompleteCallback, , 13020,                                                             \
        JUMP, NOTICES, NONE, NO, NO, NEVER, "faults of work call host")                                                \
    GM_ROW(X, CheckpointProcessGetRestoreThreadId, , 12080,                                                            \
        JUMP, BLIND, NONE, NO, NO, NEVER, "a constant of the process")                                                 \
    GM_ROW(X, CheckpointProcessGetState, , 12080, JUMP, NOTICES, NONE, NO, NO, NEVER, "stops or saves all work")       \
    GM_ROW(X, CheckpointProcessLock, , 12080, JUMP, NOTICES, NONE, NO, NO, NEVER, "stops or saves all work")           \
    GM_ROW(X, CheckpointProcessUnlock, , 12080, JUMP, NOTICES, NONE, NO, NO, NEVER, "stops or saves all work")         \
    GM_ROW(X, CheckpointProcessCheckpoint, , 12080, JUMP, NOTICES, NONE, NO, NO, NEVER, "stops or saves all work")     \
    GM_ROW(X, CheckpointProcessRestore, , 12080,                                                                       \
        JUMP, NOTICES, NONE, NO, NO, ONCE, "a stopped process makes no other call")                                    \
    GM_ROW(X, CheckpointOperationComplete, , 13040, JUMP, NOTICES, NONE, NO, NO, NEVER, "stops or saves all work")

#endif
