/* A fence shows when all work that was submitted before a certain moment, and that may use a block, has finished.
 *
 * gm_fence_record records one event for all work of each context that may use the block (cuCtxRecordEvent, driver 12.5
 * and later; enum gm_fence_reach). The event of the block's context covers copies of native memory in streams of other
 * devices, but not of memory that the other device may access, or that gpumem placed (measured with driver 580). The
 * event of the primary context covers the green contexts made from it, while the event of a green context covers only
 * its own work. A native free does not wait for the work of peers. Older drivers record one event on each stream
 * instead (streams.h).
 *
 * Events are created once and stay with the fence for its next recording. A context that ends destroys its events, and
 * its work is done (event.h). The fence continues with the remaining ones.
 *
 * One thread at a time uses a fence. Only gm_fence_query and gm_fence_wait may run in many threads at once.
 * gm_fence_record and gm_fence_query must be called between gm_capture_guard_enter and gm_capture_guard_leave, with no
 * lock held. */
#ifndef GM_DRIVER_FENCE_H
#define GM_DRIVER_FENCE_H

#include "shim/base/base.h"
#include "shim/driver/event.h"

enum { GM_FENCE_POINTS = 16 };

/* Zeroed memory is a fence that was never recorded. */
struct gm_fence {
    uint64_t context_id;  /* of the block */
    unsigned count;       /* recorded events */
    unsigned owners;      /* the first ones of these: on the block's device; a native free waits for their work */
    unsigned event_count; /* existing events, the recorded ones first */
    struct gm_event_of points[GM_FENCE_POINTS];
};

/* False: gpumem can record neither the context nor its streams. The caller has to wait for the context instead. */
GM_INTERNAL bool gm_fence_supported(void);
/* Whose work may use a block of a context. */
enum gm_fence_reach {
    GM_FENCE_OWN,    /* that context's */
    GM_FENCE_DEVICE, /* and that of the device's primary context, where green contexts share the memory */
    GM_FENCE_ACCESS, /* and that of contexts with peer access. Enough for native memory */
    GM_FENCE_COPIES, /* and that of every context of another device */
};
/* Records all work submitted so far that may use a block of this context. Without cuCtxRecordEvent: the work of the
 * context's streams. Errors: GM_NOT_SUPPORTED when more than GM_FENCE_POINTS contexts may use the block;
 * GM_FENCE_PENDING while one of them may be ending; the driver's own. After an error nothing is recorded. */
GM_INTERNAL gm_status gm_fence_record(struct gm_fence *fence, const struct gm_context *context,
                                      enum gm_fence_reach reach);
/* The same. A driver without cuCtxRecordEvent waits in the calling thread for each context instead, and the fence is
 * complete at once. */
GM_INTERNAL gm_status gm_fence_record_or_wait(struct gm_fence *fence, const struct gm_context *context,
                                              enum gm_fence_reach reach);
/* Records the work that the stream has now, for a block of this context. `stream` may be a default stream of the
 * current context. GM_NOT_SUPPORTED as above; the driver's own errors. */
GM_INTERNAL gm_status gm_fence_record_stream(struct gm_fence *fence, CUstream stream, bool per_thread,
                                             uint64_t context_id);
/* GM_OK: complete. GM_FENCE_PENDING: not complete. Otherwise the driver's own error. */
GM_INTERNAL gm_status gm_fence_query(const struct gm_fence *fence);
/* Waits in the calling thread for the work of the block's device, as a native free does. It does not disturb a
 * capture. Events of other devices are only queried, because a kernel of a peer may wait for work that this thread
 * submits next. GM_FENCE_PENDING: one of these is not complete, or the block's own context is ending. */
GM_INTERNAL gm_status gm_fence_wait(const struct gm_fence *fence);
/* Makes later work of the stream, which belongs to the block's context, wait for everything that the fence covers. Not
 * to be used with work of other devices: the stream's context would wait for it too. */
GM_INTERNAL gm_status gm_fence_order(const struct gm_fence *fence, CUstream stream);
/* Makes later work of the stream, which belongs to the context, wait for the work that a native free in the context
 * waits for now. GM_OUT_OF_MEMORY: the kernel has no memory; other errors as gm_fence_record. */
GM_INTERNAL gm_status gm_fence_stream_behind(CUcontext context, uint64_t context_id, CUdevice device, CUstream stream);
/* Destroys the events of a fence that is no longer used. */
GM_INTERNAL void gm_fence_discard(struct gm_fence *fence);
/* A fence for one block, to be given back with its events. NULL: the kernel has no memory. */
GM_INTERNAL struct gm_fence *gm_fence_take(void);
GM_INTERNAL void gm_fence_give(struct gm_fence *fence);
/* A capture began through an entry point that gpumem does not observe. The answer says nothing about the fence. */
static inline bool gm_is_capture_error(gm_status status) {
    return status >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && status <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}
/* Such a capture, or a context that may be ending. The caller tries again later. */
static inline bool gm_is_put_off(gm_status status) { return gm_is_capture_error(status) || status == GM_FENCE_PENDING; }

#endif
