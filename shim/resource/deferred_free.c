#include "shim/resource/deferred_free.h"

#include "shim/driver/fence.h"
#include "shim/driver/internal_stream.h"

/* Bounds of what may wait for its stream before a free waits for the oldest. */
#define WAITING_BLOCKS 64
#define WAITING_BYTES  ((uint64_t)256 << 20)

static struct gm_deferred_block deferred_of(const struct gm_block *block) {
    return (struct gm_deferred_block){
        .address = block->address,
        .context = block->context,
        .context_id = block->context_id,
        .size = block->reserved,
        .device = block->device,
    };
}

/* ---- events */

static void stand_behind(struct gm_deferred_block *deferred, const struct gm_internal *internal, CUevent event) {
    deferred->event = event;
    deferred->event_context = (uint64_t)(uintptr_t)internal->context;
    deferred->event_context_id = internal->id;
}

static gm_status record_behind_all(struct gm_deferred_block *deferred, const struct gm_internal *internal) {
    CUstream stream;
    CUevent event;
    bool pushed;
    gm_status status = gm_context_enter(internal->context, &pushed);
    if (status)
        return status;
    status = gm_internal_stream(internal, GM_INTERNAL_FREE, &stream);
    if (!status)
        status = gm_wait_for_users(internal, stream);
    if (!status)
        status = gm_internal_event_take(internal, &event);
    if (!status) {
        status = (gm_status)gm_drv.event_record(event, stream);
        if (status)
            gm_internal_event_put(internal->id, event);
        else
            stand_behind(deferred, internal, event);
    }
    gm_context_leave(pushed);
    return status;
}

/* An event behind everything that may use the block: gpumem's own stream waits for it all, the event stands behind.
 * None when the block's context is gone, and its work with it. */
static gm_status event_behind_all(struct gm_deferred_block *deferred) {
    CUcontext context = (CUcontext)(uintptr_t)deferred->context;
    struct gm_internal internal;
    int hold = gm_context_hold(context, deferred->context_id);
    if (hold < 0)
        return hold == GM_CONTEXT_DESTROYED ? GM_OK : GM_FENCE_PENDING;
    gm_status status = GM_NOT_SUPPORTED;
    if (gm_internal_of(context, deferred->context_id, deferred->device, &internal))
        status = record_behind_all(deferred, &internal);
    gm_context_let_go(hold);
    return status;
}

/* An event of the stream's own context, recorded behind the stream's work. */
static gm_status event_on_stream(const struct gm_free_request *how, struct gm_deferred_block *deferred) {
    __typeof__(gm_drv.event_record) record = how->per_thread ? gm_drv.event_record_ptsz : gm_drv.event_record;
    CUstream stream = (CUstream)how->stream;
    CUcontext owner = NULL;
    CUevent event;
    struct gm_context context;
    struct gm_internal internal;
    bool pushed = false;

    gm_status status = GM_OK;
    if (how->stream > (uint64_t)(uintptr_t)CU_STREAM_PER_THREAD && gm_drv.stream_get_ctx)
        status = (gm_status)gm_drv.stream_get_ctx(stream, &owner);
    if (!status && owner)
        status = gm_context_enter(owner, &pushed);
    if (status)
        return status;
    if (!gm_context_current(&context))
        status = GM_INVALID_CONTEXT;
    else if (!gm_internal_of(context.handle, context.id, context.device, &internal))
        status = GM_NOT_SUPPORTED;
    else
        status = gm_internal_event_take(&internal, &event);
    if (!status) {
        status = (gm_status)record(event, stream);
        if (status)
            gm_internal_event_put(internal.id, event);
        else
            stand_behind(deferred, &internal, event);
    }
    gm_context_leave(pushed);
    return status;
}

/* Not under the capture guard: a wait may be long, and a relaxed thread disturbs no capture that begins meanwhile. */
static gm_status free_behind_event(struct gm_deferred_free *later, const struct gm_deferred_block *deferred,
                                   bool wait) {
    const struct gm_event_of event = {(CUcontext)(uintptr_t)deferred->event_context, deferred->event_context_id,
                                      deferred->event};
    bool near = deferred->event_context_id == deferred->context_id;
    gm_status status = GM_OK;
    CUstreamCaptureMode mode = gm_capture_relax();
    if (deferred->event)
        status = wait && near ? gm_event_wait(&event, false) : gm_event_query(&event, false);
    if (!status ||
        gm_context_life((CUcontext)(uintptr_t)deferred->context, deferred->context_id) == GM_CONTEXT_DESTROYED)
        status = later->free_now(deferred);
    gm_capture_unrelax(mode);
    return status;
}

/* ---- what waits */

/* The oldest waiting block: freed when its event is complete, or waited for. False: it still waits, or none is left. */
static bool free_oldest(struct gm_deferred_free *later, bool wait) {
    struct gm_deferred_block deferred;
    if (!gm_deferred_queue_pop(&later->waiting, &deferred))
        return false;
    if (free_behind_event(later, &deferred, wait)) {
        gm_deferred_queue_unpop(&later->waiting, &deferred);
        return false;
    }
    gm_internal_event_put(deferred.event_context_id, deferred.event);
    return true;
}

/* Under the capture guard; the block is out of the after_capture. On failure it is as it was. */
static gm_status dismiss(struct gm_deferred_free *later, struct gm_deferred_block *deferred) {
    if (later->waits_itself)
        return later->free_now(deferred);
    gm_status status = event_behind_all(deferred);
    if (!status && (status = gm_deferred_queue_push(&later->waiting, deferred)) != GM_OK)
        gm_internal_event_put(deferred->event_context_id, deferred->event);
    if (status)
        deferred->event = NULL;
    return status;
}

