/* Decides for each free whether to wait, to order or to return at once, and carries this out with a fence
 * (free_sync.h).
 *
 * Under `safe` a free that does not wait leaves work in flight, which a native free would have waited for. The first
 * call by which the program could notice this finishes that work: it waits for it, or orders later work behind it. */
#include "shim/driver/free_sync.h"

#include <sched.h>
#include <stdlib.h>

#include "shim/driver/fence.h"
#include "shim/driver/streams.h"

enum {
    FENCES = 32, /* frees that synchronise at one time; further ones wait for the whole context */
    LONGEST_WAIT_MS =
        10000, /* longest wait for work that a free left in flight, in a call that natively does not wait */
};

#define BIT(reason) (1u << (reason))
#define OTHERS      (BIT(GM_SYNC_CONTEXTS + 1) - 1) /* access to memory from outside the context's order */
#define STREAMS     (BIT(GM_SYNC_PER_THREAD) | BIT(GM_SYNC_LINKED))

static enum gm_free_level chosen = GM_FREE_ASYNC;
static uint32_t noted;              /* BIT(enum gm_sync_reason) */
static uint32_t created, destroyed; /* streams of the program, in all */
static uint32_t ordered;            /* destroyed streams whose work runs before all work submitted from now on */
static uint32_t contexts;           /* living contexts; guarded by in_flight_lock */
static bool synchronised;           /* a free has waited or ordered */
static bool in_flight;              /* a free under `safe` left work in flight */
bool gm_free_sync_idle = true;
static gm_spin review_lock;

static const char *const texts[GM_SYNC_REASONS] = {
    [GM_SYNC_PEERS] = "wait: peer access",
    [GM_SYNC_SHARED] = "wait: memory shared with other processes",
    [GM_SYNC_RANGE] = "wait: memory exported as a range of addresses",
    [GM_SYNC_EXTERNAL] = "wait: memory shared with a graphics library",
    [GM_SYNC_GREEN] = "wait: a green context",
    [GM_SYNC_CONTEXTS] = "wait: several contexts",
    [GM_SYNC_HOST_MEMORY] = "wait: pinned, registered or managed memory of the program",
    [GM_SYNC_PAGEABLE] = "wait: the device reaches all host memory",
    [GM_SYNC_HOST_FUNCTION] = "wait: host functions in streams",
    [GM_SYNC_QUERY] = "wait: the program asks whether work is done",
    [GM_SYNC_PRINTF] = "wait: kernels that print",
    [GM_SYNC_UNMAP] = "wait: the program unmaps memory",
    [GM_SYNC_VALUES] = "wait: streams that wait for values in memory",
    [GM_SYNC_SEMAPHORES] = "wait: streams that wait for external semaphores",
    [GM_SYNC_PER_THREAD] = "order: per-thread default streams",
    [GM_SYNC_LINKED] = "order: calls that are not observed",
};

/* ---- the level in force */

static inline uint32_t reasons(void) { return __atomic_load_n(&noted, __ATOMIC_ACQUIRE); }

/* True when only the default stream carries work. */
static inline bool is_one_stream(void) {
    return __atomic_load_n(&created, __ATOMIC_RELAXED) == __atomic_load_n(&ordered, __ATOMIC_RELAXED);
}

static inline enum gm_free_level level(void) {
    uint32_t why = reasons();
    if (GM_LIKELY(chosen == GM_FREE_SAFE && !why && is_one_stream()))
        return GM_FREE_ASYNC;
    if (chosen == GM_FREE_SAFE)
        return why & ~STREAMS ? GM_FREE_WAIT : GM_FREE_ORDER;
    return chosen == GM_FREE_ORDER && why & OTHERS ? GM_FREE_WAIT : chosen;
}

const char *gm_free_sync_state(void) {
    static const char *const fixed[] = {"safe", "wait", "order", "async"};
    uint32_t why = reasons();
    enum gm_free_level now = level();
    if (chosen != GM_FREE_SAFE && now == chosen)
        return fixed[chosen];
    if (now == GM_FREE_ASYNC)
        return "async: one stream";
    return why ? texts[__builtin_ctz(why)] : "order: several streams";
}

