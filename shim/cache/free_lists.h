/* What a cache keeps: freed blocks by context and size, in batches that share a fence.
 *
 * A block that is put lies in its lists's open batch. The batch is closed, its fence recorded; once the fence is
 * complete the blocks are ready and may be taken. Condemned blocks are never taken again: they wait to be freed
 * natively, which is safe whatever their fence says, because the native free waits by itself. (MemHC 5.1 calls the
 * ready blocks its free_pool.)
 *
 * Nothing here calls the driver. A shard is one lock with everything under it; every function but the two without a
 * lock is to be called with the shard's lock held. Whoever lets go of the lock to ask the driver about a batch holds
 * the lists (gm_free_lists_hold) meanwhile: lists and batch then stay, even when their context goes. */
#ifndef GM_CACHE_FREE_LISTS_H
#define GM_CACHE_FREE_LISTS_H

#include "shim/base/base.h"
#include "shim/base/stats.h"
#include "shim/driver/fence.h"

enum { GM_SIZE_BUCKETS = 256, GM_FIRST_SIZE_CLASSES = 512, GM_CACHE_DEVICES = 64, GM_SHARD_FIRST_ADDRESSES = 64 };

/* Of a ring that goes through the list's own ends, so that nothing has to be asked about first and last ones. */
struct gm_link {
    struct gm_link *next, *previous;
};

/* A block that is kept. */
struct gm_free_block {
    struct gm_link link;         /* of its size, ready or pending; of the pending_release ones */
    struct gm_free_block *next;  /* of those whose addresses share a hash; also links unused ones */
    struct gm_size_class *class; /* NULL when pending_release */
    uint64_t address;
    uint64_t stamp; /* ready: ticks of its batch's closing; pending_release: not 0 when it was ready */
    union {
        struct {
            struct gm_free_block *next_of_batch;
            struct gm_batch *batch;
        };                  /* pending */
        struct gm_link age; /* ready: of its bucket of sizes */
        struct {
            struct gm_free_lists *lists;
            size_t size;
        }; /* pending_release */
    };
};

_Static_assert(sizeof(struct gm_free_block) == 64, "programs keep some 100,000 blocks; one is one cache line");

struct gm_free_list {
    struct gm_link ends;
    size_t count;
};

/* Ready blocks of similar sizes, newest first. */
struct gm_size_bucket {
    struct gm_link ages;
    size_t bytes;
};

struct gm_size_class {
    struct gm_size_class *next; /* of those that share a hash */
    struct gm_free_lists *lists;
    size_t size;
    struct gm_size_bucket *bucket;
    struct gm_free_list ready;   /* newest first */
    struct gm_free_list pending; /* oldest first */
};

/* Of a list that is not empty. */
static inline struct gm_free_block *gm_free_list_first(const struct gm_free_list *list) {
    return (struct gm_free_block *)list->ends.next;
}
static inline struct gm_free_block *gm_free_list_last(const struct gm_free_list *list) {
    return (struct gm_free_block *)list->ends.previous;
}

_Static_assert(offsetof(struct gm_free_block, link) == 0, "a link is its block");

static inline struct gm_free_block *gm_free_block_of_age(struct gm_link *age) {
    return (struct gm_free_block *)((char *)age - offsetof(struct gm_free_block, age));
}

static inline void gm_link_before(struct gm_link *link, struct gm_link *before) {
    link->next = before;
    link->previous = before->previous;
    before->previous->next = link;
    before->previous = link;
}
static inline void gm_link_out(struct gm_link *link) {
    link->previous->next = link->next;
    link->next->previous = link->previous;
}

static inline void gm_free_list_insert(struct gm_free_list *list, struct gm_free_block *freed, struct gm_link *before) {
    gm_link_before(&freed->link, before);
    list->count++;
}
static inline void gm_free_list_unlink(struct gm_free_list *list, struct gm_free_block *freed) {
    gm_link_out(&freed->link);
    list->count--;
}

enum gm_batch_state { GM_BATCH_OPEN, GM_BATCH_RECORDING, GM_BATCH_RECORDED, GM_BATCH_SPENT };

