/* Finds arrays that grow by allocating a larger block, copying, and freeing the old one. The report does not
 * look at copies, so this is a guess.
 *
 * A freed block counts as grown if the same call site in the same thread had allocated a successor: a later block that
 * is larger, at most RATIO times as large, still alive, allocated at most WINDOW_NS before the free, and among the
 * thread's latest RECENT allocations. Each successor belongs to one old block. The report assumes that the program
 * copied the whole old block and held both blocks during the copy. */
#include "tools/cli/section.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define RATIO     4
#define WINDOW_NS UINT64_C(1000000000)
#define RECENT    8

struct recent {
    uint64_t number, bytes, created_ns; /* number 0 = none: freed, or the successor of another block */
    uint64_t turn;                      /* position among the allocations of its thread */
};

struct group {
    uint64_t key; /* call site and thread */
    struct recent ring[RECENT];
    unsigned next;
    UT_hash_handle hh;
};

struct turns {
    int thread;
    uint64_t count; /* number of allocations */
    UT_hash_handle hh;
};

struct growth {
    struct gm_observer observer;
    struct group *groups, *last;
    struct turns *threads, *last_thread;
    uint64_t count, bytes, most;
    uint64_t peak_ns, at_peak; /* bytes of old blocks alive at the peak, which was at peak_ns */
};

static struct group *group_of(struct growth *g, const struct gm_live_block *b, bool make) {
    uint64_t key = (uint64_t)b->site << 32 | (uint32_t)b->thread;
    struct group *group = g->last;
    if (group && group->key == key)
        return group;
    HASH_FIND(hh, g->groups, &key, sizeof key, group);
    if (!group && make && (group = calloc(1, sizeof *group))) {
        group->key = key;
        HASH_ADD(hh, g->groups, key, sizeof key, group);
    }
    if (group)
        g->last = group;
    return group;
}

static struct turns *turns_of(struct growth *g, int thread) {
    struct turns *t = g->last_thread;
    if (t && t->thread == thread)
        return t;
    HASH_FIND_INT(g->threads, &thread, t);
    if (!t && (t = calloc(1, sizeof *t))) {
        t->thread = thread;
        HASH_ADD_INT(g->threads, thread, t);
    }
    return g->last_thread = t;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    struct growth *g = (struct growth *)self;
    const struct gm_live_block *b = step->block;
    struct turns *turns = turns_of(g, b->thread);
    if (!turns)
        return false;
    turns->count++;
    if (!b->site)
        return true;
    struct group *group = group_of(g, b, true);
    if (!group)
        return false;
    group->ring[group->next++ % RECENT] = (struct recent){b->number, b->bytes, b->created_ns, turns->count};
    return true;
}

static bool follows(const struct recent *r, const struct gm_live_block *old, uint64_t now, uint64_t turn) {
    return r->number > old->number && turn - r->turn < RECENT && r->bytes > old->bytes &&
           r->bytes / RATIO <= old->bytes && now - r->created_ns <= WINDOW_NS;
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    struct growth *g = (struct growth *)self;
    const struct gm_live_block *b = step->block;
    struct group *group = b->site ? group_of(g, b, false) : NULL;
    struct turns *turns = group ? turns_of(g, b->thread) : NULL;
    struct recent *next = NULL;
    if (!turns)
        return !group;
    for (unsigned i = 0; i < RECENT; i++) {
        struct recent *r = &group->ring[i];
        if (r->number == b->number)
            r->number = 0;
        else if (r->number && follows(r, b, step->time_ns, turns->count) && (!next || r->number < next->number))
            next = r;
    }
    if (!next || step->event->action != GM_ACT_FREE)
        return true;
    uint64_t both_since = next->created_ns;
    next->number = 0;
    g->count++;
    g->bytes += b->bytes;
    if (b->bytes > g->most)
        g->most = b->bytes;
    step->site->grown_count++;
    step->site->grown_bytes += b->bytes;
    if (b->bytes > step->site->grown_most)
        step->site->grown_most = b->bytes;
    if (gm_kind_is_on_device((enum gm_kind)b->kind) && step->now->peak_ns >= both_since) {
        g->at_peak = (g->peak_ns == step->now->peak_ns ? g->at_peak : 0) + b->bytes;
        g->peak_ns = step->now->peak_ns;
    }
    return true;
}

struct gm_observer *gm_observe_growth(void) {
    struct growth *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->observer = (struct gm_observer){NULL, created, destroyed};
    return &g->observer;
}

void gm_drop_growth(struct gm_observer *observer) {
    struct growth *g = (struct growth *)observer;
    struct group *group, *next;
    HASH_ITER(hh, g->groups, group, next) {
        HASH_DEL(g->groups, group);
        free(group);
    }
    struct turns *t, *next_turns;
    HASH_ITER(hh, g->threads, t, next_turns) {
        HASH_DEL(g->threads, t);
        free(t);
    }
}

bool gm_print_growth(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    const struct gm_column columns[] = {{"count", "times", GM_CELL_COUNT},
                                        {"copied_bytes", "copied", GM_CELL_BYTES},
                                        {"most_bytes", "largest old", GM_CELL_BYTES},
                                        gm_report_device_column(r)};
    const struct growth *g = (const struct growth *)observer;
    gm_out_section(out, "growth", "ARRAYS THAT GROW BY ALLOCATE, COPY, FREE");
    gm_out_note(out,
                "a guess: a freed block counts as grown if its thread allocated, at the same site and at most 1 s and "
                "%d allocations before the free, a block at most %d times larger",
                RECENT, RATIO);
    gm_out_fact(out, "count", "times", GM_CELL_COUNT, g->count);
    gm_out_fact(out, "copied_bytes", "bytes copied at most", GM_CELL_BYTES, g->bytes);
    gm_out_fact(out, "most_bytes", "largest block held twice", GM_CELL_BYTES, g->most);
    gm_out_fact(out, "at_peak_bytes", "of the peak were old blocks", GM_CELL_BYTES,
                g->count && g->peak_ns == r->a->peak_ns ? g->at_peak : 0);
    gm_report_sort_sites(r, GM_BY_GROWN);
    gm_out_table(out, "sites", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < r->site_count && r->sites[i].totals.grown_count; i++) {
        const struct gm_site_totals *s = &r->sites[i].totals;
        struct gm_site_names names = gm_report_site_names(r, &r->sites[i]);
        gm_out_row(out,
                   (struct gm_value[]){GM_N(s->grown_count), GM_N(s->grown_bytes), GM_N(s->grown_most),
                                       GM_N((uint64_t)s->device)},
                   &names);
    }
    gm_out_table_end(out);
    return true;
}
