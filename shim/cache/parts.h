/* What the source files of the cache share: its state and the functions that one file calls in another. cache.c: take
 * and put. fast.h: their fast cases. find.c: the search for a free block. threads.c: the shards of threads.
 * free_lists.c: the free blocks. limits.c: how many bytes of free blocks are allowed. fences.c: fences of batches, from
 * timeline.c. reclaim.c: releasing free blocks to the upstream resource. */
#ifndef GM_CACHE_PARTS_H
#define GM_CACHE_PARTS_H

#include "policy/size_class.h"
#include "shim/base/limit.h"
#include "shim/cache/free_lists.h"
#include "shim/resource/resource.h"

enum { GM_CACHE_SHARDS = 64, GM_CACHE_CLOSED = 256 }; /* a thread closes no small batch while it has so many */

/* Native blocks of 1 to 512 bytes lie 512 bytes apart. Those of more than half a page have pages of their own; smaller
 * ones share pages. */
#define GM_CACHE_GRANULE ((size_t)512)
#define GM_CACHE_PAGE    ((size_t)2 << 20)
#define GM_CACHE_SHARES  (GM_CACHE_PAGE / 2)

/* Most bytes of one size that wait for their fences. They fit a large L2 cache, so that a kernel finds its block there.
 */
#define GM_CACHE_ROTATION ((size_t)24 << 20)

struct gm_cache_device {
    uint64_t owned;   /* bytes allocated upstream and not yet freed there: live and free blocks */
    uint64_t rounded; /* those of them that native memory would not take; about right, since blocks do not say it */
    uint64_t peak;    /* largest total of live bytes that were requested, since the last trim of everything */
    uint64_t asked, native; /* bytes that were requested upstream, and that native memory takes for them */
    uint64_t misses;        /* blocks that were allocated upstream */
    uint64_t room;          /* bytes that frees keep below the target for the next miss ... */
    uint64_t next_room;     /* ... and what the latest misses alone would need (limits.c) */
    uint64_t unused;        /* bytes free on the device at the last check */
    uint64_t limit;         /* most bytes of free blocks; 0 = not known yet */
    uint64_t allowed;       /* sum of the allowances of all shards, at most `limit` */
    uint64_t checked;       /* last gm_cache_check_device; ticks */
    bool tight;             /* the device has little free memory: no block becomes a free block */
};

struct gm_cache {
    unsigned frees; /* frees for each fence */
    bool rdma;
    size_t granule; /* sizes of blocks are multiples of it, so that the upstream rounds none up */
    size_t page;    /* the same for sizes above GM_CACHE_SHARES */
    bool rounds;    /* blocks have the sizes of classes */
    uint8_t bins[GM_CACHE_SHARES / GM_CACHE_GRANULE]; /* of requests up to GM_CACHE_SHARES bytes */
    uint64_t limit, idle_ns;
    unsigned devices_used; /* devices that served at least one block */
    struct gm_cache_device devices[GM_CACHE_DEVICES];
    struct gm_fence_timelines timelines;
    struct gm_shard shards[GM_CACHE_SHARDS];
};

/* The largest request that a free block may serve. */
#define GM_CACHE_MOST_SIZE (SIZE_MAX / 16)

/* The least multiple of `unit`, a power of two, that is `size` or more. */
static inline size_t gm_cache_multiple(size_t unit, size_t size) { return (size + unit - 1) & ~(unit - 1); }

/* What native memory takes for a request of `size` bytes. */
static inline size_t gm_cache_native(const struct gm_cache *state, size_t size) {
    return gm_cache_multiple(size > GM_CACHE_SHARES ? state->page : state->granule, size);
}

/* The size of the class of a request: whole pages. A block of this size serves all requests of its class. */
static inline size_t gm_cache_class(const struct gm_cache *state, size_t size) {
    size_t least = gm_cache_native(state, size);
    return GM_LIKELY(state->rounds) ? gm_size_class(least, state->granule) : least;
}

/* Number of the bin of the class of `size` bytes: eight for each power of two, from 512 bytes on. Classes have bins of
 * their own up to 128 MiB. */
static inline unsigned gm_bin_of_size(size_t size) {
    uint64_t granules = size < 512 ? 1 : size >> 9;
    unsigned power = 63 - (unsigned)__builtin_clzll(granules);
    unsigned bin = power * 8 + (unsigned)(((granules << 3) >> power) & 7);
    return bin < GM_BINS ? bin : GM_BINS - 1;
}
static inline unsigned gm_cache_bin(const struct gm_cache *state, size_t size) {
    return GM_LIKELY(size - 1 < GM_CACHE_SHARES) ? state->bins[(size - 1) / GM_CACHE_GRANULE]
                                                 : gm_bin_of_size(gm_cache_class(state, size));
}

/* Shards that were ever in use, at least one: the first ones of `shards`. */
GM_INTERNAL extern uint64_t gm_cache_shards;
static inline unsigned gm_cache_shards_used(void) {
    return (unsigned)__atomic_load_n(&gm_cache_shards, __ATOMIC_RELAXED);
}

