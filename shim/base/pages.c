#include "shim/base/base.h"

#include <errno.h>
#include <sys/mman.h>

void *gm_pages(size_t bytes) {
    int saved = errno;
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Tables of ours are large and thinly used: a huge page would be zeroed for each first touch. */
    if (pages != MAP_FAILED && bytes >= 1u << 20)
        madvise(pages, bytes, MADV_NOHUGEPAGE);
    errno = saved;
    return pages == MAP_FAILED ? NULL : pages;
}
