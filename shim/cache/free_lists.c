/* The data structures behind free_lists.h. Each context has a hash table of size classes; a class has one list of ready
 * blocks and one of pending blocks. A second set of lists, by size bucket, orders the entries of ready blocks by age. A
 * third one lists the classes of each bucket that have a ready block, so that a search by size turns no record. */
#include "shim/cache/free_lists.h"
#include "shim/resource/giving.h"

#include <string.h>
#include <sys/mman.h>

enum { SLAB = 64 * 1024, FIRST_CLASS_LIMIT = 2 * GM_FIRST_SIZE_CLASSES, NEAR_TRIES = 32 };

/* ---- memory for structs: taken from the kernel, never returned, reused within the shard */

#define ADD_UNUSED(list, type)                                      \
    do {                                                            \
        type *slab = gm_pages(SLAB);                                \
        for (size_t i = 0; slab && i < SLAB / sizeof(*slab); i++) { \
            slab[i].next = (list);                                  \
            (list) = &slab[i];                                      \
        }                                                           \
    } while (0)

#define TAKE_UNUSED(list, type)     \
    ({                              \
        if (!(list))                \
            ADD_UNUSED(list, type); \
        type *taken = (list);       \
        if (taken)                  \
            (list) = taken->next;   \
        taken;                      \
    })

bool gm_free_blocks_more(struct gm_shard *shard) {
    ADD_UNUSED(shard->unused_blocks, struct gm_free_block);
    return shard->unused_blocks != NULL;
}

static void clear_list(struct gm_free_list *list) {
    list->ends = (struct gm_link){&list->ends, &list->ends};
    list->count = 0;
}

struct gm_free_lists *gm_free_lists_make(struct gm_shard *shard, uint64_t context, uint64_t context_id, int device) {
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    if (lists)
        return lists;
    lists = shard->unused_lists;
    if (lists)
        shard->unused_lists = lists->next;
    else
        lists = gm_pages(sizeof *lists);
    if (!lists)
        return NULL;
    struct gm_batch *unused = lists->unused;
    memset(lists, 0, sizeof *lists);
    lists->context = context;
    lists->context_id = context_id;
    lists->device = device;
    lists->share = &shard->shares[device];
    lists->shard = shard;
    lists->unused = unused;
    lists->class_limit = FIRST_CLASS_LIMIT;
    lists->classes = lists->first_classes;
    lists->class_slots = GM_FIRST_SIZE_CLASSES;
    lists->swept = gm_ticks();
    clear_list(&lists->pending_release);
    for (unsigned i = 0; i < GM_SIZE_BUCKETS; i++)
        lists->ready[i].ages = (struct gm_link){&lists->ready[i].ages, &lists->ready[i].ages};
    lists->next = shard->lists;
    shard->lists = lists;
    return lists;
}

/* ---- sizes */

void gm_shard_renumber(struct gm_shard *shard) {
    static uint32_t numbers;
    memset(shard->recent_sizes, 0, sizeof shard->recent_sizes);
    shard->number = shard->entries_only ? GM_NO_SHARD : __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
}

static struct gm_size_class **unlist(struct gm_size_class **at) {
    struct gm_size_class *class = *at;
    *at = class->next_listed;
    class->listed = false;
    return at;
}

/* The first bucket from number `from` on that lists classes; GM_SIZE_BUCKETS: none. */
static unsigned next_listing(const struct gm_free_lists *lists, unsigned from) {
    for (; from < GM_SIZE_BUCKETS; from = (from / 64 + 1) * 64) {
        uint64_t bits = lists->ready_buckets[from / 64] >> from % 64;
        if (bits)
            return from + (unsigned)__builtin_ctzll(bits);
    }
    return GM_SIZE_BUCKETS;
}

static void note_unlisted(struct gm_free_lists *lists, unsigned bucket) {
    if (!lists->ready[bucket].classes)
        lists->ready_buckets[bucket / 64] &= ~(1ull << bucket % 64);
}

