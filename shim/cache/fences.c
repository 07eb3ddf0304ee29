/* Fences of a cache: recorded for a closed batch, asked about, waited for. The shard's lock is held before and after,
 * and let go in between. */
#include "shim/cache/parts.h"

/* The driver cannot be relied on for this context any more: what is kept goes back natively with the next frees. */
void gm_cache_step_aside(struct gm_shard *shard, struct gm_free_lists *lists, gm_status status) {
    if (!lists->aside)
        gm_log(GM_LOG_INFO, "cache: error %d from a fence, nothing is kept for this context any more", status);
    lists->aside = true;
    gm_free_lists_release_all(shard, lists);
}

/* Asks, or waits, whether a recorded batch is complete. *gone: the context went meanwhile and the lists with it. */
gm_status gm_cache_settle(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *batch, bool wait,
                          bool *gone) {
    CUstreamCaptureMode mode;
    gm_status status = GM_FENCE_PENDING;
    gm_free_lists_hold(lists, batch);
    gm_spin_unlock(&shard->lock);
    if (wait) {
        status = gm_fence_wait(&batch->fence);
    } else if (gm_capture_guard_enter(&mode)) {
        status = gm_fence_query(&batch->fence);
        gm_capture_guard_leave(mode);
    }
    if (gm_is_capture_error(status))
        status = GM_FENCE_PENDING;
    gm_spin_lock(&shard->lock);
    if (!status)
        gm_batch_complete(lists, batch);
    else if (status != GM_FENCE_PENDING)
        gm_cache_step_aside(shard, lists, status);
    *gone = !gm_free_lists_let_go(shard, lists, batch);
    return status;
}

/* Closes the open batch and records its fence. GM_FENCE_PENDING: a capture runs, the batch stays open. */
gm_status gm_cache_record(struct gm_shard *shard, struct gm_free_lists *lists, const void *thread,
                          struct gm_batch **recorded, bool *gone) {
    struct gm_batch *batch = gm_batch_close(shard, lists);
    CUcontext context = (CUcontext)(uintptr_t)lists->context;
    uint64_t id = lists->context_id;
    int device = lists->device;
    CUstreamCaptureMode mode;
    gm_status status = GM_FENCE_PENDING;
    gm_free_lists_hold(lists, batch);
    gm_spin_unlock(&shard->lock);
    if (gm_capture_guard_enter(&mode)) {
        status = gm_fence_record(&batch->fence, context, id, device);
        gm_capture_guard_leave(mode);
    }
    if (gm_is_capture_error(status))
        status = GM_FENCE_PENDING;
    gm_spin_lock(&shard->lock);
    *gone = !gm_free_lists_let_go(shard, lists, batch);
    if (*gone)
        return status;
    batch->thread = thread;
    if (status == GM_FENCE_PENDING)
        gm_batch_reopen(shard, lists, batch);
    else
        gm_batch_recorded(lists, batch);
    if (lists->aside || (status && status != GM_FENCE_PENDING))
        gm_cache_step_aside(shard, lists, status);
    *recorded = batch;
    return status;
}
