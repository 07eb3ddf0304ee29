/* Resource "suspendable": device memory whose pages can leave and come back (suspendable_memory.h). cuMemUnmap does not
 * wait for the GPU, so a free first waits for the work submitted before it, as a native cudaFree does. */
#include "shim/base/events.h"
#include "shim/driver/transports.h"
#include "shim/resource/block.h"
#include "shim/resource/deferred_free.h"
#include "shim/resource/pitch.h"
#include "shim/resource/rows.h"
#include "shim/resource/suspendable_memory.h"

static gm_status free_now(const struct gm_deferred_block *deferred) {
    return gm_suspendable_give(deferred->address, false);
}

static struct gm_deferred_free deferred_frees = {.free_now = free_now};
GM_ZERO_IN_CHILD(deferred_frees.pending);

static gm_status suspendable_alloc(struct gm_resource *self, const struct gm_request *request,
                                   const struct gm_decision *decision, struct gm_block *block) {
    CUstreamCaptureMode mode;
    struct gm_piece piece;
    if (!gm_request_is_uncaptured(request) || gm_buffers_in_process() || GM_ASK(request_spared, request))
        return GM_NOT_SUPPORTED;
    gm_deferred_free_flush(&deferred_frees);
    gm_status status = gm_shape_of(request, &piece);
    if (status)
        return status;
    if (!gm_capture_guard_enter(&mode))
        return GM_NOT_SUPPORTED;
    status = gm_suspendable_take(request, piece.reserved, &piece.address, &piece.reserved);
    gm_capture_guard_leave(mode);
    if (!status)
        gm_block_fill(block, self, request, &piece);
    return status;
}

static size_t suspendable_trim(struct gm_resource *self, size_t bytes) {
    return gm_driver_ready(false) ? gm_deferred_free_drain(&deferred_frees) : 0;
}

static void suspendable_abandon(struct gm_resource *self, const struct gm_block *block) {
    gm_suspendable_give(block->address, true);
}

static void suspendable_open_to(struct gm_resource *self, int device) {
    if (!gm_suspendable_open_to(device))
        gm_log(GM_LOG_WARN, "device %d cannot reach suspendable memory of another device", device);
}

const struct gm_resource_ops gm_resource_suspendable = {
    .name = "suspendable",
    .summary = "device memory whose pages can leave the device and come back under the same addresses",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_RESIDENT | GM_PROP_DEVICE_STORAGE | GM_PROP_READY_ANYWHERE |
                  GM_PROP_STREAM_ORDERED | GM_PROP_PEER,
    .breaks = "no cuIpcGetMemHandle, no dma-buf and no GPUDirect RDMA registration; not served where devices cannot "
              "access each other, nor beside MPI and UCX; none while a stream captures; a free waits for the GPU",
    .kind = GM_KIND_SUSPENDABLE,
    .alignment = 9,
    .page = (size_t)2 << 20, /* smaller blocks share pages */
    .serves = "suspendable",
    .deferred = &deferred_frees,
    .alloc = suspendable_alloc,
    .free = gm_deferred_free,
    .trim = suspendable_trim,
    .context_destroyed = gm_deferred_context_destroyed,
    .abandon = suspendable_abandon,
    .capture = gm_deferred_capture_flush,
    .open_to = suspendable_open_to,
};