static void unlist_empty(struct gm_free_lists *lists) {
    for (unsigned i = next_listing(lists, 0); i < GM_SIZE_BUCKETS; i = next_listing(lists, i + 1)) {
        for (struct gm_size_class **at = &lists->ready[i].classes; *at;)
            at = gm_size_class_is_ready(*at) ? &(*at)->next_listed : unlist(at);
        note_unlisted(lists, i);
    }
}

static void drop_empty_classes(struct gm_shard *shard, struct gm_free_lists *lists) {
    gm_free_lists_turn_records(lists);
    unlist_empty(lists);
    gm_shard_renumber(shard);
    for (unsigned i = 0; i < lists->class_slots; i++)
        for (struct gm_size_class **link = &lists->classes[i]; *link;) {
            struct gm_size_class *class = *link;
            if (class->listed || gm_size_class_pends(class)) {
                link = &class->next;
                continue;
            }
            *link = class->next;
            class->next = shard->unused_classes;
            shard->unused_classes = class;
            lists->class_count--;
        }
}

static void set_class_table(struct gm_free_lists *lists, struct gm_size_class **table, unsigned slots) {
    struct gm_size_class **old = lists->classes;
    for (unsigned i = 0; i < lists->class_slots; i++)
        for (struct gm_size_class *class = old[i], *next; class; class = next) {
            struct gm_size_class **slot = &table[gm_free_list_slot(class->size, slots)];
            next = class->next;
            class->next = *slot;
            *slot = class;
        }
    if (old != lists->first_classes)
        munmap(old, lists->class_slots * sizeof *old);
    lists->classes = table;
    lists->class_slots = slots;
}

/* Drops the classes without blocks, then enlarges the table if needed. Without memory for a larger table its chains
 * grow. */
static void make_class_room(struct gm_shard *shard, struct gm_free_lists *lists) {
    drop_empty_classes(shard, lists);
    lists->class_limit = 2 * lists->class_count > FIRST_CLASS_LIMIT ? 2 * lists->class_count : FIRST_CLASS_LIMIT;
    unsigned slots = lists->class_slots;
    while (slots < lists->class_limit / 2)
        slots *= 2;
    struct gm_size_class **table = slots > lists->class_slots ? gm_pages(slots * sizeof *table) : NULL;
    if (table)
        set_class_table(lists, table, slots);
}

static bool fits(const struct gm_size_class *class, size_t size, size_t most) {
    return class->size >= size && class->size <= most;
}

/* Looks at the latest NEAR_TRIES classes of each bucket, so that the time does not depend on the number of sizes.
 * Sizes in one bucket differ by at most an eighth. */
static struct gm_size_class *nearest_in(struct gm_free_lists *lists, unsigned bucket, size_t size, size_t most) {
    struct gm_size_class *found = NULL, **at = &lists->ready[bucket].classes;
    for (unsigned tries = NEAR_TRIES; tries && *at; tries--) {
        if (!gm_size_class_is_ready(*at)) {
            at = unlist(at);
            continue;
        }
        if (fits(*at, size, most) && (!found || (*at)->size < found->size))
            found = *at;
        at = &(*at)->next_listed;
    }
    note_unlisted(lists, bucket);
    return found;
}

struct gm_size_class *gm_free_lists_near(struct gm_free_lists *lists, size_t size, size_t most) {
    struct gm_size_class *found = NULL;
    unsigned last = gm_size_bucket_of(most);
    for (unsigned i = next_listing(lists, gm_size_bucket_of(size)); i <= last && i < GM_SIZE_BUCKETS && !found;
         i = next_listing(lists, i + 1))
        found = nearest_in(lists, i, size, most);
    return found;
}

bool gm_free_lists_pend_near(const struct gm_free_lists *lists, size_t size, size_t most) {
    unsigned tries = NEAR_TRIES;
    for (const struct gm_batch *batch = lists->first; batch && tries; batch = batch->next, tries--) {
        for (const struct gm_free_block *freed = batch->blocks; freed; freed = freed->next_of_batch)
            if (fits(freed->class, size, most))
                return true;
        for (const struct gm_registered *record = batch->kept; record; record = record->next_kept)
            if (fits(record->of_size, size, most))
                return true;
    }
    return false;
}

