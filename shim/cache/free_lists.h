/* What a cache keeps: freed blocks by context and size, in batches that share a fence.
 *
 * A block that is put lies in its shelf's open batch. The batch is closed, its fence recorded; once the fence is complete the
 * blocks are ready and may be taken. Condemned blocks are never taken again: they wait to be freed natively, which is safe whatever
 * their fence says, because the native free waits by itself. (MemHC 5.1 calls the ready blocks its free_pool.)
 *
 * Nothing here calls the driver. A shard is one lock with everything under it; every function but the two without a lock is to be
 * called with the shard's lock held. Whoever lets go of the lock to ask the driver about a batch holds the shelf (gm_shelf_hold)
 * meanwhile: shelf and batch then stay, even when their context goes. */
#ifndef GM_RESOURCE_SHELF_H
#define GM_RESOURCE_SHELF_H

#include "shim/base/base.h"
#include "shim/base/stats.h"
#include "shim/driver/fence.h"

enum { GM_SHELF_BUCKETS = 256, GM_SHELF_FIRST_CLASSES = 512, GM_SHELF_DEVICES = 64, GM_SHARD_FIRST_ADDRESSES = 64 };

/* Of a ring that goes through the list's own ends, so that nothing has to be asked about first and last ones. */
struct gm_link {
    struct gm_link *next, *previous;
};

/* A block that is kept. */
struct gm_kept {
    struct gm_link link;             /* of its size, ready or pending; of the condemned ones */
    struct gm_kept *next;            /* of those whose addresses share a hash; also links unused ones */
    struct gm_size_class *class;     /* NULL when condemned */
    uint64_t address;
    uint64_t stamp;                  /* ready: ticks of its batch's closing; condemned: not 0 when it was ready */
    union {
        struct {
            struct gm_kept *next_of_batch;
            struct gm_batch *batch;
        };                           /* pending */
        struct gm_link age;          /* ready: of its bucket of sizes */
        struct {
            struct gm_shelf *shelf;
            size_t size;
        };                           /* condemned */
    };
};

_Static_assert(sizeof(struct gm_kept) == 64, "programs keep some 100,000 blocks; one is one cache line");

struct gm_kept_list {
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
    struct gm_shelf *shelf;
    size_t size;
    struct gm_size_bucket *bucket;
    struct gm_kept_list ready;   /* newest first */
    struct gm_kept_list pending; /* oldest first */
};

/* Of a list that is not empty. */
static inline struct gm_kept *gm_kept_first(const struct gm_kept_list *list) { return (struct gm_kept *)list->ends.next; }
static inline struct gm_kept *gm_kept_last(const struct gm_kept_list *list) { return (struct gm_kept *)list->ends.previous; }

_Static_assert(offsetof(struct gm_kept, link) == 0, "a link is its block");

