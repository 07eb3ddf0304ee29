/* cuMemAllocManaged in place of device memory: the paper's baseline, whose free waits for the GPU. */
#include "shim/resource/managed.h"

#include "shim/resource/block.h"
#include "shim/resource/hints.h"
#include "shim/resource/lane.h"
#include "shim/resource/parking.h"
#include "shim/resource/pitch.h"
#include "shim/resource/rows.h"

/* Bounds of what may wait for its stream before a free waits for the oldest. */
#define WAITING_BLOCKS 64
#define WAITING_BYTES  ((uint64_t)256 << 20)

static struct gm_parking waiting;    /* given back in stream order: free once their event is complete */
static struct gm_parking quarantine; /* given back during a capture */

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
    status = (gm_status)gm_drv.mem_alloc_managed(&address, piece->reserved, CU_MEM_ATTACH_GLOBAL);
    if (!status) {
        piece->address = address;
        gm_hint_prefetch(request, piece);
    }
    gm_capture_guard_leave(mode);
    if (status)
        gm_managed_discharge(request->context_id, piece->reserved);
    return status;
}

static bool serves(const struct gm_request *request) {
    return gm_request_is_device(request) && request->size && request->context_id && !request->capturing &&
           !(request->promises & GM_PROMISE_CAPTURE);
}

static gm_status device_has_managed(int device) {
    int managed = 0;
    gm_status status = (gm_status)gm_drv.device_get_attribute(&managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device);
    if (status)
        return status;
    return managed ? GM_OK : GM_NOT_SUPPORTED;
}

static void free_what_may_go(void);

static gm_status managed_alloc(struct gm_resource *self, const struct gm_request *request, struct gm_block *block) {
    struct gm_piece piece;
    bool pushed;

    if (!serves(request))
        return GM_NOT_SUPPORTED;
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    /* A free may wait for the GPU: never in a call that the program knows as stream-ordered. */
    if (request->call != GM_CALL_ALLOC_ASYNC)
        free_what_may_go();
    gm_status status = gm_lane_enter((CUcontext)(uintptr_t)request->context, &pushed);
    if (status)
        return status;
    status = device_has_managed(request->device);
    if (!status)
        status = gm_shape_of(request, &piece);
    if (!status)
        status = alloc_charged(request, &piece);
    gm_lane_leave(pushed);
    if (status)
        return status;
    gm_block_fill(block, self, request, &piece);
    return GM_OK;
}

/* ---- free */

static gm_status free_now(uint64_t address, uint64_t context, uint64_t context_id, uint64_t bytes) {
    bool pushed;
    gm_status status = gm_lane_enter((CUcontext)(uintptr_t)context, &pushed);
    if (status)
        return status;
    status = (gm_status)gm_drv.mem_free(address);
    gm_lane_leave(pushed);
    if (!status)
        gm_managed_discharge(context_id, bytes);
    return status;
}

static struct gm_parked parked_of(const struct gm_block *block) {
    return (struct gm_parked){
        .address = block->address,
        .context = block->context,
        .context_id = block->context_id,
        .size = block->reserved,
        .device = block->device,
    };
}

/* The oldest waiting block: freed when its event is complete, or waited for. False: it still waits, or none is left. */
static bool free_oldest(bool wait) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    struct gm_parked parked;
    if (!gm_parking_pop(&waiting, &parked))
        return false;
    /* Not the capture guard: a wait may be long, and a relaxed thread disturbs no capture that begins meanwhile. */
    gm_drv.thread_exchange_capture_mode(&mode);
    gm_status status = GM_OK;
    if (parked.event)
        status = (gm_status)(wait ? gm_drv.event_synchronize(parked.event) : gm_drv.event_query(parked.event));
    if (!status)
        status = free_now(parked.address, parked.context, parked.context_id, parked.size);
    gm_drv.thread_exchange_capture_mode(&mode);
    if (status)
        gm_parking_unpop(&waiting, &parked);
    else
        gm_lane_event_put(parked.event_context_id, parked.event);
    return !status;
}

static void free_quarantined(void) {
    CUstreamCaptureMode mode;
    struct gm_parked parked;
    if (!gm_parking_count(&quarantine) || !gm_capture_guard_enter(&mode))
        return;
    for (uint32_t left = gm_parking_count(&quarantine); left && gm_parking_pop(&quarantine, &parked); left--)
        if (free_now(parked.address, parked.context, parked.context_id, parked.size)) {
            gm_parking_unpop(&quarantine, &parked);
            break;
        }
    gm_capture_guard_leave(mode);
}

static void free_what_may_go(void) {
    if (GM_LIKELY(!gm_parking_count(&waiting) && !gm_parking_count(&quarantine)))
        return;
    free_quarantined();
    while (!gm_capture_any() && free_oldest(false))
        ;
}

static void bound_waiting(void) {
    while (!gm_capture_any() &&
           (gm_parking_count(&waiting) > WAITING_BLOCKS || gm_parking_bytes(&waiting) > WAITING_BYTES) && free_oldest(true))
        ;
}

