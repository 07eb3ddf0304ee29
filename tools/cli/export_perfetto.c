/* Exports Chrome's trace event JSON, which Perfetto opens. Live bytes by kind are counters, blocks are asynchronous
 * events because nested events cannot overlap, failed requests and trims are instants. Times are microseconds. */
#include "tools/cli/export.h"

#ifdef GM_HAVE_JANSSON
#include "tools/cli/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
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
    struct gm_export_amounts amounts;
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

/* ---- pieces of an event: each function writes at `p` and returns the end. There may be 20 million events, and printf
 * takes most of their time. */

enum { PIECE = 512 }; /* room for an event without the name of its site */

static char *put(char *p, const char *text) {
    size_t length = strlen(text);
    memcpy(p, text, length);
    return p + length;
}

static char *put_number(char *p, uint64_t value) {
    char digits[20];
    int count = 0;
    do
        digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count)
        *p++ = digits[--count];
    return p;
}

static char *put_signed(char *p, int value) {
    if (value < 0)
        *p++ = '-';
    return put_number(p, value < 0 ? 0u - (unsigned)value : (unsigned)value);
}

static char *put_hex(char *p, uint64_t value) {
    int shift = value ? (63 - __builtin_clzll(value)) & ~3 : 0;
    for (; shift >= 0; shift -= 4)
        *p++ = "0123456789abcdef"[value >> shift & 15];
    return p;
}

/* Writes the beginning of an event. The first array element is metadata, so each event follows a comma. */
static char *put_common(char *p, const struct perfetto *x, char phase, uint64_t ns, int thread) {
    unsigned rest = (unsigned)(ns % 1000);
    p = put(p, ",\n{\"ph\":\"");
    *p++ = phase;
    p = put_signed(put(p, "\",\"pid\":"), x->x->header->pid);
    p = put_signed(put(p, ",\"tid\":"), thread);
    p = put_number(put(p, ",\"ts\":"), ns / 1000);
    *p++ = '.';
    *p++ = (char)('0' + rest / 100);
    *p++ = (char)('0' + rest / 10 % 10);
    *p++ = (char)('0' + rest % 10);
    return p;
}

static char *put_counter(char *p, const struct perfetto *x, const struct gm_step *step) {
    p = put_common(p, x, 'C', step->time_ns, step->thread);
    p = put(put(p, ",\"name\":\"live bytes, "), gm_kind_name((enum gm_kind)step->block->kind));
    p = put_number(put(p, "\",\"args\":{\"bytes\":"), step->now->by_kind[step->block->kind].live_bytes);
    return put(p, "}}");
}

static bool write_piece(struct perfetto *x, const char *piece, const char *end) {
    return fwrite(piece, 1, (size_t)(end - piece), x->x->out) == (size_t)(end - piece);
}

/* Writes the counter of the block's kind and one end of the block. */
static bool put_block(struct perfetto *x, char phase, const struct gm_step *step) {
    const struct gm_live_block *b = step->block;
    const char *name = quoted_site(x, b->site);
    char piece[2 * PIECE], *p = put_counter(piece, x, step);
    if (!name)
        return false;
    p = put_common(p, x, phase, step->time_ns, step->thread);
    p = put(put(p, ",\"cat\":\""), gm_kind_name((enum gm_kind)b->kind));
    p = put_number(put(p, "\",\"id\":"), b->number);
    p = put(p, ",\"name\":");
    if (!write_piece(x, piece, p) || fputs(name, x->x->out) < 0)
        return false;
    p = piece;
    if (phase == 'b') {
        p = put_number(put(p, ",\"args\":{\"bytes\":"), b->bytes);
        p = put_hex(put(p, ",\"address\":\"0x"), gm_live_block_address(b));
        p = put_signed(put(p, "\",\"device\":"), b->device);
        p = put(p, "}");
    }
    return write_piece(x, piece, put(p, "}"));
}

/* Writes the totals since the latest event, if they changed. `next`: the event after them, NULL at the end. */
static bool put_amounts(struct perfetto *x, const struct gm_analysis *now, const struct gm_event *next, int thread) {
    char piece[PIECE], *p = piece;
    if (!gm_export_changed(&x->amounts, now, next))
        return true;
    p = put(put_common(p, x, 'C', x->amounts.since_ns, thread), ",\"name\":\"device memory\",\"args\":{\"live\":");
    p = put(put_number(p, x->amounts.amounts.live), ",\"kept\":");
    p = put(put_number(p, x->amounts.amounts.kept), ",\"reserved\":");
    return write_piece(x, piece, put(put_number(p, x->amounts.amounts.reserved), "}}"));
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct perfetto *p = (struct perfetto *)self;
    const struct gm_event *e = step->event;
    if (!put_amounts(p, step->now, e, step->thread))
        return false;
    if (e->action != GM_ACT_ALLOC_FAIL && e->action != GM_ACT_FREE_FAIL && !gm_event_is_own_trim(e))
        return true;
    char piece[PIECE];
    if (!write_piece(p, piece, put_common(piece, p, 'i', e->time_ns, step->thread)))
        return false;
    return fprintf(p->x->out, ",\"s\":\"p\",\"name\":\"%s %s\",\"args\":{\"bytes\":%" PRIu64 ",\"result\":%u}}",
                   gm_call_name((enum gm_call)e->call), gm_action_name((enum gm_action)e->action), e->bytes,
                   e->result) > 0;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    return put_block((struct perfetto *)self, 'b', step);
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    return put_block((struct perfetto *)self, 'e', step);
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
    bool done = !a || put_amounts(p, a, NULL, x->header->pid);
    fputs("\n]}\n", x->out);
    HASH_ITER(hh, p->names, n, next) {
        HASH_DEL(p->names, n);
        free(n->quoted);
        free(n);
    }
    free(p);
    return done;
}

const struct gm_exporter gm_exporter_perfetto = {"perfetto", false, false, begin, end};
#else
const struct gm_exporter gm_exporter_perfetto = {.name = "perfetto"};
#endif
