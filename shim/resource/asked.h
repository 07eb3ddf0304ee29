/* What gpumem_resource.h sets in adaptors, and asks them. `self` is a resource of the adaptor's row. */
#ifndef GM_RESOURCE_ASKED_H
#define GM_RESOURCE_ASKED_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* "retry", before the first allocation. Any thread may call the callback; it returns 1 to try again. NULL: nothing is
 * tried. */
GM_INTERNAL void gm_retry_by(struct gm_resource *self, int (*callback)(size_t bytes, void *user), void *user);

/* "statistics" */
struct gpumem_statistics;
GM_INTERNAL void gm_statistics_of(struct gm_resource *self, struct gpumem_statistics *counts);

/* "stream-bound": its stream. */
GM_INTERNAL uint64_t gm_stream_bound_to(const struct gm_resource *self);

/* "track": calls visit for a copy of each live block, in no order. `sequence` of a block is the number of its
 * allocation, from 1. */
GM_INTERNAL void gm_track_each(struct gm_resource *self, void (*visit)(const struct gm_block *block, void *arg),
                               void *arg);

#endif
