/* Batches and the fences of their context (timeline.h). The caller holds the shard's lock. The functions release the
 * lock while they call the driver, and hold the free lists meanwhile (gm_free_lists_hold). */
#include "shim/cache/parts.h"

/* Mostly no device answers at once: after a fence that was pending when it was just recorded, so many are not queried
 * then. */
enum { LEFT_OUT = 15 };

/* The driver reported an error for this context. The free lists accept no block any more, and the next frees release
 * all their blocks natively. */
static void disable_lists(struct gm_shard *shard, struct gm_free_lists *lists, gm_status status) {
    if (!lists->disabled)
        gm_log(GM_LOG_INFO, "cache: error %d from a fence: freed blocks of this context are no longer reused", status);
    lists->disabled = true;
    gm_free_lists_release_all(shard, lists);
}

/* Takes the lock again after the driver answered, and makes the blocks ready whose work is done. False: the context was
 * destroyed. */
static bool come_back(struct gm_shard *shard, struct gm_free_lists *lists, gm_status status) {
    gm_spin_lock(&shard->lock);
    gm_batches_complete(lists);
    if (!lists->destroyed && status && status != GM_FENCE_PENDING)
        disable_lists(shard, lists, status);
    return gm_free_lists_let_go(shard, lists);
}

gm_status gm_cache_settle(struct gm_shard *shard, struct gm_free_lists *lists, uint64_t ticket, enum gm_settle how,
                          bool *destroyed) {
    struct gm_fence_timeline *line = lists->timeline;
    struct gm_visit visit = {.record = ticket, .query = ticket};
    gm_batches_complete(lists);
    if (gm_timeline_has_passed(line, ticket))
        return GM_OK;
    if (how == GM_SETTLE_DUE && !gm_timeline_is_due(line, ticket))
        return GM_FENCE_PENDING;
    gm_free_lists_hold(lists);
    gm_spin_unlock(&shard->lock);
    if (how == GM_SETTLE_WAIT)
        visit.answer = gm_timeline_wait(line, ticket);
    else
        gm_timeline_visit(line, &visit);
    *destroyed = !come_back(shard, lists, visit.answer);
    return visit.answer;
}

void gm_cache_record(struct gm_shard *shard, struct gm_free_lists *lists, uint64_t thread, struct gm_closed *closed,
                     bool *destroyed) {
    *closed = gm_batch_close(shard, lists);
    uint64_t oldest = lists->first->ticket;
    bool latest = oldest == closed->ticket;
    bool query = !latest || !lists->queries_left_out || !lists->queries_left_out--;
    struct gm_visit visit = {.record = closed->ticket, .thread = thread, .query = query ? oldest : 0};
    gm_free_lists_hold(lists);
    gm_spin_unlock(&shard->lock);
    gm_timeline_visit(lists->timeline, &visit);
    bool failed = visit.recorded && visit.recorded != GM_FENCE_PENDING;
    *destroyed = !come_back(shard, lists, failed ? visit.recorded : visit.answer);
    if (!*destroyed && query && latest)
        lists->queries_left_out = visit.answer ? LEFT_OUT : 0;
}
