#include "shim/resource/shelf.h"

#include <string.h>

enum { SLAB = 64 * 1024, FIRST_CLASS_LIMIT = 1024 };

/* ---- memory: from the kernel, kept for ever, used again within the shard */

#define ADD_UNUSED(list, type)                                                                               \
    do {                                                                                                     \
        type *slab = gm_pages(SLAB);                                                                         \
        for (size_t i = 0; slab && i < SLAB / sizeof(*slab); i++) {                                          \
            slab[i].next = (list);                                                                           \
            (list) = &slab[i];                                                                               \
        }                                                                                                    \
    } while (0)

#define TAKE_UNUSED(list, type)                                                                              \
    ({                                                                                                       \
        if (!(list))                                                                                         \
            ADD_UNUSED(list, type);                                                                          \
        type *taken = (list);                                                                                \
        if (taken)                                                                                           \
            (list) = taken->next;                                                                            \
        taken;                                                                                               \
    })

bool gm_shelf_more_kept(struct gm_shard *shard) {
    ADD_UNUSED(shard->unused_kept, struct gm_kept);
    return shard->unused_kept != NULL;
}

struct gm_shelf *gm_shelf_make(struct gm_shard *shard, uint64_t context, uint64_t context_id, int device) {
    struct gm_shelf *shelf = gm_shelf_of(shard, context_id);
    if (shelf)
        return shelf;
    shelf = shard->unused_shelves;
    if (shelf)
        shard->unused_shelves = shelf->next;
    else
        shelf = gm_pages(sizeof *shelf);
    if (!shelf)
        return NULL;
    struct gm_batch *unused = shelf->unused;
    *shelf = (struct gm_shelf){.next = shard->shelves, .context = context, .context_id = context_id, .device = device,
                               .unused = unused, .class_limit = FIRST_CLASS_LIMIT, .swept = gm_ticks()};
    shard->shelves = shelf;
    return shelf;
}

/* ---- sizes */

static void drop_empty_classes(struct gm_shard *shard, struct gm_shelf *shelf) {
    for (unsigned i = 0; i < GM_SHELF_BUCKETS; i++)
        for (struct gm_size_class **link = &shelf->classes[i]; *link;) {
            struct gm_size_class *class = *link;
            if (class->ready.count || class->pending.count) {
                link = &class->next;
                continue;
            }
            *link = class->next;
            class->next = shard->unused_classes;
            shard->unused_classes = class;
            shelf->class_count--;
        }
}

/* Of a block that is larger than what was asked for. Large blocks are few and make the peak, small ones are many and do not. */
static size_t spare(size_t size) {
    return size < (size_t)1 << 20 ? size : size < (size_t)16 << 20 ? size / 2 : size / 4;
}

struct gm_size_class *gm_shelf_near(const struct gm_shelf *shelf, size_t size) {
    struct gm_size_class *found = NULL;
    size_t most = size + spare(size);
    for (unsigned i = gm_shelf_bucket(size); i <= gm_shelf_bucket(most) && !found; i++)
        for (struct gm_size_class *class = shelf->classes[i]; class; class = class->next)
            if (class->ready.count && class->size > size && class->size <= most && (!found || class->size < found->size))
                found = class;
    return found;
}

struct gm_size_class *gm_shelf_class_make(struct gm_shard *shard, struct gm_shelf *shelf, size_t size) {
    if (shelf->class_count >= shelf->class_limit) {
        drop_empty_classes(shard, shelf);
        shelf->class_limit = 2 * shelf->class_count > FIRST_CLASS_LIMIT ? 2 * shelf->class_count : FIRST_CLASS_LIMIT;
    }
    struct gm_size_class *class = TAKE_UNUSED(shard->unused_classes, struct gm_size_class);
    if (!class)
        return NULL;
    struct gm_size_class **bucket = &shelf->classes[gm_shelf_bucket(size)];
    *class = (struct gm_size_class){.next = *bucket, .size = size};
    class->ready.ends = (struct gm_link){&class->ready.ends, &class->ready.ends};
    class->pending.ends = (struct gm_link){&class->pending.ends, &class->pending.ends};
    *bucket = class;
    shelf->class_count++;
    return class;
}

/* ---- batches */

struct gm_batch *gm_shelf_open(struct gm_shelf *shelf) {
    struct gm_batch *batch = TAKE_UNUSED(shelf->unused, struct gm_batch);
    if (batch) {
        batch->state = GM_BATCH_OPEN;
        batch->count = 0;
        batch->bytes = 0;
        batch->blocks = NULL;
    }
    shelf->open = batch;
    return batch;
}

struct gm_batch *gm_shelf_close(struct gm_shelf *shelf) {
    struct gm_batch *batch = shelf->open;
    shelf->open = NULL;
    batch->state = GM_BATCH_RECORDING;
    batch->stamp = gm_ticks();
    return batch;
}

