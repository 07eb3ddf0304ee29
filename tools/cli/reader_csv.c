/* Reads a CSV trace. Threads may write their lines slightly out of order, so a heap of the latest lines sorts them. */
#include "tools/cli/reader_csv.h"

#include "shim/base/foreign.h"
#include "tools/cli/trace_lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Maximum delay of a line, in lines: its thread may lose the processor between taking the number and writing. */
#define WINDOW  (1u << 19)
#define COLUMNS 20

struct line {
    struct gm_event event;
    int thread;
};

struct gm_csv_reader {
    struct gm_trace_input *trace;
    struct gm_trace_lines lines;
    struct line *heap;
    size_t count, heap_room;
    uint64_t expected; /* the next sequence number if no event was lost */
    bool ended;
    const char *last_name[4]; /* the latest name of each vocabulary: most lines repeat it */
    uint8_t last_value[4];
    struct line spare;
};

/* ---- names */

enum vocabulary { ACTIONS, CALLS, KINDS, REASONS };

static const char *word_of(enum vocabulary v, unsigned value) {
    switch (v) {
    case ACTIONS: return value < GM_ACT_COUNT ? gm_action_name((enum gm_action)value) : NULL;
    case CALLS: return value < GM_CALL_COUNT ? gm_call_name((enum gm_call)value) : NULL;
    case KINDS: return value < GM_KIND_COUNT ? gm_kind_name((enum gm_kind)value) : NULL;
    default: return value < GM_REASON_COUNT ? gm_reason_name((enum gm_reason)value) : NULL;
    }
}

static bool parse_word(struct gm_csv_reader *c, enum vocabulary v, const char *text, uint8_t *out) {
    if (c->last_name[v] && !strcmp(c->last_name[v], text)) {
        *out = c->last_value[v];
        return true;
    }
    const char *word;
    for (unsigned i = 0; (word = word_of(v, i)); i++) {
        if (!strcmp(word, text)) {
            c->last_name[v] = word;
            c->last_value[v] = *out = (uint8_t)i;
            return true;
        }
    }
    return false;
}

static bool parse_number(const char *text, uint64_t most, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(text, &end, text[0] == '0' && text[1] == 'x' ? 16 : 10);
    return end != text && !*end && !errno && *text != '-' && *out <= most;
}

static bool parse_signed(const char *text, long low, long high, int *out) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    *out = (int)value;
    return end != text && !*end && !errno && value >= low && value <= high;
}

/* ---- lines */

static bool split(char *line, char *fields[COLUMNS]) {
    int count = 0;
    for (char *p = line; count < COLUMNS; p++) {
        fields[count++] = p;
        p = strchr(p, ',');
        if (!p)
            break;
        *p = 0;
    }
    return count == COLUMNS && !strchr(fields[COLUMNS - 1], ',');
}

static bool parse_event(struct gm_csv_reader *c, char *text, struct line *out, int *pid) {
    char *f[COLUMNS];
    uint64_t duration, got, hit, site, context, result, flags;
    int device;
    struct gm_event *e = &out->event;
    memset(out, 0, sizeof *out);
    if (!split(text, f) || !parse_number(f[0], UINT64_MAX, &e->seq) || !parse_number(f[1], UINT64_MAX, &e->time_ns) ||
        !parse_word(c, ACTIONS, f[2], &e->action) || !parse_word(c, CALLS, f[3], &e->call) ||
        !parse_number(f[4], UINT64_MAX, &e->address) || !parse_number(f[5], UINT64_MAX, &e->bytes) ||
        !parse_signed(f[6], INT8_MIN, INT8_MAX, &device) || !parse_number(f[7], UINT64_MAX, &e->stream) ||
        !parse_signed(f[8], INT32_MIN, INT32_MAX, &out->thread) || !parse_number(f[9], UINT32_MAX, &duration) ||
        !parse_number(f[10], UINT64_MAX, &got) || !parse_word(c, KINDS, f[11], &e->kind) ||
        !parse_word(c, REASONS, f[12], &e->reason) || !parse_word(c, KINDS, f[13], &e->verdict) ||
        !parse_number(f[14], 1, &hit) || !parse_number(f[15], UINT32_MAX, &site) ||
        !parse_number(f[16], UINT16_MAX, &context) || !parse_number(f[17], UINT16_MAX, &result) ||
        !parse_number(f[18], UINT8_MAX, &flags) || !parse_signed(f[19], 0, INT32_MAX, pid))
        return false;
    uint64_t slack = got > e->bytes ? got - e->bytes : 0;
    e->slack = slack > UINT32_MAX ? UINT32_MAX : (uint32_t)slack;
    e->duration_ns = (uint32_t)duration;
    e->device = (int8_t)device;
    e->hit = (uint8_t)hit;
    e->site = (uint32_t)site;
    e->context = (uint16_t)context;
    e->result = (uint16_t)result;
    e->flags = (uint8_t)flags;
    return true;
}

