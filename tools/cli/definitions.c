#include "tools/cli/definitions.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct site {
    uint32_t id;
    uint32_t frames, outside, native;
    UT_hash_handle hh;
    uint64_t addresses[];
};

struct python {
    uint32_t id;
    struct gm_python_frame frame;
    UT_hash_handle hh;
    char text[]; /* function, then file */
};

struct text {
    uint32_t id;
    UT_hash_handle hh;
    char text[];
};

struct module {
    struct gm_module module;
    struct module *next;
    unsigned char data[]; /* path, then build id */
};

struct device {
    struct gm_device device;
    struct device *next;
    char name[];
};

struct context {
    struct gm_traced_context context;
    struct context *next;
};

/* Address ranges, each with the one module that owns it, for the modules known when the index was built. Look-ups
 * search later modules one by one. The index is rebuilt when such searches took as many steps as there are modules. */
struct module_index {
    const struct module *newest;
    size_t count, steps;
    uint64_t *starts;             /* ascending; a range ends where the next one starts */
    const struct module **owners; /* NULL: no module */
};

struct gm_definitions {
    struct site *sites;
    struct text *texts;
    struct python *python;
    struct module *modules; /* latest first: a later library may reuse the address range of an earlier one */
    size_t module_count;
    struct module_index index;
    struct device *devices, **last_device;
    struct context *contexts; /* latest first */
};

struct gm_definitions *gm_definitions_new(void) {
    struct gm_definitions *d = calloc(1, sizeof *d);
    if (d)
        d->last_device = &d->devices;
    return d;
}

