/* Release of free blocks to the upstream resource. A native free waits for the whole context and stalls other threads.
 * So the cache releases blocks inside a free of the same context, when the context is idle (gm_cache_upkeep), when a
 * limit is reached (gm_cache_make_room), or on request (gm_cache_trim). A block is first moved to the releasing list
 * of its context, under the shard's lock; gm_cache_drain then frees it without the lock. */
#include "shim/base/events.h"
#include "shim/base/file.h"
#include "shim/accounts/loans.h"
#include "shim/accounts/stats.h"
#include "shim/cache/parts.h"

#include "shim/resource/adaptor.h"
#include "shim/resource/block.h"
#include "shim/resource/releases.h"
#include "shim/resource/registry.h"
#include "shim/driver/internal_stream.h"
#include "shim/driver/transports.h"

enum {
    VICTIMS = 16,
    BUSY_IDLES = 4, /* while the context is busy, blocks stay this many times longer */
};

gm_status gm_cache_free_upstream(struct gm_resource *self, const struct gm_block *block,
                                 const struct gm_free_request *how) {
    struct gm_block whole = *block; /* the program may have requested less */
    whole.size = whole.reserved;
    gm_status status = gm_adaptor_free(self, &whole, how);
    if (!status && block->device >= 0 && block->device < GM_CACHE_DEVICES)
        gm_cache_count_released(self->state, block->device, block->reserved, block->bin);
    return status;
}

/* True when the upstream free waits by itself, as a native free does: this disturbs no capture. A free to a pool needs
 * a fence unless the block is idle, and recording a fence would disturb a capture. */
static bool waits_itself(const struct gm_resource *self) { return self->upstream->properties & GM_PROP_CAPTURABLE; }

/* Frees one block that the caller took off the free lists. GM_OK: its record is gone; else *record is one again, NULL
 * when the kernel has no memory for it. */
static gm_status free_taken(struct gm_resource *self, struct gm_block_record **record) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    gm_record_read(*record, &block);
    block.address = gm_record_address(*record);
    const struct gm_free_request how = {.call = GM_CALL_FREE, .idle = block.freed != 0};
    gm_registry_remove(registry, *record);
    gm_status status = gm_cache_free_upstream(self, &block, &how);
    *record = status ? gm_registry_add_held(registry, &block, NULL) : NULL;
    if (status && !*record)
        gm_log(GM_LOG_ERROR, "no memory for the record of the block at %p: %zu bytes leak",
               (void *)(uintptr_t)block.address, block.reserved);
    return status;
}

/* Frees blocks of a context that is held and current. Returns how many; the first of the others failed. */
static unsigned free_victims(struct gm_resource *self, struct gm_block_record **victims, unsigned count,
                             size_t *released) {
    unsigned freed = 0;
    for (bool failed = false; freed < count && !failed; freed += !failed) {
        size_t size = victims[freed]->block.reserved;
        bool may = victims[freed]->block.freed || waits_itself(self) || !gm_capture_any();
        failed = !may || free_taken(self, &victims[freed]) != GM_OK;
        *released += failed ? 0 : size;
    }
    return freed;
}

static size_t drain(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id) {
    struct gm_block_record *victims[VICTIMS];
    size_t released = 0;
    struct gm_context_held held;
    bool failed = false;
    while (!failed) {
        gm_spin_lock(&shard->lock);
        struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
        unsigned count = lists ? gm_free_lists_pop_release(shard, lists, victims, VICTIMS) : 0;
        CUcontext context = count ? (CUcontext)(uintptr_t)lists->context : NULL;
        gm_spin_unlock(&shard->lock);
        if (!count)
            break;
        CUstreamCaptureMode mode = gm_capture_relax();
        /* Without the hold another thread could destroy the context, and new blocks could get these addresses. */
        bool inside = gm_context_enter_held(context, context_id, &held) == GM_OK;
        unsigned freed = inside ? free_victims(self, victims, count, &released) : 0;
        failed = freed < count;
        if (inside)
            gm_context_leave_held(&held);
        gm_capture_unrelax(mode);
        gm_spin_lock(&shard->lock);
        lists = gm_free_lists_of(shard, context_id);
        for (; freed < count; freed++)
            if (lists && victims[freed])
                gm_free_lists_queue_release(shard, lists, victims[freed]);
            else if (victims[freed]) /* the context was destroyed with its memory */
                gm_registry_remove(gm_registry_shared(), victims[freed]);
        gm_spin_unlock(&shard->lock);
    }
    gm_stats_trimmed(released);
    return released;
}

