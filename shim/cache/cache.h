/* What others may ask of the cache beyond its row. */
#ifndef GM_CACHE_CACHE_H
#define GM_CACHE_CACHE_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* Gives back all that `cache` keeps for a context that is about to end. Frees natively, so it waits for work of the
 * context. Returns bytes. */
GM_INTERNAL size_t gm_cache_empty(struct gm_resource *cache, uint64_t context_id);

/* Frees what `cache` keeps of a device and nobody uses any more, without waiting; then as the wrapped resource's
 * releasable. For memory that a pool keeps once more: what of it can be given back is not known before. */
GM_INTERNAL size_t gm_cache_give_ready(struct gm_resource *cache, int device);

/* For replays, where one thread makes the calls of many: caches take the calling thread for the one of this number from
 * now on, 0 = one that they have not met yet. Returns the number it had. */
GM_INTERNAL unsigned gm_cache_act_as(unsigned number);

#endif
