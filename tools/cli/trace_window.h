/* A part of a trace: a range of time, and blocks of a size or more. Readers show only this part. Blocks that are live
 * when the range begins come first, as blocks made before recording began (GM_EVENT_LIVE), and times count from there.
 */
#ifndef GM_TRACE_WINDOW_H
#define GM_TRACE_WINDOW_H

#include "shim/trace/event.h"

struct gm_window {
    uint64_t from_ns, until_ns; /* since the trace began; until: not included, UINT64_MAX = to the end */
    uint64_t min_bytes;
};

/* The part that the command line selects; all of the trace at first. */
extern struct gm_window gm_window;
bool gm_window_is_part(void);

struct gm_trace_window;

/* Reads an event of the whole trace. False = the end. */
typedef bool gm_window_source(void *arg, struct gm_event *event, int *thread);

/* NULL = no memory. */
struct gm_trace_window *gm_trace_window_new(gm_window_source *source, void *arg);
/* The next event of the part. False = the end of the trace, or no memory. Whole: reads the trace to its end all the
 * same, because definitions may stand behind events. */
bool gm_trace_window_next(struct gm_trace_window *window, struct gm_event *event, int *thread, bool whole);
/* There are events behind the part. Final after its last event. */
bool gm_trace_window_is_cut(const struct gm_trace_window *window);
void gm_trace_window_free(struct gm_trace_window *window); /* NULL is allowed */

#endif
