#include "tools/cli/definitions.h"
#include "tools/cli/sort.h"

#include "shim/base/foreign.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* A record of the trace. A module's path, its last text, is terminated. Other texts are copied behind the record as
 * they are shown. */
struct definition {
    struct definition *next; /* in the order of the file */
    struct definition *same; /* the next device, or the module before */
    uint64_t key;            /* type and id, of those that have one */
    UT_hash_handle hh;
    uint32_t index; /* of a site */
    const char *shown[2];
    struct gm_record record;
};

/* Address ranges, each with the one module that owns it, for the modules known when the index was built. Look-ups
 * search later modules one by one. The index is rebuilt when such searches took as many steps as there are modules. */
struct module_index {
    const struct definition *newest;
    size_t count, steps;
    uint64_t *starts;                 /* ascending; a range ends where the next one starts */
    const struct definition **owners; /* NULL: no module */
};

struct gm_definitions {
    struct definition *all, **last;
    struct definition *by_key;
    struct definition *modules; /* latest first: a later library may reuse the address range of an earlier one */
    size_t module_count;
    struct module_index index;
    struct definition *devices, **last_device;
    uint32_t site_count;
};

struct gm_definitions *gm_definitions_new(void) {
    struct gm_definitions *d = calloc(1, sizeof *d);
    if (d) {
        d->last = &d->all;
        d->last_device = &d->devices;
    }
    return d;
}

void gm_definitions_free(struct gm_definitions *d) {
    if (!d)
        return;
    HASH_CLEAR(hh, d->by_key);
    for (struct definition *one = d->all, *next; one; one = next) {
        next = one->next;
        free(one);
    }
    free(d->index.starts);
    free(d->index.owners);
    free(d);
}

/* ---- records; those that are kept agree with their lengths */

static size_t padded(uint32_t bytes) { return ((size_t)bytes + 7) & ~(size_t)7; }

#define AS(record, type)            ((const struct gm_record_##type *)(record))
#define RECORD_OF(definition, type) AS(&(definition)->record, type)

/* Bytes of the part of fixed length; 0: a type that this reader does not know. */
static size_t fixed_bytes(const struct gm_record *record) {
    static const size_t rows[] = {
        [GM_RECORD_MODULE] = sizeof(struct gm_record_module), [GM_RECORD_SITE] = sizeof(struct gm_record_site),
        [GM_RECORD_DEVICE] = sizeof(struct gm_record_device), [GM_RECORD_CONTEXT] = sizeof(struct gm_record_context),
        [GM_RECORD_STRING] = sizeof(struct gm_record_string), [GM_RECORD_PYTHON] = sizeof(struct gm_record_python),
    };
    return record->type < sizeof rows / sizeof rows[0] ? rows[record->type] : 0;
}

static size_t further_bytes(const struct gm_record *record) {
    switch (record->type) {
    case GM_RECORD_MODULE: return padded(AS(record, module)->build_id_bytes) + AS(record, module)->path_bytes;
    case GM_RECORD_SITE: return AS(record, site)->frames * sizeof(uint64_t);
    case GM_RECORD_DEVICE: return AS(record, device)->name_bytes;
    case GM_RECORD_STRING: return AS(record, string)->bytes;
    case GM_RECORD_PYTHON: return padded(AS(record, python)->name_bytes) + AS(record, python)->file_bytes;
    default: return 0;
    }
}

struct text {
    const char *at;
    uint32_t bytes;
};

/* The texts that are only shown; returns their number. */
static unsigned texts_of(const struct gm_record *record, struct text texts[2]) {
    switch (record->type) {
    case GM_RECORD_DEVICE:
        texts[0] = (struct text){(const char *)(AS(record, device) + 1), AS(record, device)->name_bytes};
        return 1;
    case GM_RECORD_STRING:
        texts[0] = (struct text){(const char *)(AS(record, string) + 1), AS(record, string)->bytes};
        return 1;
    case GM_RECORD_PYTHON:
        texts[0] = (struct text){(const char *)(AS(record, python) + 1), AS(record, python)->name_bytes};
        texts[1] = (struct text){texts[0].at + padded(texts[0].bytes), AS(record, python)->file_bytes};
        return 2;
    default: return 0;
    }
}

/* NULL: records of this type have none. */
static const uint32_t *id_of(const struct gm_record *record) {
    return record->type == GM_RECORD_SITE     ? &AS(record, site)->id
           : record->type == GM_RECORD_STRING ? &AS(record, string)->id
           : record->type == GM_RECORD_PYTHON ? &AS(record, python)->id
                                              : NULL;
}

static struct definition *find(const struct gm_definitions *d, enum gm_record_type type, uint32_t id) {
    struct definition *found;
    uint64_t key = (uint64_t)type << 32 | id;
    HASH_FIND(hh, d->by_key, &key, sizeof key, found);
    return found;
}

