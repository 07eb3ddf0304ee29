/* Fences as arrays of events, one for each context that may use a block (fence.h says which). Where the driver has no
 * cuCtxRecordEvent, there is one event for each stream of the block's context. */
#include "shim/driver/fence.h"

#include "shim/base/nodes.h"
#include "shim/accounts/stats.h"
#include "shim/driver/internal_stream.h"
#include "shim/driver/streams.h"

bool gm_fence_supported(void) { return gm_drv.ctx_record_event != NULL || gm_streams_usable(); }

/* ---- events */

/* Forgets what was recorded before, and the events that were destroyed with their contexts. `context_id`: of the block.
 */
static void forget_events(struct gm_fence *fence, uint64_t context_id) {
    unsigned remaining = 0;
    fence->context_id = context_id;
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
    if (gm_context_enter(target->handle, &pushed))
        return CUDA_ERROR_INVALID_CONTEXT;
    found = (struct gm_event_of){target->handle, target->id, NULL};
    gm_status status = gm_drv.event_create(&found.event, CU_EVENT_DISABLE_TIMING);
    gm_context_leave(pushed);
    if (status)
        return status;
    if (fence->event_count < GM_FENCE_POINTS)
        fence->points[fence->event_count++] = fence->points[i];
    else
        gm_event_discard(&fence->points[i]);
    fence->points[i] = found;
    return GM_OK;
}

static bool is_own(const struct gm_fence *fence, unsigned i) {
    return fence->points[i].context_id == fence->context_id;
}

/* For a driver that cannot record a context: records its streams one by one. What other devices do is not covered. */
_Static_assert(GM_STREAMS_MOST + GM_STREAMS_OWN <= GM_FENCE_POINTS, "each stream gets a point");

static gm_status record_streams(struct gm_fence *fence, const struct gm_context *target) {
    CUstream streams[GM_FENCE_POINTS];
    gm_status status = GM_NOT_SUPPORTED;
    bool pushed;
    if (gm_context_other(target->device) || gm_context_enter(target->handle, &pushed))
        return GM_NOT_SUPPORTED;
    unsigned count = gm_streams_hold(target->handle, streams, GM_FENCE_POINTS);
    for (unsigned i = 0; i < count; i++) {
        status = place_event(fence, i, target);
        if (!status)
            status = gm_drv.event_record(fence->points[i].event, streams[i]);
        if (status)
            break;
    }
    if (count)
        gm_streams_release();
    gm_context_leave(pushed);
    fence->count = fence->owners = status ? 0 : count;
    return status;
}

