/* Report part --reserved: memory taken from the devices over time, as live, kept and reserved bytes, and why kept
 * memory went back to the driver or could not. What the process holds beyond gpumem's view. */
#include "tools/cli/account_out.h"
#include "tools/cli/section.h"
#include "tools/cli/trace_glossary.h"

#include <stdlib.h>

#define BINS 400

struct over_time {
    uint64_t width_ns; /* of a bin */
    struct {
        struct gm_amounts most, last; /* `most`: each the greatest of its own */
        bool used;
    } bins[BINS];
};

struct reserved {
    struct gm_observer observer;
    uint64_t last_ns;                 /* of the latest event */
    struct over_time *on[GM_DEVICES]; /* from its first use on */
};

static void raise(uint64_t *most, uint64_t value) { *most = value > *most ? value : *most; }

static void raise_all(struct gm_amounts *most, const struct gm_amounts *now) {
    raise(&most->live, now->live);
    raise(&most->kept, now->kept);
    raise(&most->reserved, now->reserved);
}

/* Doubles the width of the bins, so that the same number of bins covers twice the time. */
static void widen(struct over_time *s) {
    for (unsigned i = 0; i < BINS; i++) {
        unsigned from = 2 * i, second = from + 1 < BINS && s->bins[from + 1].used;
        if (from >= BINS) {
            s->bins[i].used = false;
            continue;
        }
        bool used = s->bins[from].used || second;
        struct gm_amounts most = s->bins[from].used ? s->bins[from].most : (struct gm_amounts){0};
        if (second)
            raise_all(&most, &s->bins[from + 1].most);
        s->bins[i].last = second ? s->bins[from + 1].last : s->bins[from].last;
        s->bins[i].most = most;
        s->bins[i].used = used;
    }
    s->width_ns *= 2;
}

/* The amounts were so from `ns` on. */
static void note(struct over_time *s, uint64_t ns, struct gm_amounts now) {
    while (ns / s->width_ns >= BINS)
        widen(s);
    unsigned bin = (unsigned)(ns / s->width_ns);
    if (!s->bins[bin].used)
        s->bins[bin].most = (struct gm_amounts){0};
    s->bins[bin].used = true;
    s->bins[bin].last = now;
    raise_all(&s->bins[bin].most, &now);
}

static bool note_devices(struct reserved *s, uint64_t ns, const struct gm_analysis *a) {
    bool alone = gm_analysis_device_count(a) < 2;
    for (unsigned device = 0; device < a->device_end || !device; device++) {
        if (!gm_analysis_has_device(a, device) && !(alone && !device))
            continue;
        if (!s->on[device]) {
            if (!(s->on[device] = calloc(1, sizeof *s->on[device])))
                return false;
            s->on[device]->width_ns = 1000;
        }
        note(s->on[device], ns, gm_analysis_amounts_on(a, device));
    }
    return true;
}

/* The totals do not contain this event yet, so they belong to the one before. */
static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct reserved *s = (struct reserved *)self;
    bool done = note_devices(s, s->last_ns, step->now);
    s->last_ns = step->time_ns;
    return done;
}

struct gm_observer *gm_observe_reserved(void) {
    struct reserved *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->observer = (struct gm_observer){.event = event};
    return &s->observer;
}

void gm_drop_reserved(struct gm_observer *observer) {
    for (int device = 0; device < GM_DEVICES; device++)
        free(((struct reserved *)observer)->on[device]);
}

