/* Shared by the parts of the trace writer: the open file, and the formats. */
#ifndef GM_TRACE_PARTS_H
#define GM_TRACE_PARTS_H

#include "shim/base/base.h"
#include "shim/base/file.h"
#include "shim/trace/event.h"

#include <sys/types.h>

#define GM_TRACE_NAME 4096

struct gm_trace_file {
    int fd;       /* has a high number and is close-on-exec; -1 = none */
    bool regular; /* a file of gpumem, locked; else a pipe, a terminal or a descriptor of the program */
    bool append;  /* text: lines are appended */
    bool pipe;    /* not a regular file: a reader may be slow or stop */
    dev_t device; /* identity, to notice when the program closed the descriptor and reused its number */
    ino_t inode;
    char name[GM_TRACE_NAME];
    char why[GM_TRACE_NAME + 128]; /* why it could not be opened */
};

/* The descriptor. Another thread may close it, or open the file again. */
static inline int gm_trace_fd(const struct gm_trace_file *file) { return __atomic_load_n(&file->fd, __ATOMIC_ACQUIRE); }

/* ---- open.c */
/* Opens a file by its name and with `create` makes it, but neither follows a link nor takes a file of another user in a
 * folder that others can write. A pipe is opened for writing only: ENXIO where nobody reads it. -1 with errno: *why is
 * the reason in a few words; NULL = errno says it. */
GM_INTERNAL int gm_trace_open_named(const char *name, bool create, const char **why);

/* ---- path.c */
/* Start of this process in CLOCK_REALTIME nanoseconds, from /proc/self/stat; the current time if that cannot be read.
 */
GM_INTERNAL uint64_t gm_trace_process_start(void);
/* Opens the file for `pattern`, so that no two processes share a file. A file is left alone when another process
 * locked it, when it was modified after `started_ns` (CLOCK_REALTIME), or when it belongs to the same `gpumem run`
 * (keep = true). Then name.PID, name.PID.2 ... are tried. A file that is no trace is never touched. Returns 0, or -1
 * with the reason in file->why. */
GM_INTERNAL int gm_trace_open(const char *pattern, uint64_t started_ns, bool keep, struct gm_trace_file *file);
/* False when the descriptor no longer refers to the trace file and the file cannot be opened again. */
GM_INTERNAL bool gm_trace_file_holds(struct gm_trace_file *file);
/* Closes the descriptor, unless the program reused its number. */
GM_INTERNAL void gm_trace_file_close(struct gm_trace_file *file);
GM_INTERNAL bool gm_trace_name_is_csv(const char *name);

/* Makes the event's time relative to the start of the trace. A call may have begun before, as the one that opens the
 * trace: only its part within counts. */
static inline void gm_trace_make_relative(struct gm_event *event, uint64_t start_ns) {
    if (GM_LIKELY(event->time_ns >= start_ns)) {
        event->time_ns -= start_ns;
        return;
    }
    uint64_t before = start_ns - event->time_ns;
    event->duration_ns = event->duration_ns > before ? event->duration_ns - (uint32_t)before : 0;
    event->time_ns = 0;
}

/* ---- a format: chunks.c writes the binary one, lines.c text */
struct gm_trace_format {
    /* Begins a trace in an empty file. 0 or an errno value. */
    int (*open)(struct gm_trace_file *file, const struct gm_trace_header *header, uint64_t flush_ns);
    void (*event)(const struct gm_event *event);
    void (*record)(const struct gm_record *record);
    /* Numbers and writes a row of a summary; the caller flushes behind the last one. One thread at a time. */
    void (*row)(struct gm_event *row);
    /* Whether so many rows certainly fit into the largest size of the file, behind what is flushed. */
    bool (*have_room)(uint64_t rows);
    /* The last rows of the trace follow: they may use the room of definitions. NULL: they have none. */
    void (*use_reserve)(void);
    /* Writes to the file what waits in memory; `all` false: only the full buffers that threads left to the flusher. */
    void (*flush)(bool all);
    void (*finish)(enum gm_trace_end how);
    /* In the child of a fork: forgets what the parent's threads have not written. */
    void (*forget)(void);
};
GM_INTERNAL extern const struct gm_trace_format gm_trace_binary, gm_trace_text;

/* The place of the thread's next event in the binary trace, which the caller fills and then adds; no lock, no call.
 * NULL: its chunk has no room. */
GM_INTERNAL struct gm_event *gm_chunks_place(void);
GM_INTERNAL void gm_chunks_add(struct gm_event *place);

/* ---- csv.c */
/* Writes a definition as one comment line. Returns its length; 0 when it does not fit or its type is unknown. */
GM_INTERNAL size_t gm_trace_csv_record(char *out, size_t size, const struct gm_record *record);
GM_INTERNAL size_t gm_trace_csv_about(char *out, size_t size, const struct gm_trace_header *header);

/* ---- writer.c */
/* True when a flusher thread flushes at every interval. Otherwise the threads that write events do it. */
GM_INTERNAL extern bool gm_trace_flusher;
static inline bool gm_trace_flushes(void) { return __atomic_load_n(&gm_trace_flusher, __ATOMIC_RELAXED); }
/* Makes the flusher thread flush now: everything, or only the buffers that threads left to it. */
enum gm_trace_wake { GM_TRACE_WAKE_ALL = 1, GM_TRACE_WAKE_FULL = 2 };
GM_INTERNAL void gm_trace_wake(enum gm_trace_wake why);
/* For a thread that ends: if its trace is open, its file stays open until gm_trace_leave. */
GM_INTERNAL void gm_trace_hold(void);
GM_INTERNAL void gm_trace_leave(void);
/* A number that changes with each opened trace and in each forked child; 0 in a child that was not notified of its
 * fork. */
GM_INTERNAL extern uint32_t *gm_trace_generation;
static inline uint32_t gm_trace_generation_now(void) {
    return __atomic_load_n(__atomic_load_n(&gm_trace_generation, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

#endif