/* Called after each change of what it reads, before the change has an effect. The lock makes the last caller see all
 * changes. */
static GM_APART void review(void) {
    gm_spin_lock(&review_lock);
    bool idle = level() == GM_FREE_ASYNC && (chosen != GM_FREE_SAFE || __atomic_load_n(&in_flight, __ATOMIC_ACQUIRE));
    __atomic_store_n(&gm_free_sync_idle, idle, __ATOMIC_RELEASE);
    gm_spin_unlock(&review_lock);
}

static void set_in_flight(bool value) {
    __atomic_store_n(&in_flight, value, __ATOMIC_SEQ_CST);
    review();
}

bool gm_free_sync_slows(void) { return __atomic_load_n(&synchronised, __ATOMIC_RELAXED); }

void gm_free_sync_setup(enum gm_free_level level) {
    chosen = level;
    review();
}

bool gm_free_sync_observes(void) { return chosen == GM_FREE_SAFE; }

/* ---- fences of frees; those of cached blocks are elsewhere */

static struct {
    struct gm_fence fence;
    int busy;
} pool[FENCES];
static unsigned latest; /* index of the fence found last */

static struct gm_fence *take_fence(void) {
    unsigned from = __atomic_load_n(&latest, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < FENCES; i++) {
        unsigned at = (from + i) % FENCES;
        int idle = 0;
        if (__atomic_load_n(&pool[at].busy, __ATOMIC_RELAXED) ||
            !__atomic_compare_exchange_n(&pool[at].busy, &idle, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        if (i)
            __atomic_store_n(&latest, at, __ATOMIC_RELAXED);
        return &pool[at].fence;
    }
    return NULL;
}

static void return_fence(struct gm_fence *fence) {
    __atomic_store_n(&pool[((char *)fence - (char *)pool) / sizeof *pool].busy, 0, __ATOMIC_RELEASE);
}

/* For an older driver, which has no event for a whole context. */
static gm_status wait_for_context(CUcontext context) {
    CUstreamCaptureMode mode;
    CUcontext popped;
    if (!gm_capture_guard_enter(&mode))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    gm_status status = (gm_status)gm_drv.ctx_push(context);
    if (!status) {
        status = (gm_status)gm_drv.ctx_synchronize();
        gm_drv.ctx_pop(&popped);
    }
    gm_capture_guard_leave(mode);
    return status;
}

/* While a stream captures, no event of a context may be recorded or waited for. A native free is allowed, and it
 * waits. */
static gm_status wait_by_native_free(CUcontext context) {
    CUcontext popped;
    CUdeviceptr block;
    gm_status status = (gm_status)gm_drv.ctx_push(context);
    if (status)
        return status;
    CUstreamCaptureMode mode = gm_capture_relax();
    gm_cancel_hold();
    if (gm_drv.mem_alloc(&block, 1) == CUDA_SUCCESS)
        status = (gm_status)GM_TWICE(gm_drv.mem_free(block));
    gm_cancel_release();
    gm_capture_unrelax(mode);
    gm_drv.ctx_pop(&popped);
    return status;
}

/* Waits until all work submitted to the context so far is done, or (`order`) makes all work submitted from now on run
 * behind it. */
static gm_status synchronise(const struct gm_context *context, bool order) {
    CUstreamCaptureMode mode;
    struct gm_fence *fence = gm_drv.ctx_record_event && (!order || gm_drv.ctx_wait_event) ? take_fence() : NULL;
    if (!fence)
        return wait_for_context(context->handle);
    gm_status status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (gm_capture_guard_enter(&mode)) {
        status = gm_fence_record_owner(fence, context, reasons() & BIT(GM_SYNC_GREEN));
        if (!status && order)
            status = gm_fence_order(fence, context->handle);
        gm_capture_guard_leave(mode);
    }
    if (!status && !order)
        status = gm_fence_wait(fence);
    return_fence(fence);
    return status;
}

/* ---- work that a free under `safe` left in flight */

static struct gm_context in_flight_context; /* one is enough: with several contexts every free waits */
static gm_spin in_flight_lock;

static struct gm_context read_in_flight_context(void) {
    gm_spin_lock(&in_flight_lock);
    struct gm_context context = in_flight_context;
    gm_spin_unlock(&in_flight_lock);
    return context;
}

/* False: nothing is in flight, or the call is impossible now. The driver reports an error at the program's own next
 * call. */
static bool finish(bool order) {
    if (!__atomic_load_n(&in_flight, __ATOMIC_ACQUIRE))
        return false;
    struct gm_context context = read_in_flight_context();
    if (!order)
        set_in_flight(false);
    gm_status status = synchronise(&context, order);
    if (gm_is_capture_error(status))
        set_in_flight(true);
    return status == GM_OK;
}

/* The same by a wait of limited length. The wait covers work submitted after the free, too, and that may never end. */
static bool finish_in_time(void) {
    struct gm_context context = read_in_flight_context();
    struct gm_fence *fence = __atomic_load_n(&in_flight, __ATOMIC_ACQUIRE) ? take_fence() : NULL;
    CUstreamCaptureMode mode;
    gm_status status = GM_FENCE_PENDING;
    if (!fence)
        return false;
    uint64_t begin = gm_now_ns();
    if (gm_capture_guard_enter(&mode)) {
        status = gm_drv.ctx_record_event ? gm_fence_record_owner(fence, &context, false)
                                         : gm_fence_record(fence, context.handle, context.id, context.device);
        gm_capture_guard_leave(mode);
        while (!status && (status = gm_fence_query(fence)) == GM_FENCE_PENDING &&
               gm_now_ns() - begin < LONGEST_WAIT_MS * 1000000ull && gm_context_life(context.handle, context.id) >= 0) {
            status = GM_OK;
            sched_yield();
        }
    }
    if (!status)
        status = gm_fence_wait(fence); /* complete; makes the output of kernels appear */
    return_fence(fence);
    if (!status)
        set_in_flight(false);
    return status == GM_OK;
}

/* Natively, the output that a kernel printed before a free appears with that free. */
static void finish_at_exit(void) { finish_in_time(); }

static GM_RARE void note_in_flight(const struct gm_context *context) {
    static bool registered;
    gm_spin_lock(&in_flight_lock);
    in_flight_context = *context;
    gm_spin_unlock(&in_flight_lock);
    set_in_flight(true);
    /* Registered after the driver's own exit function, so it runs before that. */
    if (!__atomic_exchange_n(&registered, true, __ATOMIC_RELAXED))
        atexit(finish_at_exit);
}

/* False: it was noted before, or need not be. */
static inline bool leave_in_flight(CUcontext context, uint64_t context_id, CUdevice device) {
    if (GM_LIKELY(__atomic_load_n(&in_flight, __ATOMIC_RELAXED)) || chosen != GM_FREE_SAFE)
        return false;
    note_in_flight(&(struct gm_context){.handle = context, .id = context_id, .device = device});
    return true;
}

/* ---- a free */

static GM_APART gm_status synchronise_free(const struct gm_context *context, bool order, bool *settled) {
    uint32_t destroyed_before = __atomic_load_n(&destroyed, __ATOMIC_ACQUIRE);
    struct gm_context peer;
    gm_status status = synchronise(context, order);
    if (gm_is_capture_error(status)) /* the block's free is deferred until the capture ends */
        return wait_by_native_free(context->handle);
    if (status == GM_FENCE_PENDING) /* the block's free is deferred until the context ends */
        return GM_OK;
    if (status)
        return status;
    __atomic_store_n(&ordered, destroyed_before, __ATOMIC_RELEASE);
    review();
    __atomic_store_n(&synchronised, true, __ATOMIC_RELAXED);
    *settled = !(reasons() & BIT(GM_SYNC_GREEN)) && !gm_context_reach(context->device, &peer, 1);
    return GM_OK;
}

gm_status gm_free_sync_before(CUcontext context, uint64_t context_id, CUdevice device, bool *settled) {
    enum gm_free_level now = level();
    *settled = false;
    /* A thread that noted a reason just before found nothing in flight to finish. Both took the lock of review(). */
    if (now != GM_FREE_WAIT && leave_in_flight(context, context_id, device))
        now = level();
    if (GM_UNLIKELY(now != GM_FREE_ASYNC)) {
        struct gm_context of = {.handle = context, .id = context_id, .device = device};
        return synchronise_free(&of, now == GM_FREE_ORDER, settled);
    }
    return GM_OK;
}

bool gm_free_sync_query(void) {
    if (GM_LIKELY(!__atomic_load_n(&in_flight, __ATOMIC_ACQUIRE)))
        return false;
    gm_free_sync_note(GM_SYNC_QUERY); /* first: the wait does not cover what a later free would leave in flight */
    return finish_in_time();
}

void gm_free_sync_unmap(void) {
    if (GM_LIKELY(!__atomic_load_n(&in_flight, __ATOMIC_ACQUIRE)))
        return;
    gm_free_sync_note(GM_SYNC_UNMAP);
    finish_in_time();
}

/* ---- what the process does */

void gm_free_sync_note(enum gm_sync_reason reason) {
    if (GM_LIKELY(reasons() & BIT(reason)))
        return;
    const char *before = gm_free_sync_state();
    if (__atomic_fetch_or(&noted, BIT(reason), __ATOMIC_SEQ_CST) & BIT(reason))
        return;
    review();
    const char *after = gm_free_sync_state();
    if (before != after)
        gm_log(GM_LOG_INFO, "GPUMEM_FREE: %s", after);
    if (BIT(reason) & OTHERS)
        finish(false);
    else if (BIT(reason) & STREAMS)
        finish(true);
}

void gm_free_sync_per_thread(void) {
    __atomic_store_n(&gm_streams_per_thread, 1, __ATOMIC_RELEASE);
    gm_free_sync_note(GM_SYNC_PER_THREAD);
}

void gm_free_sync_stream_created(void) {
    __atomic_add_fetch(&created, 1, __ATOMIC_SEQ_CST);
    review();
    finish(true);
}

/* Its work may still run. The next free under `safe` orders it. */
void gm_free_sync_stream_destroyed(void) { __atomic_add_fetch(&destroyed, 1, __ATOMIC_SEQ_CST); }

void gm_free_sync_context(const struct gm_context *context) {
    int pageable = 0;
    gm_spin_lock(&in_flight_lock);
    bool several = ++contexts > 1;
    gm_spin_unlock(&in_flight_lock);
    if (several)
        gm_free_sync_note(GM_SYNC_CONTEXTS);
    if (gm_drv.device_get_attribute && context->device >= 0 &&
        gm_drv.device_get_attribute(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, context->device) ==
            CUDA_SUCCESS &&
        pageable)
        gm_free_sync_note(GM_SYNC_PAGEABLE);
}

void gm_free_sync_context_destroyed(uint64_t context_id) {
    gm_spin_lock(&in_flight_lock);
    if (in_flight_context.id == context_id)
        __atomic_store_n(&in_flight, false, __ATOMIC_RELEASE);
    /* After `in_flight`: a free that no longer waits notes its own context. */
    if (--contexts <= 1)
        __atomic_and_fetch(&noted, ~BIT(GM_SYNC_CONTEXTS), __ATOMIC_SEQ_CST);
    gm_spin_unlock(&in_flight_lock);
    review();
}

void gm_free_sync_after_fork(void) {
    in_flight_lock.held = review_lock.held = 0;
    set_in_flight(false);
    for (unsigned i = 0; i < FENCES; i++) {
        pool[i].busy = 0;
        pool[i].fence = (struct gm_fence){0};
    }
}
