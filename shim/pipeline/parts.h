/* What the source files of the pipeline share. calls.c: allocation and free. direct.c: blocks that a cache keeps
 * between two lives. fast.h: the fast case of both. guard.h: which requests are guarded. events.c: the events of the
 * trace. counts.h: counters. contexts.c: what all resources learn, of contexts for example, and the stacks of the
 * program. */
#ifndef GM_PIPELINE_PARTS_H
#define GM_PIPELINE_PARTS_H

#include "shim/pipeline/pipeline.h"
#include "shim/pipeline/sample.h"
#include "shim/trace/recorded.h"

GM_INTERNAL extern struct gm_pipeline_setup gm_pipeline;

/* The policy learns that a block ended that it decided about. */
GM_APART void gm_notify_policy(const struct gm_block *block);
static inline void gm_notify_freed(const struct gm_block *block) {
    if (block->counted && gm_pipeline.policy->freed)
        gm_notify_policy(block);
}

/* Fills in what the owner of the block learns of its free. Synchronises where the call is cuMemFree; an error of that
 * is the error of the free. A native free synchronises by itself. */
static inline gm_status gm_begin_owners_free(struct gm_scope *scope, struct gm_free_request *how) {
    *how = (struct gm_free_request){.call = scope->request.call,
                                    .stream = scope->request.stream,
                                    .per_thread = scope->request.per_thread,
                                    .kept = &scope->kept,
                                    .site = scope->request.site};
    bool must = GM_LIKELY(how->call == GM_CALL_FREE) && gm_pipeline.synchronise &&
                scope->block.kind != GM_KIND_NATIVE && scope->block.call != GM_CALL_ALLOC_ASYNC;
    return must ? gm_pipeline.synchronise(&scope->block, &how->settled) : GM_OK;
}

/* The child counts requests from zero, as its trace does. */
void gm_numbers_after_fork(void);

/* ---- direct.c */

/* Serves kind cache, with the records of its blocks (gm_resource_ops.take and put). NULL: the blocks of that kind go
 * through the ops alloc and free, for example because adaptors wrap the router. */
GM_INTERNAL extern struct gm_resource *gm_direct;
void gm_direct_setup(void);
/* A free block that can serve the request, with its claimed record; NULL: there is none. The first function only looks
 * where it nearly always is. */
struct gm_block_record *gm_direct_take_newest(const struct gm_request *request);
struct gm_block_record *gm_direct_take(struct gm_request *request);
/* A free block serves the request: its claimed record lives again, and the call is recorded. `counted`: the policy has
 * decided, and wants to know of the free. */
void gm_direct_reuse(struct gm_scope *scope, struct gm_block_record *record, const struct gm_decision *decision,
                     bool counted);
/* Claims the live block of gm_direct that starts at `address`, as gm_pipeline_free_begin does for others. False: there
 * is none. */
bool gm_direct_claim(struct gm_scope *scope, uint64_t address);
/* Frees that block, with the synchronisation that the call promises. */
gm_status gm_direct_free(struct gm_scope *scope);

/* ---- contexts.c */

/* The devices that have a context: read before a block is allocated. */
GM_INTERNAL uint64_t gm_devices_open(void);
/* The block is in the registry. Opens it to the devices that are not in `before`: gm_pipeline_open_to may not have seen
 * it. */
GM_INTERNAL void gm_open_to_new(const struct gm_block *block, uint64_t before);

/* ---- events.c */

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
