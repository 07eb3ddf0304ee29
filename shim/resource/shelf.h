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

enum { GM_SHELF_BUCKETS = 256 };

/* Of a ring that goes through the list's own ends, so that nothing has to be asked about first and last ones. */
struct gm_link {
    struct gm_link *next, *previous;
};

/* A block that is kept. */
struct gm_kept {
    struct gm_link link;             /* of its size, ready or pending */
    struct gm_kept *next;            /* of its batch; also links condemned and unused ones */
    struct gm_size_class *class;
    struct gm_batch *batch;          /* NULL when ready */
    uint64_t address;
    uint64_t stamp;                  /* ticks of its batch's closing */
    size_t size;
};

struct gm_kept_list {
    struct gm_link ends;
    size_t count;
};

struct gm_size_class {
    struct gm_size_class *next; /* of the bucket */
    size_t size;
    struct gm_kept_list ready;   /* newest first */
    struct gm_kept_list pending; /* oldest first */
};

/* Of a list that is not empty. */
static inline struct gm_kept *gm_kept_first(const struct gm_kept_list *list) { return (struct gm_kept *)list->ends.next; }
static inline struct gm_kept *gm_kept_last(const struct gm_kept_list *list) { return (struct gm_kept *)list->ends.previous; }

_Static_assert(offsetof(struct gm_kept, link) == 0, "a link is its block");

static inline void gm_kept_insert(struct gm_kept_list *list, struct gm_kept *kept, struct gm_link *before) {
    kept->link.next = before;
    kept->link.previous = before->previous;
    before->previous->next = &kept->link;
    before->previous = &kept->link;
    list->count++;
}
static inline void gm_kept_unlink(struct gm_kept_list *list, struct gm_kept *kept) {
    kept->link.previous->next = kept->link.next;
    kept->link.next->previous = kept->link.previous;
    list->count--;
}

enum gm_batch_state { GM_BATCH_OPEN, GM_BATCH_RECORDING, GM_BATCH_RECORDED, GM_BATCH_SPENT };

struct gm_batch {
    struct gm_batch *next;
    enum gm_batch_state state;
    unsigned count, users; /* blocks; threads that ask the driver about it */
    size_t bytes;
    struct gm_kept *blocks;
    const void *thread;    /* whose free recorded it: identity only; NULL = nobody may wait for it inside an allocation */
    uint64_t stamp;
    struct gm_fence fence;
};

struct gm_shelf {
    struct gm_shelf *next;
    uint64_t context, context_id;
    int device;
    unsigned users;       /* threads inside without the lock */
    bool gone;            /* its context is */
    bool aside;           /* the driver answered with an error: keeps nothing any more */
    size_t bytes, ready_bytes; /* all blocks; those ready */
    size_t condemned_count;
    struct gm_kept *condemned;
    struct gm_batch *open, *unused;
    struct gm_batch *first, *last; /* recorded, oldest first */
    unsigned recorded_count;
    unsigned class_count, class_limit;
    uint64_t swept;       /* ticks */
    struct gm_size_class *classes[GM_SHELF_BUCKETS];
};

