/* The short path: pairs of allocation and free whose record stays in the registry (pipeline.h). */
#include "shim/base/limit.h"
#include "shim/cache/cache.h"
#include "shim/core/counts.h"
#include "shim/core/freed.h"
#include "shim/core/parts.h"
#include "shim/core/site.h"
#include "shim/placement/router.h"
#include "shim/resource/rows.h"
#include "shim/trace/summary.h"

bool gm_pipeline_short;
struct gm_resource *gm_short_keeper;

#ifdef GM_HAVE_CUDA
/* ---- allocation from a kept block whose record stays in place */

/* The event of a call that took the short path. `decision` is that of an allocation. The caller owns `block`. */
static GM_IN_PLACE void write_short(const struct gm_block *block, const struct gm_decision *decision, uint64_t sequence,
                                    uint64_t begin, uint32_t site) {
    enum gm_action action = decision ? GM_ACT_ALLOC : GM_ACT_FREE;
    size_t size = block->size;
    uint64_t now = gm_ticks(), spent_ns, time_ns = gm_ticks_to_times(begin ? begin : now, now, &spent_ns);
    gm_stats_count(&gm_mine.counts->time_ns, spent_ns);
    if (GM_UNLIKELY(gm_summary_on()) && gm_sum_up_event(begin, action, block, spent_ns))
        return;
    struct gm_event otherwise, *event = gm_trace_place(sequence, &otherwise);
    *event = (struct gm_event){
        .seq = sequence,
        .time_ns = time_ns,
        .address = block->address,
        .bytes = size,
        .slack = gm_saturate(block->reserved - size),
        .duration_ns = gm_saturate(spent_ns),
        .site = site,
        .context = block->context_number,
        .device = (int8_t)block->device,
        .call = decision ? GM_CALL_ALLOC : GM_CALL_FREE,
        .action = (uint8_t)action,
        .kind = block->kind,
        .reason = (uint8_t)(decision ? decision->reason : GM_REASON_NONE),
        .verdict = (uint8_t)(decision ? decision->verdict : (enum gm_kind)block->kind),
        .hit = decision != NULL,
        .flags = decision ? 0 : GM_EVENT_KEPT,
    };
    gm_trace_placed(event, &otherwise);
}

/* The number of the event; 0: none is to be written. */
static GM_IN_PLACE uint64_t record_reused(struct gm_registered *record) {
    uint32_t word;
    while (gm_trace_allocates() && (word = gm_record_word(&record->block.recorded))) {
        uint64_t sequence = gm_trace_sequence();
        if (GM_LIKELY(gm_is_recorded(word)))
            return sequence;
    }
    return 0;
}

/* Where call sites are known: the record gets that of its new block. */
static GM_APART void write_reused(struct gm_registered *record, const struct gm_decision *decision, uint64_t begin,
                                  uint32_t site) {
    __atomic_store_n(&record->block.site, site, __ATOMIC_RELAXED);
    __atomic_store_n(&record->block.hit, 1, __ATOMIC_RELAXED);
    uint64_t sequence = record_reused(record);
    if (!sequence)
        return;
    write_short(&record->block, decision, sequence, begin, site);
}

static GM_RARE void count_reused(size_t size, size_t reserved) {
    const struct gm_block block = {
        .size = size, .reserved = reserved, .call = GM_CALL_ALLOC, .kind = (uint8_t)GM_KIND_CACHE, .hit = 1};
    gm_count_created(&block);
}

static inline void note_reused(struct gm_stats_shard *shard, uint64_t address) {
    gm_count_one(&shard->allocs[GM_KIND_CACHE]);
    gm_count_one(&shard->hits[GM_KIND_CACHE]);
    gm_mine.newest = address;
}

/* A kept block serves a request. The thread has a shard of counters. */
static inline uint64_t end_reuse(struct gm_registered *record, size_t size, const struct gm_decision *decision,
                                 uint64_t begin, uint32_t site) {
    struct gm_stats_shard *shard = gm_mine.counts;
    uint64_t address = gm_registered_word(record), reserved = record->block.reserved;
    note_reused(shard, address);
    if (GM_UNLIKELY(gm_sites_are_on()))
        write_reused(record, decision, begin, site);
    if (!gm_stats_took_late(shard, size, reserved)) {
        gm_stats_uncached(GM_KIND_CACHE, reserved);
        count_reused(size, reserved);
    }
    return address;
}

