/* gpumem trace: start and stop (trace_control.c), and dump, which copies the trace that a running process writes, as it
 * is now, into a file that can be read. The process is not disturbed: chunks that it changes meanwhile are read again.
 */
#include "shim/base/options.h"
#include "shim/trace/event.h"
#include "tools/cli/commands.h"
#include "tools/cli/flags.h"
#include "tools/cli/meant.h"
#include "tools/cli/process_file.h"
#include "tools/cli/shown.h"
#include "tools/cli/trace_control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 100 };

void gm_command_trace_help(void) {
    puts(
        "usage: gpumem trace start [--trace=FILE] [--stacks=N] PID\n"
        "       gpumem trace stop PID\n"
        "       gpumem trace dump --output=FILE PID\n\n"
        "Starts or stops the trace of a process that runs under gpumem, or copies the trace that it writes, up to its\n"
        "last flush, into a file that gpumem report and others read. A trace that is started has the live blocks of\n"
        "that time first. A trace that exists is not overwritten: the new one gets a number. With GPUMEM_TRACE_RING\n"
        "dump gives the latest part of a long run.\n");
    gm_flags_help("trace");
}

static int trouble(long pid, const char *what) {
    gm_complain("trace: process %ld: %s", pid, what);
    return 1;
}

/* ---- copying */