struct gm_batch {
    struct gm_batch *next, *previous; /* recorded ones; `next` also links unused ones */
    enum gm_batch_state state;
    unsigned count, users; /* blocks; threads that ask the driver about it */
    size_t bytes;
    struct gm_free_block *blocks;
    const void *thread; /* whose free recorded it: identity only; NULL = nobody may wait for it inside an allocation */
    uint64_t stamp;
    struct gm_fence fence;
};

/* What a shard holds of a device. */
struct gm_share {
    size_t bytes;
    size_t allowance; /* what it may hold; the owner of the shards counts the allowances of all together */
};

struct gm_free_lists {
    struct gm_free_lists *next;
    uint64_t context, context_id;
    int device;
    unsigned users;                      /* threads inside without the lock */
    bool gone;                           /* its context is */
    bool aside;                          /* the driver answered with an error: keeps nothing any more */
    struct gm_share *share;              /* the shard's, of the device */
    struct gm_free_list pending_release; /* latest first */
    struct gm_batch *open, *unused;
    struct gm_batch *first, *last; /* recorded, oldest first */
    unsigned recorded_count;
    unsigned class_count, class_limit, class_slots;
    unsigned settled;               /* blocks that were put ready */
    uint64_t swept;                 /* ticks */
    struct gm_size_class **classes; /* by hash of their size */
    struct gm_size_class *first_classes[GM_FIRST_SIZE_CLASSES];
    struct gm_size_bucket ready[GM_SIZE_BUCKETS];
};

struct gm_shard {
    gm_spin lock;
    unsigned block_count, address_slots;
    struct gm_free_block **addresses; /* all blocks by hash of their address; NULL until somebody looks for one */
    enum gm_kind kind;                /* of the memory of its blocks */
    size_t unfenced;                  /* bytes in open batches */
    struct gm_free_lists *lists, *unused_lists;
    struct gm_free_block *unused_blocks;
    struct gm_size_class *unused_classes;
    struct gm_share shares[GM_CACHE_DEVICES];
    struct gm_free_block *first_addresses[GM_SHARD_FIRST_ADDRESSES];
} __attribute__((aligned(64)));

/* The lists of a context, NULL when nothing was ever put on it. */
static inline struct gm_free_lists *gm_free_lists_of(const struct gm_shard *shard, uint64_t context_id) {
    struct gm_free_lists *lists = shard->lists;
    while (lists && (lists->context_id != context_id || lists->gone))
        lists = lists->next;
    return lists;
}
/* The same, made where there is none; NULL: the kernel gives no memory. */
GM_INTERNAL struct gm_free_lists *gm_free_lists_make(struct gm_shard *shard, uint64_t context, uint64_t context_id,
                                                     int device);
/* Eight to a power of two, so that sizes near each other lie in one bucket or the next. */
static inline unsigned gm_size_bucket_of(size_t size) {
    uint64_t granules = (size >> 9) | 1;
    unsigned power = 63 - (unsigned)__builtin_clzll(granules);
    unsigned bucket = power * 8 + (unsigned)(((granules << 3) >> power) & 7);
    return bucket < GM_SIZE_BUCKETS ? bucket : GM_SIZE_BUCKETS - 1;
}

/* Sizes and addresses are multiples of 512, or nearly. `slots` is a power of two. */
static inline unsigned gm_free_list_slot(uint64_t value, unsigned slots) {
    return (unsigned)((value >> 9) * 0x9e3779b97f4a7c15ull >> 32) & (slots - 1);
}

static inline struct gm_size_class *gm_size_class_of(const struct gm_free_lists *lists, size_t size) {
    struct gm_size_class *class = lists->classes[gm_free_list_slot(size, lists->class_slots)];
    while (class && class->size != size)
        class = class->next;
    return class;
}

/* A class of ready blocks that are larger than `size`, by no more than may be wasted: the smallest, or where many sizes
 * are kept one near it. NULL: none was found. */
GM_INTERNAL struct gm_size_class *gm_free_lists_near(const struct gm_free_lists *lists, size_t size);

