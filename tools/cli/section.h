/* Parts of gpumem report that are shown on request. Each is one row in section_rows.h and one file. */
#ifndef GM_SECTION_H
#define GM_SECTION_H

#include "tools/cli/output.h"
#include "tools/cli/section_rows.h"
#include "tools/cli/trace_report.h"

struct gm_section {
    const char *flag; /* long option, without dashes */
    /* Creates an observer for the part, which free() frees. NULL = no memory. The member is NULL if the totals are
     * enough. */
    struct gm_observer *(*observe)(void);
    /* `observer` is the result of observe(). False = no memory, or the trace cannot be read again. */
    bool (*print)(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
    void (*drop)(struct gm_observer *observer); /* frees the observer's own memory but not the observer; may be NULL */
    bool blocks;                                /* needs single blocks: not of a summary */
};

#define ONE(...) +1
enum { GM_SECTION_COUNT = GM_SECTION_ROWS(ONE) };
#undef ONE
extern const struct gm_section gm_sections[GM_SECTION_COUNT];

/* report_peak.c ... */
struct gm_observer *gm_observe_peak(void);
void gm_drop_peak(struct gm_observer *observer);
bool gm_print_peak(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
bool gm_print_leaks(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
bool gm_print_errors(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
bool gm_print_temporary(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
bool gm_print_kinds(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);

struct gm_observer *gm_observe_sizes(void);
bool gm_print_sizes(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);

struct gm_observer *gm_observe_lifetimes(void);
bool gm_print_lifetimes(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
void gm_drop_lifetimes(struct gm_observer *observer);

struct gm_observer *gm_observe_objects(void);
bool gm_print_objects(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
void gm_drop_objects(struct gm_observer *observer);

struct gm_observer *gm_observe_threads(void);
bool gm_print_threads(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
struct gm_observer *gm_observe_streams(void);
bool gm_print_streams(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
void gm_drop_keyed_totals(struct gm_observer *observer);

struct gm_observer *gm_observe_reserved(void);
bool gm_print_reserved(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
void gm_drop_reserved(struct gm_observer *observer);

struct gm_observer *gm_observe_growth(void);
bool gm_print_growth(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
void gm_drop_growth(struct gm_observer *observer);

struct gm_observer *gm_observe_duplicates(void);
bool gm_print_duplicates(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
void gm_drop_duplicates(struct gm_observer *observer);

struct gm_observer *gm_observe_oom(void);
bool gm_print_oom(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
void gm_drop_oom(struct gm_observer *observer);

struct gm_observer *gm_observe_phases(void);
bool gm_print_phases(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
void gm_drop_phases(struct gm_observer *observer);

struct gm_observer *gm_observe_suspends(void);
bool gm_print_suspends(struct gm_report *report, struct gm_observer *observer, struct gm_out *out);
void gm_drop_suspends(struct gm_observer *observer);

#endif
