/* Blocks of the cache whose records stay in the registry: gm_direct keeps them between two lives. */
#include "shim/pipeline/counts.h"
#include "shim/explain/explain.h"
#include "shim/explain/freed.h"
#include "shim/pipeline/parts.h"
#include "shim/sites/site.h"
#include "shim/placement/router.h"
#include "shim/resource/rows.h"
#ifdef GM_HAVE_CUDA
#include "shim/cache/cache.h"
#include "shim/cache/fast.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/in_flight.h"
#endif

struct gm_resource *gm_direct;

/* Needs a policy that chooses kind cache (with an argument it may), blocks of that kind that are those of a cache, and
 * that nothing else looks at requests or frees before. */
void gm_direct_setup(void) {
    struct gm_resource *cache = gm_router_server(GM_KIND_CACHE);
    const struct gm_policy *policy = gm_pipeline.policy;
    bool may = (policy->reuse || policy->takes_argument) && gm_pipeline.root &&
               gm_pipeline.root->ops == &gm_resource_router && !gm_limit_on() && !gm_pipeline.grows &&
               !gm_pipeline.handed_over;
    gm_direct = may && cache && cache->ops->take && cache->kind == GM_KIND_CACHE ? cache : NULL;
}

/* ---- allocation */

#ifdef GM_HAVE_CUDA
static inline bool keeps_all(void) { return GM_LIKELY(!(gm_observers_now() & GM_OBSERVED_NO_HIT)); }
#endif

struct gm_block_record *gm_direct_take_newest(const struct gm_request *request) {
#ifdef GM_HAVE_CUDA
    if (keeps_all() && GM_LIKELY(request->call == GM_CALL_ALLOC))
        return gm_cache_take_newest(gm_cache_my_shard(gm_direct), request->context_id, request->size, false);
#endif
    return NULL;
}

struct gm_block_record *gm_direct_take(struct gm_request *request) {
    if (!gm_direct || request->call != GM_CALL_ALLOC)
        return NULL;
    request->looked = gm_direct;
    return gm_direct->ops->take(gm_direct, request);
}

/* The number of the event; 0: none is to be written. */
static uint64_t record_reused(struct gm_block_record *record) {
    uint32_t word;
    while (gm_trace_allocates() && (word = gm_record_word(&record->block.recorded))) {
        uint64_t sequence = gm_trace_sequence();
        if (GM_LIKELY(gm_is_recorded(word)))
            return sequence;
    }
    return 0;
}

void gm_direct_reuse(struct gm_scope *scope, struct gm_block_record *record, const struct gm_decision *decision,
                     bool counted) {
    uint64_t address = gm_record_address(record);
    __atomic_store_n(&record->block.size, scope->request.size, __ATOMIC_RELAXED);
    __atomic_store_n(&record->block.site, scope->request.site, __ATOMIC_RELAXED);
    __atomic_store_n(&record->block.counted, counted, __ATOMIC_RELAXED);
    __atomic_store_n(&record->block.direct, !counted, __ATOMIC_RELAXED);
    __atomic_store_n(&record->block.reason, 0, __ATOMIC_RELAXED);
    scope->block.address = address;
    scope->block.hit = 1;
    /* A trace that begins sees the block live, or this thread sees the trace. */
    __atomic_store_n(&record->block.address, address, __ATOMIC_SEQ_CST);
    scope->sequence = record_reused(record);
    struct gm_stats_shard *counts = gm_stats_mine();
    gm_count_reused(counts, record, address, scope->request.size, gm_stats_defers(counts, record->block.device));
    gm_end_call(scope, GM_ACT_ALLOC, &record->block, GM_OK, decision->reason, decision->verdict);
}

/* ---- free */

/* Numbers the event of the free, if there will be one. The record's next block is not recorded. */
static void record_claimed(struct gm_scope *scope, struct gm_block_record *record) {
    uint32_t *word = &record->block.recorded, seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if (GM_UNLIKELY(!gm_is_recorded(seen))) {
        uint32_t mine = gm_trace_allocates() ? gm_record_word(word) : 0;
        if (mine) /* older than the trace */
            gm_write_live_now(&scope->block);
        seen = mine ? mine : __atomic_load_n(word, __ATOMIC_ACQUIRE); /* a walk may have come since */
        if (!gm_is_recorded(seen))
            return;
    }
    scope->block.recorded = seen;
    __atomic_store_n(word, gm_unrecorded_after(seen), __ATOMIC_RELEASE);
    gm_number_free(scope, seen);
}

bool gm_direct_claim(struct gm_scope *scope, uint64_t address) {
    struct gm_block_record *record = gm_direct ? gm_registry_look(gm_registry_shared(), address) : NULL;
    if (!record || record->block.owner != gm_direct || !gm_record_claim(record, address))
        return false;
    scope->known = true;
    gm_record_read(record, &scope->block);
    scope->block.address = address;
    if (GM_UNLIKELY(gm_trace_is_on()))
        record_claimed(scope, record);
    scope->record = record;
    return true;
}

static GM_APART gm_status free_slowly(struct gm_scope *scope) {
    struct gm_free_request how;
    gm_status status = gm_begin_owners_free(scope, &how);
    if (GM_LIKELY(!status))
        return gm_direct->ops->put(gm_direct, scope->record, &how);
    gm_registry_remove(gm_registry_shared(), scope->record);
    return status;
}

gm_status gm_direct_free(struct gm_scope *scope) {
    struct gm_block_record *record = scope->record;
    __atomic_store_n(&record->block.counted, 0, __ATOMIC_RELAXED);
    /* Only such blocks are kept; the cache allocates others, too. */
    bool direct = scope->block.call == GM_CALL_ALLOC && !scope->block.pinned_native;
    __atomic_store_n(&record->block.direct, direct, __ATOMIC_RELAXED);
#ifdef GM_HAVE_CUDA
    enum gm_free_fast fast = gm_free_sync_fast_now();
    size_t size;
    if (GM_LIKELY(fast) && keeps_all() && GM_LIKELY(scope->request.call == GM_CALL_FREE)) {
        bool settled = gm_free_fast_begin(fast);
        scope->kept = gm_cache_put_newest(gm_cache_my_shard(gm_direct), record, settled, false, 0, &size);
        if (GM_LIKELY(scope->kept))
            return GM_OK;
    }
#endif
    return free_slowly(scope);
}
