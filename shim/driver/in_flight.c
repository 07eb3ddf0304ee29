/* One event behind the work that frees left in flight (in_flight.h has the table of states). */
#include "shim/driver/in_flight.h"

#include <sched.h>

#include "shim/base/file.h"
#include "shim/driver/event.h"
#include "shim/driver/fence.h"
#include "shim/driver/quiesce.h"
#include "shim/driver/stream_counts.h"

enum { PAUSE_NS = 50000, NUMBERS = 0xffff / GM_FLIGHT_NUMBER };

static struct gm_context only;      /* id 0: none is announced */
static struct gm_event_of recorded; /* the event; it was created in the context that it names */
GM_LOCK(lock);
GM_LOCK(recording);
GM_ZERO_IN_CHILD(only);
GM_ZERO_IN_CHILD(recorded);
static uint32_t recordings;
bool gm_in_flight_refused;

void gm_in_flight_announce(const struct gm_context *context) {
    gm_spin_lock(&lock);
    only = *context;
    gm_spin_unlock(&lock);
}

bool gm_in_flight_context(struct gm_context *context) {
    gm_spin_lock(&lock);
    *context = only;
    gm_spin_unlock(&lock);
    return context->id != 0;
}

void gm_in_flight_context_destroyed(uint64_t context_id) {
    gm_spin_lock(&lock);
    if (only.id == context_id) {
        only = (struct gm_context){.device = -1};
        __atomic_store_n(&gm_watch.state, GM_FLIGHT_NONE, __ATOMIC_RELEASE);
    }
    gm_spin_unlock(&lock);
}

/* ---- the event */

static bool copy_event(struct gm_event_of *event) {
    gm_spin_lock(&lock);
    *event = recorded;
    gm_spin_unlock(&lock);
    return event->event != NULL;
}

/* The event of the context, created at the first use. The caller holds the context. */
static gm_status event_of(const struct gm_context *context, struct gm_event_of *event) {
    if (copy_event(event) && event->context_id == context->id)
        return GM_OK;
    CUcontext popped;
    struct gm_event_of made = {context->handle, context->id, NULL};
    gm_status status = gm_drv.ctx_push(context->handle);
    if (status)
        return status;
    status = gm_drv.event_create(&made.event, CU_EVENT_DISABLE_TIMING);
    gm_drv.ctx_pop(&popped);
    if (status)
        return status;
    gm_spin_lock(&lock);
    bool first = recorded.context_id != context->id; /* the event of an earlier context ended with it */
    if (first)
        recorded = made;
    *event = recorded;
    gm_spin_unlock(&lock);
    if (!first)
        gm_drv.event_destroy(made.event);
    return GM_OK;
}

/* Without cuCtxRecordEvent only the legacy default stream leaves work in flight (free_sync.c). */
static gm_status record_on_legacy(const struct gm_context *context, CUevent event) {
    CUcontext popped;
    gm_status status = gm_drv.ctx_push(context->handle);
    if (status)
        return status;
    status = gm_drv.event_record(event, CU_STREAM_LEGACY);
    gm_drv.ctx_pop(&popped);
    return status;
}

/* GM_FENCE_PENDING: the context may be ending. An error of a capture: a stream captures. With `order` the event is
 * recorded again behind the waits of the streams, because cuStreamQuery reports a stream whose wait is not over as
 * busy: then the event tells when it is. */
static gm_status record_event(const struct gm_context *context, bool order) {
    CUstreamCaptureMode mode;
    struct gm_event_of event;
    if (!gm_capture_guard_enter(&mode))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    int hold = gm_context_hold(context->handle, context->id);
    gm_status status = hold < 0 ? GM_FENCE_PENDING : event_of(context, &event);
    if (!status)
        status = gm_drv.ctx_record_event ? (gm_status)gm_drv.ctx_record_event(context->handle, event.event)
                                         : record_on_legacy(context, event.event);
    if (!status && order) {
        status = gm_drv.ctx_wait_event(context->handle, event.event);
        if (!status)
            status = gm_drv.ctx_record_event(context->handle, event.event);
    }
    if (hold >= 0)
        gm_context_let_go(hold);
    gm_capture_guard_leave(mode);
    return status;
}

/* A thread that is releasing the context decides within microseconds whether it lives. */
static gm_status wait_for(const struct gm_event_of *event) {
    gm_status status;
    CUstreamCaptureMode mode = gm_capture_relax();
    while ((status = gm_event_wait(event, true)) == GM_FENCE_PENDING &&
           gm_context_life(event->context, event->context_id) != GM_CONTEXT_DESTROYED)
        gm_sleep(PAUSE_NS);
    gm_capture_unrelax(mode);
    return status == GM_FENCE_PENDING ? GM_OK : status;
}

