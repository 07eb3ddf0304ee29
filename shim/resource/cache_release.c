/* What a cache gives back: by native frees, which wait for the whole context. */
#include "shim/base/stats.h"
#include "shim/resource/cache_parts.h"

#include "shim/resource/adaptor.h"
#include "shim/resource/block.h"
#include "shim/resource/cache.h"
#include "shim/resource/lane.h"

enum {
    VICTIMS = 16,
    BUSY_IDLES = 4, /* how much longer idle blocks stay where giving them back means a wait */
};

#define LARGE ((size_t)2 << 20) /* from here on a block has pages of its own, which really come back */

gm_status gm_cache_free_upstream(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    gm_status status = gm_adaptor_free(self, block, how);
    if (!status && block->device >= 0 && block->device < GM_CACHE_DEVICES)
        gm_cache_count_gone(self->state, block->device, block->reserved);
    return status;
}

/* Frees what a shelf condemned; its context is made current. What cannot be freed now stays condemned. */
size_t gm_cache_drain(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id) {
    static const struct gm_free_request how = {.call = GM_CALL_FREE};
    struct gm_kept victims[VICTIMS];
    CUstreamCaptureMode mode;
    size_t given = 0;
    bool pushed, failed = false;
    while (!failed) {
        gm_spin_lock(&shard->lock);
        struct gm_shelf *shelf = gm_shelf_of(shard, context_id);
        unsigned count = shelf ? gm_shelf_pop_condemned(shard, shelf, victims, VICTIMS) : 0;
        struct gm_block block = {.call = GM_CALL_ALLOC, .kind = GM_KIND_CACHE, .context_id = context_id};
        if (count) {
            block.context = shelf->context;
            block.device = (int16_t)shelf->device;
        }
        gm_spin_unlock(&shard->lock);
        if (!count)
            break;
        failed = !gm_capture_guard_enter(&mode);
        bool inside = !failed;
        if (inside && gm_lane_enter((CUcontext)(uintptr_t)block.context, &pushed))
            failed = true, pushed = false;
        unsigned freed = 0;
        for (; freed < count && !failed; freed += !failed) {
            block.address = victims[freed].address;
            block.size = block.reserved = victims[freed].size;
            failed = gm_cache_free_upstream(self, &block, &how) != GM_OK;
            given += failed ? 0 : block.reserved;
        }
        if (inside) {
            gm_lane_leave(pushed);
            gm_capture_guard_leave(mode);
        }
        gm_spin_lock(&shard->lock);
        shelf = gm_shelf_of(shard, context_id);
        for (; shelf && freed < count; freed++)
            gm_shelf_condemn(shard, shelf, victims[freed].address, victims[freed].size);
        gm_spin_unlock(&shard->lock);
    }
    gm_stats_trimmed(given);
    return given;
}

/* ---- inside a free */

/* The shelf of a freed block, with room made by giving back what was unused longest; NULL: it is not to be kept. */
struct gm_shelf *gm_cache_make_room(struct gm_resource *self, struct gm_shard *shard, const struct gm_block *block) {
    struct gm_cache *state = self->state;
    struct gm_shelf *shelf = gm_shelf_make(shard, block->context, block->context_id, block->device);
    uint64_t share = gm_cache_limit(state, block->device) / gm_cache_shards_used();
    bool tight = __atomic_load_n(&state->devices[block->device].tight, __ATOMIC_RELAXED);
    if (shelf && tight)
        gm_shelf_condemn_ready(shelf, SIZE_MAX);
    if (!shelf || tight || shelf->aside)
        return NULL;
    if (gm_cache_may_keep(state, shard, shelf, block->device, block->reserved))
        return shelf;
    if (block->reserved > share || !gm_shelf_condemn_ready(shelf, shard->bytes + block->reserved - share))
        return NULL;
    gm_spin_unlock(&shard->lock);
    gm_cache_drain(self, shard, block->context_id);
    gm_spin_lock(&shard->lock);
    shelf = gm_shelf_of(shard, block->context_id);
    return shelf && shard->bytes + block->reserved <= share ? shelf : NULL;
}

static bool sweep_is_due(const struct gm_cache *state, const struct gm_shelf *shelf, uint64_t now) {
    return state->idle_ns && now > shelf->swept && gm_ticks_span_ns(now - shelf->swept) > state->idle_ns / 4;
}

/* Is there anything for tidy to do? */
bool gm_cache_untidy(const struct gm_cache *state, const struct gm_shelf *shelf, const struct gm_batch *latest) {
    return shelf->first != latest || shelf->condemned || gm_cache_excess(state, shelf->device) ||
           sweep_is_due(state, shelf, latest->stamp);
}

/* Has the context done everything that was submitted to it? Only then does a native free not wait. */
static bool is_quiet(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_batch *latest, bool *gone) {
    return latest->state != GM_BATCH_RECORDED || gm_cache_settle(shard, shelf, latest, false, gone) == GM_OK;
}

