/* Report part --objects: each block with its number, size, times and call site. The first pass notes when each block
 * ended, in eight bytes for each allocation. The second pass prints the rows in the order of the numbers. */
#include "tools/cli/section.h"
#include "tools/cli/sort.h"

#include <stdlib.h>

struct objects {
    struct gm_observer observer;
    uint64_t *ends; /* by block number - 1; GM_UNKNOWN = never */
    size_t room;
    uint64_t count; /* number of blocks; the trace may have grown before the second pass */
};

static bool created(struct gm_observer *self, const struct gm_step *step) {
    struct objects *o = (struct objects *)self;
    size_t at = step->block->number - 1;
    if (at >= o->room) {
        size_t room = o->room ? 2 * o->room : 1u << 16;
        uint64_t *ends = realloc(o->ends, room * sizeof *ends);
        if (!ends)
            return false;
        o->ends = ends;
        o->room = room;
    }
    o->ends[at] = GM_UNKNOWN;
    o->count = step->block->number;
    return true;
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    ((struct objects *)self)->ends[step->block->number - 1] = step->time_ns;
    return true;
}

struct gm_observer *gm_observe_objects(void) {
    struct objects *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->observer = (struct gm_observer){NULL, created, destroyed};
    return &o->observer;
}

void gm_drop_objects(struct gm_observer *observer) { free(((struct objects *)observer)->ends); }

struct printer {
    struct gm_observer observer;
    const struct objects *objects;
    struct gm_out *out;
};

static bool print_one(struct gm_observer *self, const struct gm_step *step) {
    const struct printer *p = (const struct printer *)self;
    const struct gm_live_block *b = step->block;
    uint64_t end = b->number <= p->objects->count ? p->objects->ends[b->number - 1] : GM_UNKNOWN;
    uint64_t lived = end == GM_UNKNOWN ? GM_UNKNOWN : end > b->created_ns ? end - b->created_ns : 0;
    gm_out_row(p->out,
               (struct gm_value[]){GM_N(b->number), GM_N(b->bytes), GM_T(gm_kind_name((enum gm_kind)b->kind)),
                                   GM_N((uint64_t)b->device), GM_N(b->created_ns), GM_N(end), GM_N(lived),
                                   GM_N(b->site)},
               NULL);
    return true;
}

static int by_number(const void *x, const void *y) {
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

/* What the numbers of call sites stand for. False = no memory. */
static bool print_sites(struct gm_report *r, struct gm_out *out) {
    static const struct gm_column columns[] = {{"number", "site", GM_CELL_NUMBER, 6}};
    uint32_t *ids = malloc((r->a->site_count + 1) * sizeof *ids);
    if (!ids)
        return false;
    for (size_t i = 0; i < r->a->site_count; i++)
        ids[i] = r->a->sites[i].id;
    gm_sort(ids, r->a->site_count, sizeof *ids, by_number);
    gm_out_note(out, "call sites by their numbers");
    gm_out_table(out, "sites", columns, 1);
    out->all = true;
    for (size_t i = 0; i < r->a->site_count; i++) {
        struct gm_frame_name name;
        if (i && ids[i] == ids[i - 1])
            continue;
        gm_symbols_site(r->symbols, ids[i], &name);
        gm_out_row(out, (struct gm_value[]){GM_N(ids[i])}, &(struct gm_site_names){.names = &name, .count = 1});
    }
    gm_out_table_end(out);
    free(ids);
    return true;
}

bool gm_print_objects(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    static const struct gm_column columns[] = {{"object", "object", GM_CELL_NUMBER},
                                               {"bytes", "bytes", GM_CELL_NUMBER},
                                               {"kind", "kind", GM_CELL_TEXT},
                                               {"device", "device", GM_CELL_NUMBER},
                                               {"born_ns", "created ns", GM_CELL_NUMBER},
                                               {"ended_ns", "ended ns", GM_CELL_NUMBER},
                                               {"lived_ns", "lived ns", GM_CELL_NUMBER},
                                               {"site_number", "site", GM_CELL_NUMBER}};
    struct printer p = {{NULL, print_one, NULL}, (const struct objects *)observer, out};
    gm_out_section(out, "objects", "OBJECTS (numbered by their allocation)");
    gm_out_table(out, "rows", columns, sizeof columns / sizeof *columns);
    out->all = true;
    bool done = gm_report_read_again(r, &p.observer);
    gm_out_table_end(out);
    return done && print_sites(r, out);
}
