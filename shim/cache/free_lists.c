/* The data structures behind free_lists.h. */
#include "shim/cache/free_lists.h"

#include <string.h>

#include "shim/resource/releases.h"
#include "shim/resource/registry.h"

enum {
    SLAB = 64 * 1024,
    TRIES = 32 /* blocks of one bin that a search looks at; in most bins all of them have the same size */
};

/* ---- free lists of a context; their memory is never returned to the kernel, but reused within the shard */

struct gm_free_lists *gm_free_lists_make(struct gm_shard *shard, struct gm_fence_timelines *timelines, uint64_t context,
                                         uint64_t context_id, int device) {
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    if (lists)
        return lists;
    struct gm_fence_timeline *timeline = gm_timeline_use(timelines, context, context_id, device);
    if (!timeline)
        return NULL;
    lists = shard->unused_lists;
    if (lists)
        shard->unused_lists = lists->next;
    else
        lists = gm_pages(sizeof *lists);
    if (!lists) {
        gm_timeline_leave(timeline);
        return NULL;
    }
    struct gm_batch *unused = lists->unused;
    memset(lists, 0, sizeof *lists);
    lists->timeline = timeline;
    lists->context = context;
    lists->context_id = context_id;
    lists->device = device;
    lists->share = &shard->shares[device];
    lists->unused = unused;
    lists->swept = gm_ticks();
    gm_link_clear(&lists->releasing);
    for (unsigned i = 0; i < GM_BINS; i++)
        gm_link_clear(&lists->bins[i].ready);
    lists->next = shard->lists;
    shard->lists = lists;
    return lists;
}

/* ---- ready blocks */

/* The first bin from number `from` on that may have a ready block; GM_BINS: none. */
static unsigned next_filled(const struct gm_free_lists *lists, unsigned from) {
    for (; from < GM_BINS; from = (from / 64 + 1) * 64) {
        uint64_t bits = lists->filled[from / 64] >> from % 64;
        if (bits)
            return from + (unsigned)__builtin_ctzll(bits);
    }
    return GM_BINS;
}

struct gm_block_record *gm_free_lists_take(struct gm_free_lists *lists, unsigned number, size_t least, size_t most) {
    struct gm_bin *bin = &lists->bins[number];
    unsigned tries = TRIES;
    for (struct gm_link *at = bin->ready.next; at != &bin->ready && tries; at = at->next, tries--) {
        struct gm_block_record *record = gm_record_of(at);
        if (record->block.reserved - least <= most - least) {
            gm_free_lists_remove(lists, record);
            return record;
        }
    }
    return NULL;
}

struct gm_block_record *gm_free_lists_take_larger(struct gm_free_lists *lists, unsigned from, size_t least) {
    struct gm_block_record *found = NULL;
    for (unsigned i = next_filled(lists, from); i < GM_BINS && !found; i = next_filled(lists, i + 1))
        for (struct gm_link *at = lists->bins[i].ready.next; at != &lists->bins[i].ready; at = at->next) {
            struct gm_block_record *record = gm_record_of(at);
            if (record->block.reserved >= least && (!found || record->block.reserved < found->block.reserved))
                found = record;
        }
    if (found)
        gm_free_lists_remove(lists, found);
    return found;
}

/* ---- batches */

static struct gm_batch *unused_batch(struct gm_free_lists *lists) {
    struct gm_batch *slab = lists->unused ? NULL : gm_pages(SLAB);
    for (size_t i = 0; slab && i < SLAB / sizeof *slab; i++) {
        slab[i].next = lists->unused;
        lists->unused = &slab[i];
    }
    struct gm_batch *batch = lists->unused;
    if (batch)
        lists->unused = batch->next;
    return batch;
}

struct gm_batch *gm_batch_open(struct gm_free_lists *lists) {
    if (lists->open)
        return lists->open;
    struct gm_batch *batch = lists->open = unused_batch(lists);
    if (batch) {
        batch->count = 0;
        batch->bytes = 0;
        batch->began = gm_ticks();
        gm_link_clear(&batch->blocks);
    }
    return batch;
}

static struct gm_batch *take_open(struct gm_shard *shard, struct gm_free_lists *lists) {
    struct gm_batch *batch = lists->open;
    lists->open = NULL;
    gm_free_lists_count_unfenced(shard, -batch->bytes);
    return batch;
}

