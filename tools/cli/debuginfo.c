#include "tools/cli/debuginfo.h"

#ifdef GM_HAVE_LIBDW
#include "tools/cli/foreign_file.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uthash.h>
#include <unistd.h>

/* A file that the program loaded, at one or several addresses. Each file has its own libdwfl session, because a session
 * walks all its modules whenever one is added. */
struct file {
    Dwfl *dwfl; /* NULL: the file is missing, or it is not the one that the program ran */
    Dwfl_Module *module;
    uint64_t base;
    bool foreign; /* it belongs to another user than this one and root */
    UT_hash_handle hh;
    unsigned key_bytes;
    unsigned char key[]; /* path, zero, build id */
};

enum { OPEN_FILES = 256 }; /* each uses two descriptors, and a process may have only 1024 */

struct gm_debuginfo {
    struct file *files; /* least recently used first */
    unsigned open;
};

/* libdw opens the files that a module names for its debug information, whatever they are. So those that a file of
 * another user names are not looked for, only what the system has under its build id. */
static int find_debuginfo(Dwfl_Module *module, void **own, const char *name, GElf_Addr base, const char *path,
                          const char *link, GElf_Word crc, char **found) {
    const struct file *file = *own;
    return (file && file->foreign ? dwfl_build_id_find_debuginfo
                                  : dwfl_standard_find_debuginfo)(module, own, name, base, path, link, crc, found);
}

static char *debuginfo_path;
static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = find_debuginfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = &debuginfo_path,
};

struct gm_debuginfo *gm_debuginfo_new(void) {
    return calloc(1, sizeof(struct gm_debuginfo));
}

static void close_file(struct gm_debuginfo *info, struct file *file) {
    info->open -= file->dwfl != NULL;
    HASH_DEL(info->files, file);
    if (file->dwfl)
        dwfl_end(file->dwfl);
    free(file);
}

void gm_debuginfo_free(struct gm_debuginfo *info) {
    if (!info)
        return;
    while (info->files)
        close_file(info, info->files);
    free(info);
}

static bool is_same(Dwfl_Module *module, const struct gm_module *m) {
    GElf_Addr bias, id_address;
    const unsigned char *id;
    if (!dwfl_module_getelf(module, &bias))
        return false;
    int bytes = dwfl_module_build_id(module, &id, &id_address);
    return !m->build_id_bytes || bytes <= 0 ||
           ((unsigned)bytes == m->build_id_bytes && !memcmp(id, m->build_id, m->build_id_bytes));
}

/* The path is the trace's. Files of /proc state no size; some wait when they are read. */
static int open_module_file(struct file *file, const char *path) {
    const char *why;
    struct stat st;
    int fd = gm_foreign_open(path, O_RDONLY, &why);
    if (fd >= 0 && (fstat(fd, &st) || !st.st_size)) {
        close(fd);
        fd = -1;
    }
    file->foreign = fd >= 0 && st.st_uid && st.st_uid != geteuid();
    return fd;
}

static void open_dwfl(struct file *file, const struct gm_module *m) {
    void **own;
    int fd = open_module_file(file, m->path);
    file->base = m->base;
    file->dwfl = fd < 0 ? NULL : dwfl_begin(&callbacks);
    if (file->dwfl) {
        dwfl_report_begin(file->dwfl);
        file->module = dwfl_report_elf(file->dwfl, m->path, m->path, fd, m->base, true);
        dwfl_report_end(file->dwfl, NULL, NULL);
    }
    if (!file->module) {
        if (fd >= 0)
            close(fd); /* with a module it is libdw's */
    } else if (dwfl_module_info(file->module, &own, NULL, NULL, NULL, NULL, NULL, NULL)) {
        *own = file;
        if (is_same(file->module, m))
            return;
    }
    if (file->dwfl)
        dwfl_end(file->dwfl);
    file->dwfl = NULL;
}

