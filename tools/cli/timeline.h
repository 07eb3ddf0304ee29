/* Reads a trace into totals by interval of time and by series. */
#ifndef GM_TIMELINE_H
#define GM_TIMELINE_H

#include "tools/cli/read_trace.h"
#include "tools/cli/timeline_totals.h"

/* Reads the trace once. Uses at most `intervals` (even), mostly more than half of them, and fewer if there would be too
 * many rows. Owned by the caller. NULL: no memory, or the trace is not readable any more. */
struct gm_timeline *gm_timeline_read(const char *path, unsigned intervals);
void gm_timeline_free(struct gm_timeline *timeline);

#endif
