/* Functions of the cache that other folders call, beside its ops (gm_resource_cache in shim/resource/rows.h). */
#ifndef GM_CACHE_CACHE_H
#define GM_CACHE_CACHE_H

#include "shim/base/base.h"
#include "shim/base/stats.h"
#include "shim/resource/registry.h"
#include "shim/resource/resource.h"

/* For replays, where one thread makes the calls of many threads. From now on all caches treat the calling thread as
 * thread `number`; 0 = a thread that no cache has seen yet. Returns the previous number. */
GM_INTERNAL unsigned gm_cache_act_as(unsigned number);

/* ---- memory that the program's own calls make and free (mapped.h); `self` is a cache over its maker */

/* Serves a request by a ready block of exactly its size, without waiting. Returns its address; 0: there is none. */
GM_INTERNAL uint64_t gm_cache_take(struct gm_resource *self, const struct gm_request *request);
/* A block that was not allocated through the cache will come to its op `free` (change > 0), or will not (change < 0).
 */
GM_INTERNAL void gm_cache_count_own(struct gm_resource *self, int device, int64_t change);

/* ---- the short path of a pair, for blocks with `recurs`. The caller counts the bytes, except of the plain
 * part. */

/* Opens the short path of the resource. `plain`: also the plain part of a pair, which notes nothing. False: it is no
 * cache, or has no short path with this driver. */
GM_INTERNAL bool gm_cache_may_keep(const struct gm_resource *resource, bool plain);
/* The plain part of a pair, which calls no other function: the thread's own shard has a ready block, or takes one
 * without a fence, and live bytes are only set off (gm_stats_took_late). False: by the functions below. */
GM_INTERNAL bool gm_cache_reuse_ready(size_t size, uint64_t *address);
GM_INTERNAL bool gm_cache_keep_plainly(uint64_t address);
/* gm_registry_claim; a record that this thread's shard made live lately is found at once. */
GM_INTERNAL struct gm_registered *gm_cache_claim(struct gm_registry *registry, uint64_t address);
/* Frees the block of a claimed record, which stays in the registry. False: not possible now, and the caller frees the
 * block by the op `free`. Otherwise *status is what `free` would have returned, and after an error *block is the block
 * that the program still has, without a record. Where *sequence is not 0 before, it is a new number, taken before
 * another thread can get the block. */
GM_INTERNAL bool gm_cache_keep(struct gm_resource *self, struct gm_registered *record, struct gm_block *block,
                               uint64_t *sequence, gm_status *status);
/* Serves a request of `size` bytes in the current context by a block that gm_cache_keep took, and makes its record live
 * again. Returns the record; *decision: reason and verdict of the policy's answer. NULL: there is none, and the caller
 * asks the op `alloc`.
 */
GM_INTERNAL struct gm_registered *gm_cache_reuse(struct gm_resource *self, size_t size, struct gm_decision *decision);
/* The same for a request that the policy has just answered with this decision: the kind of the cache. `counted`: the
 * policy wants to know of the block's free. */
GM_INTERNAL struct gm_registered *gm_cache_serve(struct gm_resource *self, const struct gm_request *request,
                                                 const struct gm_decision *decision, bool counted);
/* Closes or opens the plain part. When it is closed on return, no thread is in it. */
GM_INTERNAL void gm_cache_set_plain(struct gm_resource *self, bool plain);
/* Ends the short path: afterwards gm_cache_reuse makes no record live. */
GM_INTERNAL void gm_cache_stop_keeping(struct gm_resource *self);

#endif
