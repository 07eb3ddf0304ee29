/* What a cache gives back: by native frees, which wait for the whole context. */
#include "shim/base/stats.h"
#include "shim/cache/parts.h"

#include "shim/resource/adaptor.h"
#include "shim/resource/block.h"
#include "shim/driver/internal_stream.h"

enum {
    VICTIMS = 16,
    BUSY_IDLES = 4, /* how much longer idle blocks stay where giving them back means a wait */
};

#define LARGE ((size_t)2 << 20) /* from here on a block has pages of its own, which really come back */

gm_status gm_cache_free_upstream(struct gm_resource *self, const struct gm_block *block,
                                 const struct gm_free_request *how) {
    gm_status status = gm_adaptor_free(self, block, how);
    if (!status && block->device >= 0 && block->device < GM_CACHE_DEVICES)
        gm_cache_count_gone(self->state, block->device, block->reserved);
    return status;
}

/* Native frees wait by themselves, which disturbs no capture. Those of a pool need a fence, which would, unless the
 * block is idle. */
static bool waits_itself(const struct gm_resource *self) { return self->upstream->properties & GM_PROP_CAPTURABLE; }

/* Frees what a lists pending_release; its context is made current. What cannot be freed now stays pending_release. */
size_t gm_cache_drain(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id) {
    struct gm_free_request how = {.call = GM_CALL_FREE};
    struct gm_pending_release victims[VICTIMS];
    size_t given = 0;
    bool pushed, failed = false;
    while (!failed) {
        gm_spin_lock(&shard->lock);
        struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
        unsigned count = lists ? gm_free_lists_pop_release(shard, lists, victims, VICTIMS) : 0;
        struct gm_block block = {.call = GM_CALL_ALLOC, .kind = (uint8_t)self->kind, .context_id = context_id};
        if (count) {
            block.context = lists->context;
            block.device = (int16_t)lists->device;
        }
        gm_spin_unlock(&shard->lock);
        if (!count)
            break;
        CUstreamCaptureMode mode = gm_capture_relax();
        /* Held, or else another thread could end the context and these would be new blocks' addresses. */
        int hold = gm_context_hold((CUcontext)(uintptr_t)block.context, context_id);
        failed = hold < 0 || gm_context_enter((CUcontext)(uintptr_t)block.context, &pushed) != GM_OK;
        bool inside = !failed;
        unsigned freed = 0;
        for (; freed < count && !failed; freed += !failed) {
            block.address = victims[freed].address;
            block.size = block.reserved = victims[freed].size;
            how.idle = victims[freed].idle;
            bool may = how.idle || waits_itself(self) || !gm_capture_any();
            failed = !may || gm_cache_free_upstream(self, &block, &how) != GM_OK;
            given += failed ? 0 : block.reserved;
        }
        if (inside)
            gm_context_leave(pushed);
        if (hold >= 0)
            gm_context_let_go(hold);
        gm_capture_unrelax(mode);
        gm_spin_lock(&shard->lock);
        lists = gm_free_lists_of(shard, context_id);
        for (; lists && freed < count; freed++)
            gm_free_lists_queue_release(shard, lists, &victims[freed]);
        gm_spin_unlock(&shard->lock);
    }
    gm_stats_trimmed(given);
    return given;
}

/* ---- what was unused longest */

/* Asks about the fences of a lists, oldest first, until one is pending. */
static void ask_recorded(struct gm_shard *shard, struct gm_free_lists *lists, bool *gone) {
    for (unsigned asked = lists->recorded_count; asked && !*gone && lists->first; asked--)
        if (gm_cache_settle(shard, lists, lists->first, false, gone))
            break;
}

/* The same, with a fence for the open batch: its thread may be gone and never fill it. */
static void ask_all(struct gm_shard *shard, struct gm_free_lists *lists, bool *gone) {
    struct gm_batch *batch;
    if (!lists->aside && lists->open)
        gm_cache_record(shard, lists, NULL, &batch, gone);
    if (!*gone)
        ask_recorded(shard, lists, gone);
}

/* The shard whose ready block of the context, of about `least` bytes or more, is unused longest; NULL: none is ready.
 * *until: the stamp of the longest unused one of the other shards. */
