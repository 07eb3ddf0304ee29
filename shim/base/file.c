#include "shim/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

const char *gm_file_map(const char *path, size_t *bytes) {
    struct stat status;
    void *text = MAP_FAILED;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error = 0;
    if (fd < 0)
        return NULL;
    if (gm_fstat(fd, &status))
        error = errno;
    else if (!S_ISREG(status.st_mode))
        error = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    else if (status.st_size && (text = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        error = errno;
    close(fd);
    errno = error ? error : errno;
    *bytes = error ? 0 : (size_t)status.st_size;
    return error ? NULL : *bytes ? text : "";
}

void gm_file_unmap(const char *text, size_t bytes) {
    if (bytes)
        munmap((void *)(unsigned long)text, bytes);
}