/* True when the shard has free blocks of the device. The caller need not hold the lock. */
static inline bool gm_cache_has_some(const struct gm_shard *shard, int device) {
    return __atomic_load_n(&shard->shares[device].bytes, __ATOMIC_RELAXED) != 0;
}

/* A context without work completes a fence this soon after it was recorded: later where more threads use the driver,
 * since they wait for each other there. */
static inline uint64_t gm_cache_answer_ns(void) {
    const uint64_t least = 8000, for_a_thread = 2000;
    return least + for_a_thread * (gm_cache_shards_used() - 1);
}
/* The driver takes longer for a new block of so many bytes. */
#define GM_CACHE_LOOK_FROM ((size_t)32 << 10)
/* A look is a series of queries for gm_cache_answer_ns. After each look that found the context busy twice as many are
 * left out. The caller holds the lock. */
static inline bool gm_cache_may_look(struct gm_free_lists *lists) {
    if (!lists->looks_left_out)
        return true;
    lists->looks_left_out--;
    return false;
}
static inline void gm_cache_looked(struct gm_free_lists *lists, bool idle) {
    const unsigned most_doubled = 6;
    lists->busy_looks = idle ? 0 : lists->busy_looks + (lists->busy_looks < most_doubled);
    lists->looks_left_out = idle ? 0 : 1u << lists->busy_looks;
}

/* ---- limits: the caller holds no lock and the function takes none, except where the comment says so */

static inline bool gm_cache_has_rdma(const struct gm_cache *state) {
    return __atomic_load_n(&state->rdma, __ATOMIC_RELAXED);
}
/* Most bytes of free blocks that are allowed on a device. The first call may query the driver. */
GM_INTERNAL uint64_t gm_cache_limit(struct gm_cache *state, int device);
/* True when the free lists accept blocks and the allowance of their shard has room for `size` more bytes. The caller
 * holds the lock. */
static inline bool gm_cache_has_room(const struct gm_free_lists *lists, size_t size) {
    const struct gm_share *share = lists->share;
    return GM_LIKELY(!__atomic_load_n(&share->tight, __ATOMIC_RELAXED)) &&
           GM_LIKELY(share->bytes + size <= share->allowance);
}
static inline bool gm_cache_accepts(const struct gm_free_lists *lists, size_t size) {
    return lists && !lists->disabled && gm_cache_has_room(lists, size);
}
/* False where the device has little free memory or GPUMEM_LIMIT is set: a block must not be larger than requested. */
static inline bool gm_cache_may_waste(const struct gm_cache *state, int device) {
    return !gm_limit_on() && !__atomic_load_n(&state->devices[device].tight, __ATOMIC_RELAXED);
}
/* Raises the allowance of the shard until it has room for `size` more bytes. False: the limit has too few bytes left.
 * The caller holds the shard's lock. */
GM_INTERNAL bool gm_cache_allow(struct gm_cache *state, struct gm_shard *shard, int device, size_t size);
/* Takes unused allowances from all shards until the limit has `size` bytes left. Takes the lock of each shard. Returns
 * the bytes that are still missing. */
GM_INTERNAL size_t gm_cache_gather(struct gm_cache *state, int device, size_t size);
/* Bytes of free blocks, in all shards, that have no fence yet. */
GM_INTERNAL size_t gm_cache_unfenced(const struct gm_cache *state);
/* Slow path of an allocation whose context is current. Checks whether the device has little free memory, and whether
 * the process can register memory with a network card. Takes the lock of each shard when that is so for the first time.
 */
GM_INTERNAL void gm_cache_check_device(struct gm_cache *state, struct gm_cache_device *device);
/* Count a block of `size` bytes that was allocated upstream for a request, or that will come to the op `free` without
 * that; and a block that was freed there, or will not come. */
GM_INTERNAL void gm_cache_count_owned(struct gm_cache *state, int device, size_t requested, size_t size);
GM_INTERNAL void gm_cache_count_released(struct gm_cache *state, int device, size_t size);
/* Everything was released: the largest live total is the present one. */
GM_INTERNAL void gm_cache_forget_peak(struct gm_cache *state, int device);
/* True when the cache may allocate `size` more bytes and stay within its target for the device. */
GM_INTERNAL bool gm_cache_is_room_for(struct gm_cache *state, int device, size_t size);
/* False: a new block for the request must not be larger than a native one. */
GM_INTERNAL bool gm_cache_may_round(const struct gm_cache *state, int device, size_t requested);
/* The largest block that may serve a request of `size` bytes. */
GM_INTERNAL size_t gm_cache_most(const struct gm_cache *state, int device, size_t size);
/* Bytes that the cache owns above its target for the device, less the room for a miss. The cache releases them when
 * this needs no wait. When it is overfull it releases them at once. */
GM_INTERNAL size_t gm_cache_excess(struct gm_cache *state, int device);
GM_INTERNAL bool gm_cache_overfull(struct gm_cache *state, int device);

