/* The name of the trace file: patterns such as %p, and the rule by which two processes never share a file. Also opens
 * the file (open.c), and opens it again when the program closed its descriptor. */
#include "policy/digits.h"
#include "shim/base/file.h"
#include "shim/trace/parts.h"
#include "shim/trace/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define NAMES_TRIED 100

int gm_trace_rank(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",    "PMI_RANK",
                                        "MV2_COMM_WORLD_RANK",  "SLURM_PROCID", "RANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);
        if (!text)
            continue;
        uint64_t rank;
        if (gm_read_digits(&text, NULL, &rank) && !*text && rank < 1000000000)
            return (int)rank;
    }
    return -1;
}

int gm_trace_expand(const char *pattern, char *out, size_t size) {
    size_t used = 0;
    struct utsname host;
    char number[24];
    for (const char *p = pattern; *p; p++) {
        const char *piece = p;
        size_t length = 1;
        if (*p == '%') {
            switch (*++p) {
            case 'p':
                gm_format(number, sizeof number, "%d", (int)getpid());
                piece = number;
                break;
            case 'r': {
                int rank = gm_trace_rank();
                gm_format(number, sizeof number, "%d", rank < 0 ? 0 : rank);
                piece = number;
                break;
            }
            case 'h': piece = uname(&host) ? "localhost" : host.nodename; break;
            case '%': piece = "%"; break;
            default: return -1;
            }
            length = strlen(piece);
        }
        if (used + length >= size)
            return -1;
        memcpy(out + used, piece, length);
        used += length;
    }
    if (used >= size)
        return -1;
    out[used] = 0;
    return 0;
}

uint64_t gm_trace_process_start(void) {
    uint64_t now = gm_clock_ns(CLOCK_REALTIME);
    char text[1024];
    gm_read_text("/proc/self/stat", text, sizeof text);
    /* The program's name may contain blanks and brackets, so fields are counted from the last ')'. The start time is
     * field 22. */
    const char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    if (!p)
        return now;
    uint64_t ticks = 0;
    p++;
    gm_read_digits(&p, NULL, &ticks);
    long per_second = sysconf(_SC_CLK_TCK);
    uint64_t up = gm_clock_ns(CLOCK_BOOTTIME);
    uint64_t started = per_second > 0 ? ticks * (1000000000u / (uint64_t)per_second) : up;
    return started < up ? now - (up - started) : now;
}

bool gm_trace_name_is_csv(const char *name) {
    size_t length = strlen(name);
    return length >= 4 && !strcmp(name + length - 4, ".csv");
}

/* name, name.PID, name.PID.2 ... The ending .csv stays at the end, because it selects the format. */
static int numbered_name(char *out, size_t size, const char *name, int attempt) {
    if (attempt == 0)
        return gm_format(out, size, "%s", name);
    size_t stem = strlen(name);
    const char *tail = "";
    if (gm_trace_name_is_csv(name)) {
        stem -= 4;
        tail = ".csv";
    }
    if (attempt == 1)
        return gm_format(out, size, "%.*s.%d%s", (int)stem, name, (int)getpid(), tail);
    return gm_format(out, size, "%.*s.%d.%d%s", (int)stem, name, (int)getpid(), attempt, tail);
}

static bool looks_like_trace(int fd) {
    char head[32];
    ssize_t length = gm_pread(fd, head, sizeof head, 0);
    return (length >= 8 && !memcmp(head, GM_TRACE_MAGIC, 8)) ||
           (length == (ssize_t)sizeof head && !memcmp(head, gm_trace_csv_header, sizeof head));
}

enum claim { CLAIMED, TAKEN, AGAIN, FOREIGN };

/* Decides whether the regular file behind `fd` may be used, and empties it if so. */
static enum claim claim_file(int fd, const char *name, uint64_t started_ns, bool keep) {
    struct stat st, now;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return TAKEN;
    if (gm_fstat(fd, &st))
        return FOREIGN;
    if (gm_stat(name, &now) || now.st_ino != st.st_ino || now.st_dev != st.st_dev)
        return AGAIN; /* the file was removed or renamed between our open and our lock */
    if (st.st_size == 0)
        return CLAIMED;
    uint64_t modified = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    if (!looks_like_trace(fd))
        return FOREIGN;
    if (keep || modified >= started_ns)
        return TAKEN;
    return ftruncate(fd, 0) ? FOREIGN : CLAIMED;
}

/* The number of the program's descriptor when the name is an alias of one, else -1. */
static int descriptor_of(const char *name) {
    if (!strcmp(name, "/dev/stdout"))
        return 1;
    if (!strcmp(name, "/dev/stderr"))
        return 2;
    const char *digits = !strncmp(name, "/dev/fd/", 8)          ? name + 8
                         : !strncmp(name, "/proc/self/fd/", 14) ? name + 14
                                                                : "";
    uint64_t fd;
    return gm_read_digits(&digits, NULL, &fd) && !*digits && fd < 1000000 ? (int)fd : -1;
}