void gm_definitions_free(struct gm_definitions *d) {
    struct site *site, *next_site;
    struct text *text, *next_text;
    struct python *python, *next_python;
    if (!d)
        return;
    HASH_ITER(hh, d->python, python, next_python) {
        HASH_DEL(d->python, python);
        free(python);
    }
    HASH_ITER(hh, d->sites, site, next_site) {
        HASH_DEL(d->sites, site);
        free(site);
    }
    HASH_ITER(hh, d->texts, text, next_text) {
        HASH_DEL(d->texts, text);
        free(text);
    }
    for (struct module *m = d->modules, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    free(d->index.starts);
    free(d->index.owners);
    for (struct device *v = d->devices, *next; v; v = next) {
        next = v->next;
        free(v);
    }
    for (struct context *c = d->contexts, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(d);
}

static bool add_site(struct gm_definitions *d, const struct gm_record_site *r, size_t bytes) {
    struct site *site;
    uint32_t id = r->id;
    if (bytes < sizeof *r || (bytes - sizeof *r) / sizeof(uint64_t) < r->frames)
        return false;
    HASH_FIND(hh, d->sites, &id, sizeof id, site);
    if (site)
        return true;
    site = malloc(sizeof *site + r->frames * sizeof(uint64_t));
    if (!site)
        return false;
    site->id = id;
    site->frames = r->frames;
    memcpy(site->addresses, r + 1, r->frames * sizeof(uint64_t));
    site->native = r->frames;
    while (site->native && GM_FRAME_IS_PYTHON(site->addresses[site->native - 1]))
        site->native--;
    site->outside = r->outside < site->native ? r->outside : 0;
    HASH_ADD(hh, d->sites, id, sizeof id, site);
    return true;
}

static bool add_module(struct gm_definitions *d, const struct gm_record_module *r, size_t bytes) {
    if (bytes < sizeof *r)
        return false;
    size_t room = bytes - sizeof *r, id_room = ((size_t)r->build_id_bytes + 7) & ~(size_t)7;
    if (id_room > room || r->path_bytes > room - id_room)
        return false;
    struct module *m = malloc(sizeof *m + r->path_bytes + 1 + r->build_id_bytes);
    if (!m)
        return false;
    memcpy(m->data, (const char *)(r + 1) + id_room, r->path_bytes);
    m->data[r->path_bytes] = 0;
    memcpy(m->data + r->path_bytes + 1, r + 1, r->build_id_bytes);
    m->module = (struct gm_module){r->base,          r->start, r->limit, (char *)m->data, m->data + r->path_bytes + 1,
                                   r->build_id_bytes};
    m->next = d->modules;
    d->modules = m;
    d->module_count++;
    return true;
}

static bool add_device(struct gm_definitions *d, const struct gm_record_device *r, size_t bytes) {
    if (bytes < sizeof *r || r->name_bytes > bytes - sizeof *r)
        return false;
    struct device *v = malloc(sizeof *v + r->name_bytes + 1);
    if (!v)
        return false;
    memcpy(v->name, r + 1, r->name_bytes);
    v->name[r->name_bytes] = 0;
    v->device = (struct gm_device){r->device, r->total, v->name};
    v->next = NULL;
    *d->last_device = v;
    d->last_device = &v->next;
    return true;
}

static bool add_string(struct gm_definitions *d, const struct gm_record_string *r, size_t bytes) {
    struct text *t;
    uint32_t id = r->id;
    if (bytes < sizeof *r || r->bytes > bytes - sizeof *r)
        return false;
    HASH_FIND(hh, d->texts, &id, sizeof id, t);
    if (t)
        return true;
    t = malloc(sizeof *t + r->bytes + 1);
    if (!t)
        return false;
    t->id = id;
    memcpy(t->text, r + 1, r->bytes);
    t->text[r->bytes] = 0;
    HASH_ADD(hh, d->texts, id, sizeof id, t);
    return true;
}

static bool add_python(struct gm_definitions *d, const struct gm_record_python *r, size_t bytes) {
    struct python *p;
    uint32_t id = bytes < sizeof *r ? 0 : r->id;
    size_t room = bytes < sizeof *r ? 0 : bytes - sizeof *r;
    if (bytes < sizeof *r || r->name_bytes > room || (((size_t)r->name_bytes + 7) & ~(size_t)7) > room ||
        r->file_bytes > room - (((size_t)r->name_bytes + 7) & ~(size_t)7))
        return false;
    HASH_FIND(hh, d->python, &id, sizeof id, p);
    if (p)
        return true;
    p = malloc(sizeof *p + r->name_bytes + r->file_bytes + 2);
    if (!p)
        return false;
    char *file = p->text + r->name_bytes + 1;
    memcpy(p->text, r + 1, r->name_bytes);
    p->text[r->name_bytes] = 0;
    memcpy(file, (const char *)(r + 1) + ((r->name_bytes + 7) & ~7u), r->file_bytes);
    file[r->file_bytes] = 0;
    p->id = id;
    p->frame = (struct gm_python_frame){p->text, file, r->line};
    HASH_ADD(hh, d->python, id, sizeof id, p);
    return true;
}

static bool add_context(struct gm_definitions *d, const struct gm_record_context *r, size_t bytes) {
    struct context *c = bytes < sizeof *r ? NULL : malloc(sizeof *c);
    if (!c)
        return false;
    c->context = (struct gm_traced_context){r->number, r->device, r->handle, r->id};
    c->next = d->contexts;
    d->contexts = c;
    return true;
}

bool gm_definitions_add(struct gm_definitions *d, const struct gm_record *record, size_t bytes) {
    switch (record->type) {
    case GM_RECORD_MODULE: return add_module(d, (const struct gm_record_module *)record, bytes);
    case GM_RECORD_SITE: return add_site(d, (const struct gm_record_site *)record, bytes);
    case GM_RECORD_DEVICE: return add_device(d, (const struct gm_record_device *)record, bytes);
    case GM_RECORD_STRING: return add_string(d, (const struct gm_record_string *)record, bytes);
    case GM_RECORD_CONTEXT: return add_context(d, (const struct gm_record_context *)record, bytes);
    case GM_RECORD_PYTHON: return add_python(d, (const struct gm_record_python *)record, bytes);
    default: return true;
    }
}

static struct gm_site public_site(const struct site *site) {
    return (struct gm_site){site->id, site->frames, site->outside, site->native, site->addresses};
}

bool gm_definitions_python(const struct gm_definitions *d, uint64_t address, struct gm_python_frame *out) {
    struct python *p = NULL;
    uint32_t id = (uint32_t)address;
    if (GM_FRAME_IS_PYTHON(address))
        HASH_FIND(hh, d->python, &id, sizeof id, p);
    if (p)
        *out = p->frame;
    return p != NULL;
}

bool gm_definitions_site(const struct gm_definitions *d, uint32_t id, struct gm_site *out) {
    struct site *site;
    HASH_FIND(hh, d->sites, &id, sizeof id, site);
    if (!site)
        return false;
    *out = public_site(site);
    return true;
}

void gm_definitions_each_site(const struct gm_definitions *d, void (*visit)(const struct gm_site *site, void *arg),
                              void *arg) {
    for (const struct site *site = d->sites; site; site = site->hh.next) {
        struct gm_site out = public_site(site);
        visit(&out, arg);
    }
}

static int compare_addresses(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Number of ranges that start at or before the address. */
static size_t starts_up_to(const struct module_index *index, uint64_t address) {
    size_t low = 0, high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->starts[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first range from `at` on without an owner. `after` skips ranges that have one. */
static size_t next_unowned(size_t *after, size_t at) {
    while (after[at] != at)
        at = after[at] = after[after[at]];
    return at;
}

/* Each module, latest first, gets the ranges between its ends that have no owner yet. Without memory the old index
 * remains. */
static void make_index(struct gm_definitions *d) {
    struct module_index index = {.newest = d->modules};
    size_t room = 2 * d->module_count;
    size_t *after = malloc((room + 1) * sizeof *after);
    index.starts = malloc((room + 1) * sizeof *index.starts);
    index.owners = calloc(room + 1, sizeof *index.owners);
    d->index.steps = 0;
    if (!after || !index.starts || !index.owners) {
        free(after);
        free(index.starts);
        free(index.owners);
        return;
    }
    for (const struct module *m = d->modules; m; m = m->next) {
        index.starts[index.count++] = m->module.start;
        index.starts[index.count++] = m->module.limit;
    }
    qsort(index.starts, index.count, sizeof *index.starts, compare_addresses);
    for (size_t i = 0; i <= index.count; i++)
        after[i] = i;
    for (const struct module *m = d->modules; m; m = m->next) {
        size_t end = m->module.limit ? starts_up_to(&index, m->module.limit - 1) : 0;
        size_t at = m->module.start ? starts_up_to(&index, m->module.start - 1) : 0;
        for (at = next_unowned(after, at); at < end; at = next_unowned(after, at)) {
            index.owners[at] = m;
            after[at] = at + 1;
        }
    }
    free(after);
    free(d->index.starts);
    free(d->index.owners);
    d->index = index;
}

bool gm_definitions_module(struct gm_definitions *d, uint64_t address, struct gm_module *out) {
    if (d->index.steps >= d->module_count && d->index.newest != d->modules)
        make_index(d);
    const struct module *m = d->modules;
    for (; m != d->index.newest && (address < m->module.start || address >= m->module.limit); m = m->next)
        d->index.steps++;
    if (m == d->index.newest) {
        size_t at = starts_up_to(&d->index, address);
        m = at ? d->index.owners[at - 1] : NULL;
    }
    if (m)
        *out = m->module;
    return m != NULL;
}

bool gm_definitions_device(const struct gm_definitions *d, unsigned index, struct gm_device *out) {
    const struct device *v = d->devices;
    while (v && index--)
        v = v->next;
    if (v)
        *out = v->device;
    return v != NULL;
}

const char *gm_definitions_string(const struct gm_definitions *d, uint32_t id) {
    struct text *t;
    HASH_FIND(hh, d->texts, &id, sizeof id, t);
    return t ? t->text : NULL;
}

void gm_definitions_each_module(const struct gm_definitions *d, void (*visit)(const struct gm_module *, void *),
                                void *arg) {
    for (const struct module *m = d->modules; m; m = m->next)
        visit(&m->module, arg);
}

void gm_definitions_each_context(const struct gm_definitions *d,
                                 void (*visit)(const struct gm_traced_context *, void *), void *arg) {
    for (const struct context *c = d->contexts; c; c = c->next)
        visit(&c->context, arg);
}

void gm_definitions_each_python(const struct gm_definitions *d,
                                void (*visit)(uint32_t, const struct gm_python_frame *, void *), void *arg) {
    for (const struct python *p = d->python; p; p = p->hh.next)
        visit(p->id, &p->frame, arg);
}

void gm_definitions_each_string(const struct gm_definitions *d, void (*visit)(uint32_t, const char *, void *),
                                void *arg) {
    for (const struct text *t = d->texts; t; t = t->hh.next)
        visit(t->id, t->text, arg);
}
