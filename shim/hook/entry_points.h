/* The table of hooked symbols: maps functions of the driver to entries of hooks. */
#ifndef GM_HOOK_ENTRY_POINTS_H
#define GM_HOOK_ENTRY_POINTS_H

#include "shim/hook/hook.h"

/* The entry of the hook of `function` for this way of look-up, or `function` itself when it is not hooked. */
void *gm_route(void *function, enum gm_entry_way way);
/* True when `address` is an entry of gpumem. */
bool gm_is_entry(const void *address);
const char *gm_row_name(enum gm_row row);

enum { GM_FUNCTION_SLOTS = 1024 };
struct gm_function_slot {
    void *function;
    uint16_t row;
};
/* The functions that the loader and the driver's resolver have for the hooked symbols. */
struct gm_found {
    struct gm_function_slot by_function[GM_FUNCTION_SLOTS];
    void *functions[GM_ROW_COUNT];
    bool differs[GM_ROW_COUNT]; /* the resolver returns another function than the symbol table has */
};
/* Fills `found`, which must be zeroed, and gm_real. Calls the loader, so the caller holds no lock or flag. Threads
 * that do this at the same time store the same values. */
GM_INTERNAL void gm_entry_points_find(struct gm_found *found);
/* Logs the functions that the driver lacks. True: every function has one address only. */
GM_INTERNAL bool gm_entry_points_report(const struct gm_found *found);

#endif
