/* Feeds the calls of the program into the book-keeping of order.h, under one lock. The driver is never called with the
 * lock held. */
#include "shim/driver/check_order.h"

#include <sys/mman.h>

#include "shim/driver/fence.h"
#include "shim/driver/internal_stream.h"

bool gm_check_order_on;

static struct gm_order *order;
GM_LOCK(lock);
static int naming_count; /* frees that name streams in driver calls now */
GM_ZERO_IN_CHILD(naming_count);

bool gm_check_order_setup(void) {
    order = gm_pages(sizeof *order);
    if (!order)
        gm_log(GM_LOG_WARN, "GPUMEM_CHECK_ORDER: no memory, nothing is checked");
    return gm_check_order_on = order != NULL;
}

/* ---- streams */

static bool is_created(const struct gm_order_stream *stream) {
    return stream->handle != (uintptr_t)CU_STREAM_LEGACY && stream->handle != (uintptr_t)CU_STREAM_PER_THREAD;
}

/* What the handle alone says about the stream. */
static struct gm_order_stream describe_stream(struct gm_check_stream of) {
    CUstream handle = of.handle ? of.handle : of.twin ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    struct gm_order_stream stream = {.handle = (uintptr_t)handle, .kind = GM_ORDER_BLOCKING};
    if (is_created(&stream))
        return stream;
    stream.context = (uintptr_t)gm_context_handle();
    if (handle == CU_STREAM_LEGACY)
        stream.kind = GM_ORDER_LEGACY;
    else
        stream.thread = (uint32_t)gm_thread_id();
    return stream;
}

/* What the driver says about a created stream. */
static void query_stream(struct gm_order_stream *stream) {
    CUstream handle = (CUstream)(uintptr_t)stream->handle;
    CUcontext context = NULL;
    unsigned flags = 0;
    bool known = gm_context_of_stream(handle, &context) && context;
    stream->context = (uintptr_t)(known ? context : gm_context_handle());
    if (gm_drv.stream_get_flags && gm_drv.stream_get_flags(handle, &flags) == CUDA_SUCCESS &&
        flags & CU_STREAM_NON_BLOCKING)
        stream->kind = GM_ORDER_NON_BLOCKING;
}

/* Returns with the lock held. */
static unsigned enter_stream(struct gm_check_stream of) {
    struct gm_order_stream stream = describe_stream(of);
    gm_spin_lock(&lock);
    if (is_created(&stream) && gm_order_find(order, &stream) < 0) {
        gm_spin_unlock(&lock);
        query_stream(&stream);
        gm_spin_lock(&lock);
    }
    return gm_order_stream(order, &stream);
}

/* ---- calls */

static void note_call(unsigned effects, unsigned at, uint64_t event) {
    if (effects & GM_CHECK_AWAITS)
        gm_order_waits_unseen(order, at);
    if (effects & GM_CHECK_SUBMITS)
        gm_order_submit(order, at, effects & GM_CHECK_VISIBLE);
    if (effects & GM_CHECK_TELLS_HOST)
        gm_order_tells_host(order, at);
    if (effects & GM_CHECK_RECORDS)
        gm_order_record(order, at, event);
    if (effects & GM_CHECK_WAITS)
        gm_order_wait_event(order, at, event);
    if (effects & GM_CHECK_HOST_WAITED)
        gm_order_host_stream(order, at);
}

void gm_check_order_call(unsigned effects, struct gm_check_stream stream, CUevent event) {
    if (!gm_check_order_on || (gm_capture_any() && gm_capture_on(stream.handle, stream.twin)))
        return;
    note_call(effects, enter_stream(stream), (uintptr_t)event);
    gm_spin_unlock(&lock);
}

#define LOCKED(...)         \
    if (!gm_check_order_on) \
        return;             \
    gm_spin_lock(&lock);    \
    __VA_ARGS__;            \
    gm_spin_unlock(&lock)

void gm_check_order_event_done(CUevent event) { LOCKED(gm_order_host_event(order, (uintptr_t)event)); }

void gm_check_order_context_done(CUcontext context) {
    uint64_t of = (uintptr_t)(context ? context : gm_context_handle());
    LOCKED(gm_order_host_context(order, of));
}

void gm_check_order_context_record(CUcontext context, CUevent event) {
    LOCKED(gm_order_context_record(order, (uintptr_t)context, (uintptr_t)event));
}

void gm_check_order_context_wait(CUevent event) { LOCKED(gm_order_context_wait(order, (uintptr_t)event)); }

