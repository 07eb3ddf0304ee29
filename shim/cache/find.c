/* The search for a free block, in the order of attempts (gm_cache_find). cache.c says which block may serve. */
#include "shim/cache/cache.h"
#include "shim/cache/parts.h"

/* Free blocks that may serve a request: those of its class, and those of just its native size (parts.h). */
struct wanted {
    uint64_t context_id;
    int device;
    unsigned bins[2];
    struct bytes {
        size_t least, most;
    } bytes[2];
};

static struct wanted blocks_for(const struct gm_cache *state, const struct gm_request *request) {
    size_t native = gm_cache_native(state, request->size);
    struct wanted wanted = {.context_id = request->context_id, .device = request->device};
    wanted.bins[0] = gm_cache_bin(state, request->size);
    wanted.bins[1] = gm_bin_of_exact(native);
    wanted.bytes[0] = wanted.bytes[1] = (struct bytes){native, native};
    if (gm_bin_is_class(wanted.bins[0]))
        wanted.bytes[0].most = GM_CACHE_SHARES;
    return wanted;
}

static struct gm_block_record *take_ready(struct gm_free_lists *lists, const struct wanted *wanted) {
    bool class = gm_bin_is_class(wanted->bins[0]);
    struct gm_block_record *record = gm_free_lists_newest(lists, wanted->bins[0], class ? 0 : wanted->bytes[0].least);
    for (unsigned i = class; i < 2 && !record; i++)
        record = gm_free_lists_take(lists, wanted->bins[i], wanted->bytes[i].least, wanted->bytes[i].most);
    return record;
}

/* True when such blocks may be in batches. */
static bool some_pend(const struct gm_free_lists *lists, const struct wanted *wanted) {
    return lists->bins[wanted->bins[0]].pending || lists->bins[wanted->bins[1]].pending;
}

enum look {
    READY,
    QUERY /* also the fences that may be complete by now */
};

/* More than GM_CACHE_ROTATION bytes of the class wait. Returns the fence for which the thread waits then: the oldest
 * one, if the thread recorded it; 0: none. */
static uint64_t fence_to_wait_for(const struct gm_free_lists *lists, const struct wanted *wanted) {
    size_t pending = lists->bins[wanted->bins[0]].pending;
    bool many = pending && pending + wanted->bytes[0].least > GM_CACHE_ROTATION;
    const struct gm_batch *batch = many ? lists->first : NULL;
    bool own = batch && gm_timeline_is_own(lists->timeline, batch->ticket, gm_cache_this_thread());
    return own && !gm_capture_any() ? batch->ticket : 0;
}

/* Takes a ready block from one shard. While there is none, may query the fences of batches, oldest first, for which it
 * releases the lock. *fence (may be NULL): the one to wait for if no other block is found. */
static struct gm_block_record *take_from(struct gm_shard *shard, const struct wanted *wanted, enum look look,
                                         uint64_t *fence) {
    struct gm_block_record *record = NULL;
    bool destroyed = false;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, wanted->context_id);
    if (lists)
        gm_batches_complete(lists);
    bool usable = lists && !lists->disabled;
    if (usable)
        record = take_ready(lists, wanted);
    while (!record && usable && look >= QUERY && lists->first && some_pend(lists, wanted) && !gm_capture_any() &&
           gm_cache_settle(shard, lists, lists->first->ticket, GM_SETTLE_DUE, &destroyed) == GM_OK && !destroyed)
        record = take_ready(lists, wanted);
    if (fence)
        *fence = !record && usable && !destroyed && !lists->disabled ? fence_to_wait_for(lists, wanted) : 0;
    gm_spin_unlock(&shard->lock);
    return record;
}

/* Waits for a fence of this thread, then takes a ready block. */
static struct gm_block_record *take_after(struct gm_shard *shard, const struct wanted *wanted, uint64_t fence) {
    struct gm_block_record *record = NULL;
    bool destroyed = false;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, wanted->context_id);
    if (lists && !lists->disabled && gm_cache_settle(shard, lists, fence, GM_SETTLE_WAIT, &destroyed) == GM_OK &&
        !destroyed)
        record = take_ready(lists, wanted);
    gm_spin_unlock(&shard->lock);
    return record;
}

/* The same from each shard but the thread's own. */
static struct gm_block_record *take_from_others(struct gm_cache *state, const struct gm_shard *own,
                                                const struct wanted *wanted, enum look look) {
    struct gm_block_record *record = NULL;
    for (unsigned i = 0, used = gm_cache_shards_used(); i < used && !record; i++)
        if (&state->shards[i] != own && gm_cache_has_some(&state->shards[i], wanted->device))
            record = take_from(&state->shards[i], wanted, look, NULL);
    return record;
}

/* Closes the open batches that have blocks for the request, so that they get a fence: the one of this thread, and those
 * of threads that may have ended. Returns the timeline on which such blocks wait; NULL: there are none. *ticket: the
 * last one. */
