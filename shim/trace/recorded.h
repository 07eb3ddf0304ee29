/* Which blocks the trace holds. Each block has a word `recorded` that says so, because recording may begin while blocks
 * are live and while threads allocate and free.
 *
 * A block enters the trace once: by the event of its allocation, or by an event with GM_EVENT_LIVE. The latter is
 * written by the walk over the live blocks when recording begins, or by the free of a block that the walk has not
 * reached yet. Whoever changes the word from "not recorded" to "recorded" writes the event. An event takes its sequence
 * number before that change, and the free of the block takes its own afterwards, so the order is right.
 *
 * The word holds the session (bits 12 to 31), a number that changes with each record and free (bits 1 to 11), and
 * whether the trace of that session holds the block (bit 0). */
#ifndef GM_TRACE_RECORDED_H
#define GM_TRACE_RECORDED_H

#include "shim/base/base.h"

/* True when a trace was requested and works: callers fill events only then. */
GM_INTERNAL extern bool gm_trace_on;
GM_INTERNAL extern uint32_t gm_trace_session; /* of the trace that is written now or was written last, shifted by 12 */
/* Allocations are not recorded now; frees of recorded blocks are (GPUMEM_TRACE_RANGE). */
GM_INTERNAL extern bool gm_trace_paused;

static GM_IN_PLACE bool gm_trace_is_on(void) { return __atomic_load_n(&gm_trace_on, __ATOMIC_RELAXED); }

/* An allocation of now belongs into the trace. */
static GM_IN_PLACE bool gm_trace_allocates(void) {
    return GM_UNLIKELY(gm_trace_is_on()) && GM_LIKELY(!__atomic_load_n(&gm_trace_paused, __ATOMIC_RELAXED));
}

static GM_IN_PLACE bool gm_is_recorded(uint32_t word) {
    return word & 1 && !((word ^ __atomic_load_n(&gm_trace_session, __ATOMIC_RELAXED)) >> 12);
}
static GM_IN_PLACE uint32_t gm_recorded_after(uint32_t word) {
    return __atomic_load_n(&gm_trace_session, __ATOMIC_RELAXED) | ((word + 2) & 0xffe) | 1;
}
/* After a free. */
static GM_IN_PLACE uint32_t gm_unrecorded_after(uint32_t word) { return word & 1 ? word + 1 : word; }

/* True: the caller writes the event of the block. */
static GM_IN_PLACE bool gm_record_word(uint32_t *word) {
    uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    return !gm_is_recorded(seen) &&
           __atomic_compare_exchange_n(word, &seen, gm_recorded_after(seen), false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

#endif
