/* Decides for each free whether to wait or to leave work in flight (free_sync.h), and waits by a fence. */
#include "shim/driver/free_sync.h"

#include <stdlib.h>

#include "shim/base/file.h"
#include "shim/driver/fence.h"
#include "shim/driver/in_flight.h"
#include "shim/driver/linked.h"
#include "shim/driver/quiesce.h"
#include "shim/driver/stream_counts.h"
#include "shim/driver/streams.h"

enum { PAUSE_NS = 50000 };

#define BIT(reason) (1u << (reason))
#define OTHERS      (BIT(GM_SYNC_OTHERS + 1) - 1)

static enum gm_free_level chosen = GM_FREE_ASYNC;
static uint32_t noted;    /* BIT(enum gm_sync_reason) */
static bool synchronised; /* a free has waited or ordered */
static bool exit_observed;
uint8_t gm_free_sync_fast = GM_FAST_NONE;
GM_LOCK(review_lock);

static unsigned contexts; /* living ones and those that are being created */

static const char *const texts[GM_SYNC_REASONS] = {
    [GM_SYNC_PEERS] = "wait: peer access",
    [GM_SYNC_SHARED] = "wait: memory shared with other processes",
    [GM_SYNC_RANGE] = "wait: memory exported as a range of addresses",
    [GM_SYNC_EXTERNAL] = "wait: memory shared with a graphics library",
    [GM_SYNC_GREEN] = "wait: a green context",
    [GM_SYNC_CONTEXTS] = "wait: several contexts",
    [GM_SYNC_UNSEEN] = "wait: calls of the driver that cannot be seen",
    [GM_SYNC_HOST_MEMORY] = "wait: pinned, registered or managed memory of the program",
    [GM_SYNC_PAGEABLE] = "wait: the device reaches all host memory",
    [GM_SYNC_HOST_FUNCTION] = "wait: host functions in streams",
    [GM_SYNC_PRINTF] = "wait: kernels that print",
    [GM_SYNC_VALUES] = "wait: streams that wait for values in memory",
    [GM_SYNC_SEMAPHORES] = "wait: streams that wait for external semaphores",
    [GM_SYNC_WRITES] = "wait: several streams, and streams that may write values",
};

/* ---- the level in force */

static inline uint32_t reasons(void) { return __atomic_load_n(&noted, __ATOMIC_ACQUIRE); }

static bool has_per_thread_streams(void) { return __atomic_load_n(&gm_streams_per_thread, __ATOMIC_ACQUIRE); }

static bool has_contexts(void) { return __atomic_load_n(&contexts, __ATOMIC_ACQUIRE) > 1; }

/* The reasons that count at this level, and with these streams. */
static uint32_t counting(void) {
    uint32_t all = chosen == GM_FREE_ORDER ? OTHERS | BIT(GM_SYNC_WRITES) : ~0u;
    return gm_stream_counts_any() ? all : all & ~BIT(GM_SYNC_WRITES);
}

/* Why frees wait although GPUMEM_FREE=safe or order would let them return. NULL: nothing. */
static const char *why_wait(void) {
    uint32_t why = reasons() & counting();
    if (why)
        return texts[__builtin_ctz(why)];
    if (has_contexts())
        return texts[GM_SYNC_CONTEXTS];
    if (gm_capture_any())
        return "wait: a stream captures";
    if (__atomic_load_n(&gm_in_flight_refused, __ATOMIC_ACQUIRE))
        return "wait: a capture that nobody can end";
    if (GM_UNLIKELY(!gm_drv.ctx_record_event || !gm_drv.ctx_wait_event) && gm_stream_counts_any())
        return "wait: several streams, and a driver before 12.5";
    return NULL;
}

static bool is_bound(void) { return chosen == GM_FREE_SAFE || chosen == GM_FREE_ORDER; }
static bool must_wait(void) { return chosen == GM_FREE_WAIT || (is_bound() && why_wait()); }

const char *gm_free_sync_state(void) {
    static const char *const fixed[] = {"safe", "wait", "order", "async"};
    const char *why = is_bound() ? why_wait() : fixed[chosen];
    if (why || chosen == GM_FREE_ORDER)
        return why ? why : fixed[chosen];
    return has_per_thread_streams() ? "order: per-thread default streams"
           : gm_stream_counts_any() ? "order: several streams"
                                    : "async: one stream";
}

/* Called after each change of what it reads, before the change has an effect. The lock makes the last caller see all
 * changes. */
static GM_APART void review(void) {
    struct gm_context context;
    gm_spin_lock(&review_lock);
    bool leaves = !must_wait() && !gm_stream_counts_any() && gm_in_flight_context(&context);
    enum gm_free_fast fast = chosen == GM_FREE_ASYNC ? GM_FAST_ASYNC : leaves ? GM_FAST_LEAVE : GM_FAST_NONE;
    __atomic_store_n(&gm_free_sync_fast, (uint8_t)fast, __ATOMIC_SEQ_CST);
    gm_spin_unlock(&review_lock);
}