static struct gm_shard *longest_unused(struct gm_cache *state, uint64_t context_id, int device, size_t least,
                                       uint64_t *until) {
    struct gm_shard *found = NULL;
    uint64_t oldest = UINT64_MAX;
    *until = UINT64_MAX;
    for (unsigned i = 0; i < gm_cache_shards_used(); i++) {
        struct gm_shard *shard = &state->shards[i];
        if (!gm_cache_has_some(shard, device))
            continue;
        gm_spin_lock(&shard->lock);
        const struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
        uint64_t stamp = lists ? gm_free_lists_oldest(lists, least) : UINT64_MAX;
        gm_spin_unlock(&shard->lock);
        *until = stamp < oldest ? oldest : stamp < *until ? stamp : *until;
        if (stamp < oldest) {
            oldest = stamp;
            found = shard;
        }
    }
    return found;
}

/* Gives back about `bytes` of the context's ready blocks, those unused longest, from one shard, whose threads may be
 * gone. Returns bytes; 0: nothing is ready. */
static size_t give_oldest_back(struct gm_resource *self, uint64_t context_id, int device, size_t bytes) {
    struct gm_cache *state = self->state;
    size_t least = bytes / 16;
    uint64_t until;
    struct gm_shard *shard = longest_unused(state, context_id, device, least, &until);
    if (!shard)
        shard = longest_unused(state, context_id, device, least = 0, &until);
    if (!shard)
        return 0;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    if (lists)
        gm_free_lists_release_oldest(lists, bytes, least, until);
    gm_spin_unlock(&shard->lock);
    return gm_cache_drain(self, shard, context_id);
}

/* Asks about the fences of all shards: nobody else does it for threads that are gone. */
static void ask_everywhere(struct gm_cache *state, uint64_t context_id, int device) {
    for (unsigned i = 0; i < gm_cache_shards_used(); i++) {
        struct gm_shard *shard = &state->shards[i];
        bool gone = false;
        if (!gm_cache_has_some(shard, device))
            continue;
        gm_spin_lock(&shard->lock);
        struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
        if (lists)
            ask_recorded(shard, lists, &gone);
        gm_spin_unlock(&shard->lock);
    }
}

/* ---- inside a free */

/* The limit is reached. False: there is no room for the block still. */
static bool make_room(struct gm_resource *self, const struct gm_block *block) {
    struct gm_cache *state = self->state;
    size_t missing = gm_cache_gather(state, block->device, block->reserved);
    if (missing && block->reserved > gm_cache_limit(state, block->device))
        return false;
    if (missing)
        ask_everywhere(state, block->context_id, block->device);
    /* What other threads take meanwhile is not given back once more. */
    for (size_t given = 0, back = 1; missing && back && given < block->reserved; given += back) {
        back = give_oldest_back(self, block->context_id, block->device, missing);
        missing = gm_cache_gather(state, block->device, block->reserved);
    }
    return !missing;
}

struct gm_free_lists *gm_cache_make_room(struct gm_resource *self, struct gm_shard *shard,
                                         const struct gm_block *block) {
    struct gm_cache *state = self->state;
    struct gm_cache_device *at = &state->devices[block->device];
    if (!__atomic_load_n(&at->limit, __ATOMIC_RELAXED)) {
        gm_spin_unlock(&shard->lock);
        gm_cache_limit(state, block->device);
        gm_spin_lock(&shard->lock);
    }
    if (__atomic_load_n(&at->tight, __ATOMIC_RELAXED)) {
        gm_spin_unlock(&shard->lock);
        ask_everywhere(state, block->context_id, block->device);
        while (give_oldest_back(self, block->context_id, block->device, SIZE_MAX))
            ;
        gm_spin_lock(&shard->lock);
        return NULL;
    }
    struct gm_free_lists *lists = gm_free_lists_make(shard, block->context, block->context_id, block->device);
    if (!lists || lists->aside)
        return NULL;
    if (gm_cache_allow(state, shard, block->device, block->reserved))
        return lists;
    gm_spin_unlock(&shard->lock);
    bool room = make_room(self, block);
    gm_spin_lock(&shard->lock);
    lists = gm_free_lists_of(shard, block->context_id);
    if (!room || !lists || lists->aside || !gm_cache_allow(state, shard, block->device, block->reserved))
        return NULL;
    return lists;
}

static bool sweep_is_due(const struct gm_cache *state, const struct gm_free_lists *lists, uint64_t now) {
    return state->idle_ns && now > lists->swept && gm_ticks_span_ns(now - lists->swept) > state->idle_ns / 4;
}