static struct gm_fence_timeline *close_batches(struct gm_cache *state, const struct gm_shard *own,
                                               const struct wanted *wanted, uint64_t *ticket) {
    const uint64_t ended_ns = 1000000; /* a thread that runs closes its batch sooner */
    struct gm_fence_timeline *line = NULL;
    *ticket = 0;
    for (unsigned i = 0; i < gm_cache_shards_used(); i++) {
        struct gm_shard *shard = &state->shards[i];
        if (!gm_cache_has_some(shard, wanted->device))
            continue;
        gm_spin_lock(&shard->lock);
        struct gm_free_lists *lists = gm_free_lists_of(shard, wanted->context_id);
        if (lists && !lists->disabled && some_pend(lists, wanted)) {
            line = lists->timeline;
            if (gm_free_lists_has_open(lists) &&
                (shard == own || gm_ticks_span_ns(gm_ticks() - lists->open->began) > ended_ns))
                gm_batch_close(shard, lists);
            if (lists->first && lists->last->ticket > *ticket)
                *ticket = lists->last->ticket;
        }
        gm_spin_unlock(&shard->lock);
    }
    return line;
}

static bool may_look(struct gm_shard *shard, const struct wanted *wanted) {
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, wanted->context_id);
    bool may = !lists || gm_cache_may_look(lists);
    gm_spin_unlock(&shard->lock);
    return may;
}

static void looked(struct gm_shard *shard, const struct wanted *wanted, bool found) {
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, wanted->context_id);
    if (lists)
        gm_cache_looked(lists, found);
    gm_spin_unlock(&shard->lock);
}

/* A further block would exceed the target, and the driver takes longer for a block than an idle context takes to
 * complete a fence. So where a block that fits waits for its fence, this queries the fences for gm_cache_answer_ns.
 * While the driver keeps threads waiting, a new block would wait there, too. */
static struct gm_block_record *look_again(struct gm_cache *state, struct gm_shard *own, const struct wanted *wanted) {
    struct gm_block_record *record = NULL;
    struct gm_look look = {0};
    struct gm_visit visit = {0};
    struct gm_fence_timeline *line = gm_capture_any() ? NULL : close_batches(state, own, wanted, &visit.record);
    if (!line || !may_look(own, wanted))
        return NULL;
    for (uint64_t seen = 0, next; !record && gm_look_goes_on(&look, line, gm_cache_answer_ns()); seen = next) {
        visit.query = gm_timeline_next(line);
        if (gm_timeline_is_due(line, visit.query))
            gm_timeline_visit(line, &visit);
        next = gm_timeline_next(line);
        if (next != seen)
            record = take_from(own, wanted, READY, NULL);
        if (next != seen && !record)
            record = take_from_others(state, own, wanted, READY);
    }
    looked(own, wanted, record != NULL);
    return record;
}

/* A new block would. */
static bool exceeds_target(struct gm_cache *state, int device, size_t size) {
    struct gm_cache_budget budget = gm_cache_budget(state, device, gm_cache_sort_of(size), size);
    budget.room = 0; /* it is there for this block */
    return gm_cache_excess(budget) > 0;
}

struct gm_block_record *gm_cache_find(struct gm_resource *self, const struct gm_request *request) {
    struct gm_cache *state = self->state;
    struct gm_shard *own = gm_cache_my_shard(self);
    const struct wanted wanted = blocks_for(state, request);
    size_t native = wanted.bytes[0].least;
    uint64_t fence;
    struct gm_block_record *record = take_from(own, &wanted, QUERY, &fence);
    if (GM_LIKELY(record != NULL))
        return record;
    record = take_from_others(state, own, &wanted, QUERY);
    if (!record && native >= GM_CACHE_LOOK_FROM && exceeds_target(state, request->device, native))
        record = look_again(state, own, &wanted);
    return record || !fence ? record : take_after(own, &wanted, fence);
}

struct gm_block_record *gm_cache_find_larger(struct gm_resource *self, const struct gm_request *request) {
    struct gm_cache *state = self->state;
    size_t native = gm_cache_native(state, request->size);
    struct gm_block_record *record = NULL;
    for (unsigned i = 0, used = gm_cache_shards_used(); i < used && !record; i++) {
        struct gm_shard *shard = &state->shards[i];
        if (!gm_cache_has_some(shard, request->device))
            continue;
        gm_spin_lock(&shard->lock);
        struct gm_free_lists *lists = gm_free_lists_of(shard, request->context_id);
        if (lists && !lists->disabled)
            record = gm_free_lists_take_larger(lists, gm_bin_of_least(native), native);
        gm_spin_unlock(&shard->lock);
    }
    return record;
}

struct gm_block_record *gm_cache_find_exact(struct gm_resource *self, const struct gm_request *request) {
    struct gm_shard *own = gm_cache_my_shard(self);
    const unsigned bin = gm_bin_of_exact(request->size);
    const struct bytes bytes = {request->size, request->size};
    const struct wanted wanted = {request->context_id, request->device, {bin, bin}, {bytes, bytes}};
    struct gm_block_record *record = take_from(own, &wanted, QUERY, NULL);
    return record ? record : take_from_others(self->state, own, &wanted, QUERY);
}