/* ---- comment lines */

static int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* Decodes the writer's \xNN in place. */
static void unescape(char *text) {
    char *out = text;
    for (char *p = text; *p; p++) {
        if (p[0] == '\\' && p[1] == 'x' && hex_digit(p[2]) >= 0 && hex_digit(p[3]) >= 0) {
            *out++ = (char)(hex_digit(p[2]) << 4 | hex_digit(p[3]));
            p += 3;
        } else {
            *out++ = *p;
        }
    }
    *out = 0;
}

/* Parses the next number and advances *text. False at the end or if there is no number. */
static bool take_number(char **text, uint64_t *out) {
    char *end;
    while (**text == ' ')
        ++*text;
    if (!**text)
        return false;
    *out = strtoull(*text, &end, 0);
    if (end == *text || (*end && *end != ' '))
        return false;
    *text = *end ? end + 1 : end;
    return true;
}

/* The same for a number that identifies something. */
static bool take_id(char **text, uint32_t *out) {
    uint64_t number;
    if (!take_number(text, &number) || number > UINT32_MAX)
        return false;
    *out = (uint32_t)number;
    return true;
}

union record_space {
    struct gm_record head;
    struct gm_record_module module;
    struct gm_record_site site;
    struct gm_record_device device;
    struct gm_record_context context;
    struct gm_record_string string;
    struct gm_record_python python;
    unsigned char bytes[65536];
};

/* Copies the free text at the end of a comment to the end of a record of `fixed` bytes. Returns its length, or -1. */
static long put_text(union record_space *space, size_t fixed, char *text) {
    unescape(text);
    size_t length = strlen(text);
    if (fixed + length > sizeof space->bytes)
        return -1;
    memcpy(space->bytes + fixed, text, length);
    return (long)length;
}

static bool read_module(union record_space *s, char *text) {
    uint64_t n[3];
    unsigned bytes = 0;
    unsigned char *id = s->bytes + sizeof s->module;
    for (int i = 0; i < 3; i++)
        if (!take_number(&text, &n[i]))
            return false;
    for (; hex_digit(text[0]) >= 0 && hex_digit(text[1]) >= 0 && bytes < 64; text += 2)
        id[bytes++] = (unsigned char)(hex_digit(text[0]) << 4 | hex_digit(text[1]));
    if (*text == '-')
        text++;
    if (*text++ != ' ')
        return false;
    size_t fixed = sizeof s->module + ((bytes + 7) & ~7u);
    long length = put_text(s, fixed, text);
    if (length < 0)
        return false;
    s->module = (struct gm_record_module){
        {(uint32_t)(fixed + (size_t)length), GM_RECORD_MODULE, 0}, n[0], n[1], n[2], bytes, (uint32_t)length};
    return true;
}

static bool read_site(union record_space *s, char *text) {
    uint32_t id;
    uint64_t outside, *frames = (uint64_t *)(s->bytes + sizeof s->site);
    unsigned count = 0;
    if (!take_id(&text, &id) || !take_number(&text, &outside))
        return false;
    while (count < 1024 && take_number(&text, &frames[count]))
        count++;
    s->site = (struct gm_record_site){
        {(uint32_t)(sizeof s->site + count * 8), GM_RECORD_SITE, 0}, id, (uint16_t)count, (uint16_t)outside};
    return !*text;
}

