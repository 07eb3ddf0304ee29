/* The events of the trace: of calls, of blocks that are older than the trace. */
#ifndef GM_PIPELINE_EVENTS_H
#define GM_PIPELINE_EVENTS_H

#include "shim/pipeline/parts.h"

static inline uint32_t gm_saturate(uint64_t value) { return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value; }

GM_APART void gm_end_recorded(struct gm_scope *scope, enum gm_action action, const struct gm_block *block,
                              gm_status status, enum gm_reason reason, enum gm_kind verdict);
/* Ends the time measurement of the scope, if that has not ended, and writes its event, if that has a number. */
static inline void gm_end_call(struct gm_scope *scope, enum gm_action action, const struct gm_block *block,
                               gm_status status, enum gm_reason reason, enum gm_kind verdict) {
    if (GM_UNLIKELY(scope->begin || scope->sequence))
        gm_end_recorded(scope, action, block, status, reason, verdict);
}
/* The block ended without a call of the program. `number`: of the event. */
GM_RARE void gm_write_release(const struct gm_block *block, uint64_t number, enum gm_reason reason);
/* Writes an event for the soft promises that the block's memory does not keep. It explains a later error of the
 * driver. */
void gm_write_drops(struct gm_scope *scope);

/* The event of a block that is older than the trace, or than the end of its pause; with a number of its own. */
void gm_write_live(const struct gm_block *block);
/* The action of the event with which the block begins. */
enum gm_action gm_action_of(const struct gm_block *block);
GM_RARE void gm_write_live_now(struct gm_block *block);
/* Numbers the event of a free. `recorded`: the word that said that the trace holds the block. */
static inline void gm_number_free(struct gm_scope *scope, uint32_t recorded) {
    struct gm_stats_shard *shard = gm_stats_mine();
    gm_stats_count(&shard->frees_begun, 1);
    scope->sequence = gm_trace_sequence();
    if (GM_UNLIKELY(scope->known && !gm_is_recorded(recorded))) { /* the next trace does not hold the block */
        scope->sequence = 0;
        gm_stats_count(&shard->frees_written, 1);
    }
}
/* A block was added to the registry while the trace, or the next one, began. Returns the number of its event; 0:
 * another thread wrote it. */
GM_RARE uint64_t gm_number_missed_event(const struct gm_block *block);
/* The event of a free follows the free, which may take long, but its number is taken before. Whoever reads this count
 * and ends the trace finds the event in the thread's chunk. */
static inline void gm_count_written_free(struct gm_stats_shard *shard) {
    __atomic_thread_fence(__ATOMIC_RELEASE);
    gm_stats_count(&shard->frees_written, 1);
}

#endif
