/* Bytes that the process of a trace has taken from its devices, as gm_stats_take (shim/accounts/stats.h) counts them:
 * kept blocks included. All totals are of kinds on devices. A trace of a gpumem that did not record kept blocks shows
 * none.
 */
#ifndef GM_RESERVED_H
#define GM_RESERVED_H

#include "policy/policy.h"
#include "shim/trace/event.h"
#include "tools/cli/live_blocks.h"

#define GM_DEVICES 64 /* ordinals above count with those below, and unknown ones as device 0 */

static inline unsigned gm_device_index(int device) { return device < 0 ? 0 : (unsigned)device % GM_DEVICES; }

struct gm_reserved_device {
    uint64_t bytes, kept;                                                              /* of all kinds on devices */
    uint64_t blocks_of[GM_KIND_COUNT], kept_of[GM_KIND_COUNT], pool_of[GM_KIND_COUNT]; /* pool: of gpumem */
    bool has_pool[GM_KIND_COUNT];                                                      /* the trace states its size */
};

struct gm_reserved {
    uint64_t bytes, kept; /* of all devices */
    /* The last one: kept blocks whose device is unknown. */
    struct gm_reserved_device on[GM_DEVICES + 1];
};

/* Memory of a handle, or of a part of it that is not mapped. */
void gm_reserved_add(struct gm_reserved *reserved, unsigned device, int kind, uint64_t bytes);
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
