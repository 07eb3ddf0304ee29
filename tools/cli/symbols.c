/* Names call sites (symbols.h). Each return address is looked up once. */
#include "tools/cli/symbols.h"
#include "tools/cli/cxx_name.h"
#include "tools/cli/debuginfo.h"
#include "tools/cli/number_text.h"
#include "tools/cli/shown.h"

#include "shim/base/function_name.h"
#include "shim/base/wrappers.h"

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
    unsigned depth;       /* limit of frames beyond the first one outside the runtime */
    struct frame *frames; /* by address */
    bool own_known;
    struct gm_own_wrappers own;
};

struct function {
    struct gm_frame_name name;
    enum gm_wrapper_kind kind;
    uint64_t key;    /* the same for all frames of the function, in any trace; 0 = unknown */
    char plain[128]; /* name without arguments; of Python with its file */
};

/* The functions at one return address, innermost first: those that are inlined there, and the one that contains them.
 */
struct frame {
    uint64_t address;
    bool in_module;
    enum { NATIVE, GLUE, INTERPRETER, PYTHON } role;
    bool known;     /* there is a function name or a line */
    bool runtime;   /* all functions belong to the CUDA runtime */
    unsigned own;   /* the innermost function that does not */
    unsigned count; /* at least 1 */
    UT_hash_handle hh;
    struct function functions[];
};

static bool starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

static bool is_runtime_module(const char *path) { return starts(gm_text_base_name(path), "libcudart"); }

static bool is_runtime_location(const struct gm_source_location *location) {
    return location->toolkit_header || (location->function && gm_function_is_runtime(location->function));
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
    s->depth = GM_DEPTH_WHOLE;
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
    struct frame *f, *next_frame;
    HASH_ITER(hh, s->frames, f, next_frame) {
        HASH_DEL(s->frames, f);
        free(f);
    }
    gm_debuginfo_free(s->debuginfo);
    if (s->cxx)
        dlclose(s->cxx);
    free(s);
}

/* An address inside the call. The return address may already belong to the next line or function. */
static uint64_t call_before(uint64_t return_address) { return return_address ? return_address - 1 : 0; }

/* Writes the name without arguments, those of templates too. */
static void write_plain(const char *symbol, char *out, size_t size) {
    char plain[256];
    gm_function_name(plain, sizeof plain, symbol);
    gm_shown(out, size, plain);
}

/* Writes the demangled name without suffixes of the compiler: "_Z4loadi.constprop.0" is a copy of "_Z4loadi". A name
 * that is too long loses its arguments, those of templates too. */
static void write_function(struct gm_symbols *s, const char *function, char *out, size_t size) {
    const char *dot = strchr(function, '.');
    int status = 0;
    char *symbol = strndup(function, dot && dot > function ? (size_t)(dot - function) : strlen(function));
    bool mangled = symbol && starts(symbol, "_Z");
    char *plain = s->demangle && mangled ? s->demangle(symbol, NULL, NULL, &status) : NULL;
    if (plain)
        gm_cxx_name_shorten(plain);
    const char *name = plain && !status ? plain : symbol ? symbol : function;
    if (mangled && strlen(name) >= size)
        write_plain(symbol, out, size);
    else
        gm_shown(out, size, name);
    free(plain);
    free(symbol);
}

static void write_name(struct gm_symbols *s, uint64_t address, const struct gm_module *in,
                       const struct gm_source_location *location, struct gm_frame_name *name) {
    *name = (struct gm_frame_name){0};
    if (!in) {
        snprintf(name->text, sizeof name->text, "0x%llx", (unsigned long long)address);
        return;
    }
    char module[256], brief[101], place[128] = "";
    gm_shown(module, sizeof module, gm_text_base_name(in->path));
    gm_shown(brief, sizeof brief, module);
    name->toolkit = gm_wrapper_is_toolkit(in->path);
    name->offset = address - in->base;
    gm_shown(name->module, sizeof name->module, in->path);
    if (location->function && !location->guessed)
        write_function(s, location->function, name->function, sizeof name->function);
    if (location->file) {
        gm_shown(name->file, sizeof name->file, location->file);
        gm_shown(place, sizeof place, gm_text_base_name(location->file));
        name->line = location->line;
    }
    if (name->function[0] && name->file[0])
        snprintf(name->text, sizeof name->text, "%s at %s:%d (%s)", name->function, place, name->line, brief);
    else if (name->function[0])
        snprintf(name->text, sizeof name->text, "%s (%s+0x%llx)", name->function, brief,
                 (unsigned long long)name->offset);
    else if (name->file[0])
        snprintf(name->text, sizeof name->text, "%s:%d (%s)", place, name->line, brief);
    else
        snprintf(name->text, sizeof name->text, "%s+0x%llx", module, (unsigned long long)name->offset);
}

