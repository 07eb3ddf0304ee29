/* Names a call site (site_text.h). The stack may be small, so names lie in pages of their own. */
#include "shim/core/site_text.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/base/symbol.h"
#include "shim/core/site.h"

struct names {
    struct gm_site_location location;
    char name[96];
};

/* A function of the CUDA runtime that was linked statically. */
static bool is_runtime(const char *name) {
    return !strncmp(name, "cuda", 4) || !strncmp(name, "__cuda", 6) || !strncmp(name, "libcudart_static", 16);
}

static const char *file_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A return address may be the first one of the next function, so the byte before it is looked up. */
static void describe(struct names *n, struct gm_site_text *room) {
    const struct gm_site_location *location = &n->location;
    uintptr_t offset = location->frames[0] - location->base;
    bool named = false;
    for (unsigned i = 0; i < location->count; i++) {
        uintptr_t at = location->frames[i] - location->base;
        if (!gm_symbol_find(location->module, at - 1, n->name, sizeof n->name) || is_runtime(n->name))
            continue;
        offset = at;
        named = true;
        break;
    }
    gm_format(room->text, sizeof room->text, named ? "%s (%s+0x%lx)" : "%s%s+0x%lx", named ? n->name : "",
              file_of(location->module), (unsigned long)offset);
}

const char *gm_site_text(struct gm_site_text *room, uint32_t site) {
    struct names *n = site ? gm_pages(sizeof *n) : NULL;
    gm_format(room->text, sizeof room->text, "unknown");
    if (!n)
        return room->text;
    if (gm_site_location(site, &n->location) && n->location.count)
        describe(n, room);
    munmap(n, sizeof *n);
    return room->text;
}
