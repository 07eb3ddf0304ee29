/* What the parts of the trace writer share: the open file, the two ways to fill it (chunks, lines of text). */
#ifndef GM_TRACE_PARTS_H
#define GM_TRACE_PARTS_H

#include "shim/base/base.h"
#include "shim/base/file.h"
#include "shim/trace/event.h"

#include <sys/types.h>

#define GM_TRACE_NAME 4096

struct gm_trace_file {
    int fd;       /* kept at a high number, close-on-exec; -1 = none */
    bool regular; /* a file of our own, locked; else a pipe, terminal or the program's own descriptor */
    bool append;  /* text: lines go behind what is there */
    bool pipe;    /* no file: a reader may be slow or go away */
    dev_t device; /* identity, to notice that the program closed and reused our descriptor */
    ino_t inode;
    char name[GM_TRACE_NAME];
};

/* ---- path.c */
/* Start of this process in CLOCK_REALTIME nanoseconds, from /proc/self/stat; the present moment when
 * unreadable. */
GM_INTERNAL uint64_t gm_trace_process_start(void);
/* Opens the file for `pattern` by the rule that no two processes share a file: one that is locked, or was
 * modified after `started_ns` (CLOCK_REALTIME), or belongs to the same `gpumem run` (keep = true) is left
 * alone and name.PID, name.PID.2 ... tried. A file that is no trace is never touched. Returns 0, or -1 after
 * a log line. */
GM_INTERNAL int gm_trace_open(const char *pattern, uint64_t started_ns, bool keep, struct gm_trace_file *file);
/* False when the descriptor no longer names our file and it cannot be opened again. */
GM_INTERNAL bool gm_trace_file_holds(struct gm_trace_file *file);
/* Closes the descriptor unless the program has reused its number. */
GM_INTERNAL void gm_trace_file_drop(struct gm_trace_file *file);
GM_INTERNAL bool gm_trace_name_is_csv(const char *name);

/* ---- chunks.c: the binary format */
/* 0 or an errno value. */
GM_INTERNAL int gm_chunks_open(struct gm_trace_file *file, const struct gm_trace_header *header, uint64_t flush_ns);
GM_INTERNAL void gm_chunks_event(const struct gm_event *event);
GM_INTERNAL void gm_chunks_record(const struct gm_record *record);
/* What waits in memory goes to the file. */
GM_INTERNAL void gm_chunks_flush(void);
GM_INTERNAL void gm_chunks_finish(void);
/* In the child: forgets what the parent's threads have not written yet. */
GM_INTERNAL void gm_chunks_forget(void);

/* ---- lines.c: text, buffered */
GM_INTERNAL void gm_lines_open(struct gm_trace_file *file, const struct gm_trace_header *header, uint64_t flush_ns);
GM_INTERNAL void gm_lines_event(const struct gm_event *event);
GM_INTERNAL void gm_lines_record(const struct gm_record *record);
GM_INTERNAL void gm_lines_flush(void);
GM_INTERNAL void gm_lines_finish(void);
GM_INTERNAL void gm_lines_forget(void);

/* ---- pipe.c: text for what is no file: a pipe, a socket, a terminal */
GM_INTERNAL void gm_pipe_open(struct gm_trace_file *file);
/* Never waits for a reader: a line that finds no room is lost and counted, and the number stands before the next one.
 * True: half of the room is used. */
GM_INTERNAL bool gm_pipe_line(const char *text, size_t bytes);
/* Writes what waits, and waits itself at most `wait_ms` in all for the reader. */
GM_INTERNAL void gm_pipe_flush(unsigned wait_ms);
GM_INTERNAL void gm_pipe_finish(void);
GM_INTERNAL void gm_pipe_forget(void);

/* ---- csv.c */
/* A definition as one comment line; returns its length, 0 when it does not fit or is of no known type. */
GM_INTERNAL size_t gm_trace_csv_record(char *out, size_t size, const struct gm_record *record);
GM_INTERNAL size_t gm_trace_csv_about(char *out, size_t size, const struct gm_trace_header *header);

/* ---- writer.c */
/* A thread flushes at every interval; where there is none, whoever writes does. */
GM_INTERNAL extern bool gm_trace_flusher;
static inline bool gm_trace_flushes(void) { return __atomic_load_n(&gm_trace_flusher, __ATOMIC_RELAXED); }
/* Makes it flush now. */
GM_INTERNAL void gm_trace_wake(void);
/* A number that differs in each process and after the end of the trace; 0 in a child that nobody told of its
 * fork. */
GM_INTERNAL extern uint32_t *gm_trace_generation;

#endif
