/* Frees one byte natively (native_wait.h). */
#include "shim/driver/native_wait.h"

#include "shim/driver/event.h"

/* Without device memory, a free of pinned memory waits alike. */
static gm_status free_natively(void) {
    CUdeviceptr block;
    void *pinned;
    if (gm_drv.mem_alloc(&block, 1) == CUDA_SUCCESS)
        return (gm_status)GM_TWICE(gm_drv.mem_free(block));
    if (gm_drv.mem_host_alloc(&pinned, 1, 0) == CUDA_SUCCESS)
        return (gm_status)GM_TWICE(gm_drv.mem_free_host(pinned));
    return (gm_status)gm_drv.ctx_synchronize();
}

gm_status gm_native_wait(const struct gm_context *context) {
    CUcontext popped;
    if (gm_context_life(context->handle, context->id) < 0)
        return GM_FENCE_PENDING;
    gm_status status = (gm_status)gm_drv.ctx_push(context->handle);
    if (!status) {
        CUstreamCaptureMode mode = gm_capture_relax();
        gm_cancel_hold();
        status = free_natively();
        gm_cancel_release();
        gm_capture_unrelax(mode);
        gm_drv.ctx_pop(&popped);
    }
    return gm_is_destroyed_error(status) ? GM_FENCE_PENDING : status;
}
