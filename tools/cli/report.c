/* gpumem report: prints what traces contain, as text or JSON. */
#include "tools/cli/commands.h"
#include "tools/cli/flags.h"
#include "tools/cli/job.h"
#include "tools/cli/number_text.h"
#include "tools/cli/section.h"
#include "tools/cli/shown.h"
#include "tools/cli/trace_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    unsigned long top;
    bool stacks, json, sarif, processes, fail_on_leak, fail_on_error, has_limit;
    bool sections[GM_SECTION_COUNT];
    bool any_section;
    unsigned long long leak, limit;
    struct gm_suppressions *suppressions;
};

static int take_suppressions(struct options *o, const char *path) {
    char error[512];
    if (!o->suppressions && !(o->suppressions = gm_suppressions_new())) {
        fputs("gpumem: out of memory\n", stderr);
        return 1;
    }
    if (gm_suppressions_read(o->suppressions, path, error, sizeof error))
        return 0;
    gm_complain("%s", error);
    return GM_EXIT_USAGE;
}

static int take(void *options, const char *name, const char *value) {
    struct options *o = options;
    for (unsigned i = 0; i < GM_SECTION_COUNT; i++)
        if (!strcmp(name, gm_sections[i].flag)) {
            o->sections[i] = o->any_section = true;
            return 0;
        }
    if (!strcmp(name, "top"))
        return gm_flag_count("report", name, value, 1, 1000000, &o->top);
    if (!strcmp(name, "suppressions"))
        return take_suppressions(o, value);
    if (!strcmp(name, "fail-on-leak")) {
        o->fail_on_leak = true;
        return *value ? gm_flag_bytes("report", name, value, &o->leak) : 0;
    }
    if (!strcmp(name, "limit")) {
        o->has_limit = true;
        return gm_flag_bytes("report", name, value, &o->limit);
    }
    o->stacks |= !strcmp(name, "stacks");
    o->json |= !strcmp(name, "json");
    o->sarif |= !strcmp(name, "sarif");
    o->fail_on_error |= !strcmp(name, "fail-on-error");
    o->processes |= !strcmp(name, "processes");
    return 0;
}

void gm_command_report_help(void) {
    puts("usage: gpumem report [OPTION...] FILE|FOLDER...\n\n"
         "Reads traces, binary or CSV, and prints for each: totals, failed calls, leaks, who held memory at the "
         "peak,\ncall sites, kinds of memory and the reasons for them, calls, sizes, lifetimes. For several traces, or "
         "a folder\nof traces, it first prints the processes and the peak of each device. Options that name a part of "
         "the report\nprint only those parts.\n");
    gm_flags_help("report");
}

/* ---- one trace */

static bool print_sections(struct gm_report *r, const struct options *o, struct gm_observer *const *observer,
                           void *json) {
    for (unsigned i = 0; i < GM_SECTION_COUNT; i++) {
        struct gm_out out = {.top = r->top, .json = json};
        if (o->sections[i] && !gm_sections[i].print(r, observer[i], &out))
            return false;
    }
    return true;
}

/* Where a report goes: none of both is text. */
struct documents {
    struct gm_report_json *json;
    struct gm_report_sarif *sarif;
};

static bool print_trace(struct gm_report *r, const struct options *o, struct gm_observer *const *observer,
                        const struct documents *documents) {
    struct gm_report_json *json = documents->json;
    if (documents->sarif)
        return gm_report_sarif_add(documents->sarif, r);
    if (json) {
        void *object = gm_report_json_add(json, r);
        return object && print_sections(r, o, observer, object);
    }
    gm_report_head(r);
    if (o->any_section)
        return print_sections(r, o, observer, NULL);
    gm_report_text(r);
    return true;
}

/* Checks --fail-on-leak, --fail-on-error and --limit for continuous integration. Returns 0, GM_EXIT_CHECK or
 * GM_EXIT_UNPROVEN. */
