/* One word says whether anybody wants more of a pair of cudaMalloc and cudaFree than the memory. While it is 0 a pair
 * may take the fast case (shim/cache/fast.h); else each call passes the whole pipeline. */
#ifndef GM_OBSERVERS_H
#define GM_OBSERVERS_H

#include "shim/base/base.h"

enum gm_observed {
    GM_OBSERVED_START = 1u << 0,    /* not set up, or no block is kept with its record (gm_direct) */
    GM_OBSERVED_TRACE = 1u << 1,    /* a trace, or something else that needs call sites */
    GM_OBSERVED_TIMES = 1u << 2,    /* the time of calls is measured */
    GM_OBSERVED_POLICY = 1u << 3,   /* the policy decides each request */
    GM_OBSERVED_COVERAGE = 1u << 4, /* calls are counted by symbol */
    GM_OBSERVED_GUARD = 1u << 5,    /* GPUMEM_GUARD takes each request */
};

GM_INTERNAL extern uint32_t gm_observers;
static inline uint32_t gm_observers_now(void) { return __atomic_load_n(&gm_observers, __ATOMIC_RELAXED); }
GM_INTERNAL void gm_observers_set(enum gm_observed by, bool value);

#endif
