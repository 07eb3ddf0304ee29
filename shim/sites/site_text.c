/* Names a call site (site_text.h). The stack may be small, so names lie in pages of their own. */
#include "shim/sites/site_text.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/base/function_name.h"
#include "shim/base/libraries.h"
#include "shim/base/symbol.h"
#include "shim/base/wrappers.h"
#include "shim/sites/python.h"
#include "shim/sites/site.h"
#include "shim/trace/event.h"

enum { WALK = 64 };

struct names {
    uintptr_t address; /* the frame that was looked up last */
    uintptr_t base;    /* of its module; 0: outside all modules */
    char path[512], symbol[256], name[96];
    uintptr_t frames[WALK];
};

static void note_module(const struct dl_phdr_info *info, void *arg) {
    struct names *n = arg;
    ssize_t length;
    n->base = info->dlpi_addr;
    if (info->dlpi_name[0]) {
        gm_format(n->path, sizeof n->path, "%s", info->dlpi_name);
        return;
    }
    length = readlink("/proc/self/exe", n->path, sizeof n->path - 1);
    n->path[length > 0 ? length : 0] = '\0';
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
static unsigned choose(struct names *n, const uintptr_t *frames, unsigned count) {
    unsigned outermost = 0, unnamed = count;
    uintptr_t unnamed_base = 0;
    bool linked_in = true;
    for (unsigned i = 0; i < count; i++) {
        enum gm_wrapper_kind kind = look_up(n, frames[i]);
        if (gm_library_traits(n->path) & GM_LIBRARY_RUNTIME)
            linked_in = false;
        if (kind == GM_WRAPPER_LAYER)
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

static void describe(struct names *n, uintptr_t address, struct gm_site_text *room) {
    if (GM_FRAME_IS_PYTHON(address)) {
        gm_format(room->text, sizeof room->text, "%s", gm_python_text(address));
        return;
    }
    look_up(n, address);
    const char *slash = strrchr(n->path, '/'), *file = slash ? slash + 1 : n->path;
    if (n->symbol[0])
        gm_function_name(n->name, sizeof n->name, n->symbol);
    if (!n->path[0])
        gm_format(room->text, sizeof room->text, "0x%lx", (unsigned long)address);
    else
        gm_format(room->text, sizeof room->text, n->symbol[0] ? "%s (%s+0x%lx)" : "%s%s+0x%lx",
                  n->symbol[0] ? n->name : "", file, (unsigned long)(address - n->base));
}

uintptr_t gm_site_named_frame(uint32_t site) {
    const uintptr_t *frames;
    unsigned count = gm_site_frames(site, &frames);
    uintptr_t python = gm_site_python(site);
    struct names *n = count ? gm_pages(sizeof *n) : NULL;
    if (!n)
        return python;
    uintptr_t address = frames[choose(n, frames, count)];
    if (python && look_up(n, address) != GM_WRAPPER_NONE)
        address = python;
    munmap(n, sizeof *n);
    return address;
}

const char *gm_site_text(struct gm_site_text *room, uint32_t site) {
    uintptr_t address = gm_site_named_frame(site);
    struct names *n = address ? gm_pages(sizeof *n) : NULL;
    gm_format(room->text, sizeof room->text, "unknown");
    if (!n)
        return room->text;
    describe(n, address, room);
    munmap(n, sizeof *n);
    return room->text;
}

const char *gm_site_text_here(struct gm_site_text *room) {
    struct names *n = gm_pages(sizeof *n);
    gm_format(room->text, sizeof room->text, "unknown");
    if (!n)
        return room->text;
    unsigned count = gm_site_walk(n->frames, WALK);
    if (count)
        describe(n, n->frames[choose(n, n->frames, count)], room);
    munmap(n, sizeof *n);
    return room->text;
}
