/* Report part --oom: what happened when memory ran out. It shows the steps of GPUMEM_OOM that were taken, the call
 * sites that got other memory, and each failed allocation: its size, who held memory then, and what the card's memory
 * was. */
#include "tools/cli/account_out.h"
#include "tools/cli/cuda_result.h"
#include "tools/cli/keyed_totals.h"
#include "tools/cli/memory_kinds.h"
#include "tools/cli/section.h"
#include "tools/cli/sort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDERS 5  /* that are shown */
#define STACKS  32 /* that are noted: several may be of one call site */

struct failure {
    uint64_t time_ns, bytes, live, reserved, kept;
    uint32_t site;
    uint16_t result;
    uint8_t call;
    int8_t device;
    bool beyond_limit;
    int thread;
    struct gm_account account; /* that the trace has of it */
    struct {
        uint32_t site;
        uint64_t bytes;
    } holders[STACKS]; /* most bytes first */
};

struct step {
    uint64_t count, bytes, first_ns;
};

struct oom {
    struct gm_observer observer;
    uint64_t trim_ns; /* of the latest trim: one trim has an event for each kind */
    struct step trim, split, host, managed, failed;
    struct gm_keyed_totals_table displaced; /* by call site; the key's space is the kind that served */
    uint64_t count;
    unsigned noted;
    struct failure failures[GM_FAILURES_MAX];
};

static void note_holders(struct failure *f, const struct gm_analysis *now) {
    for (size_t i = 0; i < now->site_count; i++) {
        const struct gm_site_totals *s = &now->sites[i];
        unsigned at = STACKS;
        while (at && s->device_live > f->holders[at - 1].bytes)
            at--;
        if (at == STACKS || s->device != (int)gm_device_index(f->device))
            continue;
        memmove(&f->holders[at + 1], &f->holders[at], (STACKS - 1 - at) * sizeof f->holders[0]);
        f->holders[at].site = s->id;
        f->holders[at].bytes = s->device_live;
    }
}

static void count_step(struct step *s, const struct gm_event *e) {
    if (!s->count++)
        s->first_ns = e->time_ns;
    s->bytes += e->bytes;
}

/* Counts a block for which the device had no memory. False = no memory. */
static bool served_displaced(struct oom *o, const struct gm_event *e) {
    count_step(e->kind == GM_KIND_SPLIT ? &o->split : e->kind == GM_KIND_HOST_NUMA ? &o->host : &o->managed, e);
    struct gm_keyed_totals *row = gm_keyed_totals_of(&o->displaced, e->site, e->kind);
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
    struct gm_amounts amounts = gm_analysis_amounts_on(step->now, gm_device_index(e->device));
    *f = (struct failure){.time_ns = e->time_ns,
                          .bytes = e->bytes,
                          .live = amounts.live,
                          .reserved = amounts.reserved,
                          .kept = amounts.kept,
                          .site = e->site,
                          .result = e->result,
                          .call = e->call,
                          .device = e->device,
                          .beyond_limit = e->reason == GM_REASON_OUT_OF_MEMORY,
                          .thread = step->thread};
    note_holders(f, step->now);
}

/* Behind the event of a request its thread writes the account of that moment. */
static void note_account(struct oom *o, const struct gm_step *step) {
    const struct gm_event *e = step->event;
    struct gm_account account;
    if (!step->now->devices[gm_device_index(e->device)].accounts.of_failure ||
        !gm_analysis_account(step->now, e, &account))
        return;
    for (unsigned i = o->noted; i-- > 0;)
        if (o->failures[i].thread == step->thread && o->failures[i].device == e->device) {
            if (o->noted == o->count) /* else it may be that of a request that is not noted */
                o->failures[i].account = account;
            return;
        }
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct oom *o = (struct oom *)self;
    const struct gm_event *e = step->event;
    if (e->action == GM_ACT_ALLOC_FAIL) {
        note_failure(o, step);
    } else if (e->action == GM_ACT_ACCOUNT) {
        note_account(o, step);
    } else if (gm_event_is_own_trim(e) && e->reason == GM_REASON_OUT_OF_MEMORY) {
        count_step(&o->trim, e);
        o->trim.count -= o->trim_ns == e->time_ns;
        o->trim_ns = e->time_ns;
    } else if (e->action == GM_ACT_ALLOC && e->reason == GM_REASON_OUT_OF_MEMORY &&
               (e->kind == GM_KIND_SPLIT || e->kind == GM_KIND_HOST_NUMA || e->kind == GM_KIND_MANAGED)) {
        return served_displaced(o, e);
    }
    return true;
}

