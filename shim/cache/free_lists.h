/* Free lists of a cache: the freed blocks of each context, by size. Blocks that were freed one after the other
 * form a batch and share one fence.
 *
 * A block goes through these states:
 *  - pending: gm_free_lists_put adds the block to the open batch of its free lists. The cache closes the batch and
 *    records its fence.
 *  - ready: the fence is complete. An allocation may take the block. (MemHC 5.1 calls the ready blocks its free_pool.)
 *  - pending release: no allocation takes the block any more. It waits to be freed natively. This is safe even before
 *    its fence is complete, because a native free waits by itself.
 *
 * A block of the short path (gm_resource_ops.keep and reuse) goes through pending and ready, too, but its entry is the
 * registry's record, which stays in place: it lies on the stack of its batch, then on that of its size class, and costs
 * a few instructions. Whatever looks at single blocks (release, age, index) first turns records into entries.
 *
 * Nothing here calls the driver. A shard is one lock and all data under it. The caller of every function holds the
 * shard's lock. A caller that releases the lock in order to query the driver about a batch holds the free lists
 * meanwhile (gm_free_lists_hold): free lists and batch then stay valid, even when their context is destroyed. */
#ifndef GM_CACHE_FREE_LISTS_H
#define GM_CACHE_FREE_LISTS_H

#include "shim/base/base.h"
#include "shim/base/stats.h"
#include "shim/driver/fence.h"
#include "shim/resource/registered.h"

enum {
    GM_SIZE_BUCKETS = 256,
    GM_FIRST_SIZE_CLASSES = 512,
    GM_CACHE_DEVICES = 64,
    GM_SHARD_FIRST_ADDRESSES = 64,
    GM_RECENT_BITS = 6
};

/* Link of a circular list. The list head is part of the circle, so the first and the last link need no special case. */
struct gm_link {
    struct gm_link *next, *previous;
};

/* One free block, in any of the states above. */
struct gm_free_block {
    struct gm_link link;         /* in a list of its size class, or in the list of blocks that are pending release */
    struct gm_free_block *next;  /* next block with the same address hash; also links unused structs */
    struct gm_size_class *class; /* NULL: pending release */
    uint64_t address;
    uint64_t stamp; /* ready: ticks when its batch was closed; pending release: not 0 if it was ready */
    union {
        struct {
            struct gm_free_block *next_of_batch;
            struct gm_batch *batch;
        };                  /* state pending */
        struct gm_link age; /* state ready: in its size bucket */
        struct {
            struct gm_free_lists *lists;
            size_t size;
        }; /* state pending release */
    };
};

_Static_assert(sizeof(struct gm_free_block) == 64,
               "a program may have 100,000 free blocks; each struct is one cache line");

struct gm_free_list {
    struct gm_link ends;
    size_t count;
};

/* Ready blocks of similar sizes. */
struct gm_size_bucket {
    struct gm_link ages;           /* the entries, newest first */
    size_t bytes;                  /* of the entries */
    struct gm_size_class *classes; /* all that have a ready block, and a few that had; see ready_buckets */
};

struct gm_size_class {
    struct gm_size_class *next; /* next class with the same hash */
    struct gm_free_lists *lists;
    size_t size;
    struct gm_size_bucket *bucket;
    struct gm_free_list ready;   /* newest first */
    struct gm_free_list pending; /* oldest first */
    struct gm_registered *kept;  /* ready, newest first */
    struct gm_size_class *next_listed;
    bool listed;             /* in gm_size_bucket.classes */
    uint64_t kept_stamp;     /* ticks when the newest of them became ready */
    size_t kept_pending;     /* records of this class in batches */
    size_t requested;        /* bytes of the request that a policy answered last ... */
    uint32_t repeats;        /* ... and gm_decision.repeats of it, less those served ... */
    uint8_t reason, verdict; /* ... and the rest of the decision, for traces */
};

/* First block of a list that is not empty. */
static inline struct gm_free_block *gm_free_list_first(const struct gm_free_list *list) {
    return (struct gm_free_block *)list->ends.next;
}

