/* Writing without disturbing the program: a broken pipe or a file size limit is an error here, never a
 * signal. */
#include "shim/trace/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

struct quiet {
    sigset_t ours, before, pending;
};

static void quiet_begin(struct quiet *q) {
    sigemptyset(&q->ours);
    sigaddset(&q->ours, SIGPIPE);
    sigaddset(&q->ours, SIGXFSZ);
    sigpending(&q->pending);
    /* On Linux sigprocmask acts on the calling thread; it lives in libc also where pthread_sigmask does not.
     */
    sigprocmask(SIG_BLOCK, &q->ours, &q->before);
}

static void quiet_end(struct quiet *q, int error) {
    int raised = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
    if (raised && !sigismember(&q->pending, raised)) {
        static const struct timespec now = {0, 0};
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, raised);
        while (sigtimedwait(&one, NULL, &now) < 0 && errno == EINTR)
            ;
    }
    sigprocmask(SIG_SETMASK, &q->before, NULL);
}

ssize_t gm_quiet_write(int fd, const void *data, size_t bytes) {
    struct quiet q;
    quiet_begin(&q);
    ssize_t written;
    do
        written = write(fd, data, bytes);
    while (written < 0 && errno == EINTR);
    int error = written < 0 ? errno : 0;
    quiet_end(&q, error);
    errno = error;
    return written;
}

/* Where the file system cannot reserve, zeros do it: slower, but a full disk still shows here and not in a
 * store. */
static int write_zeros(int fd, uint64_t offset, size_t bytes) {
    static const char zeros[4096];
    for (size_t done = 0; done < bytes;) {
        size_t piece = bytes - done < sizeof zeros ? bytes - done : sizeof zeros;
        ssize_t written = pwrite(fd, zeros, piece, (off_t)(offset + done));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? errno : ENOSPC;
        done += (size_t)written;
    }
    return 0;
}

int gm_quiet_allocate(int fd, uint64_t offset, size_t bytes) {
    struct quiet q;
    quiet_begin(&q);
    int error;
    do
        error = fallocate(fd, 0, (off_t)offset, (off_t)bytes) ? errno : 0;
    while (error == EINTR);
    if (error == EOPNOTSUPP || error == ENOSYS)
        error = write_zeros(fd, offset, bytes);
    quiet_end(&q, error);
    return error;
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
        {EPIPE, "the reader has gone"},
        {EIO, "input/output error"},
        {EBADF, "the program closed it"},
        {ENODEV, "cannot be mapped"},
        {ENOMEM, "out of memory"},
        {ENXIO, "no such device or address"},
        {ELOOP, "too many symbolic links"},
        {ENAMETOOLONG, "name too long"},
        {ETXTBSY, "is a running program"},
        {EAGAIN, "the reader does not read"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].error == error)
            return rows[i].text;
    return "unexpected error";
}
