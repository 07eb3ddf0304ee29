/* Report parts --threads and --streams: who allocated, who freed, and who freed a block of another thread or stream. */
#include "tools/cli/keyed_totals.h"
#include "tools/cli/section.h"

#include <stdlib.h>

struct observer {
    struct gm_observer observer;
    bool streams;
    struct gm_keyed_totals_table tallies;
};

static struct gm_keyed_totals *row_of(struct observer *w, const struct gm_step *step) {
    return w->streams ? gm_keyed_totals_of(&w->tallies, step->event->stream, step->event->context)
                      : gm_keyed_totals_of(&w->tallies, (uint64_t)(int64_t)step->thread, 0);
}

static struct gm_keyed_totals *owner_of(struct observer *w, const struct gm_live_block *b) {
    return w->streams ? gm_keyed_totals_of(&w->tallies, gm_live_block_stream(b), b->context)
                      : gm_keyed_totals_of(&w->tallies, (uint64_t)(int64_t)b->thread, 0);
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    const struct gm_event *e = step->event;
    if (!gm_event_is_call(e) || !gm_call_allocates((enum gm_call)e->call, (enum gm_kind)e->kind))
        return true;
    struct gm_keyed_totals *t = row_of((struct observer *)self, step);
    if (!t)
        return false;
    t->failed += e->action == GM_ACT_ALLOC_FAIL || e->action == GM_ACT_FREE_FAIL;
    t->time_ns += e->duration_ns;
    return true;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    struct gm_keyed_totals *t = owner_of((struct observer *)self, step->block);
    if (!t)
        return false;
    t->allocs++;
    t->bytes += step->block->bytes;
    t->live += step->block->bytes;
    if (t->live > t->peak)
        t->peak = t->live;
    return true;
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    struct observer *w = (struct observer *)self;
    struct gm_keyed_totals *owner = owner_of(w, step->block);
    if (!owner)
        return false;
    owner->live -= step->block->bytes;
    if (step->event->action != GM_ACT_FREE)
        return true;
    struct gm_keyed_totals *t = row_of(w, step);
    if (!t)
        return false;
    t->frees++;
    t->crossed += t != owner;
    return true;
}

static struct gm_observer *observe(bool streams) {
    struct observer *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->observer = (struct gm_observer){event, created, destroyed};
    w->streams = streams;
    return &w->observer;
}

struct gm_observer *gm_observe_threads(void) {
    return observe(false);
}
struct gm_observer *gm_observe_streams(void) {
    return observe(true);
}

void gm_drop_keyed_totals(struct gm_observer *observer) {
    gm_keyed_totals_free(&((struct observer *)observer)->tallies);
}

bool gm_print_threads(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    static const struct gm_column columns[] = {{"thread", "thread", GM_CELL_NUMBER},
                                               {"allocations", "allocations", GM_CELL_COUNT},
                                               {"bytes", "bytes", GM_CELL_BYTES},
                                               {"frees", "frees", GM_CELL_COUNT},
                                               {"frees_of_others", "of others", GM_CELL_COUNT},
                                               {"failed", "failed", GM_CELL_COUNT},
                                               {"peak_live_bytes", "peak live", GM_CELL_BYTES},
                                               {"ns", "time inside", GM_CELL_TIME}};
    struct observer *w = (struct observer *)observer;
    gm_out_section(out, "threads", "BY THREAD (of others: frees of blocks that another thread allocated)");
    if (r->devices)
        gm_out_note(out, "peaks add the devices up");
    gm_out_table(out, "rows", columns, sizeof columns / sizeof *columns);
    gm_keyed_totals_sort(&w->tallies);
    for (const struct gm_keyed_totals *t = w->tallies.rows; t; t = t->hh.next)
        gm_out_row(out,
                   (struct gm_value[]){GM_N(t->key.value), GM_N(t->allocs), GM_N(t->bytes), GM_N(t->frees),
                                       GM_N(t->crossed), GM_N(t->failed), GM_N(t->peak), GM_N(t->time_ns)},
                   NULL);
    gm_out_table_end(out);
    return true;
}

bool gm_print_streams(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    static const struct gm_column columns[] = {{"context", "context", GM_CELL_NUMBER},
                                               {"stream", "stream", GM_CELL_HEX},
                                               {"allocations", "allocations", GM_CELL_COUNT},
                                               {"bytes", "bytes", GM_CELL_BYTES},
                                               {"frees", "frees", GM_CELL_COUNT},
                                               {"frees_of_others", "of others", GM_CELL_COUNT},
                                               {"peak_live_bytes", "peak live", GM_CELL_BYTES},
                                               {"ns", "time inside", GM_CELL_TIME}};
    struct observer *w = (struct observer *)observer;
    gm_out_section(out, "streams",
                   "BY STREAM (0x0 is the default stream; of others: blocks allocated in another stream)");
    if (r->devices)
        gm_out_note(out, "peaks add the devices up");
    gm_out_table(out, "rows", columns, sizeof columns / sizeof *columns);
    gm_keyed_totals_sort(&w->tallies);
    for (const struct gm_keyed_totals *t = w->tallies.rows; t; t = t->hh.next)
        gm_out_row(out,
                   (struct gm_value[]){GM_N(t->key.space), GM_N(t->key.value), GM_N(t->allocs), GM_N(t->bytes),
                                       GM_N(t->frees), GM_N(t->crossed), GM_N(t->peak), GM_N(t->time_ns)},
                   NULL);
    gm_out_table_end(out);
    return true;
}
