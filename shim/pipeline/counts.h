/* The pipeline counts a block when it begins to live and when it ends, in accounts/stats.h, and tells the policy of the
 * end. It numbers requests for policies that want that. */
#ifndef GM_COUNTS_H
#define GM_COUNTS_H

#include "shim/accounts/limit.h"
#include "shim/pipeline/parts.h"

/* A counter of the thread's own shard. */
static inline void gm_count_one(uint64_t *counter) { gm_stats_count(counter, 1); }

/* A block for which the device, or GPUMEM_LIMIT, had no room. */
static inline bool gm_block_is_displaced(const struct gm_block *block) {
    return GM_UNLIKELY(block->reason == GM_REASON_OUT_OF_MEMORY);
}

/* A displaced block begins or ends to live. True: its parts are counted instead of it. */
GM_RARE bool gm_count_displaced(const struct gm_block *block);
GM_RARE bool gm_count_displaced_gone(const struct gm_block *block, bool kept);
GM_RARE void gm_count_reused_now(int device, size_t size, size_t reserved);

/* The policy learns that a block ended that it decided about. */
GM_APART void gm_notify_policy(const struct gm_block *block);
static inline void gm_notify_freed(const struct gm_block *block) {
    if (block->counted && gm_pipeline.policy->freed)
        gm_notify_policy(block);
}

/* Numbers the request and says from where it comes. A request without a context fails and appears in no trace; it comes
 * again after the runtime created a context. A replay sets thread and number itself. */
GM_INTERNAL GM_APART void gm_request_identify(struct gm_request *request);
/* The child counts requests from zero, as its trace does. */
GM_INTERNAL void gm_numbers_after_fork(void);

/* ---- device memory of the program's virtual memory management: its bytes are reserved from the creation of the handle
 * on, and live while they are mapped. What gpumem keeps of it counts as kept memory of kind mapped: from the event that
 * took the program's last hold on the memory until the creation of the handle that reuses it. */

GM_RARE void gm_count_handle_created(const struct gm_block *block);
GM_RARE void gm_count_handle_destroyed(const struct gm_block *block, bool kept);
/* The mapping is gone. True: its handle still holds the memory. */
bool gm_count_returned_to_handle(const struct gm_block *mapping);

/* ---- all blocks */

static inline bool gm_block_is_program_managed(const struct gm_block *block) {
    return block->call == GM_CALL_ALLOC_MANAGED && gm_pipeline.program_managed;
}

/* The pool counts its memory as a whole. */
static inline bool gm_block_is_in_pool(const struct gm_block *block) {
    return gm_kind_traits(block->kind) & GM_TRAIT_POOLED;
}

static inline bool gm_block_is_reused(const struct gm_block *block) {
    return block->hit && block->call != GM_CALL_VMM_MAP;
}

static GM_IN_PLACE void gm_count_created(const struct gm_block *block) {
    struct gm_stats *stats = gm_stats;
    struct gm_stats_shard *mine = gm_stats_mine();
    if (GM_UNLIKELY(mine->deferred_bytes))
        gm_stats_settle_deferred(mine);

    if (GM_UNLIKELY(!gm_block_is_memory(block))) {
        if (gm_block_is_handle(block))
            gm_count_handle_created(block);
        return;
    }
    if (gm_block_is_displaced(block) && gm_count_displaced(block))
        return;
    if (GM_UNLIKELY(gm_block_is_program_managed(block)))
        gm_pipeline.program_managed((int64_t)block->size);
    gm_stats_raise(&stats->peak_bytes[block->kind],
                   __atomic_add_fetch(&stats->live_bytes[block->kind], block->size, __ATOMIC_RELAXED));
    if (gm_kind_is_on_device(block->kind)) {
        gm_stats_live_more(block->device, block->size);
        gm_stats_raise(&stats->peak_total, gm_stats_live_on_devices(stats));
    }
    if (block->reserved > block->size && gm_kind_is_on_device(block->kind))
        __atomic_add_fetch(&stats->slack_bytes[block->kind], block->reserved - block->size, __ATOMIC_RELAXED);
    if (gm_block_is_reused(block))
        return;
    if (!gm_block_is_in_pool(block))
        gm_stats_take(block->kind, block->device, block->reserved);
    if (GM_UNLIKELY(__atomic_load_n(&stats->peak_reserved, __ATOMIC_RELAXED) >=
                    __atomic_load_n(&gm_pipeline_sample_from, __ATOMIC_RELAXED)))
        gm_sample(block->context, block->device, GM_MOMENT_GROWN);
}

/* A free block of the cache serves an allocation. `counts`: of this thread. `defers`: it defers bytes of this device.
 */
static inline void gm_count_reused(struct gm_stats_shard *counts, const struct gm_block_record *record,
                                   uint64_t address, size_t size, bool defers) {
    size_t reserved = record->block.reserved;
    gm_count_one(&counts->allocs[GM_KIND_CACHE]);
    gm_count_one(&counts->hits[GM_KIND_CACHE]);
    gm_mine.newest = address;
    if (GM_UNLIKELY(!defers || !gm_stats_reuse_deferred(counts, size, reserved)))
        gm_count_reused_now(record->block.device, size, reserved);
}

/* The cache keeps a freed block of the device whose bytes the thread defers. */
static inline void gm_count_kept(struct gm_stats_shard *counts, uint64_t address, size_t size, size_t reserved) {
    gm_count_one(&counts->frees[GM_KIND_CACHE]);
    if (gm_mine.newest == address) {
        gm_count_one(&counts->temporary);
        gm_mine.newest = 0; /* the next block at this address may belong to another thread */
    }
    gm_stats_defer_free(counts, size, reserved);
}

/* `kept`: gpumem keeps the block for reuse. */
static inline void gm_count_destroyed(const struct gm_block *block, bool kept) {
    struct gm_stats *stats = gm_stats;

    if (GM_UNLIKELY(!gm_block_is_memory(block))) {
        if (gm_block_is_handle(block))
            gm_count_handle_destroyed(block, kept);
        return;
    }
    if (gm_block_is_displaced(block) && gm_count_displaced_gone(block, kept))
        return;
    if (GM_UNLIKELY(gm_block_is_program_managed(block)))
        gm_pipeline.program_managed(-(int64_t)block->size);
    __atomic_sub_fetch(&stats->live_bytes[block->kind], block->size, __ATOMIC_RELAXED);
    if (gm_kind_is_on_device(block->kind))
        gm_stats_live_less(block->device, block->size);
    bool held = GM_UNLIKELY(block->call == GM_CALL_VMM_MAP) && gm_count_returned_to_handle(block);
    if (GM_UNLIKELY(block->charged) && !held)
        gm_limit_give(block->device, block->reserved);
    if (block->reserved > block->size && gm_kind_is_on_device(block->kind))
        __atomic_sub_fetch(&stats->slack_bytes[block->kind], block->reserved - block->size, __ATOMIC_RELAXED);
    if (!kept && !gm_block_is_in_pool(block))
        gm_stats_give(block->kind, block->device, block->reserved);
    if (held)
        gm_stats_take(GM_KIND_VMM, block->device, block->size);
}

#endif
