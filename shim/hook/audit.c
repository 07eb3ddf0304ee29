/* libgpumem-audit.so, an auditor of the dynamic linker (LD_AUDIT): reaches bindings that LD_PRELOAD cannot reach. A
 * plugin that is opened with RTLD_DEEPBIND prefers its own dependencies to the preloaded library, so its dlsym is
 * that of the C library and its cu* symbols are those of the driver. The dynamic linker still reports each such
 * binding to an auditor.
 *
 * This library lives in its own link namespace with its own C library. It only returns addresses of libgpumem.so in
 * the base namespace, which it reads from the symbol table of that object. */
#include <link.h>
#include <string.h>

#include "shim/base/real_dl.h"

#define EXPORT __attribute__((visibility("default")))

enum role { ROLE_OTHER, ROLE_GPUMEM, ROLE_C_LIBRARY, ROLE_DRIVER };

static struct {
    void *dlsym, *dlvsym;
    void *(*entry)(const char *symbol);
} gpumem;

EXPORT unsigned la_version(unsigned version);
unsigned la_version(unsigned version) { return version < LAV_CURRENT ? version : LAV_CURRENT; }

static int named(const struct link_map *map, const char *prefix) {
    const char *slash = strrchr(map->l_name, '/');
    return strncmp(slash ? slash + 1 : map->l_name, prefix, strlen(prefix)) == 0;
}

EXPORT unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie);
unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie) {
    enum role role = ROLE_OTHER;
    if (namespace == LM_ID_BASE && named(map, "libgpumem.so")) {
        role = ROLE_GPUMEM;
        gpumem.dlsym = gm_elf_symbol_of(map, "dlsym");
        gpumem.dlvsym = gm_elf_symbol_of(map, "dlvsym");
        *(void **)&gpumem.entry = gm_elf_symbol_of(map, "gpumem_audit_entry");
    } else if (named(map, "libc.so") || named(map, "libdl.so")) {
        role = ROLE_C_LIBRARY;
    } else if (named(map, "libcuda.so")) {
        role = ROLE_DRIVER;
    }
    *cookie = role;
    return LA_FLG_BINDFROM | LA_FLG_BINDTO;
}

#if __ELF_NATIVE_CLASS == 64
EXPORT uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                              const char *name);
uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                       const char *name) {
    void *replacement = NULL;
    if (*from == ROLE_GPUMEM)
        return symbol->st_value;
    if (*to == ROLE_C_LIBRARY && strcmp(name, "dlsym") == 0)
        replacement = gpumem.dlsym;
    else if (*to == ROLE_C_LIBRARY && strcmp(name, "dlvsym") == 0)
        replacement = gpumem.dlvsym;
    else if (*to == ROLE_DRIVER && gpumem.entry)
        replacement = gpumem.entry(name);
    return replacement ? (uintptr_t)replacement : symbol->st_value;
}
#endif
