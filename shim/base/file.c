/* Reads a file into anonymous memory by bare system calls (file.h). */
#include "shim/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

const char *gm_file_map(const char *path, size_t *bytes) {
    struct stat status;
    char *text = NULL;
    size_t size = 0, used = 0;
    ssize_t got = 0;
    int fd = gm_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error = 0;
    if (fd < 0)
        return NULL;
    if (gm_fstat(fd, &status))
        error = errno;
    else if (!S_ISREG(status.st_mode))
        error = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    else if (status.st_size > GM_FILE_MOST)
        error = EOVERFLOW;
    else if ((size = (size_t)status.st_size) && !(text = gm_pages(size)))
        error = ENOMEM;
    while (!error && used < size && ((got = gm_read(fd, text + used, size - used)) > 0 || (got < 0 && errno == EINTR)))
        used += got > 0 ? (size_t)got : 0;
    if (got < 0)
        error = errno;
    gm_close(fd);
    if (text && (error || !used))
        munmap(text, size);
    errno = error ? error : errno;
    *bytes = error ? 0 : used;
    return error ? NULL : used ? text : "";
}

size_t gm_read_text(const char *path, char *text, size_t size) {
    size_t used = 0;
    ssize_t got;
    int fd = gm_open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && used < size - 1 && (got = gm_read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    if (fd >= 0)
        gm_close(fd);
    text[used] = '\0';
    return used;
}

int gm_lift(int fd) {
    int high = gm_fcntl(fd, F_DUPFD_CLOEXEC, GM_FD_FLOOR);
    if (high < 0 && fd > STDERR_FILENO)
        return fd;
    gm_close(fd);
    return high;
}

void gm_file_unmap(const char *text, size_t bytes) {
    if (bytes)
        munmap((void *)(unsigned long)text, bytes);
}
