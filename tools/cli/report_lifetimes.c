/* Report part --lifetimes: lifetimes of blocks, and the effect of a threshold on them (lifetime_classes.h). */
#include "tools/cli/lifetime_classes.h"
#include "tools/cli/memory_kinds.h"
#include "tools/cli/number_text.h"
#include "tools/cli/section.h"

#include <stdlib.h>
#include <string.h>

#define DEVICES 32 /* larger and unknown ordinals count for the last device */
#define DECADES 9  /* below 10 ns, 100 ns ... 1 s */
#define SECONDS 21 /* below 2 s, 4 s, ... 2^20 s, and longer */

struct lifetimes {
    struct gm_observer observer;
    struct gm_lifetime_classes classes;
    uint64_t below[DECADES], above[SECONDS], below_bytes[DECADES], above_bytes[SECONDS];
    uint64_t ended, never, never_bytes;
};

static void count(struct lifetimes *l, uint64_t ns, uint64_t bytes) {
    unsigned bin = 0;
    l->ended++;
    if (ns < 1000000000) {
        for (uint64_t limit = 10; ns >= limit; limit *= 10)
            bin++;
        l->below[bin]++;
        l->below_bytes[bin] += bytes;
        return;
    }
    while (bin < SECONDS - 1 && ns / 1000000000 >= UINT64_C(2) << bin)
        bin++;
    l->above[bin]++;
    l->above_bytes[bin] += bytes;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    struct lifetimes *l = (struct lifetimes *)self;
    if (!gm_lifetime_classes_begin(&l->classes, step->block->number))
        return false;
    l->never++;
    l->never_bytes += step->block->bytes;
    return true;
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    struct lifetimes *l = (struct lifetimes *)self;
    uint64_t ns = gm_lifetime_of(step);
    gm_lifetime_classes_end(&l->classes, step->block->number, ns);
    count(l, ns, step->block->bytes);
    l->never--;
    l->never_bytes -= step->block->bytes;
    return true;
}

struct gm_observer *gm_observe_lifetimes(void) {
    struct lifetimes *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->observer = (struct gm_observer){NULL, created, destroyed};
    return &l->observer;
}

void gm_drop_lifetimes(struct gm_observer *observer) {
    gm_lifetime_classes_free(&((struct lifetimes *)observer)->classes);
}

/* ---- second pass */

struct split {
    uint64_t live[GM_THRESHOLDS], peak[GM_THRESHOLDS];
};

struct splits {
    struct gm_observer observer;
    const struct lifetimes *lifetimes;
    struct {
        bool used;
        struct split async, managed;
    } devices[DEVICES];
};

static void change(struct split *s, unsigned from, unsigned to, uint64_t difference, bool up) {
    for (unsigned i = from; i < to; i++)
        s->live[i] += difference;
    for (unsigned i = from; i < to && up; i++)
        if (s->live[i] > s->peak[i])
            s->peak[i] = s->live[i];
}

static void change_all(struct splits *s, const struct gm_live_block *b, bool up) {
    if (!gm_kind_is_for_device((enum gm_kind)b->kind) ||
        b->number > s->lifetimes->classes.count) /* the trace may have grown before the second pass */
        return;
    unsigned class = s->lifetimes->classes.of[b->number - 1],
             device = b->device >= 0 && b->device < DEVICES ? (unsigned)b->device : DEVICES - 1;
    uint64_t difference = up ? b->bytes : 0 - b->bytes;
    s->devices[device].used = true;
    change(&s->devices[device].async, class, GM_THRESHOLDS, difference, up);
    change(&s->devices[device].managed, 0, class, difference, up);
}

static bool again_created(struct gm_observer *self, const struct gm_step *step) {
    change_all((struct splits *)self, step->block, true);
    return true;
}

static bool again_destroyed(struct gm_observer *self, const struct gm_step *step) {
    change_all((struct splits *)self, step->block, false);
    return true;
}

