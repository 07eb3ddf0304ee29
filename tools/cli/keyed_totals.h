/* Totals by a key, such as a thread, a stream or a call site. There may be many keys. */
#ifndef GM_KEYED_TOTALS_H
#define GM_KEYED_TOTALS_H

#include <stdint.h>
#include <uthash.h>

struct gm_totals_key {
    uint64_t value;
    uint64_t space; /* number space of `value`, for instance a context */
};

struct gm_keyed_totals {
    struct gm_totals_key key;
    uint64_t allocs, bytes, frees, failed, time_ns;
    uint64_t crossed;    /* frees of blocks that another key allocated */
    uint64_t live, peak; /* of the blocks that this key allocated */
    UT_hash_handle hh;
};

struct gm_keyed_totals_table {
    struct gm_keyed_totals *rows, *last;
};

/* The totals of the key, new ones if there are none. NULL = no memory. */
struct gm_keyed_totals *gm_keyed_totals_of(struct gm_keyed_totals_table *table, uint64_t value, uint64_t space);
void gm_keyed_totals_sort(struct gm_keyed_totals_table *table); /* most bytes first */
void gm_keyed_totals_free(struct gm_keyed_totals_table *table);

#endif