size_t gm_cache_drain(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id) {
    struct gm_releases releases;
    gm_releases_begin(&releases, GM_REASON_CACHE_LIMIT);
    size_t released = drain(self, shard, context_id);
    gm_releases_end(&releases, false);
    return released;
}

/* ---- the blocks that were unused longest */

/* Queries the fences of closed batches, oldest first, until one is pending. */
static void query_closed(struct gm_shard *shard, struct gm_free_lists *lists, bool *destroyed) {
    for (unsigned remaining = lists->closed_count; remaining && !*destroyed && lists->first; remaining--)
        if (gm_cache_settle(shard, lists, lists->first->ticket, GM_SETTLE_QUERY, destroyed))
            break;
}

/* The same, after recording a fence for the open batch: its thread may have ended and would never fill the batch. */
static void query_all(struct gm_shard *shard, struct gm_free_lists *lists, bool *destroyed) {
    struct gm_closed closed;
    if (!lists->disabled && gm_free_lists_has_open(lists))
        gm_cache_record(shard, lists, 0, &closed, destroyed);
    if (!*destroyed)
        query_closed(shard, lists, destroyed);
}

/* Bins of the blocks that a release looks at: from the first to the one before the last. */
struct bins {
    unsigned first, last;
};
static struct bins bins_of(unsigned sort) { return (struct bins){gm_bin_of_sort(sort), gm_bin_of_sort(sort + 1)}; }
/* Those of about `least` bytes or more. */
static struct bins bins_from(struct bins bins, size_t least) {
    unsigned first = gm_bin_of_least(least);
    return (struct bins){first > bins.first ? first : bins.first, bins.last};
}
static const struct bins all_bins = {0, GM_BINS};

/* Among the context's ready blocks in these bins, finds the one that was unused longest and returns its shard; NULL: no
 * block is ready. *until: the stamp of the longest unused such block in the other shards. */
static struct gm_shard *longest_unused_shard(struct gm_cache *state, uint64_t context_id, int device, struct bins bins,
                                             uint64_t *until) {
    struct gm_shard *found = NULL;
    uint64_t oldest = UINT64_MAX;
    *until = UINT64_MAX;
    for (unsigned i = 0; i < gm_cache_shards_used(); i++) {
        struct gm_shard *shard = &state->shards[i];
        if (!gm_cache_has_some(shard, device))
            continue;
        gm_spin_lock(&shard->lock);
        struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
        uint64_t stamp = lists ? gm_free_lists_oldest(lists, bins.first, bins.last) : UINT64_MAX;
        gm_spin_unlock(&shard->lock);
        *until = stamp < oldest ? oldest : stamp < *until ? stamp : *until;
        if (stamp < oldest) {
            oldest = stamp;
            found = shard;
        }
    }
    return found;
}

/* Releases ready blocks of the shard, longest unused first, until `bytes` are released: those in the bins that were
 * freed until `latest`. Returns the bytes released. */
static size_t release_from(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id, size_t bytes,
                           struct bins bins, uint64_t latest) {
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    if (lists)
        gm_free_lists_release_oldest(lists, bytes, bins.first, bins.last, latest);
    gm_spin_unlock(&shard->lock);
    return gm_cache_drain(self, shard, context_id);
}

/* Releases about `bytes` of the context's ready blocks from one shard, longest unused first. The threads of that shard
 * may have ended. Returns the bytes released; 0: nothing is ready. */
