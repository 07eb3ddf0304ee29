/* gpumem html: reads traces and writes the page. */
#include "tools/cli/commands.h"
#include "tools/cli/export_file.h"
#include "tools/cli/flags.h"
#include "tools/cli/html_page.h"
#include "tools/cli/job.h"
#include "tools/cli/number_text.h"
#include "tools/cli/shown.h"

#include <stdlib.h>
#include <string.h>

#define INTERVALS 1024 /* about one for each pixel of a wide screen */

struct options {
    const char *output;
    bool force, compare;
};

static int take(void *options, const char *name, const char *value) {
    struct options *o = options;
    if (!strcmp(name, "output"))
        o->output = value;
    o->force |= !strcmp(name, "force");
    o->compare |= !strcmp(name, "compare");
    return 0;
}

void gm_command_html_help(void) {
    puts("usage: gpumem html [OPTION...] FILE|FOLDER...\n\n"
         "Writes a page for a web browser, which needs no other file and no network: live bytes over time, a flame "
         "graph,\nblocks and tables, all for the range of time, the device and the call sites that are selected. "
         "Several traces,\nsuch as those of all ranks, share one page, which also shows the differences between two of "
         "them.\n");
    gm_flags_help("html");
}

/* The definitions of a trace hold its strings and modules: one trace at a time is in memory. */
static bool add_trace(FILE *out, const char *trace, bool first) {
    char error[512];
    struct gm_reader *definitions = gm_reader_open_definitions(trace, error, sizeof error);
    if (!definitions) {
        gm_complain("%s", error);
        return false;
    }
    struct gm_symbols *symbols = gm_symbols_new(definitions);
    struct gm_timeline *timeline = symbols ? gm_timeline_read(trace, INTERVALS) : NULL;
    bool done = timeline && gm_html_add(out, trace, definitions, symbols, timeline, first);
    if (!done)
        gm_complain("html: cannot read '%s': out of memory, or the file changed", trace);
    if (timeline)
        gm_reader_warn(trace, timeline->damaged);
    gm_timeline_free(timeline);
    gm_symbols_free(symbols);
    gm_reader_close(definitions);
    return done;
}

static int write_page(const struct options *o, const char *name, const struct gm_trace_job *job) {
    struct gm_output output;
    if (!gm_output_begin(&output, name, true, false))
        return 1;
    bool done = true;
    gm_html_begin(output.file, o->compare);
    for (size_t i = 0; done && i < job->count; i++)
        done = add_trace(output.file, job->traces[i].path, !i);
    gm_html_end(output.file);
    if (!gm_output_end(&output, done))
        return 1;
    if (strcmp(name, "-"))
        puts(GM_SHOWN(name));
    return 0;
}

static int write_traces(const struct options *o, struct gm_trace_job *job) {
    if (o->compare && job->count != 2)
        return gm_usage_error("html: --compare needs two traces, not %zu", job->count);
    if (!o->compare)
        gm_job_sort(job);
    char *named = NULL;
    const char *name = o->output;
    if (!name) {
        if (asprintf(&named, "%s.html", gm_text_base_name(job->traces[0].path)) < 0)
            return 1;
        name = named;
    }
    int status = 0;
    for (size_t i = 0; !status && i < job->count; i++)
        status = gm_output_check("html", job->traces[i].path, name, o->force);
    if (!status)
        status = write_page(o, name, job);
    free(named);
    return status;
}

int gm_command_html(int argc, char **argv) {
    struct options options = {0};
    int first, status = gm_flags_read(argc, argv, take, &options, gm_command_html_help, &first);
    if (status >= 0)
        return status;
    if (first == argc)
        return gm_usage_error("html: no trace given; usage: gpumem html [OPTION...] FILE|FOLDER...");
    if (!gm_html_before_bytes)
        return gm_usage_error(
            "html: this gpumem was built without dygraphs; install libjs-dygraphs and build it again");
    struct gm_trace_job *job = gm_job_new();
    status = !job;
    for (int i = first; job && i < argc; i++)
        status |= gm_job_add(job, argv[i]) > 0;
    if (job && job->count && !status)
        status = write_traces(&options, job);
    gm_job_free(job);
    return status;
}
