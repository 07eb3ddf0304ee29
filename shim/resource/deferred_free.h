/* Frees put off: until the stream they were ordered in has reached them, or until no stream captures. For makers whose
 * memory has no free in stream order; the maker's own function gives the memory back in the end. Zeroed but for
 * free_now it is empty. */
#ifndef GM_RESOURCE_DEFERRED_FREE_H
#define GM_RESOURCE_DEFERRED_FREE_H

#include "shim/driver/driver.h"
#include "shim/resource/deferred_queue.h"
#include "shim/resource/resource.h"

struct gm_deferred_free {
    struct gm_deferred_queue waiting;       /* behind an event each */
    struct gm_deferred_queue after_capture; /* given back during a capture */
    /* Nobody uses the memory any more: gives it back. On failure it is tried again later. Called in relaxed capture
     * mode. */
    gm_status (*free_now)(const struct gm_deferred_block *deferred);
    bool waits_itself; /* free_now waits for all work that may use the memory: nothing has to be waited for before it */
};

/* A resource's free. By cuMemFree: waits for all work submitted so far in the block's context and wherever else the
 * block can be used, frees, and flushes; during a capture the block goes to the after_capture. In stream order: frees
 * when the stream has done its work of now, at the latest when more than 64 blocks or 256 MiB wait. Errors:
 * GM_NOT_INITIALIZED without a driver, GM_INVALID_VALUE for another call and while the stream of the free captures, the
 * driver's own; the block is untouched then. */
GM_INTERNAL gm_status gm_deferred_free_add(struct gm_deferred_free *later, const struct gm_block *block,
                                           const struct gm_free_request *how);
/* The captures are over: what was given back during them is freed, or waits for the work that was submitted meanwhile.
 */
GM_INTERNAL void gm_deferred_free_captures_over(struct gm_deferred_free *later);
/* Frees what may go, without waiting. */
GM_INTERNAL void gm_deferred_free_flush(struct gm_deferred_free *later);
/* Frees all, waiting for it, except what needs a fence while a stream captures; returns the bytes freed. */
GM_INTERNAL uint64_t gm_deferred_free_drain(struct gm_deferred_free *later);
/* The context is gone and its work with it: its blocks are freed now. */
GM_INTERNAL void gm_deferred_free_context_destroyed(struct gm_deferred_free *later, uint64_t context_id);
/* In the child of a fork nothing of the parent's is left. */
GM_INTERNAL void gm_deferred_free_after_fork(struct gm_deferred_free *later);

#endif