/* Is there anything for tidy to do? */
bool gm_cache_untidy(const struct gm_cache *state, const struct gm_free_lists *lists, const struct gm_batch *latest) {
    return lists->first != latest || lists->pending_release.count || gm_cache_excess(state, lists->device) ||
           sweep_is_due(state, lists, latest ? latest->stamp : gm_ticks());
}

/* Has the context done everything that was submitted to it? Only then does a native free not wait. */
static bool is_quiet(struct gm_shard *shard, struct gm_free_lists *lists, struct gm_batch *latest, bool *gone) {
    return !latest || latest->state != GM_BATCH_RECORDED || gm_cache_settle(shard, lists, latest, false, gone) == GM_OK;
}

/* What a closed batch is a good moment for, one of its context's frees being under way: older fences, bounds, idle
 * blocks. No batch: that free has waited for the context. */
void gm_cache_tidy(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id, struct gm_batch *latest) {
    struct gm_cache *state = self->state;
    uint64_t now = gm_ticks(), idle_ns = state->idle_ns;
    size_t over = 0;
    int device = -1;
    bool gone = false, sweep = false, give = false;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    if (lists && lists->first && lists->first != latest)
        gm_cache_settle(shard, lists, lists->first, false, &gone);
    if (lists && !gone) {
        device = lists->device;
        over = gm_cache_excess(state, device);
        sweep = sweep_is_due(state, lists, now);
        if (sweep)
            lists->swept = now;
        bool must = lists->aside || gm_cache_overfull(state, lists->device);
        bool quiet = !must && (over || sweep || lists->pending_release.count) && is_quiet(shard, lists, latest, &gone);
        give = (must || quiet) && !gone;
        if (!quiet)
            idle_ns *= BUSY_IDLES;
    }
    gm_spin_unlock(&shard->lock);
    if (give)
        gm_cache_drain(self, shard, context_id);
    if (give && over)
        ask_everywhere(state, context_id, device);
    for (size_t most = over, given = 0, back = 1; give && over && back && given < most; given += back) {
        back = give_oldest_back(self, context_id, device, over);
        over = gm_cache_excess(state, device);
    }
    for (unsigned i = 0; sweep && !gone && i < gm_cache_shards_used(); i++) {
        gm_spin_lock(&state->shards[i].lock);
        lists = gm_free_lists_of(&state->shards[i], context_id);
        if (lists)
            ask_all(&state->shards[i], lists, &gone);
        if (gone)
            lists = NULL;
        size_t before = lists ? lists->pending_release.count : 0;
        if (lists)
            gm_free_lists_release_idle(lists, now, idle_ns);
        bool found = lists && lists->pending_release.count != before;
        gm_spin_unlock(&state->shards[i].lock);
        if (found)
            gm_cache_drain(self, &state->shards[i], context_id);
    }
}

/* ---- when memory is wanted elsewhere */

/* Shelves of a device (-1: any), a few at a time from *from on. */
static unsigned list_shelves(struct gm_shard *shard, int device, uint64_t *ids, unsigned room, unsigned from) {
    unsigned count = 0, seen = 0;
    gm_spin_lock(&shard->lock);
    for (struct gm_free_lists *lists = shard->lists; lists && count < room; lists = lists->next)
        if ((device < 0 || lists->device == device) && !lists->gone && lists->share->bytes && seen++ >= from)
            ids[count++] = lists->context_id;
    gm_spin_unlock(&shard->lock);
    return count;
}

/* Gives one lists's blocks back: the ready ones, or (`pending`) all after waiting for their fences. */
static size_t trim_lists(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id, size_t bytes,
                         bool pending) {
    bool gone = false;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    for (unsigned i = 0; lists && pending && lists->first && !gone && i < 4 * GM_CACHE_FENCES; i++)
        if (gm_cache_settle(shard, lists, lists->first, true, &gone))
            break;
    bool all = pending && (waits_itself(self) || !gm_capture_any());
    if (lists && !gone && gm_free_lists_release_ready(lists, bytes) < bytes && all)
        gm_free_lists_release_all(shard, lists);
    gm_spin_unlock(&shard->lock);
    return gm_cache_drain(self, shard, context_id);
}

