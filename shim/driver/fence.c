/* Fences as arrays of events, one for each context that may use a block (fence.h says which). Where the driver has no
 * cuCtxRecordEvent, there is one event for each stream of the block's context. */
#include "shim/driver/fence.h"

#include "shim/base/stats.h"
#include "shim/driver/streams.h"

bool gm_fence_supported(void) { return gm_drv.ctx_record_event != NULL || gm_streams_usable(); }

static bool make_current(CUcontext context, bool *pushed) {
    CUcontext current = NULL;
    *pushed = false;
    if (gm_drv.ctx_get_current(&current) == CUDA_SUCCESS && current == context)
        return true;
    *pushed = gm_drv.ctx_push(context) == CUDA_SUCCESS;
    return *pushed;
}

static void restore(bool pushed) {
    CUcontext popped;
    if (pushed)
        gm_drv.ctx_pop(&popped);
}

/* ---- events */

/* Forgets what was recorded before, and the events that were destroyed with their contexts. `context_id`: of the block.
 */
static void forget(struct gm_fence *fence, uint64_t context_id) {
    unsigned remaining = 0;
    fence->count = fence->owners = 0;
    if (GM_LIKELY(fence->event_count == 1 && fence->points[0].context_id == context_id))
        return; /* its recording notices the end of the context */
    for (unsigned i = 0; i < fence->event_count; i++)
        if (gm_context_life(fence->points[i].context, fence->points[i].context_id) != GM_CONTEXT_DESTROYED)
            fence->points[remaining++] = fence->points[i];
    fence->event_count = remaining;
}

/* Puts an event of the context at index i. The caller holds the context. */
static gm_status place_event(struct gm_fence *fence, unsigned i, const struct gm_context *target) {
    struct gm_event_of found;
    unsigned at = i;
    bool pushed;
    while (at < fence->event_count && fence->points[at].context_id != target->id)
        at++;
    if (at < fence->event_count) {
        found = fence->points[at];
        fence->points[at] = fence->points[i];
        fence->points[i] = found;
        return GM_OK;
    }
    if (!make_current(target->handle, &pushed))
        return CUDA_ERROR_INVALID_CONTEXT;
    found = (struct gm_event_of){target->handle, target->id, NULL};
    gm_status status = (gm_status)gm_drv.event_create(&found.event, CU_EVENT_DISABLE_TIMING);
    restore(pushed);
    if (status)
        return status;
    if (fence->event_count < GM_FENCE_POINTS)
        fence->points[fence->event_count++] = fence->points[i];
    else
        gm_event_discard(&fence->points[i]);
    fence->points[i] = found;
    return GM_OK;
}

/* For a driver that cannot record a context: records its streams one by one. What other devices do is not covered. */
_Static_assert(GM_STREAMS_MOST + GM_STREAMS_OWN <= GM_FENCE_POINTS, "each stream gets a point");

static gm_status record_streams(struct gm_fence *fence, const struct gm_context *target) {
    CUstream streams[GM_FENCE_POINTS];
    gm_status status = GM_NOT_SUPPORTED;
    bool pushed;
    if (gm_context_other(target->device) || !make_current(target->handle, &pushed))
        return GM_NOT_SUPPORTED;
    unsigned count = gm_streams_hold(target->handle, streams, GM_FENCE_POINTS);
    for (unsigned i = 0; i < count; i++) {
        status = place_event(fence, i, target);
        if (!status)
            status = (gm_status)gm_drv.event_record(fence->points[i].event, streams[i]);
        if (status)
            break;
    }
    if (count)
        gm_streams_release();
    restore(pushed);
    fence->count = fence->owners = status ? 0 : count;
    return status;
}

static gm_status record_context(struct gm_fence *fence, const struct gm_context *target) {
    gm_status status = GM_OK;
    if (GM_UNLIKELY(fence->count >= fence->event_count || fence->points[fence->count].context_id != target->id))
        status = place_event(fence, fence->count, target);
    if (!status)
        status = (gm_status)gm_drv.ctx_record_event(target->handle, fence->points[fence->count].event);
    fence->count += status == GM_OK;
    return status;
}

/* A context that ended has no work to record, unless it is the block's own. */
static gm_status record_held(struct gm_fence *fence, const struct gm_context *target, bool own) {
    int hold = gm_context_hold(target->handle, target->id);
    if (hold < 0)
        return hold == GM_CONTEXT_DESTROYED && !own ? GM_OK : GM_FENCE_PENDING;
    gm_status status = gm_drv.ctx_record_event ? record_context(fence, target) : record_streams(fence, target);
    gm_context_let_go(hold);
    if (gm_is_destroyed_error(status))
        return own ? GM_FENCE_PENDING : GM_OK;
    return status;
}

static gm_status record_contexts(struct gm_fence *fence, const struct gm_context *targets, unsigned count,
                                 unsigned owners) {
    for (unsigned i = 0; i < count; i++) {
        gm_status status = record_held(fence, &targets[i], i == 0);
        if (status) {
            fence->count = 0;
            return status;
        }
        if (i + 1 == owners)
            fence->owners = fence->count;
    }
    gm_stats_fence_recorded();
    return GM_OK;
}

gm_status gm_fence_record(struct gm_fence *fence, CUcontext context, uint64_t context_id, CUdevice device) {
    struct gm_context targets[GM_FENCE_POINTS];
    unsigned count, owners;
    targets[0] = (struct gm_context){.handle = context, .id = context_id, .device = device};
    forget(fence, context_id);
    if (!gm_drv.ctx_record_event)
        return record_held(fence, &targets[0], true);
    count = gm_context_users(targets, GM_FENCE_POINTS, &owners);
    if (count > GM_FENCE_POINTS)
        return GM_NOT_SUPPORTED;
    return record_contexts(fence, targets, count, owners);
}

gm_status gm_fence_record_owner(struct gm_fence *fence, const struct gm_context *context, bool primary) {
    struct gm_context targets[2] = {*context};
    unsigned count = 1;
    forget(fence, context->id);
    if (primary)
        gm_context_users(targets, 2, &count);
    return record_contexts(fence, targets, count, count);
}

static bool is_own(const struct gm_fence *fence, unsigned i) {
    return fence->points[i].context_id == fence->points[0].context_id;
}

gm_status gm_fence_query(const struct gm_fence *fence) {
    gm_status status = GM_OK;
    gm_stats_fence_queried();
    for (unsigned i = 0; i < fence->count && !status; i++)
        status = gm_event_query(&fence->points[i], is_own(fence, i));
    return status;
}

gm_status gm_fence_wait(const struct gm_fence *fence) {
    gm_status status = GM_OK;
    uint64_t begin = gm_ticks();
    CUstreamCaptureMode mode = gm_capture_relax();
    for (unsigned i = 0; i < fence->count && !status; i++)
        status = i < fence->owners ? gm_event_wait(&fence->points[i], is_own(fence, i))
                                   : gm_event_query(&fence->points[i], false);
    gm_capture_unrelax(mode);
    gm_stats_fence_waited(gm_ticks_span_ns(gm_ticks() - begin));
    return status;
}

gm_status gm_fence_order(const struct gm_fence *fence, CUcontext context) {
    gm_status status = GM_OK;
    for (unsigned i = 0; i < fence->count && !status; i++)
        status = gm_event_order(&fence->points[i], is_own(fence, i), context);
    return status;
}

void gm_fence_discard(struct gm_fence *fence) {
    for (unsigned i = 0; i < fence->event_count; i++)
        gm_event_discard(&fence->points[i]);
    *fence = (struct gm_fence){0};
}