static int check_trace(const struct gm_report *r, const struct options *o) {
    struct gm_text room[2];
    struct gm_leaks leaks = gm_report_leaks(r);
    int status = 0;
    if (o->fail_on_leak && leaks.own.count && leaks.own.bytes > o->leak) {
        gm_complain("%s: %s %s in %s blocks", r->path,
                    r->header->finished == GM_TRACE_WHOLE ? "leaked" : "live where the trace ends:",
                    gm_text_bytes(&room[0], leaks.own.bytes), gm_text_count(&room[1], leaks.own.count));
        status = GM_EXIT_CHECK;
    }
    struct gm_errors errors = gm_report_errors(r);
    if (o->fail_on_error && errors.count) {
        gm_complain("%s: memory errors: %s", r->path, gm_text_count(&room[0], errors.count));
        status = GM_EXIT_CHECK;
    }
    for (unsigned device = 0; o->has_limit && device < GM_DEVICES; device++) {
        char on[32] = "";
        if (r->a->devices[device].peak <= o->limit)
            continue;
        if (r->devices)
            snprintf(on, sizeof on, "device %u: ", device);
        gm_complain("%s: %speak of %s is above the limit of %s", r->path, on,
                    gm_text_bytes(&room[0], r->a->devices[device].peak), gm_text_bytes(&room[1], o->limit));
        status = GM_EXIT_CHECK;
    }
    bool checks = o->fail_on_leak || o->fail_on_error || o->has_limit;
    return checks && !gm_reader_is_whole(r->reader) && !status ? GM_EXIT_UNPROVEN : status;
}

static bool can_show(const struct gm_job_trace *t, const struct options *o) {
    char error[512], what[64];
    for (unsigned i = 0; i < GM_SECTION_COUNT; i++) {
        snprintf(what, sizeof what, "report --%s", gm_sections[i].flag);
        if (!o->sections[i] || !gm_sections[i].blocks || gm_reader_has_blocks(t->reader, what, error, sizeof error))
            continue;
        gm_complain("%s", error);
        return false;
    }
    return true;
}

static int report_trace(struct gm_job_trace *t, const struct options *o, struct gm_observer *const *observer,
                        const struct documents *documents, bool quiet) {
    struct gm_report r = {.path = t->path,
                          .header = t->header,
                          .reader = t->reader,
                          .a = t->analysis,
                          .symbols = gm_symbols_new(t->reader),
                          .top = (unsigned)o->top,
                          .stacks = o->stacks,
                          .devices = gm_analysis_device_count(t->analysis) > 1,
                          .suppressions = o->suppressions};
    int status = 1;
    if (!can_show(t, o))
        return 1;
    if (o->suppressions)
        gm_suppressions_reset_use(o->suppressions);
    if (!r.symbols || !gm_report_make_sites(&r) || (!quiet && !print_trace(&r, o, observer, documents)))
        gm_complain("%s: no report: out of memory, or the file is missing", t->path);
    else
        status = check_trace(&r, o);
    free(r.sites);
    free(r.error_suppressed);
    gm_symbols_free(r.symbols);
    return status;
}

/* ---- all traces */

/* Observers of all traces, GM_SECTION_COUNT for each trace. */
static struct gm_observer **new_observers(struct gm_trace_job *job, const struct options *o) {
    struct gm_observer **all = calloc(job->count + 1, GM_SECTION_COUNT * sizeof *all);
    bool done = all != NULL;
    for (size_t t = 0; done && t < job->count; t++) {
        unsigned count = 0;
        for (unsigned i = 0; done && i < GM_SECTION_COUNT; i++) {
            struct gm_observer **observer = &all[t * GM_SECTION_COUNT + i];
            if (!o->sections[i] || !gm_sections[i].observe)
                continue;
            *observer = gm_sections[i].observe();
            done = *observer != NULL;
            job->traces[t].observers[count++] = *observer;
        }
    }
    return done ? all : NULL; /* not freed: the process ends if there is no memory */
}

static void free_observers(struct gm_observer **all, size_t traces) {
    for (size_t i = 0; all && i < traces * GM_SECTION_COUNT; i++) {
        const struct gm_section *section = &gm_sections[i % GM_SECTION_COUNT];
        if (all[i] && section->drop)
            section->drop(all[i]);
        free(all[i]);
    }
    free(all);
}