size_t gm_cache_trim(struct gm_resource *self, size_t bytes) {
    struct gm_cache *state = self->state;
    struct gm_context context;
    uint64_t ids[32];
    size_t given = 0;
    gm_capture_recheck();
    int device = gm_drv.ctx_get_current && gm_context_current(&context) ? context.device : -1;
    for (int pending = 0; pending < 2; pending++)
        for (unsigned i = 0; i < GM_CACHE_SHARDS && given < bytes; i++) {
            unsigned count = list_shelves(&state->shards[i], device, ids, 32, 0);
            for (unsigned j = 0; j < count && given < bytes; j++)
                given += trim_lists(self, &state->shards[i], ids[j], bytes - given, pending);
        }
    return given < bytes ? given + gm_adaptor_trim(self, bytes - given) : given;
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
    gm_adaptor_context_ending(self, context_id);
}

/* Asks about all fences of the context, so that a program that looks after a free sees it. The lock is held, and let go
 * meanwhile. */
static void ask_fences(struct gm_shard *shard, uint64_t context_id) {
    struct gm_free_lists *lists = gm_capture_any() ? NULL : gm_free_lists_of(shard, context_id);
    bool gone = false;
    if (lists)
        ask_all(shard, lists, &gone);
}

/* Free memory that is only kept: what is complete and has pages of its own. */
/* Takes up to `room` ready blocks of the context out. */
static unsigned take_ready(struct gm_shard *shard, uint64_t context_id, struct gm_pending_release *out, unsigned room) {
    unsigned count = 0;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    for (unsigned i = 0; lists && i < GM_SIZE_BUCKETS && count < room; i++)
        for (struct gm_link *ages = &lists->ready[i].ages; ages->next != ages && count < room; count++) {
            struct gm_size_class *class = gm_free_block_of_age(ages->next)->class;
            out[count].size = class->size;
            out[count].idle = true;
            out[count].address = gm_free_lists_take(shard, lists, class);
        }
    gm_spin_unlock(&shard->lock);
    return count;
}

static bool give_idle(struct gm_resource *self, struct gm_shard *shard, const struct gm_context *context,
                      const struct gm_pending_release *freed) {
    static const struct gm_free_request how = {.call = GM_CALL_FREE, .idle = true};
    const struct gm_block block = {.address = freed->address,
                                   .size = freed->size,
                                   .reserved = freed->size,
                                   .context = (uint64_t)(uintptr_t)context->handle,
                                   .context_id = context->id,
                                   .device = (int16_t)context->device,
                                   .call = GM_CALL_ALLOC,
                                   .kind = (uint8_t)self->kind};
    if (gm_cache_free_upstream(self, &block, &how) == GM_OK)
        return true;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context->id);
    if (lists)
        gm_free_lists_queue_release(shard, lists, freed);
    gm_spin_unlock(&shard->lock);
    return false;
}

/* Frees what nobody uses any more, without waiting. */
static size_t give_ready_back(struct gm_resource *self, int device) {
    struct gm_cache *state = self->state;
    struct gm_pending_release ready[VICTIMS];
    struct gm_context context;
    bool able = !gm_capture_any() && gm_context_current(&context) && context.device == device;
    for (unsigned i = 0; able && i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        if (!gm_cache_has_some(shard, device))
            continue;
        gm_spin_lock(&shard->lock);
        ask_fences(shard, context.id);
        gm_spin_unlock(&shard->lock);
        for (unsigned count = VICTIMS; able && count == VICTIMS;) {
            count = take_ready(shard, context.id, ready, VICTIMS);
            for (unsigned j = 0; j < count; j++)
                able &= give_idle(self, shard, &context, &ready[j]);
        }
    }
    return gm_adaptor_releasable(self, device);
}

static size_t count_ready(struct gm_resource *self, int device) {
    struct gm_cache *state = self->state;
    struct gm_context context;
    size_t bytes = gm_adaptor_releasable(self, device);
    bool known = gm_context_current(&context);
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        if (!gm_cache_has_some(shard, device))
            continue;
        gm_spin_lock(&shard->lock);
        if (known)
            ask_fences(shard, context.id);
        for (struct gm_free_lists *lists = shard->lists; lists; lists = lists->next)
            if (lists->device == device && !lists->gone)
                bytes += gm_free_lists_ready_from(lists, LARGE);
        gm_spin_unlock(&shard->lock);
    }
    return bytes;
}

/* A pool gives memory back in pieces of its own size, and managed memory need not lie on the device: how much of these
 * a program could have back is known only once it is given back. */
size_t gm_cache_releasable(struct gm_resource *self, int device) {
    bool must_give = gm_kind_traits(self->kind) & (GM_TRAIT_POOLED | GM_TRAIT_MANAGED);
    return must_give ? give_ready_back(self, device) : count_ready(self, device);
}
