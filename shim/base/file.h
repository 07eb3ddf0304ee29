/* File access by bare system calls, for two reasons. First, fstat, stat and fcntl would bind to symbols newer than
 * glibc 2.17. Second, most of the C library's functions are cancellation points: a program that cancels a thread
 * inside a hook would end it there, while it holds gpumem's locks. A bare system call is no cancellation point, so the
 * thread continues and ends where it would end without gpumem. */
#ifndef GM_FILE_H
#define GM_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/base.h"

/* The kernel's struct stat equals the C library's on 64-bit x86 and Arm. All functions return 0 or a value, or -1 with
 * errno. */
static inline int gm_fstat(int fd, struct stat *status) { return (int)syscall(SYS_fstat, fd, status); }
static inline int gm_stat(const char *path, struct stat *status) {
    return (int)syscall(SYS_newfstatat, -100 /* AT_FDCWD */, path, status, 0);
}
static inline int gm_fcntl(int fd, int command, long argument) {
    return (int)syscall(SYS_fcntl, fd, command, argument);
}
/* A created file gets mode 0666 less the umask of the process. */
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

static inline uint64_t gm_clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Reads the beginning of a file as text that ends with a 0. Returns its length; 0: it is empty or cannot be read. */
GM_INTERNAL size_t gm_read_text(const char *path, char *text, size_t size);

/* gpumem's descriptors have this number or a higher one, so that programs that close or count on low numbers do not
 * meet them. The first one is opened when the library is loaded: in a process with threads, the call that enlarges the
 * descriptor table takes milliseconds. */
enum { GM_FD_FLOOR = 100 };

/* Moves the descriptor to such a number. -1: there is none, and this one was standard input, output or error. */
GM_INTERNAL int gm_lift(int fd);

#ifndef SYS_memfd_create
#define SYS_memfd_create (-1) /* Linux 3.17 */
#endif

/* Copies a whole regular file into memory, so that truncating the file later does no harm. An empty file gives a text
 * of 0 bytes. NULL with errno on failure; EINVAL: no regular file, EOVERFLOW: larger than GM_FILE_MOST, which is more
 * than any plan needs. */
#define GM_FILE_MOST (INT64_C(4) << 30)
const char *gm_file_map(const char *path, size_t *bytes);
void gm_file_unmap(const char *text, size_t bytes);

/* ---- safe_io.c: signal-safe I/O, which does not disturb the program */

/* As write(2), pwrite(2) and pwritev(2), but without SIGPIPE and SIGXFSZ. */
GM_INTERNAL ssize_t gm_safe_write(int fd, const void *data, size_t bytes);
GM_INTERNAL ssize_t gm_safe_pwrite(int fd, const void *data, size_t bytes, uint64_t offset);
GM_INTERNAL ssize_t gm_safe_pwritev(int fd, const struct iovec *pieces, unsigned count, uint64_t offset);
/* Waits at most `wait_ms` until the descriptor can take 4096 bytes (PIPE_BUF), or has an error to report. False: the
 * time is over. */
GM_INTERNAL bool gm_safe_takes(int fd, unsigned wait_ms);
/* Writes a line to a descriptor that the program uses, too. The line is lost when nobody reads, and where
 * descriptor 2 has become a file or socket that it was not when gpumem was loaded. A full pipe delays the program once,
 * for at most a second. */
GM_INTERNAL void gm_safe_say(int fd, const char *text, size_t bytes);
/* The file that descriptor 2 is now counts as standard error, as that at the load of gpumem did before. */
GM_INTERNAL void gm_standard_error_is_now(void);
/* Text for an errno value, without locale or heap. */
GM_INTERNAL const char *gm_errno_text(int error);
/* As gm_file_map; on failure *why is the reason in a few words. */
const char *gm_file_load(const char *path, size_t *bytes, const char **why);

#endif
