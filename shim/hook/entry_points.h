/* The table of hooked symbols: from the driver's functions to hooks, and back. */
#ifndef GM_HOOK_ENTRY_POINTS_H
#define GM_HOOK_ENTRY_POINTS_H

#include "shim/hook/hook.h"

/* Entry of the hook that stands for `function` when it is handed out in this way, or `function` itself when it is not
 * hooked. */
void *gm_route(void *function, enum gm_entry_way way);
/* True when `address` is an entry of ours. */
bool gm_is_entry(const void *address);
const char *gm_row_name(enum gm_row row);

enum { GM_FUNCTION_SLOTS = 1024 };
struct gm_function_slot {
    void *function;
    uint16_t row;
};
/* What the loader and the driver's resolver know of the hooked symbols. */
struct gm_found {
    struct gm_function_slot by_function[GM_FUNCTION_SLOTS];
    void *functions[GM_ROW_COUNT];
    bool differs[GM_ROW_COUNT]; /* the resolver gives another function than the symbol table */
};
/* Fills `found`, zeroed memory, and gm_real. Asks the loader: under no lock or flag. Threads that come early find the
 * same. */
GM_INTERNAL void gm_entry_points_find(struct gm_found *found);
/* Logs what is absent. True: every function has one address only. */
GM_INTERNAL bool gm_entry_points_report(const struct gm_found *found);

#endif
