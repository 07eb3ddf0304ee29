/* Blocks of resources that keep them, beside gm_resource_alloc and gm_resource_free. */
#ifndef GM_RESOURCE_KEPT_H
#define GM_RESOURCE_KEPT_H

#include "shim/resource/record.h"

/* Fills a block for the request from a claimed record, which ends: its owner adds one of its own. */
GM_INTERNAL void gm_kept_hand_out(struct gm_block_record *record, const struct gm_request *request,
                                  struct gm_block *block);

/* So many more bytes (fewer, below 0) of the block's kind and device are reserved, unless its pool counts them. */
GM_INTERNAL void gm_kept_reserved(const struct gm_block *block, int64_t more);
/* Frees a block that was just allocated for `request` and never became the program's: only what is kept of it counts as
 * reserved from here on. Errors: of gm_resource_free. */
GM_INTERNAL gm_status gm_resource_undo(struct gm_resource *resource, const struct gm_request *request,
                                       const struct gm_block *block);

#endif
