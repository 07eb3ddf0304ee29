/* The bytes of a mapping beside a guarded block, and what is wrong with the pattern in them. Needs no driver. */
#ifndef GM_GUARD_SCAN_H
#define GM_GUARD_SCAN_H

#include "shim/resource/guard_ranges.h"

#define GM_GUARD_PATTERN 0xe5
/* Bytes next to a block, on each side, that are compared for every block (guard_pattern.h). */
#define GM_GUARD_NEAR ((size_t)64 << 10)

/* The bytes on one side of the block that its mapping has. */
struct gm_guard_bytes {
    uint64_t address;
    size_t size;
};
static inline struct gm_guard_bytes gm_guard_side_of(const struct gm_guard_block *block, bool before) {
    uint64_t end = block->address + block->size;
    return before ? (struct gm_guard_bytes){block->mapping, block->address - block->mapping}
                  : (struct gm_guard_bytes){end, block->mapping + block->mapped - end};
}

static inline size_t gm_guard_near_size(const struct gm_guard_block *block, bool before) {
    size_t size = gm_guard_side_of(block, before).size;
    return size < GM_GUARD_NEAR ? size : GM_GUARD_NEAR;
}

static inline bool gm_guard_is_all_near(const struct gm_guard_block *block) {
    return gm_guard_side_of(block, true).size <= GM_GUARD_NEAR && gm_guard_side_of(block, false).size <= GM_GUARD_NEAR;
}

/* What was found on one side. Distances are those from the block. */
struct gm_guard_scan {
    size_t compared, first, last; /* first == last: all that was compared is right */
};

/* Compares the next bytes away from the block. */
GM_INTERNAL void gm_guard_scan(struct gm_guard_scan *scan, const unsigned char *bytes, size_t size, bool before);
/* Of the side behind the block, if that is damaged, else of the one before it. scans[1] is the latter. False: neither
 * is. */
GM_INTERNAL bool gm_guard_scan_damage(const struct gm_guard_block *block, const struct gm_guard_scan scans[2],
                                      enum gm_guard_found found, struct gm_guard_damage *damage);

#endif