/* In text there are few rows, so each covers several bins. */
static void print_over_time(const struct over_time *s, uint64_t last_ns, unsigned rows, struct gm_out *out) {
    static const struct gm_column columns[] = {{"begin_ns", "from", GM_CELL_TIME},
                                               {"live_bytes", "live", GM_CELL_BYTES},
                                               {"kept_bytes", "kept", GM_CELL_BYTES},
                                               {"reserved_bytes", "reserved", GM_CELL_BYTES}};
    unsigned used = (unsigned)(last_ns / s->width_ns) + 1, step = out->json ? 1 : (used + rows - 1) / rows;
    struct gm_amounts last = {0};
    gm_out_note(out, "the most of each in the time from there to the next row:");
    gm_out_table(out, "over_time", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (unsigned i = 0; i < used; i += step) {
        struct gm_amounts most = last;
        for (unsigned bin = i; bin < i + step && bin < used; bin++)
            if (s->bins[bin].used) {
                raise_all(&most, &s->bins[bin].most);
                last = s->bins[bin].last;
            }
        gm_out_row(out,
                   (struct gm_value[]){GM_N(i * s->width_ns), GM_N(most.live), GM_N(most.kept), GM_N(most.reserved)},
                   NULL);
    }
    gm_out_table_end(out);
}

static void print_trims(const struct gm_analysis *a, struct gm_out *out) {
    static const struct gm_column columns[] = {{"reason", "given back", GM_CELL_TEXT, 16},
                                               {"count", "times", GM_CELL_COUNT},
                                               {"bytes", "bytes", GM_CELL_BYTES},
                                               {"meaning", " because", GM_CELL_TEXT}};
    gm_out_table(out, "trims", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (int why = 0; why < GM_REASON_COUNT; why++)
        if (a->trims[why].count || a->trims[why].bytes)
            gm_out_row(out,
                       (struct gm_value[]){GM_T(gm_reason_name((enum gm_reason)why)), GM_N(a->trims[why].count),
                                           GM_N(a->trims[why].bytes), GM_T(gm_reason_meaning((enum gm_reason)why))},
                       NULL);
    gm_out_table_end(out);
}

/* Fragmentation. */
static void print_held(const struct gm_analysis *a, struct gm_out *out) {
    static const struct gm_column columns[] = {{"reason", "not to be given back", GM_CELL_TEXT, 20},
                                               {"peak_bytes", "at most", GM_CELL_BYTES},
                                               {"bytes", "at last", GM_CELL_BYTES},
                                               {"meaning", " because", GM_CELL_TEXT}};
    gm_out_table(out, "held", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (int why = 0; why < GM_REASON_COUNT; why++)
        if (a->held[why].peak)
            gm_out_row(out,
                       (struct gm_value[]){GM_T(gm_reason_name((enum gm_reason)why)), GM_N(a->held[why].peak),
                                           GM_N(a->held[why].bytes), GM_T(gm_reason_meaning((enum gm_reason)why))},
                       NULL);
    gm_out_table_end(out);
}

/* What the process holds beyond gpumem's view. */
static void print_untracked(const struct gm_analysis *a, struct gm_out *out) {
    const struct gm_untracked *untracked = &a->untracked;
    bool known = untracked->count != 0;
    gm_out_fact(out, "beyond_peak_bytes", "beyond gpumem at most", GM_CELL_BYTES, known ? untracked->peak : GM_UNKNOWN);
    gm_out_fact(out, "beyond_bytes", "beyond gpumem at last", GM_CELL_BYTES, known ? untracked->bytes : GM_UNKNOWN);
    gm_out_fact(out, "beyond_measured", "times measured", GM_CELL_COUNT, untracked->count);
    if (known)
        gm_out_text(out, "beyond_of", "that is",
                    untracked->shared ? "contexts, modules, graphs, libraries, and other processes of the card"
                                      : "contexts, modules, graphs, libraries");
}

/* The list of what the card's memory was. */
static void print_account(const struct gm_device_totals *device, struct gm_out *out) {
    const struct gm_accounts *accounts = &device->accounts;
    if (accounts->failed && !out->json)
        gm_out_note(out, "the fullest moment is that of the first request that found no memory");
    gm_out_account(out, &accounts->fullest, &accounts->latest);
}

static void print_device(struct gm_report *r, const struct reserved *s, unsigned device, struct gm_out *out) {
    const struct gm_device_totals *d = &r->a->devices[device];
    char name[32], title[64];
    snprintf(name, sizeof name, "reserved_device_%u", device);
    snprintf(title, sizeof title, "MEMORY TAKEN FROM DEVICE %u", device);
    gm_out_section(out, name, title);
    gm_out_fact(out, "peak_bytes", "peak reserved", GM_CELL_BYTES, d->peak_reserved);
    gm_out_fact(out, "peak_ns", "at", GM_CELL_TIME, d->peak_reserved_ns);
    gm_out_fact(out, "beyond_peak_bytes", "beyond gpumem at most", GM_CELL_BYTES,
                r->a->untracked.count ? d->untracked_peak : GM_UNKNOWN);
    print_account(d, out);
    print_over_time(s->on[device], s->last_ns, r->top, out);
}

bool gm_print_reserved(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    struct reserved *s = (struct reserved *)observer;
    const struct gm_analysis *a = r->a;
    unsigned first = 0;
    bool each = r->devices && !r->header->summary_ns;
    if (!note_devices(s, s->last_ns, a))
        return false;
    while (!s->on[first])
        first++;
    gm_out_section(out, "reserved", "MEMORY TAKEN FROM THE DEVICES");
    gm_out_note(out, "live: requested bytes; kept: freed blocks held for reuse; reserved: live and kept, with rounding "
                     "and the unused pages of gpumem's pools");
    if (!each) {
        gm_out_fact(out, "peak_bytes", "peak reserved", GM_CELL_BYTES, a->peak_reserved);
        gm_out_fact(out, "peak_ns", "at", GM_CELL_TIME, a->peak_reserved_ns);
        gm_out_fact(out, "live_bytes", "live then", GM_CELL_BYTES, a->live_at_reserved);
        gm_out_fact(out, "kept_bytes", "kept then", GM_CELL_BYTES, a->kept_at_reserved);
    }
    print_untracked(a, out);
    if (!each) {
        print_account(&a->devices[first], out);
        print_over_time(s->on[first], s->last_ns, r->top, out);
    }
    print_trims(a, out);
    print_held(a, out);
    for (unsigned device = 0; each && device < GM_DEVICES; device++)
        if (s->on[device])
            print_device(r, s, device, out);
    return true;
}
