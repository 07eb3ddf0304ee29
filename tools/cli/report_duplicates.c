/* Report part --duplicates: copies from host memory to a device that send again what an earlier copy sent.
 *
 * Two copies have the same contents if they read the same bytes (by their hash) from the same range of host memory to
 * the same device. The report follows where contents lie on the device: a place is the range of addresses that a copy
 * wrote, until another recorded copy writes there or its block is freed. Writes of kernels, memsets and copies between
 * devices are not in the trace, so a place may hold other bytes than those sent. */
#include "tools/cli/number_text.h"
#include "tools/cli/section.h"
#include "tools/cli/sort.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* What became of the earlier copy when the same contents were sent again. */
enum earlier { SAME_PLACE, OTHER_PLACE, OVERWRITTEN, FREED, EARLIER_COUNT };

struct contents {
    struct {
        uint64_t from, bytes, hash, device;
    } key;
    uint64_t copies;
    uint64_t places;   /* on the device now */
    enum earlier lost; /* why the last place is gone */
    uint32_t site;     /* of the latest copy */
    UT_hash_handle hh;
};

struct place {
    uint64_t start, end;
    struct contents *contents; /* NULL = unknown */
};

struct site {
    uint32_t id;
    uint64_t copies, bytes, repeats, repeated_bytes;
    UT_hash_handle hh;
};

/* A thread's latest source, until its copy follows. */
struct source {
    int thread;
    uint64_t from, hash;
    bool pending, known;
    UT_hash_handle hh;
};

struct duplicates {
    struct gm_observer observer;
    struct contents *contents;
    struct site *sites;
    struct source *sources;
    void *places; /* a tree of places that do not overlap */
    struct gm_count_and_bytes all, unknown, captured, repeated[EARLIER_COUNT];
    uint64_t hashing_ns;
};

/* ---- places */

/* Overlapping ranges are equal. */
static int by_range(const void *x, const void *y) {
    const struct place *a = x, *b = y;
    return a->end <= b->start ? -1 : a->start >= b->end;
}

static struct place *place_at(const struct duplicates *d, uint64_t start, uint64_t end) {
    struct place wanted = {start, end, NULL}, *const *found = tfind(&wanted, &d->places, by_range);
    return found ? *found : NULL;
}

static void forget_places(struct duplicates *d, uint64_t start, uint64_t end, enum earlier why) {
    for (struct place *p; start < end && (p = place_at(d, start, end));) {
        tdelete(p, &d->places, by_range);
        if (p->contents) {
            p->contents->places--;
            p->contents->lost = why;
        }
        free(p);
    }
}

static bool remember_place(struct duplicates *d, uint64_t start, uint64_t end, struct contents *contents) {
    struct place *p = malloc(sizeof *p);
    if (!p)
        return false;
    *p = (struct place){start, end, contents};
    if (!tsearch(p, &d->places, by_range)) {
        free(p);
        return false;
    }
    contents->places++;
    return true;
}

/* An array is known by its handle only, so it counts as one place. */
static uint64_t end_of(uint64_t start, uint64_t bytes, bool array) { return start + (array ? 1 : bytes); }

/* ---- tables */

static struct source *source_of(struct duplicates *d, int thread) {
    struct source *s;
    HASH_FIND_INT(d->sources, &thread, s);
    if (!s && (s = calloc(1, sizeof *s))) {
        s->thread = thread;
        HASH_ADD_INT(d->sources, thread, s);
    }
    return s;
}

static struct site *site_of(struct duplicates *d, uint32_t id) {
    struct site *s;
    HASH_FIND(hh, d->sites, &id, sizeof id, s);
    if (!s && (s = calloc(1, sizeof *s))) {
        s->id = id;
        HASH_ADD(hh, d->sites, id, sizeof s->id, s);
    }
    return s;
}

static struct contents *contents_of(struct duplicates *d, const struct source *source, const struct gm_event *e) {
    struct contents *c, key = {.key = {source->from, e->bytes, source->hash, (uint64_t)e->device}};
    HASH_FIND(hh, d->contents, &key.key, sizeof key.key, c);
    if (!c && (c = calloc(1, sizeof *c))) {
        c->key = key.key;
        HASH_ADD(hh, d->contents, key, sizeof c->key, c);
    }
    return c;
}

/* ---- events */

static void count(struct gm_count_and_bytes *sum, uint64_t bytes) {
    sum->count++;
    sum->bytes += bytes;
}

static bool on_known_copy(struct duplicates *d, const struct source *source, const struct gm_event *e, uint64_t end,
                          struct site *site) {
    struct contents *c = contents_of(d, source, e);
    const struct place *there = place_at(d, e->address, end);
    if (!c)
        return false;
    bool same = there && there->contents == c && there->start == e->address && there->end == end;
    if (c->copies++) {
        count(&d->repeated[same ? SAME_PLACE : c->places ? OTHER_PLACE : c->lost], e->bytes);
        site->repeats++;
        site->repeated_bytes += e->bytes;
    }
    c->site = e->site;
    if (same)
        return true;
    forget_places(d, e->address, end, OVERWRITTEN);
    return remember_place(d, e->address, end, c);
}

