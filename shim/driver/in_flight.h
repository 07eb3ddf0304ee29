/* Work that a free left in flight.
 *
 * Natively all earlier work of the context is done when cudaFree returns. A free that returns at once calls
 * gm_in_flight_leave, and every later call of the driver that could tell the difference looks first (calls.h says which
 * calls these are):
 * - The first call that submits work records one event of the context before its own work. The event covers exactly the
 *   work before the free. Where more than one stream carries work, the free itself does this, and makes all later work
 *   of the context run behind the event.
 * - A call that could notice waits for that event. It never waits for work behind the free.
 *
 * gm_watch.state is one of these; the number t of a recording comes again after 8191 others:
 *
 *     none           nothing is in flight
 *     unrecorded     a free left work in flight, and nothing was submitted since
 *     recording(t)   one thread records the event now, for the t-th time
 *     recorded(t)    the t-th event is recorded, and may not have completed. It is loose as long as no later work
 *                    waits for it: then a launch that may overtake its own stream makes all later work wait
 *
 *     state \ call   free         submission                    notice                             end of the context
 *     none           unrecorded   -                             -                                  -
 *     unrecorded     -            recording(t)                  recording(t)                       none
 *     recording(t)   unrecorded   waits for the end of it       waits for the end of it            none
 *     recorded(t)    unrecorded   -                             waits; none, if still recorded(t)  none
 *
 * The thread that records ends in one of three states, unless a free or the end of the context came first:
 *     recorded(t)    the driver recorded the event
 *     none           the driver refused, and the thread waited for the work in another way; or the context has ended
 *     unrecorded     the context may be ending; the thread, and those that wait for it, try again
 * A free with several streams does what a submission does, in the same call. A launch that may overtake its own stream,
 * and cannot be ordered behind the event, does what a notice does.
 *
 * Only one context can have work in flight: while several exist, every free waits (free_sync.h). All functions may be
 * called by many threads at once, with no lock held. */
#ifndef GM_DRIVER_IN_FLIGHT_H
#define GM_DRIVER_IN_FLIGHT_H

#include "shim/driver/driver.h"
#include "shim/driver/watch.h"

enum {
    GM_FLIGHT_NONE = 0,
    GM_FLIGHT_OPEN = 1,       /* the bit that a submission looks for: the event is not recorded yet */
    GM_FLIGHT_PENDING = 2,    /* the bit that other calls look for */
    GM_FLIGHT_UNRECORDED = 3, /* both, of no recording */
    GM_FLIGHT_LOOSE = 4,      /* recorded, and only the order of its stream holds later work behind it */
    GM_FLIGHT_NUMBER = 8,     /* the lowest bit of the number of the recording */
};

/* A free returns while its context may have work in flight. The context was announced. */
static inline void gm_in_flight_leave(void) {
    if (__atomic_load_n(&gm_watch.state, __ATOMIC_RELAXED) != GM_FLIGHT_UNRECORDED)
        __atomic_store_n(&gm_watch.state, GM_FLIGHT_UNRECORDED, __ATOMIC_RELEASE);
}
static inline uint16_t gm_in_flight_state(void) { return __atomic_load_n(&gm_watch.state, __ATOMIC_ACQUIRE); }

/* The only context is the one whose frees may leave work in flight. */
GM_INTERNAL void gm_in_flight_announce(const struct gm_context *context);
/* The same context. False: none is announced. */
GM_INTERNAL bool gm_in_flight_context(struct gm_context *context);
/* A context was destroyed: its work is done. */
GM_INTERNAL void gm_in_flight_context_destroyed(uint64_t context_id);

/* How many recordings have begun, modulo 2^32: streams may wait for the event of one from its begin on. */
GM_INTERNAL uint32_t gm_in_flight_recordings(void);

/* Before work is submitted. `order`: work of other streams, or work that overtakes its own stream, must run behind what
 * is in flight. GM_OK, or the driver's own error, which the program's next call returns as well. */
GM_INTERNAL gm_status gm_in_flight_submit(bool order);
/* A launch may overtake earlier work of the only stream: makes all later work run behind what is in flight, also where
 * the event is recorded already. */
GM_INTERNAL void gm_in_flight_order(void);
/* Waits until the work before the last free is done. A stream capture is not disturbed. `holds_others`: several streams
 * carry work, so other threads submit nothing until then. GM_OK, or the driver's own error, which the program's next
 * call returns as well. */
GM_INTERNAL gm_status gm_in_flight_finish(bool holds_others);
/* The driver refused to record the context, although no capture is known: a capture that nobody can end. Then every
 * free waits as natively, until the driver accepts a record again. */
GM_INTERNAL extern bool gm_in_flight_refused;

#endif
