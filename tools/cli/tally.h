/* Counters by thread or by stream, of which there may be many. */
#ifndef GM_TALLY_H
#define GM_TALLY_H

#include <stdint.h>
#include <uthash.h>

struct gm_tally_key {
    uint64_t value;
    uint64_t space; /* of which the value is a number */
};

struct gm_tally {
    struct gm_tally_key key;
    uint64_t allocs, bytes, frees, failed, time_ns;
    uint64_t crossed;    /* frees of blocks that another one allocated */
    uint64_t live, peak; /* of the blocks it allocated */
    UT_hash_handle hh;
};

struct gm_tallies {
    struct gm_tally *rows, *last;
};

struct gm_tally *gm_tally_of(struct gm_tallies *tallies, uint64_t value, uint64_t space); /* NULL = no memory */
void gm_tallies_sort(struct gm_tallies *tallies);                                         /* most bytes first */
void gm_tallies_free(struct gm_tallies *tallies);

#endif
