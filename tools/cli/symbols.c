#include "tools/cli/symbols.h"
#include "tools/cli/number_text.h"
#include "tools/cli/debuginfo.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* Sites that share their innermost frame, with the length of what they all begin with. */
struct trunk {
    uint64_t first;
    unsigned common;
    const uint64_t *addresses; /* of one of them */
    UT_hash_handle hh;
};

struct gm_symbols {
    const struct gm_reader *reader;
    struct gm_debuginfo *debuginfo;
    char *(*demangle)(const char *mangled, char *room, size_t *length, int *status);
    void *cxx;
    struct trunk *trunks;
    bool grown;
};

/* What is known of one return address. */
struct frame {
    uint64_t address;
    struct gm_module module;
    bool in_module;
    unsigned count; /* of places */
    struct gm_place places[GM_PLACES];
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

/* Functions of a statically linked runtime lie in the program's own module; so do the C++ wrappers of its
 * header, whose mangled names begin with a length. */
static bool is_runtime_function(const char *name) {
    if (starts(name, "_Z")) {
        name += 2 + (name[2] == 'L');
        name += strspn(name, "0123456789");
    }
    return (starts(name, "cuda") && isupper((unsigned char)name[4])) || starts(name, "__cuda") ||
           starts(name, "libcudart_static_") || starts(name, "cudart");
}

static bool is_runtime_place(const struct gm_place *place) {
    return place->toolkit_header || (place->function && is_runtime_function(place->function));
}

/* A runtime linked into a program without symbols has no name to know it by. But all calls of the program go
 * through the same few ways into the driver: where the chains part, the runtime has been left. */
static void grow_trunk(const struct gm_site *site, void *arg) {
    struct gm_symbols *s = arg;
    struct trunk *t;
    unsigned common = 0;
    if (site->frames < 2 || site->outside)
        return;
    HASH_FIND(hh, s->trunks, site->addresses, sizeof site->addresses[0], t);
    if (t) {
        while (common < t->common && common < site->frames && t->addresses[common] == site->addresses[common])
            common++;
        t->common = common;
        return;
    }
    t = calloc(1, sizeof *t);
    if (!t)
        return;
    *t = (struct trunk){.first = site->addresses[0], .common = site->frames, .addresses = site->addresses};
    HASH_ADD(hh, s->trunks, first, sizeof t->first, t);
}

/* Index of the first frame behind the trunk; 0 when no other site shares its innermost frame. */
static unsigned leave_trunk(struct gm_symbols *s, const struct gm_site *site) {
    struct trunk *t;
    if (!s->grown)
        gm_reader_each_site(s->reader, grow_trunk, s);
    s->grown = true;
    HASH_FIND(hh, s->trunks, site->addresses, sizeof site->addresses[0], t);
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
    /* C++ names need the C++ library; the tool is C and does without where there is none. */
    s->cxx = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
    if (s->cxx)
        *(void **)&s->demangle = dlsym(s->cxx, "__cxa_demangle");
    return s;
}

void gm_symbols_free(struct gm_symbols *s) {
    if (!s)
        return;
    struct trunk *t, *next;
    HASH_ITER(hh, s->trunks, t, next) {
        HASH_DEL(s->trunks, t);
        free(t);
    }
    gm_debuginfo_free(s->debuginfo);
    if (s->cxx)
        dlclose(s->cxx);
    free(s);
}

/* The call lies before the address it returns to, which may already belong to the next line or function. */
static uint64_t call_before(uint64_t return_address) { return return_address ? return_address - 1 : 0; }

static void find_places(struct gm_symbols *s, struct frame *f) {
    f->in_module = true;
    f->count = gm_debuginfo_places(s->debuginfo, &f->module, call_before(f->address), f->places);
}

static struct frame look_up(struct gm_symbols *s, uint64_t return_address) {
    struct frame f = {.address = return_address};
    if (gm_reader_module(s->reader, call_before(return_address), &f.module))
        find_places(s, &f);
    return f;
}

/* The frame's innermost place that is not the runtime's; NULL when the whole frame is. A frame of which
 * nothing is known has the place `unknown`. */
static const struct gm_place *own_place(const struct frame *f) {
    static const struct gm_place unknown;
    if (f->in_module && is_runtime_module(f->module.path))
        return NULL;
    for (unsigned i = 0; i < f->count; i++)
        if (!is_runtime_place(&f->places[i]))
            return &f->places[i];
    return f->count ? NULL : &unknown;
}

static bool is_known(const struct frame *f) { return f->count && (!f->places[0].guessed || f->places[0].file); }

/* "_Z4loadi.constprop.0" is the compiler's copy of "_Z4loadi". */
static void write_function(struct gm_symbols *s, const char *function, char *out, size_t size) {
    const char *dot = strchr(function, '.');
    int status = 0;
    snprintf(out, size, "%.*s", dot && dot > function ? (int)(dot - function) : (int)strlen(function), function);
    char *plain = s->demangle && starts(out, "_Z") ? s->demangle(out, NULL, NULL, &status) : NULL;
    if (plain && !status)
        snprintf(out, size, "%s", plain);
    free(plain);
}

static void write_name(struct gm_symbols *s, const struct frame *f, const struct gm_place *place,
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
    if (place->function && !place->guessed)
        write_function(s, place->function, name->function, sizeof name->function);
    if (place->file) {
        snprintf(name->file, sizeof name->file, "%s", place->file);
        name->line = place->line;
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

/* The frame that asked: its index, with the frame and the place in it. Where every frame is the runtime's,
 * the first one that the writer took for outside. */
static unsigned find_asker(struct gm_symbols *s, const struct gm_site *site, struct frame *frame,
                           const struct gm_place **place) {
    static const struct gm_place unknown;
    unsigned outside = site->outside < site->frames ? site->outside : 0;
    for (unsigned i = outside; i < site->frames; i++) {
        *frame = look_up(s, site->addresses[i]);
        *place = own_place(frame);
        if (*place && !is_known(frame) && frame->in_module && !i && (i = leave_trunk(s, site))) {
            *frame = look_up(s, site->addresses[i]);
            *place = frame->count ? &frame->places[0] : &unknown;
        }
        if (*place)
            return i;
    }
    *frame = look_up(s, site->addresses[outside]);
    *place = frame->count ? &frame->places[0] : &unknown;
    return outside;
}

unsigned gm_symbols_stack(struct gm_symbols *s, uint32_t id, struct gm_frame_name *names, unsigned room) {
    struct gm_site site;
    struct frame frame;
    const struct gm_place *place;
    *names = (struct gm_frame_name){.text = "unknown site"};
    if (id)
        snprintf(names->text, sizeof names->text, "site %u, which the trace does not describe", id);
    if (!id || !gm_reader_site(s->reader, id, &site) || !site.frames)
        return 1;
    unsigned at = find_asker(s, &site, &frame, &place), count = 0;
    write_name(s, &frame, place, &names[count++]);
    unsigned inner = frame.count ? (unsigned)(place - frame.places) + 1 : 1;
    while (count < room) {
        if (inner < frame.count) {
            write_name(s, &frame, &frame.places[inner++], &names[count++]);
            continue;
        }
        if (++at >= site.frames)
            break;
        frame = look_up(s, site.addresses[at]);
        inner = 1;
        write_name(s, &frame, &frame.places[0], &names[count++]);
    }
    return count;
}

void gm_symbols_site(struct gm_symbols *s, uint32_t id, struct gm_frame_name *name) {
    gm_symbols_stack(s, id, name, 1);
}

void gm_symbols_frames(struct gm_symbols *s, const struct gm_module *module, const uint64_t *addresses, unsigned count,
                       struct gm_frame_name *name) {
    static const struct gm_place unknown;
    const struct gm_place *place = NULL;
    struct frame frame = {0};
    for (unsigned i = 0; i < count && !place; i++) {
        frame = (struct frame){.address = addresses[i], .module = *module};
        find_places(s, &frame);
        place = own_place(&frame);
    }
    write_name(s, &frame, place ? place : &unknown, name);
}