_Static_assert(offsetof(struct gm_free_block, link) == 0, "the address of a link is the address of its block");

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
    struct gm_free_lists *lists;
    struct gm_batch *next, *previous; /* in the list of recorded batches; `next` also links unused structs */
    enum gm_batch_state state;
    unsigned count, users; /* number of blocks; threads that query the driver about the batch */
    size_t bytes;
    struct gm_free_block *blocks;
    struct gm_registered *kept, *kept_last;
    struct gm_size_class *kept_class; /* of all records; NULL: several */
    const void *thread; /* the thread whose free recorded it, as identity only; NULL = no allocation may wait for it */
    uint64_t stamp;
    struct gm_fence fence;
};

/* Free bytes of one device in one shard. */
struct gm_share {
    size_t bytes;
    size_t allowance; /* most bytes allowed; struct gm_cache_device counts the sum over all shards */
    bool tight;       /* a copy of gm_cache_device.tight */
};

#define GM_NO_CONTEXT UINT64_MAX

struct gm_free_lists {
    struct gm_free_lists *next;
    uint64_t context, context_id; /* id of a destroyed context: GM_NO_CONTEXT */
    int device;
    unsigned users;                      /* threads that use the lists without the lock */
    bool destroyed;                      /* the context is destroyed */
    bool disabled;                       /* the driver reported an error: no block is added any more */
    struct gm_share *share;              /* the shard's entry for the device */
    struct gm_free_list pending_release; /* latest first */
    struct gm_batch *open, *unused;
    struct gm_batch *first, *last; /* recorded, oldest first */
    unsigned recorded_count;
    uint64_t found_pending; /* ticks when a query found the oldest pending; 0: none did */
    bool keeps_records;     /* there may be some in batches and classes */
    struct gm_shard *shard;
    unsigned class_count, class_limit, class_slots;
    unsigned settled;               /* blocks that gm_free_lists_put_ready added */
    unsigned busy_looks;            /* latest looks, one after the other, that found the context busy ... */
    unsigned looks_left_out;        /* ... and those to leave out before the next one */
    unsigned queries_left_out;      /* of fences that are recorded now */
    uint64_t swept;                 /* last search for idle blocks; ticks */
    struct gm_size_class **classes; /* hash table by size */
    struct gm_size_class *first_classes[GM_FIRST_SIZE_CLASSES];
    uint64_t ready_buckets[GM_SIZE_BUCKETS / 64]; /* a bit for each bucket that lists a class */
    struct gm_size_bucket ready[GM_SIZE_BUCKETS];
};

/* What a request of a size found last: it may be served like that `repeats` times. Classes that are dropped leave this
 * table. */
struct gm_recent_size {
    size_t requested;
    uint64_t context_id;
    struct gm_size_class *class;
    uint32_t repeats;
};

#define GM_NO_SHARD UINT32_MAX

struct gm_shard {
    gm_spin lock;
    unsigned block_count, address_slots;
    struct gm_free_block **addresses; /* hash table of all blocks by address; NULL until the first gm_shard_holds */
    enum gm_kind kind;                /* kind of memory of its blocks */
    bool entries_only;                /* no record stays in place any more */
    bool answers;                     /* the policy answers all plain requests the same way: ... */
    uint8_t reason, verdict;          /* ... with this decision */
    /* Changes when classes are dropped: a record with this number has a valid class. GM_NO_SHARD: no
     * record stays in place. */
    uint32_t number;
    unsigned most;     /* blocks of a batch that need no fence yet */
    size_t most_bytes; /* their bytes */
    size_t unfenced;   /* bytes in open batches */
    struct gm_free_lists *lists, *unused_lists;
    struct gm_free_block *unused_blocks;
    struct gm_size_class *unused_classes;
    const struct gm_context *recent_context; /* for gm_context_same_id */
    struct gm_recent_size recent_sizes[1 << GM_RECENT_BITS];
    struct gm_registered *recent_records[1 << GM_RECENT_BITS]; /* made live last; no address is live in two records */
    struct gm_share shares[GM_CACHE_DEVICES];
    struct gm_free_block *first_addresses[GM_SHARD_FIRST_ADDRESSES];
} __attribute__((aligned(64)));

