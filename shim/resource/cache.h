/* What others may ask of the cache beyond its row. */
#ifndef GM_RESOURCE_CACHE_H
#define GM_RESOURCE_CACHE_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* Gives back all that `cache` keeps for a context that is about to end. Frees natively, so it waits for work of the context.
 * Returns bytes. */
GM_INTERNAL size_t gm_cache_empty(struct gm_resource *cache, uint64_t context_id);

#endif
