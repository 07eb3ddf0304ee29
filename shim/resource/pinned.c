/* Resource "pinned": page-locked host memory (cuMemHostAlloc) that every device accesses in place. cuMemFreeHost does
 * not wait for all work that may use the memory, so a free is deferred until that work is done (deferred_free.h). */
#include "shim/resource/block.h"
#include "shim/resource/deferred_free.h"
#include "shim/resource/pitch.h"
#include "shim/resource/rows.h"

static gm_status pinned_free_now(const struct gm_deferred_block *deferred) {
    return gm_drv.mem_free_host((void *)(uintptr_t)deferred->address);
}

static struct gm_deferred_free deferred_frees = {.free_now = pinned_free_now, .in_context = true};
GM_ZERO_IN_CHILD(deferred_frees.pending);

static gm_status pinned_alloc(struct gm_resource *self, const struct gm_request *request,
                              const struct gm_decision *decision, struct gm_block *block) {
    struct gm_piece piece;
    CUstreamCaptureMode mode;
    void *memory;
    if (!gm_request_is_device(request) || !request->size || !request->context_id || request->capturing)
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

static size_t pinned_trim(struct gm_resource *self, size_t bytes) {
    return gm_driver_ready(false) ? (size_t)gm_deferred_free_drain(&deferred_frees) : 0;
}

const struct gm_resource_ops gm_resource_pinned = {
    .name = "pinned",
    .summary = "page-locked host memory, cuMemHostAlloc",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_HOST_ACCESSIBLE | GM_PROP_RESIDENT | GM_PROP_HOST_STORAGE |
                  GM_PROP_READY_ANYWHERE | GM_PROP_STREAM_ORDERED | GM_PROP_PEER,
    .breaks = "every access of the device crosses the bus and nothing migrates; no cuIpcGetMemHandle, no dma-buf; "
              "pointer attributes name host memory; the host cannot reclaim it; a free waits for the GPU, a free in "
              "stream order is done by a later call",
    .kind = GM_KIND_HOST,
    .deferred = &deferred_frees,
    .alloc = pinned_alloc,
    .free = gm_deferred_free,
    .trim = pinned_trim,
    .context_destroyed = gm_deferred_context_destroyed,
    .capture = gm_deferred_capture,
};
