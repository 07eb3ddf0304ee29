#include "tools/cli/top_sites.h"
#include "tools/cli/process_file.h"
#include "tools/cli/trace_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PART = 10 }; /* of the time is for reading */

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* False = no memory. */
static bool take_rows(struct gm_top_sites *sites, struct gm_report *report) {
    if (!report->a || !report->symbols || !gm_report_make_sites(report))
        return false;
    gm_report_sort_sites(report, GM_BY_LEAK);
    struct gm_top_site *rows = calloc(report->site_count + 1, sizeof *rows);
    if (!rows)
        return false;
    free(sites->rows);
    sites->rows = rows;
    sites->count = 0;
    for (size_t i = 0; i < report->site_count; i++) {
        const struct gm_report_site *site = &report->sites[i];
        if (!site->totals.leaked_count)
            continue;
        struct gm_top_site *row = &rows[sites->count++];
        snprintf(row->name, sizeof row->name, "%s", site->name.text);
        row->device = site->totals.device;
        row->bytes = site->totals.leaked_bytes;
        row->blocks = site->totals.leaked_count;
    }
    return true;
}

static void read_trace(struct gm_top_sites *sites, const struct gm_process_counters *counters, const char *trace) {
    char error[sizeof sites->why];
    const char *why;
    int fd = gm_process_trace_open(counters, trace, &why);
    struct gm_reader *reader = fd < 0 ? NULL : gm_reader_open_file(fd, trace, error, sizeof error);
    if (fd < 0)
        snprintf(error, sizeof error, "%s: %s", trace, why);
    if (!reader) {
        snprintf(sites->why, sizeof sites->why, "%s", error);
        return;
    }
    struct gm_analysis *analysis = gm_analysis_read(reader, NULL);
    struct gm_report report = {.path = trace,
                               .header = gm_reader_header(reader),
                               .reader = reader,
                               .a = analysis,
                               .symbols = gm_symbols_new(reader)};
    if (!take_rows(sites, &report))
        snprintf(sites->why, sizeof sites->why, "out of memory");
    free(report.sites);
    gm_symbols_free(report.symbols);
    gm_analysis_free(analysis);
    gm_reader_close(reader);
}

void gm_top_sites_read(struct gm_top_sites *sites, const struct gm_process_counters *counters, const char *trace) {
    uint64_t begin = now_ns();
    if (sites->read_ns && !sites->why[0] && begin - sites->read_ns < PART * sites->cost_ns)
        return;
    sites->why[0] = 0;
    if (trace[0])
        read_trace(sites, counters, trace);
    else
        snprintf(sites->why, sizeof sites->why, "the process writes no trace; gpumem trace start begins one");
    if (sites->why[0])
        sites->count = 0;
    sites->read_ns = now_ns();
    sites->cost_ns = sites->read_ns - begin;
}

void gm_top_sites_free(struct gm_top_sites *sites) { free(sites->rows); }