struct gm_size_class *gm_size_class_make(struct gm_shard *shard, struct gm_free_lists *lists, size_t size) {
    if (lists->class_count >= lists->class_limit)
        make_class_room(shard, lists);
    struct gm_size_class *class = TAKE_UNUSED(shard->unused_classes, struct gm_size_class);
    if (!class)
        return NULL;
    struct gm_size_class **slot = &lists->classes[gm_free_list_slot(size, lists->class_slots)];
    *class = (struct gm_size_class){.next = *slot, .lists = lists, .size = size};
    class->bucket = &lists->ready[gm_size_bucket_of(size)];
    clear_list(&class->ready);
    clear_list(&class->pending);
    *slot = class;
    lists->class_count++;
    return class;
}

/* ---- batches */

struct gm_batch *gm_batch_open(struct gm_free_lists *lists) {
    struct gm_batch *batch = TAKE_UNUSED(lists->unused, struct gm_batch);
    if (batch) {
        batch->lists = lists;
        batch->state = GM_BATCH_OPEN;
        batch->count = 0;
        batch->bytes = 0;
        batch->blocks = NULL;
        batch->kept = NULL;
    }
    lists->open = batch;
    return batch;
}

static struct gm_batch *take_open(struct gm_shard *shard, struct gm_free_lists *lists) {
    struct gm_batch *batch = lists->open;
    lists->open = NULL;
    gm_free_lists_count_unfenced(shard, -batch->bytes);
    return batch;
}

struct gm_batch *gm_batch_close(struct gm_shard *shard, struct gm_free_lists *lists) {
    struct gm_batch *batch = take_open(shard, lists);
    batch->state = GM_BATCH_RECORDING;
    batch->stamp = gm_ticks();
    return batch;
}

void gm_batch_recorded(struct gm_free_lists *lists, struct gm_batch *batch) {
    batch->state = GM_BATCH_RECORDED;
    batch->next = NULL;
    batch->previous = lists->last;
    lists->keeps_records |= batch->kept != NULL;
    *(lists->last ? &lists->last->next : &lists->first) = batch;
    lists->last = batch;
    lists->recorded_count++;
}

/* Blocks that were added to a new open batch meanwhile join this batch. */
void gm_batch_reopen(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *batch) {
    struct gm_batch *younger = lists->open;
    gm_free_lists_count_unfenced(shard, batch->bytes);
    while (younger && younger->blocks) {
        struct gm_free_block *freed = younger->blocks;
        younger->blocks = freed->next_of_batch;
        freed->batch = batch;
        freed->next_of_batch = batch->blocks;
        batch->blocks = freed;
        batch->count++;
        batch->bytes += freed->class->size;
    }
    while (younger && younger->kept) {
        struct gm_registered *record = younger->kept;
        younger->kept = record->next_kept;
        gm_batch_keep(batch, record);
        batch->count++;
        batch->bytes += record->of_size->size;
    }
    if (younger) {
        younger->next = lists->unused;
        lists->unused = younger;
    }
    batch->state = GM_BATCH_OPEN;
    lists->keeps_records |= batch->kept != NULL;
    lists->open = batch;
}

/* Removes the batch from the recorded ones. Its struct is reused when no thread queries the batch any more. */
static void spend(struct gm_free_lists *lists, struct gm_batch *batch) {
    if (batch->state == GM_BATCH_RECORDED) {
        *(batch->previous ? &batch->previous->next : &lists->first) = batch->next;
        *(batch->next ? &batch->next->previous : &lists->last) = batch->previous;
        lists->recorded_count--;
        lists->found_pending = 0;
    }
    batch->state = GM_BATCH_SPENT;
    if (batch->users)
        return;
    batch->next = lists->unused;
    lists->unused = batch;
}

