/* GPUMEM_COVERAGE: what reached gpumem, and what may have passed it by. */
#ifndef GM_HOOK_COVERAGE_H
#define GM_HOOK_COVERAGE_H

#include "shim/hook/hook.h"

/* Remembers who looked something up. */
void gm_note_caller(const void *caller);
/* Remembers the name of a function that was handed out as it is, if it has to do with memory. */
void gm_route_unhooked(const char *name);
/* After an allocation: compares with what the driver says. */
void gm_coverage_sample(int device);
void gm_coverage_report(int fd);

#endif
