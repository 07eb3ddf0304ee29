#include "tools/cli/debuginfo.h"

#ifdef GM_HAVE_LIBDW
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <stdlib.h>
#include <string.h>

struct gm_debuginfo {
    Dwfl *dwfl;
};

static char *debuginfo_path;
static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = &debuginfo_path,
};

struct gm_debuginfo *gm_debuginfo_new(void) {
    struct gm_debuginfo *info = calloc(1, sizeof *info);
    if (info && !(info->dwfl = dwfl_begin(&callbacks))) {
        free(info);
        return NULL;
    }
    return info;
}

void gm_debuginfo_free(struct gm_debuginfo *info) {
    if (!info)
        return;
    dwfl_end(info->dwfl);
    free(info);
}

/* The module's file, if it is still the one that the program ran. */
static Dwfl_Module *open_module(Dwfl *dwfl, const struct gm_module *m, uint64_t address) {
    Dwfl_Module *module = dwfl_addrmodule(dwfl, address);
    GElf_Addr bias, id_address;
    const unsigned char *id;
    if (!module) {
        dwfl_report_begin_add(dwfl);
        dwfl_report_elf(dwfl, m->path, m->path, -1, m->base, true);
        dwfl_report_end(dwfl, NULL, NULL);
        module = dwfl_addrmodule(dwfl, address);
    }
    if (!module || !dwfl_module_getelf(module, &bias))
        return NULL;
    int bytes = dwfl_module_build_id(module, &id, &id_address);
    bool same = !m->build_id_bytes || bytes <= 0 ||
                ((unsigned)bytes == m->build_id_bytes && !memcmp(id, m->build_id, m->build_id_bytes));
    return same ? module : NULL;
}

/* The function by the symbol table. Internal functions of a runtime linked statically may have no symbol of
 * their own: the nearest one below then counts, whatever its size, so that they pass for parts of the runtime
 * function before them. */
static const char *symbol_at(Dwfl_Module *module, uint64_t address, bool *exact) {
    GElf_Off offset;
    GElf_Sym symbol;
    const char *best = dwfl_module_addrinfo(module, address, &offset, &symbol, NULL, NULL, NULL);
    *exact = best && offset < symbol.st_size;
    if (*exact)
        return best;
    GElf_Addr best_at = 0;
    int count = dwfl_module_getsymtab(module);
    best = NULL;
    for (int i = 0; i < count; i++) {
        GElf_Addr at;
        const char *name = dwfl_module_getsym_info(module, i, &symbol, &at, NULL, NULL, NULL);
        if (name && *name && GELF_ST_TYPE(symbol.st_info) == STT_FUNC && at <= address && at >= best_at) {
            best = name;
            best_at = at;
        }
    }
    return best;
}

static const char *function_name(Dwarf_Die *die) {
    static const unsigned names[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name};
    Dwarf_Attribute attribute;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *name = dwarf_formstring(dwarf_attr_integrate(die, names[i], &attribute));
        if (name)
            return name;
    }
    return dwarf_diename(die);
}

static unsigned long number_of(Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    return dwarf_formudata(dwarf_attr(die, name, &attribute), &value) ? 0 : value;
}

/* nvcc includes cuda_runtime.h into every file: where that lies, the toolkit's headers lie. */
static bool in_toolkit_folder(Dwarf_Files *files, size_t count, const char *file) {
    static const char own[] = "/cuda_runtime.h";
    for (size_t i = 0; file && i < count; i++) {
        const char *name = dwarf_filesrc(files, i, NULL, NULL);
        size_t length = name ? strlen(name) : 0;
        if (length > sizeof own && !strcmp(name + length - (sizeof own - 1), own))
            return !strncmp(file, name, length - (sizeof own - 2));
    }
    return false;
}

/* Inlined functions at the address, then the one they were inlined into. */
static unsigned scopes_at(Dwfl_Module *module, uint64_t address, struct gm_place *places) {
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias), *at = NULL, *chain = NULL;
    Dwarf_Files *files = NULL;
    size_t file_count = 0;
    unsigned count = 0;
    struct gm_place place = {0};
    if (!unit || dwarf_getscopes(unit, address - bias, &at) <= 0)
        return 0;
    int depth = dwarf_getscopes_die(&at[0], &chain);
    if (dwarf_getsrcfiles(unit, &files, &file_count))
        file_count = 0;
    Dwfl_Line *line = dwfl_module_getsrc(module, address);
    if (line)
        place.file = dwfl_lineinfo(line, NULL, &place.line, NULL, NULL, NULL);
    for (int i = 0; i < depth && count < GM_PLACES; i++) {
        int tag = dwarf_tag(&chain[i]);
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
            continue;
        place.function = function_name(&chain[i]);
        place.toolkit_header = in_toolkit_folder(files, file_count, place.file);
        places[count++] = place;
        if (tag == DW_TAG_subprogram)
            break;
        unsigned long file = number_of(&chain[i], DW_AT_call_file);
        place.file = file < file_count ? dwarf_filesrc(files, file, NULL, NULL) : NULL;
        place.line = (int)number_of(&chain[i], DW_AT_call_line);
    }
    free(chain);
    free(at);
    return count;
}

unsigned gm_debuginfo_places(struct gm_debuginfo *info, const struct gm_module *m, uint64_t address,
                             struct gm_place places[GM_PLACES]) {
    Dwfl_Module *module = info ? open_module(info->dwfl, m, address) : NULL;
    bool exact;
    if (!module)
        return 0;
    unsigned count = scopes_at(module, address, places);
    if (count)
        return count;
    const char *name = symbol_at(module, address, &exact);
    Dwfl_Line *line = dwfl_module_getsrc(module, address);
    if (!name && !line)
        return 0;
    places[0] = (struct gm_place){.function = name, .guessed = !exact};
    if (line)
        places[0].file = dwfl_lineinfo(line, NULL, &places[0].line, NULL, NULL, NULL);
    return 1;
}
#else
struct gm_debuginfo *gm_debuginfo_new(void) {
    return NULL;
}
void gm_debuginfo_free(struct gm_debuginfo *info) {
    (void)info;
}
unsigned gm_debuginfo_places(struct gm_debuginfo *info, const struct gm_module *module, uint64_t address,
                             struct gm_place places[GM_PLACES]) {
    (void)info, (void)module, (void)address, (void)places;
    return 0;
}
#endif
