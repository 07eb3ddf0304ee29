/* The resource behind every movable call: serves each request by the kind that the policy decided, or steps back. */
#ifndef GM_PLACEMENT_ROUTER_H
#define GM_PLACEMENT_ROUTER_H

#include "shim/base/base.h"
#include "shim/placement/oom.h"
#include "shim/resource/resource.h"

/* Registers who serves a kind. Not thread-safe: before the first request. NULL leaves the kind to its fallback. */
void gm_router_serve(enum gm_kind kind, struct gm_resource *resource);
struct gm_resource *gm_router_server(enum gm_kind kind);
/* Gives back all that the kind's server keeps, with what a cache around it keeps. */
GM_INTERNAL void gm_router_trim_kind(enum gm_kind kind);

/* The steps in force; "trim" until set. Before the first request. */
GM_INTERNAL void gm_router_set_steps(const struct gm_oom_chain *steps);
/* Called after each trim for a request: the request, bytes given back. NULL: nobody wants to know. Before the first
 * request. */
GM_INTERNAL extern void (*gm_router_on_trim)(const struct gm_request *request, size_t given);

#endif