struct gm_closed gm_batch_close(struct gm_shard *shard, struct gm_free_lists *lists) {
    struct gm_batch *batch = take_open(shard, lists);
    batch->ticket = gm_timeline_ticket(lists->timeline);
    batch->next = NULL;
    *(lists->first ? &lists->last->next : &lists->first) = batch;
    lists->last = batch;
    lists->closed_count++;
    gm_batch_open(lists); /* the next free finds it */
    return (struct gm_closed){batch->ticket, batch->began};
}

static void put_unused(struct gm_free_lists *lists, struct gm_batch *batch) {
    batch->next = lists->unused;
    lists->unused = batch;
}

static struct gm_batch *take_first(struct gm_free_lists *lists) {
    struct gm_batch *batch = lists->first;
    lists->first = batch->next;
    lists->closed_count--;
    return batch;
}

/* Takes the oldest block out of the batch. NULL: it has none any more. */
static struct gm_block_record *take_oldest(struct gm_free_lists *lists, struct gm_batch *batch) {
    if (gm_link_is_empty(&batch->blocks))
        return NULL;
    struct gm_block_record *record = gm_record_of(batch->blocks.previous);
    gm_link_out(&record->link);
    lists->bins[record->block.bin].pending -= record->block.reserved;
    return record;
}

static void complete(struct gm_free_lists *lists, struct gm_batch *batch) {
    struct gm_block_record *record;
    if (GM_LIKELY(batch->bin != NULL) && GM_LIKELY(batch->count)) { /* all at once */
        for (struct gm_link *at = batch->blocks.next; at != &batch->blocks; at = at->next)
            gm_record_become(gm_record_of(at), GM_BLOCK_READY);
        batch->bin->pending -= batch->bytes;
        batch->bin->bytes += batch->bytes;
        gm_link_move_all(&batch->blocks, &batch->bin->ready);
        gm_free_lists_note_filled(lists, batch->bin);
    }
    while ((record = take_oldest(lists, batch)))
        gm_free_lists_make_ready(lists, record);
    put_unused(lists, batch);
}

void gm_batches_complete(struct gm_free_lists *lists) {
    while (lists->first && gm_timeline_has_passed(lists->timeline, lists->first->ticket))
        complete(lists, take_first(lists));
}

/* ---- release */

static void queue_release(struct gm_free_lists *lists, struct gm_block_record *record) {
    gm_record_become(record, GM_BLOCK_RELEASING);
    gm_link_first(&record->link, &lists->releasing);
    lists->releasing_count++;
}

static void release_batch(struct gm_free_lists *lists, struct gm_batch *batch) {
    struct gm_block_record *record;
    while ((record = take_oldest(lists, batch))) {
        gm_record_set_freed(record, 0);
        queue_release(lists, record);
    }
    put_unused(lists, batch);
}

static struct gm_block_record *oldest_in(const struct gm_bin *bin) { return gm_record_of(bin->ready.previous); }

/* Queues the oldest ready block of the bin for release. Returns its size. */
static size_t release_oldest_in(struct gm_free_lists *lists, struct gm_bin *bin) {
    struct gm_block_record *record = oldest_in(bin);
    gm_link_out(&record->link);
    bin->bytes -= record->block.reserved;
    queue_release(lists, record);
    return record->block.reserved;
}

/* The bin with the longest unused ready block. */
static const struct gm_bin *longest_unused(const struct gm_free_lists *lists, unsigned from, unsigned until) {
    const struct gm_bin *found = NULL;
    for (unsigned i = next_filled(lists, from); i < until; i = next_filled(lists, i + 1)) {
        const struct gm_bin *bin = &lists->bins[i];
        if (bin->bytes && (!found || oldest_in(bin)->block.freed < oldest_in(found)->block.freed))
            found = bin;
    }
    return found;
}

uint64_t gm_free_lists_oldest(const struct gm_free_lists *lists, unsigned from, unsigned until) {
    const struct gm_bin *bin = longest_unused(lists, from, until);
    return bin ? oldest_in(bin)->block.freed : UINT64_MAX;
}

