/* The parts of gpumem report: what a trace says (facts), and its two forms. */
#ifndef GM_TRACE_REPORT_H
#define GM_TRACE_REPORT_H

#include "tools/cli/analysis.h"
#include "tools/cli/output.h"
#include "tools/cli/suppressions.h"
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
    unsigned top;                         /* rows of each list */
    bool stacks;                          /* each call chain for itself, with its callers */
    struct gm_suppressions *suppressions; /* NULL = none */
};

struct gm_leaks {
    struct gm_count_and_bytes own, toolkit, suppressed;
};

/* Reads the trace once more for one observer. False = it is gone, or no memory. */
bool gm_report_read_again(struct gm_report *report, struct gm_observer *observer);
uint64_t gm_report_device_bytes(const struct gm_report *report, int device); /* GM_UNKNOWN */

/* ---- report_sites.c */
/* Names all sites and adds up those of one place (not with `stacks`). False = no memory. */
bool gm_report_make_sites(struct gm_report *report);
enum gm_report_order { GM_BY_BYTES, GM_BY_PEAK, GM_BY_LEAK, GM_BY_TEMPORARY, GM_BY_GROWN };
void gm_report_sort_sites(struct gm_report *report, enum gm_report_order order);

struct gm_leaks gm_report_leaks(const struct gm_report *report);
/* Names for a row of a table: with `stacks` the callers too. Valid until the next call. */
struct gm_site_names gm_report_site_names(struct gm_report *report, const struct gm_report_site *site);

/* ---- report_text.c */
void gm_report_head(const struct gm_report *report); /* which trace this is */
void gm_report_text(struct gm_report *report);       /* all that is known without asking */

/* ---- report_json.c */
/* The form {"format": 1, "traces": [...]}: begin, one add a report, end. All NULL or false where the build
 * has no jansson. */
struct gm_report_json;
bool gm_report_json_there(void);
struct gm_report_json *gm_report_json_begin(void);          /* NULL = no memory */
void *gm_report_json_document(struct gm_report_json *json); /* a json_t object, for sections about all traces */
/* The trace's object, a json_t that `json` owns, for more sections; NULL = no memory. */
void *gm_report_json_add(struct gm_report_json *json, struct gm_report *report);
bool gm_report_json_end(struct gm_report_json *json); /* prints and frees; false = not written */

#endif