static void dismiss_all(struct gm_deferred_free *later) {
    struct gm_deferred_block deferred;
    for (uint32_t left = gm_deferred_queue_count(&later->after_capture);
         left && gm_deferred_queue_pop(&later->after_capture, &deferred); left--)
        if (dismiss(later, &deferred)) {
            gm_deferred_queue_unpop(&later->after_capture, &deferred);
            break;
        }
}

void gm_deferred_free_captures_over(struct gm_deferred_free *later) {
    CUstreamCaptureMode mode;
    if (!gm_deferred_queue_count(&later->after_capture) || !gm_capture_guard_enter(&mode))
        return;
    dismiss_all(later);
    gm_capture_guard_leave(mode);
}

void gm_deferred_free_flush(struct gm_deferred_free *later) {
    if (GM_LIKELY(!gm_deferred_queue_count(&later->waiting) && !gm_deferred_queue_count(&later->after_capture)))
        return;
    gm_deferred_free_captures_over(later);
    while (!gm_capture_any() && free_oldest(later, false))
        ;
}

uint64_t gm_deferred_free_drain(struct gm_deferred_free *later) {
    uint64_t before = gm_deferred_queue_bytes(&later->waiting) + gm_deferred_queue_bytes(&later->after_capture);
    if (later->waits_itself) {
        CUstreamCaptureMode mode = gm_capture_relax();
        dismiss_all(later);
        gm_capture_unrelax(mode);
    } else {
        gm_deferred_free_captures_over(later);
    }
    while (free_oldest(later, true))
        ;
    uint64_t after = gm_deferred_queue_bytes(&later->waiting) + gm_deferred_queue_bytes(&later->after_capture);
    return before > after ? before - after : 0;
}

static void keep_bounds(struct gm_deferred_free *later) {
    while (!gm_capture_any() &&
           (gm_deferred_queue_count(&later->waiting) > WAITING_BLOCKS ||
            gm_deferred_queue_bytes(&later->waiting) > WAITING_BYTES) &&
           free_oldest(later, true))
        ;
}

/* ---- the two ways to free */

static gm_status free_behind_all(struct gm_deferred_free *later, const struct gm_block *block) {
    struct gm_deferred_block deferred = deferred_of(block);
    CUstreamCaptureMode mode;
    if (later->waits_itself)
        return gm_capture_any() ? gm_deferred_queue_push(&later->after_capture, &deferred)
                                : free_behind_event(later, &deferred, true);
    if (!gm_capture_guard_enter(&mode))
        return gm_deferred_queue_push(&later->after_capture, &deferred);
    gm_status status = event_behind_all(&deferred);
    gm_capture_guard_leave(mode);
    if (gm_is_put_off(status))
        return gm_deferred_queue_push(&later->after_capture, &deferred);
    if (status)
        return status;
    status = free_behind_event(later, &deferred, true);
    if (status == GM_FENCE_PENDING) /* the context may be ending */
        status = gm_deferred_queue_push(&later->waiting, &deferred);
    else
        gm_internal_event_put(deferred.event_context_id, deferred.event);
    return status;
}

static bool stream_captures(const struct gm_free_request *how) {
    __typeof__(gm_drv.stream_is_capturing) ask =
        how->per_thread ? gm_drv.stream_is_capturing_ptsz : gm_drv.stream_is_capturing;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return ask((CUstream)how->stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static gm_status free_in_order(struct gm_deferred_free *later, const struct gm_block *block,
                               const struct gm_free_request *how) {
    struct gm_deferred_block deferred = deferred_of(block);
    CUstreamCaptureMode mode;
    if (!gm_capture_guard_enter(&mode)) {
        if (!stream_captures(how))
            return gm_deferred_queue_push(&later->after_capture, &deferred);
        /* A graph frees only what it allocated: the answer that the driver has for a free node of other memory. */
        return GM_INVALID_VALUE;
    }
    gm_status status = event_on_stream(how, &deferred);
    if (!status) {
        status = gm_deferred_queue_push(&later->waiting, &deferred);
        if (status)
            gm_internal_event_put(deferred.event_context_id, deferred.event);
    }
    gm_capture_guard_leave(mode);
    if (!status)
        keep_bounds(later);
    return status;
}

gm_status gm_deferred_free_add(struct gm_deferred_free *later, const struct gm_block *block,
                               const struct gm_free_request *how) {
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    if (how->call == GM_CALL_FREE_ASYNC)
        return free_in_order(later, block, how);
    if (how->call != GM_CALL_FREE)
        return GM_INVALID_VALUE;
    gm_status status = free_behind_all(later, block);
    gm_deferred_free_flush(later);
    return status;
}

/* ---- the end of contexts and processes */

static void free_of_context(struct gm_deferred_free *later, struct gm_deferred_queue *queue, uint64_t context_id) {
    struct gm_deferred_block deferred;
    for (uint32_t left = gm_deferred_queue_count(queue); left && gm_deferred_queue_pop(queue, &deferred); left--) {
        if (deferred.context_id != context_id)
            gm_deferred_queue_push(queue, &deferred);
        else if (later->free_now(&deferred) == GM_OK && deferred.event_context_id != context_id)
            gm_internal_event_put(deferred.event_context_id, deferred.event);
    }
    gm_deferred_queue_forget(queue, context_id); /* events of it that hold back blocks of other contexts */
}

void gm_deferred_free_context_destroyed(struct gm_deferred_free *later, uint64_t context_id) {
    free_of_context(later, &later->waiting, context_id);
    free_of_context(later, &later->after_capture, context_id);
}

void gm_deferred_free_after_fork(struct gm_deferred_free *later) {
    later->waiting = later->after_capture = (struct gm_deferred_queue){0};
}
