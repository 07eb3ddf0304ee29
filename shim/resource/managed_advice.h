/* Hints about managed memory of ours: moved to its device before the program gets it, and freed of the program's advice
 * before somebody else gets it. */
#ifndef GM_RESOURCE_MANAGED_ADVICE_H
#define GM_RESOURCE_MANAGED_ADVICE_H

#include "shim/resource/block.h"
#include "shim/driver/internal_stream.h"

/* GPUMEM_MANAGED_PREFETCH: starts to move a new block's pages to its device (prefetching, hybrid-allocation-he III.A).
 * The block may be used at once on every stream: managed pages move under their users by themselves. A plain request's
 * prefetch runs on a stream of ours that carries nothing else, so that nothing waits for it but fences; a
 * stream-ordered request's on that request's stream. Nothing happens on a device without concurrentManagedAccess. A
 * refusal is logged once: the memory is good without. The context must be current; between gm_capture_guard_enter and
 * gm_capture_guard_leave. */
GM_INTERNAL void gm_managed_advice_prefetch(const struct gm_request *request, const struct gm_piece *piece);
/* Before a free in the order of a stream that does not see our prefetches: waits for them in the calling thread. They
 * never wait for the program's work. */
GM_INTERNAL void gm_managed_advice_settle(const struct gm_block *block);
/* True: the driver has what gm_managed_advice_undo needs. */
GM_INTERNAL bool gm_managed_advice_can_undo(void);
/* Takes every advice off the whole block and moves its pages back to its device, for memory that stays mapped after its
 * free. The driver widens the range to whole pages: small blocks that share a page share its advice, natively too.
 * Errors: the driver's own; some advice may be left then. */
GM_INTERNAL gm_status gm_managed_advice_undo(const struct gm_block *block);

/* Gives advice (enum gm_advice bits) about the whole of a new managed block. A refusal is logged once: the memory is
 * good without. Where the block's memory is used again after its free, the block is marked, and gm_managed_advice_undo
 * comes with the free. Nothing happens while a stream captures. */
GM_INTERNAL void gm_managed_advice_advise(const struct gm_request *request, uint32_t advice, struct gm_block *block);

#endif
