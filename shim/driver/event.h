/* Events of contexts that other threads may end. A context takes its events along, and its work is done then: whoever
 * stands behind the event need not wait for it any more. While a call that may end the context runs, nothing is known.
 * What belongs to the event's own context is gone with it: then there is no answer either. */
#ifndef GM_DRIVER_EVENT_H
#define GM_DRIVER_EVENT_H

#include "shim/driver/driver.h"

enum { GM_FENCE_PENDING = CUDA_ERROR_NOT_READY };

struct gm_event_of {
    CUcontext context;
    uint64_t context_id;
    CUevent event;
};

/* The driver's answer to a call that named a context which was destroyed past every watched call. */
static inline bool gm_is_gone_error(gm_status status) {
    return status == CUDA_ERROR_CONTEXT_IS_DESTROYED || status == CUDA_ERROR_INVALID_CONTEXT;
}

/* In relaxed capture mode, no lock held. `own`: what is asked for belongs to the event's context. GM_OK,
 * GM_FENCE_PENDING, or the driver's own error. */
GM_INTERNAL gm_status gm_event_query(const struct gm_event_of *event, bool own);
/* Waits. Not for an event of another device, for which a native call would not wait. */
GM_INTERNAL gm_status gm_event_wait(const struct gm_event_of *event, bool own);
/* Makes later work of the context wait for the event. */
GM_INTERNAL gm_status gm_event_order(const struct gm_event_of *event, bool own, CUcontext context);
/* Destroys it, unless its context is gone or about to go. */
GM_INTERNAL void gm_event_discard(const struct gm_event_of *event);

#endif
