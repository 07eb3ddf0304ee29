/* Free lists of a cache: the free blocks of each context, by size class. Blocks that were freed one after the other
 * form a batch and share one fence. The entry of a block is its record (shim/resource/record.h):
 *
 *   pending    in its batch: the open one, which gets its fence when the cache closes it, or a closed one
 *   ready      in the bin of its size class, newest first (MemHC 5.1 calls the ready blocks its free_pool)
 *   releasing  in the list of its context: it waits to be freed natively. This is safe even before its fence is
 *              complete, because a native free waits by itself
 *
 * Nothing here calls the driver. A shard is one lock and all data under it. The caller of every function holds the
 * shard's lock. A caller that releases the lock in order to call the driver holds the free lists meanwhile
 * (gm_free_lists_hold): they then stay valid, even when their context is destroyed. */
#ifndef GM_CACHE_FREE_LISTS_H
#define GM_CACHE_FREE_LISTS_H

#include "shim/base/base.h"
#include "shim/accounts/stats.h"
#include "shim/cache/timeline.h"
#include "shim/resource/record.h"

enum { GM_BINS = 256, GM_CACHE_DEVICES = 64 };

static inline void gm_link_clear(struct gm_link *list) { *list = (struct gm_link){list, list}; }
static inline bool gm_link_is_empty(const struct gm_link *list) { return list->next == list; }
static inline void gm_link_before(struct gm_link *link, struct gm_link *before) {
    link->next = before;
    link->previous = before->previous;
    before->previous->next = link;
    before->previous = link;
}
static inline void gm_link_first(struct gm_link *link, struct gm_link *list) { gm_link_before(link, list->next); }
static inline void gm_link_out(struct gm_link *link) {
    link->previous->next = link->next;
    link->next->previous = link->previous;
}
/* Moves all links of one list to the front of another. */
static inline void gm_link_move_all(struct gm_link *from, struct gm_link *to) {
    from->previous->next = to->next;
    to->next->previous = from->previous;
    from->next->previous = to;
    to->next = from->next;
    gm_link_clear(from);
}
static inline struct gm_block_record *gm_record_of(struct gm_link *link) {
    return (struct gm_block_record *)((char *)link - offsetof(struct gm_block_record, link));
}

/* The free blocks of one size class. */
struct gm_bin {
    struct gm_link ready;  /* newest first */
    size_t bytes, pending; /* of the ready blocks; of blocks in batches */
};

struct gm_batch {
    struct gm_batch *next; /* in the list of closed batches; also links unused structs */
    unsigned count;        /* of its blocks */
    size_t bytes;
    struct gm_link blocks; /* newest first */
    struct gm_bin *bin;    /* of all blocks; NULL: several */
    uint64_t began;        /* when its first block was freed; ticks */
    uint64_t ticket;       /* of a closed batch: its fence in the timeline */
};

/* A batch that was closed. */
struct gm_closed {
    uint64_t ticket, began;
};

/* Free bytes of one device in one shard. */
struct gm_share {
    size_t bytes;
    size_t small;     /* of these, bytes of small blocks (parts.h) */
    size_t allowance; /* most bytes allowed; struct gm_cache_device counts the sum over all shards */
    bool tight;       /* a copy of gm_cache_device.tight */
};

/* Blocks of more bytes are large ones, with pages of their own: native blocks of more than half a page. */
#define GM_CACHE_PAGE   ((size_t)2 << 20)
#define GM_CACHE_SHARES (GM_CACHE_PAGE / 2)

static inline void gm_share_add(struct gm_share *share, size_t size) {
    gm_add_alone(&share->bytes, size);
    if (size <= GM_CACHE_SHARES)
        gm_add_alone(&share->small, size);
}
static inline void gm_share_take(struct gm_share *share, size_t size) {
    gm_take_alone(&share->bytes, size);
    if (size <= GM_CACHE_SHARES)
        gm_take_alone(&share->small, size);
}

#define GM_NO_CONTEXT UINT64_MAX