/* The file takes the place of the module: it is what another run has, too. */
static void write_python_name(const struct gm_python_frame *python, struct gm_frame_name *name) {
    char place[201];
    *name = (struct gm_frame_name){.line = python->line};
    gm_shown(name->function, sizeof name->function, python->function);
    gm_shown(name->file, sizeof name->file, python->file);
    gm_shown(name->module, sizeof name->module, python->file);
    gm_shown(place, sizeof place, gm_text_base_name(python->file));
    snprintf(name->text, sizeof name->text, "%s:%d %s", place, python->line, name->function);
}

static uint64_t hash_of(const char *a, const char *b) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (unsigned i = 0; i < 2; i++)
        for (const char *p = i ? b : a;; p++) {
            hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
            if (!*p)
                break;
        }
    return hash;
}

static void write_functions(struct gm_symbols *s, struct frame *f, const struct gm_module *in,
                            const struct gm_source_location *locations) {
    for (unsigned i = 0; i < f->count; i++) {
        struct function *function = &f->functions[i];
        struct gm_frame_name name;
        write_name(s, f->address, in, &locations[i], &name);
        function->name = name;
        function->kind = gm_wrapper_kind(&(struct gm_wrapper_frame){
            .symbol = function->name.function[0] ? locations[i].function : NULL,
            .function = function->name.function,
            .module = function->name.module,
            .source = function->name.file,
        });
        if (!function->name.function[0])
            continue;
        write_plain(locations[i].function, function->plain, sizeof function->plain);
        *strchrnul(function->plain, '.') = '\0'; /* suffixes of the compiler */
        function->key = hash_of(gm_text_base_name(function->name.module), function->plain);
    }
}

/* What stands between Python code and the library that it calls: the interpreter, and modules that call C functions by
 * name. */
static int role_of(const char *file) {
    if (starts(file, "libpython") || starts(file, "python"))
        return INTERPRETER;
    return starts(file, "libffi.so") || starts(file, "_ctypes.") || starts(file, "_cffi_backend.") ? GLUE : NATIVE;
}

/* The frame is the caller's. `module` NULL: the address lies outside all modules. NULL: no memory. */
static struct frame *new_frame(struct gm_symbols *s, uint64_t address, const struct gm_module *module) {
    struct gm_source_location locations[GM_SOURCE_LOCATIONS] = {0};
    unsigned count = module ? gm_debuginfo_locations(s->debuginfo, module, call_before(address), locations) : 0;
    struct frame *f = calloc(1, sizeof *f + (count + !count) * sizeof f->functions[0]);
    if (!f)
        return NULL;
    *f = (struct frame){.address = address,
                        .in_module = module != NULL,
                        .known = count && (!locations[0].guessed || locations[0].file),
                        .count = count + !count};
    f->role = module ? role_of(gm_text_base_name(module->path)) : NATIVE;
    f->runtime = module && is_runtime_module(module->path);
    for (unsigned i = 0; i < count && is_runtime_location(&locations[i]); i++)
        f->own = i + 1;
    if (f->own == f->count)
        f->runtime = true;
    if (f->runtime)
        f->own = 0;
    write_functions(s, f, module, locations);
    return f;
}

