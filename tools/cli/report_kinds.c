/* Report part --kinds: each kind of memory with its own peak and its bytes at the peak of the device. */
#include "tools/cli/section.h"

bool gm_print_kinds(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    const struct gm_column columns[] = {{"kind", "kind", GM_CELL_TEXT},
                                        {"allocations", "allocations", GM_CELL_COUNT},
                                        {"bytes", "bytes", GM_CELL_BYTES},
                                        {"frees", "frees", GM_CELL_COUNT},
                                        {"hits", "reused", GM_CELL_COUNT},
                                        {"live_bytes", "live at end", GM_CELL_BYTES},
                                        {"peak_bytes", "peak", GM_CELL_BYTES},
                                        {"at_peak_bytes", "at the peak", GM_CELL_BYTES},
                                        gm_report_device_column(r)};
    gm_out_section(out, "kinds", "KINDS OF MEMORY");
    gm_out_table(out, "rows", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (unsigned device = 0; device < GM_DEVICES; device++)
        for (int k = 0; k < GM_KIND_COUNT; k++) {
            const struct gm_kind_totals *t = &r->a->devices[device].by_kind[k];
            if (t->allocs || t->frees || t->live_count || t->peak_bytes)
                gm_out_row(out,
                           (struct gm_value[]){GM_T(gm_kind_name((enum gm_kind)k)), GM_N(t->allocs), GM_N(t->bytes),
                                               GM_N(t->frees), GM_N(t->hits), GM_N(t->live_bytes), GM_N(t->peak_bytes),
                                               GM_N(gm_kind_is_on_device((enum gm_kind)k) ? t->at_peak : GM_UNKNOWN),
                                               GM_N(device)},
                           NULL);
        }
    gm_out_table_end(out);
    return true;
}
