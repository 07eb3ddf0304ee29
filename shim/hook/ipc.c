/* Hooks of memory that is shared with other processes and devices: IPC handles, exported ranges, peer access. */
#include "shim/driver/free_sync.h"
#include "shim/grow/grow.h"
#include "shim/hook/guard.h"
#include "shim/hook/hook.h"
#include "shim/suspend/select.h"

static void seen_by_address(enum gm_call call, CUdeviceptr address) {
    gm_guard_spare(gm_call_name(call));
    gm_hook_pin(address);
    gm_grow_exported(address);
    gm_select_exported(address, gm_call_name(call));
}
#define UNLESS_FREED(made)                                \
    (gm_hook_is_freed(address) ? CUDA_ERROR_INVALID_VALUE \
                               : gm_guard_shared(made, gm_call_name(scope.request.call), address, GM_CALLER_HERE()))

EXPORTS(cuIpcGetMemHandle, (CUipcMemHandle * handle, CUdeviceptr address), (handle, address), GM_CALL_IPC_GET, 0,
        GM_SYNC_SHARED, seen_by_address(GM_CALL_IPC_GET, address), UNLESS_FREED, address)
EXPORTS(cuMemGetHandleForAddressRange,
        (void *handle, CUdeviceptr address, size_t size, CUmemRangeHandleType type, unsigned long long flags),
        (handle, address, size, type, flags), GM_CALL_EXPORT_RANGE, size, GM_SYNC_RANGE,
        seen_by_address(GM_CALL_EXPORT_RANGE, address), UNLESS_FREED, address)

#define IPC_OPEN(symbol)                                                                                      \
    CUresult CUDAAPI gm_hook_##symbol(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags) {          \
        struct gm_scope scope;                                                                                \
        size_t size = 0;                                                                                      \
        ENTER(symbol, address, handle, flags);                                                                \
        BEGIN(&scope, GM_CALL_IPC_OPEN, 0);                                                                   \
        gm_free_sync_note(GM_SYNC_SHARED);                                                                    \
        CUresult result = WITH_TRIM(gm_real.symbol(address, handle, flags));                                  \
        if (result == CUDA_SUCCESS && gm_real.cuMemGetAddressRange_v2(NULL, &size, *address) == CUDA_SUCCESS) \
            scope.request.size = size;                                                                        \
        gm_pipeline_saw_alloc(&scope, GM_KIND_IMPORTED, result ? 0 : *address, 0, result);                    \
        LEAVE(result);                                                                                        \
    }
IPC_OPEN(cuIpcOpenMemHandle)
IPC_OPEN(cuIpcOpenMemHandle_v2)

FREES(cuIpcCloseMemHandle, CUdeviceptr, GM_CALL_IPC_CLOSE, false)

/* A hook, because gm_again (entry.S) does not pass on a handle of 64 bytes. */
#define NOTES_SHARED gm_free_sync_note(GM_SYNC_SHARED)
PASSES(cuIpcOpenEventHandle, (CUevent * event, CUipcEventHandle handle), (event, handle), NOTES_SHARED, WITH_TRIM)

static CUdevice device_of(CUcontext context) {
    CUdevice device = -1;
    if (gm_drv.ctx_push(context) == CUDA_SUCCESS) {
        CUcontext popped;
        if (gm_drv.ctx_get_device(&device) != CUDA_SUCCESS)
            device = -1;
        gm_drv.ctx_pop(&popped);
    }
    return device;
}

/* From now on the current context may access the peer's memory, so a free there also waits for the work of this
 * context. */
CUresult CUDAAPI gm_hook_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    struct gm_scope scope;
    ENTER(cuCtxEnablePeerAccess, peer, flags);
    BEGIN(&scope, GM_CALL_NONE, 0);
    gm_free_sync_note(GM_SYNC_PEERS);
    CUresult result = WITH_TRIM(gm_real.cuCtxEnablePeerAccess(peer, flags));
    if (result == CUDA_SUCCESS) {
        struct gm_context accessor;
        if (gm_context_current(&accessor))
            gm_context_note_reach(device_of(peer), &accessor);
    }
    gm_pipeline_note(&scope, GM_ACT_PEER, (uint64_t)(uintptr_t)peer, result);
    LEAVE(result);
}

PASSES(cuCtxDisablePeerAccess, (CUcontext peer), (peer), NOTHING, MADE)
