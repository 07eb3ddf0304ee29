/* Report part --leaks: blocks that were never freed, by call site. It lists separately blocks released with their
 * context, which are not leaks, leaks that a suppression covers, and blocks that were freed after the last allocation:
 * a program that forgets to drop what it holds, such as entries of a list, frees them when it ends. */
#include "tools/cli/section.h"
#include "tools/cli/suppressions.h"

static void print_suppressions(struct gm_report *r, struct gm_out *out) {
    static const struct gm_column columns[] = {{"suppression", "suppression", GM_CELL_TEXT},
                                               {"blocks", "blocks", GM_CELL_COUNT},
                                               {"bytes", "bytes", GM_CELL_BYTES}};
    struct gm_suppression_use use;
    if (!r->suppressions)
        return;
    gm_out_table(out, "suppressions", columns, 3);
    out->all = true;
    for (size_t i = 0; gm_suppressions_use(r->suppressions, i, &use); i++)
        gm_out_row(out, (struct gm_value[]){GM_T(use.name), GM_N(use.blocks), GM_N(use.bytes)}, NULL);
    gm_out_table_end(out);
}

static void print_freed_last(struct gm_report *r, struct gm_out *out) {
    const struct gm_column columns[] = {{"bytes", "freed last", GM_CELL_BYTES},
                                        {"blocks", "blocks", GM_CELL_COUNT},
                                        {"allocations", "of", GM_CELL_COUNT},
                                        gm_report_device_column(r)};
    gm_report_sort_sites(r, GM_BY_FREED_LAST);
    gm_out_note(out, "not leaked, but held to the end: blocks freed only after the last allocation");
    gm_out_table(out, "freed_last", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < r->site_count; i++) {
        const struct gm_site_totals *s = &r->sites[i].totals;
        struct gm_site_names names = gm_report_site_names(r, &r->sites[i]);
        if (s->freed_last_count)
            gm_out_row(out,
                       (struct gm_value[]){GM_N(s->freed_last_bytes), GM_N(s->freed_last_count), GM_N(s->allocs),
                                           GM_N((uint64_t)s->device)},
                       &names);
    }
    gm_out_table_end(out);
}

bool gm_print_leaks(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    const struct gm_column columns[] = {{"leaked_bytes", "leaked", GM_CELL_BYTES},
                                        {"leaked_blocks", "blocks", GM_CELL_COUNT},
                                        {"allocations", "of", GM_CELL_COUNT},
                                        {"suppressed_bytes", "suppressed", GM_CELL_BYTES},
                                        {"released_bytes", "with context", GM_CELL_BYTES},
                                        {"released_blocks", "blocks", GM_CELL_COUNT},
                                        {"owner", "owner", GM_CELL_TEXT},
                                        gm_report_device_column(r)};
    struct gm_leaks sum = gm_report_leaks(r);
    bool whole = r->header->finished == GM_TRACE_WHOLE;
    gm_out_section(out, "leaks", whole ? "LEAKS BY CALL SITE" : "LIVE AT THE END OF THE TRACE BY CALL SITE");
    gm_out_fact(out, "leaked_bytes", whole ? "leaked" : "live, not leaked", GM_CELL_BYTES, sum.own.bytes);
    gm_out_fact(out, "leaked_blocks", "in blocks", GM_CELL_COUNT, sum.own.count);
    gm_out_fact(out, "toolkit_bytes", "held by libraries of the toolkit", GM_CELL_BYTES, sum.toolkit.bytes);
    gm_out_fact(out, "suppressed_bytes", "suppressed", GM_CELL_BYTES, sum.suppressed.bytes);
    gm_out_fact(out, "released_bytes", "released with their context, not leaked", GM_CELL_BYTES, r->a->released_bytes);
    gm_report_sort_sites(r, GM_BY_LEAK);
    gm_out_table(out, "sites", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < r->site_count; i++) {
        const struct gm_site_totals *s = &r->sites[i].totals;
        struct gm_site_names names = gm_report_site_names(r, &r->sites[i]);
        if (s->leaked_count || s->suppressed_count || s->released_count)
            gm_out_row(out,
                       (struct gm_value[]){GM_N(s->leaked_bytes), GM_N(s->leaked_count), GM_N(s->allocs),
                                           GM_N(s->suppressed_bytes), GM_N(s->released_bytes), GM_N(s->released_count),
                                           GM_T(r->sites[i].name.toolkit ? "toolkit" : "program"),
                                           GM_N((uint64_t)s->device)},
                       &names);
    }
    gm_out_table_end(out);
    if (sum.freed_last.count)
        print_freed_last(r, out);
    print_suppressions(r, out);
    return true;
}
