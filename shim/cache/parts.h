/* What the source files of the cache share: its state and the functions that one file calls in another. cache.c: take
 * and put. fast.h: their fast cases. find.c: the search for a free block. threads.c: the shards of threads.
 * free_lists.c: the free blocks. limits.c: how many bytes of free blocks are allowed. fences.c: fences of batches, from
 * timeline.c. reclaim.c: releasing free blocks to the upstream resource. */
#ifndef GM_CACHE_PARTS_H
#define GM_CACHE_PARTS_H

#include "policy/size_class.h"
#include "shim/accounts/limit.h"
#include "shim/cache/free_lists.h"
#include "shim/resource/resource.h"

enum { GM_CACHE_SHARDS = 64, GM_CACHE_CLOSED = 256 }; /* a thread closes no small batch while it has so many */

/* Native blocks of 1 to 512 bytes lie 512 bytes apart. */
#define GM_CACHE_GRANULE ((size_t)512)

/* Most bytes of one size that wait for their fences. They fit a large L2 cache, so that a kernel finds its block there.
 */
#define GM_CACHE_ROTATION ((size_t)24 << 20)

/* Small blocks share pages with others, so their memory cannot always come back. Large ones have pages of their own. */
enum gm_cache_sort { GM_CACHE_SMALL, GM_CACHE_LARGE, GM_CACHE_SORTS };

/* The blocks of one sort on a device. */
struct gm_cache_sum {
    uint64_t owned;     /* bytes allocated upstream and not yet freed there: live and free blocks */
    uint64_t peak;      /* largest total of live blocks since the last trim of everything */
    uint64_t misses;    /* blocks that were allocated upstream */
    uint64_t room;      /* bytes that frees keep below the target for the next miss ... */
    uint64_t next_room; /* ... and what the latest misses alone would need (limits.c) */
};

struct gm_cache_device {
    struct gm_cache_sum sums[GM_CACHE_SORTS];
    uint64_t rounded; /* most bytes by which the blocks of classes may be larger than native ones */
    uint64_t unused;  /* bytes free on the device at the last check */
    uint64_t limit;   /* most bytes of free blocks; 0 = not known yet */
    uint64_t allowed; /* sum of the allowances of all shards, at most `limit` */
    uint64_t checked; /* last gm_cache_check_device; ticks */
    bool tight;       /* the device has little free memory: no block becomes a free block */
};

struct gm_cache {
    unsigned frees; /* frees for each fence */
    size_t granule; /* sizes of blocks are multiples of it, so that the upstream rounds none up */
    size_t page;    /* the same for sizes above GM_CACHE_SHARES; 0 = not known */
    bool rounds;    /* small blocks have the sizes of classes */
    uint8_t bins[GM_CACHE_SHARES / GM_CACHE_GRANULE]; /* gm_cache_bin of sizes up to GM_CACHE_SHARES bytes */
    uint64_t limit, idle_ns;
    struct gm_cache_device devices[GM_CACHE_DEVICES];
    struct gm_fence_timelines timelines;
    struct gm_shard shards[GM_CACHE_SHARDS];
};

/* The largest request that a free block may serve. */
#define GM_CACHE_MOST_SIZE (SIZE_MAX / 16)

/* The least multiple of `unit`, a power of two, that is `size` or more. */
static inline size_t gm_cache_multiple(size_t unit, size_t size) { return (size + unit - 1) & ~(unit - 1); }

/* What native memory takes for a request of `size` bytes. Where nobody knows what the upstream takes for large blocks,
 * they have the sizes of classes. */
static inline size_t gm_cache_native(const struct gm_cache *state, size_t size) {
    if (GM_LIKELY(size <= GM_CACHE_SHARES))
        return gm_cache_multiple(state->granule, size);
    return GM_LIKELY(state->page) ? gm_cache_multiple(state->page, size)
                                  : gm_size_class(gm_cache_multiple(state->granule, size), state->granule);
}

/* Which requests a block may serve is said by its bin, for life. A block that has its class's size serves all requests
 * of the class: blocks up to GM_CACHE_SHARES only, within a bound (gm_cache_round). Every other block serves requests
 * for which native memory takes just its size, so it holds no more than a native one. Bins by number:
 *
 *      0 to  31   small exact blocks: several sizes each
 *     32 to 127   small classes, eight to a doubling of the size, from 512 bytes on
 *    128 to 255   large blocks: eight bins to a doubling, from GM_CACHE_SHARES on; several sizes each */
enum { GM_BIN_CLASSES = 32, GM_BIN_LARGE = 128 };

static inline bool gm_bin_is_class(unsigned bin) { return bin - GM_BIN_CLASSES < GM_BIN_LARGE - GM_BIN_CLASSES; }

static inline enum gm_cache_sort gm_cache_sort_of(size_t size) {
    return size > GM_CACHE_SHARES ? GM_CACHE_LARGE : GM_CACHE_SMALL;
}
/* The first bin with blocks of a sort; the last one of the sort lies before that of the next. */
static inline unsigned gm_bin_of_sort(unsigned sort) {
    return sort == GM_CACHE_SMALL ? 0 : sort == GM_CACHE_LARGE ? GM_BIN_LARGE : GM_BINS;
}

/* The size of the class of a request, up to GM_CACHE_SHARES bytes. */
static inline size_t gm_cache_class(const struct gm_cache *state, size_t size) {
    return gm_size_class(gm_cache_native(state, size), state->granule);
}

/* Position of a number of units, at least 1, among eight for each doubling. */
static inline unsigned gm_bin_step(size_t units) {
    unsigned power = 63 - (unsigned)__builtin_clzll(units);
    return power * 8 + (unsigned)(((units << 3) >> power) & 7);
}

