/* What gpumem's own work in a context runs on: a few private non-blocking streams and a few events, made at first use,
 * one set a context for all resources.
 *
 * No lock is held across a driver call: two threads that need the same thing at once both make it, one is published,
 * the other destroyed. Everything here is to be called between gm_capture_guard_enter and gm_capture_guard_leave,
 * except gm_internal_of, gm_internal_stream_made, gm_context_enter, gm_context_leave, gm_internal_forget and the peer
 * table. */
#ifndef GM_DRIVER_INTERNAL_STREAM_H
#define GM_DRIVER_INTERNAL_STREAM_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"

#define GM_INTERNAL_CONTEXTS 64 /* contexts served at one time */

enum gm_internal_use {
    GM_INTERNAL_ALLOC, /* never waits for work of the program: an allocation is complete as soon as the driver has done
                          it */
    GM_INTERNAL_FREE,  /* waits for fences */
    GM_INTERNAL_PREFETCH, /* carries pages to the device; nothing waits for it but fences */
    GM_INTERNAL_USES
};

struct gm_internal_slot;

/* A context's set, by value: harmless when the context dies meanwhile. */
struct gm_internal {
    struct gm_internal_slot *slot;
    CUcontext context;
    uint64_t id;
    int device;
};

/* The set of a context. False: GM_INTERNAL_CONTEXTS contexts are in use already. No driver call. */
GM_INTERNAL bool gm_internal_of(CUcontext context, uint64_t context_id, int device, struct gm_internal *internal);
/* Forgets streams and events of a context that is gone, without touching the driver. */
GM_INTERNAL void gm_internal_forget(uint64_t context_id);

/* Makes the context current unless it is; *pushed goes to gm_context_leave. */
GM_INTERNAL gm_status gm_context_enter(CUcontext context, bool *pushed);
GM_INTERNAL void gm_context_leave(bool pushed);

/* The context must be current for the following. Errors: the driver's own. */
GM_INTERNAL gm_status gm_internal_stream(const struct gm_internal *internal, enum gm_internal_use use,
                                         CUstream *stream);
/* The stream if it was made before; no driver call, the context need not be current. */
GM_INTERNAL bool gm_internal_stream_made(const struct gm_internal *internal, enum gm_internal_use use,
                                         CUstream *stream);
/* An event without timing, to be given back. */
GM_INTERNAL gm_status gm_internal_event_take(const struct gm_internal *internal, CUevent *event);
/* The event is kept for the next taker or destroyed; forgotten when the context `id` is gone. */
GM_INTERNAL void gm_internal_event_put(uint64_t id, CUevent event);

/* Makes `stream` wait for all work submitted so far in the context, in the primary context of its device, and in those
 * of the peers that may access the device: what a native free of the owner waits for, and what its own fence does not
 * see. A driver without cuCtxRecordEvent: waits in the calling thread. GM_FENCE_PENDING: a peer's
 * context may be ending just now. */
GM_INTERNAL gm_status gm_wait_for_users(const struct gm_internal *internal, CUstream stream);

/* `peer` may access `device`'s memory from now on. */
GM_INTERNAL void gm_peers_enable(int device, int peer);
/* Bit p: device p may access `device`. */
GM_INTERNAL uint64_t gm_peers_of(int device);

#endif
