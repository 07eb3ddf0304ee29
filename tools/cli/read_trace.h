/* Reads a whole trace, or the part that is selected (trace_window.h). */
#ifndef GM_READ_TRACE_H
#define GM_READ_TRACE_H

#include "tools/cli/analysis.h"
#include "tools/cli/reader.h"

/* Reads the trace to its end. NULL = no memory, or an observer stopped the reading. Owned by the caller. `observers`
 * ends with NULL; NULL = no observers. */
struct gm_analysis *gm_analysis_read(struct gm_reader *reader, struct gm_observer *const *observers);
/* The same by gm_analysis_begin_blocks. */
struct gm_analysis *gm_analysis_read_blocks(struct gm_reader *reader, struct gm_observer *const *observers);

#endif
