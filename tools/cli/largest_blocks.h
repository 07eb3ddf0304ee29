/* A heap of the largest blocks of a timeline that were seen so far, the smallest of them first. */
#ifndef GM_LARGEST_BLOCKS_H
#define GM_LARGEST_BLOCKS_H

#include "tools/cli/timeline.h"

struct gm_largest {
    struct gm_timeline_block *list; /* the caller frees it */
    unsigned count, room;
};

/* Keeps a copy if the block is among the `most` largest ones. False: no memory. */
bool gm_largest_keep(struct gm_largest *largest, const struct gm_timeline_block *block, unsigned most);

#endif
