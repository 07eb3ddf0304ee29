/* Files by bare system calls: fstat, stat and fcntl are symbols newer than glibc 2.17 when built on a newer one. */
#ifndef GM_FILE_H
#define GM_FILE_H

#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's struct stat is the C library's on 64-bit x86 and Arm. All return 0 or a value, or -1 with errno. */
static inline int gm_fstat(int fd, struct stat *status) { return (int)syscall(SYS_fstat, fd, status); }
static inline int gm_stat(const char *path, struct stat *status) {
    return (int)syscall(SYS_newfstatat, -100 /* AT_FDCWD */, path, status, 0);
}
static inline int gm_fcntl(int fd, int command, long argument) { return (int)syscall(SYS_fcntl, fd, command, argument); }

/* The least number of our own descriptors: programs that close or count on low ones do not meet them. One for all, and the first is
 * made when the library is loaded: where a process with threads needs a larger table of descriptors, its call takes milliseconds. */
enum { GM_FD_FLOOR = 100 };

/* The whole of a regular file, as it is while nobody writes to it; an empty one gives a text of 0 bytes. NULL with errno. */
const char *gm_file_map(const char *path, size_t *bytes);
void gm_file_unmap(const char *text, size_t bytes);

#endif
