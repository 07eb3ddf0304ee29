/* Quiesce by a fence where the driver can record a whole context, and by cuCtxSynchronize otherwise (quiesce.h). */
#include "shim/driver/quiesce.h"

#include "shim/base/file.h"
#include "shim/driver/fence.h"

enum { PAUSE_NS = 50000 };

/* With a fence it waits only for work that was already submitted, not for work that other threads submit meanwhile. */
static gm_status wait_own(const struct gm_context *context) {
    struct gm_fence fence = {0};
    CUstreamCaptureMode mode;
    if (!gm_capture_guard_enter(&mode))
        return GM_STREAM_CAPTURE;
    gm_status status = GM_NOT_SUPPORTED;
    struct gm_context peer;
    if (gm_drv.ctx_record_event && gm_context_reach(context->device, &peer, 1))
        status = gm_fence_record(&fence, context->handle, context->id, context->device);
    else if (gm_drv.ctx_record_event) /* other devices do not use the memory */
        status = gm_fence_record_owner(&fence, context, true);
    bool recorded = status == GM_OK;
    if (status == GM_NOT_SUPPORTED || status == GM_FENCE_PENDING) /* the context of a peer may be ending */
        status = (gm_status)gm_drv.ctx_synchronize();
    gm_capture_guard_leave(mode);
    /* gm_fence_wait only queries the work of other contexts, so it has to be repeated. */
    while (recorded && (status = gm_fence_wait(&fence)) == GM_FENCE_PENDING &&
           gm_context_life(context->handle, context->id) >= 0)
        gm_sleep(PAUSE_NS);
    gm_fence_discard(&fence);
    return status;
}

static gm_status wait_peer(int device) {
    CUcontext primary, popped;
    unsigned flags;
    int active = 0;
    if (gm_drv.primary_get_state(device, &flags, &active) != CUDA_SUCCESS || !active || !gm_drv.primary_release)
        return GM_OK;
    gm_status status = (gm_status)gm_drv.primary_retain(&primary, device);
    if (status)
        return status;
    status = (gm_status)gm_drv.ctx_push(primary);
    if (!status) {
        CUstreamCaptureMode mode;
        if (gm_capture_guard_enter(&mode)) {
            status = (gm_status)gm_drv.ctx_synchronize();
            gm_capture_guard_leave(mode);
        } else {
            status = GM_STREAM_CAPTURE;
        }
        gm_drv.ctx_pop(&popped);
    }
    gm_drv.primary_release(device);
    return status;
}

gm_status gm_quiesce(const struct gm_context *context, uint64_t peers) {
    gm_status status = wait_own(context);
    for (int device = 0; peers && !status; device++, peers >>= 1)
        if (peers & 1 && device != context->device)
            status = wait_peer(device);
    return status;
}
