/* The text trace: lines gather in one of two buffers and leave in single writes, so that lines never mix.
 *
 * A line waits at most the flush interval (a small thread sees to it); with interval 0 it is out before the
 * event returns. */
#include "shim/base/truedl.h"
#include "shim/base/file.h"
#include "shim/trace/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFER      (64u * 1024u)
#define RECORD_LINE 16384u /* a record of 4096 bytes, every byte of it escaped */
#define PIPE_PIECE  4096u  /* PIPE_BUF: up to here several writers of one pipe do not mix */
#define PIPE_WAIT   1000   /* ms a reader may leave a full non-blocking pipe alone before lines are lost */

static struct gm_trace_file *file;
static uint64_t start_ns, flush_ns;
static int pid;
static bool flusher;     /* the thread runs */
static uint32_t open_as; /* generation the buffers belong to */

static gm_spin lock; /* guards what follows; never held across a system call */
static char buffers[2][BUFFER];
static unsigned active; /* buffer that lines go to */
static size_t used;
static bool writing; /* somebody writes the other buffer */
static uint64_t oldest_ns;

static uint64_t dropped;
static int told;

static void lose(const char *text, size_t bytes, int error) {
    uint64_t lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    __atomic_fetch_add(&dropped, lines, __ATOMIC_RELAXED);
    gm_log_once(&told, GM_LOG_ERROR, "trace '%s' loses events: %s", file->name, gm_errno_text(error));
}

/* Length of the whole lines within the first `most` bytes; `most` when there is no line end. */
static size_t whole_lines(const char *text, size_t bytes, size_t most) {
    if (bytes <= most)
        return bytes;
    const char *last = memrchr(text, '\n', most);
    return last ? (size_t)(last - text) + 1 : most;
}

/* Out with it; what cannot be written is counted. Only one thread at a time is here. */
static void write_out(const char *text, size_t bytes) {
    if (!gm_trace_file_holds(file)) {
        lose(text, bytes, EBADF);
        return;
    }
    const char *first = text;
    size_t rest_of_line = 0; /* bytes of a line that is half out */
    while (bytes) {
        size_t piece = rest_of_line    ? rest_of_line
                       : file->regular ? bytes
                                       : whole_lines(text, bytes, PIPE_PIECE);
        ssize_t written = gm_quiet_write(file->fd, text, piece);
        if (written < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = file->fd, .events = POLLOUT};
            if (poll(&ready, 1, PIPE_WAIT) > 0)
                continue;
            errno = EAGAIN;
        }
        if (written <= 0) {
            int error = written < 0 ? errno : ENOSPC;
            if (rest_of_line && file->regular) {
                /* A line cut by a full disk would spoil the file: take its beginning back. */
                const char *begin = text;
                while (begin > first && begin[-1] != '\n')
                    begin--;
                off_t size = lseek(file->fd, 0, SEEK_END);
                if (size >= text - begin && ftruncate(file->fd, size - (text - begin)))
                    error = errno;
            }
            lose(text, bytes, error);
            return;
        }
        text += written;
        bytes -= (size_t)written;
        rest_of_line = 0;
        if (bytes && text[-1] != '\n')
            rest_of_line = (size_t)((const char *)memchr(text, '\n', bytes) - text) + 1;
    }
}

/* Called with the lock held, returns with it held. Waits for a write in progress, then writes what has
 * gathered. */
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

static void append(const char *text, size_t bytes, uint64_t now) {
    gm_spin_lock(&lock);
    while (used + bytes > BUFFER)
        flush_held();
    if (!used)
        oldest_ns = now;
    memcpy(buffers[active] + used, text, bytes);
    used += bytes;
    if (!flush_ns || (!flusher && now - oldest_ns >= flush_ns))
        flush_held();
    gm_spin_unlock(&lock);
}

/* Told its generation: the trace may have ended before this thread first runs. */
static void *flush_often(void *opened_as) {
    uint32_t generation = (uint32_t)(uintptr_t)opened_as;
    struct timespec pause = {(time_t)(flush_ns / 1000000000u), (long)(flush_ns % 1000000000u)};
    while (__atomic_load_n(&open_as, __ATOMIC_ACQUIRE) == generation) {
        nanosleep(&pause, NULL);
        gm_spin_lock(&lock);
        if (__atomic_load_n(&open_as, __ATOMIC_ACQUIRE) == generation)
            flush_held();
        gm_spin_unlock(&lock);
    }
    return NULL;
}

void gm_lines_open(struct gm_trace_file *opened, const struct gm_trace_header *header, uint64_t interval) {
    char about[4096];
    file = opened;
    start_ns = header->start_ns;
    flush_ns = interval;
    pid = header->pid;
    if (file->regular) {
        file->append = true;
        gm_fcntl(file->fd, F_SETFL, gm_fcntl(file->fd, F_GETFL, 0) | O_APPEND);
    }
    __atomic_store_n(&open_as, *gm_trace_generation, __ATOMIC_RELEASE);
    flusher = false;
    append(gm_trace_csv_header, strlen(gm_trace_csv_header), header->start_ns);
    append(about, gm_trace_csv_about(about, sizeof about, header), header->start_ns);
    if (flush_ns)
        flusher = !gm_thread_start(flush_often, (void *)(uintptr_t)open_as);
}

void gm_lines_event(const struct gm_event *event) {
    char line[GM_TRACE_CSV_LINE];
    struct gm_event relative = *event;
    relative.time_ns = event->time_ns > start_ns ? event->time_ns - start_ns : 0;
    int length = gm_trace_csv_line(line, sizeof line, &relative, pid, gm_thread_id());
    append(line, (size_t)length, event->time_ns);
}

void gm_lines_record(const struct gm_record *record) {
    char line[RECORD_LINE];
    append(line, gm_trace_csv_record(line, sizeof line, record), gm_now_ns());
}

void gm_lines_finish(void) {
    char end[64];
    gm_spin_lock(&lock);
    flush_held();
    int length = gm_format(end, sizeof end, "# end dropped %llu\n",
                           (unsigned long long)__atomic_load_n(&dropped, __ATOMIC_RELAXED));
    while (used + (size_t)length > BUFFER)
        flush_held();
    memcpy(buffers[active] + used, end, (size_t)length);
    used += (size_t)length;
    flush_held();
    __atomic_store_n(&open_as, 0, __ATOMIC_RELEASE); /* the flusher ends */
    gm_spin_unlock(&lock);
}

void gm_lines_forget(void) {
    __atomic_store_n(&open_as, 0, __ATOMIC_RELEASE);
    lock.held = 0;
    writing = false;
    used = 0;
    dropped = 0;
    told = 0;
}
