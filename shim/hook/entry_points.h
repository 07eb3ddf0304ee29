/* Where the calls of the driver enter gpumem: the entry of each row of shim/driver/calls.h, and where it continues. */
#ifndef GM_HOOK_ENTRY_POINTS_H
#define GM_HOOK_ENTRY_POINTS_H

#include "shim/driver/call.h"
#include "shim/hook/hook.h"

/* The entry for a function of the driver that the program looked up by `name`. The function itself when it is none of
 * the driver's. *hooked: the entry leads to a hook. */
void *gm_route(void *function, const char *name, enum gm_look_up by, bool *hooked);
/* True when `address` is an entry of gpumem. */
bool gm_is_entry(const void *address);

/* Where entry `number` (hook/entry.S) continues, never NULL. *function: the function of the driver, NULL where it has
 * none. */
GM_INTERNAL void *gm_call_target(unsigned number, const void **function);
/* From now on the entry continues at `hook`, which calls *next, by PASSED_WITH_TRIM if the row can need memory. Only
 * while gpumem starts. Nothing changes where the driver lacks the function. */
GM_INTERNAL void gm_call_divert(enum gm_call_number number, void *hook, void **next);

/* A call that passes through an entry found the device out of memory. Releases free blocks. True: the call is made once
 * more. */
GM_INTERNAL bool gm_call_trim(void);
/* WITH_TRIM (hook.h) for the functions that entries continue at. */
#define PASSED_WITH_TRIM(call) TWICE_IF(call, gm_call_trim())

enum { GM_FUNCTION_SLOTS = 4096 };
struct gm_function_slot {
    void *function;
    uint16_t number;
};
/* The functions that the loader and the driver's resolver have for the rows. */
struct gm_found {
    struct gm_function_slot by_function[GM_FUNCTION_SLOTS];
    void *functions[GM_CALL_ROWS];
    bool differs[GM_CALL_ROWS]; /* the resolver returns another function than the symbol table has */
};
/* Fills `found`, which must be zeroed, and gm_real. Calls the loader, so the caller holds no lock or flag. Threads
 * that do this at the same time store the same values. */
GM_INTERNAL void gm_entry_points_find(struct gm_found *found);
/* Logs the functions that the driver lacks. */
GM_INTERNAL void gm_entry_points_report(const struct gm_found *found);

#endif