/* What gm_free_lists_put does not find: NULL or false when the kernel gives no memory. */
GM_INTERNAL struct gm_size_class *gm_size_class_make(struct gm_shard *shard, struct gm_free_lists *lists, size_t size);
GM_INTERNAL struct gm_batch *gm_batch_open(struct gm_free_lists *lists);
GM_INTERNAL bool gm_free_blocks_more(struct gm_shard *shard);
GM_INTERNAL void gm_free_block_index(struct gm_shard *shard, struct gm_free_block *freed);
GM_INTERNAL void gm_free_block_unindex(struct gm_shard *shard, struct gm_free_block *freed);

static inline struct gm_free_block *gm_free_block_add(struct gm_shard *shard, struct gm_free_lists *lists,
                                                      uint64_t address, size_t size) {
    size_t *bytes = &lists->share->bytes;
    if (GM_UNLIKELY(!shard->unused_blocks) && !gm_free_blocks_more(shard))
        return NULL;
    struct gm_free_block *freed = shard->unused_blocks;
    shard->unused_blocks = freed->next;
    freed->address = address;
    if (GM_UNLIKELY(shard->addresses != NULL))
        gm_free_block_index(shard, freed);
    gm_stats_cached(shard->kind, size);
    __atomic_store_n(bytes, *bytes + size, __ATOMIC_RELAXED);
    return freed;
}

static inline void gm_free_block_remove(struct gm_shard *shard, struct gm_free_lists *lists,
                                        struct gm_free_block *freed, size_t size) {
    size_t *bytes = &lists->share->bytes;
    if (GM_UNLIKELY(shard->addresses != NULL))
        gm_free_block_unindex(shard, freed);
    gm_stats_uncached(shard->kind, size);
    __atomic_store_n(bytes, *bytes - size, __ATOMIC_RELAXED);
    freed->next = shard->unused_blocks;
    shard->unused_blocks = freed;
}

/* Bytes without a fence, for other shards to read. */
static inline void gm_free_lists_count_unfenced(struct gm_shard *shard, size_t bytes) {
    __atomic_store_n(&shard->unfenced, shard->unfenced + bytes, __ATOMIC_RELAXED);
}

/* Puts a block into the open batch, which is returned. NULL: no memory to note it, nothing was put. */
static inline struct gm_batch *gm_free_lists_put(struct gm_shard *shard, struct gm_free_lists *lists, uint64_t address,
                                                 size_t size) {
    struct gm_size_class *class = gm_size_class_of(lists, size);
    struct gm_batch *batch = lists->open;
    if (GM_UNLIKELY(!class) && !(class = gm_size_class_make(shard, lists, size)))
        return NULL;
    if (GM_UNLIKELY(!batch) && !(batch = gm_batch_open(lists)))
        return NULL;
    struct gm_free_block *freed = gm_free_block_add(shard, lists, address, size);
    if (!freed)
        return NULL;
    freed->class = class;
    freed->batch = batch;
    freed->next_of_batch = batch->blocks;
    batch->blocks = freed;
    batch->count++;
    batch->bytes += size;
    gm_free_lists_count_unfenced(shard, size);
    gm_free_list_insert(&class->pending, freed, &class->pending.ends);
    return batch;
}

static inline void gm_free_lists_ready_in(struct gm_free_block *freed, uint64_t stamp) {
    struct gm_size_class *class = freed->class;
    freed->stamp = stamp;
    gm_free_list_insert(&class->ready, freed, class->ready.ends.next);
    gm_link_before(&freed->age, class->bucket->ages.next);
    class->bucket->bytes += class->size;
}

/* Puts a block that is ready at once. False: no memory to note it. */
static inline bool gm_free_lists_put_ready(struct gm_shard *shard, struct gm_free_lists *lists, uint64_t address,
                                           size_t size) {
    struct gm_size_class *class = gm_size_class_of(lists, size);
    if (GM_UNLIKELY(!class) && !(class = gm_size_class_make(shard, lists, size)))
        return false;
    struct gm_free_block *freed = gm_free_block_add(shard, lists, address, size);
    if (!freed)
        return false;
    freed->class = class;
    gm_free_lists_ready_in(freed, gm_ticks());
    return true;
}

