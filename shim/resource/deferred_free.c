/* Deferred frees (deferred_free.h). A deferred block waits in one of two queues: `waiting` holds blocks whose fence is
 * recorded, `after_capture` holds blocks whose fence must not be recorded before the capture ends. gpumem has no
 * background thread, so later calls of the resource free what has become complete. */
#include "shim/resource/deferred_free.h"

#include <string.h>

#include "shim/driver/fence.h"
#include "shim/driver/in_flight.h"
#include "shim/driver/internal_stream.h"

/* When more than this waits, a free waits for the oldest block. */
#define WAITING_BLOCKS 64
#define WAITING_BYTES  ((uint64_t)256 << 20)

/* ---- fences */

/* No fence is needed when the block's context was destroyed with its work. */
static gm_status fence_all_work(struct gm_deferred_block *deferred) {
    const struct gm_context context = {
        .handle = (CUcontext)(uintptr_t)deferred->context, .id = deferred->context_id, .device = deferred->device};
    if (gm_context_life(context.handle, context.id) == GM_CONTEXT_DESTROYED)
        return GM_OK;
    if (!(deferred->fence = gm_fence_take()))
        return GM_OUT_OF_MEMORY;
    gm_status status = gm_fence_record_or_wait(deferred->fence, &context, GM_FENCE_COPIES);
    return status == GM_NOT_SUPPORTED ? GM_FENCE_PENDING : status; /* too many contexts: tried again later */
}

static gm_status fence_stream(struct gm_deferred_block *deferred, const struct gm_free_request *how) {
    if (!(deferred->fence = gm_fence_take()))
        return GM_OUT_OF_MEMORY;
    return gm_fence_record_stream(deferred->fence, (CUstream)how->stream, how->per_thread, deferred->context_id);
}

static gm_status free_deferred(const struct gm_deferred_free *frees, const struct gm_deferred_block *deferred) {
    struct gm_context_held held;
    if (!frees->in_context)
        return frees->free_now(deferred);
    gm_status status = gm_context_enter_held((CUcontext)(uintptr_t)deferred->context, deferred->context_id, &held);
    if (status)
        return status == CUDA_ERROR_CONTEXT_IS_DESTROYED ? GM_OK : status;
    status = frees->free_now(deferred);
    gm_context_leave_held(&held);
    return status;
}

static void drop_fence(struct gm_deferred_block *deferred) {
    gm_fence_give(deferred->fence);
    deferred->fence = NULL;
}

/* Frees the block if its fence is complete or its context was destroyed. `wait`: waits as gm_fence_wait does. Runs in
 * relaxed capture mode instead of under the capture guard: a wait may be long, and a relaxed thread disturbs no capture
 * that begins meanwhile. */
static gm_status free_after_fence(struct gm_deferred_free *frees, const struct gm_deferred_block *deferred, bool wait) {
    gm_status status = GM_OK;
    CUstreamCaptureMode mode = gm_capture_relax();
    if (deferred->fence)
        status = wait ? gm_fence_wait(deferred->fence) : gm_fence_query(deferred->fence);
    if (!status ||
        gm_context_life((CUcontext)(uintptr_t)deferred->context, deferred->context_id) == GM_CONTEXT_DESTROYED)
        status = free_deferred(frees, deferred);
    gm_capture_unrelax(mode);
    return status;
}

/* ---- the queues */

/* Frees the oldest waiting block if its fence is complete; `wait`: waits for the fence. False: nothing was freed. */
static bool free_oldest(struct gm_deferred_free *frees, bool wait) {
    struct gm_deferred_block deferred;
    if (!gm_deferred_queue_pop(&frees->pending.waiting, &deferred))
        return false;
    if (free_after_fence(frees, &deferred, wait)) {
        gm_deferred_queue_unpop(&frees->pending.waiting, &deferred);
        return false;
    }
    drop_fence(&deferred);
    return true;
}

/* Frees a block that was removed from `after_capture`, or records its fence and moves it to `waiting`. Runs under the
 * capture guard. On failure the block is unchanged. */
static gm_status schedule(struct gm_deferred_free *frees, struct gm_deferred_block *deferred) {
    if (frees->waits_itself)
        return free_deferred(frees, deferred);
    gm_status status = fence_all_work(deferred);
    if (!status)
        status = gm_deferred_queue_push(&frees->pending.waiting, deferred);
    if (status)
        drop_fence(deferred);
    return status;
}

static void schedule_all(struct gm_deferred_free *frees) {
    struct gm_deferred_block deferred;
    for (uint32_t remaining = gm_deferred_queue_count(&frees->pending.after_capture);
         remaining && gm_deferred_queue_pop(&frees->pending.after_capture, &deferred); remaining--)
        if (schedule(frees, &deferred)) {
            gm_deferred_queue_unpop(&frees->pending.after_capture, &deferred);
            break;
        }
}

/* No stream captures any more: blocks that were freed during a capture are freed now, or wait for the work that was
 * submitted meanwhile. */
static void captures_over(struct gm_deferred_free *frees) {
    CUstreamCaptureMode mode;
    if (!gm_deferred_queue_count(&frees->pending.after_capture) || !gm_capture_guard_enter(&mode))
        return;
    schedule_all(frees);
    gm_capture_guard_leave(mode);
}

