/* The text trace. Lines are collected in a ring buffer and written in pieces of whole lines, so lines of several
 * threads and processes never mix. A line waits at most the flush interval; with interval 0 it is written before the
 * event returns.
 *
 * A file takes every line: a thread that finds no room writes first. The program never waits for a reader, which has a
 * pipe, a socket or a terminal. When the reader is slow or has stopped, lines are dropped and counted. The log reports
 * this once, and again at the end. The trace states how many lines are missing, and where. */
#include "shim/base/file.h"
#include "shim/trace/parts.h"
#include "shim/trace/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define PIPE_ROOM   (4u * 1024u * 1024u) /* a burst of 35 000 events */
#define PIPE_PIECE  4096u                /* PIPE_BUF: a pipe takes it as a whole */
#define FILE_PIECE  (64u * 1024u)
#define FILE_ROOM   (2u * FILE_PIECE)
#define RECORD_LINE 16384u                /* a record of 4096 bytes with every byte escaped */
#define END_BYTES   64u                   /* of the last line */
#define PIPE_WAIT   UINT64_C(100000000)   /* ns for which the flusher thread waits for a reader */
#define END_WAIT    UINT64_C(1000000000)  /* ns without a byte read, after which the rest is dropped at the end */
#define END_MOST    UINT64_C(10000000000) /* longest delay of a program's end in ns, while a reader still reads */

static struct gm_trace_file *file;
static uint64_t start_ns, flush_ns;
static int pid;
static uint64_t most_bytes; /* GPUMEM_TRACE_LIMIT; 0 = none */
static int reported, reported_full;

GM_LOCK(lock); /* protects the following; never held across a system call */
static char ring[PIPE_ROOM];
static size_t room, first, used; /* of the ring; of a file its beginning is used */
static char long_line[RECORD_LINE];
static bool writing;                 /* a thread is writing from the ring ... */
static char piece[FILE_PIECE];       /* ... this piece */
static size_t begun;                 /* bytes of an incomplete line that are written */
static bool ending;                  /* only the thread that ends the trace may still write */
static uint64_t oldest_ns;           /* when the first waiting line was added, or its writing was last due */
static uint64_t taken_bytes;         /* of most_bytes */
static uint64_t dropped, unreported; /* lines; `unreported`: those that the trace does not state yet */

/* ---- the ring; the caller holds the lock */

static void copy_in(const char *text, size_t bytes) {
    size_t at = (first + used) % room, before_end = bytes < room - at ? bytes : room - at;
    memcpy(ring + at, text, before_end);
    memcpy(ring, text + before_end, bytes - before_end);
    used += bytes;
}

/* Copies whole lines, or the beginning of a line that is longer than a piece. */
static size_t copy_out(size_t most) {
    size_t size = file->pipe ? PIPE_PIECE : FILE_PIECE;
    size_t bytes = most < size ? most : size, before_end = bytes < room - first ? bytes : room - first;
    memcpy(piece, ring + first, before_end);
    memcpy(piece + before_end, ring, bytes - before_end);
    const char *last = memrchr(piece, '\n', bytes);
    return last ? (size_t)(last - piece) + 1 : bytes;
}

static void remove_written(size_t bytes) {
    const char *last = memrchr(piece, '\n', bytes);
    begun = last ? (size_t)(piece + bytes - last) - 1 : begun + bytes;
    first = (first + bytes) % room;
    used -= bytes;
}

/* Counts the waiting lines of events. A lost comment is not a lost event. */
static uint64_t waiting_lines(void) {
    uint64_t lines = 0;
    bool comment = false, begins = true;
    for (size_t i = 0; i < used; i++) {
        char c = ring[(first + i) % room];
        comment = begins ? c == '#' : comment;
        begins = c == '\n';
        lines += begins && !comment;
    }
    return lines;
}

static void drop_all(void) {
    dropped += waiting_lines();
    first = used = begun = 0;
}