static void ready_record(struct gm_free_lists *lists, struct gm_registered *record, uint64_t stamp) {
    struct gm_size_class *class = record->of_size;
    record->next_kept = class->kept;
    class->kept = record;
    class->kept_stamp = stamp;
    class->kept_pending--;
    lists->keeps_records = true;
    gm_size_class_list(lists, class);
}

/* The batch holds records of one class only: they become ready together. */
static void ready_together(struct gm_free_lists *lists, struct gm_batch *batch) {
    struct gm_size_class *class = batch->kept_class;
    batch->kept_last->next_kept = class->kept;
    class->kept = batch->kept;
    class->kept_stamp = batch->stamp;
    class->kept_pending -= batch->count;
    lists->keeps_records = true;
    gm_size_class_list(lists, class);
    batch->kept = NULL;
}

void gm_batch_complete(struct gm_free_lists *lists, struct gm_batch *batch) {
    if (batch->state != GM_BATCH_RECORDED)
        return;
    if (GM_LIKELY(batch->kept && batch->kept_class && !batch->blocks))
        ready_together(lists, batch);
    for (struct gm_free_block *freed = batch->blocks, *next; freed; freed = next) {
        next = freed->next_of_batch;
        gm_free_list_unlink(&freed->class->pending, freed);
        gm_free_lists_ready_in(freed, batch->stamp);
    }
    for (struct gm_registered *record = batch->kept, *next; record; record = next) {
        next = record->next_kept;
        ready_record(lists, record, batch->stamp);
    }
    batch->kept = NULL;
    spend(lists, batch);
}

/* ---- records into entries */

/* The entry of the record's block, which then leaves the registry. NULL: no memory. */
static struct gm_free_block *turn_record(struct gm_free_lists *lists, struct gm_registered *record) {
    struct gm_shard *shard = lists->shard;
    struct gm_size_class *class = record->of_size;
    if (!shard->unused_blocks && !gm_free_blocks_more(shard))
        return NULL;
    struct gm_free_block *freed = shard->unused_blocks;
    shard->unused_blocks = freed->next;
    freed->address = gm_registered_address(record);
    freed->class = class;
    if (shard->addresses)
        gm_free_block_index(shard, freed);
    gm_registered_forget(record);
    return freed;
}

/* Newest first: each is put behind the one before, and all of them before the entries that were there. */
static void turn_ready(struct gm_free_lists *lists, struct gm_size_class *class) {
    struct gm_link *before = class->ready.ends.next, *younger = class->bucket->ages.next;
    while (class->kept) {
        struct gm_registered *record = class->kept, *next = record->next_kept;
        struct gm_free_block *freed = turn_record(lists, record);
        if (!freed)
            return;
        class->kept = next;
        freed->stamp = class->kept_stamp;
        gm_free_list_insert(&class->ready, freed, before);
        gm_link_before(&freed->age, younger);
        class->bucket->bytes += class->size;
    }
}

static void turn_batch(struct gm_free_lists *lists, struct gm_batch *batch) {
    while (batch->kept) {
        struct gm_registered *record = batch->kept, *next = record->next_kept;
        struct gm_free_block *freed = turn_record(lists, record);
        if (!freed) {
            lists->keeps_records = true;
            return;
        }
        batch->kept = next;
        freed->class->kept_pending--;
        freed->batch = batch;
        freed->next_of_batch = batch->blocks;
        batch->blocks = freed;
        gm_free_list_insert(&freed->class->pending, freed, &freed->class->pending.ends);
    }
}

/* Turns the ready records of a bucket and all buckets after it. Returns true when some stay, without memory. */
static bool turn_ready_from(struct gm_free_lists *lists, unsigned bucket) {
    bool some = false;
    if (!lists->keeps_records)
        return false;
    for (unsigned i = next_listing(lists, bucket); i < GM_SIZE_BUCKETS; i = next_listing(lists, i + 1))
        for (struct gm_size_class *class = lists->ready[i].classes; class; class = class->next_listed) {
            turn_ready(lists, class);
            some |= class->kept != NULL;
        }
    return some;
}

