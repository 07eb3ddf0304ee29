/* Reads the relocations of each loaded object that needs the driver's library (linked.h). */
#include "shim/driver/linked.h"

#include <link.h>
#include <string.h>

#include "shim/base/libraries.h"

bool gm_writes_values(const char *symbol) {
    static const char *const names[] = {"cuStreamWriteValue", "cuStreamBatchMemOp"};
    return strncmp(symbol, names[0], strlen(names[0])) == 0 || strncmp(symbol, names[1], strlen(names[1])) == 0;
}

/* Only what is needed here. */
struct dynamic {
    const ElfW(Dyn) * entries;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * calls, *others; /* relocations: of the procedure linkage table, and the rest */
    size_t call_bytes, other_bytes;
};

/* On most architectures glibc relocates the pointers of the dynamic section in place, but not for the vdso. */
static const void *loaded_at(const struct dl_phdr_info *object, ElfW(Addr) pointer) {
    return (const void *)(pointer < object->dlpi_addr ? object->dlpi_addr + pointer : pointer);
}

static bool read_dynamic(const struct dl_phdr_info *object, struct dynamic *out) {
    *out = (struct dynamic){0};
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            out->entries = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    for (const ElfW(Dyn) *entry = out->entries; entry && entry->d_tag != DT_NULL; entry++) {
        const void *at = loaded_at(object, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB: out->symbols = at; break;
        case DT_STRTAB: out->strings = at; break;
        case DT_JMPREL: out->calls = at; break;
        case DT_PLTRELSZ: out->call_bytes = entry->d_un.d_val; break;
        case DT_RELA: out->others = at; break;
        case DT_RELASZ: out->other_bytes = entry->d_un.d_val; break;
        }
    }
    return out->symbols && out->strings;
}

static bool needs_driver(const struct dynamic *dynamic) {
    for (const ElfW(Dyn) *entry = dynamic->entries; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_NEEDED && gm_library_traits(dynamic->strings + entry->d_un.d_val) & GM_LIBRARY_DRIVER)
            return true;
    return false;
}

static bool name_writes(const struct dynamic *dynamic, const ElfW(Rela) * relocations, size_t bytes) {
    for (size_t i = 0; relocations && i < bytes / sizeof *relocations; i++) {
        const ElfW(Sym) *symbol = &dynamic->symbols[ELF64_R_SYM(relocations[i].r_info)];
        if (symbol->st_shndx == SHN_UNDEF && gm_writes_values(dynamic->strings + symbol->st_name))
            return true;
    }
    return false;
}

static int refers_to_writes(struct dl_phdr_info *object, size_t size, void *unused) {
    struct dynamic dynamic;
    return read_dynamic(object, &dynamic) && needs_driver(&dynamic) &&
           (name_writes(&dynamic, dynamic.calls, dynamic.call_bytes) ||
            name_writes(&dynamic, dynamic.others, dynamic.other_bytes));
}

bool gm_linked_with_writes(void) {
    static bool found;
    static unsigned long long without; /* number of loaded objects when nothing was found; 0: none is known */
    if (__atomic_load_n(&found, __ATOMIC_RELAXED))
        return true;
    unsigned long long loaded = gm_libraries_loaded();
    if (loaded && loaded == __atomic_load_n(&without, __ATOMIC_RELAXED))
        return false;
    if (dl_iterate_phdr(refers_to_writes, NULL))
        __atomic_store_n(&found, true, __ATOMIC_RELAXED);
    else
        __atomic_store_n(&without, loaded, __ATOMIC_RELAXED);
    return __atomic_load_n(&found, __ATOMIC_RELAXED);
}
