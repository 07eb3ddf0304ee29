/* Allocations that failed: what was asked for, who held the memory then, what was lost to rounding, and what
 * was kept back for reuse. */
#include "tools/cli/result.h"
#include "tools/cli/section.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDERS 5

struct failure {
    uint64_t time_ns, bytes, live, reserved, kept;
    uint32_t site;
    uint16_t result;
    uint8_t call;
    int8_t device;
    struct {
        uint32_t site;
        uint64_t bytes;
    } holders[HOLDERS]; /* most bytes first */
};

struct oom {
    struct gm_observer observer;
    uint64_t kept; /* bytes of freed cache blocks not used again yet */
    uint64_t count;
    unsigned noted;
    struct failure failures[GM_FAILURES_KEPT];
};

static void note_holders(struct failure *f, const struct gm_analysis *now) {
    for (size_t i = 0; i < now->site_count; i++) {
        const struct gm_site_totals *s = &now->sites[i];
        unsigned at = HOLDERS;
        while (at && s->device_live > f->holders[at - 1].bytes)
            at--;
        if (at == HOLDERS)
            continue;
        memmove(&f->holders[at + 1], &f->holders[at], (HOLDERS - 1 - at) * sizeof f->holders[0]);
        f->holders[at].site = s->id;
        f->holders[at].bytes = s->device_live;
    }
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct oom *o = (struct oom *)self;
    const struct gm_event *e = step->event;
    if (e->action != GM_ACT_ALLOC_FAIL)
        return true;
    o->count++;
    if (o->noted == GM_FAILURES_KEPT)
        return true;
    struct failure *f = &o->failures[o->noted++];
    *f = (struct failure){.time_ns = e->time_ns,
                          .bytes = e->bytes,
                          .live = step->now->live_bytes,
                          .reserved = step->now->live_reserved,
                          .kept = o->kept,
                          .site = e->site,
                          .result = e->result,
                          .call = e->call,
                          .device = e->device};
    note_holders(f, step->now);
    return true;
}

static bool born(struct gm_observer *self, const struct gm_step *step) {
    struct oom *o = (struct oom *)self;
    const struct gm_live *b = step->block;
    uint64_t bytes = b->bytes + b->slack;
    if (b->kind == GM_KIND_CACHE && b->hit)
        o->kept -= bytes < o->kept ? bytes : o->kept;
    return true;
}

static bool died(struct gm_observer *self, const struct gm_step *step) {
    struct oom *o = (struct oom *)self;
    const struct gm_live *b = step->block;
    if (b->kind == GM_KIND_CACHE && step->event->action == GM_ACT_FREE)
        o->kept += b->bytes + b->slack;
    return true;
}

struct gm_observer *gm_watch_oom(void) {
    struct oom *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->observer = (struct gm_observer){event, born, died};
    return &o->observer;
}

/* What the numbers speak for. */
static const char *reason_of(const struct failure *f, uint64_t card) {
    if (f->result != GM_OUT_OF_MEMORY)
        return "no lack of memory";
    if (card == GM_UNKNOWN)
        return "unknown card";
    if (f->bytes > card)
        return "larger than the card";
    if (f->reserved > card - f->bytes)
        return "this process holds too much";
    if (f->reserved + f->kept > card - f->bytes)
        return "memory kept back";
    return "others, fragments or a limit";
}

static void print_holders(struct gm_report *r, const struct oom *o, struct gm_out *out) {
    static const struct gm_column columns[] = {{"request", "request", GM_CELL_NUMBER},
                                               {"live_bytes", "held then", GM_CELL_BYTES}};
    struct gm_frame_name name;
    struct gm_place_names place = {&name, 1};
    gm_out_table(out, "holders", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (unsigned i = 0; i < o->noted && (out->json || i < r->top); i++) {
        for (unsigned h = 0; h < HOLDERS && o->failures[i].holders[h].bytes; h++) {
            gm_symbols_site(r->symbols, o->failures[i].holders[h].site, &name);
            gm_out_row(out, (struct gm_value[]){GM_N(i + 1), GM_N(o->failures[i].holders[h].bytes)}, &place);
        }
    }
    gm_out_table_end(out);
}

bool gm_print_oom(struct gm_report *r, struct gm_observer *watched, struct gm_out *out) {
    static const struct gm_column columns[] = {{"request", "request", GM_CELL_NUMBER},
                                               {"time_ns", "at", GM_CELL_TIME},
                                               {"bytes", "asked", GM_CELL_BYTES},
                                               {"device", "device", GM_CELL_NUMBER},
                                               {"live_bytes", "live", GM_CELL_BYTES},
                                               {"reserved_bytes", "reserved", GM_CELL_BYTES},
                                               {"kept_bytes", "kept back", GM_CELL_BYTES},
                                               {"device_bytes", "card", GM_CELL_BYTES},
                                               {"call", "call", GM_CELL_TEXT},
                                               {"result", NULL, GM_CELL_NUMBER},
                                               {"result_name", "answer", GM_CELL_TEXT},
                                               {"reason", "why", GM_CELL_TEXT}};
    const struct oom *o = (const struct oom *)watched;
    struct gm_frame_name name;
    struct gm_place_names place = {&name, 1};
    gm_out_section(out, "failed_requests", "ALLOCATIONS THAT FAILED");
    gm_out_fact(out, "count", "requests", GM_CELL_COUNT, o->count);
    gm_out_note(out,
                "live: asked for; reserved: with what rounding adds; kept back: freed, not used again (at "
                "most: the trace does not say when it went to the driver)");
    gm_out_table(out, "requests", columns, sizeof columns / sizeof *columns);
    for (unsigned i = 0; i < o->noted; i++) {
        const struct failure *f = &o->failures[i];
        uint64_t card = gm_report_device_bytes(r, f->device);
        gm_symbols_site(r->symbols, f->site, &name);
        gm_out_row(out,
                   (struct gm_value[]){GM_N(i + 1), GM_N(f->time_ns), GM_N(f->bytes),
                                       GM_N((uint64_t)(int64_t)f->device), GM_N(f->live), GM_N(f->reserved),
                                       GM_N(f->kept), GM_N(card), GM_T(gm_call_name((enum gm_call)f->call)),
                                       GM_N(f->result), GM_T(gm_result_name(f->result)),
                                       GM_T(reason_of(f, card))},
                   &place);
    }
    gm_out_table_end(out);
    print_holders(r, o, out);
    return true;
}