static bool read_device(union record_space *s, char *text) {
    uint64_t device, total;
    if (!take_number(&text, &device) || !take_number(&text, &total))
        return false;
    long length = put_text(s, sizeof s->device, text);
    if (length < 0)
        return false;
    s->device = (struct gm_record_device){
        {(uint32_t)(sizeof s->device + (size_t)length), GM_RECORD_DEVICE, 0}, (int32_t)device, (uint32_t)length, total};
    return true;
}

static bool read_string(union record_space *s, char *text) {
    uint32_t id;
    if (!take_id(&text, &id))
        return false;
    long length = put_text(s, sizeof s->string, text);
    if (length < 0)
        return false;
    s->string = (struct gm_record_string){
        {(uint32_t)(sizeof s->string + (size_t)length), GM_RECORD_STRING, 0}, id, (uint32_t)length};
    return true;
}

/* Function and file, with a tab between them. */
static bool read_python(union record_space *s, char *text) {
    uint32_t id;
    uint64_t line;
    char *tab;
    if (!take_id(&text, &id) || !take_number(&text, &line) || !(tab = strchr(text, '\t')))
        return false;
    *tab = 0;
    long name = put_text(s, sizeof s->python, text);
    if (name < 0)
        return false;
    size_t fixed = sizeof s->python + (((size_t)name + 7) & ~(size_t)7);
    long file = put_text(s, fixed, tab + 1);
    if (file < 0)
        return false;
    s->python = (struct gm_record_python){
        {(uint32_t)(fixed + (size_t)file), GM_RECORD_PYTHON, 0}, id, (int32_t)line, (uint32_t)name, (uint32_t)file};
    return true;
}

static bool read_context(union record_space *s, char *text) {
    uint64_t n[4];
    for (int i = 0; i < 4; i++)
        if (!take_number(&text, &n[i]))
            return false;
    s->context = (struct gm_record_context){
        {(uint32_t)sizeof s->context, GM_RECORD_CONTEXT, 0}, (uint32_t)n[0], (int32_t)n[1], n[2], n[3]};
    return true;
}

static void read_about(struct gm_trace_header *h, char *text) {
    uint64_t value;
    char *p = text;
    if (take_number(&p, &value))
        h->version = (uint32_t)value;
    const struct {
        const char *name;
        uint64_t *wide;
        int32_t *narrow;
    } rows[] = {{"start_ns ", &h->start_ns, NULL}, {"epoch_ns ", &h->epoch_ns, NULL},     {"pid ", NULL, &h->pid},
                {"parent ", NULL, &h->parent},     {"summary_ns ", &h->summary_ns, NULL}, {"limit ", &h->limit, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        p = strstr(text, rows[i].name);
        if (!p)
            continue;
        p += strlen(rows[i].name);
        if (!take_number(&p, &value))
            continue;
        if (rows[i].wide)
            *rows[i].wide = value;
        else
            *rows[i].narrow = (int32_t)value;
    }
    p = strstr(text, "rank ");
    h->rank = p ? atoi(p + 5) : -1;
}

/* Reads one comment line without its "# ". Unknown comments are ignored, so that newer writers may add some. */
static bool read_comment(struct gm_trace_input *f, char *text) {
    union record_space space;
    const struct {
        const char *word;
        bool (*read)(union record_space *, char *);
    } records[] = {{"module ", read_module},   {"site ", read_site},     {"device ", read_device},
                   {"context ", read_context}, {"string ", read_string}, {"python ", read_python}};
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        size_t length = strlen(records[i].word);
        if (!strncmp(text, records[i].word, length))
            return records[i].read(&space, text + length) &&
                   gm_definitions_add(f->definitions, &space.head, space.head.bytes);
    }
    const struct {
        const char *word;
        char *out;
        size_t size;
    } texts[] = {{"host ", f->header.host, sizeof f->header.host},
                 {"program ", f->header.program, sizeof f->header.program},
                 {"policy ", f->header.policy, sizeof f->header.policy},
                 {"library ", f->header.library, sizeof f->header.library}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t length = strlen(texts[i].word);
        if (!strncmp(text, texts[i].word, length)) {
            unescape(text + length);
            gm_foreign_text(texts[i].out, texts[i].size, text + length, SIZE_MAX);
            return true;
        }
    }
    if (!strncmp(text, "gpumem ", 7))
        read_about(&f->header, text + 7);
    uint64_t dropped;
    char *rest = text + 12;
    if (!strncmp(text, "end dropped ", 12) && take_number(&rest, &dropped)) {
        f->header.finished = !strncmp(rest, " stopped", 8) ? GM_TRACE_STOPPED : GM_TRACE_WHOLE;
        f->header.dropped = dropped;
    }
    rest = text + 8;
    if (!strncmp(text, "dropped ", 8) && take_number(&rest, &dropped))
        f->header.dropped += dropped;
    return true;
}

