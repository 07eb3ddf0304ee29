/* What reports, replay and plots derive from the traits of a kind of memory (GM_KINDS of policy/policy.h). Code in
 * tools/ uses these functions and has no list of kinds. */
#ifndef GM_MEMORY_KINDS_H
#define GM_MEMORY_KINDS_H

#include "policy/policy.h"

/* The program requested device memory, even if host memory serves it. */
static inline bool gm_kind_is_for_device(enum gm_kind kind) {
    return (gm_kind_traits(kind) & (GM_TRAIT_DEVICE | GM_TRAIT_PLACED)) != 0;
}

/* The program owns the block. Memory of a graph or of another process is not its leak. */
static inline bool gm_kind_can_leak(enum gm_kind kind) { return !(gm_kind_traits(kind) & GM_TRAIT_FOREIGN); }

/* The program's own host memory, which contexts do not release. */
static inline bool gm_kind_outlives_context(enum gm_kind kind) {
    return !(gm_kind_traits(kind) & (GM_TRAIT_DEVICE | GM_TRAIT_PLACED | GM_TRAIT_FOREIGN));
}

/* Native memory whose freed blocks the cache holds for reuse. Of memory that the program mapped, it holds only some. */
static inline bool gm_kind_is_cached(enum gm_kind kind) {
    return (gm_kind_traits(kind) & (GM_TRAIT_KEPT | GM_TRAIT_PLACED | GM_TRAIT_OWN_RANGE)) == GM_TRAIT_KEPT;
}

/* A policy or an out-of-memory step chose the kind. Mapped memory does not count: programs map memory, too. */
static inline bool gm_kind_is_chosen(enum gm_kind kind) {
    return gm_kind_traits(kind) & GM_TRAIT_PLACED &&
           gm_kind_traits(kind) & (GM_TRAIT_OWN_RANGE | GM_TRAIT_POOLED | GM_TRAIT_KEPT);
}

/* The devices of a replay can serve it: native memory, and allocations and pools of the driver that gpumem chose. They
 * have no host memory and no mapped memory. */
static inline bool gm_kind_is_replayed(enum gm_kind kind) {
    return !(gm_kind_traits(kind) & GM_TRAIT_PLACED) || gm_kind_traits(kind) & (GM_TRAIT_OWN_RANGE | GM_TRAIT_POOLED);
}

#endif