static bool read_all(int fd, void *data, size_t bytes, uint64_t offset) {
    return pread(fd, data, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool write_all(int fd, const void *data, size_t bytes, uint64_t offset) {
    return pwrite(fd, data, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool is_chunk(const struct gm_trace_chunk *chunk) {
    return chunk->magic == GM_TRACE_CHUNK_MAGIC && chunk->bytes >= GM_TRACE_HEADER && chunk->bytes <= GM_TRACE_CHUNK &&
           chunk->bytes % GM_TRACE_HEADER == 0 && chunk->used <= chunk->bytes - sizeof *chunk;
}

/* A chunk is used again from its beginning, with a count of 0 first. So if the count is not lower after the payload was
 * read, and the first event is the same, the payload belongs to the count. */
static bool read_chunk(int from, uint64_t offset, char *out) {
    struct gm_trace_chunk *chunk = (struct gm_trace_chunk *)out, after;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        uint64_t first = 0, first_after = 0;
        if (!read_all(from, chunk, sizeof *chunk, offset) || !is_chunk(chunk))
            return false;
        if (chunk->used && !read_all(from, out + sizeof *chunk, chunk->used, offset + sizeof *chunk))
            return false;
        if (chunk->used >= sizeof first)
            memcpy(&first, out + sizeof *chunk, sizeof first);
        if (chunk->used >= sizeof first && !read_all(from, &first_after, sizeof first_after, offset + sizeof *chunk))
            return false;
        if (read_all(from, &after, sizeof after, offset) && after.used >= chunk->used &&
            after.thread == chunk->thread && first == first_after)
            return true;
    }
    chunk->used = 0; /* the process is faster than this tool */
    return true;
}

/* Where the next data may be from here on: a hole is stepped over at once, whatever size the file claims. */
static uint64_t skip_hole(int from, uint64_t at, uint64_t size) {
    off_t data = lseek(from, (off_t)at, SEEK_DATA);
    uint64_t next = data >= 0 ? (uint64_t)data / GM_TRACE_HEADER * GM_TRACE_HEADER : errno == ENXIO ? size : at;
    return next > at ? next : at + GM_TRACE_HEADER;
}

static bool copy_binary(int from, int to, uint64_t size) {
    char *room = malloc(GM_TRACE_CHUNK);
    bool done = room && read_all(from, room, GM_TRACE_HEADER, 0) && write_all(to, room, GM_TRACE_HEADER, 0);
    for (uint64_t at = GM_TRACE_HEADER; done && at < size;) {
        if (!read_chunk(from, at, room)) {
            at = skip_hole(from, at, size);
            continue;
        }
        const struct gm_trace_chunk *chunk = (const struct gm_trace_chunk *)room;
        done = write_all(to, room, sizeof *chunk + chunk->used, at);
        at += chunk->bytes;
    }
    free(room);
    return done && !ftruncate(to, (off_t)size);
}

/* Whole lines. */
static bool copy_text(int from, int to, uint64_t size) {
    char room[65536];
    uint64_t at = 0, whole = 0;
    for (ssize_t got; at < size && (got = pread(from, room, sizeof room, (off_t)at)) > 0; at += (uint64_t)got) {
        const char *last = memrchr(room, '\n', (size_t)got);
        whole = last ? at + (uint64_t)(last - room) + 1 : whole;
        if (!write_all(to, room, (size_t)got, at))
            return false;
    }
    return !ftruncate(to, (off_t)whole);
}

/* The process may name any file. Only a trace is copied, and only the caller may read the copy. */
static int copy(long pid, int from, const char *output) {
    struct stat st;
    char begin[64] = "";
    bool read = !fstat(from, &st) && pread(from, begin, sizeof begin - 1, 0) >= 0;
    bool binary = read && !memcmp(begin, GM_TRACE_MAGIC, strlen(GM_TRACE_MAGIC));
    if (!binary && (!read || strncmp(begin, gm_trace_csv_header, sizeof begin - 1)))
        return trouble(pid, "the file that it names is no trace");
    int to = open(output, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0) {
        gm_complain("trace: %s: %s", output, strerror(errno));
        return 1;
    }
    bool done = binary ? copy_binary(from, to, (uint64_t)st.st_size) : copy_text(from, to, (uint64_t)st.st_size);
    if (close(to) || !done) {
        gm_complain("trace: %s: cannot be written: %s", output, strerror(errno));
        unlink(output);
        return 1;
    }
    return 0;
}

static int dump(long pid, const char *output) {
    static struct gm_stats stats;
    struct gm_process_counters *counters;
    const char *why;
    int from = -1;
    enum gm_counters_status status = gm_process_counters_open((pid_t)pid, &counters);
    if (!status)
        status = gm_process_counters_read(counters, &stats);
    if (!status && stats.trace[0])
        from = gm_process_trace_open(counters, stats.trace, &why);
    gm_process_counters_close(counters);
    if (status)
        return trouble(pid, gm_process_counters_reason(status));
    if (!stats.trace[0])
        return trouble(pid, "it writes no trace, or has recorded no event yet");
    if (from < 0) {
        gm_complain("trace: process %ld: its trace: %s", pid, why);
        return 1;
    }
    int result = copy(pid, from, output);
    close(from);
    return result;
}

/* ---- arguments */

struct arguments {
    const char *output, *trace, *stacks;
};

static int take(void *data, const char *name, const char *value) {
    struct arguments *a = data;
    *(*name == 'o' ? &a->output : *name == 't' ? &a->trace : &a->stacks) = value;
    return 0;
}

static int start(long pid, const struct arguments *a) {
    uint64_t stacks = UINT32_MAX;
    char error[256];
    struct gm_option row = gm_option_rows[GM_OPT_STACKS];
    row.name = "--stacks";
    if (a->trace && !*a->trace)
        return gm_usage_error("trace: --trace= has no name of a file");
    if (a->stacks && gm_option_parse(&row, a->stacks, &stacks, error, sizeof error))
        return gm_usage_error("trace: %s", error);
    return gm_trace_control_start(pid, a->trace ? a->trace : "gpumem.%p.gmt", (uint32_t)stacks);
}

/* A flag that the word does not take. */
static const char *surplus(const char *word, const struct arguments *a) {
    bool starts = !strcmp(word, "start");
    return a->trace && !starts         ? "--trace"
           : a->stacks && !starts      ? "--stacks"
           : a->output && *word != 'd' ? "--output"
                                       : NULL;
}

int gm_command_trace(int argc, char **argv) {
    struct arguments a = {NULL, NULL, NULL};
    int first, status = gm_flags_read(argc, argv, take, &a, gm_command_trace_help, &first);
    char *end;
    if (status >= 0)
        return status;
    const char *word = argc - first == 2 ? argv[first] : "";
    if (!*word)
        return gm_usage_error("trace: expected start, stop or dump, and a process id");
    if (strcmp(word, "start") && strcmp(word, "stop") && strcmp(word, "dump")) {
        struct gm_meant meant = gm_meant_begin(word, strlen(word), "");
        gm_meant_try_list(&meant, "start|stop|dump", '|');
        return gm_usage_error("trace: '%s' is none of start, stop and dump%s", word, gm_meant_text(&meant).text);
    }
    if (surplus(word, &a))
        return gm_usage_error("trace: %s is not for %s", surplus(word, &a), word);
    if (*word == 'd' && (!a.output || !*a.output))
        return gm_usage_error("trace: --output=FILE is missing");
    errno = 0;
    long pid = strtol(argv[first + 1], &end, 10);
    if (end == argv[first + 1] || *end || errno || pid <= 0 || pid > INT32_MAX)
        return gm_usage_error("trace: '%s' is not a process id", argv[first + 1]);
    return *word == 'd' ? dump(pid, a.output) : !strcmp(word, "stop") ? gm_trace_control_stop(pid) : start(pid, &a);
}