/* ---- heap by seq */

static bool push(struct gm_csv_reader *c, const struct line *line) {
    if (c->count == c->heap_room) {
        size_t room = c->heap_room ? 2 * c->heap_room : 1024;
        struct line *heap = realloc(c->heap, room * sizeof *heap);
        if (!heap)
            return false;
        c->heap = heap;
        c->heap_room = room;
    }
    size_t at = c->count++;
    for (; at && line->event.seq < c->heap[(at - 1) / 2].event.seq; at = (at - 1) / 2)
        c->heap[at] = c->heap[(at - 1) / 2];
    c->heap[at] = *line;
    return true;
}

static struct line pop(struct gm_csv_reader *c) {
    struct line top = c->heap[0], moved = c->heap[--c->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= c->count)
            break;
        if (child + 1 < c->count && c->heap[child + 1].event.seq < c->heap[child].event.seq)
            child++;
        if (moved.event.seq <= c->heap[child].event.seq)
            break;
        c->heap[at] = c->heap[child];
        at = child;
    }
    c->heap[at] = moved;
    return top;
}

/* ---- the reader */

/* Reads lines up to the next event line. False at the end of the file. */
static bool read_line(struct gm_csv_reader *c, struct line *out) {
    struct gm_trace_input *f = c->trace;
    enum gm_trace_line got;
    size_t length;
    char *text;
    while ((got = gm_trace_lines_next(&c->lines, &text, &length)) != GM_LINE_END) {
        int pid = 0;
        bool whole = got == GM_LINE_WHOLE; /* one that a kill or a full disk cut is invalid even if it parses */
        if (whole && !length)
            continue;
        if (text[0] == '#' && got != GM_LINE_LOST) {
            f->damaged += !whole || (text[1] == ' ' && !read_comment(f, text + 2));
            continue;
        }
        if (whole && parse_event(c, text, out, &pid)) {
            if (!f->header.pid)
                f->header.pid = pid;
            return true;
        }
        f->damaged++;
    }
    return false;
}

struct gm_csv_reader *gm_csv_reader_open(struct gm_trace_input *f) {
    struct gm_csv_reader *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->trace = f;
    if (!gm_trace_lines_open(&c->lines, f)) {
        gm_csv_reader_close(c);
        return NULL;
    }
    c->expected = 1;
    f->header.rank = -1;
    f->header.version = GM_TRACE_VERSION;
    gm_trace_lines_next(&c->lines, &(char *){NULL}, &(size_t){0}); /* the names of the columns */
    /* The lines about the process precede the first event. Reading up to it completes the header. */
    c->ended = !read_line(c, &c->spare);
    if (c->ended || push(c, &c->spare))
        return c;
    gm_csv_reader_close(c);
    return NULL;
}

bool gm_csv_reader_next(struct gm_csv_reader *c, struct gm_event *event, int *thread) {
    while (!c->ended && c->count < WINDOW && !(c->count && c->heap[0].event.seq <= c->expected)) {
        c->ended = !read_line(c, &c->spare);
        if (!c->ended && !push(c, &c->spare)) {
            c->trace->damaged++; /* without memory the lines are returned in the order of the file */
            break;
        }
    }
    if (!c->count)
        return false;
    struct line line = pop(c);
    c->expected = line.event.seq + 1;
    *event = line.event;
    *thread = line.thread;
    return true;
}

uint64_t gm_csv_reader_at(const struct gm_csv_reader *c) { return c->lines.at - (c->lines.end - c->lines.begin); }

void gm_csv_reader_close(struct gm_csv_reader *c) {
    if (!c)
        return;
    gm_trace_lines_close(&c->lines);
    free(c->heap);
    free(c);
}
