#include "shim/driver/fence.h"

#include "shim/base/stats.h"
#include "shim/driver/streams.h"

bool gm_fence_supported(void) { return gm_drv.ctx_record_event != NULL || gm_streams_usable(); }

/* ---- the contexts whose work counts */

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

/* The primary context if it lives; it may never have been current while green contexts of it work. */
static bool primary_of(CUdevice device, struct gm_context *primary) {
    CUcontext handle = gm_context_primary(device);
    unsigned flags;
    int active = 0;
    bool pushed;
    if (!handle || gm_context_find(handle, primary))
        return handle != NULL;
    if (gm_drv.primary_get_state(device, &flags, &active) != CUDA_SUCCESS || !active || !make_current(handle, &pushed))
        return false;
    bool known = gm_context_current(primary);
    restore(pushed);
    return known;
}

static bool add(struct gm_context *targets, unsigned *count, const struct gm_context *context) {
    for (unsigned i = 0; i < *count; i++)
        if (targets[i].handle == context->handle)
            return true;
    if (*count == GM_FENCE_POINTS)
        return false;
    targets[(*count)++] = *context;
    return true;
}

static bool gather(struct gm_context *targets, unsigned *count, CUcontext context, uint64_t context_id, CUdevice device) {
    struct gm_context peers[GM_FENCE_POINTS], primary;
    targets[0] = (struct gm_context){.handle = context, .id = context_id, .device = device};
    *count = 1;
    if (gm_context_primary(device) != context && primary_of(device, &primary) && !add(targets, count, &primary))
        return false;
    unsigned reach = gm_context_reach(device, peers, GM_FENCE_POINTS);
    if (reach > GM_FENCE_POINTS)
        return false;
    for (unsigned i = 0; i < reach; i++) {
        if (!add(targets, count, &peers[i]))
            return false;
        if (gm_context_primary(peers[i].device) != peers[i].handle && primary_of(peers[i].device, &primary) &&
            !add(targets, count, &primary))
            return false;
    }
    return true;
}

/* ---- events */

/* Brings an event of the context to place i. */
static gm_status place_event(struct gm_fence *fence, unsigned i, const struct gm_context *target) {
    struct gm_fence_point found = {0};
    unsigned at = i;
    bool pushed;
    while (at < fence->kept && fence->points[at].context_id != target->id)
        at++;
    if (at < fence->kept) {
        found = fence->points[at];
        fence->points[at] = fence->points[i];
        fence->points[i] = found;
        return GM_OK;
    }
    if (!make_current(target->handle, &pushed))
        return CUDA_ERROR_INVALID_CONTEXT;
    gm_status status = (gm_status)gm_drv.event_create(&found.event, CU_EVENT_DISABLE_TIMING);
    restore(pushed);
    if (status)
        return status;
    found.context_id = target->id;
    if (fence->kept < GM_FENCE_POINTS)
        fence->points[fence->kept++] = fence->points[i];
    else
        gm_drv.event_destroy(fence->points[i].event);
    fence->points[i] = found;
    return GM_OK;
}

/* A driver that cannot record the context: its streams, one by one. Peers' work is not covered. */
static gm_status record_streams(struct gm_fence *fence, CUcontext context, uint64_t context_id, CUdevice device) {
    struct gm_context target = {.handle = context, .id = context_id, .device = device}, peer;
    CUstream streams[GM_FENCE_POINTS];
    gm_status status = GM_NOT_SUPPORTED;
    bool pushed;
    if (gm_context_reach(device, &peer, 1) || !make_current(context, &pushed))
        return GM_NOT_SUPPORTED;
    unsigned count = gm_streams_hold(context, streams, GM_FENCE_POINTS);
    for (unsigned i = 0; i < count; i++) {
        status = place_event(fence, i, &target);
        if (!status)
            status = (gm_status)gm_drv.event_record(fence->points[i].event, streams[i]);
        if (status)
            break;
    }
    if (count)
        gm_streams_release();
    restore(pushed);
    fence->count = status ? 0 : count;
    return status;
}

gm_status gm_fence_record(struct gm_fence *fence, CUcontext context, uint64_t context_id, CUdevice device) {
    struct gm_context targets[GM_FENCE_POINTS];
    unsigned count;
    fence->count = 0;
    if (!gm_drv.ctx_record_event)
        return record_streams(fence, context, context_id, device);
    if (!gather(targets, &count, context, context_id, device))
        return GM_NOT_SUPPORTED;
    for (unsigned i = 0; i < count; i++) {
        gm_status status = place_event(fence, i, &targets[i]);
        if (!status)
            status = (gm_status)gm_drv.ctx_record_event(targets[i].handle, fence->points[i].event);
        if (status)
            return status;
    }
    fence->count = count;
    gm_stats_fence_recorded();
    return GM_OK;
}

gm_status gm_fence_query(const struct gm_fence *fence) {
    gm_status status = GM_OK;
    gm_stats_fence_queried();
    for (unsigned i = 0; i < fence->count && !status; i++)
        status = (gm_status)gm_drv.event_query(fence->points[i].event);
    return status;
}

gm_status gm_fence_wait(const struct gm_fence *fence) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    gm_status status = GM_OK;
    uint64_t begin = gm_ticks();
    gm_drv.thread_exchange_capture_mode(&mode);
    for (unsigned i = 0; i < fence->count && !status; i++)
        status = (gm_status)gm_drv.event_synchronize(fence->points[i].event);
    gm_drv.thread_exchange_capture_mode(&mode);
    gm_stats_fence_waited(gm_ticks_span_ns(gm_ticks() - begin));
    return status;
}

void gm_fence_forget(struct gm_fence *fence, uint64_t context_id) {
    unsigned left = 0, count = 0;
    for (unsigned i = 0; i < fence->kept; i++) {
        if (fence->points[i].context_id == context_id)
            continue;
        count += i < fence->count;
        fence->points[left++] = fence->points[i];
    }
    fence->kept = left;
    fence->count = count;
}
