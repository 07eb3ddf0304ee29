/* Files by bare system calls. fstat, stat and fcntl are symbols newer than glibc 2.17 when built on a newer one. Most
 * of the others are cancellation points in the C library: a program that cancels a thread inside a hook would end it
 * there, with our locks held. A bare call is none, so the thread goes on and ends where it would end without gpumem. */
#ifndef GM_FILE_H
#define GM_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/base.h"

/* The kernel's struct stat is the C library's on 64-bit x86 and Arm. All return 0 or a value, or -1 with errno. */
static inline int gm_fstat(int fd, struct stat *status) { return (int)syscall(SYS_fstat, fd, status); }
static inline int gm_stat(const char *path, struct stat *status) {
    return (int)syscall(SYS_newfstatat, -100 /* AT_FDCWD */, path, status, 0);
}
static inline int gm_fcntl(int fd, int command, long argument) {
    return (int)syscall(SYS_fcntl, fd, command, argument);
}
/* A file that is made gets the mode 0666 less the process's mask. */
static inline int gm_open(const char *path, int flags) {
    return (int)syscall(SYS_openat, -100 /* AT_FDCWD */, path, flags, 0666);
}
static inline int gm_close(int fd) { return (int)syscall(SYS_close, fd); }
static inline ssize_t gm_read(int fd, void *data, size_t bytes) { return syscall(SYS_read, fd, data, bytes); }
static inline ssize_t gm_pread(int fd, void *data, size_t bytes, uint64_t offset) {
    return syscall(SYS_pread64, fd, data, bytes, offset);
}
static inline void gm_sleep(uint64_t ns) {
    const struct timespec pause = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    syscall(SYS_nanosleep, &pause, NULL);
}

/* The least number of our own descriptors: programs that close or count on low ones do not meet them. One for all, and
 * the first is made when the library is loaded: where a process with threads needs a larger table of descriptors, its
 * call takes milliseconds. */
enum { GM_FD_FLOOR = 100 };

/* The whole of a regular file, copied: one that is cut meanwhile harms nobody. An empty one gives a text of 0 bytes.
 * NULL with errno. */
const char *gm_file_map(const char *path, size_t *bytes);
void gm_file_unmap(const char *text, size_t bytes);

/* ---- quiet.c: writing that must not disturb the program */

/* As write(2) and pwrite(2), without SIGPIPE and SIGXFSZ. */
GM_INTERNAL ssize_t gm_safe_write(int fd, const void *data, size_t bytes);
GM_INTERNAL ssize_t gm_safe_pwrite(int fd, const void *data, size_t bytes, uint64_t offset);
/* Can the descriptor take 4096 bytes (PIPE_BUF) at once, or say why not? Waits at most so long for it. */
GM_INTERNAL bool gm_safe_takes(int fd, unsigned wait_ms);
/* Says a line where the program says its own. It is lost where nobody reads: a full pipe holds up the program once, for
 * a moment. */
GM_INTERNAL void gm_safe_say(int fd, const char *text, size_t bytes);
/* Words for an errno value, without locale or heap. */
GM_INTERNAL const char *gm_errno_text(int error);

#endif