/* What a closed batch is a good moment for, one of its context's frees being under way: older fences, bounds, idle blocks. */
void gm_cache_tidy(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id, struct gm_batch *latest) {
    struct gm_cache *state = self->state;
    uint64_t now = gm_ticks(), idle_ns = state->idle_ns;
    bool gone = false, sweep = false, give = false;
    gm_spin_lock(&shard->lock);
    struct gm_shelf *shelf = gm_shelf_of(shard, context_id);
    if (shelf && shelf->first && shelf->first != latest)
        gm_cache_settle(shard, shelf, shelf->first, false, &gone);
    if (shelf && !gone) {
        size_t over = gm_cache_excess(state, shelf->device);
        sweep = sweep_is_due(state, shelf, now);
        if (sweep)
            shelf->swept = now;
        bool must = shelf->aside || gm_cache_overfull(state, shelf->device);
        bool quiet = !must && (over || sweep || shelf->condemned) && is_quiet(shard, shelf, latest, &gone);
        give = (must || quiet) && !gone;
        if (give && over)
            gm_shelf_condemn_ready(shelf, over);
        if (!quiet)
            idle_ns *= BUSY_IDLES;
    }
    gm_spin_unlock(&shard->lock);
    if (give)
        gm_cache_drain(self, shard, context_id);
    for (unsigned i = 0; sweep && !gone && i < gm_cache_shards_used(); i++) {
        gm_spin_lock(&state->shards[i].lock);
        shelf = gm_shelf_of(&state->shards[i], context_id);
        const struct gm_kept *before = shelf ? shelf->condemned : NULL;
        if (shelf)
            gm_shelf_condemn_idle(shelf, now, idle_ns);
        bool found = shelf && shelf->condemned != before;
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
    for (struct gm_shelf *shelf = shard->shelves; shelf && count < room; shelf = shelf->next)
        if ((device < 0 || shelf->device == device) && !shelf->gone && shelf->bytes && seen++ >= from)
            ids[count++] = shelf->context_id;
    gm_spin_unlock(&shard->lock);
    return count;
}

/* Gives one shelf's blocks back: the ready ones, or (`pending`) all after waiting for their fences. */
static size_t trim_shelf(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id, size_t bytes, bool pending) {
    bool gone = false;
    gm_spin_lock(&shard->lock);
    struct gm_shelf *shelf = gm_shelf_of(shard, context_id);
    for (unsigned i = 0; shelf && pending && shelf->first && !gone && i < 4 * GM_CACHE_FENCES; i++)
        if (gm_cache_settle(shard, shelf, shelf->first, true, &gone))
            break;
    if (shelf && !gone && pending && gm_shelf_condemn_ready(shelf, bytes) < bytes)
        gm_shelf_condemn_all(shelf);
    else if (shelf && !gone)
        gm_shelf_condemn_ready(shelf, bytes);
    gm_spin_unlock(&shard->lock);
    return gm_cache_drain(self, shard, context_id);
}

size_t gm_cache_trim(struct gm_resource *self, size_t bytes) {
    struct gm_cache *state = self->state;
    struct gm_context context;
    uint64_t ids[32];
    size_t given = 0;
    if (gm_capture_any())
        return gm_adaptor_trim(self, bytes);
    int device = gm_drv.ctx_get_current && gm_context_current(&context) ? context.device : -1;
    for (int pending = 0; pending < 2; pending++)
        for (unsigned i = 0; i < GM_CACHE_SHARDS && given < bytes; i++) {
            unsigned count = list_shelves(&state->shards[i], device, ids, 32, 0);
            for (unsigned j = 0; j < count && given < bytes; j++)
                given += trim_shelf(self, &state->shards[i], ids[j], bytes - given, pending);
        }
    return given < bytes ? given + gm_adaptor_trim(self, bytes - given) : given;
}

size_t gm_cache_empty(struct gm_resource *cache, uint64_t context_id) {
    struct gm_cache *state = cache->state;
    size_t given = 0;
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        gm_spin_lock(&shard->lock);
        struct gm_shelf *shelf = gm_shelf_of(shard, context_id);
        if (shelf)
            gm_shelf_condemn_all(shelf);
        gm_spin_unlock(&shard->lock);
        given += gm_cache_drain(cache, shard, context_id);
    }
    return given;
}

/* Free memory that is only kept: what is complete and has pages of its own. Asks about all fences of the current context first, so
 * that a program that looks after a free sees it. */
size_t gm_cache_releasable(struct gm_resource *self, int device) {
    struct gm_cache *state = self->state;
    struct gm_context context;
    size_t bytes = gm_adaptor_releasable(self, device);
    bool known = gm_context_current(&context), gone;
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        if (!__atomic_load_n(&shard->bytes, __ATOMIC_RELAXED))
            continue;
        gm_spin_lock(&shard->lock);
        struct gm_shelf *shelf = known && !gm_capture_any() ? gm_shelf_of(shard, context.id) : NULL;
        struct gm_batch *batch;
        gone = false;
        if (shelf && !shelf->aside && shelf->open)
            gm_cache_record(shard, shelf, NULL, &batch, &gone);
        for (unsigned asked = shelf && !gone ? shelf->recorded_count : 0; asked && !gone && shelf->first; asked--)
            if (gm_cache_settle(shard, shelf, shelf->first, false, &gone))
                break;
        for (shelf = shard->shelves; shelf; shelf = shelf->next)
            if (shelf->device == device && !shelf->gone)
                bytes += gm_shelf_ready_from(shelf, LARGE);
        gm_spin_unlock(&shard->lock);
    }
    return bytes;
}
