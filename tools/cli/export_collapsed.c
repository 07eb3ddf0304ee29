/* Exports collapsed stacks for flame graphs: one line for each stack, outermost frame first, then the measured
 * number. */
#include "tools/cli/export.h"

#include <inttypes.h>
#include <stdlib.h>

static struct gm_observer *begin(struct gm_export *x) { return calloc(1, sizeof(struct gm_observer)); }

static uint64_t measured(const struct gm_site_totals *s, enum gm_measure measure) {
    switch (measure) {
    case GM_MEASURE_BYTES: return s->bytes;
    case GM_MEASURE_ALLOCATIONS: return s->allocs;
    case GM_MEASURE_LEAKED: return s->leaked_bytes;
    default: return s->at_peak;
    }
}

static bool end(struct gm_export *x, struct gm_observer *observer, const struct gm_analysis *a) {
    free(observer);
    for (size_t i = 0; a && i < a->site_count; i++) {
        uint64_t value = measured(&a->sites[i], x->measure);
        unsigned count;
        if (!value)
            continue;
        const struct gm_frame_name *names = gm_export_stack(x, a->sites[i].id, &count);
        for (unsigned f = count; f-- > 0;) {
            for (const char *p = names[f].function[0] ? names[f].function : names[f].text; *p; p++)
                putc(*p == ';' ? ':' : *p, x->out);
            putc(f ? ';' : ' ', x->out);
        }
        fprintf(x->out, "%" PRIu64 "\n", value);
    }
    return true;
}

const struct gm_exporter gm_exporter_collapsed = {"collapsed", false, false, begin, end, true};