struct gm_shard {
    gm_spin lock;
    size_t bytes; /* of all shelves */
    struct gm_shelf *shelves, *unused_shelves;
    struct gm_kept *unused_kept;
    struct gm_size_class *unused_classes;
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

static inline struct gm_size_class *gm_shelf_class(const struct gm_shelf *shelf, size_t size) {
    struct gm_size_class *class = shelf->classes[gm_shelf_bucket(size)];
    while (class && class->size != size)
        class = class->next;
    return class;
}

/* The class of the smallest ready blocks that are larger than `size`, by no more than may be wasted; NULL: there are none. */
GM_INTERNAL struct gm_size_class *gm_shelf_near(const struct gm_shelf *shelf, size_t size);

/* What gm_shelf_put does not find: NULL or false when the kernel gives no memory. */
GM_INTERNAL struct gm_size_class *gm_shelf_class_make(struct gm_shard *shard, struct gm_shelf *shelf, size_t size);
GM_INTERNAL struct gm_batch *gm_shelf_open(struct gm_shelf *shelf);
GM_INTERNAL bool gm_shelf_more_kept(struct gm_shard *shard);

static inline struct gm_kept *gm_shelf_note(struct gm_shard *shard, struct gm_shelf *shelf, uint64_t address, size_t size) {
    if (GM_UNLIKELY(!shard->unused_kept) && !gm_shelf_more_kept(shard))
        return NULL;
    struct gm_kept *kept = shard->unused_kept;
    shard->unused_kept = kept->next;
    kept->address = address;
    kept->size = size;
    shelf->bytes += size;
    gm_stats_kept(GM_KIND_CACHE, size);
    __atomic_store_n(&shard->bytes, shard->bytes + size, __ATOMIC_RELAXED);
    return kept;
}

static inline void gm_shelf_unnote(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_kept *kept) {
    size_t size = kept->size;
    shelf->bytes -= size;
    gm_stats_unkept(GM_KIND_CACHE, size);
    __atomic_store_n(&shard->bytes, shard->bytes - size, __ATOMIC_RELAXED);
    kept->next = shard->unused_kept;
    shard->unused_kept = kept;
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
    kept->next = batch->blocks;
    batch->blocks = kept;
    batch->count++;
    batch->bytes += size;
    gm_kept_insert(&class->pending, kept, &class->pending.ends);
    return batch;
}

/* Takes the block of this size that became ready last; its address, 0 when none is. */
static inline uint64_t gm_shelf_take(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_size_class *class) {
    if (!class->ready.count)
        return 0;
    struct gm_kept *kept = gm_kept_first(&class->ready);
    gm_kept_unlink(&class->ready, kept);
    shelf->ready_bytes -= kept->size;
    gm_shelf_unnote(shard, shelf, kept);
    return kept->address;
}

/* Detaches the open batch to be recorded, then one of: recorded, put back (nothing was recorded), condemned. */
GM_INTERNAL struct gm_batch *gm_shelf_close(struct gm_shelf *shelf);
GM_INTERNAL void gm_shelf_recorded(struct gm_shelf *shelf, struct gm_batch *batch);
GM_INTERNAL void gm_shelf_reopen(struct gm_shelf *shelf, struct gm_batch *batch);
/* A recorded batch's fence is complete: its blocks are ready. Harmless when repeated. */
GM_INTERNAL void gm_shelf_complete(struct gm_shelf *shelf, struct gm_batch *batch);

/* Condemns ready blocks, longest unused first, until `bytes` are condemned or none is left. Returns bytes. */
GM_INTERNAL size_t gm_shelf_condemn_ready(struct gm_shelf *shelf, size_t bytes);
/* Condemns ready blocks freed longer than `idle_ns` before `now` (ticks). */
GM_INTERNAL void gm_shelf_condemn_idle(struct gm_shelf *shelf, uint64_t now, uint64_t idle_ns);
/* Ready bytes in blocks of at least `least` bytes. */
GM_INTERNAL size_t gm_shelf_ready_from(const struct gm_shelf *shelf, size_t least);
/* True when the block lies on the shelf, in whatever state. Walks all blocks. */
GM_INTERNAL bool gm_shelf_holds(const struct gm_shelf *shelf, uint64_t address);
/* Condemns everything, pending blocks too. */
GM_INTERNAL void gm_shelf_condemn_all(struct gm_shelf *shelf);
/* Moves up to `room` condemned blocks out. */
GM_INTERNAL unsigned gm_shelf_pop_condemned(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_kept *out, unsigned room);
/* A native free failed: the block stays condemned. Lost, and logged, only when the kernel gives no page any more. */
GM_INTERNAL void gm_shelf_condemn(struct gm_shard *shard, struct gm_shelf *shelf, uint64_t address, size_t size);
/* Takes one condemned block out by address. */
GM_INTERNAL bool gm_shelf_withdraw(struct gm_shard *shard, struct gm_shelf *shelf, uint64_t address);

/* Keeps shelf and batch while the lock is let go; false from release: the context went meanwhile, shelf and batch are void. */
GM_INTERNAL void gm_shelf_hold(struct gm_shelf *shelf, struct gm_batch *batch);
GM_INTERNAL bool gm_shelf_release(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_batch *batch);

/* The context is gone with its blocks and events; other contexts' fences forget it too. */
GM_INTERNAL void gm_shard_forget(struct gm_shard *shard, uint64_t context_id);

#endif