static gm_status record_context(struct gm_fence *fence, const struct gm_context *target) {
    gm_status status = GM_OK;
    if (GM_UNLIKELY(fence->count >= fence->event_count || fence->points[fence->count].context_id != target->id))
        status = place_event(fence, fence->count, target);
    if (!status)
        status = gm_drv.ctx_record_event(target->handle, fence->points[fence->count].event);
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

gm_status gm_fence_record(struct gm_fence *fence, const struct gm_context *context, enum gm_fence_reach reach) {
    struct gm_context targets[GM_FENCE_POINTS];
    unsigned count = 1, owners = 1;
    targets[0] = *context;
    forget_events(fence, context->id);
    if (reach > GM_FENCE_OWN && GM_LIKELY(gm_drv.ctx_record_event != NULL))
        count = gm_context_users(targets, GM_FENCE_POINTS, reach == GM_FENCE_COPIES, &owners);
    if (reach <= GM_FENCE_DEVICE)
        count = owners;
    if (count > GM_FENCE_POINTS)
        return GM_NOT_SUPPORTED;
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

/* Another thread may end the context; its work is done then. */
static gm_status wait_for_context(const struct gm_context *context) {
    struct gm_context_held held;
    gm_status status = gm_context_enter_held(context->handle, context->id, &held);
    if (status)
        return status == CUDA_ERROR_CONTEXT_IS_DESTROYED ? GM_OK : status;
    status = gm_drv.ctx_synchronize();
    gm_context_leave_held(&held);
    return gm_is_destroyed_error(status) ? GM_OK : status;
}

gm_status gm_fence_record_or_wait(struct gm_fence *fence, const struct gm_context *context, enum gm_fence_reach reach) {
    struct gm_context users[GM_CONTEXT_USERS] = {*context};
    unsigned count, owners;
    gm_status status = GM_OK;
    if (gm_drv.ctx_record_event)
        return gm_fence_record(fence, context, reach);
    forget_events(fence, context->id);
    count = gm_context_users(users, GM_CONTEXT_USERS, false, &owners);
    if (count > GM_CONTEXT_USERS)
        return GM_NOT_SUPPORTED;
    for (unsigned i = 0; i < (reach > GM_FENCE_DEVICE ? count : owners) && !status; i++)
        status = wait_for_context(&users[i]);
    return status;
}

static gm_status record_stream(struct gm_fence *fence, CUstream stream, bool per_thread) {
    __typeof__(gm_drv.event_record) record = per_thread ? gm_drv.event_record_ptsz : gm_drv.event_record;
    struct gm_context context;
    gm_status status = gm_context_current(&context) ? place_event(fence, 0, &context) : GM_INVALID_CONTEXT;
    if (!status)
        status = record(fence->points[0].event, stream);
    fence->count = status == GM_OK;
    fence->owners = fence->count && is_own(fence, 0);
    return status;
}

gm_status gm_fence_record_stream(struct gm_fence *fence, CUstream stream, bool per_thread, uint64_t context_id) {
    CUcontext owner = NULL;
    bool pushed = false;
    gm_status status = GM_OK;
    if (stream > CU_STREAM_PER_THREAD && gm_drv.stream_get_ctx)
        status = gm_drv.stream_get_ctx(stream, &owner);
    if (!status && owner && gm_context_enter(owner, &pushed))
        status = GM_INVALID_CONTEXT;
    if (status)
        return status;
    forget_events(fence, context_id);
    status = record_stream(fence, stream, per_thread);
    gm_context_leave(pushed);
    return status;
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

gm_status gm_fence_order(const struct gm_fence *fence, CUstream stream) {
    gm_status status = GM_OK;
    for (unsigned i = 0; i < fence->count && !status; i++)
        status = gm_event_order(&fence->points[i], is_own(fence, i), NULL, stream);
    return status;
}

void gm_fence_discard(struct gm_fence *fence) {
    for (unsigned i = 0; i < fence->event_count; i++)
        gm_event_discard(&fence->points[i]);
    *fence = (struct gm_fence){0};
}

/* ---- fences of single blocks. Those that are not in use keep their events. */

struct spare {
    void *next;
    struct gm_fence fence;
};
static gm_nodes spares;
GM_LOCK(spares_lock);
GM_ZERO_IN_CHILD(spares);

struct gm_fence *gm_fence_take(void) {
    gm_spin_lock(&spares_lock);
    struct spare *spare = gm_node_take(&spares, sizeof *spare, &spares_lock);
    gm_spin_unlock(&spares_lock);
    return spare ? &spare->fence : NULL;
}

void gm_fence_give(struct gm_fence *fence) {
    if (!fence)
        return;
    gm_spin_lock(&spares_lock);
    gm_node_give(&spares, (char *)fence - offsetof(struct spare, fence));
    gm_spin_unlock(&spares_lock);
}

gm_status gm_fence_stream_behind(CUcontext context, uint64_t context_id, CUdevice device, CUstream stream) {
    const struct gm_context of = {.handle = context, .id = context_id, .device = device};
    struct gm_fence *fence = gm_fence_take();
    gm_status status = fence ? gm_fence_record_or_wait(fence, &of, GM_FENCE_DEVICE) : GM_OUT_OF_MEMORY;
    if (!status)
        status = gm_fence_order(fence, stream);
    gm_fence_give(fence); /* cuStreamWaitEvent uses the event's present state, so it may be recorded again at once */
    return status;
}