/* The frame is the caller's. NULL: no memory. */
static struct frame *new_python_frame(uint64_t address, const struct gm_python_frame *python) {
    char name[81], file[41];
    struct frame *f = calloc(1, sizeof *f + sizeof f->functions[0]);
    if (!f)
        return NULL;
    f->address = address;
    f->role = PYTHON;
    f->known = true;
    f->count = 1;
    struct function *function = &f->functions[0];
    write_python_name(python, &function->name);
    function->kind =
        gm_wrapper_kind(&(struct gm_wrapper_frame){.function = function->name.function, .source = function->name.file});
    gm_shown(name, sizeof name, function->name.function);
    gm_shown(file, sizeof file, gm_text_base_name(function->name.file));
    snprintf(function->plain, sizeof function->plain, "%s (%s)", name, file);
    function->key = hash_of(function->name.file, function->name.function);
    return f;
}

static const struct frame *look_up(struct gm_symbols *s, uint64_t address) {
    struct gm_module module;
    struct gm_python_frame python;
    struct frame *f;
    HASH_FIND(hh, s->frames, &address, sizeof address, f);
    if (f)
        return f;
    if (gm_reader_python(s->reader, address, &python))
        f = new_python_frame(address, &python);
    else
        f = new_frame(s, address, gm_reader_module(s->reader, call_before(address), &module) ? &module : NULL);
    if (f)
        HASH_ADD(hh, s->frames, address, sizeof f->address, f);
    return f;
}

/* ---- the frames of one site */

struct cursor {
    struct gm_symbols *symbols;
    struct gm_site site;
    unsigned at;               /* index of the frame */
    const struct frame *frame; /* NULL: the end, or no memory */
    unsigned inner;            /* index of its function */
    unsigned native_end;       /* index behind the last return address that counts; Python frames follow */
};

/* Looks up the frame at the index. With Python frames a later one is taken in place of a frame that is not shown: the
 * native frames end at the interpreter, since Python frames describe what follows. */
static void find_frame(struct cursor *c) {
    const struct gm_site *site = &c->site;
    for (;; c->at++) {
        if (c->at >= c->native_end && c->at < site->native)
            c->at = site->native;
        c->frame = c->at < site->frames ? look_up(c->symbols, site->addresses[c->at]) : NULL;
        if (!c->frame || site->native == site->frames || c->frame->role == NATIVE || c->frame->role == PYTHON)
            return;
        if (c->frame->role == INTERPRETER)
            c->at = site->native - 1;
    }
}

/* Finds the frame that requested the memory. If all frames belong to the runtime, it is the first one that the library
 * recorded as outside the runtime. */
static void find_requester(struct cursor *c) {
    unsigned outside = c->site.outside < c->site.frames ? c->site.outside : 0;
    c->inner = 0;
    for (c->at = outside; find_frame(c), c->frame; c->at++) {
        const struct frame *f = c->frame;
        unsigned shared =
            !f->runtime && !f->known && f->in_module && !c->at ? skip_shared_frames(c->symbols, &c->site) : 0;
        if (shared && shared < c->site.frames) {
            c->at = shared;
            find_frame(c);
            return;
        }
        if (!f->runtime) {
            c->inner = f->own;
            return;
        }
    }
    c->at = outside;
    c->frame = look_up(c->symbols, c->site.addresses[outside]);
}

/* Moves to the function that requested the memory. False: the site is unknown. */
static bool begin(struct cursor *c, struct gm_symbols *s, uint32_t id) {
    *c = (struct cursor){.symbols = s};
    if (!id || !gm_reader_site(s->reader, id, &c->site) || !c->site.frames)
        return false;
    c->native_end = c->site.native;
    if (c->native_end > c->site.outside && c->native_end - c->site.outside - 1 > s->depth)
        c->native_end = c->site.outside + 1 + s->depth;
    find_requester(c);
    return c->frame != NULL;
}

static const struct function *current(const struct cursor *c) {
    return c->frame ? &c->frame->functions[c->inner] : NULL;
}

/* Moves to the caller. */
static void advance(struct cursor *c) {
    if (++c->inner < c->frame->count)
        return;
    c->inner = 0;
    c->at++;
    find_frame(c);
}

