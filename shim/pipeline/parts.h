/* What the source files of the pipeline share. alloc.c: allocation. free.c: free. fast.h: the fast case of both.
 * guard.h: which requests are guarded. events.h: the events of the trace. counts.h: counters. contexts.c: what all
 * resources learn, of contexts for example, and the stacks of the program. */
#ifndef GM_PIPELINE_PARTS_H
#define GM_PIPELINE_PARTS_H

#include "shim/pipeline/pipeline.h"
#include "shim/pipeline/sample.h"
#include "shim/trace/recorded.h"

GM_INTERNAL extern struct gm_pipeline_setup gm_pipeline;

/* The cache that keeps freed blocks with their records (gm_router_keeper), where no adaptor wraps the router; else
 * NULL.
 */
GM_INTERNAL extern struct gm_resource *gm_keeper;

/* ---- contexts.c */

/* The devices that have a context: read before a block is allocated. */
GM_INTERNAL uint64_t gm_devices_open(void);
/* The block is in the registry. Opens it to the devices that are not in `before`: gm_pipeline_open_to may not have seen
 * it. */
GM_INTERNAL void gm_open_to_new(const struct gm_block *block, uint64_t before);

#endif
