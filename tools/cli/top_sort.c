#include "tools/cli/top_sort.h"

#include <string.h>

#define ORDER(name, expression)                                                          \
    static int name(const struct gm_counter_sample *a, const struct gm_rates *a_rates,   \
                    const struct gm_counter_sample *b, const struct gm_rates *b_rates) { \
        return expression;                                                               \
    }
#define DESCENDING(x, y) ((x) < (y) ? 1 : (x) > (y) ? -1 : 0)

ORDER(by_live, DESCENDING(a->live_all, b->live_all))
ORDER(by_reserved, DESCENDING(a->reserved_all, b->reserved_all))
ORDER(by_allocs, DESCENDING(a_rates->allocs, b_rates->allocs))
ORDER(by_frees, DESCENDING(a_rates->frees, b_rates->frees))
ORDER(by_program, strcmp(a->program, b->program))
ORDER(by_pid, a->pid<b->pid ? -1 : a->pid> b->pid)

const struct gm_top_sort gm_top_sorts[] = {
    {"live", by_live},       {"reserved", by_reserved}, {"allocs", by_allocs}, {"frees", by_frees},
    {"program", by_program}, {"pid", by_pid},           {NULL, NULL},
};

int gm_top_sort_find(const char *name) {
    for (int row = 0; gm_top_sorts[row].name; row++)
        if (!strcmp(gm_top_sorts[row].name, name))
            return row;
    return -1;
}
