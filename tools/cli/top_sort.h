/* The orders of gpumem top --sort, one row each. */
#ifndef GM_TOP_SORT_H
#define GM_TOP_SORT_H

#include "tools/cli/counter_sample.h"

struct gm_top_sort {
    const char *name;
    int (*compare)(const struct gm_counter_sample *a, const struct gm_rates *a_rates, const struct gm_counter_sample *b,
                   const struct gm_rates *b_rates);
};
extern const struct gm_top_sort gm_top_sorts[]; /* ends with a NULL name */

/* The row with this name, or -1. */
int gm_top_sort_find(const char *name);

#endif