void gm_free_lists_turn_records(struct gm_free_lists *lists) {
    if (!lists->keeps_records)
        return;
    lists->keeps_records = turn_ready_from(lists, 0);
    for (struct gm_batch *batch = lists->first; batch; batch = batch->next)
        turn_batch(lists, batch);
    if (lists->open)
        turn_batch(lists, lists->open);
}

/* ---- release */

static void queue_release(struct gm_free_lists *lists, struct gm_free_block *freed, size_t size) {
    freed->class = NULL;
    freed->lists = lists;
    freed->size = size;
    gm_free_list_insert(&lists->pending_release, freed, lists->pending_release.ends.next);
}

static void release_batch(struct gm_free_lists *lists, struct gm_batch *batch) {
    turn_batch(lists, batch);
    if (batch->kept)
        gm_log(GM_LOG_ERROR, "no memory for the entries of freed blocks: they leak");
    for (struct gm_free_block *freed = batch->blocks, *next; freed; freed = next) {
        next = freed->next_of_batch;
        gm_free_list_unlink(&freed->class->pending, freed);
        freed->stamp = 0;
        queue_release(lists, freed, freed->class->size);
    }
    spend(lists, batch);
}

static struct gm_free_block *oldest_in(const struct gm_size_bucket *bucket) {
    return gm_free_block_of_age(bucket->ages.previous);
}

/* Queues the oldest ready block of the bucket for release. Returns its size. */
static size_t release_oldest_in(struct gm_free_lists *lists, struct gm_size_bucket *bucket) {
    struct gm_free_block *freed = oldest_in(bucket);
    size_t size = freed->class->size;
    gm_free_lists_ready_out(freed);
    queue_release(lists, freed, size);
    return size;
}

/* The bucket with the longest unused ready block of about `least` bytes or more. */
static const struct gm_size_bucket *longest_unused(const struct gm_free_lists *lists, size_t least) {
    const struct gm_size_bucket *found = NULL;
    for (unsigned i = gm_size_bucket_of(least); i < GM_SIZE_BUCKETS; i++)
        if (lists->ready[i].bytes && (!found || oldest_in(&lists->ready[i])->stamp < oldest_in(found)->stamp))
            found = &lists->ready[i];
    return found;
}

uint64_t gm_free_lists_oldest(struct gm_free_lists *lists, size_t least) {
    turn_ready_from(lists, gm_size_bucket_of(least));
    const struct gm_size_bucket *bucket = longest_unused(lists, least);
    return bucket ? oldest_in(bucket)->stamp : UINT64_MAX;
}

size_t gm_free_lists_release_oldest(struct gm_free_lists *lists, size_t bytes, size_t least, uint64_t until) {
    const struct gm_size_bucket *bucket;
    size_t pending_release = 0;
    turn_ready_from(lists, gm_size_bucket_of(least));
    while (pending_release < bytes && (bucket = longest_unused(lists, least)) && oldest_in(bucket)->stamp <= until)
        pending_release += release_oldest_in(lists, &lists->ready[bucket - lists->ready]);
    return pending_release;
}

/* A native free costs the same for any size. So small blocks are released only when no large one is left. */
size_t gm_free_lists_release_ready(struct gm_free_lists *lists, size_t bytes) {
    size_t pending_release = 0, more = 1;
    for (; pending_release < bytes && more; pending_release += more) {
        more = gm_free_lists_release_oldest(lists, 1, (bytes - pending_release) / 16, UINT64_MAX);
        if (!more)
            more = gm_free_lists_release_oldest(lists, 1, 0, UINT64_MAX);
    }
    return pending_release;
}

static bool is_idle(const struct gm_free_block *freed, uint64_t now, uint64_t idle_ns) {
    return now > freed->stamp && gm_ticks_span_ns(now - freed->stamp) > idle_ns;
}

