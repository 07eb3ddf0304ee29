/* The parts of the cache share this. cache.c: allocation and free. cache_budget.c: how much may be kept. cache_fence.c:
 * fences. cache_release.c: giving back. */
#ifndef GM_CACHE_PARTS_H
#define GM_CACHE_PARTS_H

#include "shim/resource/resource.h"
#include "shim/cache/free_lists.h"

enum { GM_CACHE_SHARDS = 16, GM_CACHE_FENCES = 256 };

#define GM_CACHE_ROTATION                                                                                             \
    ((size_t)24 << 20) /* bytes of one size that wait for their fences: within a large L2 cache, so that kernels find \
                          their block there */

struct gm_cache_device {
    uint64_t owned;   /* bytes got from upstream and not given back: live and kept */
    uint64_t peak;    /* largest live total */
    uint64_t limit;   /* bytes kept, 0 = not asked yet */
    uint64_t allowed; /* of the limit: allowances of all shards */
    uint64_t looked;  /* ticks */
    bool tight;       /* little free memory: keep nothing */
};

struct gm_cache {
    unsigned frees; /* one fence for so many */
    uint64_t limit, idle_ns;
    bool rdma;
    unsigned devices_used; /* that blocks came from */
    struct gm_cache_device devices[GM_CACHE_DEVICES];
    struct gm_shard shards[GM_CACHE_SHARDS];
};

/* Shards that threads have; at least one. */
GM_INTERNAL extern unsigned gm_cache_shards;
static inline unsigned gm_cache_shards_used(void) { return __atomic_load_n(&gm_cache_shards, __ATOMIC_RELAXED); }

/* Read without the shard's lock. */
static inline bool gm_cache_has_some(const struct gm_shard *shard, int device) {
    return __atomic_load_n(&shard->shares[device].bytes, __ATOMIC_RELAXED) != 0;
}

/* ---- budget: no lock is held or taken, except where it says so */

static inline bool gm_cache_has_rdma(const struct gm_cache *state) {
    return __atomic_load_n(&state->rdma, __ATOMIC_RELAXED);
}
/* Bytes that may be kept of a device; asks the driver the first time. */
GM_INTERNAL uint64_t gm_cache_limit(struct gm_cache *state, int device);
/* Does a lists of the device keep blocks, and does its shard's allowance have room for this one? The lock is held. */
static inline bool gm_cache_may_keep(const struct gm_cache *state, const struct gm_free_lists *lists, int device,
                                     size_t size) {
    return lists && !lists->aside && !__atomic_load_n(&state->devices[device].tight, __ATOMIC_RELAXED) &&
           lists->share->bytes + size <= lists->share->allowance;
}
/* Raises the allowance so that `size` more bytes may be kept. False: too little of the limit is left. The shard's lock
 * is held. */
GM_INTERNAL bool gm_cache_allow(struct gm_cache *state, struct gm_shard *shard, int device, size_t size);
/* Takes unused allowances back from all shards until `size` bytes of the limit are left. No lock is held. Returns the
 * bytes that are missing still. */
GM_INTERNAL size_t gm_cache_gather(struct gm_cache *state, int device, size_t size);
/* Bytes of all shards that have no fence yet. */
GM_INTERNAL size_t gm_cache_unfenced(const struct gm_cache *state);
/* Slow path of an allocation whose context is current: is there room for a cache, does something register memory with a
 * card? */
GM_INTERNAL void gm_cache_look_around(struct gm_cache *state, struct gm_cache_device *device);
/* A block came from upstream, went back there. */
GM_INTERNAL void gm_cache_count_owned(struct gm_cache *state, int device, size_t size);
GM_INTERNAL void gm_cache_count_gone(struct gm_cache *state, int device, size_t size);
/* Bytes beyond what a device should hold in all: they go back when that costs no wait. Overfull: at once. */
GM_INTERNAL size_t gm_cache_excess(const struct gm_cache *state, int device);
GM_INTERNAL bool gm_cache_overfull(const struct gm_cache *state, int device);

/* ---- fences: the shard's lock is held before and after, and let go in between. *gone: the context went meanwhile and
 * the lists with it */

/* The driver cannot be relied on for this context any more: what is kept goes back natively with the next frees. */
GM_INTERNAL void gm_cache_step_aside(struct gm_shard *shard, struct gm_free_lists *lists, gm_status status);
/* Asks, or waits, whether a recorded batch is complete. GM_OK, GM_FENCE_PENDING or the error for which the cache
 * stepped aside. */
GM_INTERNAL gm_status gm_cache_settle(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *batch,
                                      bool wait, bool *gone);
/* Closes the open batch and records its fence. GM_FENCE_PENDING: a capture runs, the batch stays open. */
GM_INTERNAL gm_status gm_cache_record(struct gm_shard *shard, struct gm_free_lists *lists, const void *thread,
                                      struct gm_batch **recorded, bool *gone);

/* ---- giving back: no lock is held, except where it says so */

GM_INTERNAL gm_status gm_cache_free_upstream(struct gm_resource *self, const struct gm_block *block,
                                             const struct gm_free_request *how);
/* Frees what a lists pending_release; its context is made current. What cannot be freed now stays pending_release.
 * Returns bytes. */
GM_INTERNAL size_t gm_cache_drain(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id);
/* The lists of a freed block's context, made where there is none, with room for the block: blocks that were unused
 * longest, in any shard, are given back. NULL: the block is not to be kept. The lock is held, and let go meanwhile. */
GM_INTERNAL struct gm_free_lists *gm_cache_make_room(struct gm_resource *self, struct gm_shard *shard,
                                                     const struct gm_block *block);
/* Is there anything for gm_cache_tidy to do? `latest`: the batch that was closed; NULL: the free has waited for the
 * context. The lock is held. */
GM_INTERNAL bool gm_cache_untidy(const struct gm_cache *state, const struct gm_free_lists *lists,
                                 const struct gm_batch *latest);
/* What a closed batch is a good moment for, one of its context's frees being under way: older fences, bounds, idle
 * blocks. */
GM_INTERNAL void gm_cache_tidy(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id,
                               struct gm_batch *latest);
/* The resource's own context_ending, trim and releasable. */
GM_INTERNAL void gm_cache_empty(struct gm_resource *self, uint64_t context_id);
GM_INTERNAL size_t gm_cache_trim(struct gm_resource *self, size_t bytes);
GM_INTERNAL size_t gm_cache_releasable(struct gm_resource *self, int device);

#endif
