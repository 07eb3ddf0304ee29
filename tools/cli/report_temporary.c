/* Report part --temporary: blocks that were freed before their thread allocated again. They are candidates for reuse, a
 * pool or a buffer of their own. */
#include "tools/cli/section.h"

bool gm_print_temporary(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    const struct gm_column columns[] = {{"temporary", "temporary", GM_CELL_COUNT},
                                        {"allocations", "of", GM_CELL_COUNT},
                                        {"temporary_bytes", "bytes", GM_CELL_BYTES},
                                        gm_report_device_column(r)};
    gm_out_section(out, "temporary", "TEMPORARY BLOCKS (freed before their thread allocated again)");
    gm_out_fact(out, "count", "blocks", GM_CELL_COUNT, r->a->temporary);
    gm_out_fact(out, "bytes", "bytes", GM_CELL_BYTES, r->a->temporary_bytes);
    gm_report_sort_sites(r, GM_BY_TEMPORARY);
    gm_out_table(out, "sites", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < r->site_count && r->sites[i].totals.temporary; i++) {
        const struct gm_site_totals *s = &r->sites[i].totals;
        struct gm_site_names names = gm_report_site_names(r, &r->sites[i]);
        gm_out_row(out,
                   (struct gm_value[]){GM_N(s->temporary), GM_N(s->allocs), GM_N(s->temporary_bytes),
                                       GM_N((uint64_t)s->device)},
                   &names);
    }
    gm_out_table_end(out);
    return true;
}