/* The descriptor is stored last: a thread that finds one reads the rest, too. */
static void settle_file(struct gm_trace_file *file, int fd, bool regular) {
    struct stat st;
    fd = gm_lift(fd);
    file->regular = regular;
    file->append = false;
    file->pipe = false;
    file->device = 0;
    file->inode = 0;
    if (!gm_fstat(fd, &st)) {
        file->pipe = !S_ISREG(st.st_mode);
        file->device = st.st_dev;
        file->inode = st.st_ino;
    }
    __atomic_store_n(&file->fd, fd, __ATOMIC_RELEASE);
}

/* Opens a pipe again, so that it can be non-blocking without changing the program's own descriptor. Where that is not
 * possible the descriptor is duplicated. */
static int share(int own) {
    char name[32];
    struct stat st;
    gm_format(name, sizeof name, "/proc/self/fd/%d", own);
    int fd = gm_fstat(own, &st) || !S_ISFIFO(st.st_mode) ? -1 : gm_open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 ? fd : gm_fcntl(own, F_DUPFD_CLOEXEC, GM_FD_FLOOR);
}

static __attribute__((format(printf, 2, 3))) int cannot(struct gm_trace_file *file, const char *format, ...) {
    va_list args;
    va_start(args, format);
    gm_vformat(file->why, sizeof file->why, format, args);
    va_end(args);
    return -1;
}

int gm_trace_open(const char *pattern, uint64_t started_ns, bool keep, struct gm_trace_file *file) {
    static char base[GM_TRACE_NAME]; /* the caller holds the `opening` lock */
    struct stat st;
    if (gm_trace_expand(pattern, base, sizeof base - 48))
        return cannot(file, "trace file name '%s' is too long or has a %% that is none of %%p %%h %%r %%%%", pattern);
    int own = descriptor_of(base);
    if (own >= 0) {
        int fd = share(own);
        if (fd < 0)
            return cannot(file, "cannot write the trace to '%s': %s", base, gm_errno_text(errno));
        gm_format(file->name, sizeof file->name, "%s", base);
        settle_file(file, fd, false);
        return 0;
    }
    int again = 0;
    for (int attempt = 0; attempt < NAMES_TRIED; attempt++) {
        numbered_name(file->name, sizeof file->name, base, attempt);
        const char *why;
        int fd = gm_trace_open_named(file->name, true, &why);
        if (fd < 0 || gm_fstat(fd, &st)) {
            bool unread = fd < 0 && errno == ENXIO && !gm_stat(file->name, &st) && S_ISFIFO(st.st_mode);
            cannot(file, "cannot open trace file '%s': %s", file->name,
                   why      ? why
                   : unread ? "a pipe that nobody reads"
                            : gm_errno_text(errno));
            if (fd >= 0)
                gm_close(fd);
            return -1;
        }
        if (!S_ISREG(st.st_mode)) {
            settle_file(file, fd, false);
            return 0;
        }
        switch (claim_file(fd, file->name, started_ns, keep)) {
        case CLAIMED: settle_file(file, fd, true); return 0;
        case FOREIGN:
            gm_close(fd);
            return cannot(file, "'%s' exists and is not a gpumem trace: left alone, no trace is written", file->name);
        case AGAIN:
            if (again++ < NAMES_TRIED)
                attempt--;
            break;
        case TAKEN: break;
        }
        gm_close(fd);
    }
    return cannot(file, "no free name for trace file '%s' after %d tries", base, NAMES_TRIED);
}

static bool is_ours(const struct gm_trace_file *file, int fd) {
    struct stat st;
    return fd >= 0 && !gm_fstat(fd, &st) && st.st_dev == file->device && st.st_ino == file->inode;
}

GM_LOCK(reopening);

bool gm_trace_file_holds(struct gm_trace_file *file) {
    if (is_ours(file, gm_trace_fd(file)))
        return true;
    if (!file->regular || !file->name[0])
        return false;
    /* The program closed every descriptor that it did not open. The number may be the program's now, so it is not
     * closed. */
    gm_spin_lock(&reopening);
    const char *why;
    int fd = is_ours(file, gm_trace_fd(file)) ? gm_trace_fd(file) : gm_trace_open_named(file->name, false, &why);
    bool ours = is_ours(file, fd);
    if (ours && file->append && fd != gm_trace_fd(file))
        gm_fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK);
    if (fd >= 0 && !ours)
        gm_close(fd);
    if (ours && fd != gm_trace_fd(file)) {
        flock(fd, LOCK_EX | LOCK_NB);
        __atomic_store_n(&file->fd, gm_lift(fd), __ATOMIC_RELEASE);
    }
    gm_spin_unlock(&reopening);
    return ours;
}

void gm_trace_file_close(struct gm_trace_file *file) {
    gm_spin_lock(&reopening);
    int fd = gm_trace_fd(file);
    __atomic_store_n(&file->fd, -1, __ATOMIC_RELEASE);
    file->name[0] = 0;
    if (is_ours(file, fd))
        gm_close(fd);
    gm_spin_unlock(&reopening);
}
