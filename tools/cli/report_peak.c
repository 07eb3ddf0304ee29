/* Report part --peak: who held device memory at the peak, as a tree from the program's start to the call sites. Without
 * recorded callers the tree is a list. */
#include "tools/cli/number_text.h"
#include "tools/cli/phases.h"
#include "tools/cli/section.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct node {
    char *text;
    uint64_t bytes;
    struct node *children; /* by text; later in the order of printing */
    UT_hash_handle hh;
};

static void free_nodes(struct node *children) {
    struct node *n, *next;
    HASH_ITER(hh, children, n, next) {
        HASH_DEL(children, n);
        free_nodes(n->children);
        free(n->text);
        free(n);
    }
}

static struct node *child_of(struct node *parent, const char *text) {
    struct node *n;
    HASH_FIND_STR(parent->children, text, n);
    if (n)
        return n;
    n = calloc(1, sizeof *n);
    if (!n || !(n->text = strdup(text))) {
        free(n);
        return NULL;
    }
    HASH_ADD_KEYPTR(hh, parent->children, n->text, strlen(n->text), n);
    return n;
}

static bool grow_tree(struct gm_report *r, unsigned device, struct node *root) {
    static struct gm_frame_name names[GM_STACK_ROOM];
    for (size_t i = 0; i < r->a->site_count; i++) {
        const struct gm_site_totals *s = &r->a->sites[i];
        struct node *n = root;
        if (!s->at_peak || s->device != (int)device)
            continue;
        for (unsigned f = gm_symbols_stack(r->symbols, s->id, r->stacks ? GM_STACK_REQUESTER : GM_STACK_SITE, names,
                                           GM_STACK_ROOM);
             f-- > 0;) {
            n->bytes += s->at_peak;
            if (!(n = child_of(n, names[f].text)))
                return false;
        }
        n->bytes += s->at_peak;
    }
    return true;
}

static int most_bytes_first(const struct node *a, const struct node *b) {
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->text, b->text);
}

/* The node has at most one child. */
static bool straight(const struct node *n) { return HASH_COUNT(n->children) <= 1; }

/* Prints a tree. Only forks indent: frames with a single child are printed below each other. */
static void print_tree(struct gm_report *r, struct node *n, uint64_t peak, unsigned depth, unsigned indent,
                       struct gm_out *out) {
    unsigned shown = 0;
    uint64_t rest = 0, count = 0;
    HASH_SORT(n->children, most_bytes_first);
    for (struct node *c = n->children; c; c = c->hh.next) {
        char place[600], share[32];
        struct gm_text room;
        if (!out->json && shown >= r->top) {
            rest += c->bytes;
            count++;
            continue;
        }
        shown++;
        snprintf(place, sizeof place, "%*s%s", out->json ? 0 : 2 * (int)(indent < 30 ? indent : 30), "", c->text);
        snprintf(share, sizeof share, "%s", gm_text_percent(&room, c->bytes, peak));
        gm_out_row(out, (struct gm_value[]){GM_N(c->bytes), GM_T(share), GM_N(depth), GM_T(place)}, NULL);
        print_tree(r, c, peak, depth + 1, indent + (!straight(n) || !straight(c)), out);
    }
    if (count) {
        char place[96];
        struct gm_text room;
        snprintf(place, sizeof place, "%*sand %s more", 2 * (int)(indent < 30 ? indent : 30), "",
                 gm_text_count(&room, count));
        gm_out_row(out, (struct gm_value[]){GM_N(rest), GM_T(""), GM_N(depth), GM_T(place)}, NULL);
    }
}

/* ---- the phase of the peak */

struct peak_phase {
    struct gm_observer observer;
    struct gm_phases *phases;
    struct device_phase {
        uint64_t most;
        uint32_t *texts; /* array: phases open at the peak around the allocation that caused it, outermost first */
        size_t count, room;
    } of[GM_DEVICES];
};

static bool peak_event(struct gm_observer *self, const struct gm_step *step) {
    return gm_phases_event(((struct peak_phase *)self)->phases, step->event, step->thread);
}

