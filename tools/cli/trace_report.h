/* The report of one trace: its facts, and the functions that print it as text or JSON. */
#ifndef GM_TRACE_REPORT_H
#define GM_TRACE_REPORT_H

#include "tools/cli/read_trace.h"
#include "tools/cli/output.h"
#include "tools/cli/suppressions.h"
#include "tools/cli/symbols.h"

#define GM_STACK_ROOM 128 /* maximum number of frames of one call site */

/* A call site on one device. Without --stacks, sites that differ only in their callers are one row. */
struct gm_report_site {
    struct gm_frame_name name;
    struct gm_site_totals totals; /* the sum; the id is that of the first site */
};

struct gm_report {
    const char *path;
    const struct gm_trace_header *header;
    const struct gm_reader *reader;
    const struct gm_analysis *a;
    struct gm_symbols *symbols;
    struct gm_report_site *sites; /* array, most bytes first */
    size_t site_count;
    unsigned top;                         /* maximum rows of each list */
    bool stacks;                          /* each call chain has its own row, with its callers */
    bool devices;                         /* the process used several: rows, peaks and holders are of one each */
    struct gm_suppressions *suppressions; /* NULL = none */
    bool *error_suppressed;               /* array: of each error of the analysis; NULL before gm_report_make_sites */
};

struct gm_leaks {
    struct gm_count_and_bytes own, toolkit, suppressed, freed_last;
};

/* A possible race is no error, and a fault that follows from an error is not counted again. */
struct gm_errors {
    uint64_t count, suppressed, races;
};

/* Reads the trace again for one observer. False = the trace is missing, or no memory. */
bool gm_report_read_again(struct gm_report *report, struct gm_observer *observer);
/* "" if the trace does not describe the device. */
const char *gm_report_device_name(const struct gm_report *report, int device);
/* "device": in text only if the process used several. */
struct gm_column gm_report_device_column(const struct gm_report *report);
/* GM_UNKNOWN if the trace does not describe the device. */
uint64_t gm_report_device_bytes(const struct gm_report *report, int device);

/* ---- report_sites.c */
/* Names all call sites and adds up those with the same name (not with `stacks`). False = no memory. */
bool gm_report_make_sites(struct gm_report *report);
enum gm_report_order { GM_BY_BYTES, GM_BY_PEAK, GM_BY_LEAK, GM_BY_TEMPORARY, GM_BY_GROWN, GM_BY_FREED_LAST };
void gm_report_sort_sites(struct gm_report *report, enum gm_report_order order);

struct gm_leaks gm_report_leaks(const struct gm_report *report);
/* Names for a row of a table, with `stacks` also the callers. Valid until the next call. */
struct gm_site_names gm_report_site_names(struct gm_report *report, const struct gm_report_site *site);

/* Fills in error_suppressed; gm_report_make_sites calls it. False = no memory. */
bool gm_report_make_errors(struct gm_report *report);
struct gm_errors gm_report_errors(const struct gm_report *report);

/* ---- report_errors.c */
const char *gm_error_name(enum gm_memory_error error);
const char *gm_error_text(const struct gm_report *report, const struct gm_event *error); /* one line */
void gm_report_errors_text(struct gm_report *report);                                    /* nothing without errors */

/* ---- report_sarif.c */
/* Writes the memory errors and leaks of all reports as one SARIF 2.1.0 document: begin, add for each, end. As the
 * functions of report_json.c. */
struct gm_report_sarif;
struct gm_report_sarif *gm_report_sarif_begin(void);
bool gm_report_sarif_add(struct gm_report_sarif *sarif, struct gm_report *report);
bool gm_report_sarif_end(struct gm_report_sarif *sarif);

/* ---- report_text.c */
void gm_report_head(const struct gm_report *report); /* identifies the trace */
void gm_report_text(struct gm_report *report);       /* the report without options */

/* ---- report_json.c */
/* Writes {"format": 1, "traces": [...]}: call begin, add for each report, end. All return NULL or false if the build
 * has no jansson. */
struct gm_report_json;
bool gm_report_json_available(void);
struct gm_report_json *gm_report_json_begin(void);          /* NULL = no memory */
void *gm_report_json_document(struct gm_report_json *json); /* a json_t object for sections that concern all traces */
/* Adds a trace. Returns its json_t object, owned by `json`, for more sections. NULL = no memory. */
void *gm_report_json_add(struct gm_report_json *json, struct gm_report *report);
bool gm_report_json_end(struct gm_report_json *json);      /* prints and frees; false = not written */
void *gm_report_json_release(struct gm_report_json *json); /* frees, and returns the document, the caller's */

#endif