void gm_shelf_recorded(struct gm_shelf *shelf, struct gm_batch *batch) {
    batch->state = GM_BATCH_RECORDED;
    batch->next = NULL;
    *(shelf->last ? &shelf->last->next : &shelf->first) = batch;
    shelf->last = batch;
    shelf->recorded_count++;
}

/* What was put meanwhile joins it. */
void gm_shelf_reopen(struct gm_shelf *shelf, struct gm_batch *batch) {
    struct gm_batch *younger = shelf->open;
    while (younger && younger->blocks) {
        struct gm_kept *kept = younger->blocks;
        younger->blocks = kept->next;
        kept->batch = batch;
        kept->next = batch->blocks;
        batch->blocks = kept;
        batch->count++;
        batch->bytes += kept->size;
    }
    if (younger) {
        younger->next = shelf->unused;
        shelf->unused = younger;
    }
    batch->state = GM_BATCH_OPEN;
    shelf->open = batch;
}

/* Out of the recorded ones; used again once nobody asks about it any more. */
static void spend(struct gm_shelf *shelf, struct gm_batch *batch) {
    struct gm_batch *before = NULL;
    for (struct gm_batch *at = shelf->first; batch->state == GM_BATCH_RECORDED && at; before = at, at = at->next) {
        if (at != batch)
            continue;
        *(before ? &before->next : &shelf->first) = at->next;
        if (shelf->last == at)
            shelf->last = before;
        shelf->recorded_count--;
        break;
    }
    batch->state = GM_BATCH_SPENT;
    if (batch->users)
        return;
    batch->next = shelf->unused;
    shelf->unused = batch;
}

void gm_shelf_complete(struct gm_shelf *shelf, struct gm_batch *batch) {
    if (batch->state != GM_BATCH_RECORDED)
        return;
    for (struct gm_kept *kept = batch->blocks, *next; kept; kept = next) {
        next = kept->next;
        struct gm_size_class *class = kept->class;
        gm_kept_unlink(&class->pending, kept);
        kept->batch = NULL;
        kept->stamp = batch->stamp;
        gm_kept_insert(&class->ready, kept, class->ready.ends.next);
    }
    shelf->ready_bytes += batch->bytes;
    spend(shelf, batch);
}

/* ---- the end of blocks */

static void condemn(struct gm_shelf *shelf, struct gm_kept *kept) {
    kept->batch = NULL;
    kept->next = shelf->condemned;
    shelf->condemned = kept;
    shelf->condemned_count++;
}

static void condemn_batch(struct gm_shelf *shelf, struct gm_batch *batch) {
    for (struct gm_kept *kept = batch->blocks, *next; kept; kept = next) {
        next = kept->next;
        gm_kept_unlink(&kept->class->pending, kept);
        condemn(shelf, kept);
    }
    spend(shelf, batch);
}

static void condemn_oldest(struct gm_shelf *shelf, struct gm_size_class *class) {
    struct gm_kept *kept = gm_kept_last(&class->ready);
    gm_kept_unlink(&class->ready, kept);
    shelf->ready_bytes -= kept->size;
    condemn(shelf, kept);
}

/* Of the blocks of at least `least` bytes. */
static struct gm_size_class *longest_unused(const struct gm_shelf *shelf, size_t least) {
    struct gm_size_class *found = NULL;
    for (unsigned i = gm_shelf_bucket(least); i < GM_SHELF_BUCKETS; i++)
        for (struct gm_size_class *class = shelf->classes[i]; class; class = class->next)
            if (class->size >= least && class->ready.count &&
                (!found || gm_kept_last(&class->ready)->stamp < gm_kept_last(&found->ready)->stamp))
                found = class;
    return found;
}

/* A native free costs the same at any size: many small blocks go only where no large one is left. */
size_t gm_shelf_condemn_ready(struct gm_shelf *shelf, size_t bytes) {
    size_t condemned = 0;
    while (condemned < bytes && shelf->ready_bytes) {
        struct gm_size_class *class = longest_unused(shelf, (bytes - condemned) / 16);
        class = class ? class : longest_unused(shelf, 0);
        condemned += class->size;
        condemn_oldest(shelf, class);
    }
    return condemned;
}

static bool is_idle(const struct gm_size_class *class, uint64_t now, uint64_t idle_ns) {
    uint64_t stamp = gm_kept_last(&class->ready)->stamp;
    return now > stamp && gm_ticks_span_ns(now - stamp) > idle_ns;
}

void gm_shelf_condemn_idle(struct gm_shelf *shelf, uint64_t now, uint64_t idle_ns) {
    for (unsigned i = 0; i < GM_SHELF_BUCKETS && shelf->ready_bytes; i++)
        for (struct gm_size_class *class = shelf->classes[i]; class; class = class->next)
            while (class->ready.count && is_idle(class, now, idle_ns))
                condemn_oldest(shelf, class);
}

size_t gm_shelf_ready_from(const struct gm_shelf *shelf, size_t least) {
    size_t bytes = 0;
    for (unsigned i = 0; i < GM_SHELF_BUCKETS && shelf->ready_bytes; i++)
        for (const struct gm_size_class *class = shelf->classes[i]; class; class = class->next)
            bytes += class->size >= least ? class->ready.count * class->size : 0;
    return bytes;
}

