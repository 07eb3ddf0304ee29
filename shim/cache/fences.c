/* The fences of a cache. Each closed batch of freed blocks gets one fence; later calls query the fence or wait for it.
 * The caller holds the shard's lock. The functions release the lock while they call the driver, and hold the free lists
 * meanwhile (gm_free_lists_hold). */
#include "shim/cache/parts.h"

/* Mostly no device answers at once: after a fence that was pending when it was just recorded, so many are not queried
 * then. */
enum { LEFT_OUT = 15 };

void gm_cache_disable(struct gm_shard *shard, struct gm_free_lists *lists, gm_status status) {
    if (!lists->disabled)
        gm_log(GM_LOG_INFO, "cache: error %d from a fence: freed blocks of this context are no longer reused", status);
    lists->disabled = true;
    gm_free_lists_release_all(shard, lists);
}

/* The answer about a batch that this thread holds. */
static void take_answer(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *batch, gm_status status) {
    if (!status)
        gm_batch_complete(lists, batch);
    else if (status == GM_FENCE_PENDING && batch == lists->first)
        lists->found_pending = gm_ticks();
    else if (!gm_is_put_off(status))
        gm_cache_disable(shard, lists, status);
}

gm_status gm_cache_settle(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *batch, bool wait,
                          bool *destroyed) {
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
    take_answer(shard, lists, batch, status);
    *destroyed = !gm_free_lists_let_go(shard, lists, batch);
    return status;
}

gm_status gm_cache_record(struct gm_shard *shard, struct gm_free_lists *lists, const void *thread,
                          struct gm_batch **recorded, bool *destroyed) {
    struct gm_batch *batch = gm_batch_close(shard, lists), *oldest = lists->first ? lists->first : batch;
    bool query = oldest != batch || !lists->queries_left_out || !lists->queries_left_out--;
    CUcontext context = (CUcontext)(uintptr_t)lists->context;
    uint64_t id = lists->context_id;
    int device = lists->device;
    CUstreamCaptureMode mode;
    gm_status status = GM_FENCE_PENDING, answer = GM_FENCE_PENDING;
    gm_free_lists_hold(lists, batch);
    if (oldest != batch)
        gm_free_lists_hold(lists, oldest);
    gm_spin_unlock(&shard->lock);
    if (gm_capture_guard_enter(&mode)) {
        status = gm_fence_record(&batch->fence, context, id, device);
        if (!status && query)
            answer = gm_fence_query(&oldest->fence);
        gm_capture_guard_leave(mode);
    }
    if (gm_is_capture_error(status))
        status = GM_FENCE_PENDING;
    gm_spin_lock(&shard->lock);
    if (!lists->destroyed) {
        batch->thread = thread;
        if (status == GM_FENCE_PENDING)
            gm_batch_reopen(shard, lists, batch);
        else
            gm_batch_recorded(lists, batch);
        if (lists->disabled || (status && status != GM_FENCE_PENDING))
            gm_cache_disable(shard, lists, status);
        else if (query)
            take_answer(shard, lists, oldest, answer);
        if (query && oldest == batch)
            lists->queries_left_out = answer ? LEFT_OUT : 0;
        if (!lists->open && !lists->disabled)
            gm_batch_open(lists); /* the next free finds it */
    }
    if (oldest != batch)
        gm_free_lists_let_go(shard, lists, oldest);
    *destroyed = !gm_free_lists_let_go(shard, lists, batch);
    *recorded = batch;
    return status;
}
