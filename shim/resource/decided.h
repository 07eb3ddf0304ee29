/* The resource behind every movable call: serves each request by the kind that the policy decided, or steps back. */
#ifndef GM_DECIDED_H
#define GM_DECIDED_H

#include "shim/resource/resource.h"

/* Registers who serves a kind. Not thread-safe: before the first request. NULL leaves the kind to its fallback. */
void gm_decided_serve(enum gm_kind kind, struct gm_resource *resource);
struct gm_resource *gm_decided_server(enum gm_kind kind);

#endif
