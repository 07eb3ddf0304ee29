/* Functions of the cache that other folders call, beside its ops (gm_resource_cache in shim/resource/rows.h).
 *
 * A block that is reused goes one way: by put() into the cache and by take() out of it, with its record. fast.h has the
 * shortest form of both. The ops alloc() and free() obtain memory and give it back. */
#ifndef GM_CACHE_CACHE_H
#define GM_CACHE_CACHE_H

#include "shim/base/base.h"
#include "shim/resource/registry.h"
#include "shim/resource/resource.h"

/* The free lists on which the calling thread works. */
GM_INTERNAL struct gm_shard *gm_cache_my_shard(struct gm_resource *self);
/* A thread that saw gm_observers without a bit may be in the fast case of a take or put. To be called after the bit was
 * set: when it returns, no thread is, or sees the word as it was. */
GM_INTERNAL void gm_cache_pass(struct gm_resource *self);

/* For replays, where one thread makes the calls of many threads. From now on all caches treat the calling thread as
 * thread `number`. */
GM_INTERNAL void gm_cache_act_as(unsigned number);

/* ---- memory that the program's own calls make and free (mapped.h); `self` is a cache over its maker */

/* Serves a request by a ready block of exactly its size, without waiting. Returns its address; 0: there is none. */
GM_INTERNAL uint64_t gm_cache_take_exact(struct gm_resource *self, const struct gm_request *request);

#endif