static size_t release_oldest(struct gm_resource *self, uint64_t context_id, int device, size_t bytes,
                             struct bins bins) {
    struct gm_cache *state = self->state;
    struct bins large = bins_from(bins, bytes / 16);
    uint64_t until;
    struct gm_shard *shard = longest_unused_shard(state, context_id, device, large, &until);
    if (!shard)
        shard = longest_unused_shard(state, context_id, device, large = bins, &until);
    return shard ? release_from(self, shard, context_id, bytes, large, until) : 0;
}

/* Releases one ready block of about `bytes` or more: the longest unused one, if it was freed before `before`. Returns
 * the bytes released; 0: there is none. The smallest such block would be smaller, but a program of random sizes would
 * lose its small blocks to each small excess. */
static size_t release_enough(struct gm_resource *self, uint64_t context_id, int device, size_t bytes, struct bins bins,
                             uint64_t before) {
    struct bins enough = bins_from(bins, bytes);
    uint64_t until;
    struct gm_shard *shard = longest_unused_shard(self->state, context_id, device, enough, &until);
    return shard ? release_from(self, shard, context_id, 1, enough, before - 1) : 0;
}

/* Queries the fences of all shards: for a thread that has ended nobody else queries them. */
static void query_all_shards(struct gm_cache *state, uint64_t context_id, int device) {
    for (unsigned i = 0; i < gm_cache_shards_used(); i++) {
        struct gm_shard *shard = &state->shards[i];
        bool destroyed = false;
        if (!gm_cache_has_some(shard, device))
            continue;
        gm_spin_lock(&shard->lock);
        struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
        if (lists)
            query_closed(shard, lists, &destroyed);
        gm_spin_unlock(&shard->lock);
    }
}

/* ---- inside a free */

/* The limit is reached: releases blocks until there is room for this one. False: there is still no room. */
static bool release_for_block(struct gm_resource *self, const struct gm_block *block) {
    struct gm_cache *state = self->state;
    struct gm_releases releases;
    size_t missing = gm_cache_gather(state, block->device, block->reserved);
    if (missing && block->reserved > gm_cache_limit(state, block->device))
        return false;
    if (missing)
        query_all_shards(state, block->context_id, block->device);
    gm_releases_begin(&releases, GM_REASON_CACHE_LIMIT);
    /* Other threads may use up the room meanwhile. So the loop ends after it has released the size of the block. */
    for (size_t released = 0, freed = 1; missing && freed && released < block->reserved; released += freed) {
        freed = release_oldest(self, block->context_id, block->device, missing, all_bins);
        gm_stats_unkept(GM_UNKEPT_LIMIT, freed, true);
        missing = gm_cache_gather(state, block->device, block->reserved);
    }
    gm_releases_end(&releases, false);
    return !missing;
}

struct gm_free_lists *gm_cache_make_room(struct gm_resource *self, struct gm_shard *shard,
                                         const struct gm_block *block) {
    struct gm_cache *state = self->state;
    struct gm_cache_device *at = &state->devices[block->device];
    gm_spin_unlock(&shard->lock);
    uint64_t limit = gm_cache_limit(state, block->device);
    if (__atomic_load_n(&at->allowed, __ATOMIC_RELAXED) >= limit / GM_CACHE_STEPS)
        GM_PUBLISH(much_kept, block->device);
    gm_spin_lock(&shard->lock);
    if (__atomic_load_n(&at->tight, __ATOMIC_RELAXED)) {
        gm_spin_unlock(&shard->lock);
        struct gm_releases releases;
        query_all_shards(state, block->context_id, block->device);
        gm_releases_begin(&releases, GM_REASON_CACHE_LIMIT);
        for (size_t freed; (freed = release_oldest(self, block->context_id, block->device, SIZE_MAX, all_bins));)
            gm_stats_unkept(GM_UNKEPT_TIGHT, freed, true);
        gm_releases_end(&releases, false);
        gm_stats_unkept(GM_UNKEPT_TIGHT, block->reserved, false);
        gm_spin_lock(&shard->lock);
        return NULL;
    }
    struct gm_free_lists *lists =
        gm_free_lists_make(shard, &state->timelines, block->context, block->context_id, block->device);
    if (!lists || lists->disabled)
        return NULL;
    if (gm_cache_allow(state, shard, block->device, block->reserved))
        return lists;
    gm_spin_unlock(&shard->lock);
    bool room = release_for_block(self, block);
    gm_spin_lock(&shard->lock);
    lists = gm_free_lists_of(shard, block->context_id);
    if (!lists || lists->disabled)
        return NULL;
    if (room && gm_cache_allow(state, shard, block->device, block->reserved))
        return lists;
    gm_stats_unkept(GM_UNKEPT_LIMIT, block->reserved, false);
    return NULL;
}