bool gm_free_sync_slows(void) { return __atomic_load_n(&synchronised, __ATOMIC_RELAXED); }

void gm_free_sync_setup(enum gm_free_level level) {
    chosen = level;
    gm_watch_set(GM_WATCH_PER_THREAD, true);
    review();
}

bool gm_free_sync_observes(void) { return chosen == GM_FREE_SAFE; }

/* ---- waits */

/* For an older driver, which has no event for a whole context. */
static gm_status wait_for_context(CUcontext context) {
    CUstreamCaptureMode mode;
    CUcontext popped;
    if (!gm_capture_guard_enter(&mode))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    gm_status status = gm_drv.ctx_push(context);
    if (!status) {
        status = gm_drv.ctx_synchronize();
        gm_drv.ctx_pop(&popped);
    }
    gm_capture_guard_leave(mode);
    return status;
}

static gm_status wait_by_fence(const struct gm_context *context, struct gm_fence *fence) {
    CUstreamCaptureMode mode;
    if (!gm_capture_guard_enter(&mode))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    gm_status status = gm_fence_record(fence, context, reasons() & BIT(GM_SYNC_GREEN) ? GM_FENCE_DEVICE : GM_FENCE_OWN);
    gm_capture_guard_leave(mode);
    return status ? status : gm_fence_wait(fence);
}

/* Waits until all work submitted to the context so far is done. While another thread releases the context, it is not
 * known whether that lives: then the wait begins again. GM_OK for a context that was destroyed. */
static gm_status wait_for_work(const struct gm_context *context) {
    gm_status status;
    for (;;) {
        struct gm_fence *fence = gm_drv.ctx_record_event ? gm_fence_take() : NULL;
        status = fence ? wait_by_fence(context, fence) : wait_for_context(context->handle);
        gm_fence_give(fence);
        if (status != GM_FENCE_PENDING)
            break;
        if (gm_context_life(context->handle, context->id) == GM_CONTEXT_DESTROYED)
            return GM_OK;
        gm_sleep(PAUSE_NS);
    }
    bool refused = gm_is_capture_error(status) && !gm_capture_any();
    if (__atomic_exchange_n(&gm_in_flight_refused, refused, __ATOMIC_ACQ_REL) != refused)
        review();
    if (status) /* a capture, no event in a full context, or a fault, which the driver reports again */
        status = gm_wait_natively(context->handle);
    return status;
}

/* ---- a free */

/* Natively, what a kernel said before a free, such as a failed assertion, appears with that free. */
static void finish_at_exit(void) {
    if (chosen == GM_FREE_SAFE)
        gm_in_flight_finish(false);
}

static GM_RARE void announce_context(const struct gm_context *context) {
    gm_in_flight_announce(context);
    review();
    /* Registered after the driver's own exit function, so it runs before that. */
    if (!__atomic_exchange_n(&exit_observed, true, __ATOMIC_RELAXED))
        atexit(finish_at_exit);
}

/* All later work of the context runs behind the work of the streams that were destroyed then. */
static void settle_destroyed(CUcontext handle, uint32_t destroyed) {
    gm_stream_counts_settle(handle, destroyed);
    __atomic_store_n(&synchronised, true, __ATOMIC_RELAXED);
}

static GM_APART gm_status wait_in_free(const struct gm_context *context, bool *settled) {
    uint32_t destroyed = gm_stream_counts_begin(context->handle);
    struct gm_context peer;
    gm_status status = wait_for_work(context);
    if (status)
        return status;
    settle_destroyed(context->handle, destroyed);
    *settled = !(reasons() & BIT(GM_SYNC_GREEN)) && !gm_context_reach(context->device, &peer, 1);
    return GM_OK;
}

/* With several streams a free itself orders all later work: each submission would have to do it otherwise. */
static gm_status order_in_free(const struct gm_context *context, bool *settled) {
    struct gm_context peer;
    gm_status status = gm_in_flight_submit(true);
    if (!status && GM_UNLIKELY(has_contexts())) /* created meanwhile: its work does not run behind the event */
        status = gm_in_flight_finish(true);
    if (status)
        return status;
    __atomic_store_n(&synchronised, true, __ATOMIC_RELAXED);
    *settled = !gm_context_reach(context->device, &peer, 1);
    return GM_OK;
}

static GM_APART gm_status before_free(CUcontext context, uint64_t context_id, CUdevice device, bool *settled) {
    const struct gm_context of = {.handle = context, .id = context_id, .device = device};
    struct gm_context announced;
    if (chosen == GM_FREE_ASYNC)
        return GM_OK;
    if (gm_stream_counts_any() && is_bound() && gm_linked_with_writes())
        gm_free_sync_note(GM_SYNC_WRITES);
    if (must_wait())
        return wait_in_free(&of, settled);
    if (!gm_in_flight_context(&announced) || announced.id != context_id)
        announce_context(&of);
    gm_in_flight_leave();
    if (gm_stream_counts_any())
        return order_in_free(&of, settled);
    review(); /* the last stream's work is behind now */
    *settled = true;
    return GM_OK;
}