/* NULL: no memory. */
static struct file *find_file(struct gm_debuginfo *info, const struct gm_module *m) {
    size_t path_bytes = strlen(m->path) + 1, bytes = path_bytes + m->build_id_bytes;
    struct file *file = calloc(1, sizeof *file + bytes), *known;
    if (!file)
        return NULL;
    memcpy(file->key, m->path, path_bytes);
    if (m->build_id_bytes)
        memcpy(file->key + path_bytes, m->build_id, m->build_id_bytes);
    HASH_FIND(hh, info->files, file->key, bytes, known);
    if (known) {
        free(file);
        HASH_DEL(info->files, known); /* moves it to the end of the list */
        file = known;
    } else {
        file->key_bytes = (unsigned)bytes;
        open_dwfl(file, m);
        info->open += file->dwfl != NULL;
    }
    HASH_ADD(hh, info->files, key, file->key_bytes, file);
    while (info->open > OPEN_FILES)
        close_file(info, info->files);
    return file;
}

/* The module's file if it is still the one that the program ran. Translates *address to an address in the file. */
static Dwfl_Module *open_module(struct gm_debuginfo *info, const struct gm_module *m, uint64_t *address) {
    struct file *file = find_file(info, m);
    if (!file || !file->dwfl)
        return NULL;
    *address = *address - m->base + file->base;
    return dwfl_addrmodule(file->dwfl, *address) == file->module ? file->module : NULL;
}

/* The function according to the symbol table. Internal functions of a statically linked runtime may have no symbol.
 * Then the nearest symbol below counts, whatever its size, so that they belong to the runtime function before them. */
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

/* The folder of the CUDA toolkit's headers is the folder of cuda_runtime.h, which nvcc includes into every file. */
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

/* Inlined functions at the address, innermost first, then the function that contains them. */
static unsigned scopes_at(Dwfl_Module *module, uint64_t address, struct gm_source_location *locations) {
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias), *at = NULL, *chain = NULL;
    Dwarf_Files *files = NULL;
    size_t file_count = 0;
    unsigned count = 0;
    struct gm_source_location location = {0};
    if (!unit || dwarf_getscopes(unit, address - bias, &at) <= 0)
        return 0;
    int depth = dwarf_getscopes_die(&at[0], &chain);
    if (dwarf_getsrcfiles(unit, &files, &file_count))
        file_count = 0;
    Dwfl_Line *line = dwfl_module_getsrc(module, address);
    if (line)
        location.file = dwfl_lineinfo(line, NULL, &location.line, NULL, NULL, NULL);
    for (int i = 0; i < depth && count < GM_SOURCE_LOCATIONS; i++) {
        int tag = dwarf_tag(&chain[i]);
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
            continue;
        location.function = function_name(&chain[i]);
        location.toolkit_header = in_toolkit_folder(files, file_count, location.file);
        locations[count++] = location;
        if (tag == DW_TAG_subprogram)
            break;
        unsigned long file = number_of(&chain[i], DW_AT_call_file);
        location.file = file < file_count ? dwarf_filesrc(files, file, NULL, NULL) : NULL;
        location.line = (int)number_of(&chain[i], DW_AT_call_line);
    }
    free(chain);
    free(at);
    return count;
}

unsigned gm_debuginfo_locations(struct gm_debuginfo *info, const struct gm_module *m, uint64_t address,
                                struct gm_source_location locations[GM_SOURCE_LOCATIONS]) {
    Dwfl_Module *module = info ? open_module(info, m, &address) : NULL;
    bool exact;
    if (!module)
        return 0;
    unsigned count = scopes_at(module, address, locations);
    if (count)
        return count;
    const char *name = symbol_at(module, address, &exact);
    Dwfl_Line *line = dwfl_module_getsrc(module, address);
    if (!name && !line)
        return 0;
    locations[0] = (struct gm_source_location){.function = name, .guessed = !exact};
    if (line)
        locations[0].file = dwfl_lineinfo(line, NULL, &locations[0].line, NULL, NULL, NULL);
    return 1;
}
#else
struct gm_debuginfo *gm_debuginfo_new(void) {
    return NULL;
}
void gm_debuginfo_free(struct gm_debuginfo *info) { (void)info; }
unsigned gm_debuginfo_locations(struct gm_debuginfo *info, const struct gm_module *module, uint64_t address,
                                struct gm_source_location locations[GM_SOURCE_LOCATIONS]) {
    (void)info, (void)module, (void)address, (void)locations;
    return 0;
}
#endif
