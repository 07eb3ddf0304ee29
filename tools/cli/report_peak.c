/* Who held device memory at the moment of the peak, as a tree from the program's start to the places that
 * asked. Without recorded callers the tree is a list. */
#include "tools/cli/phases.h"
#include "tools/cli/section.h"
#include "tools/cli/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    char *text;
    uint64_t bytes;
    struct node *children, *next;
};

static void free_nodes(struct node *n) {
    while (n) {
        struct node *next = n->next;
        free_nodes(n->children);
        free(n->text);
        free(n);
        n = next;
    }
}

static struct node *child_of(struct node *parent, const char *text) {
    struct node *n = parent->children;
    while (n && strcmp(n->text, text))
        n = n->next;
    if (n)
        return n;
    n = calloc(1, sizeof *n);
    if (!n || !(n->text = strdup(text))) {
        free(n);
        return NULL;
    }
    n->next = parent->children;
    return parent->children = n;
}

static bool grow_tree(struct gm_report *r, struct node *root) {
    static struct gm_frame_name names[GM_STACK_ROOM];
    for (size_t i = 0; i < r->a->site_count; i++) {
        const struct gm_site_totals *s = &r->a->sites[i];
        struct node *n = root;
        if (!s->at_peak)
            continue;
        for (unsigned f = gm_symbols_stack(r->symbols, s->id, names, GM_STACK_ROOM); f-- > 0;) {
            n->bytes += s->at_peak;
            if (!(n = child_of(n, names[f].text)))
                return false;
        }
        n->bytes += s->at_peak;
    }
    return true;
}

static struct node *sorted(struct node *list) {
    struct node *out = NULL;
    while (list) {
        struct node *n = list, **at = &out;
        list = n->next;
        while (*at &&
               ((*at)->bytes > n->bytes || ((*at)->bytes == n->bytes && strcmp((*at)->text, n->text) < 0)))
            at = &(*at)->next;
        n->next = *at;
        *at = n;
    }
    return out;
}

/* Frames that have one way on stand below each other: only forks indent. */
static void print_tree(struct gm_report *r, struct node *n, unsigned depth, unsigned indent,
                       struct gm_out *out) {
    unsigned shown = 0;
    uint64_t rest = 0, count = 0;
    n->children = sorted(n->children);
    bool fork = n->children && n->children->next;
    for (struct node *c = n->children; c; c = c->next) {
        char place[600], share[32];
        struct gm_text room;
        if (!out->json && shown >= r->top) {
            rest += c->bytes;
            count++;
            continue;
        }
        shown++;
        snprintf(place, sizeof place, "%*s%s", out->json ? 0 : 2 * (int)(indent < 30 ? indent : 30), "",
                 c->text);
        snprintf(share, sizeof share, "%s", gm_text_percent(&room, c->bytes, r->a->peak_bytes));
        gm_out_row(out, (struct gm_value[]){GM_N(c->bytes), GM_T(share), GM_N(depth), GM_T(place)}, NULL);
        print_tree(r, c, depth + 1, indent + (fork || (c->children && c->children->next)), out);
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
    uint64_t most;
    uint32_t *texts; /* array: phases open at the peak around the allocation that made it, outermost first */
    size_t count, room;
};

static bool peak_event(struct gm_observer *self, const struct gm_step *step) {
    return gm_phases_event(((struct peak_phase *)self)->phases, step->event, step->thread);
}

static bool peak_born(struct gm_observer *self, const struct gm_step *step) {
    struct peak_phase *p = (struct peak_phase *)self;
    const struct gm_phase *open;
    size_t count = gm_phases_open(p->phases, &open);
    if (step->now->live_bytes <= p->most)
        return true;
    p->most = step->now->live_bytes;
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

struct gm_observer *gm_watch_peak(void) {
    struct peak_phase *p = calloc(1, sizeof *p);
    if (!p || !(p->phases = gm_phases_new(NULL, NULL))) {
        free(p);
        return NULL;
    }
    p->observer = (struct gm_observer){peak_event, peak_born, NULL};
    return &p->observer;
}

void gm_drop_peak(struct gm_observer *watched) {
    struct peak_phase *p = (struct peak_phase *)watched;
    gm_phases_free(p->phases);
    free(p->texts);
}

static void print_phase(const struct gm_report *r, const struct peak_phase *p, struct gm_out *out) {
    char path[512] = "", shown[512];
    for (size_t i = 0, used = 0; i < p->count && used < sizeof path; i++) {
        const char *text = gm_reader_string(r->reader, p->texts[i]);
        used += (size_t)snprintf(path + used, sizeof path - used, "%s%s", i ? " > " : "", text ? text : "?");
    }
    if (p->count)
        gm_out_words(out, "phase", "in the phase", out->json ? path : gm_text_printable(shown, sizeof shown, path));
}

bool gm_print_peak(struct gm_report *r, struct gm_observer *watched, struct gm_out *out) {
    static const struct gm_column columns[] = {{"bytes", "bytes", GM_CELL_BYTES},
                                               {NULL, "share", GM_CELL_RIGHT, 8},
                                               {"depth", NULL, GM_CELL_NUMBER},
                                               {"frame", "", GM_CELL_TEXT}};
    struct node root = {0};
    gm_out_section(out, "peak", "WHO HELD DEVICE MEMORY AT THE PEAK");
    gm_out_fact(out, "bytes", "live bytes", GM_CELL_BYTES, r->a->peak_bytes);
    gm_out_fact(out, "time_ns", "at", GM_CELL_TIME, r->a->peak_ns);
    print_phase(r, (const struct peak_phase *)watched, out);
    bool done = grow_tree(r, &root);
    gm_out_table(out, "tree", columns, sizeof columns / sizeof *columns);
    out->all = true; /* the tree cuts itself */
    if (done)
        print_tree(r, &root, 0, 0, out);
    gm_out_table_end(out);
    free_nodes(root.children);
    return done;
}
