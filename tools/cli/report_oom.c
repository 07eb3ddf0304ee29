/* Report part --oom: what happened when memory ran out. It shows the steps of GPUMEM_OOM that were taken, the call
 * sites that got other memory, and each failed allocation: its size, who held memory then, and how much memory rounding
 * and the cache took. */
#include "tools/cli/cuda_result.h"
#include "tools/cli/keyed_totals.h"
#include "tools/cli/memory_kinds.h"
#include "tools/cli/section.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDERS 5

struct failure {
    uint64_t time_ns, bytes, live, reserved, cached;
    uint32_t site;
    uint16_t result;
    uint8_t call;
    int8_t device;
    bool beyond_limit;
    struct {
        uint32_t site;
        uint64_t bytes;
    } holders[HOLDERS]; /* most bytes first */
};

struct step {
    uint64_t count, bytes, first_ns;
};

struct oom {
    struct gm_observer observer;
    uint64_t cached; /* bytes of freed blocks in the cache that were neither reused nor returned to the driver */
    struct step trim, host, managed, failed;
    struct gm_keyed_totals_table elsewhere; /* by call site; the key's space is the kind that served */
    uint64_t count;
    unsigned noted;
    struct failure failures[GM_FAILURES_MAX];
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

static void take_cached(struct oom *o, uint64_t bytes) { o->cached -= bytes < o->cached ? bytes : o->cached; }

static void count_step(struct step *s, const struct gm_event *e) {
    if (!s->count++)
        s->first_ns = e->time_ns;
    s->bytes += e->bytes;
}

/* Counts a block for which the device had no memory. False = no memory. */
static bool served_elsewhere(struct oom *o, const struct gm_event *e) {
    count_step(e->kind == GM_KIND_HOST_NUMA ? &o->host : &o->managed, e);
    struct gm_keyed_totals *row = gm_keyed_totals_of(&o->elsewhere, e->site, e->kind);
    if (!row)
        return false;
    row->allocs++;
    row->bytes += e->bytes;
    return true;
}

static void note_failure(struct oom *o, const struct gm_step *step) {
    const struct gm_event *e = step->event;
    o->count++;
    if (e->result == GM_OUT_OF_MEMORY)
        count_step(&o->failed, e);
    if (o->noted == GM_FAILURES_MAX)
        return;
    struct failure *f = &o->failures[o->noted++];
    *f = (struct failure){.time_ns = e->time_ns,
                          .bytes = e->bytes,
                          .live = step->now->live_bytes,
                          .reserved = step->now->live_reserved,
                          .cached = o->cached,
                          .site = e->site,
                          .result = e->result,
                          .call = e->call,
                          .device = e->device,
                          .beyond_limit = e->reason == GM_REASON_OUT_OF_MEMORY};
    note_holders(f, step->now);
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct oom *o = (struct oom *)self;
    const struct gm_event *e = step->event;
    if (e->action == GM_ACT_ALLOC_FAIL) {
        note_failure(o, step);
    } else if (gm_event_is_own_trim(e)) {
        count_step(&o->trim, e);
        take_cached(o, e->bytes);
    } else if (e->action == GM_ACT_ALLOC && e->reason == GM_REASON_OUT_OF_MEMORY &&
               (e->kind == GM_KIND_HOST_NUMA || e->kind == GM_KIND_MANAGED)) {
        return served_elsewhere(o, e);
    }
    return true;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    struct oom *o = (struct oom *)self;
    const struct gm_live_block *b = step->block;
    if (gm_kind_is_cached((enum gm_kind)b->kind) && b->hit)
        take_cached(o, b->bytes + b->slack);
    return true;
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    struct oom *o = (struct oom *)self;
    const struct gm_live_block *b = step->block;
    if (gm_kind_is_cached((enum gm_kind)b->kind) && step->event->action == GM_ACT_FREE)
        o->cached += b->bytes + b->slack;
    return true;
}

struct gm_observer *gm_observe_oom(void) {
    struct oom *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->observer = (struct gm_observer){event, created, destroyed};
    return &o->observer;
}

void gm_drop_oom(struct gm_observer *observer) { gm_keyed_totals_free(&((struct oom *)observer)->elsewhere); }

/* The most likely reason for the failure. */
static const char *reason_of(const struct failure *f, uint64_t device_bytes) {
    if (f->result != GM_OUT_OF_MEMORY)
        return "not a lack of memory";
    if (f->beyond_limit)
        return "GPUMEM_LIMIT";
    if (device_bytes == GM_UNKNOWN)
        return "unknown device memory";
    if (f->bytes > device_bytes)
        return "larger than the device's memory";
    if (f->reserved > device_bytes - f->bytes)
        return "this process holds too much";
    if (f->reserved + f->cached > device_bytes - f->bytes)
        return "cached memory";
    return "other processes or fragmentation";
}

static void print_holders(struct gm_report *r, const struct oom *o, struct gm_out *out) {
    static const struct gm_column columns[] = {{"request", "request", GM_CELL_NUMBER},
                                               {"live_bytes", "held then", GM_CELL_BYTES}};
    struct gm_frame_name name;
    struct gm_site_names place = {&name, 1};
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

/* Prints the steps in the default order of GPUMEM_OOM. */
static void print_steps(const struct oom *o, struct gm_out *out) {
    static const struct gm_column columns[] = {{"step", "step", GM_CELL_TEXT},
                                               {"count", "times", GM_CELL_COUNT},
                                               {"bytes", "bytes", GM_CELL_BYTES},
                                               {"first_ns", "first at", GM_CELL_TIME}};
    const struct {
        const char *name;
        const struct step *step;
    } rows[] = {{"trim", &o->trim}, {"host", &o->host}, {"managed", &o->managed}, {"fail", &o->failed}};
    gm_out_table(out, "steps", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct step *s = rows[i].step;
        if (s->count)
            gm_out_row(out, (struct gm_value[]){GM_T(rows[i].name), GM_N(s->count), GM_N(s->bytes), GM_N(s->first_ns)},
                       NULL);
    }
    gm_out_table_end(out);
}

static void print_elsewhere(struct gm_report *r, struct oom *o, struct gm_out *out) {
    static const struct gm_column columns[] = {{"kind", "served by", GM_CELL_TEXT},
                                               {"allocations", "allocations", GM_CELL_COUNT},
                                               {"bytes", "bytes", GM_CELL_BYTES}};
    struct gm_frame_name name;
    struct gm_site_names place = {&name, 1};
    gm_keyed_totals_sort(&o->elsewhere);
    gm_out_table(out, "elsewhere", columns, sizeof columns / sizeof *columns);
    for (const struct gm_keyed_totals *row = o->elsewhere.rows; row; row = row->hh.next) {
        gm_symbols_site(r->symbols, (uint32_t)row->key.value, &name);
        gm_out_row(
            out,
            (struct gm_value[]){GM_T(gm_kind_name((enum gm_kind)row->key.space)), GM_N(row->allocs), GM_N(row->bytes)},
            &place);
    }
    gm_out_table_end(out);
}

static void print_requests(struct gm_report *r, const struct oom *o, struct gm_out *out) {
    static const struct gm_column columns[] = {
        {"request", "request", GM_CELL_NUMBER},  {"time_ns", "at", GM_CELL_TIME},
        {"bytes", "requested", GM_CELL_BYTES},   {"device", "device", GM_CELL_NUMBER},
        {"live_bytes", "live", GM_CELL_BYTES},   {"reserved_bytes", "reserved", GM_CELL_BYTES},
        {"kept_bytes", "cached", GM_CELL_BYTES}, {"device_bytes", "device", GM_CELL_BYTES},
        {"call", "call", GM_CELL_TEXT},          {"result", NULL, GM_CELL_NUMBER},
        {"result_name", "answer", GM_CELL_TEXT}, {"reason", "why", GM_CELL_TEXT}};
    struct gm_frame_name name;
    struct gm_site_names place = {&name, 1};
    gm_out_note(out, "live: requested bytes; reserved: with rounding; cached: freed and not reused, an upper bound, "
                     "because memory returned to the driver before memory ran out still counts");
    gm_out_table(out, "requests", columns, sizeof columns / sizeof *columns);
    for (unsigned i = 0; i < o->noted; i++) {
        const struct failure *f = &o->failures[i];
        uint64_t device_bytes = gm_report_device_bytes(r, f->device);
        gm_symbols_site(r->symbols, f->site, &name);
        gm_out_row(out,
                   (struct gm_value[]){GM_N(i + 1), GM_N(f->time_ns), GM_N(f->bytes),
                                       GM_N((uint64_t)(int64_t)f->device), GM_N(f->live), GM_N(f->reserved),
                                       GM_N(f->cached), GM_N(device_bytes), GM_T(gm_call_name((enum gm_call)f->call)),
                                       GM_N(f->result), GM_T(gm_result_name(f->result)),
                                       GM_T(reason_of(f, device_bytes))},
                   &place);
    }
    gm_out_table_end(out);
}

bool gm_print_oom(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    struct oom *o = (struct oom *)observer;
    gm_out_section(out, "out_of_memory", "WHEN MEMORY RAN OUT");
    gm_out_fact(out, "count", "requests that failed", GM_CELL_COUNT, o->count);
    print_steps(o, out);
    print_elsewhere(r, o, out);
    print_requests(r, o, out);
    print_holders(r, o, out);
    return true;
}