size_t gm_free_lists_release_oldest(struct gm_free_lists *lists, size_t bytes, unsigned from, unsigned until,
                                    uint64_t latest) {
    const struct gm_bin *bin;
    size_t queued = 0;
    while (queued < bytes && (bin = longest_unused(lists, from, until)) && oldest_in(bin)->block.freed <= latest)
        queued += release_oldest_in(lists, &lists->bins[bin - lists->bins]);
    return queued;
}

void gm_free_lists_release_idle(struct gm_free_lists *lists, uint64_t now, uint64_t idle_ns) {
    for (unsigned i = next_filled(lists, 0); i < GM_BINS; i = next_filled(lists, i + 1))
        while (lists->bins[i].bytes) {
            uint64_t freed = oldest_in(&lists->bins[i])->block.freed;
            if (now <= freed || gm_ticks_span_ns(now - freed) <= idle_ns)
                break;
            release_oldest_in(lists, &lists->bins[i]);
        }
}

size_t gm_free_lists_ready_from(const struct gm_free_lists *lists, unsigned from) {
    size_t bytes = 0;
    for (unsigned i = next_filled(lists, from); i < GM_BINS; i = next_filled(lists, i + 1))
        bytes += lists->bins[i].bytes;
    return bytes;
}

void gm_free_lists_release_all(struct gm_shard *shard, struct gm_free_lists *lists) {
    for (unsigned i = next_filled(lists, 0); i < GM_BINS; i = next_filled(lists, i + 1))
        while (lists->bins[i].bytes)
            release_oldest_in(lists, &lists->bins[i]);
    while (lists->first)
        release_batch(lists, take_first(lists));
    if (lists->open)
        release_batch(lists, take_open(shard, lists));
}

static void take_releasing(struct gm_free_lists *lists, struct gm_block_record *record) {
    gm_record_become(record, GM_BLOCK_CLAIMED);
    gm_link_out(&record->link);
    lists->releasing_count--;
    gm_share_take(lists->share, record->block.reserved);
}

unsigned gm_free_lists_pop_release(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_block_record **out,
                                   unsigned room) {
    unsigned count = 0;
    for (; count < room && lists->releasing_count; count++) {
        out[count] = gm_record_of(lists->releasing.next);
        take_releasing(lists, out[count]);
        gm_release_note(shard->kind, lists->device, out[count]->block.reserved);
        gm_stats_uncached(shard->kind, out[count]->block.reserved);
    }
    return count;
}

void gm_free_lists_queue_release(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_block_record *record) {
    size_t size = record->block.reserved;
    queue_release(lists, record);
    gm_release_failed(shard->kind, lists->device, size);
    gm_stats_cached(shard->kind, size);
    gm_share_add(lists->share, size);
}

bool gm_free_lists_withdraw(struct gm_free_lists *lists, struct gm_block_record *record) {
    struct gm_link *at = lists->releasing.next;
    while (at != &lists->releasing && at != &record->link)
        at = at->next;
    if (at == &lists->releasing)
        return false;
    take_releasing(lists, record);
    return true;
}

/* ---- use without the lock, and destroyed contexts */

/* The batch structs stay for the next context that uses these free lists; its fences use no event of the old one. */
static void clear_lists(struct gm_shard *shard, struct gm_free_lists *lists) {
    struct gm_block_record *record;
    gm_free_lists_release_all(shard, lists);
    while (gm_free_lists_pop_release(shard, lists, &record, 1))
        gm_registry_remove(gm_registry_shared(), record);
    for (struct gm_free_lists **link = &shard->lists; *link; link = &(*link)->next)
        if (*link == lists) {
            *link = lists->next;
            break;
        }
    gm_timeline_leave(lists->timeline);
    lists->next = shard->unused_lists;
    shard->unused_lists = lists;
}

bool gm_free_lists_let_go(struct gm_shard *shard, struct gm_free_lists *lists) {
    lists->users--;
    if (!lists->destroyed)
        return true;
    if (!lists->users)
        clear_lists(shard, lists);
    return false;
}

void gm_shard_forget(struct gm_shard *shard, uint64_t context_id) {
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    if (!lists)
        return;
    lists->destroyed = true;
    lists->context_id = GM_NO_CONTEXT;
    if (!lists->users)
        clear_lists(shard, lists);
}