struct gm_free_lists {
    struct gm_free_lists *next;
    uint64_t context, context_id; /* id of a destroyed context: GM_NO_CONTEXT */
    int device;
    unsigned users;           /* threads that use the lists without the lock */
    bool destroyed;           /* the context is destroyed */
    bool disabled;            /* the driver reported an error: no block is added any more */
    struct gm_share *share;   /* the shard's entry for the device */
    struct gm_link releasing; /* latest first */
    size_t releasing_count;
    struct gm_fence_timeline *timeline;
    struct gm_batch *open, *unused;
    struct gm_batch *first, *last; /* closed, oldest first */
    unsigned closed_count;
    unsigned settled;              /* blocks that were ready at once, since the latest upkeep for them, ... */
    size_t settled_bytes;          /* ... their bytes, ... */
    uint64_t settled_since;        /* ... and when the first of these was freed; ticks */
    unsigned busy_looks;           /* latest looks, one after the other, that found the context busy ... */
    unsigned looks_left_out;       /* ... and those to leave out before the next one */
    unsigned queries_left_out;     /* of fences that are recorded now */
    uint64_t swept;                /* last search for idle blocks; ticks */
    uint64_t filled[GM_BINS / 64]; /* a bit for each bin that has a ready block, and for some that had */
    struct gm_bin bins[GM_BINS];
};

struct gm_shard {
    gm_spin lock;
    const struct gm_cache *cache;
    const struct gm_resource *owner; /* the cache as a resource */
    enum gm_kind kind;               /* kind of memory of its blocks */
    unsigned most;                   /* blocks of a batch that need no fence yet */
    size_t most_bytes;               /* their bytes */
    size_t unfenced;                 /* bytes in open batches */
    struct gm_free_lists *lists, *unused_lists;
    struct gm_share shares[GM_CACHE_DEVICES];
} __attribute__((aligned(64)));

/* The free lists of a context; NULL when no block of it was freed yet. */
static inline struct gm_free_lists *gm_free_lists_of(const struct gm_shard *shard, uint64_t context_id) {
    struct gm_free_lists *lists = shard->lists;
    while (GM_LIKELY(lists != NULL) && GM_UNLIKELY(lists->context_id != context_id))
        lists = lists->next;
    return lists;
}
/* The same, created if needed, as a user of the timeline. NULL: the kernel has no memory. */
GM_INTERNAL struct gm_free_lists *gm_free_lists_make(struct gm_shard *shard, struct gm_fence_timelines *timelines,
                                                     uint64_t context, uint64_t context_id, int device);

/* ---- free blocks */

/* The open batch, created if needed. NULL: the kernel has no memory. */
GM_INTERNAL struct gm_batch *gm_batch_open(struct gm_free_lists *lists);

/* Adds to the bytes without a fence. Threads of other shards read this sum without the lock. */
static inline void gm_free_lists_count_unfenced(struct gm_shard *shard, size_t bytes) {
    gm_add_alone(&shard->unfenced, bytes);
}

/* Other threads may copy the block meanwhile (gm_record_read). */
static inline void gm_record_set_freed(struct gm_block_record *record, uint64_t ticks) {
    __atomic_store_n(&record->block.freed, ticks, __ATOMIC_RELAXED);
}

/* claimed -> pending: adds a block to the open batch. */
static inline void gm_free_lists_put(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *batch,
                                     struct gm_block_record *record) {
    size_t size = record->block.reserved;
    struct gm_bin *bin = &lists->bins[record->block.bin];
    if (GM_UNLIKELY(!batch->count)) {
        batch->began = gm_ticks();
        batch->bin = bin;
    } else if (GM_UNLIKELY(batch->bin != bin)) {
        batch->bin = NULL;
    }
    gm_record_become(record, GM_BLOCK_PENDING);
    gm_record_set_freed(record, batch->began);
    gm_link_first(&record->link, &batch->blocks);
    batch->count++;
    batch->bytes += size;
    bin->pending += size;
    gm_free_lists_count_unfenced(shard, size);
    gm_share_add(lists->share, size);
}

/* The bin has a ready block. */
static inline void gm_free_lists_note_filled(struct gm_free_lists *lists, const struct gm_bin *bin) {
    size_t number = (size_t)(bin - lists->bins);
    lists->filled[number / 64] |= 1ull << number % 64;
}

static inline void gm_free_lists_make_ready(struct gm_free_lists *lists, struct gm_block_record *record) {
    struct gm_bin *bin = &lists->bins[record->block.bin];
    gm_record_become(record, GM_BLOCK_READY);
    gm_link_first(&record->link, &bin->ready);
    bin->bytes += record->block.reserved;
    gm_free_lists_note_filled(lists, bin);
}

/* claimed -> ready: adds a block that no earlier work uses any more. */
static inline void gm_free_lists_put_ready(struct gm_free_lists *lists, struct gm_block_record *record) {
    if (!lists->settled++)
        lists->settled_since = gm_ticks();
    lists->settled_bytes += record->block.reserved;
    gm_record_set_freed(record, lists->settled_since);
    gm_free_lists_make_ready(lists, record);
    gm_share_add(lists->share, record->block.reserved);
}

