/* Deferred frees (deferred_free.h). A deferred block waits in one of two queues: `waiting` holds blocks whose event is
 * recorded, `after_capture` holds blocks whose event must not be recorded before the capture ends. gpumem has no
 * background thread, so later calls of the resource free what has become complete. */
#include "shim/resource/deferred_free.h"

#include "shim/driver/fence.h"
#include "shim/driver/internal_stream.h"

/* When more than this waits, a free waits for the oldest block. */
#define WAITING_BLOCKS 64
#define WAITING_BYTES  ((uint64_t)256 << 20)

/* ---- events */

static void set_event(struct gm_deferred_block *deferred, const struct gm_internal *internal, CUevent event) {
    deferred->event = event;
    deferred->event_context = (uint64_t)(uintptr_t)internal->context;
    deferred->event_context_id = internal->id;
}

static gm_status record_after_all_work(struct gm_deferred_block *deferred, const struct gm_internal *internal) {
    CUstream stream;
    CUevent event;
    bool pushed;
    gm_status status = gm_context_enter(internal->context, &pushed);
    if (status)
        return status;
    status = gm_internal_stream_after_users(internal, &stream);
    if (!status)
        status = gm_internal_event_take(internal, &event);
    if (!status) {
        status = (gm_status)gm_drv.event_record(event, stream);
        if (status)
            gm_internal_event_put(internal->id, event);
        else
            set_event(deferred, internal, event);
    }
    gm_context_leave(pushed);
    return status;
}

/* Records an event after all work that may use the block: the internal stream waits for this work, and the event is
 * recorded in the internal stream. No event is recorded when the block's context was destroyed with its work. */
static gm_status event_after_all_work(struct gm_deferred_block *deferred) {
    CUcontext context = (CUcontext)(uintptr_t)deferred->context;
    struct gm_internal internal;
    int hold = gm_context_hold(context, deferred->context_id);
    if (hold < 0)
        return hold == GM_CONTEXT_DESTROYED ? GM_OK : GM_FENCE_PENDING;
    gm_status status = GM_NOT_SUPPORTED;
    if (gm_internal_of(context, deferred->context_id, deferred->device, &internal))
        status = record_after_all_work(deferred, &internal);
    gm_context_let_go(hold);
    return status;
}

/* Records an event after the work of the stream, in the stream's own context. */
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
            set_event(deferred, &internal, event);
    }
    gm_context_leave(pushed);
    return status;
}

/* Frees the block if its event is complete or its context was destroyed. `wait`: waits for an event of the block's own
 * context. Runs in relaxed capture mode instead of under the capture guard: a wait may be long, and a relaxed thread
 * disturbs no capture that begins meanwhile. */
static gm_status free_after_event(struct gm_deferred_free *frees, const struct gm_deferred_block *deferred, bool wait) {
    const struct gm_event_of event = {(CUcontext)(uintptr_t)deferred->event_context, deferred->event_context_id,
                                      deferred->event};
    bool same_context = deferred->event_context_id == deferred->context_id;
    gm_status status = GM_OK;
    CUstreamCaptureMode mode = gm_capture_relax();
    if (deferred->event)
        status = wait && same_context ? gm_event_wait(&event, false) : gm_event_query(&event, false);
    if (!status ||
        gm_context_life((CUcontext)(uintptr_t)deferred->context, deferred->context_id) == GM_CONTEXT_DESTROYED)
        status = frees->free_now(deferred);
    gm_capture_unrelax(mode);
    return status;
}

/* ---- the queues */

/* Frees the oldest waiting block if its event is complete; `wait`: waits for the event. False: nothing was freed. */
static bool free_oldest(struct gm_deferred_free *frees, bool wait) {
    struct gm_deferred_block deferred;
    if (!gm_deferred_queue_pop(&frees->waiting, &deferred))
        return false;
    if (free_after_event(frees, &deferred, wait)) {
        gm_deferred_queue_unpop(&frees->waiting, &deferred);
        return false;
    }
    gm_internal_event_put(deferred.event_context_id, deferred.event);
    return true;
}

/* Frees a block that was removed from `after_capture`, or records its event and moves it to `waiting`. Runs under the
 * capture guard. On failure the block is unchanged. */
static gm_status schedule(struct gm_deferred_free *frees, struct gm_deferred_block *deferred) {
    if (frees->waits_itself)
        return frees->free_now(deferred);
    gm_status status = event_after_all_work(deferred);
    if (!status && (status = gm_deferred_queue_push(&frees->waiting, deferred)) != GM_OK)
        gm_internal_event_put(deferred->event_context_id, deferred->event);
    if (status)
        deferred->event = NULL;
    return status;
}

static void schedule_all(struct gm_deferred_free *frees) {
    struct gm_deferred_block deferred;
    for (uint32_t remaining = gm_deferred_queue_count(&frees->after_capture);
         remaining && gm_deferred_queue_pop(&frees->after_capture, &deferred); remaining--)
        if (schedule(frees, &deferred)) {
            gm_deferred_queue_unpop(&frees->after_capture, &deferred);
            break;
        }
}