static bool peak_created(struct gm_observer *self, const struct gm_step *step) {
    unsigned device = gm_device_index(step->block->device);
    struct peak_phase *all = (struct peak_phase *)self;
    struct device_phase *p = &all->of[device];
    const struct gm_phase *open;
    size_t count = gm_phases_open(all->phases, &open);
    if (step->now->devices[device].live <= p->most)
        return true;
    p->most = step->now->devices[device].live;
    if (count > p->room) {
        uint32_t *texts = realloc(p->texts, 2 * count * sizeof *texts);
        if (!texts)
            return false;
        p->texts = texts;
        p->room = 2 * count;
    }
    p->count = 0;
    for (size_t i = 0; i < count; i++)
        if (gm_phase_covers(&open[i], step->thread))
            p->texts[p->count++] = open[i].text;
    return true;
}

struct gm_observer *gm_observe_peak(void) {
    struct peak_phase *p = calloc(1, sizeof *p);
    if (!p || !(p->phases = gm_phases_new(NULL, NULL))) {
        free(p);
        return NULL;
    }
    p->observer = (struct gm_observer){peak_event, peak_created, NULL};
    return &p->observer;
}

void gm_drop_peak(struct gm_observer *observer) {
    struct peak_phase *p = (struct peak_phase *)observer;
    gm_phases_free(p->phases);
    for (int device = 0; device < GM_DEVICES; device++)
        free(p->of[device].texts);
}

static void print_phase(const struct gm_report *r, const struct device_phase *p, struct gm_out *out) {
    char path[512] = "";
    for (size_t i = 0, used = 0; i < p->count && used < sizeof path; i++) {
        const char *text = gm_reader_string(r->reader, p->texts[i]);
        used += (size_t)snprintf(path + used, sizeof path - used, "%s%s", i ? " > " : "", text ? text : "?");
    }
    if (p->count)
        gm_out_text(out, "phase", "in the phase", path);
}

static bool print_device(struct gm_report *r, unsigned device, const struct device_phase *phase, struct gm_out *out) {
    static const struct gm_column columns[] = {{"bytes", "bytes", GM_CELL_BYTES},
                                               {NULL, "share", GM_CELL_RIGHT, 8},
                                               {"depth", NULL, GM_CELL_NUMBER},
                                               {"frame", "", GM_CELL_TEXT}};
    const struct gm_device_totals *d = &r->a->devices[device];
    struct node root = {0};
    char name[32] = "peak", title[64] = "WHO HELD DEVICE MEMORY AT THE PEAK";
    if (r->devices) {
        snprintf(name, sizeof name, "peak_device_%u", device);
        snprintf(title, sizeof title, "WHO HELD MEMORY OF DEVICE %u AT ITS PEAK", device);
    }
    gm_out_section(out, name, title);
    gm_out_fact(out, "bytes", "live bytes", GM_CELL_BYTES, d->peak);
    gm_out_fact(out, "time_ns", "at", GM_CELL_TIME, d->peak_ns);
    print_phase(r, phase, out);
    bool done = grow_tree(r, device, &root);
    gm_out_table(out, "tree", columns, sizeof columns / sizeof *columns);
    out->all = true; /* the tree limits its own rows */
    if (done)
        print_tree(r, &root, d->peak, 0, 0, out);
    gm_out_table_end(out);
    free_nodes(root.children);
    return done;
}

bool gm_print_peak(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    const struct peak_phase *phases = (const struct peak_phase *)observer;
    unsigned first = 0;
    bool done = true;
    while (first + 1 < GM_DEVICES && !gm_analysis_has_device(r->a, first))
        first++;
    if (!r->devices)
        return print_device(r, gm_analysis_has_device(r->a, first) ? first : 0, &phases->of[first], out);
    for (unsigned device = first; device < GM_DEVICES && done; device++)
        if (gm_analysis_has_device(r->a, device))
            done = print_device(r, device, &phases->of[device], out);
    return done;
}