static bool is_own_wrapper(const struct gm_symbols *s, uint64_t key) {
    for (unsigned i = 0; i < s->own.count; i++)
        if (s->own.functions[i] == key)
            return true;
    return false;
}

/* Moves from the requester to the call site. `own`: past the program's own wrappers, too. */
static void skip_wrappers(struct cursor *c, bool own) {
    struct cursor outermost = *c;
    bool stepped = false;
    for (; c->frame; advance(c)) {
        const struct function *f = current(c);
        bool steps = own && f->kind == GM_WRAPPER_NONE && is_own_wrapper(c->symbols, f->key);
        if (f->kind == GM_WRAPPER_NONE && !steps)
            return;
        if (steps || (!stepped && (f->kind == GM_WRAPPER_LAYER || f->kind == GM_WRAPPER_STANDARD)))
            outermost = *c;
        stepped |= steps;
    }
    *c = outermost;
}

/* Code that says nothing about a request that another function made. */
static bool is_folded(const struct function *f) {
    return f->kind == GM_WRAPPER_SYSTEM || f->kind == GM_WRAPPER_STANDARD;
}

/* ---- the program's own wrappers */

struct gathering {
    struct gm_symbols *symbols;
    struct gm_own_stack *stacks;
    size_t count;
    bool *requesting; /* by the site's index */
};

/* Call sites of frees say nothing about wrappers. The first events are enough: what is rare decides nothing. */
static void find_requesting(struct gathering *g) {
    enum { EVENTS = 1 << 22 };
    struct gm_event event;
    struct gm_site site = {0};
    char error[512];
    int thread;
    struct gm_reader *r = gm_reader_open(gm_reader_path(g->symbols->reader), error, sizeof error);
    for (unsigned i = 0; r && i < EVENTS && gm_reader_next(r, &event, &thread); i++) {
        bool requests = event.action == GM_ACT_ALLOC || event.action == GM_ACT_ALLOC_FAIL || event.action == GM_ACT_SUM;
        if (requests && event.site && event.site != site.id && gm_reader_site(g->symbols->reader, event.site, &site))
            g->requesting[site.index] = true;
    }
    gm_reader_close(r);
}

/* The instances of a template are one place of the code. */
static uint64_t place_of(const struct function *f) {
    char place[sizeof f->name.file + sizeof f->plain + 16];
    if (!f->plain[0] || !f->name.file[0])
        return hash_of(f->name.module, f->name.text);
    snprintf(place, sizeof place, "%s:%d %s", f->name.file, f->name.line, f->plain);
    return hash_of(f->name.module, place);
}

static void gather(const struct gm_site *site, void *arg) {
    struct gathering *g = arg;
    struct cursor c;
    if (!g->requesting[site->index] || !begin(&c, g->symbols, site->id))
        return;
    struct gm_own_stack *stack = &g->stacks[g->count];
    skip_wrappers(&c, false);
    for (; c.frame && stack->count < GM_OWN_LEVELS; advance(&c)) {
        const struct function *f = current(&c);
        if (stack->count && f->kind != GM_WRAPPER_NONE)
            continue;
        stack->frames[stack->count++] = (struct gm_own_frame){f->key, place_of(f), f->plain};
    }
    g->count += stack->count > 0;
}

const struct gm_own_wrappers *gm_symbols_own_wrappers(struct gm_symbols *s) {
    struct gathering g = {.symbols = s};
    size_t sites;
    if (s->own_known)
        return &s->own;
    s->own_known = true;
    if (!s->reader || !gm_wrappers_step())
        return &s->own;
    sites = gm_reader_site_count(s->reader);
    g.stacks = calloc(sites + 1, sizeof *g.stacks);
    g.requesting = calloc(sites + 1, sizeof *g.requesting);
    if (g.stacks && g.requesting && sites > 1) {
        find_requesting(&g);
        gm_reader_each_site(s->reader, gather, &g);
        gm_own_wrappers_find(&s->own, g.stacks, g.count);
    }
    free(g.stacks);
    free(g.requesting);
    return &s->own;
}

