/* The parts of gpumem report: what a trace says (facts), and its two forms. */
#ifndef GM_REPORT_H
#define GM_REPORT_H

#include "tools/cli/analysis.h"
#include "tools/cli/symbols.h"

#define GM_STACK_ROOM 80 /* frames of one call site that are shown */

/* The place that asked for memory. Where only that place counts, sites that differ in their callers are one
 * row. */
struct gm_report_site {
    struct gm_frame_name name;
    struct gm_site_totals totals; /* added up; id of the first of them */
};

struct gm_report {
    const char *path;
    const struct gm_trace_header *header;
    const struct gm_reader *reader;
    const struct gm_analysis *a;
    struct gm_symbols *symbols;
    struct gm_report_site *sites; /* array, most bytes first */
    size_t site_count;
    unsigned top; /* rows of each list */
    bool stacks;  /* each call chain for itself, with its callers */
};

/* ---- report_sites.c */
/* Names all sites and adds up those of one place (not with `stacks`). False = no memory. */
bool gm_report_make_sites(struct gm_report *report);
enum gm_report_order { GM_BY_BYTES, GM_BY_PEAK, GM_BY_LEAK };
void gm_report_sort_sites(struct gm_report *report, enum gm_report_order order);

/* ---- report_text.c */
void gm_report_text(struct gm_report *report);

/* ---- report_json.c */
/* The form {"format": 1, "traces": [...]}: begin, one add a report, end. All NULL or false where the build
 * has no jansson. */
struct gm_report_json;
bool gm_report_json_there(void);
struct gm_report_json *gm_report_json_begin(void);                              /* NULL = no memory */
bool gm_report_json_add(struct gm_report_json *json, struct gm_report *report); /* false = no memory */
bool gm_report_json_end(struct gm_report_json *json); /* prints and frees; false = not written */

#endif
