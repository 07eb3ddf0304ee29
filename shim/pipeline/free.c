/* Free: who owns the block, its way out, counters and event. pipeline.h describes the steps. */
#include "shim/pipeline/pipeline.h"

#include "shim/explain/explain.h"
#include "shim/explain/freed.h"
#include "shim/pipeline/counts.h"
#include "shim/pipeline/events.h"
#include "shim/pipeline/guard.h"
#include "shim/pipeline/parts.h"
#include "shim/resource/guard_ranges.h"
#include "shim/sites/site.h"

/* Fills in what the owner of the block learns of its free. Synchronises where the call is cuMemFree; an error of that
 * is the error of the free. A native free synchronises by itself. */
static gm_status begin_owners_free(struct gm_scope *scope, struct gm_free_request *how) {
    *how = (struct gm_free_request){.call = scope->request.call,
                                    .stream = scope->request.stream,
                                    .per_thread = scope->request.per_thread,
                                    .kept = &scope->kept,
                                    .site = scope->request.site};
    bool must = GM_LIKELY(how->call == GM_CALL_FREE) && gm_pipeline.synchronise &&
                scope->block.kind != GM_KIND_NATIVE && scope->block.call != GM_CALL_ALLOC_ASYNC;
    return must ? gm_pipeline.synchronise(&scope->block, &how->settled) : GM_OK;
}

static gm_status free_by_owner(struct gm_scope *scope) {
    struct gm_free_request how;
    gm_status status = begin_owners_free(scope, &how);
    return GM_UNLIKELY(status) ? status : gm_resource_free(scope->block.owner, &scope->block, &how);
}

/* ---- blocks of gm_keeper, whose records stay in the registry */

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

/* Claims the keeper's live block that starts at `address`. False: there is none. */
static bool claim(struct gm_scope *scope, uint64_t address) {
    struct gm_block_record *record = gm_keeper ? gm_registry_look(gm_registry_shared(), address) : NULL;
    if (!record || record->block.owner != gm_keeper || !gm_record_claim(record, address))
        return false;
    scope->known = true;
    gm_record_read(record, &scope->block);
    scope->block.address = address;
    if (GM_UNLIKELY(gm_trace_is_on()))
        record_claimed(scope, record);
    scope->record = record;
    return true;
}

static bool is_handed_over(const struct gm_scope *scope, uint64_t key) {
    return GM_UNLIKELY(gm_pipeline.handed_over != NULL) && scope->request.call == GM_CALL_FREE &&
           gm_pipeline.handed_over(key, scope->known ? &scope->block : NULL);
}

/* Frees the block that this thread has claimed, with the synchronisation that the call promises. */
static gm_status put(struct gm_scope *scope, uint64_t key) {
    struct gm_free_request how;
    bool gone = is_handed_over(scope, key);
    gm_status status = gone ? GM_OK : begin_owners_free(scope, &how);
    __atomic_store_n(&scope->record->block.counted, 0, __ATOMIC_RELAXED);
    if (GM_LIKELY(!status && !gone))
        return gm_keeper->ops->put(gm_keeper, scope->record, &how);
    gm_registry_remove(gm_registry_shared(), scope->record);
    return status;
}

/* ---- other blocks */

void gm_pipeline_free_begin(struct gm_scope *scope, uint64_t key) {
    struct gm_registry *registry = gm_registry_shared();
    scope->known = registry && gm_registry_take(registry, key, &scope->block);
    if (GM_UNLIKELY(gm_trace_is_on()))
        gm_pipeline_record_free(scope);
}

static bool is_device_free(enum gm_call call) { return call == GM_CALL_FREE || call == GM_CALL_FREE_ASYNC; }

/* A free of a block that gm_keeper does not serve. */
static GM_APART gm_status free_other(struct gm_scope *scope, uint64_t key, gm_native_free *native) {
    gm_pipeline_free_begin(scope, key);
    if (is_handed_over(scope, key))
        return GM_OK;
    if (GM_LIKELY(scope->known && scope->block.owner))
        return free_by_owner(scope);
    if (!scope->known && is_device_free(scope->request.call) && gm_pipeline_is_free(key))
        return GM_INVALID_VALUE;
    return native(scope, key);
}

