/* gpumem html: reads a trace and writes the page. */
#include "tools/cli/commands.h"
#include "tools/cli/export_file.h"
#include "tools/cli/flags.h"
#include "tools/cli/html_page.h"
#include "tools/cli/number_text.h"

#include <stdlib.h>
#include <string.h>

#define INTERVALS 1024 /* about one for each pixel of a wide screen */

static int take(void *options, const char *name, const char *value) {
    (void)name;
    *(const char **)options = value;
    return 0;
}

void gm_command_html_help(void) {
    puts("usage: gpumem html [-o FILE] TRACE\n\n"
         "Writes a page for a web browser, which needs no other file and no network: live bytes over time, a flame "
         "graph,\n"
         "blocks and tables, all for the range of time that is selected with the mouse.\n");
    gm_flags_help("html");
}

static bool write_file(const char *output, const char *trace, const struct gm_reader *definitions,
                       struct gm_symbols *symbols, const struct gm_timeline *timeline) {
    FILE *out = gm_export_open(output, false);
    if (!out)
        return false;
    bool done = gm_html_write(out, trace, definitions, symbols, timeline);
    done &= !fflush(out) && !ferror(out);
    done &= !fclose(out);
    if (!done)
        fprintf(stderr, "gpumem: cannot write '%s'\n", gm_export_name(output));
    return done;
}

static int write_page(const char *output, const char *trace) {
    char error[512];
    struct gm_reader *definitions = gm_reader_open_definitions(trace, error, sizeof error);
    if (!definitions) {
        fprintf(stderr, "gpumem: %s\n", error);
        return 1;
    }
    struct gm_symbols *symbols = gm_symbols_new(definitions);
    struct gm_timeline *timeline = symbols ? gm_timeline_read(trace, INTERVALS) : NULL;
    if (!timeline)
        fprintf(stderr, "gpumem: html: cannot read '%s': out of memory, or the file changed\n", trace);
    if (timeline)
        gm_reader_warn(trace, timeline->damaged);
    bool done = timeline && write_file(output, trace, definitions, symbols, timeline);
    if (done && strcmp(output, "-"))
        puts(output);
    gm_timeline_free(timeline);
    gm_symbols_free(symbols);
    gm_reader_close(definitions);
    return !done;
}

int gm_command_html(int argc, char **argv) {
    const char *output = NULL;
    int first, status = gm_flags_read(argc, argv, take, &output, gm_command_html_help, &first);
    if (status >= 0)
        return status;
    if (first + 1 != argc)
        return gm_usage_error("html: one trace is needed; usage: gpumem html [-o FILE] TRACE");
    if (!gm_html_before_bytes)
        return gm_usage_error(
            "html: this gpumem was built without dygraphs; install libjs-dygraphs and build it again");
    if (output && (status = gm_export_check("html", argv[first], output)) > 0)
        return status;
    const char *name = gm_text_base_name(argv[first]);
    size_t size = strlen(name) + sizeof ".html";
    char *named = malloc(size);
    if (!named)
        return 1;
    snprintf(named, size, "%s.html", name);
    status = write_page(output ? output : named, argv[first]);
    free(named);
    return status;
}
