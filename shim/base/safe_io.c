/* Signal-safe I/O: writes that do not disturb the program. A broken pipe or a file size limit is an error code here,
 * never a signal. The two signals are blocked during the write, and one that the write raised is consumed. */
#include "shim/base/file.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>

struct signals {
    sigset_t ours, before, pending;
};

static void block_signals(struct signals *q) {
    sigemptyset(&q->ours);
    sigaddset(&q->ours, SIGPIPE);
    sigaddset(&q->ours, SIGXFSZ);
    sigpending(&q->pending);
    /* On Linux sigprocmask acts on the calling thread. It lies in libc even where pthread_sigmask does not. */
    sigprocmask(SIG_BLOCK, &q->ours, &q->before);
}

static void restore_signals(struct signals *q, int error) {
    int raised = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
    if (raised && !sigismember(&q->pending, raised)) {
        static const struct timespec now = {0, 0};
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, raised);
        while (syscall(SYS_rt_sigtimedwait, &one, NULL, &now, 8 /* bytes of the kernel's set */) < 0 && errno == EINTR)
            ;
    }
    sigprocmask(SIG_SETMASK, &q->before, NULL);
}

/* Writes at the offset, or, where it is negative, as writev(2). */
static ssize_t write_blocked(int fd, const struct iovec *pieces, unsigned count, int64_t offset) {
    struct signals q;
    block_signals(&q);
    ssize_t written;
    do
        written =
            offset < 0 ? syscall(SYS_writev, fd, pieces, count) : syscall(SYS_pwritev, fd, pieces, count, offset, 0);
    while (written < 0 && errno == EINTR);
    int error = written < 0 ? errno : 0;
    restore_signals(&q, error);
    errno = error;
    return written;
}

ssize_t gm_safe_write(int fd, const void *data, size_t bytes) {
    return write_blocked(fd, &(struct iovec){(void *)data, bytes}, 1, -1);
}

ssize_t gm_safe_pwrite(int fd, const void *data, size_t bytes, uint64_t offset) {
    return gm_safe_pwritev(fd, &(struct iovec){(void *)data, bytes}, 1, offset);
}

ssize_t gm_safe_pwritev(int fd, const struct iovec *pieces, unsigned count, uint64_t offset) {
    return write_blocked(fd, pieces, count, (int64_t)offset);
}

bool gm_safe_takes(int fd, unsigned wait_ms) {
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    uint64_t now = gm_clock_ns(CLOCK_MONOTONIC), until = now + wait_ms * UINT64_C(1000000);
    long takes;
    do {
        uint64_t remaining = until > now ? until - now : 0;
        const struct timespec wait = {(time_t)(remaining / 1000000000u), (long)(remaining % 1000000000u)};
        takes = syscall(SYS_ppoll, &ready, 1, &wait, NULL, 0);
    } while (takes < 0 && errno == EINTR && (now = gm_clock_ns(CLOCK_MONOTONIC)) < until);
    return takes > 0;
}

/* The file that was standard error before the program's own code ran. A program may close that, and a file or socket
 * that it opens then gets the number. A pipe or a terminal is what programs redirect standard error to. */
static struct {
    bool known, exists;
    struct stat file;
} standard_error;

void gm_standard_error_is_now(void) {
    standard_error.exists = gm_fstat(STDERR_FILENO, &standard_error.file) == 0;
    standard_error.known = true;
}

/* A constructor of another library may come before. */
__attribute__((constructor)) static void remember_standard_error(void) {
    if (!standard_error.known)
        gm_standard_error_is_now();
}

static bool is_the_programs(int fd) {
    struct stat now;
    if (fd != STDERR_FILENO)
        return false;
    remember_standard_error();
    if (!standard_error.exists || gm_fstat(fd, &now) != 0)
        return true;
    bool same = now.st_dev == standard_error.file.st_dev && now.st_ino == standard_error.file.st_ino;
    return !same && !S_ISFIFO(now.st_mode) && !S_ISCHR(now.st_mode);
}

void gm_safe_say(int fd, const char *text, size_t bytes) {
    enum { WAIT_MS = 1000 };
    static bool stuck;
    int saved = errno;
    if (!is_the_programs(fd)) {
        bool takes = gm_safe_takes(fd, __atomic_load_n(&stuck, __ATOMIC_RELAXED) ? 0 : WAIT_MS);
        if (takes)
            gm_safe_write(fd, text, bytes);
        __atomic_store_n(&stuck, !takes, __ATOMIC_RELAXED);
    }
    errno = saved;
}

const char *gm_errno_text(int error) {
    static const struct {
        int error;
        const char *text;
    } rows[] = {
        {ENOSPC, "no space left on device"},
        {EDQUOT, "disk quota exceeded"},
        {EFBIG, "file size limit reached"},
        {EACCES, "permission denied"},
        {EPERM, "not permitted"},
        {ENOENT, "no such file or directory"},
        {EISDIR, "is a directory"},
        {ENOTDIR, "not a directory"},
        {EROFS, "read-only file system"},
        {EMFILE, "too many open files"},
        {ENFILE, "too many open files"},
        {EPIPE, "the reader closed its end"},
        {EIO, "input/output error"},
        {EBADF, "the program closed it"},
        {ENODEV, "cannot be mapped"},
        {ENOMEM, "out of memory"},
        {ENXIO, "no such device or address"},
        {ELOOP, "too many symbolic links"},
        {EOVERFLOW, "larger than 4 GiB"},
        {ENAMETOOLONG, "name too long"},
        {ETXTBSY, "is a running program"},
        {EAGAIN, "the reader does not read"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].error == error)
            return rows[i].text;
    return "unexpected error";
}

const char *gm_file_load(const char *path, size_t *bytes, const char **why) {
    const char *text = gm_file_map(path, bytes);
    *why = text ? NULL : errno == EINVAL ? "is not a plain file" : gm_errno_text(errno);
    return text;
}
