/* Classes of lifetimes: with threshold N, blocks that live at most N get asynchronous memory and all others managed
 * memory (hybrid allocation, III.C). The class of a block is known only when it ends, so a first pass of the trace
 * notes it by the block's number, in one byte for each allocation. */
#ifndef GM_LIFETIME_CLASSES_H
#define GM_LIFETIME_CLASSES_H

#include "tools/cli/analysis.h"

#define GM_THRESHOLDS 20 /* 2^k s, k = -10 .. 9 */

struct gm_lifetime_classes {
    uint8_t *of;    /* by block number - 1: the index of the least threshold that the block does not outlive */
    uint64_t count; /* number of blocks */
    size_t room;
};

/* 2^(i-10) s in nanoseconds, exactly 10^9 * 2^i / 1024. */
static inline uint64_t gm_threshold(unsigned i) { return (UINT64_C(1000000000) << i) / 1024; }

static inline uint64_t gm_lifetime_of(const struct gm_step *step) {
    return step->time_ns > step->block->created_ns ? step->time_ns - step->block->created_ns : 0;
}

/* The block with this number begins; it has class GM_THRESHOLDS until it ends. False: no memory. */
bool gm_lifetime_classes_begin(struct gm_lifetime_classes *classes, uint64_t number);
void gm_lifetime_classes_end(struct gm_lifetime_classes *classes, uint64_t number, uint64_t lived_ns);
void gm_lifetime_classes_free(struct gm_lifetime_classes *classes);

#endif
