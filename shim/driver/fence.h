/* Fences: "everything submitted in a block's context before this moment has finished".
 *
 * An event of each context that may use the block is recorded for all work of that context (cuCtxRecordEvent,
 * driver 12.5 and later): the block's own context, the primary context of its device (whose event covers the green
 * contexts made from it, while a green context's covers its own work only) and every context that may access the device
 * as a peer, whose work a native free does not see. Events are made once and stay with the fence for its next
 * recording.
 *
 * A context that ends takes its events along, and its work is done (event.h): the fence goes on with what is left.
 *
 * A fence belongs to one thread at a time except for query and wait, which many may do at once. gm_fence_record and
 * gm_fence_query are to be called between gm_capture_guard_enter and gm_capture_guard_leave; no lock may be held. */
#ifndef GM_DRIVER_FENCE_H
#define GM_DRIVER_FENCE_H

#include "shim/base/base.h"
#include "shim/driver/event.h"

enum { GM_FENCE_POINTS = 16 };

/* Zeroed memory is a fence that was never recorded. */
struct gm_fence {
    unsigned count;  /* recorded */
    unsigned owners; /* of them, the first ones: of the block's device, whose work a native free waits for */
    unsigned kept;   /* events there are, the recorded ones first */
    struct gm_event_of points[GM_FENCE_POINTS];
};

/* False: this driver cannot record a whole context; whoever needs a fence has to wait for the context instead. */
GM_INTERNAL bool gm_fence_supported(void);
/* Records all work submitted so far for a block of this context. Errors: GM_NOT_SUPPORTED when more than
 * GM_FENCE_POINTS contexts may use the block, GM_FENCE_PENDING while one of them may be ending, the driver's own;
 * nothing is recorded then. */
GM_INTERNAL gm_status gm_fence_record(struct gm_fence *fence, CUcontext context, uint64_t context_id, CUdevice device);
/* The same for what a native free of the block waits for: work of its own context, and of the primary context where
 * green contexts share its memory. Only where cuCtxRecordEvent exists. */
GM_INTERNAL gm_status gm_fence_record_owner(struct gm_fence *fence, const struct gm_context *context, bool primary);
/* GM_OK: complete. GM_FENCE_PENDING: not yet. Else the driver's own error. */
GM_INTERNAL gm_status gm_fence_query(const struct gm_fence *fence);
/* Waits in the calling thread for the work of the block's device, as a native free does, without disturbing a capture.
 * The others are only asked: a peer's kernel may wait for what this thread submits next. GM_FENCE_PENDING: one of them
 * is not done, or the block's own context goes. */
GM_INTERNAL gm_status gm_fence_wait(const struct gm_fence *fence);
/* Makes later work of the context wait for all that the fence covers (cuCtxWaitEvent). Where gm_fence_query may be
 * called. */
GM_INTERNAL gm_status gm_fence_order(const struct gm_fence *fence, CUcontext context);
/* Destroys the events of a fence that is not used any more. */
GM_INTERNAL void gm_fence_discard(struct gm_fence *fence);
/* Capture began through an entry point that nobody watches: the answer says nothing about the fence. */
static inline bool gm_is_capture_error(gm_status status) {
    return status >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && status <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}
/* So did one, or a context that has to be recorded may be ending: to be tried again. */
static inline bool gm_is_put_off(gm_status status) { return gm_is_capture_error(status) || status == GM_FENCE_PENDING; }

#endif
