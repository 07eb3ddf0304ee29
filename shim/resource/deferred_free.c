#include "shim/resource/deferred_free.h"

#include "shim/driver/fence.h"
#include "shim/driver/internal_stream.h"

/* Bounds of what may wait for its stream before a free waits for the oldest. */
#define WAITING_BLOCKS 64
#define WAITING_BYTES  ((uint64_t)256 << 20)

static struct gm_parked parked_of(const struct gm_block *block) {
    return (struct gm_parked){
        .address = block->address,
        .context = block->context,
        .context_id = block->context_id,
        .size = block->reserved,
        .device = block->device,
    };
}

/* ---- events */

static void stand_behind(struct gm_parked *parked, const struct gm_lane *lane, CUevent event) {
    parked->event = event;
    parked->event_context = (uint64_t)(uintptr_t)lane->context;
    parked->event_context_id = lane->id;
}

static gm_status record_behind_all(struct gm_parked *parked, const struct gm_lane *lane) {
    CUstream stream;
    CUevent event;
    bool pushed;
    gm_status status = gm_lane_enter(lane->context, &pushed);
    if (status)
        return status;
    status = gm_lane_stream(lane, GM_LANE_FREE, &stream);
    if (!status)
        status = gm_lane_fence(lane, stream);
    if (!status)
        status = gm_lane_event_take(lane, &event);
    if (!status) {
        status = (gm_status)gm_drv.event_record(event, stream);
        if (status)
            gm_lane_event_put(lane->id, event);
        else
            stand_behind(parked, lane, event);
    }
    gm_lane_leave(pushed);
    return status;
}

/* An event behind everything that may use the block: gpumem's own stream waits for it all, the event stands behind.
 * None when the block's context is gone, and its work with it. */
static gm_status event_behind_all(struct gm_parked *parked) {
    CUcontext context = (CUcontext)(uintptr_t)parked->context;
    struct gm_lane lane;
    int hold = gm_context_hold(context, parked->context_id);
    if (hold < 0)
        return hold == GM_CONTEXT_GONE ? GM_OK : GM_FENCE_PENDING;
    gm_status status = GM_NOT_SUPPORTED;
    if (gm_lane_of(context, parked->context_id, parked->device, &lane))
        status = record_behind_all(parked, &lane);
    gm_context_let_go(hold);
    return status;
}

/* An event of the stream's own context, recorded behind the stream's work. */
static gm_status event_on_stream(const struct gm_free_request *how, struct gm_parked *parked) {
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
        status = GM_INVALID_CONTEXT;
    else if (!gm_lane_of(context.handle, context.id, context.device, &lane))
        status = GM_NOT_SUPPORTED;
    else
        status = gm_lane_event_take(&lane, &event);
    if (!status) {
        status = (gm_status)record(event, stream);
        if (status)
            gm_lane_event_put(lane.id, event);
        else
            stand_behind(parked, &lane, event);
    }
    gm_lane_leave(pushed);
    return status;
}

/* Not under the capture guard: a wait may be long, and a relaxed thread disturbs no capture that begins meanwhile. */
static gm_status free_behind_event(struct gm_later *later, const struct gm_parked *parked, bool wait) {
    const struct gm_event_of event = {(CUcontext)(uintptr_t)parked->event_context, parked->event_context_id,
                                      parked->event};
    bool near = parked->event_context_id == parked->context_id;
    gm_status status = GM_OK;
    CUstreamCaptureMode mode = gm_capture_relax();
    if (parked->event)
        status = wait && near ? gm_event_wait(&event, false) : gm_event_query(&event, false);
    if (!status || gm_context_life((CUcontext)(uintptr_t)parked->context, parked->context_id) == GM_CONTEXT_GONE)
        status = later->free_now(parked);
    gm_capture_unrelax(mode);
    return status;
}

/* ---- what waits */

/* The oldest waiting block: freed when its event is complete, or waited for. False: it still waits, or none is left. */
static bool free_oldest(struct gm_later *later, bool wait) {
    struct gm_parked parked;
    if (!gm_parking_pop(&later->waiting, &parked))
        return false;
    if (free_behind_event(later, &parked, wait)) {
        gm_parking_unpop(&later->waiting, &parked);
        return false;
    }
    gm_lane_event_put(parked.event_context_id, parked.event);
    return true;
}

/* Under the capture guard; the block is out of the quarantine. On failure it is as it was. */
static gm_status dismiss(struct gm_later *later, struct gm_parked *parked) {
    if (later->waits_itself)
        return later->free_now(parked);
    gm_status status = event_behind_all(parked);
    if (!status && (status = gm_parking_push(&later->waiting, parked)) != GM_OK)
        gm_lane_event_put(parked->event_context_id, parked->event);
    if (status)
        parked->event = NULL;
    return status;
}

static void dismiss_all(struct gm_later *later) {
    struct gm_parked parked;
    for (uint32_t left = gm_parking_count(&later->quarantine); left && gm_parking_pop(&later->quarantine, &parked); left--)
        if (dismiss(later, &parked)) {
            gm_parking_unpop(&later->quarantine, &parked);
            break;
        }
}