static inline void gm_free_lists_ready_out(struct gm_free_block *freed) {
    struct gm_size_class *class = freed->class;
    gm_free_list_unlink(&class->ready, freed);
    gm_link_out(&freed->age);
    class->bucket->bytes -= class->size;
}

/* Takes the block of this size that became ready last; its address, 0 when none is. */
static inline uint64_t gm_free_lists_take(struct gm_shard *shard, struct gm_free_lists *lists,
                                          struct gm_size_class *class) {
    if (!class->ready.count)
        return 0;
    struct gm_free_block *freed = gm_free_list_first(&class->ready);
    gm_free_lists_ready_out(freed);
    gm_free_block_remove(shard, lists, freed, class->size);
    return freed->address;
}

/* Detaches the open batch to be recorded, then one of: recorded, put back (nothing was recorded), pending_release. */
GM_INTERNAL struct gm_batch *gm_batch_close(struct gm_shard *shard, struct gm_free_lists *lists);
GM_INTERNAL void gm_batch_recorded(struct gm_free_lists *lists, struct gm_batch *batch);
GM_INTERNAL void gm_batch_reopen(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *batch);
/* A recorded batch's fence is complete: its blocks are ready. Harmless when repeated. */
GM_INTERNAL void gm_batch_complete(struct gm_free_lists *lists, struct gm_batch *batch);

/* The stamp of the longest unused ready block of about `least` bytes or more; UINT64_MAX: there is none. */
GM_INTERNAL uint64_t gm_free_lists_oldest(const struct gm_free_lists *lists, size_t least);
/* Condemns such blocks of stamps up to `until`, longest unused first, until `bytes` are pending_release. Returns bytes.
 */
GM_INTERNAL size_t gm_free_lists_release_oldest(struct gm_free_lists *lists, size_t bytes, size_t least,
                                                uint64_t until);
/* Condemns ready blocks, longest unused first, until `bytes` are pending_release or none is left. Returns bytes. */
GM_INTERNAL size_t gm_free_lists_release_ready(struct gm_free_lists *lists, size_t bytes);
/* Condemns ready blocks freed longer than `idle_ns` before `now` (ticks). */
GM_INTERNAL void gm_free_lists_release_idle(struct gm_free_lists *lists, uint64_t now, uint64_t idle_ns);
/* Ready bytes in blocks of at least `least` bytes, the first size of a bucket. */
GM_INTERNAL size_t gm_free_lists_ready_from(const struct gm_free_lists *lists, size_t least);
/* Condemns everything, pending blocks too. */
GM_INTERNAL void gm_free_lists_release_all(struct gm_shard *shard, struct gm_free_lists *lists);
struct gm_pending_release {
    uint64_t address;
    size_t size;
    bool idle; /* it was ready: needs no fence any more */
};
/* Moves up to `room` pending_release blocks out. */
GM_INTERNAL unsigned gm_free_lists_pop_release(struct gm_shard *shard, struct gm_free_lists *lists,
                                               struct gm_pending_release *out, unsigned room);
/* A native free failed: the block stays pending_release. Lost, and logged, only when the kernel gives no page any more.
 */
GM_INTERNAL void gm_free_lists_queue_release(struct gm_shard *shard, struct gm_free_lists *lists,
                                             const struct gm_pending_release *block);
/* Takes one pending_release block out by address. */
GM_INTERNAL bool gm_free_lists_withdraw(struct gm_shard *shard, struct gm_free_lists *lists, uint64_t address);
/* True when a block of this address is kept, in whatever state, and its context is there. The first question walks all
 * blocks, to index them. */
GM_INTERNAL bool gm_shard_holds(struct gm_shard *shard, uint64_t address);

/* Keeps lists and batch while the lock is let go; false from release: the context went meanwhile, lists and batch are
 * void. */
GM_INTERNAL void gm_free_lists_hold(struct gm_free_lists *lists, struct gm_batch *batch);
GM_INTERNAL bool gm_free_lists_let_go(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *batch);

/* The context is gone with its blocks. */
GM_INTERNAL void gm_shard_forget(struct gm_shard *shard, uint64_t context_id);

#endif