void gm_check_order_context_destroyed(CUcontext context) {
    LOCKED(gm_order_context_destroyed(order, (uintptr_t)context));
}

/* A free that listed the stream before may still name it. */
void gm_check_order_stream_ending(struct gm_check_stream of) {
    struct gm_order_stream stream = describe_stream(of);
    LOCKED({
        int at = gm_order_find(order, &stream);
        if (at >= 0)
            gm_order_destroyed(order, (unsigned)at);
    });
    gm_wait_for_users(&naming_count);
}

/* ---- frees */

/* True when all work of the context is done. For streams that cannot be named this is the only answer. */
static bool is_context_idle(const struct gm_context *context) {
    struct gm_fence fence = {0};
    if (!gm_drv.ctx_record_event)
        return false;
    bool idle = gm_fence_record(&fence, context, GM_FENCE_OWN) == GM_OK && gm_fence_query(&fence) == GM_OK;
    gm_fence_discard(&fence);
    return idle;
}

/* False for a destroyed stream and for the per-thread default stream of another thread. */
static bool can_be_named(const struct gm_order_busy *stream) {
    return stream->alive && (!stream->stream.thread || stream->stream.thread == (uint32_t)gm_thread_id());
}

/* To be called in a guarded section, with the context current. */
static void query_streams(const struct gm_context *context, struct gm_order_busy *streams, unsigned count) {
    bool all_named = true;
    for (unsigned i = 0; i < count; i++) {
        if (can_be_named(&streams[i]))
            streams[i].busy =
                gm_drv.stream_query((CUstream)(uintptr_t)streams[i].stream.handle) == CUDA_ERROR_NOT_READY;
        else
            all_named = false;
    }
    bool idle = all_named || is_context_idle(context);
    for (unsigned i = 0; i < count; i++)
        streams[i].busy |= !idle && !can_be_named(&streams[i]);
}

/* False: the streams cannot be queried now. */
static bool query_in_context(const struct gm_context *context, struct gm_order_busy *streams, unsigned count) {
    CUstreamCaptureMode mode;
    struct gm_context_held held;
    if (gm_context_enter_held(context->handle, context->id, &held))
        return false;
    bool queried = gm_capture_guard_enter(&mode);
    if (queried) {
        query_streams(context, streams, count);
        gm_capture_guard_leave(mode);
    }
    gm_context_leave_held(&held);
    return queried;
}

static bool any_busy(const struct gm_order_busy *streams, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if (streams[i].busy)
            return true;
    return false;
}

/* The streams that may be busy. While `naming_count` is raised, none of the living ones is destroyed. */
static unsigned list_streams(CUcontext context, struct gm_order_busy streams[GM_ORDER_BUSY]) {
    gm_spin_lock(&lock);
    unsigned count = gm_order_candidates(order, (uintptr_t)context, streams);
    __atomic_add_fetch(&naming_count, 1, __ATOMIC_SEQ_CST);
    gm_spin_unlock(&lock);
    return count;
}

void gm_check_order_free(CUcontext handle, uint64_t context_id, CUdevice device, uint32_t (*site)(void *arg),
                         void *arg) {
    struct gm_context context = {.handle = handle, .id = context_id, .device = device};
    struct gm_order_busy streams[GM_ORDER_BUSY];
    if (!gm_check_order_on)
        return;
    unsigned count = list_streams(handle, streams);
    bool queried = count && query_in_context(&context, streams, count);
    __atomic_sub_fetch(&naming_count, 1, __ATOMIC_SEQ_CST);
    if (!queried)
        return;
    uint32_t where = any_busy(streams, count) ? site(arg) : 0;
    gm_spin_lock(&lock);
    gm_order_free(order, streams, count, where);
    gm_spin_unlock(&lock);
}

/* ---- the end */

unsigned gm_check_order_findings(struct gm_order_finding *out, unsigned room, struct gm_check_sums *sums) {
    gm_spin_lock(&lock);
    gm_order_end(order);
    unsigned count = gm_order_sort(order);
    for (unsigned i = 0; i < count && i < room; i++)
        out[i] = order->findings[i];
    *sums = (struct gm_check_sums){order->frees, order->unlisted, order->host_relies};
    gm_spin_unlock(&lock);
    return count;
}

void gm_check_order_after_fork(void) {
    if (order)
        madvise(order, sizeof *order, MADV_DONTNEED);
}
