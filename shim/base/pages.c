#include "shim/base/base.h"

#include <errno.h>
#include <sys/mman.h>

void *gm_pages(size_t bytes) {
    int saved = errno;
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    return pages == MAP_FAILED ? NULL : pages;
}