void gm_symbols_share_wrappers(struct gm_symbols *a, struct gm_symbols *b) {
    gm_symbols_own_wrappers(a);
    gm_symbols_own_wrappers(b);
    for (unsigned side = 0; side < 2; side++) {
        struct gm_own_wrappers *to = side ? &b->own : &a->own;
        const struct gm_own_wrappers *from = side ? &a->own : &b->own;
        for (unsigned i = 0; i < from->count && to->count < GM_OWN_WRAPPERS; i++) {
            if (is_own_wrapper(side ? b : a, from->functions[i]))
                continue;
            to->functions[to->count] = from->functions[i];
            memcpy(to->names[to->count++], from->names[i], sizeof from->names[i]);
        }
    }
}

/* ---- stacks */

static void find_site(struct cursor *c) {
    gm_symbols_own_wrappers(c->symbols);
    skip_wrappers(c, true);
}

unsigned gm_symbols_stack(struct gm_symbols *s, uint32_t id, enum gm_stack_begin from, struct gm_frame_name *names,
                          unsigned room) {
    struct cursor c, site;
    unsigned count = 0;
    if (!begin(&c, s, id)) {
        *names = (struct gm_frame_name){.text = "unknown site"};
        if (id)
            snprintf(names->text, sizeof names->text, "site %u, which the trace does not describe", id);
        return 1;
    }
    bool toolkit = current(&c)->name.toolkit;
    site = c;
    if (from == GM_STACK_KNOWN)
        skip_wrappers(&site, false);
    else
        find_site(&site);
    if (from != GM_STACK_REQUESTER)
        c = site;
    for (bool caller = false; c.frame && count < room; advance(&c)) {
        if (!caller || !is_folded(current(&c)))
            names[count++] = current(&c)->name;
        caller |= c.at == site.at && c.inner == site.inner;
    }
    names[0].toolkit = toolkit;
    return count;
}

unsigned gm_symbols_wrappers(struct gm_symbols *s, uint32_t id) {
    struct cursor c, site;
    unsigned count = 0;
    if (!begin(&c, s, id))
        return 0;
    site = c;
    find_site(&site);
    for (; c.frame && (c.at != site.at || c.inner != site.inner); advance(&c))
        count++;
    return count;
}

void gm_symbols_site(struct gm_symbols *s, uint32_t id, struct gm_frame_name *name) {
    gm_symbols_stack(s, id, GM_STACK_SITE, name, 1);
}

struct depth {
    struct gm_symbols *symbols;
    unsigned deepest;
    bool cut; /* one of the deepest call sites does not end at the start of the program or of a thread */
};

static void note_depth(const struct gm_site *site, void *arg) {
    struct depth *d = arg;
    unsigned outside = site->outside < site->native ? site->outside : 0;
    if (!site->native || site->native - outside - 1 < d->deepest)
        return;
    const struct frame *last = look_up(d->symbols, site->addresses[site->native - 1]);
    bool cut = !last || last->functions[last->count - 1].kind != GM_WRAPPER_SYSTEM;
    d->cut = site->native - outside - 1 > d->deepest ? cut : d->cut || cut;
    d->deepest = site->native - outside - 1;
}

unsigned gm_symbols_depth(struct gm_symbols *s) {
    struct depth d = {.symbols = s};
    gm_reader_each_site(s->reader, note_depth, &d);
    return d.cut ? d.deepest : GM_DEPTH_WHOLE;
}

void gm_symbols_limit_depth(struct gm_symbols *s, unsigned depth) { s->depth = depth; }

void gm_symbols_frames(struct gm_symbols *s, const struct gm_module *module, const uint64_t *addresses, unsigned count,
                       struct gm_frame_name *name) {
    struct frame *f = NULL;
    *name = (struct gm_frame_name){.text = "unknown site"};
    for (unsigned i = 0; i < count; i++) {
        free(f);
        f = new_frame(s, addresses[i], module);
        if (f)
            *name = f->functions[f->own].name;
        if (f && !f->runtime)
            break;
    }
    free(f);
}