void gm_deferred_free_captures_over(struct gm_deferred_free *frees) {
    CUstreamCaptureMode mode;
    if (!gm_deferred_queue_count(&frees->after_capture) || !gm_capture_guard_enter(&mode))
        return;
    schedule_all(frees);
    gm_capture_guard_leave(mode);
}

void gm_deferred_free_flush(struct gm_deferred_free *frees) {
    if (GM_LIKELY(!gm_deferred_queue_count(&frees->waiting) && !gm_deferred_queue_count(&frees->after_capture)))
        return;
    gm_deferred_free_captures_over(frees);
    while (!gm_capture_any() && free_oldest(frees, false))
        ;
}

uint64_t gm_deferred_free_drain(struct gm_deferred_free *frees) {
    uint64_t before = gm_deferred_queue_bytes(&frees->waiting) + gm_deferred_queue_bytes(&frees->after_capture);
    if (frees->waits_itself) {
        CUstreamCaptureMode mode = gm_capture_relax();
        schedule_all(frees);
        gm_capture_unrelax(mode);
    } else {
        gm_deferred_free_captures_over(frees);
    }
    while (free_oldest(frees, true))
        ;
    uint64_t after = gm_deferred_queue_bytes(&frees->waiting) + gm_deferred_queue_bytes(&frees->after_capture);
    return before > after ? before - after : 0;
}

static void keep_bounds(struct gm_deferred_free *frees) {
    while (!gm_capture_any() &&
           (gm_deferred_queue_count(&frees->waiting) > WAITING_BLOCKS ||
            gm_deferred_queue_bytes(&frees->waiting) > WAITING_BYTES) &&
           free_oldest(frees, true))
        ;
}

/* ---- the two kinds of free */

static gm_status free_after_all_work(struct gm_deferred_free *frees, const struct gm_block *block) {
    struct gm_deferred_block deferred = gm_deferred_block_of(block);
    CUstreamCaptureMode mode;
    if (frees->waits_itself)
        return gm_capture_any() ? gm_deferred_queue_push(&frees->after_capture, &deferred)
                                : free_after_event(frees, &deferred, true);
    if (!gm_capture_guard_enter(&mode))
        return gm_deferred_queue_push(&frees->after_capture, &deferred);
    gm_status status = event_after_all_work(&deferred);
    gm_capture_guard_leave(mode);
    if (gm_is_put_off(status))
        return gm_deferred_queue_push(&frees->after_capture, &deferred);
    if (status)
        return status;
    status = free_after_event(frees, &deferred, true);
    if (status == GM_FENCE_PENDING) /* another thread may be destroying the context */
        status = gm_deferred_queue_push(&frees->waiting, &deferred);
    else
        gm_internal_event_put(deferred.event_context_id, deferred.event);
    return status;
}

static gm_status free_in_order(struct gm_deferred_free *frees, const struct gm_block *block,
                               const struct gm_free_request *how) {
    struct gm_deferred_block deferred = gm_deferred_block_of(block);
    CUstreamCaptureMode mode;
    if (!gm_capture_guard_enter(&mode)) {
        if (!gm_capture_on((CUstream)how->stream, how->per_thread))
            return gm_deferred_queue_push(&frees->after_capture, &deferred);
        /* A graph frees only memory that it allocated. The driver gives this error for a free node of other memory. */
        return GM_INVALID_VALUE;
    }
    gm_status status = event_on_stream(how, &deferred);
    if (!status) {
        status = gm_deferred_queue_push(&frees->waiting, &deferred);
        if (status)
            gm_internal_event_put(deferred.event_context_id, deferred.event);
    }
    gm_capture_guard_leave(mode);
    if (!status)
        keep_bounds(frees);
    return status;
}

gm_status gm_deferred_free_add(struct gm_deferred_free *frees, const struct gm_block *block,
                               const struct gm_free_request *how) {
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    if (how->call == GM_CALL_FREE_ASYNC)
        return free_in_order(frees, block, how);
    if (how->call != GM_CALL_FREE)
        return GM_INVALID_VALUE;
    gm_status status = free_after_all_work(frees, block);
    gm_deferred_free_flush(frees);
    return status;
}

/* ---- destroyed contexts and fork */

static void free_of_context(struct gm_deferred_free *frees, struct gm_deferred_queue *queue, uint64_t context_id) {
    struct gm_deferred_block deferred;
    for (uint32_t remaining = gm_deferred_queue_count(queue); remaining && gm_deferred_queue_pop(queue, &deferred);
         remaining--) {
        if (deferred.context_id != context_id)
            gm_deferred_queue_push(queue, &deferred);
        else if (frees->free_now(&deferred) == GM_OK && deferred.event_context_id != context_id)
            gm_internal_event_put(deferred.event_context_id, deferred.event);
    }
    gm_deferred_queue_forget(queue, context_id); /* its events on which blocks of other contexts wait */
}

void gm_deferred_free_context_destroyed(struct gm_deferred_free *frees, uint64_t context_id) {
    free_of_context(frees, &frees->waiting, context_id);
    free_of_context(frees, &frees->after_capture, context_id);
}

void gm_deferred_free_after_fork(struct gm_deferred_free *frees) {
    frees->waiting = frees->after_capture = (struct gm_deferred_queue){0};
}
