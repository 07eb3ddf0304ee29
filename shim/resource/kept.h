/* See gm_resource_alloc and gm_resource_free. */
#ifndef GM_RESOURCE_KEPT_H
#define GM_RESOURCE_KEPT_H

#include "shim/resource/record.h"

/* Fills a block for the request from a claimed record, which ends: its owner adds one of its own. */
GM_INTERNAL void gm_kept_hand_out(struct gm_block_record *record, const struct gm_request *request,
                                  struct gm_block *block);

#endif