void gm_managed_drain(void) {
    free_quarantined();
    while (!gm_capture_any() && free_oldest(true))
        ;
}

static bool stream_captures(const struct gm_free_request *how) {
    __typeof__(gm_drv.stream_is_capturing) ask = how->per_thread ? gm_drv.stream_is_capturing_ptsz : gm_drv.stream_is_capturing;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return ask((CUstream)how->stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* An event of the stream's own context, recorded behind the stream's work. */
static gm_status record_on_stream(const struct gm_free_request *how, struct gm_parked *parked) {
    __typeof__(gm_drv.event_record) record = how->per_thread ? gm_drv.event_record_ptsz : gm_drv.event_record;
    CUstream stream = (CUstream)how->stream;
    CUcontext owner = NULL;
    CUevent event;
    struct gm_context context;
    struct gm_lane lane;
    bool pushed = false;

    gm_status status = GM_OK;
    if (how->stream > (uint64_t)(uintptr_t)CU_STREAM_PER_THREAD && gm_drv.stream_get_ctx)
        status = (gm_status)gm_drv.stream_get_ctx(stream, &owner);
    if (!status && owner)
        status = gm_lane_enter(owner, &pushed);
    if (status)
        return status;
    if (!gm_context_current(&context))
        status = CUDA_ERROR_INVALID_CONTEXT;
    else if (!gm_lane_of(context.handle, context.id, context.device, &lane))
        status = GM_NOT_SUPPORTED;
    else
        status = gm_lane_event_take(&lane, &event);
    if (!status) {
        status = (gm_status)record(event, stream);
        if (status) {
            gm_lane_event_put(lane.id, event);
        } else {
            parked->event = event;
            parked->event_context_id = lane.id;
        }
    }
    gm_lane_leave(pushed);
    return status;
}

static gm_status free_in_order(const struct gm_block *block, const struct gm_free_request *how) {
    struct gm_parked parked = parked_of(block);
    CUstreamCaptureMode mode;
    gm_status status;

    if (!gm_capture_guard_enter(&mode)) {
        if (!stream_captures(how))
            return gm_parking_push(&quarantine, &parked);
        /* A graph frees only what it allocated: the answer that the driver has for a free node of other memory. */
        return GM_INVALID_VALUE;
    }
    status = record_on_stream(how, &parked);
    if (!status) {
        status = gm_parking_push(&waiting, &parked);
        if (status)
            gm_lane_event_put(parked.event_context_id, parked.event);
    }
    gm_capture_guard_leave(mode);
    if (!status)
        bound_waiting();
    return status;
}

static gm_status managed_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    CUstreamCaptureMode mode;
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    if (how->call == GM_CALL_FREE_ASYNC)
        return free_in_order(block, how);
    if (how->call != GM_CALL_FREE)
        return GM_INVALID_VALUE;
    if (gm_capture_any()) {
        struct gm_parked parked = parked_of(block);
        return gm_parking_push(&quarantine, &parked);
    }
    /* Waits for the GPU, so not under the guard; relaxed, it disturbs no capture that begins meanwhile. */
    mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    gm_drv.thread_exchange_capture_mode(&mode);
    gm_status status = free_now(block->address, block->context, block->context_id, block->reserved);
    gm_drv.thread_exchange_capture_mode(&mode);
    free_what_may_go();
    return status;
}

/* ---- the rest of its life */

static size_t managed_trim(struct gm_resource *self, size_t bytes) {
    if (!gm_driver_ready(false))
        return 0;
    uint64_t before = gm_managed_alive();
    gm_managed_drain();
    uint64_t after = gm_managed_alive();
    return before > after ? (size_t)(before - after) : 0;
}

static void managed_context_gone(struct gm_resource *self, uint64_t context_id) {
    gm_parking_forget(&waiting, context_id);
    gm_parking_forget(&quarantine, context_id);
    gm_managed_forget(context_id);
    gm_lane_forget(context_id);
}

static void managed_capture(struct gm_resource *self, int change) {
    if (change < 0 && gm_driver_ready(false))
        free_quarantined();
}

const struct gm_resource_row gm_resource_managed = {
    .name = "managed",
    .summary = "cuMemAllocManaged, attached globally; refused beyond the device's free memory",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_HOST_ACCESSIBLE | GM_PROP_READY_ANYWHERE | GM_PROP_STREAM_ORDERED |
                  GM_PROP_PEER | GM_PROP_OVERSUBSCRIBABLE,
    .breaks = "no cuIpcGetMemHandle, no dma-buf and no GPUDirect RDMA registration; IS_MANAGED is true and pages migrate; a free "
              "waits for the GPU, one in stream order is done by a later call; without concurrentManagedAccess the host faults "
              "while kernels run, and peers reach it only over the host",
    .kind = GM_KIND_MANAGED,
    .alloc = managed_alloc,
    .free = managed_free,
    .trim = managed_trim,
    .context_gone = managed_context_gone,
    .capture = managed_capture,
};