/* The free lists of a context; NULL when no block of it was freed yet. */
static inline struct gm_free_lists *gm_free_lists_of(const struct gm_shard *shard, uint64_t context_id) {
    struct gm_free_lists *lists = shard->lists;
    while (lists && lists->context_id != context_id)
        lists = lists->next;
    return lists;
}
/* The same, created if needed. NULL: the kernel has no memory. */
GM_INTERNAL struct gm_free_lists *gm_free_lists_make(struct gm_shard *shard, uint64_t context, uint64_t context_id,
                                                     int device);
/* Number of the bucket of a size: eight buckets for each power of two, so that similar sizes share a bucket. */
static inline unsigned gm_size_bucket_of(size_t size) {
    uint64_t granules = (size >> 9) | 1;
    unsigned power = 63 - (unsigned)__builtin_clzll(granules);
    unsigned bucket = power * 8 + (unsigned)(((granules << 3) >> power) & 7);
    return bucket < GM_SIZE_BUCKETS ? bucket : GM_SIZE_BUCKETS - 1;
}

/* Hash of a size or an address, which is mostly a multiple of 512. `slots` is a power of two. */
static inline unsigned gm_free_list_slot(uint64_t value, unsigned slots) {
    return (unsigned)((value >> 9) * 0x9e3779b97f4a7c15ull >> 32) & (slots - 1);
}

static inline unsigned gm_recent_slot(uint64_t value) {
    return (unsigned)((value >> 9) * 0x9e3779b97f4a7c15ull >> (64 - GM_RECENT_BITS));
}

static inline struct gm_size_class *gm_size_class_of(const struct gm_free_lists *lists, size_t size) {
    struct gm_size_class *class = lists->classes[gm_free_list_slot(size, lists->class_slots)];
    while (class && class->size != size)
        class = class->next;
    return class;
}

/* A class of ready blocks of `size` to `most` bytes: the smallest such class, or one near it if the lists hold many
 * sizes. NULL: none was found. */
GM_INTERNAL struct gm_size_class *gm_free_lists_near(struct gm_free_lists *lists, size_t size, size_t most);

/* True when a block of `size` to `most` bytes is in a recorded batch. */
GM_INTERNAL bool gm_free_lists_pend_near(const struct gm_free_lists *lists, size_t size, size_t most);

/* Makes the classes that recent sizes and records name invalid. Called after a change of entries_only. */
GM_INTERNAL void gm_shard_renumber(struct gm_shard *shard);
/* Create what gm_free_lists_put does not find. NULL or false: the kernel has no memory. */
GM_INTERNAL struct gm_size_class *gm_size_class_make(struct gm_shard *shard, struct gm_free_lists *lists, size_t size);
GM_INTERNAL struct gm_batch *gm_batch_open(struct gm_free_lists *lists);
GM_INTERNAL bool gm_free_blocks_more(struct gm_shard *shard);
GM_INTERNAL void gm_free_block_index(struct gm_shard *shard, struct gm_free_block *freed);
GM_INTERNAL void gm_free_block_unindex(struct gm_shard *shard, struct gm_free_block *freed);

static inline struct gm_free_block *gm_free_block_add(struct gm_shard *shard, struct gm_free_lists *lists,
                                                      uint64_t address, size_t size) {
    if (GM_UNLIKELY(!shard->unused_blocks) && !gm_free_blocks_more(shard))
        return NULL;
    struct gm_free_block *freed = shard->unused_blocks;
    shard->unused_blocks = freed->next;
    freed->address = address;
    if (GM_UNLIKELY(shard->addresses != NULL))
        gm_free_block_index(shard, freed);
    gm_stats_cached(shard->kind, size);
    gm_add_alone(&lists->share->bytes, size);
    return freed;
}