/* A wrong free: of a block that another call frees, or of none, which takes call sites to tell. */
static GM_RARE void refused(const struct gm_scope *scope, uint64_t key) {
    bool of_device = is_device_free(scope->request.call);
    bool explains = gm_guard_covers(key) || gm_sites_are_on() || (scope->known && gm_guard_is_on());
    if (!explains || (!of_device && scope->request.call != GM_CALL_FREE_HOST))
        return;
    if (gm_guard_is_on() || gm_guard_covers(key))
        __atomic_add_fetch(&gm_stats->guard_errors, 1, __ATOMIC_RELAXED);
    if (scope->known)
        gm_explain_wrong_call(&scope->request, &scope->block);
    else
        gm_explain_wrong_free(&scope->request, key);
}

static GM_APART void failed_or_unknown(struct gm_scope *scope, uint64_t key, gm_status status) {
    struct gm_stats_shard *shard = gm_stats_mine();
    struct gm_block previous;
    if (!scope->known) {
        scope->block = (struct gm_block){.address = key, .device = (int16_t)scope->request.device};
        gm_count_one(&shard->unknown_frees);
    }
    if (status == GM_OK)
        return;
    gm_count_one(&shard->failed_frees);
    if (status == GM_INVALID_VALUE)
        refused(scope, key);
    if (!scope->known)
        return;
    gm_registry_add(gm_registry_shared(), &scope->block, &previous);
    if (GM_UNLIKELY(gm_trace_allocates()) && !gm_is_recorded(scope->block.recorded)) {
        scope->block.sequence = gm_number_missed_event(&scope->block);
        if (scope->block.sequence)
            gm_write_live(&scope->block);
    }
}

/* A thread without a shard of its own defers nothing, any other one frees of its device. */
static GM_IN_PLACE void count_freed(struct gm_scope *scope) {
    struct gm_stats_shard *counts = gm_stats_mine();
    const struct gm_block *block = &scope->block;
    bool by_cache = scope->record && scope->kept;
    bool deferred = by_cache && GM_LIKELY(!block->charged) && GM_LIKELY(counts == gm_mine.counts);
    if (deferred && gm_stats_defers(counts, block->device)) {
        gm_count_kept(counts, block->address, block->size, block->reserved);
        gm_stats_bound_deferred(counts);
        return;
    }
    if (GM_LIKELY(gm_block_is_memory(block)))
        gm_count_one(&counts->frees[block->kind]);
    if (gm_mine.newest == block->address) {
        gm_count_one(&counts->temporary);
        gm_mine.newest = 0;
    }
    if (by_cache)
        gm_stats_cached(GM_KIND_CACHE, block->reserved);
    gm_count_destroyed(block, scope->kept);
}

static GM_IN_PLACE void end_free(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_status status) {
    struct gm_block *block = &scope->block;

    if (GM_UNLIKELY(!scope->known || status != GM_OK)) {
        failed_or_unknown(scope, key, status);
        if (status != GM_OK)
            action = GM_ACT_FREE_FAIL;
    } else {
        count_freed(scope);
        gm_notify_freed(block);
        if (GM_UNLIKELY(gm_sites_are_on() || block->kind == GM_KIND_GUARD))
            gm_freed_note(block, scope->request.site);
    }
    if (gm_guard_is_on())
        gm_guard_look();
    if (scope->known)
        scope->request.device = block->device;
    gm_end_call(scope, action, block, status, GM_REASON_NONE, block->kind);
    if (scope->sequence)
        gm_count_written_free(gm_stats_mine());
}

void gm_pipeline_free_end(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_status status) {
    end_free(scope, action, key, status);
}

gm_status gm_pipeline_free(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_native_free *native) {
    gm_status status = GM_LIKELY(claim(scope, key)) ? put(scope, key) : free_other(scope, key, native);
    end_free(scope, action, key, status);
    return status;
}
