/* A heap of the largest blocks of a timeline that were seen so far, the smallest of them first. */
#ifndef GM_LARGEST_BLOCKS_H
#define GM_LARGEST_BLOCKS_H

#include "tools/cli/live_blocks.h"

struct gm_timeline_block {
    struct gm_live_block block;
    uint64_t ended_ns; /* UINT64_MAX: alive at the end of the trace */
    uint32_t series;
};

struct gm_largest {
    struct gm_timeline_block *list; /* the caller frees it */
    unsigned count, room;
};

/* Keeps a copy if the block is among the `most` largest ones. False: no memory. */
bool gm_largest_keep(struct gm_largest *largest, const struct gm_timeline_block *block, unsigned most);

#endif
