/* Resource "guard": what its users set, and what it tells them. The blocks are in guard_ranges.h. */
#ifndef GM_RESOURCE_GUARD_H
#define GM_RESOURCE_GUARD_H

#include "shim/resource/guard_ranges.h"

/* Blocks start at the beginning of their mapping, where an access before them faults, and not at its end. Set it before
 * the first request. */
GM_INTERNAL extern bool gm_guard_at_begin;
/* Bytes outside a block that belong to its mapping were written: `count` bytes from the first to the last one changed,
 * the first of them `offset` bytes behind the end of the block. Called without locks. NULL: nobody wants to know. */
struct gm_guard_damage {
    size_t offset, count;
    bool at_exit; /* the block lives still */
};
GM_INTERNAL extern void (*gm_guard_damaged)(const struct gm_guard_block *block, const struct gm_guard_damage *damage);

#endif
