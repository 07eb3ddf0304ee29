/* One word says why a pair of cudaMalloc and cudaFree cannot take the fast case (shim/cache/fast.h): a hit cannot be
 * had, or somebody wants more of the call than the memory. While a bit is set each call passes the whole pipeline. The
 * README of the shim has this table, too. */
#ifndef GM_OBSERVERS_H
#define GM_OBSERVERS_H

#include "shim/base/base.h"

#define GM_OBSERVERS(X)                                                                                            \
    X(START, "gpumem has not started")                                                                             \
    X(CACHE, "no cache keeps blocks with their records: another policy or stack, `GPUMEM_LIMIT` or `GPUMEM_GROW`") \
    X(EVENTS, "the driver has no event for a whole context, so a free has more to do")                             \
    X(NETWORK, "a network card or storage may reach the memory, so freed blocks are not reused")                   \
    X(TRACE, "a trace is written, or something else needs call sites")                                             \
    X(TIMES, "the time of calls is measured")                                                                      \
    X(POLICY, "the policy decides each request")                                                                   \
    X(COVERAGE, "calls are counted by symbol")                                                                     \
    X(GUARD, "`GPUMEM_GUARD` takes each request")                                                                  \
    X(BLOCKS, "blocks have tags, or those of some call sites are native")

#define X(name, meaning) GM_OBSERVER_##name,
enum gm_observer_number { GM_OBSERVERS(X) GM_OBSERVER_COUNT };
#undef X
#define X(name, meaning) GM_OBSERVED_##name = 1u << GM_OBSERVER_##name,
enum gm_observed { GM_OBSERVERS(X) };
#undef X

GM_INTERNAL extern uint32_t gm_observers;
static inline uint32_t gm_observers_now(void) { return __atomic_load_n(&gm_observers, __ATOMIC_RELAXED); }
GM_INTERNAL void gm_observers_set(enum gm_observed by, bool value);

#endif