/* Number of thresholds up to the first that no block of the run outlives. From there on all rows are the same. */
static unsigned thresholds_of_run(uint64_t run_ns) {
    unsigned count = 1;
    while (count < GM_THRESHOLDS && gm_threshold(count - 1) < run_ns)
        count++;
    return count;
}

static bool print_thresholds(struct gm_report *r, const struct lifetimes *l, struct gm_out *out) {
    static const struct gm_column columns[] = {{"device", "device", GM_CELL_NUMBER},
                                               {"threshold_ns", "threshold", GM_CELL_TIME},
                                               {"async_peak_bytes", "async peak", GM_CELL_BYTES},
                                               {"managed_peak_bytes", "managed peak", GM_CELL_BYTES},
                                               {"device_bytes", "device memory", GM_CELL_BYTES},
                                               {"fits", "fits", GM_CELL_TEXT}};
    struct splits *s = calloc(1, sizeof *s);
    if (!s)
        return false;
    s->observer = (struct gm_observer){NULL, again_created, again_destroyed};
    s->lifetimes = l;
    bool done = gm_report_read_again(r, &s->observer);
    unsigned count = out->json ? GM_THRESHOLDS : thresholds_of_run(r->a->end_ns);
    gm_out_table(out, "thresholds", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (unsigned d = 0; done && d < DEVICES; d++) {
        uint64_t device_bytes = gm_report_device_bytes(r, (int)d);
        for (unsigned i = 0; s->devices[d].used && i < count; i++) {
            uint64_t async = s->devices[d].async.peak[i];
            gm_out_row(out,
                       (struct gm_value[]){GM_N(d == DEVICES - 1 ? GM_UNKNOWN : d), GM_N(gm_threshold(i)), GM_N(async),
                                           GM_N(s->devices[d].managed.peak[i]), GM_N(device_bytes),
                                           GM_T(device_bytes == GM_UNKNOWN ? NULL
                                                : async <= device_bytes    ? "yes"
                                                                           : "no")},
                       NULL);
        }
    }
    gm_out_table_end(out);
    free(s);
    return done;
}

bool gm_print_lifetimes(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    static const struct gm_column columns[] = {{"below_ns", "lived below", GM_CELL_TIME},
                                               {"count", "blocks", GM_CELL_COUNT},
                                               {"bytes", "bytes", GM_CELL_BYTES}};
    const struct lifetimes *l = (const struct lifetimes *)observer;
    uint64_t short_lived = 0, limit = 10;
    struct gm_text room;
    for (unsigned i = 0; i < DECADES; i++)
        short_lived += l->below[i];
    gm_out_section(out, "lifetime_distribution", "LIFETIMES");
    gm_out_fact(out, "ended", "blocks that ended", GM_CELL_COUNT, l->ended);
    gm_out_fact(out, "below_one_second", "of these below one second", GM_CELL_COUNT, short_lived);
    gm_out_fact(out, "never_freed", "blocks alive at the end", GM_CELL_COUNT, l->never);
    gm_out_fact(out, "never_freed_bytes", "with bytes", GM_CELL_BYTES, l->never_bytes);
    gm_out_note(out, "%s of all blocks lived less than one second",
                gm_text_percent(&room, short_lived, l->ended + l->never));
    gm_out_table(out, "bins", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (unsigned i = 0; i < DECADES; i++, limit *= 10)
        if (l->below[i])
            gm_out_row(out, (struct gm_value[]){GM_N(limit), GM_N(l->below[i]), GM_N(l->below_bytes[i])}, NULL);
    for (unsigned i = 0; i < SECONDS; i++)
        if (l->above[i])
            gm_out_row(
                out,
                (struct gm_value[]){GM_N(i < SECONDS - 1 ? UINT64_C(1000000000) * (UINT64_C(2) << i) : GM_UNKNOWN),
                                    GM_N(l->above[i]), GM_N(l->above_bytes[i])},
                NULL);
    gm_out_table_end(out);
    gm_out_note(out, "peaks if blocks that live at most the threshold are asynchronous and all others managed, never "
                     "freed ones too:");
    return print_thresholds(r, l, out);
}
