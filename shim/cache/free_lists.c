#include "shim/cache/free_lists.h"

#include <string.h>
#include <sys/mman.h>

enum { SLAB = 64 * 1024, FIRST_CLASS_LIMIT = 2 * GM_SHELF_FIRST_CLASSES, NEAR_TRIES = 32 };

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

static void clear_list(struct gm_kept_list *list) {
    list->ends = (struct gm_link){&list->ends, &list->ends};
    list->count = 0;
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
    memset(shelf, 0, sizeof *shelf);
    shelf->context = context;
    shelf->context_id = context_id;
    shelf->device = device;
    shelf->share = &shard->shares[device];
    shelf->unused = unused;
    shelf->class_limit = FIRST_CLASS_LIMIT;
    shelf->classes = shelf->first_classes;
    shelf->class_slots = GM_SHELF_FIRST_CLASSES;
    shelf->swept = gm_ticks();
    clear_list(&shelf->condemned);
    for (unsigned i = 0; i < GM_SHELF_BUCKETS; i++)
        shelf->ready[i].ages = (struct gm_link){&shelf->ready[i].ages, &shelf->ready[i].ages};
    shelf->next = shard->shelves;
    shard->shelves = shelf;
    return shelf;
}

/* ---- sizes */

static void drop_empty_classes(struct gm_shard *shard, struct gm_shelf *shelf) {
    for (unsigned i = 0; i < shelf->class_slots; i++)
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

static void set_class_table(struct gm_shelf *shelf, struct gm_size_class **table, unsigned slots) {
    struct gm_size_class **old = shelf->classes;
    for (unsigned i = 0; i < shelf->class_slots; i++)
        for (struct gm_size_class *class = old[i], *next; class; class = next) {
            struct gm_size_class **slot = &table[gm_shelf_slot(class->size, slots)];
            next = class->next;
            class->next = *slot;
            *slot = class;
        }
    if (old != shelf->first_classes)
        munmap(old, shelf->class_slots * sizeof *old);
    shelf->classes = table;
    shelf->class_slots = slots;
}

/* Sizes that no block has any more go first. Without memory for a larger table chains grow longer. */
static void make_class_room(struct gm_shard *shard, struct gm_shelf *shelf) {
    drop_empty_classes(shard, shelf);
    shelf->class_limit = 2 * shelf->class_count > FIRST_CLASS_LIMIT ? 2 * shelf->class_count : FIRST_CLASS_LIMIT;
    unsigned slots = shelf->class_slots;
    while (slots < shelf->class_limit / 2)
        slots *= 2;
    struct gm_size_class **table = slots > shelf->class_slots ? gm_pages(slots * sizeof *table) : NULL;
    if (table)
        set_class_table(shelf, table, slots);
}

/* Of a block that is larger than what was asked for. Large blocks are few and make the peak, small ones are many and do not. */
static size_t spare(size_t size) {
    return size < (size_t)1 << 20 ? size : size < (size_t)16 << 20 ? size / 2 : size / 4;
}

/* Looks at the newest few blocks of each bucket, whatever is kept: sizes of one bucket differ by an eighth at most. */
struct gm_size_class *gm_shelf_near(const struct gm_shelf *shelf, size_t size) {
    struct gm_size_class *found = NULL;
    size_t most = size + spare(size);
    for (unsigned i = gm_shelf_bucket(size); i <= gm_shelf_bucket(most) && !found; i++) {
        const struct gm_size_bucket *bucket = &shelf->ready[i];
        struct gm_link *age = bucket->ages.next;
        for (unsigned tries = NEAR_TRIES; tries && age != &bucket->ages; tries--, age = age->next) {
            struct gm_size_class *class = gm_kept_of_age(age)->class;
            if (class->size > size && class->size <= most && (!found || class->size < found->size))
                found = class;
        }
    }
    return found;
}

struct gm_size_class *gm_shelf_class_make(struct gm_shard *shard, struct gm_shelf *shelf, size_t size) {
    if (shelf->class_count >= shelf->class_limit)
        make_class_room(shard, shelf);
    struct gm_size_class *class = TAKE_UNUSED(shard->unused_classes, struct gm_size_class);
    if (!class)
        return NULL;
    struct gm_size_class **slot = &shelf->classes[gm_shelf_slot(size, shelf->class_slots)];
    *class = (struct gm_size_class){.next = *slot, .shelf = shelf, .size = size};
    class->bucket = &shelf->ready[gm_shelf_bucket(size)];
    clear_list(&class->ready);
    clear_list(&class->pending);
    *slot = class;
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

static struct gm_batch *take_open(struct gm_shard *shard, struct gm_shelf *shelf) {
    struct gm_batch *batch = shelf->open;
    shelf->open = NULL;
    gm_shelf_count_unfenced(shard, -batch->bytes);
    return batch;
}

struct gm_batch *gm_shelf_close(struct gm_shard *shard, struct gm_shelf *shelf) {
    struct gm_batch *batch = take_open(shard, shelf);
    batch->state = GM_BATCH_RECORDING;
    batch->stamp = gm_ticks();
    return batch;
}

void gm_shelf_recorded(struct gm_shelf *shelf, struct gm_batch *batch) {
    batch->state = GM_BATCH_RECORDED;
    batch->next = NULL;
    batch->previous = shelf->last;
    *(shelf->last ? &shelf->last->next : &shelf->first) = batch;
    shelf->last = batch;
    shelf->recorded_count++;
}

/* What was put meanwhile joins it. */
void gm_shelf_reopen(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_batch *batch) {
    struct gm_batch *younger = shelf->open;
    gm_shelf_count_unfenced(shard, batch->bytes);
    while (younger && younger->blocks) {
        struct gm_kept *kept = younger->blocks;
        younger->blocks = kept->next_of_batch;
        kept->batch = batch;
        kept->next_of_batch = batch->blocks;
        batch->blocks = kept;
        batch->count++;
        batch->bytes += kept->class->size;
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
    if (batch->state == GM_BATCH_RECORDED) {
        *(batch->previous ? &batch->previous->next : &shelf->first) = batch->next;
        *(batch->next ? &batch->next->previous : &shelf->last) = batch->previous;
        shelf->recorded_count--;
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
        next = kept->next_of_batch;
        gm_kept_unlink(&kept->class->pending, kept);
        gm_shelf_ready_in(kept, batch->stamp);
    }
    spend(shelf, batch);
}

/* ---- the end of blocks */

static void condemn(struct gm_shelf *shelf, struct gm_kept *kept, size_t size) {
    kept->class = NULL;
    kept->shelf = shelf;
    kept->size = size;
    gm_kept_insert(&shelf->condemned, kept, shelf->condemned.ends.next);
}

static void condemn_batch(struct gm_shelf *shelf, struct gm_batch *batch) {
    for (struct gm_kept *kept = batch->blocks, *next; kept; kept = next) {
        next = kept->next_of_batch;
        gm_kept_unlink(&kept->class->pending, kept);
        kept->stamp = 0;
        condemn(shelf, kept, kept->class->size);
    }
    spend(shelf, batch);
}

static struct gm_kept *oldest_in(const struct gm_size_bucket *bucket) { return gm_kept_of_age(bucket->ages.previous); }

/* Returns its bytes. */
static size_t condemn_oldest_in(struct gm_shelf *shelf, struct gm_size_bucket *bucket) {
    struct gm_kept *kept = oldest_in(bucket);
    size_t size = kept->class->size;
    gm_shelf_ready_out(kept);
    condemn(shelf, kept, size);
    return size;
}

/* Of the blocks of about `least` bytes or more. */
static const struct gm_size_bucket *longest_unused(const struct gm_shelf *shelf, size_t least) {
    const struct gm_size_bucket *found = NULL;
    for (unsigned i = gm_shelf_bucket(least); i < GM_SHELF_BUCKETS; i++)
        if (shelf->ready[i].bytes && (!found || oldest_in(&shelf->ready[i])->stamp < oldest_in(found)->stamp))
            found = &shelf->ready[i];
    return found;
}

uint64_t gm_shelf_oldest(const struct gm_shelf *shelf, size_t least) {
    const struct gm_size_bucket *bucket = longest_unused(shelf, least);
    return bucket ? oldest_in(bucket)->stamp : UINT64_MAX;
}

size_t gm_shelf_condemn_oldest(struct gm_shelf *shelf, size_t bytes, size_t least, uint64_t until) {
    const struct gm_size_bucket *bucket;
    size_t condemned = 0;
    while (condemned < bytes && (bucket = longest_unused(shelf, least)) && oldest_in(bucket)->stamp <= until)
        condemned += condemn_oldest_in(shelf, &shelf->ready[bucket - shelf->ready]);
    return condemned;
}

/* A native free costs the same at any size: many small blocks go only where no large one is left. */
size_t gm_shelf_condemn_ready(struct gm_shelf *shelf, size_t bytes) {
    size_t condemned = 0, more = 1;
    for (; condemned < bytes && more; condemned += more) {
        more = gm_shelf_condemn_oldest(shelf, 1, (bytes - condemned) / 16, UINT64_MAX);
        if (!more)
            more = gm_shelf_condemn_oldest(shelf, 1, 0, UINT64_MAX);
    }
    return condemned;
}

static bool is_idle(const struct gm_kept *kept, uint64_t now, uint64_t idle_ns) {
    return now > kept->stamp && gm_ticks_span_ns(now - kept->stamp) > idle_ns;
}

void gm_shelf_condemn_idle(struct gm_shelf *shelf, uint64_t now, uint64_t idle_ns) {
    for (unsigned i = 0; i < GM_SHELF_BUCKETS; i++)
        while (shelf->ready[i].bytes && is_idle(oldest_in(&shelf->ready[i]), now, idle_ns))
            condemn_oldest_in(shelf, &shelf->ready[i]);
}

size_t gm_shelf_ready_from(const struct gm_shelf *shelf, size_t least) {
    size_t bytes = 0;
    for (unsigned i = gm_shelf_bucket(least); i < GM_SHELF_BUCKETS; i++)
        bytes += shelf->ready[i].bytes;
    return bytes;
}

void gm_shelf_condemn_all(struct gm_shard *shard, struct gm_shelf *shelf) {
    for (unsigned i = 0; i < GM_SHELF_BUCKETS; i++)
        while (shelf->ready[i].bytes)
            condemn_oldest_in(shelf, &shelf->ready[i]);
    while (shelf->first)
        condemn_batch(shelf, shelf->first);
    if (shelf->open)
        condemn_batch(shelf, take_open(shard, shelf));
}

static void take_condemned(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_kept *kept) {
    gm_kept_unlink(&shelf->condemned, kept);
    gm_shelf_unnote(shard, shelf, kept, kept->size);
}

unsigned gm_shelf_pop_condemned(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_condemned *out,
                                unsigned room) {
    unsigned count = 0;
    for (; count < room && shelf->condemned.count; count++) {
        struct gm_kept *kept = gm_kept_first(&shelf->condemned);
        out[count] = (struct gm_condemned){kept->address, kept->size, kept->stamp != 0};
        take_condemned(shard, shelf, kept);
    }
    return count;
}

void gm_shelf_condemn(struct gm_shard *shard, struct gm_shelf *shelf, const struct gm_condemned *block) {
    struct gm_kept *kept = gm_shelf_note(shard, shelf, block->address, block->size);
    if (!kept) {
        gm_log(GM_LOG_ERROR, "no memory to note the block at %p: %zu bytes are lost", (void *)(uintptr_t)block->address,
               block->size);
        return;
    }
    kept->stamp = block->idle;
    condemn(shelf, kept, block->size);
}

bool gm_shelf_withdraw(struct gm_shard *shard, struct gm_shelf *shelf, uint64_t address) {
    struct gm_link *at = shelf->condemned.ends.next;
    while (at != &shelf->condemned.ends && ((struct gm_kept *)at)->address != address)
        at = at->next;
    if (at == &shelf->condemned.ends)
        return false;
    take_condemned(shard, shelf, (struct gm_kept *)at);
    return true;
}

/* ---- by address, from the first question on: the free of a block that is kept is a program's mistake, and rare */

static void link_address(struct gm_kept **table, unsigned slots, struct gm_kept *kept) {
    struct gm_kept **slot = &table[gm_shelf_slot(kept->address, slots)];
    kept->next = *slot;
    *slot = kept;
}

/* Keeps the old table when the kernel gives no memory. */
static void set_address_slots(struct gm_shard *shard, unsigned slots) {
    struct gm_kept **old = shard->addresses, **table = gm_pages(slots * sizeof *table);
    if (!table)
        return;
    for (unsigned i = 0; i < shard->address_slots; i++)
        for (struct gm_kept *kept = old[i], *next; kept; kept = next) {
            next = kept->next;
            link_address(table, slots, kept);
        }
    if (old != shard->first_addresses)
        munmap(old, shard->address_slots * sizeof *old);
    shard->addresses = table;
    shard->address_slots = slots;
}

void gm_shelf_note_address(struct gm_shard *shard, struct gm_kept *kept) {
    if (++shard->kept_count > 2 * shard->address_slots)
        set_address_slots(shard, 2 * shard->address_slots);
    link_address(shard->addresses, shard->address_slots, kept);
}

void gm_shelf_unnote_address(struct gm_shard *shard, struct gm_kept *kept) {
    struct gm_kept **slot = &shard->addresses[gm_shelf_slot(kept->address, shard->address_slots)];
    while (*slot != kept)
        slot = &(*slot)->next;
    *slot = kept->next;
    shard->kept_count--;
}

static void note_addresses(struct gm_shard *shard, const struct gm_kept_list *list) {
    for (const struct gm_link *at = list->ends.next; at != &list->ends; at = at->next)
        gm_shelf_note_address(shard, (struct gm_kept *)at);
}

static size_t count_kept(const struct gm_shelf *shelf) {
    size_t count = shelf->condemned.count;
    for (unsigned i = 0; i < shelf->class_slots; i++)
        for (const struct gm_size_class *class = shelf->classes[i]; class; class = class->next)
            count += class->ready.count + class->pending.count;
    return count;
}

static void note_all_addresses(struct gm_shard *shard) {
    size_t count = 0;
    unsigned slots = GM_SHARD_FIRST_ADDRESSES;
    for (const struct gm_shelf *shelf = shard->shelves; shelf; shelf = shelf->next)
        count += count_kept(shelf);
    while (slots < count)
        slots *= 2;
    shard->addresses = shard->first_addresses;
    shard->address_slots = GM_SHARD_FIRST_ADDRESSES;
    if (slots > shard->address_slots)
        set_address_slots(shard, slots); /* at once: what fills it takes long enough */
    for (const struct gm_shelf *shelf = shard->shelves; shelf; shelf = shelf->next) {
        note_addresses(shard, &shelf->condemned);
        for (unsigned i = 0; i < shelf->class_slots; i++)
            for (const struct gm_size_class *class = shelf->classes[i]; class; class = class->next) {
                note_addresses(shard, &class->ready);
                note_addresses(shard, &class->pending);
            }
    }
}

static const struct gm_shelf *shelf_of(const struct gm_kept *kept) {
    return kept->class ? kept->class->shelf : kept->shelf;
}

bool gm_shard_holds(struct gm_shard *shard, uint64_t address) {
    if (!shard->addresses)
        note_all_addresses(shard);
    const struct gm_kept *kept = shard->addresses[gm_shelf_slot(address, shard->address_slots)];
    while (kept && (kept->address != address || shelf_of(kept)->gone))
        kept = kept->next;
    return kept != NULL;
}


/* ---- without the lock, and without the context */

void gm_shelf_hold(struct gm_shelf *shelf, struct gm_batch *batch) {
    shelf->users++;
    if (batch)
        batch->users++;
}

/* Blocks and classes go; batches stay for the shelf's next context, whose fences take no event of this one. */
static void clear(struct gm_shard *shard, struct gm_shelf *shelf) {
    gm_shelf_condemn_all(shard, shelf);
    while (shelf->condemned.count)
        take_condemned(shard, shelf, gm_kept_first(&shelf->condemned));
    drop_empty_classes(shard, shelf);
    set_class_table(shelf, shelf->first_classes, GM_SHELF_FIRST_CLASSES);
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
    if (!shelf)
        return;
    shelf->gone = true;
    if (!shelf->users)
        clear(shard, shelf);
}