bool gm_short_reuse(struct gm_scope *scope, const struct gm_decision *decision) {
    const struct gm_request *request = &scope->request;
    if (decision->kind != GM_KIND_CACHE || request->call != GM_CALL_ALLOC || !gm_pipeline_is_short() ||
        GM_UNLIKELY(!gm_mine.counts))
        return false;
    struct gm_registered *record =
        gm_cache_serve(gm_short_keeper, request, decision, gm_pipeline.policy->freed != NULL);
    if (!record)
        return false;
    scope->block.address = end_reuse(record, request->size, decision, scope->begin, request->site);
    return true;
}

/* ---- pairs */

static void stop_keeping(void) {
    __atomic_store_n(&gm_pipeline_short, false, __ATOMIC_RELAXED);
    gm_cache_stop_keeping(gm_short_keeper);
}

void gm_pipeline_shorten(void) {
    struct gm_resource *cache = gm_router_server(GM_KIND_CACHE);
    struct gm_registry *registry = gm_registry_shared();
    bool may = gm_pipeline.root && gm_pipeline.root->ops == &gm_resource_router && !gm_pipeline_timed &&
               !gm_limit_on() && !gm_pipeline.wants && !gm_pipeline.grows && !gm_pipeline.handed_over;
    if (!may || !registry || !gm_cache_may_keep(cache, !gm_trace_is_on() && !gm_sites_are_on()))
        return;
    gm_short_keeper = cache;
    /* Opened first: another user of the registry may call stop_keeping at once. */
    __atomic_store_n(&gm_pipeline_short, true, __ATOMIC_RELAXED);
    if (!gm_registry_keep_records(registry, stop_keeping))
        __atomic_store_n(&gm_pipeline_short, false, __ATOMIC_RELAXED);
}

/* The free of a record that stays in place, under a trace or where call sites are known. */
struct noted_free {
    uint64_t begin;
    uint32_t recorded; /* the word that said that the trace holds the block; 0: the free is not recorded */
};

static GM_APART void write_kept(const struct gm_block *block, uint64_t sequence, const struct noted_free *noted,
                                uint32_t site) {
    gm_freed_note(block, site);
    if (!sequence)
        return;
    if (GM_LIKELY(gm_is_recorded(noted->recorded)))
        write_short(block, NULL, sequence, noted->begin, site);
    gm_count_written_free(gm_mine.counts);
}

static inline void note_kept(struct gm_stats_shard *shard, uint64_t address) {
    gm_count_one(&shard->frees[GM_KIND_CACHE]);
    if (gm_mine.newest == address) {
        gm_count_one(&shard->temporary);
        gm_mine.newest = 0;
    }
}

bool gm_pipeline_reuse_ready(size_t size, uint64_t *address) {
    uint64_t reused;
    if (GM_UNLIKELY(!gm_cache_reuse_ready(size, &reused)))
        return false;
    struct gm_stats_shard *shard = gm_mine.counts;
    gm_count_one(&shard->entries[gm_mine.entry_way]);
    note_reused(shard, reused);
    *address = reused;
    return true;
}

bool gm_pipeline_keep_plainly(uint64_t address) {
    if (GM_UNLIKELY(!gm_cache_keep_plainly(address)))
        return false;
    struct gm_stats_shard *shard = gm_mine.counts;
    gm_count_one(&shard->entries[gm_mine.entry_way]);
    note_kept(shard, address);
    return true;
}

uint64_t gm_pipeline_reuse(size_t size, uintptr_t caller, uintptr_t frame) {
    struct gm_stats_shard *shard = gm_mine.counts;
    uint64_t begin = GM_UNLIKELY(gm_trace_is_on()) ? gm_ticks() : 0;
    struct gm_decision decision;
    struct gm_registered *record = shard ? gm_cache_reuse(gm_short_keeper, size, &decision) : NULL;
    if (!record)
        return 0;
    uint32_t site = GM_UNLIKELY(gm_sites_are_on()) ? gm_site_find(caller, frame) : 0;
    return end_reuse(record, size, &decision, begin, site);
}

/* The free failed: the program still has the block, and its record is gone. */
static GM_RARE void keep_failed(const struct gm_block *block, uint64_t sequence, uint64_t begin, uint32_t site,
                                gm_status status) {
    struct gm_scope scope;
    gm_scope_begin_at(&scope, GM_CALL_FREE, 0, site, begin);
    scope.sequence = sequence;
    scope.block = *block;
    scope.known = true;
    gm_pipeline_free_end(&scope, GM_ACT_FREE, block->address, status);
}

