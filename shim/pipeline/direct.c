/* Blocks of the cache whose records stay in the registry: gm_direct keeps them between two lives. */
#include "shim/pipeline/counts.h"
#include "shim/explain/explain.h"
#include "shim/explain/freed.h"
#include "shim/pipeline/parts.h"
#include "shim/sites/site.h"
#include "shim/placement/router.h"
#include "shim/resource/rows.h"

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
    gm_count_reused(gm_stats_mine(), address, scope->request.size, record->block.reserved);
    gm_spend(scope);
    if (scope->sequence)
        gm_write_event(scope, GM_ACT_ALLOC, &record->block, GM_OK, decision->reason, decision->verdict);
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

gm_status gm_direct_free(struct gm_scope *scope) {
    const struct gm_block *block = &scope->block;
    struct gm_free_request how;
    gm_status status = gm_begin_owners_free(scope, &how);
    if (GM_UNLIKELY(status)) {
        gm_registry_remove(gm_registry_shared(), scope->record);
        return status;
    }
    __atomic_store_n(&scope->record->block.counted, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&scope->record->block.direct, !block->pinned_native, __ATOMIC_RELAXED);
    return gm_direct->ops->put(gm_direct, scope->record, &how);
}
