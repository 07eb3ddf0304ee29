/* The fast case of a pair: no driver, no wait, and no lock but that of the thread's own free lists, which nearly always
 * is free. The call begins or ends the life of the block under the lock, if nobody observes calls. Where that is not so
 * nothing is changed, and the call takes the whole way (gm_pipeline_alloc, gm_pipeline_free). */
#ifndef GM_CACHE_FAST_H
#define GM_CACHE_FAST_H

#include "shim/base/observers.h"
#include "shim/cache/parts.h"

/* Takes the newest ready block of the request's bin, if it serves, and makes it live again with `size` bytes. */
static GM_IN_PLACE struct gm_block_record *gm_cache_take_newest(struct gm_shard *shard, uint64_t context_id,
                                                                size_t size) {
    struct gm_block_record *record = NULL;
    if (GM_UNLIKELY(size - 1 >= GM_CACHE_MOST_SIZE) || GM_UNLIKELY(!gm_spin_try(&shard->lock)))
        return NULL;
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    if (GM_LIKELY(lists != NULL) && GM_LIKELY(!gm_observers_now())) {
        unsigned bin = gm_cache_bin(shard->cache, size);
        /* All blocks of a class have its size. */
        size_t exact = GM_LIKELY(gm_bin_is_class(bin)) ? 0 : gm_cache_native(shard->cache, size);
        record = gm_free_lists_newest(lists, bin, exact);
    }
    if (GM_LIKELY(record != NULL)) {
        __atomic_store_n(&record->block.size, size, __ATOMIC_RELAXED);
        __atomic_store_n(&record->block.site, 0, __ATOMIC_RELAXED);
        gm_record_revive(record, gm_record_tagged(record) & ~GM_RECORD_HELD);
    }
    gm_spin_unlock(&shard->lock);
    return record;
}

/* Puts the live block at `address` into the open batch, if that needs no fence yet. `settled` (gm_free_request): makes
 * it ready instead, if no upkeep is due. *size: the bytes that the program requested. */
static GM_IN_PLACE bool gm_cache_put_newest(struct gm_shard *shard, struct gm_block_record *record, bool settled,
                                            uint64_t address, size_t *size) {
    size_t reserved = record->block.reserved;
    if (GM_UNLIKELY(record->block.owner != shard->owner) || GM_UNLIKELY(!gm_block_is_plain(&record->block)) ||
        GM_UNLIKELY(!gm_spin_try(&shard->lock)))
        return false;
    struct gm_free_lists *lists = gm_free_lists_of(shard, record->block.context_id);
    struct gm_batch *batch = GM_LIKELY(lists != NULL) ? lists->open : NULL; /* none: the lists are disabled */
    bool kept = GM_LIKELY(batch != NULL) && GM_LIKELY(!gm_observers_now()) &&
                GM_LIKELY((settled ? lists->settled : batch->count) < shard->most) &&
                GM_LIKELY((settled ? lists->settled_bytes : batch->bytes) + reserved < shard->most_bytes) &&
                gm_cache_has_room(lists, reserved) && GM_LIKELY(gm_record_claim(record, address));
    if (GM_LIKELY(kept)) {
        *size = record->block.size;
        if (settled)
            gm_free_lists_put_ready(lists, record);
        else
            gm_free_lists_put(shard, lists, batch, record);
    }
    gm_spin_unlock(&shard->lock);
    return kept;
}

#endif
