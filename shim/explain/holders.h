/* Who holds memory now: the live blocks of the registry, added up by call site. Stacks are one call site if they share
 * the first frame outside the known wrappers in which the holders differ. Blocks without a call site are added up by
 * kind and size, or where a kind has many sizes, by kind. */
#ifndef GM_HOLDERS_H
#define GM_HOLDERS_H

#include "policy/policy.h"
#include "shim/base/base.h"
#include "shim/sites/site_text.h"

enum { GM_HOLDERS = 5, GM_HOLDERS_NAMED = 32, GM_HOLDERS_TABLE = 2048 };

struct gm_holder {
    uint64_t bytes, count; /* count 0: unused */
    size_t size, most;     /* of the smallest and the largest block; 0 where `site` counts */
    uint32_t site;
    uint8_t kind;
    uint8_t shared; /* frames of the site that tell it apart and that all stacks of the row share */
};

struct gm_holders {
    uint64_t bytes, reserved, count;         /* all blocks of the question */
    struct gm_holder most[GM_HOLDERS_NAMED]; /* most bytes first; the first GM_HOLDERS are meant for people */
    /* The question and the work of gm_holders_find. */
    int device;
    bool host;
    uint32_t request; /* site of the request that found no memory: what one holder shares with it tells nothing */
    unsigned common;  /* frames that all holders share, before those that tell them apart */
    uintptr_t frames[GM_HOLDERS_NAMED][GM_SITE_NAMED];
    unsigned depths[GM_HOLDERS_NAMED];
    struct gm_holder table[GM_HOLDERS_TABLE], joined[GM_HOLDERS_NAMED];
    struct gm_holder siteless[GM_KIND_COUNT]; /* blocks without a call site */
    unsigned sizes[GM_KIND_COUNT]; /* rows of the table that such blocks have; above GM_HOLDERS they do not count */
};

/* Counts the blocks on `device`, or those in host memory. *holders is zeroed by the caller; it is too large for a
 * stack. Further holders than the table has room for count in the sums alone. Blocks that come or go meanwhile may be
 * missed. */
GM_INTERNAL void gm_holders_find(struct gm_holders *holders, int device, bool host, uint32_t request);

#endif
