/* Fences of a cache: recorded for a closed batch, asked about, waited for. The shard's lock is held before and after, and let go in
 * between. */
#include "shim/cache/parts.h"

/* The driver cannot be relied on for this context any more: what is kept goes back natively with the next frees. */
void gm_cache_step_aside(struct gm_shard *shard, struct gm_shelf *shelf, gm_status status) {
    if (!shelf->aside)
        gm_log(GM_LOG_INFO, "cache: error %d from a fence, nothing is kept for this context any more", status);
    shelf->aside = true;
    gm_shelf_condemn_all(shard, shelf);
}

/* Asks, or waits, whether a recorded batch is complete. *gone: the context went meanwhile and the shelf with it. */
gm_status gm_cache_settle(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_batch *batch, bool wait, bool *gone) {
    CUstreamCaptureMode mode;
    gm_status status = GM_FENCE_PENDING;
    gm_shelf_hold(shelf, batch);
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
        gm_shelf_complete(shelf, batch);
    else if (status != GM_FENCE_PENDING)
        gm_cache_step_aside(shard, shelf, status);
    *gone = !gm_shelf_release(shard, shelf, batch);
    return status;
}

/* Closes the open batch and records its fence. GM_FENCE_PENDING: a capture runs, the batch stays open. */
gm_status gm_cache_record(struct gm_shard *shard, struct gm_shelf *shelf, const void *thread, struct gm_batch **recorded, bool *gone) {
    struct gm_batch *batch = gm_shelf_close(shard, shelf);
    CUcontext context = (CUcontext)(uintptr_t)shelf->context;
    uint64_t id = shelf->context_id;
    int device = shelf->device;
    CUstreamCaptureMode mode;
    gm_status status = GM_FENCE_PENDING;
    gm_shelf_hold(shelf, batch);
    gm_spin_unlock(&shard->lock);
    if (gm_capture_guard_enter(&mode)) {
        status = gm_fence_record(&batch->fence, context, id, device);
        gm_capture_guard_leave(mode);
    }
    if (gm_is_capture_error(status))
        status = GM_FENCE_PENDING;
    gm_spin_lock(&shard->lock);
    *gone = !gm_shelf_release(shard, shelf, batch);
    if (*gone)
        return status;
    batch->thread = thread;
    if (status == GM_FENCE_PENDING)
        gm_shelf_reopen(shard, shelf, batch);
    else
        gm_shelf_recorded(shelf, batch);
    if (shelf->aside || (status && status != GM_FENCE_PENDING))
        gm_cache_step_aside(shard, shelf, status);
    *recorded = batch;
    return status;
}
