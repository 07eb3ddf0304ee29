/* Calls on an event whose context another thread may destroy at any time.
 *
 * A context destroys its events when it ends, and its work is done then. For an event of another context this counts
 * as complete (GM_OK). An event of the block's own context gives no answer then (GM_FENCE_PENDING), because the block
 * ends with that context. While a call runs that may end the context, the answer is GM_FENCE_PENDING as well. */
#ifndef GM_DRIVER_EVENT_H
#define GM_DRIVER_EVENT_H

#include "shim/driver/driver.h"

enum { GM_FENCE_PENDING = CUDA_ERROR_NOT_READY };

struct gm_event_of {
    CUcontext context;
    uint64_t context_id;
    CUevent event;
};

/* True for the driver's answer to a call that named a destroyed context. gpumem did not see the call that destroyed
 * it. */
static inline bool gm_is_destroyed_error(gm_status status) {
    return status == CUDA_ERROR_CONTEXT_IS_DESTROYED || status == CUDA_ERROR_INVALID_CONTEXT;
}

/* Both need relaxed capture mode and no lock held. `own`: the event belongs to the context of the block. GM_OK,
 * GM_FENCE_PENDING, or the driver's own error. */
GM_INTERNAL gm_status gm_event_query(const struct gm_event_of *event, bool own);
/* Waits in the calling thread. Not to be used for an event of another device: a native free would not wait for that. */
GM_INTERNAL gm_status gm_event_wait(const struct gm_event_of *event, bool own);
/* The wait of gm_event_wait, while the caller holds the event's context (waiting.c). It blocks the thread, except for
 * the first microseconds. */
GM_INTERNAL gm_status gm_event_block(const struct gm_event_of *event);
/* Makes later work of the stream wait for the event; stream NULL: later work of `context`. */
GM_INTERNAL gm_status gm_event_order(const struct gm_event_of *event, bool own, CUcontext context, CUstream stream);
/* Destroys the event, unless its context is destroyed or ending. */
GM_INTERNAL void gm_event_discard(const struct gm_event_of *event);

#endif
