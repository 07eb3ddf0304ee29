/* Resource "pinned": page-locked host memory (cuMemHostAlloc) that every device accesses in place. cuMemFreeHost does
 * not wait for all work that may use the memory, so a free is deferred until that work is done (deferred_free.h). */
#include "shim/resource/block.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/deferred_free.h"
#include "shim/resource/pitch.h"
#include "shim/resource/rows.h"

static gm_status free_now(const struct gm_deferred_block *deferred) {
    CUcontext context = (CUcontext)(uintptr_t)deferred->context;
    bool pushed;
    if (gm_context_life(context, deferred->context_id) == GM_CONTEXT_DESTROYED) /* and the memory with it */
        return GM_OK;
    gm_status status = gm_context_enter(context, &pushed);
    if (status)
        return status;
    status = (gm_status)gm_drv.mem_free_host((void *)(uintptr_t)deferred->address);
    gm_context_leave(pushed);
    return status;
}

static struct gm_deferred_free deferred_frees = {.free_now = free_now};

static bool serves(const struct gm_request *request) {
    return gm_request_is_device(request) && request->size && request->context_id && !request->capturing;
}

static gm_status pinned_alloc(struct gm_resource *self, const struct gm_request *request,
                              const struct gm_decision *decision, struct gm_block *block) {
    struct gm_piece piece;
    CUstreamCaptureMode mode;
    void *memory;
    if (!serves(request))
        return GM_NOT_SUPPORTED;
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    if (request->call != GM_CALL_ALLOC_ASYNC) /* a deferred free may wait; a stream-ordered call must not */
        gm_deferred_free_flush(&deferred_frees);
    gm_status status = gm_shape_of(request, &piece);
    if (status)
        return status;
    if (!gm_capture_guard_enter(&mode))
        return GM_NOT_SUPPORTED;
    status =
        (gm_status)gm_drv.mem_host_alloc(&memory, piece.reserved, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    gm_capture_guard_leave(mode);
    if (status)
        return status;
    piece.address = (uint64_t)(uintptr_t)memory;
    gm_block_fill(block, self, request, &piece);
    return GM_OK;
}

static gm_status pinned_free(struct gm_resource *self, const struct gm_block *block,
                             const struct gm_free_request *how) {
    return gm_deferred_free_add(&deferred_frees, block, how);
}

static size_t pinned_trim(struct gm_resource *self, size_t bytes) {
    return gm_driver_ready(false) ? (size_t)gm_deferred_free_drain(&deferred_frees) : 0;
}

static void pinned_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    gm_deferred_free_context_destroyed(&deferred_frees, context_id);
    gm_internal_forget(context_id);
}

static void pinned_capture(struct gm_resource *self, int change) {
    if (change < 0 && gm_driver_ready(false))
        gm_deferred_free_captures_over(&deferred_frees);
}

static void pinned_after_fork(struct gm_resource *self) { gm_deferred_free_after_fork(&deferred_frees); }

const struct gm_resource_ops gm_resource_pinned = {
    .name = "pinned",
    .summary = "page-locked host memory, cuMemHostAlloc",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_HOST_ACCESSIBLE | GM_PROP_RESIDENT | GM_PROP_HOST_STORAGE |
                  GM_PROP_READY_ANYWHERE | GM_PROP_STREAM_ORDERED | GM_PROP_PEER,
    .breaks = "every access of the device crosses the bus and nothing migrates; no cuIpcGetMemHandle, no dma-buf; "
              "pointer attributes name host memory; the host cannot reclaim it; a free waits for the GPU, a free in "
              "stream order is done by a later call",
    .kind = GM_KIND_HOST,
    .alloc = pinned_alloc,
    .free = pinned_free,
    .trim = pinned_trim,
    .context_destroyed = pinned_context_destroyed,
    .capture = pinned_capture,
    .after_fork = pinned_after_fork,
};
