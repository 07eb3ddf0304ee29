#include "tools/cli/symbols.h"
#include "tools/cli/debuginfo.h"
#include "tools/cli/number_text.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* Call sites that share their innermost frame, with the length of the sequence of frames that all of them share. */
struct shared_frames {
    uint64_t first;
    unsigned common;
    const uint64_t *addresses; /* of one of these sites */
    UT_hash_handle hh;
};

struct gm_symbols {
    const struct gm_reader *reader;
    struct gm_debuginfo *debuginfo;
    char *(*demangle)(const char *mangled, char *room, size_t *length, int *status);
    void *cxx;
    struct shared_frames *shared;
    bool grown;
};

/* The functions at one return address. */
struct frame {
    uint64_t address;
    struct gm_module module;
    bool in_module;
    unsigned count; /* number of functions */
    struct gm_source_location locations[GM_SOURCE_LOCATIONS];
};

static bool starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

static bool is_runtime_module(const char *path) { return starts(gm_text_base_name(path), "libcudart"); }

static bool is_toolkit_module(const char *path) {
    static const char *const names[] = {"libcublas", "libcudnn",     "libcusparse", "libcufft",    "libcusolver",
                                        "libcurand", "libnccl",      "libnvrtc",    "libcutensor", "libnvjpeg",
                                        "libnpp",    "libnvJitLink", "libcuda.so",  "libnvshmem",  "libcupti"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (starts(gm_text_base_name(path), names[i]))
            return true;
    return false;
}

/* Functions of a statically linked runtime are in the program's own module. So are the C++ wrappers of its header, but
 * their mangled names begin with a length. */
static bool is_runtime_function(const char *name) {
    if (starts(name, "_Z")) {
        name += 2 + (name[2] == 'L');
        name += strspn(name, "0123456789");
    }
    return (starts(name, "cuda") && isupper((unsigned char)name[4])) || starts(name, "__cuda") ||
           starts(name, "libcudart_static_") || starts(name, "cudart");
}

static bool is_runtime_location(const struct gm_source_location *location) {
    return location->toolkit_header || (location->function && is_runtime_function(location->function));
}

/* A runtime linked into a program without symbols cannot be recognised by name. But all calls of the program enter the
 * driver through the same few functions. So the runtime ends where the call chains differ. */
static void note_shared_frames(const struct gm_site *site, void *arg) {
    struct gm_symbols *s = arg;
    struct shared_frames *t;
    unsigned common = 0;
    if (site->frames < 2 || site->outside)
        return;
    HASH_FIND(hh, s->shared, site->addresses, sizeof site->addresses[0], t);
    if (t) {
        while (common < t->common && common < site->frames && t->addresses[common] == site->addresses[common])
            common++;
        t->common = common;
        return;
    }
    t = calloc(1, sizeof *t);
    if (!t)
        return;
    *t = (struct shared_frames){.first = site->addresses[0], .common = site->frames, .addresses = site->addresses};
    HASH_ADD(hh, s->shared, first, sizeof t->first, t);
}

/* Index of the first frame after the shared ones; 0 if no other site shares its innermost frame. */
static unsigned skip_shared_frames(struct gm_symbols *s, const struct gm_site *site) {
    struct shared_frames *t;
    if (!s->grown)
        gm_reader_each_site(s->reader, note_shared_frames, s);
    s->grown = true;
    HASH_FIND(hh, s->shared, site->addresses, sizeof site->addresses[0], t);
    if (!t || (t->common == site->frames && t->addresses == site->addresses))
        return 0;
    return t->common < site->frames ? t->common : site->frames - 1;
}

struct gm_symbols *gm_symbols_new(const struct gm_reader *reader) {
    struct gm_symbols *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->reader = reader;
    s->debuginfo = gm_debuginfo_new();
    /* demangling needs the C++ library, which is optional */
    s->cxx = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
    if (s->cxx)
        *(void **)&s->demangle = dlsym(s->cxx, "__cxa_demangle");
    return s;
}

void gm_symbols_free(struct gm_symbols *s) {
    if (!s)
        return;
    struct shared_frames *t, *next;
    HASH_ITER(hh, s->shared, t, next) {
        HASH_DEL(s->shared, t);
        free(t);
    }
    gm_debuginfo_free(s->debuginfo);
    if (s->cxx)
        dlclose(s->cxx);
    free(s);
}

/* An address inside the call. The return address may already belong to the next line or function. */
static uint64_t call_before(uint64_t return_address) { return return_address ? return_address - 1 : 0; }

static void find_locations(struct gm_symbols *s, struct frame *f) {
    f->in_module = true;
    f->count = gm_debuginfo_locations(s->debuginfo, &f->module, call_before(f->address), f->locations);
}

static struct frame look_up(struct gm_symbols *s, uint64_t return_address) {
    struct frame f = {.address = return_address};
    if (gm_reader_module(s->reader, call_before(return_address), &f.module))
        find_locations(s, &f);
    return f;
}

/* The innermost function of the frame that does not belong to the runtime. NULL if all do. A frame without debug
 * information has the function `unknown`. */
static const struct gm_source_location *own_location(const struct frame *f) {
    static const struct gm_source_location unknown;
    if (f->in_module && is_runtime_module(f->module.path))
        return NULL;
    for (unsigned i = 0; i < f->count; i++)
        if (!is_runtime_location(&f->locations[i]))
            return &f->locations[i];
    return f->count ? NULL : &unknown;
}

static bool is_known(const struct frame *f) { return f->count && (!f->locations[0].guessed || f->locations[0].file); }

/* Writes the demangled name without suffixes of the compiler: "_Z4loadi.constprop.0" is a copy of "_Z4loadi". */
static void write_function(struct gm_symbols *s, const char *function, char *out, size_t size) {
    const char *dot = strchr(function, '.');
    int status = 0;
    snprintf(out, size, "%.*s", dot && dot > function ? (int)(dot - function) : (int)strlen(function), function);
    char *plain = s->demangle && starts(out, "_Z") ? s->demangle(out, NULL, NULL, &status) : NULL;
    if (plain && !status)
        snprintf(out, size, "%s", plain);
    free(plain);
}

static void write_name(struct gm_symbols *s, const struct frame *f, const struct gm_source_location *location,
                       struct gm_frame_name *name) {
    *name = (struct gm_frame_name){0};
    if (!f->in_module) {
        snprintf(name->text, sizeof name->text, "0x%llx", (unsigned long long)f->address);
        return;
    }
    const char *module = gm_text_base_name(f->module.path);
    name->toolkit = is_toolkit_module(f->module.path);
    name->offset = f->address - f->module.base;
    snprintf(name->module, sizeof name->module, "%s", f->module.path);
    if (location->function && !location->guessed)
        write_function(s, location->function, name->function, sizeof name->function);
    if (location->file) {
        snprintf(name->file, sizeof name->file, "%s", location->file);
        name->line = location->line;
    }
    if (name->function[0] && name->file[0])
        snprintf(name->text, sizeof name->text, "%.255s at %.127s:%d (%.100s)", name->function,
                 gm_text_base_name(name->file), name->line, module);
    else if (name->function[0])
        snprintf(name->text, sizeof name->text, "%.255s (%.100s+0x%llx)", name->function, module,
                 (unsigned long long)name->offset);
    else if (name->file[0])
        snprintf(name->text, sizeof name->text, "%.127s:%d (%.100s)", gm_text_base_name(name->file), name->line,
                 module);
    else
        snprintf(name->text, sizeof name->text, "%.255s+0x%llx", module, (unsigned long long)name->offset);
}

/* Finds the frame that requested the memory: its index, the frame, and its function. If all frames belong to the
 * runtime, it is the first one that the library recorded as outside the runtime. */
static unsigned find_requester(struct gm_symbols *s, const struct gm_site *site, struct frame *frame,
                               const struct gm_source_location **location) {
    static const struct gm_source_location unknown;
    unsigned outside = site->outside < site->frames ? site->outside : 0;
    for (unsigned i = outside; i < site->frames; i++) {
        *frame = look_up(s, site->addresses[i]);
        *location = own_location(frame);
        if (*location && !is_known(frame) && frame->in_module && !i && (i = skip_shared_frames(s, site))) {
            *frame = look_up(s, site->addresses[i]);
            *location = frame->count ? &frame->locations[0] : &unknown;
        }
        if (*location)
            return i;
    }
    *frame = look_up(s, site->addresses[outside]);
    *location = frame->count ? &frame->locations[0] : &unknown;
    return outside;
}

unsigned gm_symbols_stack(struct gm_symbols *s, uint32_t id, struct gm_frame_name *names, unsigned room) {
    struct gm_site site;
    struct frame frame;
    const struct gm_source_location *location;
    *names = (struct gm_frame_name){.text = "unknown site"};
    if (id)
        snprintf(names->text, sizeof names->text, "site %u, which the trace does not describe", id);
    if (!id || !gm_reader_site(s->reader, id, &site) || !site.frames)
        return 1;
    unsigned at = find_requester(s, &site, &frame, &location), count = 0;
    write_name(s, &frame, location, &names[count++]);
    unsigned inner = frame.count ? (unsigned)(location - frame.locations) + 1 : 1;
    while (count < room) {
        if (inner < frame.count) {
            write_name(s, &frame, &frame.locations[inner++], &names[count++]);
            continue;
        }
        if (++at >= site.frames)
            break;
        frame = look_up(s, site.addresses[at]);
        inner = 1;
        write_name(s, &frame, &frame.locations[0], &names[count++]);
    }
    return count;
}

void gm_symbols_site(struct gm_symbols *s, uint32_t id, struct gm_frame_name *name) {
    gm_symbols_stack(s, id, name, 1);
}

void gm_symbols_frames(struct gm_symbols *s, const struct gm_module *module, const uint64_t *addresses, unsigned count,
                       struct gm_frame_name *name) {
    static const struct gm_source_location unknown;
    const struct gm_source_location *location = NULL;
    struct frame frame = {0};
    for (unsigned i = 0; i < count && !location; i++) {
        frame = (struct frame){.address = addresses[i], .module = *module};
        find_locations(s, &frame);
        location = own_location(&frame);
    }
    write_name(s, &frame, location ? location : &unknown, name);
}