static bool sweep_is_due(const struct gm_cache *state, const struct gm_free_lists *lists, uint64_t now) {
    return state->idle_ns && now > lists->swept && gm_ticks_span_ns(now - lists->swept) > state->idle_ns / 4;
}

static size_t excess_of(struct gm_cache *state, int device, enum gm_cache_sort sort) {
    return gm_cache_excess(gm_cache_budget(state, device, sort, 0));
}

static bool has_excess(struct gm_cache *state, int device) {
    return excess_of(state, device, GM_CACHE_SMALL) || excess_of(state, device, GM_CACHE_LARGE);
}

bool gm_cache_needs_upkeep(struct gm_cache *state, const struct gm_free_lists *lists, const struct gm_closed *latest) {
    return (!latest && lists->first) || lists->releasing_count || has_excess(state, lists->device) ||
           sweep_is_due(state, lists, gm_ticks());
}

/* True when the context has done all work submitted before the latest batch: a native free then does not wait. */
static bool context_is_idle(struct gm_shard *shard, struct gm_free_lists *lists, const struct gm_closed *latest,
                            bool *destroyed) {
    struct gm_look look = {0};
    gm_status status = GM_FENCE_PENDING;
    if (!latest)
        return true;
    if (!gm_cache_may_look(lists))
        return gm_cache_settle(shard, lists, latest->ticket, GM_SETTLE_QUERY, destroyed) == GM_OK;
    while (status == GM_FENCE_PENDING && !*destroyed && gm_look_goes_on(&look, lists->timeline, gm_cache_answer_ns()))
        status = gm_cache_settle(shard, lists, latest->ticket, GM_SETTLE_DUE, destroyed);
    if (!*destroyed)
        gm_cache_looked(lists, !status);
    return !status && !*destroyed;
}

/* Releases blocks of the sort until the cache is within its target. */
static void release_excess(struct gm_resource *self, uint64_t context_id, int device, enum gm_cache_sort sort,
                           uint64_t closed) {
    const struct bins bins = bins_of(sort);
    size_t excess = excess_of(self->state, device, sort);
    for (size_t most = excess, released = 0, freed = 1; excess && freed && released < most; released += freed) {
        size_t least = sort == GM_CACHE_LARGE || excess > GM_CACHE_SHARES ? excess : GM_CACHE_SHARES;
        freed = release_enough(self, context_id, device, least, bins, closed);
        if (!freed)
            freed = release_oldest(self, context_id, device, excess, bins);
        excess = excess_of(self->state, device, sort);
    }
}