static bool on_copy(struct duplicates *d, struct source *source, const struct gm_event *e) {
    uint64_t end = end_of(e->address, e->bytes + e->slack, e->kind == GM_KIND_ARRAY);
    struct site *site = site_of(d, e->site);
    if (!site)
        return false;
    bool pending = source->pending;
    source->pending = false;
    if (!pending || e->result || end <= e->address)
        return true;
    if (e->flags & GM_EVENT_CAPTURING) { /* runs when its graph is launched */
        count(&d->captured, e->bytes);
        return true;
    }
    count(&d->all, e->bytes);
    site->copies++;
    site->bytes += e->bytes;
    if (source->known)
        return on_known_copy(d, source, e, end, site);
    count(&d->unknown, e->bytes);
    forget_places(d, e->address, end, OVERWRITTEN);
    return true;
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct duplicates *d = (struct duplicates *)self;
    const struct gm_event *e = step->event;
    if (e->action != GM_ACT_COPY_SOURCE && e->action != GM_ACT_COPY)
        return true;
    struct source *source = source_of(d, step->thread);
    if (!source)
        return false;
    if (e->action == GM_ACT_COPY)
        return on_copy(d, source, e);
    source->from = e->address;
    source->hash = e->bytes;
    source->known = !e->result;
    source->pending = true;
    d->hashing_ns += e->duration_ns;
    return true;
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    const struct gm_live_block *b = step->block;
    uint64_t start = gm_live_block_address(b);
    forget_places((struct duplicates *)self, start, end_of(start, b->bytes + b->slack, b->kind == GM_KIND_ARRAY),
                  FREED);
    return true;
}

/* ---- life */

struct gm_observer *gm_observe_duplicates(void) {
    struct duplicates *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->observer = (struct gm_observer){.event = event, .destroyed = destroyed};
    return &d->observer;
}

#define FREE_TABLE(type, head)             \
    do {                                   \
        struct type *row, *next;           \
        HASH_ITER(hh, (head), row, next) { \
            HASH_DEL((head), row);         \
            free(row);                     \
        }                                  \
    } while (0)

void gm_drop_duplicates(struct gm_observer *observer) {
    struct duplicates *d = (struct duplicates *)observer;
    tdestroy(d->places, free);
    FREE_TABLE(contents, d->contents);
    FREE_TABLE(site, d->sites);
    FREE_TABLE(source, d->sources);
}

/* ---- print */

static uint64_t repeated_bytes(const struct contents *c) { return (c->copies - 1) * c->key.bytes; }

static int order(uint64_t a, uint64_t b) { return a < b ? 1 : a > b ? -1 : 0; }

static int by_repeated_bytes(const struct contents *a, const struct contents *b) {
    int difference = order(repeated_bytes(a), repeated_bytes(b));
    return difference ? difference : order(b->key.from, a->key.from);
}

struct site_row {
    struct gm_report_site site;
    struct site counts;
};

static int by_name(const void *x, const void *y) {
    const struct site_row *a = x, *b = y;
    int difference = strcmp(a->site.name.text, b->site.name.text);
    return difference ? difference : strcmp(a->site.name.module, b->site.name.module);
}

static int by_site_bytes(const void *x, const void *y) {
    const struct site_row *a = x, *b = y;
    int difference = order(a->counts.repeated_bytes, b->counts.repeated_bytes);
    return difference ? difference : order(b->counts.id, a->counts.id);
}

static void merge(struct site *sum, const struct site *more) {
    sum->copies += more->copies;
    sum->bytes += more->bytes;
    sum->repeats += more->repeats;
    sum->repeated_bytes += more->repeated_bytes;
}

static struct gm_report_site named(struct gm_report *r, uint32_t id) {
    struct gm_report_site site = {.totals = {.id = id}};
    gm_symbols_site(r->symbols, id, &site.name);
    return site;
}

