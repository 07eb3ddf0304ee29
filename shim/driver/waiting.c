/* Waits that leave the processor to others, as a native free does (event.h).
 *
 * cuEventSynchronize keeps the processor busy unless the event was made to block, and events that block are slower to
 * query and to record. Most events of gpumem are only queried. So a wait queries for some microseconds. Then it records
 * an event that blocks behind the first one, in a stream that nobody else uses meanwhile, and waits for that. */
#include "shim/driver/event.h"
#include "shim/driver/internal_stream.h"

enum { WAITERS = 64, POLL_NS = 50000 };

/* A stream and an event of one context. */
static struct waiter {
    bool used;
    CUcontext context;
    uint64_t context_id; /* 0: nothing was made yet */
    CUstream stream;
    CUevent event;
} waiters[WAITERS];
GM_ZERO_IN_CHILD(waiters);
GM_LOCK(lock);

/* What a destroyed context had is gone with it. */
static bool is_vacant(const struct waiter *waiter) {
    return !waiter->used &&
           (!waiter->context_id || gm_context_life(waiter->context, waiter->context_id) == GM_CONTEXT_DESTROYED);
}

/* NULL: too many threads wait, in this context and in others. */
static struct waiter *take_waiter(CUcontext context, uint64_t context_id) {
    struct waiter *found = NULL, *vacant = NULL;
    gm_spin_lock(&lock);
    for (unsigned i = 0; i < WAITERS && !found; i++) {
        if (!waiters[i].used && waiters[i].context_id == context_id)
            found = &waiters[i];
        else if (!vacant && is_vacant(&waiters[i]))
            vacant = &waiters[i];
    }
    if (!found && vacant) {
        *vacant = (struct waiter){.context = context, .context_id = context_id};
        found = vacant;
    }
    if (found)
        found->used = true;
    gm_spin_unlock(&lock);
    return found;
}

static void give_waiter(struct waiter *waiter) {
    gm_spin_lock(&lock);
    if (waiter)
        waiter->used = false;
    gm_spin_unlock(&lock);
}

/* The context is current. */
static gm_status record_behind(struct waiter *waiter, CUevent event) {
    gm_status status = GM_OK;
    if (!waiter->stream)
        status = gm_drv.stream_create(&waiter->stream, CU_STREAM_NON_BLOCKING);
    if (!status && !waiter->event)
        status = gm_drv.event_create(&waiter->event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    if (!status)
        status = gm_drv.stream_wait_event(waiter->stream, event, 0);
    return status ? status : (gm_status)gm_drv.event_record(waiter->event, waiter->stream);
}

static gm_status prepare(struct waiter *waiter, const struct gm_event_of *event) {
    bool pushed;
    gm_status status = waiter ? gm_context_enter(event->context, &pushed) : GM_OUT_OF_MEMORY;
    if (status)
        return status;
    status = record_behind(waiter, event->event);
    gm_context_leave(pushed);
    return status;
}

gm_status gm_event_block(const struct gm_event_of *event) {
    gm_status status;
    for (uint64_t begin = gm_ticks(); (status = (gm_status)gm_drv.event_query(event->event)) == GM_FENCE_PENDING;)
        if (gm_ticks_span_ns(gm_ticks() - begin) > POLL_NS)
            break;
    if (status != GM_FENCE_PENDING)
        return status;
    struct waiter *waiter = take_waiter(event->context, event->context_id);
    bool blocks = prepare(waiter, event) == GM_OK;
    status = (gm_status)gm_drv.event_synchronize(blocks ? waiter->event : event->event);
    give_waiter(waiter);
    return status;
}
