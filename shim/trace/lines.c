/* The text trace in a file. Lines are collected in one of two buffers, and a full or due buffer is written by single
 * writes of whole lines. So lines of several threads and processes never mix.
 *
 * A line waits at most the flush interval. With interval 0 it is written before the event returns. Where the trace is
 * a pipe, pipe.c writes it. */
#include "shim/base/file.h"
#include "shim/trace/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define BUFFER      (64u * 1024u)
#define RECORD_LINE 16384u /* a record of 4096 bytes with every byte escaped */
#define ABOUT_LINES 4096u
#define PIPE_WAIT   100 /* ms */

static struct gm_trace_file *file;
static uint64_t start_ns, flush_ns;
static int pid;

static gm_spin lock; /* protects the following; never held across a system call */
static char buffers[2][BUFFER];
static unsigned active; /* index of the buffer that takes lines */
static size_t used;
static bool writing; /* a thread is writing the other buffer */
static uint64_t oldest_ns;

static uint64_t most_bytes, taken_bytes; /* GPUMEM_TRACE_LIMIT (0 = none), and what it allowed so far */
static uint64_t dropped;
static int reported, reported_full;

void gm_lines_limit(uint64_t bytes) { most_bytes = bytes; }

/* Counts a line of a regular file, unless the file would be too large; the last 64 bytes are for the end's line. */
static bool take_bytes(size_t bytes) {
    if (!most_bytes || file->pipe)
        return true;
    if (__atomic_add_fetch(&taken_bytes, bytes, __ATOMIC_RELAXED) + 64 <= most_bytes)
        return true;
    __atomic_fetch_sub(&taken_bytes, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&dropped, 1, __ATOMIC_RELAXED);
    gm_log_once(&reported_full, GM_LOG_WARN, "trace '%s' has reached GPUMEM_TRACE_LIMIT: later events are lost",
                file->name);
    return false;
}

bool gm_lines_have_room(uint64_t count) {
    uint64_t bytes = count * GM_TRACE_CSV_LINE;
    return !most_bytes || __atomic_load_n(&taken_bytes, __ATOMIC_RELAXED) + bytes <= most_bytes - most_bytes / 8;
}

static void drop(const char *text, size_t bytes, int error) {
    uint64_t lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    __atomic_fetch_add(&dropped, lines, __ATOMIC_RELAXED);
    gm_log_once(&reported, GM_LOG_ERROR, "trace '%s' loses events: %s", file->name, gm_errno_text(error));
}

/* Writes the text. What cannot be written is counted as dropped. Only one thread at a time runs this. */
static void write_out(const char *text, size_t bytes) {
    if (!gm_trace_file_holds(file)) {
        drop(text, bytes, EBADF);
        return;
    }
    const char *first = text;
    size_t rest_of_line = 0; /* remaining bytes of a partly written line */
    while (bytes) {
        ssize_t written = gm_safe_write(gm_trace_fd(file), text, rest_of_line ? rest_of_line : bytes);
        if (written <= 0) {
            int error = written < 0 ? errno : ENOSPC;
            if (rest_of_line && file->regular) {
                /* A full disk cut the line, which would damage the file. Removes the beginning of the line. */
                const char *begin = text;
                while (begin > first && begin[-1] != '\n')
                    begin--;
                off_t size = lseek(gm_trace_fd(file), 0, SEEK_END);
                if (size >= text - begin && ftruncate(gm_trace_fd(file), size - (text - begin)))
                    error = errno;
            }
            drop(text, bytes, error);
            return;
        }
        text += written;
        bytes -= (size_t)written;
        rest_of_line = 0;
        if (bytes && text[-1] != '\n')
            rest_of_line = (size_t)((const char *)memchr(text, '\n', bytes) - text) + 1;
    }
}

/* The caller holds the lock, before and after. Waits for a running write, then writes the collected lines. */
static void flush_held(void) {
    while (writing) {
        gm_spin_unlock(&lock);
        sched_yield();
        gm_spin_lock(&lock);
    }
    if (!used)
        return;
    char *full = buffers[active];
    size_t bytes = used;
    active ^= 1;
    used = 0;
    writing = true;
    gm_spin_unlock(&lock);
    write_out(full, bytes);
    gm_spin_lock(&lock);
    writing = false;
}

