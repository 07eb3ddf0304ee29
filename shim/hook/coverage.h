/* GPUMEM_COVERAGE: reports which calls reached gpumem and which may have bypassed it. */
#ifndef GM_HOOK_COVERAGE_H
#define GM_HOOK_COVERAGE_H

#include "shim/hook/hook.h"

/* Records the caller of a look-up. */
void gm_note_caller(const void *caller);
/* Records the name of a function that a look-up returned unhooked, if the function concerns memory. */
void gm_route_unhooked(const char *name);
/* Called after an allocation: compares the tracked bytes with the driver's used bytes. */
void gm_coverage_sample(int device);
void gm_coverage_report(int fd);

#endif