/* ready -> claimed */
static inline void gm_free_lists_remove(struct gm_free_lists *lists, struct gm_block_record *record) {
    size_t size = record->block.reserved;
    gm_record_become(record, GM_BLOCK_CLAIMED);
    gm_link_out(&record->link);
    lists->bins[record->block.bin].bytes -= size;
    gm_share_take(lists->share, size);
}

/* ready -> claimed: the newest block of a bin. NULL: there is none, or it has not just `exact` bytes; 0: any size will
 * do.
 */
static inline struct gm_block_record *gm_free_lists_newest(struct gm_free_lists *lists, unsigned number, size_t exact) {
    const struct gm_bin *bin = &lists->bins[number];
    struct gm_block_record *record = gm_record_of(bin->ready.next);
    if (GM_UNLIKELY(gm_link_is_empty(&bin->ready)) || GM_UNLIKELY(exact && record->block.reserved != exact))
        return NULL;
    gm_free_lists_remove(lists, record);
    return record;
}

/* ready -> claimed: one of the newest blocks of the bin that has `least` to `most` bytes. NULL: there is none. */
GM_INTERNAL struct gm_block_record *gm_free_lists_take(struct gm_free_lists *lists, unsigned number, size_t least,
                                                       size_t most);
/* ready -> claimed: the smallest block of at least `least` bytes, from bin `from` on. NULL: there is none. */
GM_INTERNAL struct gm_block_record *gm_free_lists_take_larger(struct gm_free_lists *lists, unsigned from, size_t least);

static inline bool gm_free_lists_has_open(const struct gm_free_lists *lists) {
    return lists->open && lists->open->count;
}
/* Closes the open batch, and opens the next one. */
GM_INTERNAL struct gm_closed gm_batch_close(struct gm_shard *shard, struct gm_free_lists *lists);
/* pending -> ready: the closed batches whose fences are complete. */
GM_INTERNAL void gm_batches_complete(struct gm_free_lists *lists);

/* ---- release */

/* The following functions choose ready blocks by age, longest unused first, from bins `from` to `until` - 1. */

/* When the longest unused one was freed; UINT64_MAX: there is none. */
GM_INTERNAL uint64_t gm_free_lists_oldest(const struct gm_free_lists *lists, unsigned from, unsigned until);
/* ready -> releasing: such blocks that were freed until `latest`, until `bytes` are queued. Returns the bytes queued.
 */
GM_INTERNAL size_t gm_free_lists_release_oldest(struct gm_free_lists *lists, size_t bytes, unsigned from,
                                                unsigned until, uint64_t latest);
/* Queues ready blocks that were freed more than `idle_ns` before `now` (ticks). */
GM_INTERNAL void gm_free_lists_release_idle(struct gm_free_lists *lists, uint64_t now, uint64_t idle_ns);
/* Bytes of ready blocks, from bin `from` on. */
GM_INTERNAL size_t gm_free_lists_ready_from(const struct gm_free_lists *lists, unsigned from);
/* Queues all blocks, pending ones too. */
GM_INTERNAL void gm_free_lists_release_all(struct gm_shard *shard, struct gm_free_lists *lists);
/* releasing -> claimed: up to `room` blocks. Returns their number. Of a block that was ready `freed` is not 0: nobody
 * uses it, so its native free needs no fence. */
GM_INTERNAL unsigned gm_free_lists_pop_release(struct gm_shard *shard, struct gm_free_lists *lists,
                                               struct gm_block_record **out, unsigned room);
/* claimed -> releasing: queues a block again after its native free failed. */
GM_INTERNAL void gm_free_lists_queue_release(struct gm_shard *shard, struct gm_free_lists *lists,
                                             struct gm_block_record *record);
/* releasing -> claimed: this block, which is not counted as kept yet. False: it is not in the list. */
GM_INTERNAL bool gm_free_lists_withdraw(struct gm_free_lists *lists, struct gm_block_record *record);

/* ---- use without the lock, and destroyed contexts */

/* Hold keeps the free lists valid while the caller releases the lock. Let_go ends this; it returns false when the
 * context was destroyed meanwhile: the free lists are void then. */
static inline void gm_free_lists_hold(struct gm_free_lists *lists) { lists->users++; }
GM_INTERNAL bool gm_free_lists_let_go(struct gm_shard *shard, struct gm_free_lists *lists);

/* The context was destroyed, and its blocks with it. */
GM_INTERNAL void gm_shard_forget(struct gm_shard *shard, uint64_t context_id);

#endif