void gm_free_lists_release_idle(struct gm_free_lists *lists, uint64_t now, uint64_t idle_ns) {
    turn_ready_from(lists, 0);
    for (unsigned i = 0; i < GM_SIZE_BUCKETS; i++)
        while (lists->ready[i].bytes && is_idle(oldest_in(&lists->ready[i]), now, idle_ns))
            release_oldest_in(lists, &lists->ready[i]);
}

size_t gm_free_lists_ready_from(struct gm_free_lists *lists, size_t least) {
    size_t bytes = 0;
    turn_ready_from(lists, gm_size_bucket_of(least));
    for (unsigned i = gm_size_bucket_of(least); i < GM_SIZE_BUCKETS; i++)
        bytes += lists->ready[i].bytes;
    return bytes;
}

void gm_free_lists_release_all(struct gm_shard *shard, struct gm_free_lists *lists) {
    gm_free_lists_turn_records(lists);
    for (unsigned i = 0; i < GM_SIZE_BUCKETS; i++)
        while (lists->ready[i].bytes)
            release_oldest_in(lists, &lists->ready[i]);
    while (lists->first)
        release_batch(lists, lists->first);
    if (lists->open)
        release_batch(lists, take_open(shard, lists));
}

static void take_pending_release(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_free_block *freed) {
    gm_free_list_unlink(&lists->pending_release, freed);
    gm_give(shard->kind, lists->device, freed->size);
    gm_free_block_remove(shard, lists, freed, freed->size);
}

unsigned gm_free_lists_pop_release(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_pending_release *out,
                                   unsigned room) {
    unsigned count = 0;
    for (; count < room && lists->pending_release.count; count++) {
        struct gm_free_block *freed = gm_free_list_first(&lists->pending_release);
        out[count] = (struct gm_pending_release){freed->address, freed->size, freed->stamp != 0};
        take_pending_release(shard, lists, freed);
    }
    return count;
}

void gm_free_lists_queue_release(struct gm_shard *shard, struct gm_free_lists *lists,
                                 const struct gm_pending_release *block) {
    struct gm_free_block *freed = gm_free_block_add(shard, lists, block->address, block->size);
    if (!freed) {
        gm_log(GM_LOG_ERROR, "no memory for the entry of the block at %p: %zu bytes leak",
               (void *)(uintptr_t)block->address, block->size);
        return;
    }
    freed->stamp = block->idle;
    queue_release(lists, freed, block->size);
    gm_give_not(shard->kind, lists->device, block->size);
}

bool gm_free_lists_withdraw(struct gm_shard *shard, struct gm_free_lists *lists, uint64_t address) {
    struct gm_link *at = lists->pending_release.ends.next;
    while (at != &lists->pending_release.ends && ((struct gm_free_block *)at)->address != address)
        at = at->next;
    if (at == &lists->pending_release.ends)
        return false;
    take_pending_release(shard, lists, (struct gm_free_block *)at);
    return true;
}

/* ---- index by address, built at the first gm_shard_holds: a program that frees a block twice makes a mistake, which
 * is rare */

static void link_address(struct gm_free_block **table, unsigned slots, struct gm_free_block *freed) {
    struct gm_free_block **slot = &table[gm_free_list_slot(freed->address, slots)];
    freed->next = *slot;
    *slot = freed;
}

/* Keeps the old table when the kernel has no memory. */
static void set_address_slots(struct gm_shard *shard, unsigned slots) {
    struct gm_free_block **old = shard->addresses, **table = gm_pages(slots * sizeof *table);
    if (!table)
        return;
    for (unsigned i = 0; i < shard->address_slots; i++)
        for (struct gm_free_block *freed = old[i], *next; freed; freed = next) {
            next = freed->next;
            link_address(table, slots, freed);
        }
    if (old != shard->first_addresses)
        munmap(old, shard->address_slots * sizeof *old);
    shard->addresses = table;
    shard->address_slots = slots;
}

void gm_free_block_index(struct gm_shard *shard, struct gm_free_block *freed) {
    if (++shard->block_count > 2 * shard->address_slots)
        set_address_slots(shard, 2 * shard->address_slots);
    link_address(shard->addresses, shard->address_slots, freed);
}

