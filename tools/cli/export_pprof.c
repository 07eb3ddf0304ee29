/* Exports a pprof profile: for each stack the allocations, bytes, leaks, and bytes at the peak. It is compressed if the
 * build has zlib; pprof reads both. */
#include "tools/cli/export.h"

#ifdef GM_HAVE_PROTOBUF
#include "profile.pb-c.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define VALUES 5

struct named {
    uint64_t id;
    UT_hash_handle hh;
    char text[];
};

/* A growing array of pointers to messages. Each message is freed on its own. */
struct list {
    void **items;
    size_t count, room;
};

struct pprof {
    struct gm_export *x;
    struct named *strings, *functions, *locations, *mappings;
    struct list string_list, function_list, location_list, mapping_list, sample_list;
    bool failed;
};

static void *keep(struct pprof *p, struct list *list, void *item) {
    if (item && list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        void **items = realloc(list->items, room * sizeof *items);
        if (!items) {
            free(item);
            item = NULL;
        } else {
            list->items = items;
            list->room = room;
        }
    }
    p->failed |= !item;
    if (item)
        list->items[list->count++] = item;
    return item;
}

/* Number of a text in a table, from 1. Sets *fresh when the text is new. 0 = no memory. */
static uint64_t number(struct pprof *p, struct named **table, const char *text, bool *fresh) {
    struct named *n;
    HASH_FIND_STR(*table, text, n);
    *fresh = !n;
    if (!n) {
        size_t bytes = strlen(text) + 1;
        n = malloc(sizeof *n + bytes);
        if (!n) {
            p->failed = true;
            return 0;
        }
        memcpy(n->text, text, bytes);
        n->id = HASH_COUNT(*table) + 1;
        HASH_ADD_STR(*table, text, n);
    }
    return n->id;
}

/* Index in the string table, whose first entry is empty. protobuf requires UTF-8. */
static int64_t string(struct pprof *p, const char *text) {
    bool fresh;
    uint64_t id = number(p, &p->strings, text, &fresh);
    char *copy = fresh && id ? strdup(text) : NULL;
    if (fresh && id)
        keep(p, &p->string_list, copy);
    for (char *c = copy; c && *c; c++)
        *c = *c & 0x80 ? '?' : *c;
    return id ? (int64_t)id - 1 : 0;
}

static uint64_t mapping_of(struct pprof *p, const struct gm_frame_name *name) {
    bool fresh;
    if (!name->module[0])
        return 0;
    uint64_t id = number(p, &p->mappings, name->module, &fresh);
    Perftools__Profiles__Mapping *m = fresh && id ? malloc(sizeof *m) : NULL;
    if (m) {
        perftools__profiles__mapping__init(m);
        m->id = id;
        m->filename = string(p, name->module);
        m->has_functions = true;
    }
    if (fresh && id)
        keep(p, &p->mapping_list, m);
    return id;
}

static uint64_t function_of(struct pprof *p, const struct gm_frame_name *name) {
    char key[800];
    bool fresh;
    const char *text = name->function[0] ? name->function : name->text;
    snprintf(key, sizeof key, "%s|%s", text, name->file);
    uint64_t id = number(p, &p->functions, key, &fresh);
    Perftools__Profiles__Function *f = fresh && id ? malloc(sizeof *f) : NULL;
    if (f) {
        perftools__profiles__function__init(f);
        f->id = id;
        f->name = string(p, text);
        f->filename = string(p, name->file);
    }
    if (fresh && id)
        keep(p, &p->function_list, f);
    return id;
}

/* A location followed by its only line. */
struct line_location {
    Perftools__Profiles__Location location;
    Perftools__Profiles__Line line, *lines[1];
};

static uint64_t location_of(struct pprof *p, const struct gm_frame_name *name) {
    char key[1200];
    bool fresh;
    snprintf(key, sizeof key, "%s|%s|%s|%d", name->module, name->text, name->file, name->line);
    uint64_t id = number(p, &p->locations, key, &fresh);
    struct line_location *line_location = fresh && id ? malloc(sizeof *line_location) : NULL;
    if (line_location) {
        perftools__profiles__location__init(&line_location->location);
        perftools__profiles__line__init(&line_location->line);
        line_location->line.function_id = function_of(p, name);
        line_location->line.line = name->line;
        line_location->lines[0] = &line_location->line;
        line_location->location.id = id;
        line_location->location.mapping_id = mapping_of(p, name);
        line_location->location.address = name->offset;
        line_location->location.n_line = 1;
        line_location->location.line = line_location->lines;
    }
    if (fresh && id)
        keep(p, &p->location_list, line_location);
    return id;
}

