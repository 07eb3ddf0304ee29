/* Trace writer: many threads append events without locks; the file is opened at the first event, so a process that
 * never allocates leaves none. A thread of its own writes at each flush interval what gathered in memory; an allocation
 * that failed is written at once with all before it. On any trouble (disk full, no directory, nobody reads the pipe) it
 * says so once, counts what is lost, and the program runs on: it never waits for a reader, and no file can end it. */
#ifndef GM_TRACE_WRITER_H
#define GM_TRACE_WRITER_H

#include "shim/base/base.h"
#include "shim/trace/event.h"

/* True when a trace was asked for and is not broken: callers then fill events. */
GM_INTERNAL extern bool gm_trace_on;

/* Takes the options (file name, format, flush interval); `policy` and `version` go to the header. Opens nothing yet. */
void gm_trace_setup(const char *pattern, int format, uint64_t flush_ns, const char *policy, const char *version);

/* Next place in the global order. */
uint64_t gm_trace_sequence(void);

/* Appends a copy; the caller filled every field but nothing is checked. time_ns is absolute CLOCK_MONOTONIC here and
 * made relative to the file's start by the writer. */
void gm_trace_event(const struct gm_event *event);

/* Appends one definition record (head.bytes = whole size, a multiple of 8, at most 4096). In a CSV trace, definitions
 * go as comment lines starting with '#' (module, site, device, context, string), which every reader may skip. */
void gm_trace_record(const struct gm_record *record);

/* Orderly end: everything out, header marked finished, file cut to what is used. Later events are dropped. */
void gm_trace_finish(void);

/* In the child after fork: forget the parent's file and start an own one at the first event. */
void gm_trace_after_fork(void);

/* Expands %p %h %r %% of a file name pattern; returns 0, or -1 when the result is too long or a % is unknown. */
int gm_trace_expand(const char *pattern, char *out, size_t size);
/* Rank of MPI, torchrun or Slurm from the environment, -1 none. */
int gm_trace_rank(void);

/* File name in use, "" before the first event. */
const char *gm_trace_file(void);

/* Called once with the file's name after each opening (the first event, and again in a forked child); NULL = nobody
 * asks. */
extern void (*gm_trace_opened)(const char *name);

#endif
