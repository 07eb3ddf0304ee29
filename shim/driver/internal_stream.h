/* What gpumem's own work in a context runs on: a few private non-blocking streams and a few events, made at first use, one set a
 * context for all resources (field guide, trap 17).
 *
 * No lock is held across a driver call: two threads that need the same thing at once both make it, one is published, the other
 * destroyed. Everything here is to be called between gm_capture_guard_enter and gm_capture_guard_leave, except gm_lane_of,
 * gm_lane_made, gm_lane_enter, gm_lane_leave, gm_lane_forget and the peer table. */
#ifndef GM_RESOURCE_LANE_H
#define GM_RESOURCE_LANE_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"

#define GM_LANES 64 /* contexts served at one time */

enum gm_lane_use {
    GM_LANE_ALLOC, /* never waits for work of the program: an allocation is complete as soon as the driver has done it */
    GM_LANE_FREE,  /* waits for fences */
    GM_LANE_PREFETCH, /* carries pages to the device; nothing waits for it but fences */
    GM_LANE_USES
};

struct gm_lane_slot;

/* A context's set, by value: harmless when the context dies meanwhile. */
struct gm_lane {
    struct gm_lane_slot *slot;
    CUcontext context;
    uint64_t id;
    int device;
};

/* The set of a context. False: GM_LANES contexts are in use already. No driver call. */
GM_INTERNAL bool gm_lane_of(CUcontext context, uint64_t context_id, int device, struct gm_lane *lane);
/* Forgets streams and events of a context that is gone, without touching the driver. */
GM_INTERNAL void gm_lane_forget(uint64_t context_id);

/* Makes the context current unless it is; *pushed goes to gm_lane_leave. */
GM_INTERNAL gm_status gm_lane_enter(CUcontext context, bool *pushed);
GM_INTERNAL void gm_lane_leave(bool pushed);

/* The context must be current for the following. Errors: the driver's own. */
GM_INTERNAL gm_status gm_lane_stream(const struct gm_lane *lane, enum gm_lane_use use, CUstream *stream);
/* The stream if it was made before; no driver call, the context need not be current. */
GM_INTERNAL bool gm_lane_made(const struct gm_lane *lane, enum gm_lane_use use, CUstream *stream);
/* An event without timing, to be given back. */
GM_INTERNAL gm_status gm_lane_event_take(const struct gm_lane *lane, CUevent *event);
/* The event is kept for the next taker or destroyed; forgotten when the context `id` is gone. */
GM_INTERNAL void gm_lane_event_put(uint64_t id, CUevent event);

/* Makes `stream` wait for all work submitted so far in the context, in the primary context of its device, and in those
 * of the peers that may access the device: what a native free of the owner waits for, and what its own fence does not
 * see (traps 7 and 12). A driver without cuCtxRecordEvent: waits in the calling thread. GM_FENCE_PENDING: a peer's
 * context may be ending just now. */
GM_INTERNAL gm_status gm_lane_fence(const struct gm_lane *lane, CUstream stream);

/* `peer` may access `device`'s memory from now on. */
GM_INTERNAL void gm_lane_enable_peer(int device, int peer);
/* Bit p: device p may access `device`. */
GM_INTERNAL uint64_t gm_lane_peers(int device);

#endif
