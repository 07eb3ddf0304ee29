/* gpumem export: selects the format, reads the trace and writes the output file. */
#include "tools/cli/export.h"
#include "tools/cli/commands.h"
#include "tools/cli/export_file.h"
#include "tools/cli/export_rows.h"
#include "tools/cli/flags.h"
#include "tools/cli/shown.h"

#include <string.h>

static const struct gm_exporter *const exporters[] = {
#define ROW(name, help) &gm_exporter_##name,
    GM_EXPORT_ROWS(ROW)
#undef ROW
};

struct options {
    const struct gm_exporter *to;
    const char *output;
    enum gm_measure measure;
    bool measures; /* --measure was given */
    bool only_blocks;
    bool force;
};

static int take(void *options, const char *name, const char *value) {
    static const char *const measures[] = {"peak", "bytes", "allocations", "leaked"};
    struct options *o = options;
    if (!strcmp(name, "output"))
        o->output = value;
    for (size_t i = 0; !strcmp(name, "to") && i < sizeof exporters / sizeof *exporters; i++)
        if (!strcmp(exporters[i]->name, value))
            o->to = exporters[i];
    o->force |= !strcmp(name, "force");
    o->only_blocks |= !strcmp(name, "only-blocks");
    o->measures |= !strcmp(name, "measure");
    for (int i = 0; !strcmp(name, "measure") && i < 4; i++)
        if (!strcmp(measures[i], value))
            o->measure = (enum gm_measure)i;
    return 0;
}

void gm_command_export_help(void) {
    puts(
        "usage: gpumem export --to=FORMAT -o FILE TRACE\n\n"
        "Writes a trace in the format of another program. A FILE that ends in .gz is compressed, except for sqlite.\n");
    gm_flags_help("export");
}

const struct gm_frame_name *gm_export_stack(const struct gm_export *x, uint32_t site, unsigned *count) {
    static struct gm_frame_name names[GM_EXPORT_FRAMES];
    *count = gm_symbols_stack(x->symbols, site, GM_STACK_KNOWN, names, GM_EXPORT_FRAMES);
    return names;
}

bool gm_export_changed(struct gm_export_amounts *last, const struct gm_analysis *now, const struct gm_event *next) {
    struct gm_amounts amounts = gm_analysis_amounts(now);
    bool changed = amounts.live != last->amounts.live || amounts.kept != last->amounts.kept ||
                   amounts.reserved != last->amounts.reserved;
    if (changed) {
        last->amounts = amounts;
        last->since_ns = last->event_ns;
    }
    uint64_t end_ns = !next ? 0 : next->action == GM_ACT_ALLOC ? next->time_ns + next->duration_ns : next->time_ns;
    if (end_ns > last->event_ns) /* events of several threads overlap */
        last->event_ns = end_ns;
    return changed;
}

bool gm_export_on_device(const struct gm_live_block *b) { return gm_kind_is_on_device((enum gm_kind)b->kind); }

static bool write_all(const struct options *o, struct gm_export *x, struct gm_reader *events) {
    struct gm_observer *observer = o->to->begin(x);
    struct gm_observer *const observers[] = {observer, NULL};
    struct gm_analysis *a = observer ? gm_analysis_read(events, observers) : NULL;
    bool done = observer && o->to->end(x, observer, a) && a;
    gm_analysis_free(a);
    return done;
}

static int export_trace(const struct options *o, const char *path) {
    char error[512];
    bool done = false;
    struct gm_export x = {.measure = o->measure, .only_blocks = o->only_blocks};
    struct gm_reader *definitions = gm_reader_open_definitions(path, error, sizeof error);
    struct gm_reader *events = definitions ? gm_reader_open(path, error, sizeof error) : NULL;
    if (!events)
        gm_complain("%s", error);
    if (events && !o->to->sums && !gm_reader_has_blocks(events, o->to->name, error, sizeof error)) {
        gm_complain("%s", error);
        goto out;
    }
    if (!events || !(x.symbols = gm_symbols_new(definitions)))
        goto out;
    x.reader = definitions;
    x.header = gm_reader_header(definitions);
    struct gm_output output;
    if (!gm_output_begin(&output, o->output, !o->to->own_file, o->to->compress))
        goto out;
    if (o->to->own_file && !output.beside) {
        gm_output_end(&output, false); /* a device or a pipe */
        goto out;
    }
    x.path = output.written;
    x.out = output.file;
    done = gm_output_end(&output, write_all(o, &x, events));
    gm_reader_warn(path, gm_reader_damaged(events));
out:
    gm_symbols_free(x.symbols);
    gm_reader_close(events);
    gm_reader_close(definitions);
    return !done;
}

int gm_command_export(int argc, char **argv) {
    struct options options = {0};
    int first, status = gm_flags_read(argc, argv, take, &options, gm_command_export_help, &first);
    if (status >= 0)
        return status;
    if (!options.to)
        return gm_usage_error("export: no format given; accepted: --to=%s", GM_EXPORT_NAMES);
    if (options.measures && strcmp(options.to->name, "collapsed"))
        return gm_usage_error("export: --measure is for --to=collapsed, not for --to=%s", options.to->name);
    if (options.only_blocks && strcmp(options.to->name, "sqlite"))
        return gm_usage_error("export: --only-blocks is for --to=sqlite, not for --to=%s", options.to->name);
    if (first + 1 != argc)
        return gm_usage_error("export: one trace is needed; usage: gpumem export --to=%s -o FILE TRACE",
                              options.to->name);
    if (!options.output)
        return gm_usage_error("export: no output given; use -o FILE");
    if (!options.to->begin)
        return gm_usage_error("export: this gpumem was built without the library for %s", options.to->name);
    if (options.to->own_file && !strcmp(options.output, "-"))
        return gm_usage_error("export: %s needs a file", options.to->name);
    status = gm_output_check("export", argv[first], options.output, options.force);
    return status ? status : export_trace(&options, argv[first]);
}
