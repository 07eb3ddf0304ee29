/* What the adaptor "track" remembers. */
#ifndef GM_RESOURCE_TRACK_H
#define GM_RESOURCE_TRACK_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* Calls visit for a copy of each live block of a resource of the row, in no order. `sequence` of a block is the number
 * of its allocation, from 1. */
GM_INTERNAL void gm_track_each(struct gm_resource *track, void (*visit)(const struct gm_block *block, void *arg),
                               void *arg);

/* Writes the call stack of a site to the log. NULL: stacks are not known. Set before the first allocation. */
GM_INTERNAL extern void (*gm_track_log_stack)(uint32_t site);

#endif