void gm_cache_upkeep(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id,
                     const struct gm_closed *latest) {
    struct gm_cache *state = self->state;
    uint64_t now = gm_ticks(), idle_ns = state->idle_ns, closed = now;
    int device = -1;
    bool destroyed = false, sweep = false, release = false, excess = false;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    if (latest)
        closed = latest->began;
    if (lists && lists->first && !latest)
        gm_cache_settle(shard, lists, lists->first->ticket, GM_SETTLE_QUERY, &destroyed);
    if (lists && !destroyed) {
        device = lists->device;
        excess = has_excess(state, device);
        sweep = sweep_is_due(state, lists, now);
        if (sweep)
            lists->swept = now;
        bool must = lists->disabled || gm_cache_overfull(state, lists->device);
        bool idle =
            !must && (excess || sweep || lists->releasing_count) && context_is_idle(shard, lists, latest, &destroyed);
        release = (must || idle) && !destroyed;
        if (!idle)
            idle_ns *= BUSY_IDLES;
    }
    gm_spin_unlock(&shard->lock);
    if (sweep) /* while all pairs are hits nobody else looks */
        gm_rdma_in_process();
    struct gm_releases releases;
    gm_releases_begin(&releases, GM_REASON_CACHE_LIMIT);
    if (release)
        gm_cache_drain(self, shard, context_id);
    if (release && excess)
        query_all_shards(state, context_id, device);
    for (unsigned sort = 0; release && excess && sort < GM_CACHE_SORTS; sort++)
        release_excess(self, context_id, device, sort, closed);
    gm_releases_end(&releases, false);
    gm_releases_begin(&releases, GM_REASON_IDLE);
    for (unsigned i = 0; sweep && !destroyed && i < gm_cache_shards_used(); i++) {
        gm_spin_lock(&state->shards[i].lock);
        lists = gm_free_lists_of(&state->shards[i], context_id);
        if (lists)
            query_all(&state->shards[i], lists, &destroyed);
        if (destroyed)
            lists = NULL;
        size_t before = lists ? lists->releasing_count : 0;
        if (lists)
            gm_free_lists_release_idle(lists, now, idle_ns);
        bool found = lists && lists->releasing_count != before;
        gm_spin_unlock(&state->shards[i].lock);
        if (found)
            gm_stats_unkept(GM_UNKEPT_IDLE, gm_cache_drain(self, &state->shards[i], context_id), true);
    }
    gm_releases_end(&releases, false);
}

/* ---- release on request */

/* Lists contexts that have free blocks of a device (-1: any device): at most `room` of them, from number `from` on. */
static unsigned list_contexts(struct gm_shard *shard, int device, uint64_t *ids, unsigned room, unsigned from) {
    unsigned count = 0, seen = 0;
    gm_spin_lock(&shard->lock);
    for (struct gm_free_lists *lists = shard->lists; lists && count < room; lists = lists->next)
        if ((device < 0 || lists->device == device) && !lists->destroyed && lists->share->bytes && seen++ >= from)
            ids[count++] = lists->context_id;
    gm_spin_unlock(&shard->lock);
    return count;
}

/* Queues ready blocks until `bytes` are queued or none is left. A native free costs the same for any size, so small
 * blocks are released only when no large one is left. */
static size_t release_ready(struct gm_free_lists *lists, size_t bytes) {
    size_t queued = 0, more = 1;
    for (; queued < bytes && more; queued += more) {
        more = gm_free_lists_release_oldest(lists, 1, gm_bin_of_least((bytes - queued) / 16), GM_BINS, UINT64_MAX);
        if (!more)
            more = gm_free_lists_release_oldest(lists, 1, 0, GM_BINS, UINT64_MAX);
    }
    return queued;
}

/* Releases the ready blocks of one context, or (`pending`) all its free blocks after waiting for their fences. */
static size_t trim_lists(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id, size_t bytes,
                         bool pending) {
    bool destroyed = false;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    for (unsigned i = 0; lists && pending && lists->first && !destroyed && i < 4 * GM_CACHE_CLOSED; i++)
        if (gm_cache_settle(shard, lists, lists->first->ticket, GM_SETTLE_WAIT, &destroyed))
            break;
    bool all = pending && (waits_itself(self) || !gm_capture_any());
    if (lists && !destroyed && release_ready(lists, bytes) < bytes && all)
        gm_free_lists_release_all(shard, lists);
    gm_spin_unlock(&shard->lock);
    return gm_cache_drain(self, shard, context_id);
}

