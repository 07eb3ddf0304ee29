/* Walks the loaded objects and looks for libcuda in their DT_NEEDED entries (linked.h). */
#include "shim/driver/linked.h"

#include <link.h>
#include <stddef.h>
#include <string.h>

struct search {
    unsigned long long adds, known; /* number of objects loaded so far: now, and at the last walk */
    bool found;
};

static bool needs_driver(const struct dl_phdr_info *info, const ElfW(Dyn) * dynamic) {
    const char *strings = NULL;
    for (const ElfW(Dyn) *row = dynamic; row->d_tag != DT_NULL; row++)
        if (row->d_tag == DT_STRTAB)
            strings =
                (const char *)(row->d_un.d_ptr < info->dlpi_addr ? row->d_un.d_ptr + info->dlpi_addr : row->d_un.d_ptr);
    for (const ElfW(Dyn) *row = dynamic; strings && row->d_tag != DT_NULL; row++)
        if (row->d_tag == DT_NEEDED && strncmp(strings + row->d_un.d_val, "libcuda.so", 10) == 0)
            return true;
    return false;
}

/* Stops at the first object when none was loaded since the last walk. */
static int visit(struct dl_phdr_info *info, size_t size, void *argument) {
    struct search *search = argument;
    search->adds = size >= offsetof(struct dl_phdr_info, dlpi_subs) ? info->dlpi_adds : 0;
    if (search->adds && search->adds == search->known)
        return 1;
    if (strstr(info->dlpi_name, "linux-vdso"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            search->found |= needs_driver(info, (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
    return 0;
}

bool gm_driver_linked(void) {
    static unsigned long long known;
    static bool linked;
    struct search search = {.known = __atomic_load_n(&known, __ATOMIC_ACQUIRE)};
    if (__atomic_load_n(&linked, __ATOMIC_RELAXED))
        return true;
    dl_iterate_phdr(visit, &search);
    if (search.found)
        __atomic_store_n(&linked, true, __ATOMIC_RELAXED);
    __atomic_store_n(&known, search.adds,
                     __ATOMIC_RELEASE); /* after `linked`: a thread that sees this number sees the answer, too */
    return __atomic_load_n(&linked, __ATOMIC_RELAXED);
}
