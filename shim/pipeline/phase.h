/* Phases of the program in the trace: marks, and ranges with a begin and an end. The trace holds only these events.
 * Readers work out which allocations lie in a phase. */
#ifndef GM_PHASE_H
#define GM_PHASE_H

#include <stddef.h>
#include <stdint.h>

#include "shim/base/base.h"
#include "shim/trace/event.h"

enum { GM_PHASE_TEXT = 1000 }; /* longer texts are cut to so many bytes */

/* Returns the number that stands for a text in the trace. Each text is stored once: at most 4096 texts and 256 KiB.
 * Beyond that, each call returns a new number while a trace is written. 0: the text cannot be stored. */
uint32_t gm_phase_text(const char *text, size_t bytes);

/* Writes a text unless the trace has it. Returns its number; 0: it is not stored. */
GM_INTERNAL uint32_t gm_phase_written(uint32_t text);
/* The text of a number, cut to the size of `out`. "": it is not stored. */
GM_INTERNAL void gm_phase_text_of(uint32_t number, char *out, size_t size);

/* Writes GM_ACT_MARK, GM_ACT_PHASE_BEGIN or GM_ACT_PHASE_END, preceded by the text when the trace does not have it
 * yet. Does nothing without a trace. `range`: see GM_ACT_PHASE_BEGIN. */
void gm_phase_note(enum gm_action action, uint64_t range, uint32_t text);

/* A trace begins in the middle of the run, or in the child of a fork: texts are written again. */
GM_INTERNAL void gm_phase_again(void);

#endif
