/* Trampolines (GPUMEM_GROW=move): the entries of driver functions that have no hook. The program gets a trampoline
 * instead of the function it looked up. A trampoline is 16 bytes of code that know their number (hook/entry.S). It
 * jumps to the function with all arguments unchanged. While gm_trampolines_active is set, it first calls
 * gm_handover_driver_entered. */
#ifndef GM_GROW_TRAMPOLINES_H
#define GM_GROW_TRAMPOLINES_H

#include "shim/base/base.h"

/* Nonzero: a thread that enters the driver, by a trampoline or by a hook, has to report it first. */
GM_INTERNAL extern int gm_trampolines_active;

/* Before the first look-up: `run_out` is called each time a function is about to be handed out without the trampoline
 * it needs. gm_trampolines_complete() is false by then. */
GM_INTERNAL void gm_trampolines_start(void (*run_out)(void));
/* The trampoline of `function`. The function itself when it needs none (it only waits or reports, or is no function of
 * the driver), or when all trampolines are in use. */
GM_INTERNAL void *gm_trampoline_of(void *function);
/* False once a function was handed out without the trampoline it needs: from then on calls into the driver go
 * unnoticed.
 */
GM_INTERNAL bool gm_trampolines_complete(void);
GM_INTERNAL void gm_trampolines_after_fork(void);

#endif
