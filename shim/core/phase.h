/* Phases of the program in the trace: marks, and ranges with a begin and an end. What lies in a phase is told by
 * readers. */
#ifndef GM_PHASE_H
#define GM_PHASE_H

#include <stddef.h>
#include <stdint.h>

#include "shim/trace/event.h"

enum { GM_PHASE_TEXT = 1000 }; /* bytes of a text that are kept */

/* Number of a text in the trace. Texts are kept once, 4096 of them and 256 KiB in all; beyond that each call gets a
 * number of its own where a trace is written. 0: it cannot be kept. */
uint32_t gm_phase_text(const char *text, size_t bytes);

/* Writes GM_ACT_MARK, GM_ACT_PHASE_BEGIN or GM_ACT_PHASE_END, and the text before its first use. Without a trace
 * nothing happens. `range`: see GM_ACT_PHASE_BEGIN. */
void gm_phase_note(enum gm_action action, uint64_t range, uint32_t text);

/* In the child; may be called twice. */
void gm_phase_after_fork(void);

#endif
