/* Exports the log of RMM's logging_resource_adaptor, which RMM's replay benchmark reads: device memory only, one line
 * for each call. Times are UTC. Streams are decimal numbers, 0 for the default stream. */
#include "tools/cli/export.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

struct rmm {
    struct gm_observer observer;
    struct gm_export *x;
};

static bool put(struct rmm *r, int thread, uint64_t time_ns, const char *action, uint64_t address, uint64_t bytes,
                uint64_t stream) {
    char pointer[24] = "(nil)";
    uint64_t now = r->x->header->epoch_ns + time_ns;
    time_t seconds = (time_t)(now / 1000000000);
    struct tm t;
    gmtime_r(&seconds, &t);
    if (address)
        snprintf(pointer, sizeof pointer, "0x%" PRIx64, address);
    return fprintf(r->x->out, "%d,%02d:%02d:%02d.%06u,%s,%s,%" PRIu64 ",%" PRIu64 "\n", thread, t.tm_hour, t.tm_min,
                   t.tm_sec, (unsigned)(now % 1000000000 / 1000), action, pointer, bytes, stream) > 0;
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    const struct gm_event *e = step->event;
    if (e->action != GM_ACT_ALLOC_FAIL || !gm_kind_is_on_device((enum gm_kind)e->kind) ||
        !gm_call_allocates((enum gm_call)e->call, (enum gm_kind)e->kind))
        return true;
    return put((struct rmm *)self, step->thread, e->time_ns, "allocate failure", 0, e->bytes, e->stream);
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    const struct gm_live_block *b = step->block;
    return !gm_export_on_device(b) || put((struct rmm *)self, step->thread, step->time_ns, "allocate",
                                          step->event->address, b->bytes, gm_live_block_stream(b));
}

/* The block's key also identifies handles and blocks without a free in the trace. */
static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    const struct gm_live_block *b = step->block;
    const struct gm_event *e = step->event;
    bool own = e->action == GM_ACT_FREE || e->action == GM_ACT_RELEASE;
    return !gm_export_on_device(b) ||
           put((struct rmm *)self, step->thread, step->time_ns, "free", gm_live_block_address(b), b->bytes,
               own ? e->stream : gm_live_block_stream(b));
}

static struct gm_observer *begin(struct gm_export *x) {
    struct rmm *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->observer = (struct gm_observer){.event = event, .created = created, .destroyed = destroyed};
    r->x = x;
    fputs("Thread,Time,Action,Pointer,Size,Stream\n", x->out);
    return &r->observer;
}

static bool end(struct gm_export *x, struct gm_observer *observer, const struct gm_analysis *a) {
    (void)x, (void)a;
    free(observer);
    return true;
}

const struct gm_exporter gm_exporter_rmm = {"rmm", false, false, begin, end};
