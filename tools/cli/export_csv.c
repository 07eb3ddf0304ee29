/* Exports gpumem's own CSV format: the events, then the definitions of the trace. */
#include "tools/cli/export.h"

#include "shim/trace/parts.h"

#include <stdlib.h>
#include <string.h>

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

/* A definition record as the library writes it, so that the library's own formatting applies. */
union space {
    struct gm_record head;
    struct gm_record_module module;
    struct gm_record_site site;
    struct gm_record_device device;
    struct gm_record_context context;
    struct gm_record_string string;
    struct gm_record_python python;
    unsigned char bytes[70000];
};

static void put_record(struct csv *c, const union space *s) {
    static char line[400000]; /* escaping may turn one character into four */
    size_t length = gm_trace_csv_record(line, sizeof line, &s->head);
    c->failed |= !length;
    fwrite(line, 1, length, c->x->out);
}

static void put_module(const struct gm_module *m, void *arg) {
    static union space s;
    size_t path = strlen(m->path), id_room = (m->build_id_bytes + 7u) & ~7u;
    if (sizeof s.module + id_room + path > sizeof s)
        return;
    s.module = (struct gm_record_module){{0, GM_RECORD_MODULE, 0}, m->base,       m->start, m->limit,
                                         m->build_id_bytes,        (uint32_t)path};
    memcpy(s.bytes + sizeof s.module, m->build_id, m->build_id_bytes);
    memcpy(s.bytes + sizeof s.module + id_room, m->path, path);
    put_record(arg, &s);
}

static void put_site(const struct gm_site *site, void *arg) {
    static union space s;
    if (sizeof s.site + site->frames * sizeof(uint64_t) > sizeof s)
        return;
    s.site = (struct gm_record_site){{0, GM_RECORD_SITE, 0}, site->id, (uint16_t)site->frames, (uint16_t)site->outside};
    memcpy(s.bytes + sizeof s.site, site->addresses, site->frames * sizeof(uint64_t));
    put_record(arg, &s);
}

static void put_context(const struct gm_traced_context *context, void *arg) {
    union space s = {
        .context = {{0, GM_RECORD_CONTEXT, 0}, context->number, context->device, context->handle, context->id}};
    put_record(arg, &s);
}

static void put_text(union space *s, size_t fixed, const char *text, uint32_t *length) {
    *length = (uint32_t)strnlen(text, sizeof *s - fixed);
    memcpy(s->bytes + fixed, text, *length);
}

static void put_string(uint32_t id, const char *text, void *arg) {
    static union space s;
    s.string = (struct gm_record_string){{0, GM_RECORD_STRING, 0}, id, 0};
    put_text(&s, sizeof s.string, text, &s.string.bytes);
    put_record(arg, &s);
}

static void put_python(uint32_t id, const struct gm_python_frame *frame, void *arg) {
    static union space s;
    s.python = (struct gm_record_python){{0, GM_RECORD_PYTHON, 0}, id, frame->line, 0, 0};
    put_text(&s, sizeof s.python, frame->function, &s.python.name_bytes);
    size_t fixed = sizeof s.python + ((s.python.name_bytes + 7) & ~7u);
    if (fixed > sizeof s)
        return;
    put_text(&s, fixed, frame->file, &s.python.file_bytes);
    put_record(arg, &s);
}

static bool end(struct gm_export *x, struct gm_observer *observer, const struct gm_analysis *a) {
    static union space s;
    struct csv *c = (struct csv *)observer;
    struct gm_device device;
    for (unsigned i = 0; a && gm_reader_device(x->reader, i, &device); i++) {
        s.device = (struct gm_record_device){{0, GM_RECORD_DEVICE, 0}, device.device, 0, device.total};
        put_text(&s, sizeof s.device, device.name, &s.device.name_bytes);
        put_record(c, &s);
    }
    if (a) {
        gm_reader_each_context(x->reader, put_context, c);
        gm_reader_each_module(x->reader, put_module, c);
        gm_reader_each_python(x->reader, put_python, c);
        gm_reader_each_site(x->reader, put_site, c);
        gm_reader_each_string(x->reader, put_string, c);
        if (x->header->finished)
            fprintf(x->out, "# end dropped %llu%s\n", (unsigned long long)x->header->dropped,
                    x->header->finished == GM_TRACE_STOPPED ? " stopped" : "");
    }
    bool done = !c->failed;
    free(c);
    return done;
}

const struct gm_exporter gm_exporter_csv = {"csv", false, false, begin, end, true};
