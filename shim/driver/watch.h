/* One word says what a call of the program has to look at before it goes on (shim/hook/entry.S). */
#ifndef GM_DRIVER_WATCH_H
#define GM_DRIVER_WATCH_H

#include "shim/base/base.h"

/* Why an entry (hook/entry.S) calls gm_called before it jumps on. With GM_WATCH_KEPT alone it calls gm_again. */
enum gm_watch_flag {
    GM_WATCH_CLOSED = 1,      /* the hooks have not started */
    GM_WATCH_CHECKS = 2,      /* GPUMEM_CHECK_ORDER observes calls */
    GM_WATCH_HANDOVER = 4,    /* a page handover must end before work is submitted or memory changes */
    GM_WATCH_CAPTURES = 8,    /* a stream captures */
    GM_WATCH_PER_THREAD = 16, /* per-thread default streams were not used before */
    GM_WATCH_GUARDS = 32,     /* blocks are guarded: what calls do to them is looked at */
    GM_WATCH_KEPT = 64,       /* gm_watch_kept */
    GM_WATCH_SUSPENDS = 128,  /* GPUMEM_SUSPEND is on: calls that submit work are counted, and may be held */
};

/* The entries read it as one word: the state in the lower half. */
GM_INTERNAL extern struct gm_watch { uint16_t state, flags; } gm_watch __attribute__((aligned(4)));

/* GM_WATCH_CHECKS alone, for the entries of hooks. */
GM_INTERNAL extern uint32_t gm_watch_checks;

GM_INTERNAL void gm_watch_set(enum gm_watch_flag flag, bool value);
static inline bool gm_watch_has(unsigned flags) { return __atomic_load_n(&gm_watch.flags, __ATOMIC_ACQUIRE) & flags; }

/* Call it before gpumem keeps device memory that the program does not use and a trim releases (gm_pipeline_trim). From
 * then on a call of the program that finds the device out of memory is made again (the column memory of calls.h). The
 * flag stays set: it costs such a call some 30 instructions. */
static inline void gm_watch_kept(void) {
    if (GM_UNLIKELY(!gm_watch_has(GM_WATCH_KEPT)))
        gm_watch_set(GM_WATCH_KEPT, true);
}

#endif
