/* Quiesce by a fence where the driver can record a whole context, and by cuCtxSynchronize otherwise (quiesce.h). */
#include "shim/driver/quiesce.h"

#include <sys/mman.h>

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
    if (gm_drv.ctx_record_event)
        status = gm_fence_record(&fence, context,
                                 gm_context_reach(context->device, &peer, 1) ? GM_FENCE_COPIES : GM_FENCE_DEVICE);
    bool recorded = status == GM_OK;
    if (status == GM_NOT_SUPPORTED || status == GM_FENCE_PENDING) /* the context of a peer may be ending */
        status = gm_drv.ctx_synchronize();
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
    gm_status status = gm_drv.primary_retain(&primary, device);
    if (status)
        return status;
    status = gm_drv.ctx_push(primary);
    if (!status) {
        CUstreamCaptureMode mode;
        if (gm_capture_guard_enter(&mode)) {
            status = gm_drv.ctx_synchronize();
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

/* For a device without a free byte. A page that stays registered is leaked. */
static gm_status wait_by_unregistering(void) {
    enum { PAGE_BYTES = 65536 }; /* a page of any kernel */
    void *page = gm_pages(PAGE_BYTES);
    gm_status status = page ? (gm_status)gm_drv.mem_host_register(page, PAGE_BYTES, 0) : GM_OUT_OF_MEMORY;
    bool registered = page && !status;
    if (registered)
        status = GM_TWICE(gm_drv.mem_host_unregister(page));
    if (page && !(registered && status))
        munmap(page, PAGE_BYTES);
    return status;
}

gm_status gm_wait_natively(CUcontext context) {
    CUcontext popped;
    CUdeviceptr block;
    gm_status status = gm_drv.ctx_push(context);
    if (status)
        return status;
    CUstreamCaptureMode mode = gm_capture_relax();
    gm_cancel_hold();
    status = gm_drv.mem_alloc(&block, 1);
    if (!status)
        status = GM_TWICE(gm_drv.mem_free(block));
    else if (status == GM_OUT_OF_MEMORY)
        status = wait_by_unregistering();
    gm_cancel_release();
    gm_capture_unrelax(mode);
    gm_drv.ctx_pop(&popped);
    return status;
}