static bool list_holds(const struct gm_kept_list *list, uint64_t address) {
    const struct gm_link *at = list->ends.next;
    while (at != &list->ends && ((const struct gm_kept *)at)->address != address)
        at = at->next;
    return at != &list->ends;
}

bool gm_shelf_holds(const struct gm_shelf *shelf, uint64_t address) {
    const struct gm_kept *kept = shelf->condemned;
    while (kept && kept->address != address)
        kept = kept->next;
    bool found = kept != NULL;
    for (unsigned i = 0; i < GM_SHELF_BUCKETS && !found; i++)
        for (const struct gm_size_class *class = shelf->classes[i]; class && !found; class = class->next)
            found = list_holds(&class->ready, address) || list_holds(&class->pending, address);
    return found;
}

void gm_shelf_condemn_all(struct gm_shelf *shelf) {
    for (unsigned i = 0; i < GM_SHELF_BUCKETS; i++)
        for (struct gm_size_class *class = shelf->classes[i]; class; class = class->next)
            while (class->ready.count)
                condemn_oldest(shelf, class);
    while (shelf->first)
        condemn_batch(shelf, shelf->first);
    if (shelf->open) {
        struct gm_batch *open = shelf->open;
        shelf->open = NULL;
        condemn_batch(shelf, open);
    }
}

unsigned gm_shelf_pop_condemned(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_kept *out, unsigned room) {
    unsigned count = 0;
    for (; count < room && shelf->condemned; count++) {
        struct gm_kept *kept = shelf->condemned;
        shelf->condemned = kept->next;
        shelf->condemned_count--;
        out[count] = *kept;
        gm_shelf_unnote(shard, shelf, kept);
    }
    return count;
}

void gm_shelf_condemn(struct gm_shard *shard, struct gm_shelf *shelf, uint64_t address, size_t size) {
    struct gm_kept *kept = gm_shelf_note(shard, shelf, address, size);
    if (kept)
        condemn(shelf, kept);
    else
        gm_log(GM_LOG_ERROR, "no memory to note the block at %p: %zu bytes are lost", (void *)(uintptr_t)address, size);
}

bool gm_shelf_withdraw(struct gm_shard *shard, struct gm_shelf *shelf, uint64_t address) {
    for (struct gm_kept **link = &shelf->condemned; *link; link = &(*link)->next) {
        struct gm_kept *kept = *link;
        if (kept->address != address)
            continue;
        *link = kept->next;
        shelf->condemned_count--;
        gm_shelf_unnote(shard, shelf, kept);
        return true;
    }
    return false;
}

/* ---- without the lock, and without the context */

void gm_shelf_hold(struct gm_shelf *shelf, struct gm_batch *batch) {
    shelf->users++;
    if (batch)
        batch->users++;
}

/* Blocks, classes and events go; batches stay for the shelf's next context. */
static void clear(struct gm_shard *shard, struct gm_shelf *shelf) {
    struct gm_kept *kept;
    gm_shelf_condemn_all(shelf);
    while ((kept = shelf->condemned) != NULL) {
        shelf->condemned = kept->next;
        gm_shelf_unnote(shard, shelf, kept);
    }
    shelf->condemned_count = 0;
    drop_empty_classes(shard, shelf);
    for (struct gm_batch *batch = shelf->unused; batch; batch = batch->next)
        gm_fence_forget(&batch->fence, shelf->context_id);
    for (struct gm_shelf **link = &shard->shelves; *link; link = &(*link)->next)
        if (*link == shelf) {
            *link = shelf->next;
            break;
        }
    shelf->next = shard->unused_shelves;
    shard->unused_shelves = shelf;
}

bool gm_shelf_release(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_batch *batch) {
    if (batch && --batch->users == 0 && batch->state == GM_BATCH_SPENT) {
        batch->next = shelf->unused;
        shelf->unused = batch;
    }
    shelf->users--;
    if (!shelf->gone)
        return true;
    if (batch && batch->state == GM_BATCH_RECORDING)
        condemn_batch(shelf, batch);
    if (!shelf->users)
        clear(shard, shelf);
    return false;
}

void gm_shard_forget(struct gm_shard *shard, uint64_t context_id) {
    struct gm_shelf *shelf = gm_shelf_of(shard, context_id);
    if (shelf) {
        shelf->gone = true;
        if (!shelf->users)
            clear(shard, shelf);
    }
    for (shelf = shard->shelves; shelf; shelf = shelf->next) {
        for (struct gm_batch *batch = shelf->first; batch; batch = batch->next)
            gm_fence_forget(&batch->fence, context_id);
        for (struct gm_batch *batch = shelf->unused; batch; batch = batch->next)
            gm_fence_forget(&batch->fence, context_id);
        if (shelf->open)
            gm_fence_forget(&shelf->open->fence, context_id);
    }
}