gm_status gm_free_sync_before(CUcontext context, uint64_t context_id, CUdevice device, bool *settled) {
    enum gm_free_fast fast = gm_free_sync_fast_now();
    *settled = false;
    if (GM_UNLIKELY(!fast))
        return before_free(context, context_id, device, settled);
    *settled = gm_free_fast_begin(fast);
    return GM_OK;
}

/* ---- other calls of the program */

void gm_free_sync_overtake(void) {
    if (GM_UNLIKELY(has_contexts()))
        gm_in_flight_finish(true);
    else
        gm_in_flight_order();
}

void gm_free_sync_submit(bool legacy) {
    if (GM_UNLIKELY(has_contexts())) { /* a free and the creation of a context met */
        gm_in_flight_finish(true);
        return;
    }
    gm_in_flight_submit(!legacy);
    if (GM_UNLIKELY(__atomic_load_n(&gm_in_flight_refused, __ATOMIC_ACQUIRE)))
        review();
}

void gm_free_sync_notice(void) {
    if (gm_in_flight_state() && chosen == GM_FREE_SAFE)
        gm_in_flight_finish(gm_stream_counts_any() || has_contexts());
}

static void log_change(const char *before) {
    const char *after = gm_free_sync_state();
    if (before != after)
        gm_log(GM_LOG_INFO, "GPUMEM_FREE: %s", after);
}

bool gm_free_sync_is_noted(enum gm_sync_reason reason) { return reasons() & BIT(reason); }

void gm_free_sync_note(enum gm_sync_reason reason) {
    const char *before = gm_free_sync_state();
    bool is_new =
        !(reasons() & BIT(reason)) && !(__atomic_fetch_or(&noted, BIT(reason), __ATOMIC_SEQ_CST) & BIT(reason));
    if (is_new && reason == GM_SYNC_UNSEEN)
        gm_streams_doubt(GM_STREAMS_UNSEEN);
    if (is_new) {
        review();
        log_change(before);
    }
    /* Also where another thread has noted the reason: it may not have finished this yet. Not before a write that may be
     * what the work waits for. */
    if (reason != GM_SYNC_WRITES && (chosen == GM_FREE_SAFE || BIT(reason) & OTHERS))
        gm_in_flight_finish(true);
}

/* Until now all work was in the legacy default stream, behind which this one runs by itself. */
void gm_free_sync_per_thread(void) {
    if (__atomic_exchange_n(&gm_streams_per_thread, 1, __ATOMIC_ACQ_REL))
        return;
    gm_watch_set(GM_WATCH_PER_THREAD, false);
    review();
}

/* ---- streams and contexts */

/* Another thread may have freed and submitted meanwhile. The new stream may be one that waits for the event, or not. */
void gm_free_sync_stream_created(CUcontext context, CUstream stream) {
    gm_stream_counts_created(context);
    review();
    if (GM_LIKELY(!gm_in_flight_state()))
        return;
    gm_in_flight_finish(true);
    CUstreamCaptureMode mode = gm_capture_relax();
    gm_drv.stream_synchronize(stream);
    gm_capture_unrelax(mode);
}

/* Its work may still run. The next free orders it. */
void gm_free_sync_stream_destroyed(CUcontext context) { gm_stream_counts_destroyed(context); }

void gm_free_sync_context_making(void) {
    const char *before = gm_free_sync_state();
    __atomic_add_fetch(&contexts, 1, __ATOMIC_SEQ_CST);
    review();
    log_change(before);
    gm_in_flight_finish(true);
}

/* A context for which there is no room stays counted, so frees wait. */
void gm_free_sync_context_made(CUcontext context) {
    if (context && gm_stream_counts_list(context))
        return;
    __atomic_sub_fetch(&contexts, 1, __ATOMIC_SEQ_CST);
    review();
}

void gm_free_sync_context(const struct gm_context *context) {
    int pageable = 0;
    if (!gm_stream_counts_has(context->handle)) {
        gm_free_sync_context_making();
        gm_free_sync_context_made(context->handle);
    }
    if (gm_drv.device_get_attribute && context->device >= 0 &&
        gm_drv.device_get_attribute(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, context->device) ==
            CUDA_SUCCESS &&
        pageable)
        gm_free_sync_note(GM_SYNC_PAGEABLE);
}

void gm_free_sync_context_destroyed(CUcontext context, uint64_t id) {
    if (gm_stream_counts_forget(context))
        __atomic_sub_fetch(&contexts, 1, __ATOMIC_SEQ_CST);
    if (id)
        gm_in_flight_context_destroyed(id);
    review();
}

void gm_free_sync_after_fork(void) { review(); }
