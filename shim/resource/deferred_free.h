/* Deferred frees, for makers whose memory has no free in stream order, or none that may wait for another device. A free
 * waits until its stream has reached it, or until no stream captures. Then the maker's function free_now frees the
 * memory. A struct that is zeroed except for free_now and the flags has no deferred frees. */
#ifndef GM_RESOURCE_DEFERRED_FREE_H
#define GM_RESOURCE_DEFERRED_FREE_H

#include "shim/driver/driver.h"
#include "shim/resource/deferred_queue.h"
#include "shim/resource/resource.h"

struct gm_deferred_free {
    struct {
        struct gm_deferred_queue waiting;       /* each block waits for its fence */
        struct gm_deferred_queue after_capture; /* freed by the program during a capture */
        gm_spin flushing;                       /* held by the thread that flushes */
    } pending;                                  /* zero in the child of a fork */
    /* Frees the memory, which nobody uses any more. After a failure it is called again later. Runs in relaxed capture
     * mode. */
    gm_status (*free_now)(const struct gm_deferred_block *deferred);
    bool waits_itself; /* free_now itself waits for all work that may use the memory */
    bool in_context;   /* free_now needs the block's context as the current one; the memory ends with it */
};

/* The free of a resource. GM_CALL_FREE: waits for all work submitted so far that a native free waits for. The block is
 * freed at once, or later if work of another device may still use it. During a capture the block goes to
 * `after_capture`. GM_CALL_FREE_ASYNC: the block is freed after the work that the stream has now; when more than 64
 * blocks or 256 MiB wait, the call waits for the oldest. Errors: GM_NOT_INITIALIZED without a driver; GM_INVALID_VALUE
 * for another call and while the stream of the free captures; the driver's own. After an error the block is untouched.
 */
GM_INTERNAL gm_status gm_deferred_free_add(struct gm_deferred_free *frees, const struct gm_block *block,
                                           const struct gm_free_request *how);
/* A GM_CALL_FREE that does not wait: the block is freed when all work that may use it is done. */
GM_INTERNAL gm_status gm_deferred_free_later(struct gm_deferred_free *frees, const struct gm_block *block);
/* Frees the blocks whose fences are complete, without waiting. A thread that finds another one at it goes on. */
GM_INTERNAL void gm_deferred_free_flush(struct gm_deferred_free *frees);
/* Waits for all deferred frees and does them, except those that need a fence while a stream captures. Returns the bytes
 * freed. */
GM_INTERNAL uint64_t gm_deferred_free_drain(struct gm_deferred_free *frees);
/* The context was destroyed, and its work with it: frees its blocks now. */
GM_INTERNAL void gm_deferred_free_context_destroyed(struct gm_deferred_free *frees, uint64_t context_id);
/* In the child of a fork: forgets the parent's blocks. */
GM_INTERNAL void gm_deferred_free_after_fork(struct gm_deferred_free *frees);

/* ---- ops (resource.h) of a resource whose ops name its frees as `deferred` */

GM_INTERNAL gm_status gm_deferred_free(struct gm_resource *self, const struct gm_block *block,
                                       const struct gm_free_request *how);
GM_INTERNAL void gm_deferred_context_destroyed(struct gm_resource *self, uint64_t context_id);
GM_INTERNAL void gm_deferred_capture(struct gm_resource *self, int change);
/* The same for a maker whose free_now waits for nothing: frees what can be freed. */
GM_INTERNAL void gm_deferred_capture_flush(struct gm_resource *self, int change);

#endif
