/* What the parts of the trace writer share: the open file, the two ways to fill it (mapped chunks, lines of text). */
#ifndef GM_TRACE_PARTS_H
#define GM_TRACE_PARTS_H

#include "shim/base/base.h"
#include "shim/trace/event.h"

#include <sys/types.h>

#define GM_TRACE_NAME 4096

struct gm_trace_file {
    int fd;        /* kept at a high number, close-on-exec; -1 = none */
    bool regular;  /* a file of our own, locked; else a pipe, terminal or the program's own descriptor */
    bool append;   /* text: lines go behind what is there */
    dev_t device;  /* identity, to notice that the program closed and reused our descriptor */
    ino_t inode;
    char name[GM_TRACE_NAME];
};

/* ---- path.c */
/* Start of this process in CLOCK_REALTIME nanoseconds, from /proc/self/stat; the present moment when unreadable. */
GM_INTERNAL uint64_t gm_trace_process_start(void);
/* Opens the file for `pattern` by the rule that no two processes share a file: one that is locked, or was modified after
 * `started_ns` (CLOCK_REALTIME), or belongs to the same `gpumem run` (keep = true) is left alone and name.PID, name.PID.2 ... tried.
 * A file that is no trace is never touched. Returns 0, or -1 after a log line. */
GM_INTERNAL int gm_trace_open(const char *pattern, uint64_t started_ns, bool keep, struct gm_trace_file *file);
/* False when the descriptor no longer names our file and it cannot be opened again. */
GM_INTERNAL bool gm_trace_file_holds(struct gm_trace_file *file);
/* Closes the descriptor unless the program has reused its number. */
GM_INTERNAL void gm_trace_file_drop(struct gm_trace_file *file);
GM_INTERNAL bool gm_trace_name_is_csv(const char *name);

/* ---- quiet.c: system calls that must not signal the program */
/* As write(2), without SIGPIPE and SIGXFSZ. */
GM_INTERNAL ssize_t gm_quiet_write(int fd, const void *data, size_t bytes);
/* Reserves disk space for [offset, offset + bytes) so that a later store cannot fault; 0 or an errno value. */
GM_INTERNAL int gm_quiet_allocate(int fd, uint64_t offset, size_t bytes);
/* Words for an errno value, without locale or heap. */
GM_INTERNAL const char *gm_errno_text(int error);

/* ---- chunks.c: the binary format */
GM_INTERNAL int gm_chunks_open(struct gm_trace_file *file, const struct gm_trace_header *header); /* 0 or an errno value */
GM_INTERNAL void gm_chunks_event(const struct gm_event *event);
GM_INTERNAL void gm_chunks_record(const struct gm_record *record);
GM_INTERNAL void gm_chunks_finish(void);
/* In the child: forgets the parent's mappings without touching what they hold. */
GM_INTERNAL void gm_chunks_forget(void);

/* ---- lines.c: text, buffered */
GM_INTERNAL void gm_lines_open(struct gm_trace_file *file, const struct gm_trace_header *header, uint64_t flush_ns);
GM_INTERNAL void gm_lines_event(const struct gm_event *event);
GM_INTERNAL void gm_lines_record(const struct gm_record *record);
GM_INTERNAL void gm_lines_finish(void);
GM_INTERNAL void gm_lines_forget(void);

/* ---- csv.c */
/* A definition as one comment line; returns its length, 0 when it does not fit or is of no known type. */
GM_INTERNAL size_t gm_trace_csv_record(char *out, size_t size, const struct gm_record *record);
GM_INTERNAL size_t gm_trace_csv_about(char *out, size_t size, const struct gm_trace_header *header);

/* ---- writer.c */
/* A number that differs in each process and after the end of the trace; 0 in a child that nobody told of its fork. */
GM_INTERNAL extern uint32_t *gm_trace_generation;

#endif
