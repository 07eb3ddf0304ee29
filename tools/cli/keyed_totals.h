/* Counters by thread or by stream, of which there may be many. */
#ifndef GM_KEYED_TOTALS_H
#define GM_KEYED_TOTALS_H

#include <stdint.h>
#include <uthash.h>

struct gm_totals_key {
    uint64_t value;
    uint64_t space; /* of which the value is a number */
};

struct gm_keyed_totals {
    struct gm_totals_key key;
    uint64_t allocs, bytes, frees, failed, time_ns;
    uint64_t crossed;    /* frees of blocks that another one allocated */
    uint64_t live, peak; /* of the blocks it allocated */
    UT_hash_handle hh;
};

struct gm_keyed_totals_table {
    struct gm_keyed_totals *rows, *last;
};

struct gm_keyed_totals *gm_keyed_totals_of(struct gm_keyed_totals_table *tallies, uint64_t value,
                                           uint64_t space);       /* NULL = no memory */
void gm_keyed_totals_sort(struct gm_keyed_totals_table *tallies); /* most bytes first */
void gm_keyed_totals_free(struct gm_keyed_totals_table *tallies);

#endif
