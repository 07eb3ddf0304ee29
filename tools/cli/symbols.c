#include "tools/cli/symbols.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GM_HAVE_LIBDW
#include <elfutils/libdwfl.h>
#endif

struct gm_symbols {
    const struct gm_reader *reader;
    char *(*demangle)(const char *mangled, char *room, size_t *length, int *status);
    void *cxx;
#ifdef GM_HAVE_LIBDW
    Dwfl *dwfl;
#endif
};

/* What is known of one return address. */
struct frame {
    struct gm_module module;
    bool in_module;
    uint64_t offset;      /* in the file's image */
    const char *function; /* mangled; NULL = unknown */
    const char *file;
    int line;
};

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

static bool is_runtime_module(const char *file) { return starts(file, "libcudart"); }

static bool is_toolkit_module(const char *file) {
    static const char *const names[] = {"libcublas",  "libcudnn",  "libcusparse", "libcufft",     "libcusolver",
                                        "libcurand",  "libnccl",   "libnvrtc",    "libcutensor",  "libnvjpeg",
                                        "libnpp",     "libnvJitLink", "libcuda.so", "libnvshmem", "libcupti"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (starts(file, names[i]))
            return true;
    return false;
}

/* Functions of a statically linked runtime lie in the program's own module. */
static bool is_runtime_function(const char *name) {
    return (starts(name, "cuda") && isupper((unsigned char)name[4])) || starts(name, "__cuda") ||
           starts(name, "libcudart_static_") || starts(name, "cudart");
}

#ifdef GM_HAVE_LIBDW
static char *debuginfo_path;
static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = &debuginfo_path,
};

/* The module's file, if it is still the one that the program ran. */
static Dwfl_Module *open_module(struct gm_symbols *s, const struct gm_module *m, uint64_t address) {
    Dwfl_Module *module = dwfl_addrmodule(s->dwfl, address);
    GElf_Addr bias, id_address;
    const unsigned char *id;
    if (!module) {
        dwfl_report_begin_add(s->dwfl);
        dwfl_report_elf(s->dwfl, base_name(m->path), m->path, -1, m->base, true);
        dwfl_report_end(s->dwfl, NULL, NULL);
        module = dwfl_addrmodule(s->dwfl, address);
    }
    if (!module || !dwfl_module_getelf(module, &bias))
        return NULL;
    int bytes = dwfl_module_build_id(module, &id, &id_address);
    bool same = !m->build_id_bytes || bytes <= 0 ||
                ((unsigned)bytes == m->build_id_bytes && !memcmp(id, m->build_id, m->build_id_bytes));
    return same ? module : NULL;
}

/* The runtime's internal functions may have no symbol: code behind a runtime function and before the next symbol is taken for its
 * part, so the nearest symbol below counts, whatever its size. */
static const char *nearest_function(Dwfl_Module *module, uint64_t address) {
    const char *best = NULL;
    GElf_Addr best_at = 0;
    int count = dwfl_module_getsymtab(module);
    for (int i = 0; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr at;
        const char *name = dwfl_module_getsym_info(module, i, &symbol, &at, NULL, NULL, NULL);
        if (name && *name && GELF_ST_TYPE(symbol.st_info) == STT_FUNC && at <= address && at >= best_at) {
            best = name;
            best_at = at;
        }
    }
    return best;
}

static void name_frame(struct gm_symbols *s, struct frame *f, uint64_t address) {
    Dwfl_Module *module = s->dwfl ? open_module(s, &f->module, address) : NULL;
    GElf_Off offset;
    GElf_Sym symbol;
    if (!module)
        return;
    f->function = dwfl_module_addrinfo(module, address, &offset, &symbol, NULL, NULL, NULL);
    if (!f->function || offset >= symbol.st_size) {
        const char *nearest = nearest_function(module, address);
        f->function = nearest && is_runtime_function(nearest) ? nearest : NULL;
    }
    Dwfl_Line *line = dwfl_module_getsrc(module, address);
    if (line)
        f->file = dwfl_lineinfo(line, NULL, &f->line, NULL, NULL, NULL);
}

static void open_debuginfo(struct gm_symbols *s) { s->dwfl = dwfl_begin(&callbacks); }

static void close_debuginfo(struct gm_symbols *s) {
    if (s->dwfl)
        dwfl_end(s->dwfl);
}
#else
static void name_frame(struct gm_symbols *s, struct frame *f, uint64_t address) {
    (void)s, (void)f, (void)address;
}
static void open_debuginfo(struct gm_symbols *s) { (void)s; }
static void close_debuginfo(struct gm_symbols *s) { (void)s; }
#endif

struct gm_symbols *gm_symbols_new(const struct gm_reader *reader) {
    struct gm_symbols *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->reader = reader;
    open_debuginfo(s);
    /* C++ names need the C++ library; the tool is C and does without where there is none. */
    s->cxx = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
    if (s->cxx)
        *(void **)&s->demangle = dlsym(s->cxx, "__cxa_demangle");
    return s;
}

void gm_symbols_free(struct gm_symbols *s) {
    if (!s)
        return;
    close_debuginfo(s);
    if (s->cxx)
        dlclose(s->cxx);
    free(s);
}

static struct frame look_up(struct gm_symbols *s, uint64_t return_address) {
    /* The call lies before the address it returns to, which may already belong to the next line or function. */
    uint64_t address = return_address ? return_address - 1 : 0;
    struct frame f = {0};
    f.in_module = gm_reader_module(s->reader, address, &f.module);
    if (f.in_module) {
        f.offset = return_address - f.module.base;
        name_frame(s, &f, address);
    }
    return f;
}

static void write_name(struct gm_symbols *s, const struct frame *f, uint64_t address, char *out, size_t size) {
    if (!f->in_module) {
        snprintf(out, size, "0x%llx", (unsigned long long)address);
        return;
    }
    const char *module = base_name(f->module.path);
    if (!f->function) {
        snprintf(out, size, "%s+0x%llx", module, (unsigned long long)f->offset);
        return;
    }
    int status = 0;
    char *plain = s->demangle && starts(f->function, "_Z") ? s->demangle(f->function, NULL, NULL, &status) : NULL;
    const char *name = plain && !status ? plain : f->function;
    if (f->file)
        snprintf(out, size, "%s at %s:%d (%s)", name, base_name(f->file), f->line, module);
    else
        snprintf(out, size, "%s (%s+0x%llx)", name, module, (unsigned long long)f->offset);
    free(plain);
}

void gm_symbols_site(struct gm_symbols *s, uint32_t id, struct gm_site_name *name) {
    struct gm_site site;
    *name = (struct gm_site_name){"unknown site", false};
    if (id)
        snprintf(name->text, sizeof name->text, "site %u, which the trace does not describe", id);
    if (!id || !gm_reader_site(s->reader, id, &site) || !site.frames)
        return;
    unsigned at = site.outside < site.frames ? site.outside : 0;
    struct frame outside = look_up(s, site.addresses[at]), chosen = outside;
    uint64_t address = site.addresses[at];
    for (unsigned i = at; i < site.frames; i++) {
        struct frame f = i == at ? outside : look_up(s, site.addresses[i]);
        if (f.in_module && (is_runtime_module(base_name(f.module.path)) || (f.function && is_runtime_function(f.function))))
            continue;
        chosen = f;
        address = site.addresses[i];
        break;
    }
    name->toolkit = chosen.in_module && is_toolkit_module(base_name(chosen.module.path));
    write_name(s, &chosen, address, name->text, sizeof name->text);
}