void gm_later_leave_quarantine(struct gm_later *later) {
    CUstreamCaptureMode mode;
    if (!gm_parking_count(&later->quarantine) || !gm_capture_guard_enter(&mode))
        return;
    dismiss_all(later);
    gm_capture_guard_leave(mode);
}

void gm_later_flush(struct gm_later *later) {
    if (GM_LIKELY(!gm_parking_count(&later->waiting) && !gm_parking_count(&later->quarantine)))
        return;
    gm_later_leave_quarantine(later);
    while (!gm_capture_any() && free_oldest(later, false))
        ;
}

uint64_t gm_later_drain(struct gm_later *later) {
    uint64_t before = gm_parking_bytes(&later->waiting) + gm_parking_bytes(&later->quarantine);
    if (later->waits_itself) {
        CUstreamCaptureMode mode = gm_capture_relax();
        dismiss_all(later);
        gm_capture_unrelax(mode);
    } else {
        gm_later_leave_quarantine(later);
    }
    while (free_oldest(later, true))
        ;
    uint64_t after = gm_parking_bytes(&later->waiting) + gm_parking_bytes(&later->quarantine);
    return before > after ? before - after : 0;
}

static void keep_bounds(struct gm_later *later) {
    while (!gm_capture_any() &&
           (gm_parking_count(&later->waiting) > WAITING_BLOCKS || gm_parking_bytes(&later->waiting) > WAITING_BYTES) &&
           free_oldest(later, true))
        ;
}

/* ---- the two ways to free */

static gm_status free_behind_all(struct gm_later *later, const struct gm_block *block) {
    struct gm_parked parked = parked_of(block);
    CUstreamCaptureMode mode;
    if (later->waits_itself)
        return gm_capture_any() ? gm_parking_push(&later->quarantine, &parked) : free_behind_event(later, &parked, true);
    if (!gm_capture_guard_enter(&mode))
        return gm_parking_push(&later->quarantine, &parked);
    gm_status status = event_behind_all(&parked);
    gm_capture_guard_leave(mode);
    if (gm_is_put_off(status))
        return gm_parking_push(&later->quarantine, &parked);
    if (status)
        return status;
    status = free_behind_event(later, &parked, true);
    if (status == GM_FENCE_PENDING) /* the context may be ending */
        status = gm_parking_push(&later->waiting, &parked);
    else
        gm_lane_event_put(parked.event_context_id, parked.event);
    return status;
}

static bool stream_captures(const struct gm_free_request *how) {
    __typeof__(gm_drv.stream_is_capturing) ask = how->per_thread ? gm_drv.stream_is_capturing_ptsz : gm_drv.stream_is_capturing;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return ask((CUstream)how->stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static gm_status free_in_order(struct gm_later *later, const struct gm_block *block, const struct gm_free_request *how) {
    struct gm_parked parked = parked_of(block);
    CUstreamCaptureMode mode;
    if (!gm_capture_guard_enter(&mode)) {
        if (!stream_captures(how))
            return gm_parking_push(&later->quarantine, &parked);
        /* A graph frees only what it allocated: the answer that the driver has for a free node of other memory. */
        return GM_INVALID_VALUE;
    }
    gm_status status = event_on_stream(how, &parked);
    if (!status) {
        status = gm_parking_push(&later->waiting, &parked);
        if (status)
            gm_lane_event_put(parked.event_context_id, parked.event);
    }
    gm_capture_guard_leave(mode);
    if (!status)
        keep_bounds(later);
    return status;
}

gm_status gm_later_free(struct gm_later *later, const struct gm_block *block, const struct gm_free_request *how) {
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    if (how->call == GM_CALL_FREE_ASYNC)
        return free_in_order(later, block, how);
    if (how->call != GM_CALL_FREE)
        return GM_INVALID_VALUE;
    gm_status status = free_behind_all(later, block);
    gm_later_flush(later);
    return status;
}

/* ---- the end of contexts and processes */

static void free_of_context(struct gm_later *later, struct gm_parking *parking, uint64_t context_id) {
    struct gm_parked parked;
    for (uint32_t left = gm_parking_count(parking); left && gm_parking_pop(parking, &parked); left--) {
        if (parked.context_id != context_id)
            gm_parking_push(parking, &parked);
        else if (later->free_now(&parked) == GM_OK && parked.event_context_id != context_id)
            gm_lane_event_put(parked.event_context_id, parked.event);
    }
    gm_parking_forget(parking, context_id); /* events of it that hold back blocks of other contexts */
}

void gm_later_context_gone(struct gm_later *later, uint64_t context_id) {
    free_of_context(later, &later->waiting, context_id);
    free_of_context(later, &later->quarantine, context_id);
}

void gm_later_after_fork(struct gm_later *later) {
    later->waiting = later->quarantine = (struct gm_parking){0};
}
