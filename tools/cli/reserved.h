/* Bytes that the process of a trace has taken from its devices, as gm_stats_take (shim/base/stats.h) counts them: kept
 * blocks included. All totals are of kinds on devices. A trace of a gpumem that did not record kept blocks shows none.
 */
#ifndef GM_RESERVED_H
#define GM_RESERVED_H

#include "policy/policy.h"
#include "shim/trace/event.h"
#include "tools/cli/live_blocks.h"

#define GM_RESERVED_DEVICES 64

struct gm_reserved {
    uint64_t bytes, kept; /* of all kinds on devices */
    uint64_t blocks_of[GM_KIND_COUNT], kept_of[GM_KIND_COUNT];
    uint64_t pool_of[GM_KIND_COUNT][GM_RESERVED_DEVICES]; /* of gpumem's pools */
    bool has_pool[GM_KIND_COUNT];                         /* the trace states its size */
};

/* Memory of a handle, or of a part of it that is not mapped. */
void gm_reserved_add(struct gm_reserved *reserved, int kind, uint64_t bytes);
/* A handle of memory that the program maps itself; its kept memory is that of kind mapped. */
void gm_reserved_handle_created(struct gm_reserved *reserved, const struct gm_live_block *handle);
void gm_reserved_handle_destroyed(struct gm_reserved *reserved, const struct gm_live_block *handle,
                                  const struct gm_event *event);
void gm_reserved_created(struct gm_reserved *reserved, const struct gm_live_block *block);
/* `event` destroyed the block; NULL: another block took its place. */
void gm_reserved_destroyed(struct gm_reserved *reserved, const struct gm_live_block *block,
                           const struct gm_event *event);
/* GM_ACT_TRIM and GM_ACT_POOL_SIZE. Returns the bytes that went back to the driver. */
uint64_t gm_reserved_trimmed(struct gm_reserved *reserved, const struct gm_event *event);
/* GM_ACT_KEPT. */
void gm_reserved_kept(struct gm_reserved *reserved, const struct gm_event *event);
uint64_t gm_reserved_pool_size(struct gm_reserved *reserved, const struct gm_event *event);

#endif
