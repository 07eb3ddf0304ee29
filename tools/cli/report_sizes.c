/* Report part --sizes: a histogram of block sizes by powers of two. */
#include "tools/cli/section.h"

#include <stdlib.h>

#define BINS 65

struct sizes {
    struct gm_observer observer;
    struct {
        uint64_t count, bytes, live, peak;
    } bins[BINS]; /* bin 0: no bytes; bin k: from 2^(k-1) to below 2^k */
};

static unsigned bin_of(uint64_t bytes) { return bytes ? 64 - (unsigned)__builtin_clzll(bytes) : 0; }

static bool created(struct gm_observer *self, const struct gm_step *step) {
    struct sizes *s = (struct sizes *)self;
    unsigned bin = bin_of(step->block->bytes);
    s->bins[bin].count++;
    s->bins[bin].bytes += step->block->bytes;
    s->bins[bin].live += step->block->bytes;
    if (s->bins[bin].live > s->bins[bin].peak)
        s->bins[bin].peak = s->bins[bin].live;
    return true;
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    struct sizes *s = (struct sizes *)self;
    s->bins[bin_of(step->block->bytes)].live -= step->block->bytes;
    return true;
}

struct gm_observer *gm_observe_sizes(void) {
    struct sizes *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->observer = (struct gm_observer){NULL, created, destroyed};
    return &s->observer;
}

bool gm_print_sizes(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    static const struct gm_column columns[] = {{"from_bytes", "from", GM_CELL_BYTES},
                                               {"below_bytes", "below", GM_CELL_BYTES},
                                               {"count", "allocations", GM_CELL_COUNT},
                                               {"bytes", "bytes", GM_CELL_BYTES},
                                               {"peak_live_bytes", "peak live", GM_CELL_BYTES}};
    const struct sizes *s = (const struct sizes *)observer;
    gm_out_section(out, "size_histogram", "SIZES BY POWERS OF TWO");
    if (r->devices)
        gm_out_note(out, "peaks add the devices up");
    gm_out_table(out, "bins", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (unsigned k = 0; k < BINS; k++)
        if (s->bins[k].count)
            gm_out_row(out,
                       (struct gm_value[]){GM_N(k ? UINT64_C(1) << (k - 1) : 0),
                                           GM_N(k < 64 ? UINT64_C(1) << k : GM_UNKNOWN), GM_N(s->bins[k].count),
                                           GM_N(s->bins[k].bytes), GM_N(s->bins[k].peak)},
                       NULL);
    gm_out_table_end(out);
    return true;
}
