/* Zeroed memory for gpumem's own tables, directly from the kernel, since the heap belongs to the program. */
#include "shim/base/base.h"

#include <errno.h>
#include <sys/mman.h>

void *gm_pages(size_t bytes) {
    int saved = errno;
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* The tables are large and sparsely used. A huge page would be zeroed at each first access. */
    if (pages != MAP_FAILED && bytes >= 1u << 20)
        madvise(pages, bytes, MADV_NOHUGEPAGE);
    errno = saved;
    return pages == MAP_FAILED ? NULL : pages;
}

void *gm_pages_once(void **table, size_t bytes) {
    void *known = __atomic_load_n(table, __ATOMIC_ACQUIRE);
    if (GM_LIKELY(known != NULL))
        return known;
    void *fresh = gm_pages(bytes);
    if (fresh && !__atomic_compare_exchange_n(table, &known, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        munmap(fresh, bytes);
        return known;
    }
    return fresh;
}