struct gm_observer *gm_observe_oom(void) {
    struct oom *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->observer = (struct gm_observer){.event = event};
    return &o->observer;
}

void gm_drop_oom(struct gm_observer *observer) { gm_keyed_totals_free(&((struct oom *)observer)->displaced); }

/* The most likely reason for the failure. Without an account it is derived from what the trace says of the blocks. */
static const char *reason_of(const struct failure *f, uint64_t device_bytes) {
    if (f->result != GM_OUT_OF_MEMORY)
        return "not a lack of memory";
    if (f->beyond_limit)
        return "GPUMEM_LIMIT";
    if (f->account.taken_ns)
        return gm_account_reason(&f->account, f->bytes);
    if (device_bytes == GM_UNKNOWN)
        return "unknown device memory";
    if (f->bytes > device_bytes)
        return "larger than the device's memory";
    if (f->reserved - f->kept > device_bytes - f->bytes)
        return "this process holds too much";
    if (f->reserved > device_bytes - f->bytes)
        return "kept memory";
    return "other processes or fragmentation";
}

struct holder {
    struct gm_frame_name name;
    uint64_t bytes;
};

static int most_bytes_first(const void *x, const void *y) {
    const struct holder *a = x, *b = y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->name.text, b->name.text);
}

/* Adds up the stacks of each call site. Returns the number of call sites, most bytes first. */
static unsigned join_holders(struct gm_report *r, const struct failure *f, struct holder holders[STACKS]) {
    unsigned count = 0;
    for (unsigned i = 0; i < STACKS && f->holders[i].bytes; i++) {
        struct holder *fresh = &holders[count];
        unsigned same = 0;
        gm_symbols_site(r->symbols, f->holders[i].site, &fresh->name);
        fresh->bytes = 0;
        while (strcmp(holders[same].name.text, fresh->name.text) ||
               strcmp(holders[same].name.module, fresh->name.module))
            same++;
        holders[same].bytes += f->holders[i].bytes;
        count += same == count;
    }
    gm_sort(holders, count, sizeof *holders, most_bytes_first);
    return count;
}