/* The bin of blocks that have just the native size `native`. */
static inline unsigned gm_bin_of_exact(size_t native) {
    size_t granules = native / GM_CACHE_GRANULE;
    if (native <= GM_CACHE_SHARES)
        return (unsigned)(granules % GM_BIN_CLASSES);
    unsigned bin = GM_BIN_LARGE + gm_bin_step(granules) - gm_bin_step(GM_CACHE_SHARES / GM_CACHE_GRANULE);
    return bin < GM_BINS ? bin : GM_BINS - 1;
}
/* The first bin that may have blocks of `bytes` bytes or more, small exact ones left out; 0 for 0 bytes. */
static inline unsigned gm_bin_of_least(size_t bytes) {
    if (bytes > GM_CACHE_SHARES || !bytes)
        return bytes ? gm_bin_of_exact(bytes) : 0;
    return GM_BIN_CLASSES + gm_bin_step((bytes + GM_CACHE_GRANULE - 1) / GM_CACHE_GRANULE);
}
/* The bin that a request looks into first: of its class, else that of its native size. */
static inline unsigned gm_cache_bin(const struct gm_cache *state, size_t size) {
    return GM_LIKELY(size - 1 < GM_CACHE_SHARES) ? state->bins[(size - 1) / GM_CACHE_GRANULE]
                                                 : gm_bin_of_exact(gm_cache_native(state, size));
}
/* Most bytes by which a block is larger than native memory for a request that it serves. */
static inline size_t gm_cache_width(const struct gm_cache *state, unsigned bin, size_t reserved) {
    return gm_bin_is_class(bin) ? reserved - gm_size_class_least(reserved, state->granule) : 0;
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

/* An allowance grows by at least 1/GM_CACHE_STEPS of the limit while there is room. */
enum { GM_CACHE_STEPS = 64 };
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
/* What the blocks of a sort may hold on a device, at one moment:
 *
 *     target   small blocks: peak + peak / 4 + 64 MiB
 *              large ones: 3 * peak + 512 MiB      blocks of random numbers of pages are then reused in 97 of 100 cases
 *     excess   owned + room - target, if that is positive
 *
 * peak: the largest total of live blocks since the last trim of everything. */
struct gm_cache_budget {
    uint64_t owned, room, target; /* the first two of struct gm_cache_sum */
};
/* `more`: counted as owned. */
GM_INTERNAL struct gm_cache_budget gm_cache_budget(struct gm_cache *state, int device, enum gm_cache_sort sort,
                                                   size_t more);
/* The cache releases such bytes when this needs no wait. When it is overfull it releases them at once. */
static inline size_t gm_cache_excess(struct gm_cache_budget budget) {
    uint64_t bytes = budget.owned + budget.room;
    return GM_LIKELY(bytes <= budget.target) ? 0 : bytes - budget.target;
}
GM_INTERNAL bool gm_cache_overfull(struct gm_cache *state, int device);
/* Count a block that was allocated upstream, or that will come to the op `free` without that; and a block that was
 * freed there, or will not come. The former returns the budget with the block. */
GM_INTERNAL struct gm_cache_budget gm_cache_count_owned(struct gm_cache *state, int device, size_t size);
GM_INTERNAL void gm_cache_count_released(struct gm_cache *state, int device, size_t size, unsigned bin);
/* Everything was released: the largest live total is the present one. */
GM_INTERNAL void gm_cache_forget_peak(struct gm_cache *state, int device);
/* True: a new block may have its class's size, and the bytes by which it may be larger than a native one are counted,
 * until gm_cache_count_released or gm_cache_unround. */
GM_INTERNAL bool gm_cache_round(struct gm_cache *state, int device, size_t width);
GM_INTERNAL void gm_cache_unround(struct gm_cache *state, int device, size_t width);

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
/* For a request that the driver refused; each step releases more. A step that cannot make room for `bytes` bytes does
 * nothing. Returns the bytes released. */
enum gm_cache_trim_step {
    GM_CACHE_TRIM_SOME,  /* about `bytes` of ready blocks, of contexts that are idle within 20 ms */
    GM_CACHE_TRIM_READY, /* all blocks of contexts that are idle */
    GM_CACHE_TRIM_WAIT,  /* all blocks of the stack, which waits for the work of the contexts */
    GM_CACHE_TRIM_STEPS
};
GM_INTERNAL size_t gm_cache_trim_for(struct gm_resource *self, const struct gm_request *request, size_t bytes,
                                     enum gm_cache_trim_step step);
/* The ops context_ending, trim, lend, releasable and held of the cache (shim/resource/resource.h). */
GM_INTERNAL void gm_cache_empty(struct gm_resource *self, uint64_t context_id);
GM_INTERNAL size_t gm_cache_trim(struct gm_resource *self, size_t bytes);
GM_INTERNAL size_t gm_cache_lend(struct gm_resource *self, size_t bytes);
GM_INTERNAL size_t gm_cache_releasable(struct gm_resource *self, int device);
GM_INTERNAL void gm_cache_held(struct gm_resource *self, int device, uint64_t bytes[GM_REASON_COUNT]);

/* ---- search: the caller holds no lock */

/* Takes a free block for the request; NULL: there is none. */
GM_INTERNAL struct gm_block_record *gm_cache_find(struct gm_resource *self, const struct gm_request *request);
/* The same, of exactly the requested size, without waiting. */
GM_INTERNAL struct gm_block_record *gm_cache_find_exact(struct gm_resource *self, const struct gm_request *request);

/* Takes the smallest ready block of the context that is large enough. NULL: there is none. */
GM_INTERNAL struct gm_block_record *gm_cache_find_larger(struct gm_resource *self, const struct gm_request *request);

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