struct sample {
    Perftools__Profiles__Sample sample;
    int64_t values[VALUES];
    uint64_t locations[GM_EXPORT_FRAMES];
};

static void add_sample(struct pprof *p, const struct gm_site_totals *s) {
    unsigned count;
    const struct gm_frame_name *names = gm_export_stack(p->x, s->id, &count);
    struct sample *sample = keep(p, &p->sample_list, calloc(1, sizeof *sample));
    if (!sample)
        return;
    perftools__profiles__sample__init(&sample->sample);
    int64_t values[VALUES] = {(int64_t)s->allocs, (int64_t)s->bytes, (int64_t)s->leaked_count, (int64_t)s->leaked_bytes,
                              (int64_t)s->at_peak};
    memcpy(sample->values, values, sizeof values);
    for (unsigned i = 0; i < count; i++)
        sample->locations[i] = location_of(p, &names[i]);
    sample->sample.n_value = VALUES;
    sample->sample.value = sample->values;
    sample->sample.n_location_id = count;
    sample->sample.location_id = sample->locations;
}

static bool write_profile(struct pprof *p, const struct gm_analysis *a) {
    static const char *const types[VALUES][2] = {{"alloc_objects", "count"},
                                                 {"alloc_space", "bytes"},
                                                 {"inuse_objects", "count"},
                                                 {"inuse_space", "bytes"},
                                                 {"peak_space", "bytes"}};
    Perftools__Profiles__ValueType type[VALUES], *type_list[VALUES];
    Perftools__Profiles__Profile profile = PERFTOOLS__PROFILES__PROFILE__INIT;
    string(p, "");
    for (int i = 0; i < VALUES; i++) {
        perftools__profiles__value_type__init(&type[i]);
        type[i].type = string(p, types[i][0]);
        type[i].unit = string(p, types[i][1]);
        type_list[i] = &type[i];
    }
    for (size_t i = 0; i < a->site_count; i++)
        if (a->sites[i].allocs)
            add_sample(p, &a->sites[i]);
    profile.n_sample_type = VALUES;
    profile.sample_type = type_list;
    profile.time_nanos = (int64_t)p->x->header->epoch_ns;
    profile.duration_nanos = (int64_t)a->end_ns;
    profile.default_sample_type = type[VALUES - 1].type;
    profile.period_type = &type[VALUES - 1];
    profile.period = 1;
    profile.n_sample = p->sample_list.count;
    profile.sample = (Perftools__Profiles__Sample **)p->sample_list.items;
    profile.n_location = p->location_list.count;
    profile.location = (Perftools__Profiles__Location **)p->location_list.items;
    profile.n_function = p->function_list.count;
    profile.function = (Perftools__Profiles__Function **)p->function_list.items;
    profile.n_mapping = p->mapping_list.count;
    profile.mapping = (Perftools__Profiles__Mapping **)p->mapping_list.items;
    profile.n_string_table = p->string_list.count;
    profile.string_table = (char **)p->string_list.items;
    if (p->failed)
        return false;
    size_t bytes = perftools__profiles__profile__get_packed_size(&profile);
    uint8_t *packed = malloc(bytes + 1);
    bool done = packed && perftools__profiles__profile__pack(&profile, packed) == bytes &&
                fwrite(packed, 1, bytes, p->x->out) == bytes;
    free(packed);
    return done;
}

static void free_names(struct named *table) {
    struct named *n, *next;
    HASH_ITER(hh, table, n, next) {
        HASH_DEL(table, n);
        free(n);
    }
}

static void free_list(struct list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
}

static struct gm_observer *begin(struct gm_export *x) { return calloc(1, sizeof(struct gm_observer)); }

static bool end(struct gm_export *x, struct gm_observer *observer, const struct gm_analysis *a) {
    struct pprof p = {.x = x};
    bool done = a && write_profile(&p, a);
    free(observer);
    free_names(p.strings);
    free_names(p.functions);
    free_names(p.locations);
    free_names(p.mappings);
    free_list(&p.string_list);
    free_list(&p.function_list);
    free_list(&p.location_list);
    free_list(&p.mapping_list);
    free_list(&p.sample_list);
    return done;
}

const struct gm_exporter gm_exporter_pprof = {"pprof", false, true, begin, end, true};
#else
const struct gm_exporter gm_exporter_pprof = {.name = "pprof"};
#endif