void gm_free_block_unindex(struct gm_shard *shard, struct gm_free_block *freed) {
    struct gm_free_block **slot = &shard->addresses[gm_free_list_slot(freed->address, shard->address_slots)];
    while (*slot != freed)
        slot = &(*slot)->next;
    *slot = freed->next;
    shard->block_count--;
}

static void index_addresses(struct gm_shard *shard, const struct gm_free_list *list) {
    for (const struct gm_link *at = list->ends.next; at != &list->ends; at = at->next)
        gm_free_block_index(shard, (struct gm_free_block *)at);
}

static size_t count_blocks(const struct gm_free_lists *lists) {
    size_t count = lists->pending_release.count;
    for (unsigned i = 0; i < lists->class_slots; i++)
        for (const struct gm_size_class *class = lists->classes[i]; class; class = class->next)
            count += class->ready.count + class->pending.count;
    return count;
}

static void index_all_addresses(struct gm_shard *shard) {
    size_t count = 0;
    unsigned slots = GM_SHARD_FIRST_ADDRESSES;
    for (const struct gm_free_lists *lists = shard->lists; lists; lists = lists->next)
        count += count_blocks(lists);
    while (slots < count)
        slots *= 2;
    shard->addresses = shard->first_addresses;
    shard->address_slots = GM_SHARD_FIRST_ADDRESSES;
    if (slots > shard->address_slots)
        set_address_slots(shard, slots); /* at its final size: filling it is slow enough */
    for (const struct gm_free_lists *lists = shard->lists; lists; lists = lists->next) {
        index_addresses(shard, &lists->pending_release);
        for (unsigned i = 0; i < lists->class_slots; i++)
            for (const struct gm_size_class *class = lists->classes[i]; class; class = class->next) {
                index_addresses(shard, &class->ready);
                index_addresses(shard, &class->pending);
            }
    }
}

static const struct gm_free_lists *lists_of(const struct gm_free_block *freed) {
    return freed->class ? freed->class->lists : freed->lists;
}

bool gm_shard_holds(struct gm_shard *shard, uint64_t address) {
    if (!shard->addresses)
        index_all_addresses(shard);
    const struct gm_free_block *freed = shard->addresses[gm_free_list_slot(address, shard->address_slots)];
    while (freed && (freed->address != address || lists_of(freed)->destroyed))
        freed = freed->next;
    return freed != NULL;
}

/* ---- use without the lock, and destroyed contexts */

/* Drops blocks and classes. The batch structs stay for the next context that uses these free lists; its fences use no
 * event of the old context. */
static void clear(struct gm_shard *shard, struct gm_free_lists *lists) {
    gm_free_lists_release_all(shard, lists);
    while (lists->pending_release.count)
        take_pending_release(shard, lists, gm_free_list_first(&lists->pending_release));
    drop_empty_classes(shard, lists);
    set_class_table(lists, lists->first_classes, GM_FIRST_SIZE_CLASSES);
    for (struct gm_free_lists **link = &shard->lists; *link; link = &(*link)->next)
        if (*link == lists) {
            *link = lists->next;
            break;
        }
    lists->next = shard->unused_lists;
    shard->unused_lists = lists;
}

bool gm_free_lists_let_go(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *batch) {
    if (--batch->users == 0 && batch->state == GM_BATCH_SPENT) {
        batch->next = lists->unused;
        lists->unused = batch;
    }
    lists->users--;
    if (!lists->destroyed)
        return true;
    if (batch->state == GM_BATCH_RECORDING)
        release_batch(lists, batch);
    if (!lists->users)
        clear(shard, lists);
    return false;
}

void gm_shard_forget(struct gm_shard *shard, uint64_t context_id) {
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    if (!lists)
        return;
    lists->destroyed = true;
    lists->context_id = GM_NO_CONTEXT;
    if (!lists->users)
        clear(shard, lists);
}
