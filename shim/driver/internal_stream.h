/* Internal streams: gpumem's own work in a context runs on a few private non-blocking streams. The streams are
 * created at first use. There is one set for each context, shared by all resources.
 *
 * No lock is held across a driver call. Two threads that need the same stream at once both create it: one is stored,
 * the other destroyed. All functions must be called between gm_capture_guard_enter and gm_capture_guard_leave, except
 * gm_internal_of, gm_internal_stream_made, gm_internal_forget, and those that enter and leave a context. */
#ifndef GM_DRIVER_INTERNAL_STREAM_H
#define GM_DRIVER_INTERNAL_STREAM_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"

#define GM_INTERNAL_CONTEXTS 64 /* contexts served at one time */

enum gm_internal_use {
    GM_INTERNAL_ALLOC,    /* never waits for work of the program, so an allocation is complete as soon as the driver has
                             done it */
    GM_INTERNAL_FREE,     /* waits for work of its device, so nobody waits for it */
    GM_INTERNAL_PREFETCH, /* moves pages to the device; only fences wait for it */
    GM_INTERNAL_USES
};

struct gm_internal_slot;

/* A context's set, by value. It stays harmless when the context is destroyed. */
struct gm_internal {
    struct gm_internal_slot *slot;
    CUcontext context;
    uint64_t id;
    int device;
};

/* The set of a context. False: GM_INTERNAL_CONTEXTS contexts are already in use. Makes no driver call. */
GM_INTERNAL bool gm_internal_of(CUcontext context, uint64_t context_id, int device, struct gm_internal *internal);
/* Forgets the streams of a destroyed context. Makes no driver call. */
GM_INTERNAL void gm_internal_forget(uint64_t context_id);

/* Makes the context current unless it is already. Pass *pushed to gm_context_leave. */
GM_INTERNAL gm_status gm_context_enter(CUcontext context, bool *pushed);
/* The same for one of an earlier call. CUDA_ERROR_CONTEXT_IS_DESTROYED: it is known to have ended; the driver would
 * follow its handle. That it ends meanwhile is the caller's to prevent. */
GM_INTERNAL gm_status gm_context_enter_again(const struct gm_context *context, bool *pushed);
GM_INTERNAL void gm_context_leave(bool pushed);

/* The context is current, and does not end before gm_context_leave_held. */
struct gm_context_held {
    int hold;
    bool pushed;
};

/* GM_FENCE_PENDING: a call runs that may end the context. CUDA_ERROR_CONTEXT_IS_DESTROYED: it has ended. Otherwise the
 * driver's own error. After each of them nothing is held. */
GM_INTERNAL gm_status gm_context_enter_held(CUcontext context, uint64_t context_id, struct gm_context_held *held);
GM_INTERNAL void gm_context_leave_held(const struct gm_context_held *held);

/* The context must be current for the following functions. Errors: the driver's own. */
GM_INTERNAL gm_status gm_internal_stream(const struct gm_internal *internal, enum gm_internal_use use,
                                         CUstream *stream);
/* The stream, if it exists already. Makes no driver call, and the context need not be current. */
GM_INTERNAL bool gm_internal_stream_made(const struct gm_internal *internal, enum gm_internal_use use,
                                         CUstream *stream);
/* Asks the stream for that long whether it is idle: for work that ends soon, where work of the program may hold the
 * device. CUDA_ERROR_NOT_READY: it is not. */
GM_INTERNAL gm_status gm_internal_stream_ask(CUstream stream, uint64_t patience_ns);
#endif
