/* gpumem report: what traces say, for people or as JSON. */
#include "tools/cli/report.h"
#include "tools/cli/commands.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    unsigned long top;
    bool stacks, json;
};

static int report_file(const char *path, const struct options *options, struct gm_report_json *json) {
    char error[512];
    struct gm_reader *reader = gm_reader_open(path, error, sizeof error);
    if (!reader) {
        fprintf(stderr, "gpumem: %s\n", error);
        return 1;
    }
    struct gm_analysis *a = gm_analysis_read(reader, NULL);
    struct gm_report r = {.path = path,
                          .header = gm_reader_header(reader),
                          .reader = reader,
                          .a = a,
                          .symbols = a ? gm_symbols_new(reader) : NULL,
                          .top = (unsigned)options->top,
                          .stacks = options->stacks};
    bool done = r.symbols && gm_report_make_sites(&r);
    if (done && json)
        done = gm_report_json_add(json, &r);
    else if (done)
        gm_report_text(&r);
    if (!done)
        fprintf(stderr, "gpumem: %s: out of memory\n", path);
    free(r.sites);
    gm_symbols_free(r.symbols);
    gm_analysis_free(a);
    gm_reader_close(reader);
    return !done;
}

void gm_command_report_help(void) {
    puts("usage: gpumem report [--top N] [--stacks] [--json] FILE...\n\n"
         "Reads traces, binary or CSV, and prints for each: totals, failed calls, leaks, who held memory at "
         "the peak,\n"
         "call sites, kinds of memory and why they were chosen, calls, sizes, lifetimes.\n\n"
         "  --top N    rows of each list (default 10)\n"
         "  --stacks   callers of each call site too, as far as the trace has them (gpumem run --stacks N)\n"
         "  --json     everything as one JSON document, for programs");
}

/* -1 = go on, else the exit status. */
static int read_options(int argc, char **argv, struct options *options) {
    static const struct option rows[] = {{"top", required_argument, NULL, 't'},
                                         {"stacks", no_argument, NULL, 's'},
                                         {"json", no_argument, NULL, 'j'},
                                         {"help", no_argument, NULL, 'h'},
                                         {0}};
    char *end;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", rows, NULL)) != -1) {
        switch (option) {
        case 't':
            options->top = strtoul(optarg, &end, 10);
            if (end == optarg || *end || *optarg == '-' || options->top < 1 || options->top > 1000000)
                return gm_usage_error("report: --top '%s' is not a number from 1 to 1000000", optarg);
            break;
        case 's':
            options->stacks = true;
            break;
        case 'j':
            options->json = true;
            break;
        case 'h':
            gm_command_report_help();
            return 0;
        case ':':
            return gm_usage_error("report: option '%s' needs a value", argv[optind - 1]);
        default:
            return gm_usage_error("report: unknown option '%s'; there are --top, --stacks, --json",
                                  argv[optind - 1]);
        }
    }
    if (optind == argc)
        return gm_usage_error(
            "report: which file? usage: gpumem report [--top N] [--stacks] [--json] FILE...");
    if (options->json && !gm_report_json_there())
        return gm_usage_error("report: this gpumem was built without jansson and has no --json");
    return -1;
}

int gm_command_report(int argc, char **argv) {
    struct options options = {.top = 10};
    struct gm_report_json *json = NULL;
    int status = read_options(argc, argv, &options);
    if (status >= 0)
        return status;
    status = 0;
    if (options.json && !(json = gm_report_json_begin())) {
        fputs("gpumem: out of memory\n", stderr);
        return 1;
    }
    for (int i = optind; i < argc; i++) {
        if (i > optind && !json)
            putchar('\n');
        status |= report_file(argv[i], &options, json);
    }
    bool written = !json || gm_report_json_end(json);
    if (fflush(stdout) || ferror(stdout) || !written) {
        fputs("gpumem: cannot write the report\n", stderr);
        status = 1;
    }
    return status;
}
