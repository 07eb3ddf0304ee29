/* The fast case of a pair of cudaMalloc and cudaFree: the first lines of the hooks. A free block of the thread's own
 * free lists serves the allocation, and the free puts it back, with the record in its place. Nobody else is asked, as
 * long as gm_observers says that nobody wants to be. Everything else goes through gm_pipeline_alloc and
 * gm_pipeline_free. */
#ifndef GM_PIPELINE_FAST_H
#define GM_PIPELINE_FAST_H

#include "shim/cache/fast.h"
#include "shim/pipeline/counts.h"
#include "shim/driver/driver.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/in_flight.h"

/* The thread's free lists are known, and no hook runs in it. */
static inline bool gm_fast_may(void) {
    return GM_LIKELY(gm_mine.shard != NULL) && GM_LIKELY(gm_mine.depth == 0) && !gm_stats_watched();
}

/* Serves an allocation in the current context, and counts the call. False: nothing was done. */
static inline bool gm_fast_alloc(size_t size, uint64_t *address) {
    uint64_t context_id = gm_context_same_id(gm_mine.context);
    struct gm_block_record *record = gm_cache_take_newest(gm_mine.shard, context_id, size);
    if (GM_UNLIKELY(!record))
        return false;
    struct gm_stats_shard *counts = gm_mine.counts;
    *address = gm_record_tagged(record);
    gm_count_reused(counts, record, *address, size, true); /* gm_fast_begin saw the context */
    return true;
}

/* Frees the live block that starts at `address`, and counts the call. False: the block is live. */
static inline bool gm_fast_free(uint64_t address, enum gm_free_fast fast) {
    struct gm_block_record *record = gm_registry_look(gm_registry_known, address);
    if (GM_UNLIKELY(!record))
        return false;
    struct gm_stats_shard *counts = gm_mine.counts;
    size_t size, reserved = record->block.reserved; /* the same in all lives of the block, as is the device */
    if (!gm_stats_defers(counts, record->block.device))
        return false;
    if (GM_UNLIKELY(!gm_cache_put_newest(gm_mine.shard, record, gm_free_fast_begin(fast), address, &size)))
        return false;
    gm_count_kept(counts, address, size, reserved);
    return true;
}

/* After a call that took the whole way: the thread's next call may take the fast one, unless calls are observed. */
GM_INTERNAL void gm_fast_begin(void);
/* After the setup of the pipeline. `coverage`: calls are counted by symbol. */
GM_INTERNAL void gm_fast_open(bool coverage);

#endif