/* ---- writing */

/* A full disk cut the last line, which would damage the file. 0 or an errno value. */
static int remove_begun_line(void) {
    off_t size = lseek(gm_trace_fd(file), 0, SEEK_END);
    return size >= (off_t)begun && ftruncate(gm_trace_fd(file), size - (off_t)begun) ? errno : 0;
}

/* Writes the lines that wait now; waits for a reader at most until `until`. `last`: the trace ends, and a reader that
 * still reads gets more time. The caller holds the lock, before and after, and no other thread is writing. */
static void write_waiting(uint64_t until, bool last) {
    uint64_t most = gm_now_ns() + END_MOST;
    int error = 0;
    writing = true;
    for (size_t rest = used; rest && !error && (last || !ending || !file->pipe);) {
        size_t bytes = copy_out(rest);
        gm_spin_unlock(&lock);
        ssize_t written = 0;
        uint64_t now = gm_now_ns();
        if (!gm_trace_file_holds(file))
            error = EBADF;
        else if (file->pipe && !gm_safe_takes(gm_trace_fd(file), now < until ? (unsigned)((until - now) / 1000000) : 0))
            error = EAGAIN;
        else if ((written = gm_safe_write(gm_trace_fd(file), piece, bytes)) <= 0)
            error = written < 0 ? errno : ENOSPC;
        if (error && error != EBADF && file->regular && begun && remove_begun_line())
            error = errno;
        gm_spin_lock(&lock);
        if (written > 0) {
            remove_written((size_t)written);
            rest -= (size_t)written;
            if (last && now < most)
                until = now + END_WAIT;
        }
    }
    if (error && !(file->pipe && error == EAGAIN))
        drop_all();
    writing = false;
    bool lost = error || (file->pipe && dropped);
    gm_spin_unlock(&lock);
    if (lost)
        gm_log_once(&reported, GM_LOG_ERROR, "trace '%s' loses events: %s", file->name,
                    gm_errno_text(error ? error : EAGAIN));
    gm_spin_lock(&lock);
}

/* Waits for a thread that is writing. The caller holds the lock, before and after. False: it still writes. */
static bool wait_for_writer(uint64_t until) {
    while (writing && gm_now_ns() < until) {
        gm_spin_unlock(&lock);
        sched_yield();
        gm_spin_lock(&lock);
    }
    return !writing;
}

/* The caller holds the lock, before and after. */
static void flush_held(uint64_t wait_ns) {
    if (wait_for_writer(file->pipe ? 0 : UINT64_MAX) && used)
        write_waiting(gm_now_ns() + wait_ns, false);
}

/* ---- lines */

/* The caller holds the lock, before and after. */
static void add_line(const char *text, size_t bytes) {
    char note[64];
    size_t note_bytes =
        unreported ? (size_t)gm_format(note, sizeof note, "# dropped %llu\n", (unsigned long long)unreported) : 0;
    while (!file->pipe && used + bytes > room)
        flush_held(0);
    if (used + bytes + note_bytes > room) {
        dropped++;
        unreported++;
        return;
    }
    copy_in(note, note_bytes);
    copy_in(text, bytes);
    unreported = 0;
}

/* Adds a line unless the file would be too large for it, and writes what is due. The caller holds the lock; it is free
 * afterwards. */
static void append_and_unlock(const char *text, size_t bytes, uint64_t now) {
    bool fits = !most_bytes || file->pipe || taken_bytes + bytes + END_BYTES <= most_bytes;
    bool due = false;
    if (fits) {
        __atomic_store_n(&taken_bytes, taken_bytes + bytes, __ATOMIC_RELAXED);
        oldest_ns = used ? oldest_ns : now;
        add_line(text, bytes);
        due = used > room / 2 || (!gm_trace_flushes() && now - oldest_ns >= flush_ns);
    } else {
        dropped++;
    }
    if (due) {
        oldest_ns = now;
        if (!gm_trace_flushes())
            flush_held(0);
    }
    gm_spin_unlock(&lock);
    if (due && gm_trace_flushes())
        gm_trace_wake(GM_TRACE_WAKE_ALL);
    if (!fits)
        gm_log_once(&reported_full, GM_LOG_WARN, "trace '%s' has reached GPUMEM_TRACE_LIMIT: later events are lost",
                    file->name);
}