static int check_devices(const struct gm_trace_job *job, const struct options *o) {
    struct gm_text room[2];
    int status = 0;
    for (size_t i = 0; o->has_limit && job->count > 1 && i < job->device_count; i++) {
        const struct gm_job_device *d = &job->devices[i];
        if (d->peak <= o->limit)
            continue;
        gm_complain("device %d%s%s: peak of %s of all processes is above the limit of %s", d->device,
                    d->host[0] ? " of " : "", d->host, gm_text_bytes(&room[0], d->peak),
                    gm_text_bytes(&room[1], o->limit));
        status = GM_EXIT_CHECK;
    }
    return status;
}

/* Combines two exit statuses: 1 (an error) first, then a failed check, then one without proof. */
static int worse(int a, int b) {
    static const int order[] = {1, GM_EXIT_CHECK, GM_EXIT_UNPROVEN};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (a == order[i] || b == order[i])
            return order[i];
    return 0;
}

static int report_job(struct gm_trace_job *job, const struct options *o, const struct documents *documents) {
    struct gm_report_json *json = documents->json;
    struct gm_observer **observers = new_observers(job, o);
    int status = 0;
    if (!observers || !gm_job_read(job)) {
        fputs("gpumem: out of memory\n", stderr);
        free_observers(observers, job->count);
        return 1;
    }
    if ((job->count > 1 || o->processes) && !documents->sarif) {
        struct gm_out out = {.top = (unsigned)o->top, .json = json ? gm_report_json_document(json) : NULL};
        gm_job_print(job, &out);
        status = check_devices(job, o);
    }
    for (size_t i = 0; i < job->count; i++) {
        if (!json && !documents->sarif && !o->processes && job->count > 1)
            putchar('\n');
        status =
            worse(status, report_trace(&job->traces[i], o, &observers[i * GM_SECTION_COUNT], documents, o->processes));
    }
    free_observers(observers, job->count);
    return status;
}

static bool begin_documents(struct documents *documents, const struct options *o) {
    if (o->sarif)
        return (documents->sarif = gm_report_sarif_begin()) != NULL;
    return !o->json || (documents->json = gm_report_json_begin());
}

static bool end_documents(struct documents *documents) {
    if (documents->sarif)
        return gm_report_sarif_end(documents->sarif);
    return !documents->json || gm_report_json_end(documents->json);
}

static int report(int argc, char **argv, int first, struct options *o) {
    struct gm_trace_job *job = gm_job_new();
    struct documents documents = {0};
    int status = 0;
    if (!job || !begin_documents(&documents, o)) {
        fputs("gpumem: out of memory\n", stderr);
        gm_job_free(job);
        return 1;
    }
    for (int i = first; i < argc; i++)
        status |= gm_job_add(job, argv[i]) > 0;
    gm_job_sort(job);
    if (job->count)
        status = worse(status, report_job(job, o, &documents));
    bool written = end_documents(&documents);
    if (fflush(stdout) || ferror(stdout) || !written) {
        fputs("gpumem: cannot write the report\n", stderr);
        status = 1;
    }
    gm_job_free(job);
    return status;
}

int gm_command_report(int argc, char **argv) {
    struct options options = {.top = 10};
    int first, status = gm_flags_read(argc, argv, take, &options, gm_command_report_help, &first);
    if (status < 0 && first == argc)
        status = gm_usage_error("report: no trace given; usage: gpumem report [OPTION...] FILE|FOLDER...");
    if (status < 0 && (options.json || options.sarif) && !gm_report_json_available())
        status = gm_usage_error("report: this gpumem was built without jansson and has no --%s",
                                options.sarif ? "sarif" : "json");
    if (status < 0 && options.sarif && (options.json || options.any_section || options.processes))
        status = gm_usage_error("report: --sarif goes with no other form and no part of the report");
    if (status < 0)
        status = report(argc, argv, first, &options);
    gm_suppressions_free(options.suppressions);
    return status;
}
