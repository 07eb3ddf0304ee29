/* The trace writer. Many threads append events without locks. The file is opened at the first event, so a process that
 * never allocates leaves no file. A flusher thread writes the collected events at each flush interval. A failed
 * allocation is written at once, with all events before it.
 *
 * On any trouble (disk full, no directory, no reader of the pipe) the writer logs once, counts the lost events, and
 * the program continues. It never waits for a reader, and no change to the file can end it. */
#ifndef GM_TRACE_WRITER_H
#define GM_TRACE_WRITER_H

#include "shim/base/base.h"
#include "shim/trace/event.h"
#include "shim/trace/recorded.h"

/* Takes the options (file name, format, flush interval). `policy` and `version` go to the header. Opens nothing yet. */
void gm_trace_setup(const char *pattern, int format, uint64_t flush_ns, const char *policy, const char *version);

/* Recording from the middle of a run. gm_trace_prepare takes the options as gm_trace_setup does, and gm_trace_start
 * opens the file: definitions are written from then on, events when the caller sets gm_trace_on. `fresh`: a trace that
 * is in the place already is never overwritten, and a name with a number is taken. False: *why is the reason.
 * gm_trace_stop completes the file. The caller has cleared gm_trace_on and waited for the threads that write. */
GM_INTERNAL bool gm_trace_prepare(const char *pattern, int format, uint64_t flush_ns, const char *policy,
                                  const char *version);
GM_INTERNAL bool gm_trace_start(bool fresh, const char **why);
GM_INTERNAL void gm_trace_stop(void);

/* The next number of the global order. */
uint64_t gm_trace_sequence(void);

/* Appends a copy of the event. The caller fills every field; nothing is checked. time_ns is an absolute
 * CLOCK_MONOTONIC time here, and the writer makes it relative to the start of the file. */
void gm_trace_event(const struct gm_event *event);
/* The same without a copy, for the events of blocks. The caller fills *gm_trace_place, which is *otherwise where there
 * is no room for event `number`; and writes no other event until gm_trace_placed. */
GM_INTERNAL struct gm_event *gm_trace_place(uint64_t number, struct gm_event *otherwise);
GM_INTERNAL void gm_trace_placed(struct gm_event *place, const struct gm_event *otherwise);
/* The event of an amount that is no call of the program, with its number and the time. Nothing without a trace. */
GM_INTERNAL void gm_trace_amount(enum gm_action action, enum gm_kind kind, int device, uint64_t bytes,
                                 enum gm_reason reason);
/* Counts the event of a block in a summary (summary.h). Only members that gm_summary_change needs are set. */
void gm_trace_sum_up(const struct gm_event *event);

/* Appends one definition record (head.bytes = the whole size, a multiple of 8, at most 4096). A CSV trace holds
 * definitions as comment lines with '#' (module, site, device, context, string), which a reader may skip. */
void gm_trace_record(const struct gm_record *record);

/* Orderly end: writes everything and marks the header as finished. Later events are dropped. */
void gm_trace_finish(void);

/* In the child after a fork: forgets the parent's file. The child opens its own file at its first event. */
void gm_trace_after_fork(void);

/* Expands %p %h %r %% of a file name pattern; returns 0, or -1 when the result is too long or a % is unknown. */
int gm_trace_expand(const char *pattern, char *out, size_t size);
/* Rank of MPI, torchrun or Slurm from the environment; -1 = none. */
int gm_trace_rank(void);

/* Name of the open file; "" before the first event. */
const char *gm_trace_file(void);
/* False: somebody removed the open file, or put another one in its place. True for a pipe. */
GM_INTERNAL bool gm_trace_is_in_place(void);

#endif
