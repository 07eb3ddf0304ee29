/* Names a call site (site_text.h). The stack may be small, so names lie in pages of their own. */
#include "shim/sites/site_text.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/base/function_name.h"
#include "shim/base/libraries.h"
#include "shim/base/symbol.h"
#include "shim/base/wrappers.h"
#include "shim/sites/python.h"
#include "shim/sites/site.h"
#include "shim/trace/event.h"

struct names {
    uintptr_t address; /* the frame that was looked up last */
    uintptr_t base;    /* of its module; 0: outside all modules */
    char path[512], symbol[256], name[96];
    uintptr_t frames[GM_SITE_FRAMES];
};

static void note_module(const struct dl_phdr_info *info, void *arg) {
    struct names *n = arg;
    n->base = info->dlpi_addr;
    gm_library_path(info, n->path, sizeof n->path);
}

/* A return address may be the first one of the next function, so the byte before it is looked up. The symbol of a
 * known library is not needed. */
static enum gm_wrapper_kind look_up(struct names *n, uintptr_t address) {
    struct gm_wrapper_frame frame = {.module = n->path};
    n->address = address;
    n->base = 0;
    n->path[0] = n->symbol[0] = '\0';
    gm_library_at(address, note_module, n);
    enum gm_wrapper_kind kind = gm_wrapper_kind(&frame);
    if (kind != GM_WRAPPER_NONE || !n->path[0] ||
        !gm_symbol_find(n->path, address - n->base - 1, n->symbol, sizeof n->symbol))
        return kind;
    frame.symbol = n->symbol;
    return gm_function_is_runtime(n->symbol) ? GM_WRAPPER_LAYER : gm_wrapper_kind(&frame);
}

/* Index of the frame that names the site. A runtime that is linked into a program may have no symbols: if further
 * frames of the program have, the first of these counts. */
static unsigned choose_frame(struct names *n, const uintptr_t *frames, unsigned count) {
    unsigned outermost = 0, unnamed = count;
    uintptr_t unnamed_base = 0;
    bool linked_in = true;
    for (unsigned i = 0; i < count; i++) {
        enum gm_wrapper_kind kind = look_up(n, frames[i]);
        if (gm_library_traits(n->path) & GM_LIBRARY_RUNTIME)
            linked_in = false;
        if (kind == GM_WRAPPER_LAYER || kind == GM_WRAPPER_STANDARD)
            outermost = i;
        if (kind != GM_WRAPPER_NONE)
            continue;
        if (unnamed < count && n->base != unnamed_base)
            return unnamed;
        if (n->symbol[0] || !linked_in)
            return i;
        if (unnamed == count) {
            unnamed = i;
            unnamed_base = n->base;
        }
    }
    return unnamed < count ? unnamed : outermost;
}

static size_t describe_address(struct names *n, uintptr_t address, char *text, size_t size) {
    if (GM_FRAME_IS_PYTHON(address))
        return (size_t)gm_format(text, size, "%s", gm_python_text(address));
    look_up(n, address);
    const char *slash = strrchr(n->path, '/'), *file = slash ? slash + 1 : n->path;
    if (n->symbol[0])
        gm_function_name(n->name, sizeof n->name, n->symbol);
    if (!n->path[0])
        return (size_t)gm_format(text, size, "0x%lx", (unsigned long)address);
    return (size_t)gm_format(text, size, n->symbol[0] ? "%s (%s+0x%lx)" : "%s%s+0x%lx", n->symbol[0] ? n->name : "",
                             file, (unsigned long)(address - n->base));
}

/* The frame that names the site, and those of its callers that are no wrappers. */
static unsigned choose_native(struct names *n, const uintptr_t *frames, unsigned count, uintptr_t *chosen) {
    unsigned first = choose_frame(n, frames, count), used = 1;
    chosen[0] = frames[first];
    for (unsigned i = first + 1; i < count && used < GM_SITE_NAMED; i++)
        if (look_up(n, frames[i]) == GM_WRAPPER_NONE)
            chosen[used++] = frames[i];
    return used;
}

unsigned gm_site_named(uint32_t site, uintptr_t chosen[GM_SITE_NAMED]) {
    const uintptr_t *frames;
    uintptr_t python[GM_SITE_NAMED];
    unsigned count = gm_site_frames(site, &frames), used = 0;
    unsigned pythons = gm_site_python(site, python, GM_SITE_NAMED);
    struct names *n = count ? gm_pages(sizeof *n) : NULL;
    if (n) {
        used = choose_native(n, frames, count, chosen);
        if (pythons && look_up(n, chosen[0]) != GM_WRAPPER_NONE)
            used = 0;
        munmap(n, sizeof *n);
    }
    for (unsigned i = 0; i < pythons && used < GM_SITE_NAMED; i++)
        chosen[used++] = python[i];
    return used;
}

unsigned gm_site_named_here(uintptr_t chosen[GM_SITE_NAMED]) {
    struct names *n = gm_pages(sizeof *n);
    if (!n)
        return 0;
    unsigned count = gm_site_walk(n->frames);
    unsigned used = count ? choose_native(n, n->frames, count, chosen) : 0;
    munmap(n, sizeof *n);
    return used;
}

const char *gm_frames_text(struct gm_site_text *room, const uintptr_t *frames, unsigned count) {
    struct names *n = count ? gm_pages(sizeof *n) : NULL;
    size_t size = sizeof room->text, used = 0;
    gm_format(room->text, size, "unknown");
    for (unsigned i = 0; n && i < count && i < GM_SITE_SHOWN && used < size; i++) {
        used += (size_t)gm_format(room->text + used, size - used, "%s", i ? " < " : "");
        if (used < size)
            used += describe_address(n, frames[i], room->text + used, size - used);
    }
    if (n)
        munmap(n, sizeof *n);
    return room->text;
}

const char *gm_site_text(struct gm_site_text *room, uint32_t site) {
    uintptr_t frames[GM_SITE_NAMED];
    return gm_frames_text(room, frames, gm_site_named(site, frames));
}