static inline void gm_free_block_remove(struct gm_shard *shard, struct gm_free_lists *lists,
                                        struct gm_free_block *freed, size_t size) {
    if (GM_UNLIKELY(shard->addresses != NULL))
        gm_free_block_unindex(shard, freed);
    gm_stats_uncached(shard->kind, size);
    gm_add_alone(&lists->share->bytes, -size);
    freed->next = shard->unused_blocks;
    shard->unused_blocks = freed;
}

/* Adds to the bytes without a fence. Threads of other shards read this sum without the lock. */
static inline void gm_free_lists_count_unfenced(struct gm_shard *shard, size_t bytes) {
    gm_add_alone(&shard->unfenced, bytes);
}

/* Turns all records of the lists into entries. Those of a batch that is being recorded, and those without memory for
 * the entry, stay. */
GM_INTERNAL void gm_free_lists_turn_records(struct gm_free_lists *lists);

static inline bool gm_size_class_is_ready(const struct gm_size_class *class) {
    return class->kept || class->ready.count;
}
/* A size class has blocks whose batches are not complete. */
static inline bool gm_size_class_pends(const struct gm_size_class *class) {
    return class->pending.count || class->kept_pending;
}
/* The recorded batch that may complete first for the class. NULL: none. */
static inline struct gm_batch *gm_size_class_oldest(const struct gm_free_lists *lists,
                                                    const struct gm_size_class *class) {
    return class->kept_pending    ? lists->first
           : class->pending.count ? gm_free_list_first(&class->pending)->batch
                                  : NULL;
}

static inline void gm_batch_keep(struct gm_batch *batch, struct gm_registered *record) {
    if (!batch->kept) {
        batch->kept_last = record;
        batch->kept_class = record->of_size;
        batch->lists->keeps_records = true;
    } else if (GM_UNLIKELY(batch->kept_class != record->of_size)) {
        batch->kept_class = NULL;
    }
    record->next_kept = batch->kept;
    batch->kept = record;
}

/* Adds the claimed record of a block, whose class is known, to the open batch. */
static inline void gm_free_lists_keep(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *batch,
                                      struct gm_registered *record) {
    size_t size = record->block.reserved;
    struct gm_size_class *class = record->of_size;
    gm_batch_keep(batch, record);
    batch->count++;
    batch->bytes += size;
    class->kept_pending++;
    gm_free_lists_count_unfenced(shard, size);
    gm_add_alone(&lists->share->bytes, size);
}

/* Takes the record that became ready last. The class has one. */
static inline struct gm_registered *gm_free_lists_take_kept(struct gm_free_lists *lists, struct gm_size_class *class) {
    struct gm_registered *record = class->kept;
    class->kept = record->next_kept;
    gm_take_alone(&lists->share->bytes, class->size);
    return record;
}

/* Adds a block to the open batch and returns the batch. NULL: no memory for the entry, nothing was added. */
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

/* To be called when the class gets a ready block. */
static inline void gm_size_class_list(struct gm_free_lists *lists, struct gm_size_class *class) {
    if (class->listed)
        return;
    size_t index = (size_t)(class->bucket - lists->ready);
    class->listed = true;
    class->next_listed = class->bucket->classes;
    class->bucket->classes = class;
    lists->ready_buckets[index / 64] |= 1ull << index % 64;
}

static inline void gm_free_lists_ready_in(struct gm_free_block *freed, uint64_t stamp) {
    struct gm_size_class *class = freed->class;
    gm_size_class_list(class->lists, class);
    freed->stamp = stamp;
    gm_free_list_insert(&class->ready, freed, class->ready.ends.next);
    gm_link_before(&freed->age, class->bucket->ages.next);
    class->bucket->bytes += class->size;
}

/* Adds a block that is ready at once. False: no memory for the entry. */
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

/* Takes the block of this class that became ready last. Returns its address; 0: no block is ready. */
static inline uint64_t gm_free_lists_take(struct gm_shard *shard, struct gm_free_lists *lists,
                                          struct gm_size_class *class) {
    if (class->kept) {
        gm_stats_uncached(shard->kind, class->size);
        return gm_registered_address(gm_free_lists_take_kept(lists, class));
    }
    if (!class->ready.count)
        return 0;
    struct gm_free_block *freed = gm_free_list_first(&class->ready);
    gm_free_lists_ready_out(freed);
    gm_free_block_remove(shard, lists, freed, class->size);
    return freed->address;
}