void gm_deferred_free_flush(struct gm_deferred_free *frees) {
    if (GM_LIKELY(!gm_deferred_queue_count(&frees->pending.waiting) &&
                  !gm_deferred_queue_count(&frees->pending.after_capture)))
        return;
    if (!gm_spin_try(&frees->pending.flushing))
        return;
    captures_over(frees);
    while (!gm_capture_any() && free_oldest(frees, false))
        ;
    gm_spin_unlock(&frees->pending.flushing);
}

static uint64_t pending_bytes(const struct gm_deferred_free *frees) {
    return gm_deferred_queue_bytes(&frees->pending.waiting) + gm_deferred_queue_bytes(&frees->pending.after_capture);
}

uint64_t gm_deferred_free_drain(struct gm_deferred_free *frees) {
    uint64_t before = pending_bytes(frees);
    if (frees->waits_itself) {
        CUstreamCaptureMode mode = gm_capture_relax();
        schedule_all(frees);
        gm_capture_unrelax(mode);
    } else {
        captures_over(frees);
    }
    while (free_oldest(frees, true))
        ;
    uint64_t after = pending_bytes(frees);
    return before > after ? before - after : 0;
}

static void keep_bounds(struct gm_deferred_free *frees) {
    while (!gm_capture_any() &&
           (gm_deferred_queue_count(&frees->pending.waiting) > WAITING_BLOCKS ||
            gm_deferred_queue_bytes(&frees->pending.waiting) > WAITING_BYTES) &&
           free_oldest(frees, true))
        ;
}

/* ---- the two kinds of free */

static gm_status free_after_all_work(struct gm_deferred_free *frees, const struct gm_block *block, bool wait,
                                     bool *kept) {
    struct gm_deferred_block deferred = gm_deferred_block_of(block);
    CUstreamCaptureMode mode;
    if (frees->waits_itself)
        return gm_capture_any() ? gm_deferred_queue_push(&frees->pending.after_capture, &deferred)
                                : free_after_fence(frees, &deferred, true);
    if (!gm_capture_guard_enter(&mode))
        return gm_deferred_queue_push(&frees->pending.after_capture, &deferred);
    gm_status status = fence_all_work(&deferred);
    gm_capture_guard_leave(mode);
    if (status)
        drop_fence(&deferred);
    if (gm_is_put_off(status))
        return gm_deferred_queue_push(&frees->pending.after_capture, &deferred);
    if (status)
        return status;
    deferred.kept = kept;
    status = wait ? free_after_fence(frees, &deferred, true) : GM_FENCE_PENDING;
    if (status == GM_FENCE_PENDING) /* work of another device, or another thread may be destroying the context */
        status = gm_deferred_queue_push(&frees->pending.waiting, &deferred);
    else
        drop_fence(&deferred);
    return status;
}

static gm_status free_in_order(struct gm_deferred_free *frees, const struct gm_block *block,
                               const struct gm_free_request *how) {
    struct gm_deferred_block deferred = gm_deferred_block_of(block);
    CUstreamCaptureMode mode;
    if (!gm_capture_guard_enter(&mode)) {
        if (!gm_capture_on((CUstream)how->stream, how->per_thread))
            return gm_deferred_queue_push(&frees->pending.after_capture, &deferred);
        /* A graph frees only memory that it allocated. The driver gives this error for a free node of other memory. */
        return GM_INVALID_VALUE;
    }
    gm_status status = fence_stream(&deferred, how);
    if (!status)
        status = gm_deferred_queue_push(&frees->pending.waiting, &deferred);
    if (status)
        drop_fence(&deferred);
    gm_capture_guard_leave(mode);
    if (!status)
        keep_bounds(frees);
    return status;
}

gm_status gm_deferred_free_add(struct gm_deferred_free *frees, const struct gm_block *block,
                               const struct gm_free_request *how) {
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    gm_watch_kept();
    if (how->call == GM_CALL_FREE_ASYNC)
        return free_in_order(frees, block, how);
    if (how->call != GM_CALL_FREE)
        return GM_INVALID_VALUE;
    gm_status status = free_after_all_work(frees, block, true, how->kept);
    gm_deferred_free_flush(frees);
    return status;
}

gm_status gm_deferred_free_later(struct gm_deferred_free *frees, const struct gm_block *block) {
    gm_watch_kept();
    gm_status status = free_after_all_work(frees, block, false, NULL);
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
        else if (free_deferred(frees, &deferred) == GM_OK)
            drop_fence(&deferred);
    }
}

void gm_deferred_free_context_destroyed(struct gm_deferred_free *frees, uint64_t context_id) {
    free_of_context(frees, &frees->pending.waiting, context_id);
    free_of_context(frees, &frees->pending.after_capture, context_id);
}

void gm_deferred_free_after_fork(struct gm_deferred_free *frees) { memset(&frees->pending, 0, sizeof frees->pending); }

/* ---- ops */

gm_status gm_deferred_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    return gm_deferred_free_add(self->ops->deferred, block, how);
}

void gm_deferred_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    gm_deferred_free_context_destroyed(self->ops->deferred, context_id);
}

void gm_deferred_capture(struct gm_resource *self, int change) {
    if (change < 0 && gm_driver_ready(false))
        captures_over(self->ops->deferred);
}

void gm_deferred_capture_flush(struct gm_resource *self, int change) {
    if (change < 0 && gm_driver_ready(false))
        gm_deferred_free_flush(self->ops->deferred);
}