/* The free of a claimed record is recorded, and the block itself before it. */
static GM_RARE uint32_t record_older(struct gm_registered *record, uint64_t address) {
    uint32_t word = gm_record_word(&record->block.recorded);
    if (!word)
        return __atomic_load_n(&record->block.recorded, __ATOMIC_ACQUIRE);
    struct gm_block block;
    gm_registered_copy(record, address, &block);
    gm_write_live_now(&block);
    return word;
}

/* Returns the word that says that the trace holds the block; it does not hold the record's next block. 0: the free is
 * not recorded. */
static GM_IN_PLACE uint32_t record_claimed(struct gm_registered *record, uint64_t address) {
    uint32_t word = __atomic_load_n(&record->block.recorded, __ATOMIC_ACQUIRE);
    if (GM_UNLIKELY(!gm_is_recorded(word))) {
        bool older = gm_trace_allocates();
        word = older ? record_older(record, address) : __atomic_load_n(&record->block.recorded, __ATOMIC_ACQUIRE);
        if (!older && !gm_is_recorded(word)) /* a walk may have come and gone since the first look */
            return 0;
    }
    __atomic_store_n(&record->block.recorded, gm_unrecorded_after(word), __ATOMIC_RELEASE);
    gm_stats_count(&gm_mine.counts->frees_begun, 1);
    return word;
}

static GM_APART uint64_t note_free(struct noted_free *noted, struct gm_registered *record, uint64_t address) {
    gm_mine.plain = NULL;
    *noted = (struct noted_free){0};
    if (!gm_trace_is_on())
        return 0;
    noted->begin = gm_ticks();
    noted->recorded = record_claimed(record, address);
    return noted->recorded;
}

static GM_RARE void free_otherwise(const struct noted_free *noted, struct gm_stats_shard *shard,
                                   struct gm_registered *record) {
    if (!noted->recorded)
        return;
    __atomic_store_n(&record->block.recorded, noted->recorded, __ATOMIC_RELEASE);
    gm_count_written_free(shard);
}

static GM_RARE void free_failed(const struct noted_free *noted, struct gm_block *block, uint64_t sequence,
                                gm_status status) {
    if (noted && noted->recorded)
        block->recorded = noted->recorded;
    keep_failed(block, sequence, noted ? noted->begin : 0, 0, status);
}

/* Call sites are known before a trace begins. Whether they are is checked after the record was claimed: see
 * shim/trace/recorded.h. */
bool gm_pipeline_keep(uint64_t address, gm_status *status, uintptr_t caller, uintptr_t frame) {
    struct gm_stats_shard *shard = gm_mine.counts;
    struct gm_registered *record = shard ? gm_cache_claim(gm_registry_shared(), address) : NULL;
    struct noted_free noted;
    struct gm_block block;
    if (GM_UNLIKELY(!record))
        return false;
    size_t size = record->block.size, reserved = record->block.reserved;
    bool counted = record->block.counted && gm_pipeline.policy->freed, notes = gm_sites_are_on();
    uint64_t sequence = GM_UNLIKELY(notes) ? note_free(&noted, record, address) : 0;
    if (GM_UNLIKELY(counted || notes))
        gm_registered_copy(record, address, &block);
    if (GM_UNLIKELY(!gm_cache_keep(gm_short_keeper, record, &block, &sequence, status))) {
        if (notes)
            free_otherwise(&noted, shard, record);
        gm_registered_revive(record, address);
        return false;
    }
    if (GM_UNLIKELY(*status)) {
        free_failed(notes ? &noted : NULL, &block, sequence, *status);
        return true;
    }
    note_kept(shard, address);
    gm_stats_freed_late(shard, size, reserved);
    gm_stats_bound_late(shard);
    if (GM_UNLIKELY(counted))
        gm_notify_policy(&block);
    if (GM_UNLIKELY(notes))
        write_kept(&block, sequence, &noted, sequence ? gm_site_find(caller, frame) : 0);
    return true;
}
#endif

void gm_pipeline_plain_again(void) {
#ifdef GM_HAVE_CUDA
    if (gm_short_keeper && !gm_trace_is_on() && !gm_sites_are_on())
        gm_cache_set_plain(gm_short_keeper, true);
#endif
}

void gm_pipeline_no_plain(void) {
#ifdef GM_HAVE_CUDA
    if (gm_short_keeper)
        gm_cache_set_plain(gm_short_keeper, false);
#endif
}
