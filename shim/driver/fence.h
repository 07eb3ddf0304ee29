/* Fences: "everything submitted in a block's context before this moment has finished".
 *
 * An event of each context that may use the block is recorded for all work of that context (cuCtxRecordEvent, driver 12.5 and
 * later): the block's own context, the primary context of its device (whose event covers the green contexts made from it, while a
 * green context's covers its own work only) and every context that may access the device as a peer, whose work a native free does
 * not see. Events are made once and stay with the fence for its next recording.
 *
 * A fence belongs to one thread at a time except for query and wait, which many may do at once. gm_fence_record and gm_fence_query
 * are to be called between gm_capture_guard_enter and gm_capture_guard_leave; no lock may be held. */
#ifndef GM_DRIVER_FENCE_H
#define GM_DRIVER_FENCE_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"

enum { GM_FENCE_POINTS = 16, GM_FENCE_PENDING = CUDA_ERROR_NOT_READY };

/* Zeroed memory is a fence that was never recorded. */
struct gm_fence {
    unsigned count; /* recorded */
    unsigned kept;  /* events there are, the recorded ones first */
    struct gm_fence_point {
        uint64_t context_id;
        CUevent event;
    } points[GM_FENCE_POINTS];
};

/* False: this driver cannot record a whole context; whoever needs a fence has to wait for the context instead. */
GM_INTERNAL bool gm_fence_supported(void);
/* Records all work submitted so far for a block of this context. Errors: GM_NOT_SUPPORTED when more than GM_FENCE_POINTS contexts
 * may use the block, the driver's own; nothing is recorded then. */
GM_INTERNAL gm_status gm_fence_record(struct gm_fence *fence, CUcontext context, uint64_t context_id, CUdevice device);
/* GM_OK: complete. GM_FENCE_PENDING: not yet. Else the driver's own error. */
GM_INTERNAL gm_status gm_fence_query(const struct gm_fence *fence);
/* Waits in the calling thread, without disturbing a capture that begins meanwhile. */
GM_INTERNAL gm_status gm_fence_wait(const struct gm_fence *fence);
/* The context is gone and its work with it: its event is forgotten without touching the driver. */
GM_INTERNAL void gm_fence_forget(struct gm_fence *fence, uint64_t context_id);
/* Capture began through a door that nobody watches: the answer says nothing about the fence. */
static inline bool gm_is_capture_error(gm_status status) {
    return status >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && status <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

#endif
