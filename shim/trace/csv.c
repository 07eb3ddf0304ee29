/* The text format of the trace (CSV): one line for each event, and each definition as a comment line. */
#include "shim/base/foreign.h"
#include "shim/trace/parts.h"

#include <string.h>

const char gm_trace_csv_header[] = "seq,time_ns,action,call,address,bytes,device,stream,thread,duration_ns,"
                                   "bytes_got,kind,reason,verdict,hit,site,"
                                   "context,result,flags,pid\n";

const char *gm_action_name(enum gm_action action) {
    static const char *const names[] = {
#define X(e, n) [e] = n,
        GM_ACTIONS(X)
#undef X
    };
    return (unsigned)action < GM_ACT_COUNT ? names[action] : "?";
}

/* Numbers have their own formatter. A line has twenty of them, and the general formatter would double its cost. Each
 * function writes `end` behind the value. */
static char *put_text(char *out, const char *text, char end) {
    while (*text)
        *out++ = *text++;
    *out++ = end;
    return out;
}

static char *put_decimal(char *out, uint64_t value, char end) {
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n)
        *out++ = digits[--n];
    *out++ = end;
    return out;
}

static char *put_signed(char *out, int64_t value, char end) {
    if (value < 0)
        *out++ = '-';
    return put_decimal(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, end);
}

static char *put_hex(char *out, uint64_t value, char end) {
    int shift = 60;
    *out++ = '0';
    *out++ = 'x';
    while (shift && !(value >> shift & 15))
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        *out++ = "0123456789abcdef"[value >> shift & 15];
    *out++ = end;
    return out;
}

int gm_trace_csv_line(char *out, size_t size, const struct gm_event *e, int pid, int thread) {
    if (size < GM_TRACE_CSV_LINE)
        return 0;
    char *p = put_decimal(out, e->seq, ',');
    p = put_decimal(p, e->time_ns, ',');
    p = put_text(p, gm_action_name((enum gm_action)e->action), ',');
    p = put_text(p, gm_call_name((enum gm_call)e->call), ',');
    p = put_hex(p, e->address, ',');
    p = put_decimal(p, e->bytes, ',');
    p = put_signed(p, e->device, ',');
    p = put_hex(p, e->stream, ',');
    p = put_signed(p, thread, ',');
    p = put_decimal(p, e->duration_ns, ',');
    p = put_decimal(p, e->bytes + e->slack, ',');
    p = put_text(p, gm_kind_name((enum gm_kind)e->kind), ',');
    p = put_text(p, gm_reason_name((enum gm_reason)e->reason), ',');
    p = put_text(p, gm_kind_name((enum gm_kind)e->verdict), ',');
    p = put_decimal(p, e->hit, ',');
    p = put_decimal(p, e->site, ',');
    p = put_decimal(p, e->context, ',');
    p = put_decimal(p, e->result, ',');
    p = put_decimal(p, e->flags, ',');
    p = put_signed(p, pid, '\n');
    return (int)(p - out);
}

/* A comment line under construction. A text that does not fit makes the whole line invalid. */
struct line {
    char *next, *limit;
    bool full;
};

static void append_bytes(struct line *l, const char *text, size_t length) {
    if (l->full || (size_t)(l->limit - l->next) < length) {
        l->full = true;
        return;
    }
    memcpy(l->next, text, length);
    l->next += length;
}

static void add_word(struct line *l, const char *text) { append_bytes(l, text, strlen(text)); }

static void add_number(struct line *l, int64_t value) {
    char number[24];
    append_bytes(l, number, (size_t)(put_signed(number, value, ' ') - number));
}

static void add_hex(struct line *l, uint64_t value) {
    char number[24];
    append_bytes(l, number, (size_t)(put_hex(number, value, ' ') - number));
}

/* Free text stands at the end of its line. Escaped are backslashes, what does not only show, so that a definition stays
 * on one line, and what would let a spreadsheet take a part of the text for a formula: the signs with which one begins,
 * and those that end a field. */
