/* Exports gpumem's own CSV format: the events, then the definitions of the trace. */
#include "tools/cli/export.h"

#include "shim/trace/parts.h"

#include <stdlib.h>

struct csv {
    struct gm_observer observer;
    struct gm_export *x;
    bool failed;
};

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct csv *c = (struct csv *)self;
    char line[GM_TRACE_CSV_LINE];
    int length = gm_trace_csv_line(line, sizeof line, step->event, c->x->header->pid, step->thread);
    return fwrite(line, 1, (size_t)length, c->x->out) == (size_t)length;
}

static struct gm_observer *begin(struct gm_export *x) {
    char about[2048];
    struct csv *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->observer.event = event;
    c->x = x;
    fputs(gm_trace_csv_header, x->out);
    fwrite(about, 1, gm_trace_csv_about(about, sizeof about, x->header), x->out);
    return &c->observer;
}

static void put_record(const struct gm_record *record, void *arg) {
    static char line[400000]; /* escaping may turn one character into four */
    struct csv *c = arg;
    size_t length = gm_trace_csv_record(line, sizeof line, record);
    c->failed |= !length;
    fwrite(line, 1, length, c->x->out);
}

static bool end(struct gm_export *x, struct gm_observer *observer, const struct gm_analysis *a) {
    struct csv *c = (struct csv *)observer;
    if (a) {
        gm_reader_each_record(x->reader, put_record, c);
        if (x->header->finished)
            fprintf(x->out, "# end dropped %llu%s\n", (unsigned long long)x->header->dropped,
                    x->header->finished == GM_TRACE_STOPPED ? " stopped" : "");
    }
    bool done = !c->failed;
    free(c);
    return done;
}

const struct gm_exporter gm_exporter_csv = {"csv", false, false, begin, end, true};