/* ---- recordings, by one thread at a time */

/* Later work goes on, runs behind the event, or goes on when that is complete. */
enum later_work { LET_GO, ORDER, WAIT };

static bool change(uint16_t from, uint16_t to) {
    return __atomic_compare_exchange_n(&gm_watch.state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Returns the state in which the recording ends. Where nothing can be recorded it waits as a native free does. */
static uint16_t record_or_wait(uint16_t own, enum later_work later, gm_status *status) {
    struct gm_context context;
    struct gm_event_of event;
    if (!gm_in_flight_context(&context))
        return GM_FLIGHT_NONE;
    uint32_t destroyed = gm_stream_counts_begin(context.handle);
    if (gm_stream_counts_any() && later == LET_GO)
        later = ORDER;
    if (later == ORDER && GM_UNLIKELY(!gm_drv.ctx_record_event || !gm_drv.ctx_wait_event))
        later = WAIT;
    *status = record_event(&context, later == ORDER);
    if (*status == GM_FENCE_PENDING) {
        *status = GM_OK;
        if (gm_context_life(context.handle, context.id) == GM_CONTEXT_DESTROYED)
            return GM_FLIGHT_NONE;
        gm_sleep(PAUSE_NS);
        return GM_FLIGHT_UNRECORDED;
    }
    if (gm_is_capture_error(*status)) {
        __atomic_store_n(&gm_in_flight_refused, !gm_capture_any(), __ATOMIC_RELEASE);
        *status = gm_wait_natively(context.handle);
    } else if (*status) { /* no event, for example, in a full context */
        *status = gm_wait_natively(context.handle);
    } else if (later == WAIT && copy_event(&event)) {
        *status = wait_for(&event);
    } else {
        if (later == ORDER)
            gm_stream_counts_settle(context.handle, destroyed);
        return (uint16_t)((own & ~GM_FLIGHT_OPEN) | (later == ORDER ? 0 : GM_FLIGHT_LOOSE));
    }
    if (!*status)
        gm_stream_counts_settle(context.handle, destroyed);
    return GM_FLIGHT_NONE;
}

/* Returns when the event is recorded, or nothing is in flight any more. */
static gm_status record_once(enum later_work later) {
    gm_status status = GM_OK;
    uint16_t state;
    while ((state = gm_in_flight_state()) & GM_FLIGHT_OPEN) {
        /* A recording goes on when a free has overtaken it. It must not record the event again after the next one. */
        if (state != GM_FLIGHT_UNRECORDED || !gm_spin_try(&recording)) {
            sched_yield();
            continue;
        }
        uint32_t before = __atomic_fetch_add(&recordings, 1, __ATOMIC_SEQ_CST);
        uint16_t own = (uint16_t)(1 + before % NUMBERS) * GM_FLIGHT_NUMBER | GM_FLIGHT_UNRECORDED;
        if (change(GM_FLIGHT_UNRECORDED, own))
            change(own, record_or_wait(own, later, &status)); /* unless a free came meanwhile */
        gm_spin_unlock(&recording);
    }
    return status;
}

uint32_t gm_in_flight_recordings(void) { return __atomic_load_n(&recordings, __ATOMIC_ACQUIRE); }

gm_status gm_in_flight_submit(bool order) { return record_once(order ? ORDER : LET_GO); }

gm_status gm_in_flight_finish(bool holds_others) {
    struct gm_event_of event;
    if (GM_LIKELY(!gm_in_flight_state()))
        return GM_OK;
    gm_status status = record_once(holds_others ? WAIT : LET_GO);
    uint16_t state = gm_in_flight_state();
    if (status || !state || !copy_event(&event))
        return status;
    status = wait_for(&event);
    if (!(state & GM_FLIGHT_OPEN))
        change(state, GM_FLIGHT_NONE);
    return status;
}

void gm_in_flight_order(void) {
    struct gm_context context;
    struct gm_event_of event;
    CUstreamCaptureMode mode;
    for (;;) {
        record_once(ORDER);
        uint16_t state = gm_in_flight_state();
        if (!(state & (GM_FLIGHT_LOOSE | GM_FLIGHT_OPEN)))
            return;
        if (state & GM_FLIGHT_OPEN)
            continue;
        if (!gm_in_flight_context(&context) || !copy_event(&event))
            return;
        gm_status status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        if (gm_drv.ctx_wait_event && gm_capture_guard_enter(&mode)) {
            status = gm_event_order(&event, true, context.handle, NULL);
            gm_capture_guard_leave(mode);
        }
        if (status) {
            gm_in_flight_finish(true);
            return;
        }
        if (change(state, (uint16_t)(state & ~GM_FLIGHT_LOOSE)))
            return;
    }
}
