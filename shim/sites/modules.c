/* One table, to which modules are only added (modules.h). */
#include "shim/sites/modules.h"

#include <string.h>
#include <sys/mman.h>

#include "policy/site_key.h"
#include "shim/base/libraries.h"
#include "shim/trace/writer.h"

enum { MODULES = 1024 };

static struct gm_site_module modules[MODULES];
static unsigned count;   /* stored behind the module, for readers without the lock */
GM_ZERO_IN_CHILD(count); /* the child writes a trace of its own */
GM_LOCK(lock);           /* for writers. The loader is never called under it */

struct search {
    uintptr_t ip;
    bool found;
    struct gm_site_module module;
    char path[4096];
    union {
        struct gm_record_module record;
        char bytes[sizeof(struct gm_record_module) + 64 + 2048];
        uint64_t align;
    } out;
};

static size_t padded(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

static const unsigned char *build_id(const struct dl_phdr_info *info, uint32_t *bytes) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_NOTE)
            continue;
        const unsigned char *at = (const unsigned char *)(info->dlpi_addr + segment->p_vaddr),
                            *end = at + segment->p_memsz;
        while (at + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const unsigned char *name = at + sizeof(*note), *data = name + ((note->n_namesz + 3) & ~3u);
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(name, "GNU", 4) == 0 &&
                note->n_descsz <= 64) {
                *bytes = note->n_descsz;
                return data;
            }
            at = data + ((note->n_descsz + 3) & ~3u);
        }
    }
    *bytes = 0;
    return NULL;
}

static void describe_module(struct search *search, const struct dl_phdr_info *info, const char *path) {
    struct gm_record_module *record = &search->out.record;
    char *text = search->out.bytes + sizeof(*record);
    uint32_t id_bytes, path_bytes = (uint32_t)strlen(path);
    const unsigned char *id = build_id(info, &id_bytes);

    if (path_bytes > 2040)
        path_bytes = 2040;
    record->base = info->dlpi_addr;
    record->start = search->module.start;
    record->limit = search->module.limit;
    record->build_id_bytes = id_bytes;
    record->path_bytes = path_bytes;
    if (id)
        memcpy(text, id, id_bytes);
    memcpy(text + padded(id_bytes), path, path_bytes);
    record->head.type = GM_RECORD_MODULE;
    record->head.bytes = (uint32_t)(sizeof(*record) + padded(id_bytes) + padded(path_bytes));
}

static void visit_module(const struct dl_phdr_info *info, void *arg) {
    struct search *search = arg;
    const ElfW(Phdr) *segment = gm_library_segment(info, search->ip);
    if (!(segment->p_flags & PF_X))
        return;
    uintptr_t start = info->dlpi_addr + segment->p_vaddr;
    const char *path = search->path;
    gm_library_path(info, search->path, sizeof(search->path));
    search->module = (struct gm_site_module){
        .start = start,
        .limit = start + segment->p_memsz,
        .base = info->dlpi_addr,
        .key = gm_site_module_key(path, strlen(path)),
        .runtime = gm_library_traits(path) & GM_LIBRARY_RUNTIME,
        .c_library = gm_site_is_c_library(path, strlen(path)),
    };
    describe_module(search, info, path);
    search->found = true;
}

/* Searches the loaded modules. The search lies in its own pages because it is too large for a small stack. NULL: there
 * is none, or no memory. */
static struct search *search_at(uintptr_t ip) {
    struct search *search = gm_pages(sizeof(*search));
    if (!search)
        return NULL;
    search->ip = ip;
    gm_library_at(ip, visit_module, search);
    if (search->found)
        return search;
    munmap(search, sizeof(*search));
    return NULL;
}

const struct gm_site_module *gm_module_known(uintptr_t ip) {
    unsigned known = __atomic_load_n(&count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < known; i++)
        if (ip >= modules[i].start && ip < modules[i].limit)
            return &modules[i];
    return NULL;
}

static const struct gm_site_module *add_module(const struct search *search) {
    gm_spin_lock(&lock);
    const struct gm_site_module *known = gm_module_known(search->ip); /* another thread may have added it */
    if (!known && count < MODULES) {
        modules[count] = search->module;
        known = &modules[count];
        gm_trace_record(&search->out.record.head);
        __atomic_store_n(&count, count + 1, __ATOMIC_RELEASE);
    }
    gm_spin_unlock(&lock);
    return known;
}

const struct gm_site_module *gm_module_find(uintptr_t ip) {
    const struct gm_site_module *known = gm_module_known(ip);
    bool room = __atomic_load_n(&count, __ATOMIC_RELAXED) < MODULES;
    struct search *search = !known && room ? search_at(ip) : NULL;
    if (!search)
        return known;
    known = add_module(search);
    munmap(search, sizeof(*search));
    return known;
}

bool gm_module_look(uintptr_t ip, struct gm_site_module *module, char *path, size_t size) {
    struct search *search = search_at(ip);
    if (!search)
        return false;
    const struct gm_record_module *record = &search->out.record;
    *module = search->module;
    gm_format(path, size, "%.*s", (int)record->path_bytes,
              search->out.bytes + sizeof(*record) + padded(record->build_id_bytes));
    munmap(search, sizeof(*search));
    return true;
}

void gm_modules_define_again(void) {
    unsigned known = __atomic_load_n(&count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < known; i++) {
        struct search *search = search_at(modules[i].start);
        if (!search)
            continue;
        if (search->module.start == modules[i].start && search->module.limit == modules[i].limit)
            gm_trace_record(&search->out.record.head);
        munmap(search, sizeof(*search));
    }
}
