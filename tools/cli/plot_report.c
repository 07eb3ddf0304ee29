/* The report that gpumem plot shows beside the pictures, made while the trace is read for them. */
#include "tools/cli/plot_series.h"
#include "tools/cli/section.h"

#include <stdlib.h>
#include <string.h>

static const char *const parts[] = {"peak", "phases", "reserved"};
_Static_assert(sizeof parts / sizeof *parts == GM_PLOT_REPORT_PARTS, "an observer for each");

static const struct gm_section *section(unsigned part) {
    const struct gm_section *s = gm_sections;
    while (strcmp(s->flag, parts[part]))
        s++;
    return s;
}

bool gm_plot_report_begin(struct gm_plot_report *report) {
    for (unsigned i = 0; i < GM_PLOT_REPORT_PARTS; i++)
        if (!(report->observers[i] = section(i)->observe()))
            return false;
    return true;
}

void *gm_plot_report_end(struct gm_plot_report *report, struct gm_report *r) {
    r->devices = gm_analysis_device_count(r->a) > 1;
    struct gm_report_json *json = gm_report_make_sites(r) ? gm_report_json_begin() : NULL;
    void *trace = json ? gm_report_json_add(json, r) : NULL;
    for (unsigned i = 0; i < GM_PLOT_REPORT_PARTS && trace; i++) {
        struct gm_out out = {.json = trace};
        if (!section(i)->print(r, report->observers[i], &out))
            trace = NULL;
    }
    void *document = json ? gm_report_json_release(json) : NULL;
    free(r->sites);
    free(r->error_suppressed);
    return trace ? document : NULL; /* without memory the process ends */
}

void gm_plot_report_free(struct gm_plot_report *report) {
    for (unsigned i = 0; i < GM_PLOT_REPORT_PARTS; i++) {
        if (report->observers[i] && section(i)->drop)
            section(i)->drop(report->observers[i]);
        free(report->observers[i]);
    }
}