/* ---- fences: the caller holds the shard's lock; the function releases it while it calls the driver, and takes it
 * again. *destroyed: the context was destroyed during the call, and its free lists are void */

enum gm_settle {
    GM_SETTLE_DUE, /* queries the fence if that is due (gm_timeline_is_due) */
    GM_SETTLE_QUERY,
    GM_SETTLE_WAIT
};
/* Records the fence of the ticket if nobody has, and queries it or waits for it. Returns GM_OK: it is complete, and
 * blocks became ready; GM_FENCE_PENDING: it is not; else the driver's error, which has disabled the free lists. */
GM_INTERNAL gm_status gm_cache_settle(struct gm_shard *shard, struct gm_free_lists *lists, uint64_t ticket,
                                      enum gm_settle how, bool *destroyed);
/* Closes the open batch and records its fence, unless another thread records one now. In passing, which saves the
 * driver's calls around it, queries the oldest fence. */
GM_INTERNAL void gm_cache_record(struct gm_shard *shard, struct gm_free_lists *lists, uint64_t thread,
                                 struct gm_closed *closed, bool *destroyed);

/* ---- release: the caller holds no lock, except where the comment says so */

/* Frees one block upstream and counts it as released. */
GM_INTERNAL gm_status gm_cache_free_upstream(struct gm_resource *self, const struct gm_block *block,
                                             const struct gm_free_request *how);
/* Frees the blocks that are releasing in the context's free lists, with this context current. A block that cannot be
 * freed now stays releasing. Returns the bytes freed. */
GM_INTERNAL size_t gm_cache_drain(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id);
/* Returns the free lists of the block's context, which it creates if needed, with room for the block. To make room it
 * releases the blocks that were unused longest, in any shard. NULL: the block must be freed upstream. The caller holds
 * the lock; the function releases it for a time and takes it again. */
GM_INTERNAL struct gm_free_lists *gm_cache_make_room(struct gm_resource *self, struct gm_shard *shard,
                                                     const struct gm_block *block);
/* True when gm_cache_upkeep has something to do. `latest`: the batch that was just closed; NULL: the free has already
 * waited for the context. The caller holds the lock. */
GM_INTERNAL bool gm_cache_needs_upkeep(struct gm_cache *state, const struct gm_free_lists *lists,
                                       const struct gm_closed *latest);
/* Regular work after a batch was closed, inside a free of its context: releases the bytes above the target, and
 * releases blocks that were idle too long. Without a batch (`latest` is NULL) it queries the oldest fence first. */
GM_INTERNAL void gm_cache_upkeep(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id,
                                 const struct gm_closed *latest);
/* The ops context_ending, trim, releasable and held of the cache (shim/resource/resource.h). */
GM_INTERNAL void gm_cache_empty(struct gm_resource *self, uint64_t context_id);
GM_INTERNAL size_t gm_cache_trim(struct gm_resource *self, size_t bytes);
GM_INTERNAL size_t gm_cache_releasable(struct gm_resource *self, int device);
GM_INTERNAL void gm_cache_held(struct gm_resource *self, int device, uint64_t bytes[GM_REASON_COUNT]);

/* ---- search: the caller holds no lock */

/* Takes a free block for the request; NULL: there is none. */
GM_INTERNAL struct gm_block_record *gm_cache_find(struct gm_resource *self, const struct gm_request *request);
/* The same, of exactly the requested size, without waiting. */
GM_INTERNAL struct gm_block_record *gm_cache_find_exact(struct gm_resource *self, const struct gm_request *request);

/* Identity of the calling thread. A thread may have the one of a thread that has ended. */
GM_INTERNAL uint64_t gm_cache_this_thread(void);

/* ---- cache.c */

/* Most freed bytes without a fence, in one shard and in all shards together. A batch is this large because threads that
 * record fences at the same time wait for each other in the driver. It is smaller with many threads, which together
 * must stay within the target of the device (limits.c). */
static inline size_t gm_cache_batch_bytes(void) {
    return gm_cache_shards_used() <= 4 ? (size_t)12 << 20 : (size_t)6 << 20;
}
#define GM_CACHE_ALL_BATCH_BYTES ((size_t)64 << 20)
/* Each shard may have so many. */
static inline size_t gm_cache_shard_bytes(void) {
    unsigned used = gm_cache_shards_used();
    return GM_CACHE_ALL_BATCH_BYTES / (used <= 16 ? 16 : used <= 32 ? 32 : GM_CACHE_SHARDS);
}

/* The batch needs its fence now. */
static inline bool gm_cache_is_full(const struct gm_cache *state, const struct gm_free_lists *lists,
                                    const struct gm_batch *batch) {
    if (GM_LIKELY(batch->count < state->frees && batch->bytes < gm_cache_shard_bytes()))
        return false;
    return (batch->count >= state->frees && lists->closed_count < GM_CACHE_CLOSED) ||
           batch->bytes >= gm_cache_batch_bytes() ||
           (batch->bytes >= gm_cache_shard_bytes() && gm_cache_unfenced(state) >= GM_CACHE_ALL_BATCH_BYTES);
}

#endif
