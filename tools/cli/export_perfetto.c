/* Exports Chrome's trace event JSON, which Perfetto opens. Live bytes by kind are counters, blocks are asynchronous
 * events because nested events cannot overlap, failed requests and trims are instants. Times are microseconds. */
#include "tools/cli/export.h"

#ifdef GM_HAVE_JANSSON
#include "tools/cli/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <uthash.h>

struct name {
    uint32_t site;
    char *quoted; /* as JSON */
    UT_hash_handle hh;
};

struct perfetto {
    struct gm_observer observer;
    struct gm_export *x;
    struct name *names, *last;
};

static const char *quoted_site(struct perfetto *p, uint32_t site) {
    struct name *n = p->last;
    if (n && n->site == site)
        return n->quoted;
    HASH_FIND(hh, p->names, &site, sizeof site, n);
    if (!n) {
        struct gm_frame_name frame;
        gm_symbols_site(p->x->symbols, site, &frame);
        json_t *text = gm_json_text(frame.text);
        n = malloc(sizeof *n);
        char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
        json_decref(text);
        if (!n || !quoted) {
            free(n);
            free(quoted);
            return NULL;
        }
        n->site = site;
        n->quoted = quoted;
        HASH_ADD(hh, p->names, site, sizeof site, n);
    }
    p->last = n;
    return n->quoted;
}

/* Writes the beginning of an event. The first array element is metadata, so each event follows a comma. */
static void put_common(struct perfetto *p, const char *phase, uint64_t ns, int thread) {
    fprintf(p->x->out, ",\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRIu64 ".%03u", phase, p->x->header->pid,
            thread, ns / 1000, (unsigned)(ns % 1000));
}

static void put_counter(struct perfetto *p, const struct gm_step *step) {
    put_common(p, "C", step->time_ns, step->thread);
    fprintf(p->x->out, ",\"name\":\"live bytes, %s\",\"args\":{\"bytes\":%" PRIu64 "}}",
            gm_kind_name((enum gm_kind)step->block->kind), step->now->by_kind[step->block->kind].live_bytes);
}

static bool put_block(struct perfetto *p, const char *phase, const struct gm_step *step) {
    const struct gm_live_block *b = step->block;
    const char *name = quoted_site(p, b->site);
    if (!name)
        return false;
    put_common(p, phase, step->time_ns, step->thread);
    return fprintf(p->x->out,
                   ",\"cat\":\"%s\",\"id\":%" PRIu64 ",\"name\":%s,\"args\":{\"bytes\":%" PRIu64
                   ",\"address\":\"0x%" PRIx64 "\",\"device\":%d}}",
                   gm_kind_name((enum gm_kind)b->kind), b->number, name, b->bytes, gm_live_block_address(b),
                   b->device) > 0;
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct perfetto *p = (struct perfetto *)self;
    const struct gm_event *e = step->event;
    if (e->action != GM_ACT_ALLOC_FAIL && e->action != GM_ACT_FREE_FAIL && !gm_event_is_own_trim(e))
        return true;
    put_common(p, "i", e->time_ns, step->thread);
    return fprintf(p->x->out, ",\"s\":\"p\",\"name\":\"%s %s\",\"args\":{\"bytes\":%" PRIu64 ",\"result\":%u}}",
                   gm_call_name((enum gm_call)e->call), gm_action_name((enum gm_action)e->action), e->bytes,
                   e->result) > 0;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    put_counter((struct perfetto *)self, step);
    return put_block((struct perfetto *)self, "b", step);
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    put_counter((struct perfetto *)self, step);
    return put_block((struct perfetto *)self, "e", step);
}

static struct gm_observer *begin(struct gm_export *x) {
    struct perfetto *p = calloc(1, sizeof *p);
    json_t *program = gm_json_text(x->header->program);
    char *quoted = program ? json_dumps(program, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    json_decref(program);
    if (!p || !quoted) {
        free(p);
        free(quoted);
        return NULL;
    }
    p->observer = (struct gm_observer){event, created, destroyed, NULL};
    p->x = x;
    fprintf(x->out,
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\","
            "\"args\":{\"name\":%s}}",
            x->header->pid, quoted);
    free(quoted);
    return &p->observer;
}

static bool end(struct gm_export *x, struct gm_observer *observer, const struct gm_analysis *a) {
    struct perfetto *p = (struct perfetto *)observer;
    struct name *n, *next;
    (void)a;
    fputs("\n]}\n", x->out);
    HASH_ITER(hh, p->names, n, next) {
        HASH_DEL(p->names, n);
        free(n->quoted);
        free(n);
    }
    free(p);
    return true;
}

const struct gm_exporter gm_exporter_perfetto = {"perfetto", false, false, begin, end};
#else
const struct gm_exporter gm_exporter_perfetto = {.name = "perfetto"};
#endif