bool gm_definitions_add(struct gm_definitions *d, const struct gm_record *record, size_t bytes) {
    size_t fixed = fixed_bytes(record);
    if (!fixed)
        return true;
    if (bytes < fixed || bytes - fixed < further_bytes(record))
        return false;
    const uint32_t *id = id_of(record);
    if (id && find(d, record->type, *id))
        return true;
    size_t need = fixed + further_bytes(record), shown[2];
    struct text texts[2];
    unsigned text_count = texts_of(record, texts);
    for (unsigned i = 0; i < text_count; i++)
        shown[i] = gm_foreign_text(NULL, 0, texts[i].at, texts[i].bytes) + 1;
    struct definition *one =
        calloc(1, sizeof *one + need + 1 + (text_count ? shown[0] : 0) + (text_count > 1 ? shown[1] : 0));
    if (!one)
        return false;
    memcpy(&one->record, record, need);
    char *next = (char *)&one->record + need + 1;
    for (unsigned i = 0; i < text_count; next += shown[i++]) {
        gm_foreign_text(next, shown[i], texts[i].at, texts[i].bytes);
        one->shown[i] = next;
    }
    *d->last = one;
    d->last = &one->next;
    if (id) {
        one->key = (uint64_t)record->type << 32 | *id;
        one->index = record->type == GM_RECORD_SITE ? d->site_count++ : 0;
        HASH_ADD(hh, d->by_key, key, sizeof one->key, one);
    } else if (record->type == GM_RECORD_DEVICE) {
        *d->last_device = one;
        d->last_device = &one->same;
    } else if (record->type == GM_RECORD_MODULE) {
        one->same = d->modules;
        d->modules = one;
        d->module_count++;
    }
    return true;
}

void gm_definitions_each(const struct gm_definitions *d, void (*visit)(const struct gm_record *record, void *arg),
                         void *arg) {
    for (const struct definition *one = d->all; one; one = one->next)
        visit(&one->record, arg);
}

bool gm_definitions_python(const struct gm_definitions *d, uint64_t address, struct gm_python_frame *out) {
    const struct definition *one = GM_FRAME_IS_PYTHON(address) ? find(d, GM_RECORD_PYTHON, (uint32_t)address) : NULL;
    if (!one)
        return false;
    *out = (struct gm_python_frame){one->shown[0], one->shown[1], RECORD_OF(one, python)->line};
    return true;
}

static struct gm_site public_site(const struct definition *one) {
    const struct gm_record_site *r = RECORD_OF(one, site);
    const uint64_t *addresses = (const uint64_t *)(r + 1);
    unsigned native = r->frames;
    while (native && GM_FRAME_IS_PYTHON(addresses[native - 1]))
        native--;
    return (struct gm_site){r->id, one->index, r->frames, r->outside < native ? r->outside : 0, native, addresses};
}

bool gm_definitions_site(const struct gm_definitions *d, uint32_t id, struct gm_site *out) {
    const struct definition *one = find(d, GM_RECORD_SITE, id);
    if (one)
        *out = public_site(one);
    return one != NULL;
}

size_t gm_definitions_site_count(const struct gm_definitions *d) { return d->site_count; }

void gm_definitions_each_site(const struct gm_definitions *d, void (*visit)(const struct gm_site *site, void *arg),
                              void *arg) {
    for (const struct definition *one = d->all; one; one = one->next) {
        if (one->record.type == GM_RECORD_SITE) {
            struct gm_site out = public_site(one);
            visit(&out, arg);
        }
    }
}

bool gm_definitions_device(const struct gm_definitions *d, unsigned index, struct gm_device *out) {
    const struct definition *one = d->devices;
    while (one && index--)
        one = one->same;
    if (one) {
        const struct gm_record_device *r = RECORD_OF(one, device);
        *out = (struct gm_device){r->device, r->total, one->shown[0]};
    }
    return one != NULL;
}

const char *gm_definitions_string(const struct gm_definitions *d, uint32_t id) {
    const struct definition *one = find(d, GM_RECORD_STRING, id);
    return one ? one->shown[0] : NULL;
}

/* ---- modules */

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
    for (const struct definition *one = d->modules; one; one = one->same) {
        index.starts[index.count++] = RECORD_OF(one, module)->start;
        index.starts[index.count++] = RECORD_OF(one, module)->limit;
    }
    gm_sort(index.starts, index.count, sizeof *index.starts, compare_addresses);
    for (size_t i = 0; i <= index.count; i++)
        after[i] = i;
    for (const struct definition *one = d->modules; one; one = one->same) {
        const struct gm_record_module *m = RECORD_OF(one, module);
        size_t end = m->limit ? starts_up_to(&index, m->limit - 1) : 0;
        size_t at = m->start ? starts_up_to(&index, m->start - 1) : 0;
        for (at = next_unowned(after, at); at < end; at = next_unowned(after, at)) {
            index.owners[at] = one;
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
    const struct definition *one = d->modules;
    for (; one != d->index.newest; one = one->same, d->index.steps++)
        if (address >= RECORD_OF(one, module)->start && address < RECORD_OF(one, module)->limit)
            break;
    if (one == d->index.newest) {
        size_t at = starts_up_to(&d->index, address);
        one = at ? d->index.owners[at - 1] : NULL;
    }
    if (!one)
        return false;
    const struct gm_record_module *r = RECORD_OF(one, module);
    const unsigned char *id = (const unsigned char *)(r + 1);
    *out = (struct gm_module){r->base, r->start,         r->limit, (const char *)id + padded(r->build_id_bytes),
                              id,      r->build_id_bytes};
    return true;
}