/* Only the flusher thread waits for a reader. */
static void end_for_pipe(size_t bytes, uint64_t now) {
    bool half_full = gm_pipe_line(buffers[active], bytes);
    bool due = half_full || (!gm_trace_flushes() && now - oldest_ns >= flush_ns);
    if (due)
        oldest_ns = now;
    gm_spin_unlock(&lock);
    if (due && gm_trace_flushes())
        gm_trace_wake(GM_TRACE_WAKE_ALL);
    else if (due)
        gm_pipe_flush(0);
}

/* Reserves room for up to `most` bytes, which append_end adds. Long text is built there, since the stack may be small.
 */
static char *append_begin(size_t most) {
    gm_spin_lock(&lock);
    while (used + most > BUFFER)
        flush_held();
    return buffers[active] + used;
}

static void append_end(size_t bytes, uint64_t now) {
    if (file->pipe) {
        end_for_pipe(bytes, now);
        return;
    }
    if (!used)
        oldest_ns = now;
    used += bytes;
    if (!flush_ns || (!gm_trace_flushes() && now - oldest_ns >= flush_ns))
        flush_held();
    gm_spin_unlock(&lock);
}

static void append(const char *text, size_t bytes, uint64_t now) {
    memcpy(append_begin(bytes), text, bytes);
    append_end(bytes, now);
}

void gm_lines_open(struct gm_trace_file *opened, const struct gm_trace_header *header, uint64_t interval) {
    file = opened;
    start_ns = header->start_ns;
    flush_ns = interval;
    pid = header->pid;
    gm_spin_lock(&lock);
    used = 0;
    dropped = 0;
    reported = reported_full = 0;
    gm_spin_unlock(&lock);
    if (file->regular) {
        file->append = true;
        gm_fcntl(gm_trace_fd(file), F_SETFL, gm_fcntl(gm_trace_fd(file), F_GETFL, 0) | O_APPEND);
    }
    if (file->pipe)
        gm_pipe_open(file);
    append(gm_trace_csv_header, strlen(gm_trace_csv_header), header->start_ns);
    size_t about = gm_trace_csv_about(append_begin(ABOUT_LINES), ABOUT_LINES, header);
    append_end(about, header->start_ns);
    taken_bytes = strlen(gm_trace_csv_header) + about;
}

void gm_lines_event(const struct gm_event *event) {
    char line[GM_TRACE_CSV_LINE];
    struct gm_event relative = *event;
    gm_trace_make_relative(&relative, start_ns);
    int length = gm_trace_csv_line(line, sizeof line, &relative, pid, gm_thread_id());
    if (take_bytes((size_t)length))
        append(line, (size_t)length, event->time_ns);
}

void gm_lines_record(const struct gm_record *record) {
    size_t length = gm_trace_csv_record(append_begin(RECORD_LINE), RECORD_LINE, record);
    append_end(take_bytes(length) ? length : 0, gm_now_ns());
}

void gm_lines_flush(void) {
    if (file->pipe) {
        gm_pipe_flush(gm_trace_flushes() ? PIPE_WAIT : 0);
        return;
    }
    gm_spin_lock(&lock);
    flush_held();
    gm_spin_unlock(&lock);
}

void gm_lines_finish(enum gm_trace_end how) {
    char end[64];
    if (file->pipe) {
        gm_pipe_finish(how);
        return;
    }
    gm_spin_lock(&lock);
    flush_held();
    int length = gm_format(end, sizeof end, "# end dropped %llu%s\n",
                           (unsigned long long)__atomic_load_n(&dropped, __ATOMIC_RELAXED),
                           how == GM_TRACE_STOPPED ? " stopped" : "");
    while (used + (size_t)length > BUFFER)
        flush_held();
    memcpy(buffers[active] + used, end, (size_t)length);
    used += (size_t)length;
    flush_held();
    gm_spin_unlock(&lock);
}

void gm_lines_forget(void) {
    gm_pipe_forget();
    lock.held = 0;
    writing = false;
    used = 0;
    dropped = taken_bytes = 0;
    reported = reported_full = 0;
}
