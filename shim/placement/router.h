/* Resource "router": serves each request with the kind of memory that the policy chose, or with a fallback (router.c).
 * All allocations that gpumem may move go through it. */
#ifndef GM_PLACEMENT_ROUTER_H
#define GM_PLACEMENT_ROUTER_H

#include "shim/base/base.h"
#include "shim/placement/oom.h"
#include "shim/resource/resource.h"

/* Registers the resource that serves a kind. NULL: the fallback of the kind serves. Not thread-safe: call it before the
 * first request. */
void gm_router_serve(enum gm_kind kind, struct gm_resource *resource);
/* A stack of the user's serves GM_KIND_NATIVE. What it does not support, `native` serves. Call it before
 * gm_router_serve. */
GM_INTERNAL void gm_router_call_natively(struct gm_resource *native);
/* The resource that serves a kind; NULL: none. */
struct gm_resource *gm_router_server(enum gm_kind kind);
/* The cache that serves GM_KIND_CACHE and keeps freed blocks with their records; NULL: none. */
GM_INTERNAL struct gm_resource *gm_router_keeper(void);
/* Releases all unused memory of the resource that serves the kind, and of the caches in it. */
GM_INTERNAL void gm_router_trim_kind(enum gm_kind kind);

/* Sets the steps of GPUMEM_OOM; the default is "trim". Call it before the first request. */
GM_INTERNAL void gm_router_set_steps(const struct gm_oom_chain *steps);
GM_INTERNAL const struct gm_oom_chain *gm_router_steps(void);

#endif
