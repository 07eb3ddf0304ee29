/* Walks the loaded objects and looks for libcuda in their DT_NEEDED entries (linked.h). */
#include "shim/driver/linked.h"

#include "shim/base/libraries.h"

static bool needs_driver(const struct dl_phdr_info *info, const ElfW(Dyn) * dynamic) {
    const char *strings = NULL;
    for (const ElfW(Dyn) *row = dynamic; row->d_tag != DT_NULL; row++)
        if (row->d_tag == DT_STRTAB)
            strings =
                (const char *)(row->d_un.d_ptr < info->dlpi_addr ? row->d_un.d_ptr + info->dlpi_addr : row->d_un.d_ptr);
    for (const ElfW(Dyn) *row = dynamic; strings && row->d_tag != DT_NULL; row++)
        if (row->d_tag == DT_NEEDED && gm_library_traits(strings + row->d_un.d_val) & GM_LIBRARY_DRIVER)
            return true;
    return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *found) {
    if (gm_library_traits(info->dlpi_name) & GM_LIBRARY_KERNEL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC &&
            needs_driver(info, (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr)))
            return *(bool *)found = true;
    return 0;
}

bool gm_driver_linked(void) {
    static unsigned long long known; /* number of objects loaded so far, at the last walk */
    static bool linked;
    bool found = false;
    if (__atomic_load_n(&linked, __ATOMIC_RELAXED))
        return true;
    unsigned long long before = __atomic_load_n(&known, __ATOMIC_ACQUIRE), loaded = gm_libraries_loaded();
    if (!loaded || loaded != before) {
        dl_iterate_phdr(visit, &found);
        if (found)
            __atomic_store_n(&linked, true, __ATOMIC_RELAXED);
        __atomic_store_n(&known, loaded,
                         __ATOMIC_RELEASE); /* after `linked`: a thread that sees this number sees the answer, too */
    }
    return __atomic_load_n(&linked, __ATOMIC_RELAXED);
}
