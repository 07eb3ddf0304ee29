/* Functions of the cache that other folders call, beside its ops (gm_resource_cache in shim/resource/rows.h). */
#ifndef GM_CACHE_CACHE_H
#define GM_CACHE_CACHE_H

#include "shim/base/base.h"
#include "shim/base/stats.h"
#include "shim/resource/registered.h"
#include "shim/resource/resource.h"

/* For replays, where one thread makes the calls of many threads. From now on all caches treat the calling thread as
 * thread `number`; 0 = a thread that no cache has seen yet. Returns the previous number. */
GM_INTERNAL unsigned gm_cache_act_as(unsigned number);

/* ---- the short path of a pair, for blocks with `recurs`; `counts`: this thread's own shard */

/* True when the resource is a cache that has a short path with this driver. */
GM_INTERNAL bool gm_cache_may_keep(const struct gm_resource *resource);
/* Frees the block of a claimed record, which stays in the registry. False: not possible now, and the caller frees the
 * block by the op `free`. Otherwise *status is what `free` would have returned, and after an error *block is the block
 * that the program still has, without a record. */
GM_INTERNAL bool gm_cache_keep(struct gm_resource *self, struct gm_registered *record, struct gm_stats_shard *counts,
                               struct gm_block *block, gm_status *status);
/* Serves a request of `size` bytes by a block that gm_cache_keep took, and makes its record live again. Returns its
 * address and the bytes that it takes. 0: there is none, and the caller asks the op `alloc`. */
GM_INTERNAL uint64_t gm_cache_reuse(struct gm_resource *self, uint64_t context_id, size_t size,
                                    struct gm_stats_shard *counts, size_t *reserved);
/* Ends the short path: afterwards gm_cache_reuse makes no record live. */
GM_INTERNAL void gm_cache_stop_keeping(struct gm_resource *self);

#endif