static inline struct gm_kept *gm_kept_of_age(struct gm_link *age) {
    return (struct gm_kept *)((char *)age - offsetof(struct gm_kept, age));
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

static inline void gm_kept_insert(struct gm_kept_list *list, struct gm_kept *kept, struct gm_link *before) {
    gm_link_before(&kept->link, before);
    list->count++;
}
static inline void gm_kept_unlink(struct gm_kept_list *list, struct gm_kept *kept) {
    gm_link_out(&kept->link);
    list->count--;
}

enum gm_batch_state { GM_BATCH_OPEN, GM_BATCH_RECORDING, GM_BATCH_RECORDED, GM_BATCH_SPENT };

struct gm_batch {
    struct gm_batch *next, *previous; /* recorded ones; `next` also links unused ones */
    enum gm_batch_state state;
    unsigned count, users; /* blocks; threads that ask the driver about it */
    size_t bytes;
    struct gm_kept *blocks;
    const void *thread;    /* whose free recorded it: identity only; NULL = nobody may wait for it inside an allocation */
    uint64_t stamp;
    struct gm_fence fence;
};

/* What a shard holds of a device. */
struct gm_share {
    size_t bytes;
    size_t allowance; /* what it may hold; the owner of the shards counts the allowances of all together */
};

struct gm_shelf {
    struct gm_shelf *next;
    uint64_t context, context_id;
    int device;
    unsigned users;       /* threads inside without the lock */
    bool gone;            /* its context is */
    bool aside;           /* the driver answered with an error: keeps nothing any more */
    struct gm_share *share; /* the shard's, of the device */
    struct gm_kept_list condemned; /* latest first */
    struct gm_batch *open, *unused;
    struct gm_batch *first, *last; /* recorded, oldest first */
    unsigned recorded_count;
    unsigned class_count, class_limit, class_slots;
    unsigned settled;     /* blocks that were put ready */
    uint64_t swept;       /* ticks */
    struct gm_size_class **classes; /* by hash of their size */
    struct gm_size_class *first_classes[GM_SHELF_FIRST_CLASSES];
    struct gm_size_bucket ready[GM_SHELF_BUCKETS];
};

struct gm_shard {
    gm_spin lock;
    unsigned kept_count, address_slots;
    struct gm_kept **addresses; /* all blocks by hash of their address; NULL until somebody looks for one */
    size_t unfenced;            /* bytes in open batches */
    struct gm_shelf *shelves, *unused_shelves;
    struct gm_kept *unused_kept;
    struct gm_size_class *unused_classes;
    struct gm_share shares[GM_SHELF_DEVICES];
    struct gm_kept *first_addresses[GM_SHARD_FIRST_ADDRESSES];
} __attribute__((aligned(64)));

/* The shelf of a context, NULL when nothing was ever put on it. */
static inline struct gm_shelf *gm_shelf_of(const struct gm_shard *shard, uint64_t context_id) {
    struct gm_shelf *shelf = shard->shelves;
    while (shelf && (shelf->context_id != context_id || shelf->gone))
        shelf = shelf->next;
    return shelf;
}
/* The same, made where there is none; NULL: the kernel gives no memory. */
GM_INTERNAL struct gm_shelf *gm_shelf_make(struct gm_shard *shard, uint64_t context, uint64_t context_id, int device);
/* Eight to a power of two, so that sizes near each other lie in one bucket or the next. */
static inline unsigned gm_shelf_bucket(size_t size) {
    uint64_t granules = (size >> 9) | 1;
    unsigned power = 63 - (unsigned)__builtin_clzll(granules);
    unsigned bucket = power * 8 + (unsigned)(((granules << 3) >> power) & 7);
    return bucket < GM_SHELF_BUCKETS ? bucket : GM_SHELF_BUCKETS - 1;
}

/* Sizes and addresses are multiples of 512, or nearly. `slots` is a power of two. */
static inline unsigned gm_shelf_slot(uint64_t value, unsigned slots) {
    return (unsigned)((value >> 9) * 0x9e3779b97f4a7c15ull >> 32) & (slots - 1);
}

static inline struct gm_size_class *gm_shelf_class(const struct gm_shelf *shelf, size_t size) {
    struct gm_size_class *class = shelf->classes[gm_shelf_slot(size, shelf->class_slots)];
    while (class && class->size != size)
        class = class->next;
    return class;
}

/* A class of ready blocks that are larger than `size`, by no more than may be wasted: the smallest, or where many sizes
 * are kept one near it. NULL: none was found. */
GM_INTERNAL struct gm_size_class *gm_shelf_near(const struct gm_shelf *shelf, size_t size);

/* What gm_shelf_put does not find: NULL or false when the kernel gives no memory. */
GM_INTERNAL struct gm_size_class *gm_shelf_class_make(struct gm_shard *shard, struct gm_shelf *shelf, size_t size);
GM_INTERNAL struct gm_batch *gm_shelf_open(struct gm_shelf *shelf);
GM_INTERNAL bool gm_shelf_more_kept(struct gm_shard *shard);
GM_INTERNAL void gm_shelf_note_address(struct gm_shard *shard, struct gm_kept *kept);
GM_INTERNAL void gm_shelf_unnote_address(struct gm_shard *shard, struct gm_kept *kept);

static inline struct gm_kept *gm_shelf_note(struct gm_shard *shard, struct gm_shelf *shelf, uint64_t address, size_t size) {
    size_t *bytes = &shelf->share->bytes;
    if (GM_UNLIKELY(!shard->unused_kept) && !gm_shelf_more_kept(shard))
        return NULL;
    struct gm_kept *kept = shard->unused_kept;
    shard->unused_kept = kept->next;
    kept->address = address;
    if (GM_UNLIKELY(shard->addresses != NULL))
        gm_shelf_note_address(shard, kept);
    gm_stats_kept(GM_KIND_CACHE, size);
    __atomic_store_n(bytes, *bytes + size, __ATOMIC_RELAXED);
    return kept;
}

static inline void gm_shelf_unnote(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_kept *kept, size_t size) {
    size_t *bytes = &shelf->share->bytes;
    if (GM_UNLIKELY(shard->addresses != NULL))
        gm_shelf_unnote_address(shard, kept);
    gm_stats_unkept(GM_KIND_CACHE, size);
    __atomic_store_n(bytes, *bytes - size, __ATOMIC_RELAXED);
    kept->next = shard->unused_kept;
    shard->unused_kept = kept;
}

/* Bytes without a fence, for other shards to read. */
static inline void gm_shelf_count_unfenced(struct gm_shard *shard, size_t bytes) {
    __atomic_store_n(&shard->unfenced, shard->unfenced + bytes, __ATOMIC_RELAXED);
}

/* Puts a block into the open batch, which is returned. NULL: no memory to note it, nothing was put. */
static inline struct gm_batch *gm_shelf_put(struct gm_shard *shard, struct gm_shelf *shelf, uint64_t address, size_t size) {
    struct gm_size_class *class = gm_shelf_class(shelf, size);
    struct gm_batch *batch = shelf->open;
    if (GM_UNLIKELY(!class) && !(class = gm_shelf_class_make(shard, shelf, size)))
        return NULL;
    if (GM_UNLIKELY(!batch) && !(batch = gm_shelf_open(shelf)))
        return NULL;
    struct gm_kept *kept = gm_shelf_note(shard, shelf, address, size);
    if (!kept)
        return NULL;
    kept->class = class;
    kept->batch = batch;
    kept->next_of_batch = batch->blocks;
    batch->blocks = kept;
    batch->count++;
    batch->bytes += size;
    gm_shelf_count_unfenced(shard, size);
    gm_kept_insert(&class->pending, kept, &class->pending.ends);
    return batch;
}

static inline void gm_shelf_ready_in(struct gm_kept *kept, uint64_t stamp) {
    struct gm_size_class *class = kept->class;
    kept->stamp = stamp;
    gm_kept_insert(&class->ready, kept, class->ready.ends.next);
    gm_link_before(&kept->age, class->bucket->ages.next);
    class->bucket->bytes += class->size;
}

/* Puts a block that is ready at once. False: no memory to note it. */
static inline bool gm_shelf_put_ready(struct gm_shard *shard, struct gm_shelf *shelf, uint64_t address, size_t size) {
    struct gm_size_class *class = gm_shelf_class(shelf, size);
    if (GM_UNLIKELY(!class) && !(class = gm_shelf_class_make(shard, shelf, size)))
        return false;
    struct gm_kept *kept = gm_shelf_note(shard, shelf, address, size);
    if (!kept)
        return false;
    kept->class = class;
    gm_shelf_ready_in(kept, gm_ticks());
    return true;
}

static inline void gm_shelf_ready_out(struct gm_kept *kept) {
    struct gm_size_class *class = kept->class;
    gm_kept_unlink(&class->ready, kept);
    gm_link_out(&kept->age);
    class->bucket->bytes -= class->size;
}

/* Takes the block of this size that became ready last; its address, 0 when none is. */
static inline uint64_t gm_shelf_take(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_size_class *class) {
    if (!class->ready.count)
        return 0;
    struct gm_kept *kept = gm_kept_first(&class->ready);
    gm_shelf_ready_out(kept);
    gm_shelf_unnote(shard, shelf, kept, class->size);
    return kept->address;
}

/* Detaches the open batch to be recorded, then one of: recorded, put back (nothing was recorded), condemned. */
GM_INTERNAL struct gm_batch *gm_shelf_close(struct gm_shard *shard, struct gm_shelf *shelf);
GM_INTERNAL void gm_shelf_recorded(struct gm_shelf *shelf, struct gm_batch *batch);
GM_INTERNAL void gm_shelf_reopen(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_batch *batch);
/* A recorded batch's fence is complete: its blocks are ready. Harmless when repeated. */
GM_INTERNAL void gm_shelf_complete(struct gm_shelf *shelf, struct gm_batch *batch);

/* The stamp of the longest unused ready block of about `least` bytes or more; UINT64_MAX: there is none. */
GM_INTERNAL uint64_t gm_shelf_oldest(const struct gm_shelf *shelf, size_t least);
/* Condemns such blocks of stamps up to `until`, longest unused first, until `bytes` are condemned. Returns bytes. */
GM_INTERNAL size_t gm_shelf_condemn_oldest(struct gm_shelf *shelf, size_t bytes, size_t least, uint64_t until);
/* Condemns ready blocks, longest unused first, until `bytes` are condemned or none is left. Returns bytes. */
GM_INTERNAL size_t gm_shelf_condemn_ready(struct gm_shelf *shelf, size_t bytes);
/* Condemns ready blocks freed longer than `idle_ns` before `now` (ticks). */
GM_INTERNAL void gm_shelf_condemn_idle(struct gm_shelf *shelf, uint64_t now, uint64_t idle_ns);
/* Ready bytes in blocks of at least `least` bytes, the first size of a bucket. */
GM_INTERNAL size_t gm_shelf_ready_from(const struct gm_shelf *shelf, size_t least);
/* Condemns everything, pending blocks too. */
GM_INTERNAL void gm_shelf_condemn_all(struct gm_shard *shard, struct gm_shelf *shelf);
struct gm_condemned {
    uint64_t address;
    size_t size;
    bool idle; /* it was ready: needs no fence any more */
};
/* Moves up to `room` condemned blocks out. */
GM_INTERNAL unsigned gm_shelf_pop_condemned(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_condemned *out,
                                            unsigned room);
/* A native free failed: the block stays condemned. Lost, and logged, only when the kernel gives no page any more. */
GM_INTERNAL void gm_shelf_condemn(struct gm_shard *shard, struct gm_shelf *shelf, const struct gm_condemned *block);
/* Takes one condemned block out by address. */
GM_INTERNAL bool gm_shelf_withdraw(struct gm_shard *shard, struct gm_shelf *shelf, uint64_t address);
/* True when a block of this address is kept, in whatever state, and its context is there. The first question walks all
 * blocks, to index them. */
GM_INTERNAL bool gm_shard_holds(struct gm_shard *shard, uint64_t address);

/* Keeps shelf and batch while the lock is let go; false from release: the context went meanwhile, shelf and batch are void. */
GM_INTERNAL void gm_shelf_hold(struct gm_shelf *shelf, struct gm_batch *batch);
GM_INTERNAL bool gm_shelf_release(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_batch *batch);

/* The context is gone with its blocks. */
GM_INTERNAL void gm_shard_forget(struct gm_shard *shard, uint64_t context_id);

#endif