static inline bool gm_free_lists_has_open(const struct gm_free_lists *lists) {
    return lists->open && lists->open->count;
}
/* Detaches the open batch, whose fence the caller then records. After that the caller calls gm_batch_recorded, or
 * gm_batch_reopen if nothing was recorded. */
GM_INTERNAL struct gm_batch *gm_batch_close(struct gm_shard *shard, struct gm_free_lists *lists);
GM_INTERNAL void gm_batch_recorded(struct gm_free_lists *lists, struct gm_batch *batch);
GM_INTERNAL void gm_batch_reopen(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *batch);
/* The fence of a recorded batch is complete: makes its blocks ready. A second call does nothing. */
GM_INTERNAL void gm_batch_complete(struct gm_free_lists *lists, struct gm_batch *batch);

/* The following functions choose ready blocks by age, longest unused first, and queue them for release. "About `least`
 * bytes" means: at least as large as the first size of the bucket of `least`. */
/* The stamp of the longest unused ready block of about `least` bytes or more; UINT64_MAX: there is none. */
GM_INTERNAL uint64_t gm_free_lists_oldest(struct gm_free_lists *lists, size_t least);
/* Queues such blocks with stamps up to `until`, until `bytes` are queued. Returns the bytes queued. */
GM_INTERNAL size_t gm_free_lists_release_oldest(struct gm_free_lists *lists, size_t bytes, size_t least,
                                                uint64_t until);
/* Queues ready blocks of any size until `bytes` are queued or no block is left. Returns the bytes queued. */
GM_INTERNAL size_t gm_free_lists_release_ready(struct gm_free_lists *lists, size_t bytes);
/* Queues ready blocks that were freed more than `idle_ns` before `now` (ticks). */
GM_INTERNAL void gm_free_lists_release_idle(struct gm_free_lists *lists, uint64_t now, uint64_t idle_ns);
/* Bytes of ready blocks of at least `least` bytes; `least` is the first size of a bucket. */
GM_INTERNAL size_t gm_free_lists_ready_from(struct gm_free_lists *lists, size_t least);
/* Queues all blocks, pending ones too. */
GM_INTERNAL void gm_free_lists_release_all(struct gm_shard *shard, struct gm_free_lists *lists);
struct gm_pending_release {
    uint64_t address;
    size_t size;
    bool idle; /* the block was ready, so its free needs no fence */
};
/* Removes up to `room` blocks that are pending release. Returns their number. */
GM_INTERNAL unsigned gm_free_lists_pop_release(struct gm_shard *shard, struct gm_free_lists *lists,
                                               struct gm_pending_release *out, unsigned room);
/* Queues a block again after its native free failed. The block leaks, with a log line, when the kernel has no memory
 * for the entry. */
GM_INTERNAL void gm_free_lists_queue_release(struct gm_shard *shard, struct gm_free_lists *lists,
                                             const struct gm_pending_release *block);
/* Removes the block of this address from the blocks pending release. False: there is none. */
GM_INTERNAL bool gm_free_lists_withdraw(struct gm_shard *shard, struct gm_free_lists *lists, uint64_t address);
/* True when the shard has an entry for a free block of this address, in any state, and its context is not destroyed.
 * The first call builds an index of all entries. */
GM_INTERNAL bool gm_shard_holds(struct gm_shard *shard, uint64_t address);

/* Hold keeps free lists and batch valid while the caller releases the lock. Let_go ends this; it returns
 * false when the context was destroyed meanwhile: free lists and batch are void then. */
static inline void gm_free_lists_hold(struct gm_free_lists *lists, struct gm_batch *batch) {
    lists->users++;
    batch->users++;
}
GM_INTERNAL bool gm_free_lists_let_go(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *batch);

/* The context was destroyed, and its blocks with it. */
GM_INTERNAL void gm_shard_forget(struct gm_shard *shard, uint64_t context_id);

#endif