static bool print_sites(struct gm_report *r, const struct duplicates *d, struct gm_out *out) {
    static const struct gm_column columns[] = {{"copies", "copies", GM_CELL_COUNT},
                                               {"copied_bytes", "bytes", GM_CELL_BYTES},
                                               {"repeats", "again", GM_CELL_COUNT},
                                               {"repeated_bytes", "bytes again", GM_CELL_BYTES}};
    size_t rows = 0, last = 0;
    struct site_row *all = calloc(HASH_COUNT(d->sites) + 1, sizeof *all);
    if (!all)
        return false;
    for (const struct site *s = d->sites; s; s = s->hh.next)
        if (s->repeats)
            all[rows++] = (struct site_row){named(r, s->id), *s};
    if (!r->stacks && rows) {
        gm_sort(all, rows, sizeof *all, by_name);
        for (size_t i = 1; i < rows; i++) {
            if (by_name(&all[last], &all[i]))
                all[++last] = all[i];
            else
                merge(&all[last].counts, &all[i].counts);
        }
        rows = last + 1;
    }
    gm_sort(all, rows, sizeof *all, by_site_bytes);
    gm_out_table(out, "sites", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < rows; i++) {
        const struct site *s = &all[i].counts;
        struct gm_site_names names = gm_report_site_names(r, &all[i].site);
        gm_out_row(out, (struct gm_value[]){GM_N(s->copies), GM_N(s->bytes), GM_N(s->repeats), GM_N(s->repeated_bytes)},
                   &names);
    }
    gm_out_table_end(out);
    free(all);
    return true;
}

static void print_contents(struct gm_report *r, struct duplicates *d, struct gm_out *out) {
    static const struct gm_column columns[] = {{"host_address", "host memory", GM_CELL_HEX},
                                               {"bytes", "size", GM_CELL_BYTES},
                                               {"device", "device", GM_CELL_NUMBER},
                                               {"copies", "copies", GM_CELL_COUNT},
                                               {"repeated_bytes", "bytes again", GM_CELL_BYTES}};
    HASH_SORT(d->contents, by_repeated_bytes);
    gm_out_table(out, "contents", columns, sizeof columns / sizeof *columns);
    for (const struct contents *c = d->contents; c; c = c->hh.next) {
        if (c->copies < 2)
            continue;
        struct gm_report_site site = named(r, c->site);
        struct gm_site_names names = gm_report_site_names(r, &site);
        gm_out_row(out,
                   (struct gm_value[]){GM_N(c->key.from), GM_N(c->key.bytes), GM_N(c->key.device), GM_N(c->copies),
                                       GM_N(repeated_bytes(c))},
                   &names);
    }
    gm_out_table_end(out);
}

static void print_earlier(const struct duplicates *d, struct gm_out *out) {
    static const struct gm_column columns[] = {{"earlier", "when sent again, the earlier copy", GM_CELL_TEXT},
                                               {"repeats", "copies", GM_CELL_COUNT},
                                               {"repeated_bytes", "bytes", GM_CELL_BYTES}};
    static const char *const names[EARLIER_COUNT] = {[SAME_PLACE] = "was at the same address",
                                                     [OTHER_PLACE] = "was at another address",
                                                     [OVERWRITTEN] = "had been overwritten by a copy",
                                                     [FREED] = "had been freed"};
    gm_out_table(out, "earlier", columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < EARLIER_COUNT; i++)
        gm_out_row(out, (struct gm_value[]){GM_T(names[i]), GM_N(d->repeated[i].count), GM_N(d->repeated[i].bytes)},
                   NULL);
    gm_out_table_end(out);
}

bool gm_print_duplicates(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    struct duplicates *d = (struct duplicates *)observer;
    struct gm_text room[5];
    struct gm_count_and_bytes repeated = {0};
    for (int i = 0; i < EARLIER_COUNT; i++) {
        repeated.count += d->repeated[i].count;
        repeated.bytes += d->repeated[i].bytes;
    }
    gm_out_section(out, "duplicates", "COPIES FROM HOST MEMORY THAT WERE SENT AGAIN UNCHANGED");
    if (!d->all.count && !d->captured.count)
        gm_out_note(out, "the trace has no copies: gpumem run --trace-copies records them");
    else
        gm_out_note(out, "%s of %s copies (%s), %s of %s, were sent again unchanged",
                    gm_text_count(&room[0], repeated.count), gm_text_count(&room[1], d->all.count),
                    gm_text_percent(&room[2], repeated.count, d->all.count), gm_text_bytes(&room[3], repeated.bytes),
                    gm_text_bytes(&room[4], d->all.bytes));
    gm_out_note(out, "assumed: no kernel, memset or copy on the device changed the earlier copy in between");
    gm_out_fact(out, "copies", "copies", GM_CELL_COUNT, d->all.count);
    gm_out_fact(out, "copied_bytes", "bytes", GM_CELL_BYTES, d->all.bytes);
    gm_out_fact(out, "repeats", "sent again", GM_CELL_COUNT, repeated.count);
    gm_out_fact(out, "repeated_bytes", "bytes sent again", GM_CELL_BYTES, repeated.bytes);
    gm_out_fact(out, "unknown", "copies with unknown contents", GM_CELL_COUNT, d->unknown.count);
    gm_out_fact(out, "captured", "captured in graphs, not counted", GM_CELL_COUNT, d->captured.count);
    gm_out_fact(out, "hashing_ns", "time to read and hash the contents", GM_CELL_TIME, d->hashing_ns);
    print_earlier(d, out);
    print_contents(r, d, out);
    return print_sites(r, d, out);
}
