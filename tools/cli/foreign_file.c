#include "tools/cli/foreign_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OPENAT2 = 437 }; /* on all machines; older headers lack it */
enum { NO_MAGICLINKS = 0x02, IN_ROOT = 0x10, ATTEMPTS = 16 };

/* Takes a descriptor that only names the file (O_PATH), so that nothing is opened before it is known what it is. */
static int open_found(int found, int flags, const char **why) {
    char link[64];
    struct stat st;
    int fd = -1, error = EINVAL;
    if (found < 0 || fstat(found, &st)) {
        error = errno;
        *why = strerror(error);
    } else if (!S_ISREG(st.st_mode)) {
        *why = S_ISDIR(st.st_mode) ? "is a directory" : "is not a plain file";
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", found);
        fd = open(link, flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        error = errno;
        *why = fd >= 0 ? NULL : error == ENOENT ? "cannot be opened without /proc" : strerror(error);
    }
    if (found >= 0)
        close(found);
    errno = error;
    return fd;
}

int gm_foreign_open(const char *path, int flags, const char **why) {
    return open_found(open(path, O_PATH | O_CLOEXEC), flags, why);
}

int gm_foreign_open_below(int root, const char *path, bool plainly, int flags, const char **why) {
    const struct { uint64_t flags, mode, resolve; } how = {O_PATH | O_CLOEXEC, 0, IN_ROOT | NO_MAGICLINKS};
    long found = -1;
    int attempt = 0;
    do
        found = syscall(OPENAT2, root, path, &how, sizeof how);
    while (found < 0 && errno == EAGAIN && ++attempt < ATTEMPTS); /* somebody renamed a folder meanwhile */
    if (found < 0 && (errno == ENOSYS || errno == EPERM)) {       /* EPERM: a filter of system calls */
        if (!plainly) {
            *why = "this kernel has no openat2(2), so no file of another user's process is opened";
            errno = ENOSYS;
            return -1;
        }
        found = openat(root, path + strspn(path, "/"), O_PATH | O_CLOEXEC);
    }
    return open_found((int)found, flags, why);
}
