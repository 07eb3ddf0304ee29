/* The text trace to a reader: a pipe, a socket or a terminal. Lines are collected in a ring buffer and written in
 * pieces of at most PIPE_BUF bytes, which a pipe takes as a whole. So lines of several writers never mix.
 *
 * The program never waits for a reader. When the reader is slow or has stopped, lines are dropped and counted. The log
 * reports this once, and again at the end. The trace states how many lines are missing, and where. */
#include "shim/trace/parts.h"

#include <errno.h>
#include <string.h>

#define ROOM     (4u * 1024u * 1024u)  /* a burst of 35 000 events */
#define PIECE    4096u                 /* PIPE_BUF */
#define END_WAIT UINT64_C(1000000000)  /* ns without a byte read, after which the rest is dropped at the end */
#define END_MOST UINT64_C(10000000000) /* longest delay of a program's end in ns, while a reader still reads */

static struct gm_trace_file *file;

static gm_spin lock; /* protects the following; never held across a system call */
static char ring[ROOM];
static size_t first, used;
static bool writing;                 /* a thread is writing from the ring ... */
static char piece[PIECE];            /* ... this piece */
static bool ending;                  /* only the thread that ends the trace may still write */
static uint64_t dropped, unreported; /* lines; `unreported`: those that the trace does not state yet */

static int reported;

void gm_pipe_open(struct gm_trace_file *opened) { file = opened; }

/* ---- the ring; the caller holds the lock */

static void copy_in(const char *text, size_t bytes) {
    size_t at = (first + used) % ROOM, before_end = bytes < ROOM - at ? bytes : ROOM - at;
    memcpy(ring + at, text, before_end);
    memcpy(ring, text + before_end, bytes - before_end);
    used += bytes;
}

/* Copies whole lines, or the beginning of a line that is longer than a piece. */
static size_t copy_out(void) {
    size_t bytes = used < PIECE ? used : PIECE, before_end = bytes < ROOM - first ? bytes : ROOM - first;
    memcpy(piece, ring + first, before_end);
    memcpy(piece + before_end, ring, bytes - before_end);
    const char *last = memrchr(piece, '\n', bytes);
    return last ? (size_t)(last - piece) + 1 : bytes;
}

/* Counts the waiting lines of events. A lost comment is not a lost event. */
static uint64_t waiting_lines(void) {
    uint64_t lines = 0;
    bool comment = false, begins = true;
    for (size_t i = 0; i < used; i++) {
        char c = ring[(first + i) % ROOM];
        comment = begins ? c == '#' : comment;
        begins = c == '\n';
        lines += begins && !comment;
    }
    return lines;
}

static void drop_all(void) {
    dropped += waiting_lines();
    first = used = 0;
}

/* ---- lines */

static void report_loss(int error) {
    gm_log_once(&reported, GM_LOG_ERROR, "trace '%s' loses events: %s", file->name, gm_errno_text(error));
}

bool gm_pipe_line(const char *text, size_t bytes) {
    char note[64];
    gm_spin_lock(&lock);
    size_t note_bytes =
        unreported ? (size_t)gm_format(note, sizeof note, "# dropped %llu\n", (unsigned long long)unreported) : 0;
    bool fits = bytes + note_bytes <= ROOM - used;
    if (fits) {
        copy_in(note, note_bytes);
        copy_in(text, bytes);
        unreported = 0;
    } else {
        dropped++;
        unreported++;
    }
    bool half = used > ROOM / 2;
    gm_spin_unlock(&lock);
    return half;
}

/* Writes the ring; waits for the reader at most until `until`. `last`: the trace ends, and a reader that still reads
 * gets more time. */
static void flush_until(uint64_t until, bool last) {
    uint64_t most = gm_now_ns() + END_MOST;
    int error = 0;
    gm_spin_lock(&lock);
    if (writing) {
        gm_spin_unlock(&lock);
        return;
    }
    writing = true;
    while (used && !error && (last || !ending)) {
        size_t bytes = copy_out();
        gm_spin_unlock(&lock);
        ssize_t written = -1;
        uint64_t now = gm_now_ns();
        if (!gm_trace_file_holds(file))
            error = EBADF;
        else if (!gm_safe_takes(gm_trace_fd(file), now < until ? (unsigned)((until - now) / 1000000) : 0))
            error = EAGAIN;
        else if ((written = gm_safe_write(gm_trace_fd(file), piece, bytes)) < 0)
            error = errno;
        gm_spin_lock(&lock);
        if (written > 0) {
            first = (first + (size_t)written) % ROOM;
            used -= (size_t)written;
            if (last && now < most)
                until = now + END_WAIT;
        }
    }
    if (error && error != EAGAIN)
        drop_all();
    writing = false;
    uint64_t lost = dropped;
    gm_spin_unlock(&lock);
    if (lost)
        report_loss(error ? error : EAGAIN);
}

void gm_pipe_flush(unsigned wait_ms) { flush_until(gm_now_ns() + wait_ms * UINT64_C(1000000), false); }

/* The flusher thread stops at once, unless the reader delays its write. */
void gm_pipe_finish(enum gm_trace_end how) {
    char end[64];
    uint64_t until = gm_now_ns() + END_WAIT;
    bool busy;
    do {
        gm_spin_lock(&lock);
        ending = true;
        busy = writing;
        gm_spin_unlock(&lock);
        if (busy)
            gm_sleep(1000000);
    } while (busy && gm_now_ns() < until);
    flush_until(until, true);
    gm_spin_lock(&lock);
    unsigned long long lost = dropped + waiting_lines();
    if (!writing)
        drop_all();
    gm_spin_unlock(&lock);
    gm_pipe_line(end, (size_t)gm_format(end, sizeof end, "# end dropped %llu%s\n", lost,
                                        how == GM_TRACE_STOPPED ? " stopped" : ""));
    flush_until(gm_now_ns() + END_WAIT / 10, true);
    if (lost)
        gm_log(GM_LOG_ERROR, "trace '%s' lost %llu lines", file->name, lost);
}

void gm_pipe_forget(void) {
    lock.held = 0;
    writing = ending = false;
    first = used = 0;
    dropped = unreported = 0;
    reported = 0;
}