size_t gm_cache_trim(struct gm_resource *self, size_t bytes) {
    struct gm_cache *state = self->state;
    struct gm_context context;
    uint64_t ids[32];
    size_t released = 0;
    gm_capture_recheck();
    int device = gm_drv.ctx_get_current && gm_context_current(&context) ? context.device : -1;
    for (int pending = 0; pending < 2; pending++)
        for (unsigned i = 0; i < GM_CACHE_SHARDS && released < bytes; i++) {
            unsigned count = list_contexts(&state->shards[i], device, ids, 32, 0);
            for (unsigned j = 0; j < count && released < bytes; j++)
                released += trim_lists(self, &state->shards[i], ids[j], bytes - released, pending);
        }
    if (bytes == SIZE_MAX && device >= 0 && device < GM_CACHE_DEVICES)
        gm_cache_forget_peak(state, device);
    return released;
}

/* ---- for a request that the driver refused */

/* True when the context has done all work submitted so far: a native free in it does not wait. Asks for up to
 * `patience_ns`. The caller holds the lock; the function releases it for a time. */
static bool becomes_idle(struct gm_shard *shard, struct gm_free_lists *lists, uint64_t patience_ns, bool *destroyed) {
    const unsigned nap_ns = 20000;
    gm_status status = GM_FENCE_PENDING;
    uint64_t begin = gm_now_ns();
    uint64_t ticket =
        gm_free_lists_has_open(lists) ? gm_batch_close(shard, lists).ticket : gm_timeline_ticket(lists->timeline);
    while (!lists->disabled &&
           (status = gm_cache_settle(shard, lists, ticket, GM_SETTLE_QUERY, destroyed)) == GM_FENCE_PENDING &&
           !*destroyed && gm_now_ns() - begin < patience_ns) {
        if (gm_now_ns() - begin < gm_cache_answer_ns())
            continue;
        gm_free_lists_hold(lists);
        gm_spin_unlock(&shard->lock);
        gm_sleep(nap_ns);
        gm_spin_lock(&shard->lock);
        *destroyed = !gm_free_lists_let_go(shard, lists);
    }
    return !*destroyed && status == GM_OK;
}

/* Releases ready blocks of one context in one shard, if this does not wait for work. */
static size_t trim_idle(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id, size_t bytes,
                        uint64_t patience_ns) {
    bool destroyed = false, idle = false;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_capture_any() ? NULL : gm_free_lists_of(shard, context_id);
    if (lists)
        idle = becomes_idle(shard, lists, patience_ns, &destroyed);
    if (idle)
        release_ready(lists, bytes);
    gm_spin_unlock(&shard->lock);
    return idle ? gm_cache_drain(self, shard, context_id) : 0;
}

/* Releases ready blocks of contexts that are idle: of all devices (-1) or one. The context `own` is waited for up to
 * `patience_ns`. */
static size_t trim_idle_contexts(struct gm_resource *self, int device, size_t bytes, uint64_t own,
                                 uint64_t patience_ns) {
    struct gm_cache *state = self->state;
    uint64_t ids[32];
    size_t released = 0;
    for (unsigned i = 0; i < gm_cache_shards_used() && released < bytes; i++) {
        unsigned count = list_contexts(&state->shards[i], device, ids, 32, 0);
        for (unsigned j = 0; j < count && released < bytes; j++) {
            uint64_t patience = ids[j] == own ? patience_ns : 0;
            size_t more = trim_idle(self, &state->shards[i], ids[j], bytes - released, patience);
            patience_ns = patience && !more ? 0 : patience_ns; /* of all shards together */
            released += more;
        }
    }
    return released;
}

size_t gm_cache_lend(struct gm_resource *self, size_t bytes) { return trim_idle_contexts(self, -1, bytes, 0, 0); }

size_t gm_cache_trim_for(struct gm_resource *self, const struct gm_request *request, size_t bytes,
                         enum gm_cache_trim_step step) {
    static const uint64_t patience_ns = 20000000;
    bool some = step == GM_CACHE_TRIM_SOME;
    if (gm_stats_knows(request->device) && !gm_device_could_have(bytes, gm_stats_live_of(gm_stats, request->device)))
        return 0;
    if (step == GM_CACHE_TRIM_WAIT)
        return gm_stack_trim(self, SIZE_MAX);
    return trim_idle_contexts(self, request->device, some ? bytes : SIZE_MAX, request->context_id,
                              some ? patience_ns : 0);
}

