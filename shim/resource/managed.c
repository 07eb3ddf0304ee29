/* Resource "managed": cuMemAllocManaged instead of device memory, the baseline of hybrid-allocation-he (III.A). Each
 * block is charged to the managed quota (managed_quota.h). cuMemFree waits for the GPU, so a free in stream order is
 * deferred (deferred_free.h). */
#include "shim/resource/managed_quota.h"

#include "shim/resource/block.h"
#include "shim/resource/managed_advice.h"
#include "shim/resource/deferred_free.h"
#include "shim/resource/pitch.h"
#include "shim/resource/rows.h"

static gm_status managed_free_now(const struct gm_deferred_block *deferred);

static struct gm_deferred_free deferred_frees = {
    .free_now = managed_free_now, .waits_itself = true, .in_context = true};
GM_ZERO_IN_CHILD(deferred_frees.pending);

/* ---- allocation */

static gm_status alloc_charged(const struct gm_request *request, struct gm_piece *piece) {
    CUdeviceptr address;
    gm_status status = gm_managed_charge(request->context_id, request->device, piece->reserved);
    if (status)
        return status;
    CUstreamCaptureMode mode;
    if (!gm_capture_guard_enter(&mode)) {
        gm_managed_discharge(request->context_id, piece->reserved);
        return GM_NOT_SUPPORTED;
    }
    status = gm_drv.mem_alloc_managed(&address, piece->reserved, CU_MEM_ATTACH_GLOBAL);
    if (!status) {
        piece->address = address;
        gm_managed_advice_prefetch(request, piece);
    }
    gm_capture_guard_leave(mode);
    if (status)
        gm_managed_discharge(request->context_id, piece->reserved);
    return status;
}

static gm_status device_has_managed(int device) {
    int managed = 0;
    gm_status status = gm_drv.device_get_attribute(&managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device);
    if (status)
        return status;
    return managed ? GM_OK : GM_NOT_SUPPORTED;
}

static gm_status managed_alloc(struct gm_resource *self, const struct gm_request *request,
                               const struct gm_decision *decision, struct gm_block *block) {
    struct gm_piece piece;

    if (!gm_request_is_uncaptured(request) || !request->context_id)
        return GM_NOT_SUPPORTED;
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    /* A deferred free may wait for the GPU. A stream-ordered call must not wait. */
    if (request->call != GM_CALL_ALLOC_ASYNC)
        gm_deferred_free_flush(&deferred_frees);
    gm_status status = device_has_managed(request->device);
    if (!status)
        status = gm_shape_of(request, &piece);
    if (!status)
        status = alloc_charged(request, &piece);
    if (status)
        return status;
    gm_block_fill(block, self, request, &piece);
    return GM_OK;
}

/* ---- free */

static gm_status managed_free_now(const struct gm_deferred_block *deferred) {
    gm_status status = gm_drv.mem_free(deferred->address);
    if (!status)
        gm_managed_discharge(deferred->context_id, deferred->size);
    return status;
}

static void drain(void) { gm_deferred_free_drain(&deferred_frees); }

/* ---- the other ops */

static size_t managed_trim(struct gm_resource *self, size_t bytes) {
    return gm_driver_ready(false) ? (size_t)gm_deferred_free_drain(&deferred_frees) : 0;
}

static void managed_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    gm_deferred_context_destroyed(self, context_id);
    gm_managed_forget(context_id);
}

static gm_status managed_open(struct gm_resource *self, const char *argument, char *error, size_t error_size) {
    static struct gm_managed_maker maker = {.release = drain};
    gm_managed_quota_add(&maker);
    return GM_OK;
}

const struct gm_resource_ops gm_resource_managed = {
    .name = "managed",
    .summary = "cuMemAllocManaged, attached globally; refused above the free memory of the device",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_HOST_ACCESSIBLE | GM_PROP_READY_ANYWHERE |
                  GM_PROP_STREAM_ORDERED | GM_PROP_PEER | GM_PROP_OVERSUBSCRIBABLE | GM_PROP_HOST_STORAGE |
                  GM_PROP_DEVICE_STORAGE,
    .breaks = "no cuIpcGetMemHandle, no dma-buf and no GPUDirect RDMA registration; IS_MANAGED is true and pages "
              "migrate; a free waits for the GPU, a free in stream order is done by a later call; without "
              "concurrentManagedAccess the host faults while kernels run, and peers reach it only over the host",
    .kind = GM_KIND_MANAGED,
    .serves = "managed",
    .deferred = &deferred_frees,
    .open = managed_open,
    .alloc = managed_alloc,
    .free = gm_deferred_free,
    .trim = managed_trim,
    .context_destroyed = managed_context_destroyed,
    .capture = gm_deferred_capture,
};
