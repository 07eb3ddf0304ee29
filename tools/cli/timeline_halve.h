/* Halves the number of intervals of a timeline: the trace turned out to be longer, or to have more rows, than it has
 * room for. */
#ifndef GM_TIMELINE_HALVE_H
#define GM_TIMELINE_HALVE_H

#include "tools/cli/timeline_totals.h"

/* Joins the first `count` (even) intervals in pairs, in all `views` and all rows. `view_of`: view by device; `room`:
 * intervals of a view. False: no memory, and the timeline is unchanged. */
bool gm_timeline_halve(struct gm_timeline *timeline, unsigned count, unsigned views, const unsigned *view_of,
                       unsigned room);

#endif
