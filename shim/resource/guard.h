/* Resource "guard": what its users set, and what it tells them. The blocks are in guard_ranges.h. */
#ifndef GM_RESOURCE_GUARD_H
#define GM_RESOURCE_GUARD_H

#include "shim/resource/guard_ranges.h"

/* Blocks start at the beginning of their mapping, where an access before them faults, and not at its end. Set it before
 * the first request. */
GM_INTERNAL extern bool gm_guard_at_begin;
/* Unmaps the blocks that were freed in stream order and that their streams have reached. Does not wait. */
GM_INTERNAL void gm_guard_settle(void);

/* Bytes beside a block that belong to its mapping were written. Called without locks. NULL: nobody wants to know. */
struct gm_guard_damage {
    bool before;     /* before the start of the block, else behind its end */
    bool at_exit;    /* the block lives still */
    size_t distance; /* bytes between the block and the nearest changed byte */
    size_t count;    /* bytes from the nearest to the farthest changed one */
};
GM_INTERNAL extern void (*gm_guard_damaged)(const struct gm_guard_block *block, const struct gm_guard_damage *damage);

#endif