static void print_holders(struct gm_report *r, const struct oom *o, struct gm_out *out) {
    static const struct gm_column columns[] = {{"request", "request", GM_CELL_NUMBER},
                                               {"live_bytes", "held then", GM_CELL_BYTES}};
    static struct holder holders[STACKS];
    gm_out_table(out, "holders", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (unsigned i = 0; i < o->noted && (out->json || i < r->top); i++) {
        unsigned count = join_holders(r, &o->failures[i], holders);
        for (unsigned h = 0; h < HOLDERS && h < count; h++)
            gm_out_row(out, (struct gm_value[]){GM_N(i + 1), GM_N(holders[h].bytes)},
                       &(struct gm_site_names){&holders[h].name, 1});
    }
    gm_out_table_end(out);
}

/* Prints the steps in the order of enum gm_oom_step. */
static void print_steps(const struct oom *o, struct gm_out *out) {
    static const struct gm_column columns[] = {{"step", "step", GM_CELL_TEXT},
                                               {"count", "times", GM_CELL_COUNT},
                                               {"bytes", "bytes", GM_CELL_BYTES},
                                               {"first_ns", "first at", GM_CELL_TIME}};
    const struct {
        const char *name;
        const struct step *step;
    } rows[] = {
        {"trim", &o->trim}, {"split", &o->split}, {"host", &o->host}, {"managed", &o->managed}, {"fail", &o->failed}};
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

struct displaced {
    struct gm_frame_name name;
    uint64_t kind, allocs, bytes;
};

static int compare_places(const struct displaced *a, const struct displaced *b) {
    int difference = strcmp(a->name.text, b->name.text);
    if (!difference)
        difference = strcmp(a->name.module, b->name.module);
    return difference ? difference : (a->kind > b->kind) - (a->kind < b->kind);
}

static int by_place(const void *x, const void *y) { return compare_places(x, y); }

static int most_moved_first(const void *x, const void *y) {
    const struct displaced *a = x, *b = y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : compare_places(a, b);
}

/* Adds up the stacks of each call site. Returns the number of rows. */
static size_t join_displaced(struct gm_report *r, const struct oom *o, struct displaced *rows) {
    size_t all = 0, count = 0;
    for (const struct gm_keyed_totals *t = o->displaced.rows; t; t = t->hh.next) {
        rows[all] = (struct displaced){.kind = t->key.space, .allocs = t->allocs, .bytes = t->bytes};
        gm_symbols_site(r->symbols, (uint32_t)t->key.value, &rows[all++].name);
    }
    gm_sort(rows, all, sizeof *rows, by_place);
    for (size_t i = 0; i < all; i++) {
        if (count && !compare_places(&rows[count - 1], &rows[i])) {
            rows[count - 1].allocs += rows[i].allocs;
            rows[count - 1].bytes += rows[i].bytes;
        } else {
            rows[count++] = rows[i];
        }
    }
    gm_sort(rows, count, sizeof *rows, most_moved_first);
    return count;
}

/* False: no memory. */
static bool print_displaced(struct gm_report *r, const struct oom *o, struct gm_out *out) {
    static const struct gm_column columns[] = {{"kind", "served by", GM_CELL_TEXT},
                                               {"allocations", "allocations", GM_CELL_COUNT},
                                               {"bytes", "bytes", GM_CELL_BYTES}};
    struct displaced *rows = calloc(HASH_COUNT(o->displaced.rows) + 1, sizeof *rows);
    if (!rows)
        return false;
    size_t count = join_displaced(r, o, rows);
    gm_out_table(out, "elsewhere", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < count; i++)
        gm_out_row(out,
                   (struct gm_value[]){GM_T(gm_kind_name((enum gm_kind)rows[i].kind)), GM_N(rows[i].allocs),
                                       GM_N(rows[i].bytes)},
                   &(struct gm_site_names){&rows[i].name, 1});
    gm_out_table_end(out);
    free(rows);
    return true;
}

static void print_requests(struct gm_report *r, const struct oom *o, struct gm_out *out) {
    static const struct gm_column columns[] = {
        {"request", "request", GM_CELL_NUMBER},  {"time_ns", "at", GM_CELL_TIME},
        {"bytes", "requested", GM_CELL_BYTES},   {"device", "device", GM_CELL_NUMBER},
        {"live_bytes", "live", GM_CELL_BYTES},   {"reserved_bytes", "reserved", GM_CELL_BYTES},
        {"kept_bytes", "kept", GM_CELL_BYTES},   {"device_bytes", "device", GM_CELL_BYTES},
        {"call", "call", GM_CELL_TEXT},          {"result", NULL, GM_CELL_NUMBER},
        {"result_name", "answer", GM_CELL_TEXT}, {"reason", "why", GM_CELL_TEXT}};
    struct gm_frame_name name;
    struct gm_site_names place = {&name, 1};
    gm_out_note(out, "live: requested bytes; kept: freed blocks held for reuse; reserved: live and kept, with rounding "
                     "and the unused pages of gpumem's pools");
    gm_out_table(out, "requests", columns, sizeof columns / sizeof *columns);
    for (unsigned i = 0; i < o->noted; i++) {
        const struct failure *f = &o->failures[i];
        uint64_t device_bytes = gm_report_device_bytes(r, f->device);
        gm_symbols_site(r->symbols, f->site, &name);
        gm_out_row(out,
                   (struct gm_value[]){
                       GM_N(i + 1), GM_N(f->time_ns), GM_N(f->bytes), GM_N((uint64_t)(int64_t)f->device), GM_N(f->live),
                       GM_N(f->reserved), GM_N(f->kept), GM_N(device_bytes), GM_T(gm_call_name((enum gm_call)f->call)),
                       GM_N(f->result), GM_T(gm_result_name(f->result)), GM_T(reason_of(f, device_bytes))},
                   &place);
    }
    gm_out_table_end(out);
}

static void print_accounts(const struct oom *o, struct gm_out *out) {
    bool pools = out->json != NULL, known = out->json != NULL;
    for (unsigned i = 0; i < o->noted; i++) {
        known |= o->failures[i].account.taken_ns != 0;
        pools |= o->failures[i].account.pool_count != 0;
    }
    if (known) {
        gm_out_note(
            out, "what the card's memory was, before kept memory was given back; elsewhere is to be subtracted; where "
                 "others is unknown, contexts has other processes, too");
        gm_out_accounts(out);
        for (unsigned i = 0; i < o->noted; i++)
            gm_out_account_row(out, i + 1, &o->failures[i].account);
        gm_out_table_end(out);
    }
    if (pools) {
        gm_out_pools(out);
        for (unsigned i = 0; i < o->noted; i++)
            gm_out_pool_rows(out, i + 1, &o->failures[i].account);
        gm_out_table_end(out);
    }
}

bool gm_print_oom(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    struct oom *o = (struct oom *)observer;
    gm_out_section(out, "out_of_memory", "WHEN MEMORY RAN OUT");
    gm_out_fact(out, "count", "requests that failed", GM_CELL_COUNT, o->count);
    print_steps(o, out);
    if (!print_displaced(r, o, out))
        return false;
    print_requests(r, o, out);
    print_accounts(o, out);
    print_holders(r, o, out);
    return true;
}
