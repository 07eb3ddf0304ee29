/* Hints to the driver about managed memory that gpumem serves. New memory can be prefetched to its device. Advice that
 * the program gave for a block is removed before another block gets the same memory. */
#ifndef GM_RESOURCE_MANAGED_ADVICE_H
#define GM_RESOURCE_MANAGED_ADVICE_H

#include "shim/resource/block.h"
#include "shim/driver/internal_stream.h"

/* GPUMEM_MANAGED_PREFETCH: starts to move the pages of a new block to its device (prefetching, hybrid-allocation-he
 * III.A). The program may use the block at once on every stream, because managed pages migrate while they are in use.
 * For a plain request the prefetch runs on an internal stream of its own, so only fences wait for it. For a
 * stream-ordered request it runs on the stream of the request. Does nothing on a device without
 * concurrentManagedAccess. A refusal is logged once; the memory works without prefetch. The context must be current,
 * and the caller is between gm_capture_guard_enter and gm_capture_guard_leave. */
GM_INTERNAL void gm_managed_advice_prefetch(const struct gm_request *request, const struct gm_piece *piece);
/* Waits in the calling thread for the prefetches of the block's context. Needed before a free in stream order, because
 * the program's stream is not ordered after the internal stream. Prefetches never wait for the program's work. */
GM_INTERNAL void gm_managed_advice_settle(const struct gm_block *block);
/* True: the driver has the functions that gm_managed_advice_undo needs. */
GM_INTERNAL bool gm_managed_advice_can_undo(void);
/* Removes all advice from the block and starts to move its pages back to its device. For memory that stays mapped after
 * its free. The driver extends the range to whole pages; so small blocks that share a page share its advice, as they do
 * natively. Errors: the driver's own; some advice may remain then. */
GM_INTERNAL gm_status gm_managed_advice_undo(const struct gm_block *block);

/* Gives advice (enum gm_advice bits) for a whole new managed block. A refusal is logged once; the memory works without
 * advice. If the block's memory is reused after its free, the block is marked, and its free calls
 * gm_managed_advice_undo. Does nothing while a stream captures. */
GM_INTERNAL void gm_managed_advice_advise(const struct gm_request *request, uint32_t advice, struct gm_block *block);

#endif
