/* Which blocks the trace holds. Each block has a word `recorded` that says so, because recording may begin while blocks
 * are live and while threads allocate and free.
 *
 * A block enters the trace once: by the event of its allocation, or by an event with GM_EVENT_LIVE. The latter is
 * written by the walk over the live blocks when recording begins, or by the free of a block that the walk has not
 * reached yet. Whoever changes the word from "not recorded" to "recorded" writes the event. An event takes its sequence
 * number before that change, and the free of the block takes its own afterwards, so the order is right.
 *
 * The word holds the session (bits 12 to 31), a number that changes with each record and free (bits 2 to 11), and
 * whether the trace of that session holds the block (bits 0 and 1: 01).
 *
 * A thread may stop between these steps for so long that meanwhile the trace is stopped and the next one is started.
 * So it looks at the session once more after it took the number of its event. If the session is the same, the event
 * belongs to it: the first number of the next trace is taken after the session was closed. Else the event is not
 * written. */
#ifndef GM_TRACE_RECORDED_H
#define GM_TRACE_RECORDED_H

#include "shim/base/base.h"

/* True when a trace was requested and works: callers fill events only then. */
GM_INTERNAL extern bool gm_trace_on;
/* Of the trace that is written now or was written last, shifted by 12, and 1 in the lower bits. Between two traces
 * another session counts, with 2 in the lower bits, so that it equals no word. */
GM_INTERNAL extern uint32_t gm_trace_session;
/* Allocations are not recorded now; frees of recorded blocks are (GPUMEM_TRACE_RANGE). */
GM_INTERNAL extern bool gm_trace_paused;

static GM_IN_PLACE bool gm_trace_is_on(void) { return __atomic_load_n(&gm_trace_on, __ATOMIC_RELAXED); }

/* True if an allocation made now must be recorded. */
static GM_IN_PLACE bool gm_trace_allocates(void) {
    return GM_UNLIKELY(__atomic_load_n(&gm_trace_on, __ATOMIC_ACQUIRE)) && /* a start ends the pause before */
           GM_LIKELY(!__atomic_load_n(&gm_trace_paused, __ATOMIC_RELAXED));
}

static GM_IN_PLACE bool gm_is_recorded(uint32_t word) {
    return !((word ^ __atomic_load_n(&gm_trace_session, __ATOMIC_RELAXED)) & ~0xffcu);
}
static GM_IN_PLACE uint32_t gm_recorded_after(uint32_t word) {
    return __atomic_load_n(&gm_trace_session, __ATOMIC_RELAXED) | ((word + 4) & 0xffc) | 1;
}
/* After a free. */
static GM_IN_PLACE uint32_t gm_unrecorded_after(uint32_t word) { return word & 1 ? word + 1 : word; }

/* The new word: the caller writes the event of the block. 0: another thread does, or did. */
static GM_IN_PLACE uint32_t gm_record_word(uint32_t *word) {
    uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED), after = gm_recorded_after(seen);
    bool records = !gm_is_recorded(seen) &&
                   __atomic_compare_exchange_n(word, &seen, after, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    return records ? after : 0;
}

#endif