/* ---- the format's functions */

static void reset(void) {
    writing = ending = false;
    first = used = begun = 0;
    dropped = unreported = taken_bytes = 0;
    reported = reported_full = 0;
}

static int open_lines(struct gm_trace_file *opened, const struct gm_trace_header *header, uint64_t interval) {
    file = opened;
    start_ns = header->start_ns;
    flush_ns = interval;
    pid = header->pid;
    most_bytes = header->limit;
    room = file->pipe ? PIPE_ROOM : FILE_ROOM;
    if (file->regular) {
        file->append = true;
        gm_fcntl(gm_trace_fd(file), F_SETFL, gm_fcntl(gm_trace_fd(file), F_GETFL, 0) | O_APPEND);
    }
    gm_spin_lock(&lock);
    reset();
    append_and_unlock(gm_trace_csv_header, strlen(gm_trace_csv_header), start_ns);
    gm_spin_lock(&lock);
    append_and_unlock(long_line, gm_trace_csv_about(long_line, sizeof long_line, header), start_ns);
    return 0;
}

static void add_event(const struct gm_event *event) {
    char line[GM_TRACE_CSV_LINE];
    struct gm_event relative = *event;
    gm_trace_make_relative(&relative, start_ns);
    int length = gm_trace_csv_line(line, sizeof line, &relative, pid, gm_thread_id());
    gm_spin_lock(&lock);
    append_and_unlock(line, (size_t)length, event->time_ns);
}

/* The line is long, and the stack may be small. */
static void add_record(const struct gm_record *record) {
    uint64_t now = gm_now_ns();
    gm_spin_lock(&lock);
    append_and_unlock(long_line, gm_trace_csv_record(long_line, sizeof long_line, record), now);
}

static void add_line_row(struct gm_event *row) {
    row->seq = gm_trace_sequence();
    add_event(row);
}

static bool have_room(uint64_t count) {
    uint64_t bytes = __atomic_load_n(&taken_bytes, __ATOMIC_RELAXED) + count * GM_TRACE_CSV_LINE;
    return !most_bytes || bytes <= most_bytes - most_bytes / 8;
}

static void flush(bool all) {
    if (!all)
        return;
    gm_spin_lock(&lock);
    flush_held(gm_trace_flushes() ? PIPE_WAIT : 0);
    gm_spin_unlock(&lock);
}

/* The flusher thread stops at once, unless the reader delays its write. */
static void finish_lines(enum gm_trace_end how) {
    char end[END_BYTES];
    uint64_t until = file->pipe ? gm_now_ns() + END_WAIT : UINT64_MAX;
    gm_spin_lock(&lock);
    ending = true;
    if (wait_for_writer(until))
        write_waiting(until, true);
    unsigned long long lost = dropped + waiting_lines();
    if (!writing)
        drop_all();
    add_line(end, (size_t)gm_format(end, sizeof end, "# end dropped %llu%s\n", lost,
                                    how == GM_TRACE_STOPPED ? " stopped" : ""));
    if (!writing)
        write_waiting(gm_now_ns() + END_WAIT / 10, true);
    gm_spin_unlock(&lock);
    if (lost && file->pipe)
        gm_log(GM_LOG_ERROR, "trace '%s' lost %llu lines", file->name, lost);
}

const struct gm_trace_format gm_trace_text = {
    .open = open_lines,
    .event = add_event,
    .record = add_record,
    .row = add_line_row,
    .have_room = have_room,
    .flush = flush,
    .finish = finish_lines,
    .forget = reset,
};