void gm_cache_empty(struct gm_resource *self, uint64_t context_id) {
    struct gm_cache *state = self->state;
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        gm_spin_lock(&shard->lock);
        struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
        if (lists)
            gm_free_lists_release_all(shard, lists);
        gm_spin_unlock(&shard->lock);
        gm_cache_drain(self, shard, context_id);
    }
}

/* Queries all fences of the context, so that a program that reads its free memory after a free sees the freed bytes.
 * The caller holds the lock; the function releases it for a time. */
static void query_fences(struct gm_shard *shard, uint64_t context_id) {
    struct gm_free_lists *lists = gm_capture_any() ? NULL : gm_free_lists_of(shard, context_id);
    bool destroyed = false;
    if (lists)
        query_all(shard, lists, &destroyed);
}

/* Releases all ready blocks of the current context, without waiting. */
static void release_all_ready(struct gm_resource *self, int device) {
    struct gm_cache *state = self->state;
    struct gm_context context;
    bool able = !gm_capture_any() && gm_context_current(&context) && context.device == device;
    for (unsigned i = 0; able && i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        if (!gm_cache_has_some(shard, device))
            continue;
        gm_spin_lock(&shard->lock);
        query_fences(shard, context.id);
        gm_spin_unlock(&shard->lock);
        release_from(self, shard, context.id, SIZE_MAX, all_bins, UINT64_MAX);
    }
}

/* Bytes that trim would release without waiting: ready blocks with pages of their own. */
static size_t count_ready(struct gm_resource *self, int device) {
    struct gm_cache *state = self->state;
    struct gm_context context;
    size_t bytes = 0;
    bool known = gm_context_current(&context);
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        if (!gm_cache_has_some(shard, device))
            continue;
        gm_spin_lock(&shard->lock);
        if (known)
            query_fences(shard, context.id);
        for (struct gm_free_lists *lists = shard->lists; lists; lists = lists->next)
            if (lists->device == device && !lists->destroyed)
                bytes += gm_free_lists_ready_from(lists, GM_BIN_LARGE);
        gm_spin_unlock(&shard->lock);
    }
    return bytes;
}

/* A pool releases memory in pieces of its own size, and managed memory may lie outside the device. For these kinds the
 * released bytes are known only after the release, so the cache releases them now. */
size_t gm_cache_releasable(struct gm_resource *self, int device) {
    bool must_give = gm_kind_traits(self->kind) & (GM_TRAIT_POOLED | GM_TRAIT_MANAGED);
    struct gm_releases releases;
    if (!must_give)
        return count_ready(self, device);
    gm_releases_begin(&releases, GM_REASON_TRIM_CALL);
    release_all_ready(self, device);
    gm_releases_end(&releases, false);
    return 0;
}

/* Blocks that wait for fences, and small ones, whose pages also hold other blocks. */
void gm_cache_held(struct gm_resource *self, int device, uint64_t bytes[GM_REASON_COUNT]) {
    struct gm_cache *state = self->state;
    bool own_pages = !(gm_kind_traits(self->kind) & GM_TRAIT_POOLED);
    for (unsigned i = 0; device >= 0 && device < GM_CACHE_DEVICES && i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        size_t ready = 0, large = 0;
        if (!gm_cache_has_some(shard, device))
            continue;
        gm_spin_lock(&shard->lock);
        for (struct gm_free_lists *lists = shard->lists; lists; lists = lists->next)
            if (lists->device == device && !lists->destroyed) {
                ready += gm_free_lists_ready_from(lists, 0);
                large += gm_free_lists_ready_from(lists, GM_BIN_LARGE);
            }
        size_t all = shard->shares[device].bytes;
        gm_spin_unlock(&shard->lock);
        bytes[GM_REASON_FENCE] += all > ready ? all - ready : 0;
        bytes[GM_REASON_PARTLY_USED] += own_pages ? ready - large : 0;
    }
}