static void add_escaped(struct line *l, const char *text, size_t length) {
    unsigned bytes;
    for (const char *p = text; p < text + length && *p; p += bytes) {
        bool plain;
        bytes = gm_foreign_character(p, (size_t)(text + length - p), &plain);
        if (plain && !strchr(p == text ? "\\,;=+-@" : "\\,;", *p)) {
            append_bytes(l, p, bytes);
            continue;
        }
        for (unsigned i = 0; i < bytes; i++) {
            unsigned char c = (unsigned char)p[i];
            append_bytes(l, (char[]){'\\', 'x', "0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15]}, 4);
        }
    }
}

static void add_module(struct line *l, const struct gm_record_module *m) {
    const unsigned char *id = (const unsigned char *)(m + 1);
    add_word(l, "# module ");
    add_hex(l, m->base);
    add_hex(l, m->start);
    add_hex(l, m->limit);
    for (uint32_t i = 0; i < m->build_id_bytes; i++) {
        char two[2] = {"0123456789abcdef"[id[i] >> 4], "0123456789abcdef"[id[i] & 15]};
        append_bytes(l, two, 2);
    }
    add_word(l, m->build_id_bytes ? " " : "- ");
    add_escaped(l, (const char *)id + ((m->build_id_bytes + 7) & ~7u), m->path_bytes);
}

static void add_site(struct line *l, const struct gm_record_site *s) {
    const uint64_t *frames = (const uint64_t *)(s + 1);
    add_word(l, "# site ");
    add_number(l, s->id);
    add_number(l, s->outside);
    for (unsigned i = 0; i < s->frames; i++)
        add_hex(l, frames[i]);
}

size_t gm_trace_csv_record(char *out, size_t size, const struct gm_record *record) {
    struct line l = {out, out + size - 1, false};
    switch (record->type) {
    case GM_RECORD_MODULE: add_module(&l, (const struct gm_record_module *)record); break;
    case GM_RECORD_SITE: add_site(&l, (const struct gm_record_site *)record); break;
    case GM_RECORD_DEVICE: {
        const struct gm_record_device *d = (const struct gm_record_device *)record;
        add_word(&l, "# device ");
        add_number(&l, d->device);
        add_number(&l, (int64_t)d->total);
        add_escaped(&l, (const char *)(d + 1), d->name_bytes);
        break;
    }
    case GM_RECORD_CONTEXT: {
        const struct gm_record_context *c = (const struct gm_record_context *)record;
        add_word(&l, "# context ");
        add_number(&l, c->number);
        add_number(&l, c->device);
        add_hex(&l, c->handle);
        add_hex(&l, c->id);
        break;
    }
    case GM_RECORD_STRING: {
        const struct gm_record_string *s = (const struct gm_record_string *)record;
        add_word(&l, "# string ");
        add_number(&l, s->id);
        add_escaped(&l, (const char *)(s + 1), s->bytes);
        break;
    }
    case GM_RECORD_PYTHON: {
        const struct gm_record_python *p = (const struct gm_record_python *)record;
        const char *name = (const char *)(p + 1);
        add_word(&l, "# python ");
        add_number(&l, p->id);
        add_number(&l, p->line);
        add_escaped(&l, name, p->name_bytes);
        append_bytes(&l, "\t", 1); /* a tab of the name is escaped */
        add_escaped(&l, name + ((p->name_bytes + 7) & ~7u), p->file_bytes);
        break;
    }
    default: return 0;
    }
    if (l.full)
        return 0;
    *l.next++ = '\n';
    return (size_t)(l.next - out);
}

size_t gm_trace_csv_about(char *out, size_t size, const struct gm_trace_header *h) {
    struct line l = {out, out + size - 1, false};
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"# gpumem ", h->version},
        {"start_ns ", (int64_t)h->start_ns},
        {"epoch_ns ", (int64_t)h->epoch_ns},
        {"pid ", h->pid},
        {"parent ", h->parent},
        {"rank ", h->rank},
        {"summary_ns ", (int64_t)h->summary_ns},
        {"limit ", (int64_t)h->limit},
    };
    enum { ALWAYS = 6 };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (i >= ALWAYS && !numbers[i].value)
            continue;
        add_word(&l, numbers[i].name);
        add_number(&l, numbers[i].value);
    }
    const struct {
        const char *name, *text;
        size_t size;
    } texts[] = {
        {"\n# host ", h->host, sizeof h->host},
        {"\n# program ", h->program, sizeof h->program},
        {"\n# policy ", h->policy, sizeof h->policy},
        {"\n# library ", h->library, sizeof h->library},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        add_word(&l, texts[i].name);
        add_escaped(&l, texts[i].text, texts[i].size);
    }
    *l.next++ = '\n';
    return l.full ? 0 : (size_t)(l.next - out);
}
