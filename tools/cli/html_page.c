/* Writes the data of the page as JSON. Tables with many rows are columns of numbers: base64 of numbers in groups of 7
 * bits, the lowest first; the highest bit of a byte says that another one follows. */
#include "tools/cli/html_page.h"

#include "tools/cli/export.h"
#include "tools/cli/number_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* ---- strings */

/* Length of the valid UTF-8 sequence at `p`, 0 = none. */
static unsigned sequence(const unsigned char *p) {
    unsigned length = *p < 0x80                 ? 1
                      : *p >= 0xc2 && *p < 0xe0 ? 2
                      : *p >= 0xe0 && *p < 0xf0 ? 3
                      : *p >= 0xf0 && *p < 0xf5 ? 4
                                                : 0;
    for (unsigned i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool long_form = (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xf0 && p[1] < 0x90);
    bool no_character = (*p == 0xed && p[1] >= 0xa0) || (*p == 0xf4 && p[1] >= 0x90);
    return long_form || no_character ? 0 : length;
}

/* No character of the string can end the element of the page that holds it. */
static void put_string(FILE *out, const char *text) {
    putc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        unsigned length = sequence(p);
        if (!length)
            fputs("\\ufffd", out);
        else if (length == 1 && (*p < 0x20 || *p == 0x7f || strchr("\"\\<>&'", *p)))
            fprintf(out, "\\u%04x", *p);
        else
            fwrite(p, 1, length, out);
        p += length ? length : 1;
    }
    putc('"', out);
}

static void put_text(FILE *out, const char *name, const char *value) {
    fprintf(out, "\"%s\":", name);
    put_string(out, value);
    putc(',', out);
}

static void put_value(FILE *out, const char *name, uint64_t value) { fprintf(out, "\"%s\":%" PRIu64 ",", name, value); }

/* ---- columns of numbers */

struct numbers {
    FILE *out;
    unsigned char bytes[3];
    unsigned count;
};

static void put_byte(struct numbers *n, unsigned char byte) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    n->bytes[n->count++] = byte;
    if (n->count < 3)
        return;
    unsigned bits = (unsigned)n->bytes[0] << 16 | (unsigned)n->bytes[1] << 8 | n->bytes[2];
    char text[4];
    for (int i = 0; i < 4; i++)
        text[i] = digits[bits >> (18 - 6 * i) & 63];
    fwrite(text, 1, sizeof text, n->out);
    n->count = 0;
}

static void put_number(struct numbers *n, uint64_t value) {
    for (; value > 127; value >>= 7)
        put_byte(n, (unsigned char)(value | 128));
    put_byte(n, (unsigned char)value);
}

static struct numbers begin_numbers(FILE *out, const char *name) {
    fprintf(out, "\"%s\":\"", name);
    return (struct numbers){.out = out};
}

/* Fills the last group of digits with zeros, which the reader of the columns ignores. */
static void end_numbers(struct numbers *n) {
    while (n->count)
        put_byte(n, 0);
    putc('"', n->out);
}

static void put_rows(FILE *out, const struct gm_timeline *t, const struct gm_timeline_rows *rows) {
    struct numbers n = begin_numbers(out, "rows");
    for (size_t i = 0, of = 0; of < t->interval_count; of++) {
        size_t end = i;
        while (end < rows->count && rows->list[end].interval == of)
            end++;
        put_number(&n, end - i);
        for (uint32_t last = 0; i < end; i++) {
            const struct gm_timeline_row *r = &rows->list[i];
            const uint64_t values[] = {r->series - last, r->allocs,       r->bytes,           r->frees,
                                       r->freed_bytes,   r->temporary,    r->temporary_bytes, r->leaked,
                                       r->leaked_bytes,  r->live_at_peak, r->live_at_end,     r->most_live};
            for (size_t j = 0; j < sizeof values / sizeof *values; j++)
                put_number(&n, values[j]);
            last = r->series;
        }
    }
    end_numbers(&n);
}

static void put_intervals(FILE *out, const struct gm_timeline *t) {
    struct numbers n = begin_numbers(out, "intervals");
    for (unsigned i = 0; i < t->interval_count; i++) {
        uint64_t begin = i * t->interval_ns, peak_ns = t->intervals[i].peak_ns;
        put_number(&n, peak_ns > begin ? peak_ns - begin : 0);
        put_number(&n, t->intervals[i].peak_bytes);
        put_number(&n, t->intervals[i].end_bytes);
        put_number(&n, t->intervals[i].kept);
        put_number(&n, t->intervals[i].reserved);
        put_number(&n, t->intervals[i].untracked);
    }
    end_numbers(&n);
    putc(',', out);
}

/* ---- call sites */

struct text {
    uint32_t index;
    UT_hash_handle hh;
    char text[];
};

struct texts {
    struct text *by_text;
    FILE *out;
    bool failed;
};

/* Writes a text once and returns its number. */
static uint32_t text_of(struct texts *t, const char *text) {
    struct text *found;
    size_t length = strlen(text);
    HASH_FIND(hh, t->by_text, text, length, found);
    if (found)
        return found->index;
    found = malloc(sizeof *found + length + 1);
    if (!found) {
        t->failed = true;
        return 0;
    }
    memcpy(found->text, text, length + 1);
    found->index = HASH_COUNT(t->by_text);
    HASH_ADD_KEYPTR(hh, t->by_text, found->text, length, found);
    if (found->index)
        putc(',', t->out);
    put_string(t->out, found->text);
    return found->index;
}

static void free_texts(struct texts *t) {
    struct text *text, *next;
    HASH_ITER(hh, t->by_text, text, next) {
        HASH_DEL(t->by_text, text);
        free(text);
    }
}

static const char *shown(const struct gm_frame_name *name) { return name->text[0] ? name->text : "unknown site"; }

/* The texts, then for each series the number of its name, of frames, and of each frame, innermost first. */
static bool put_sites(FILE *out, struct gm_symbols *symbols, const struct gm_timeline_rows *sites) {
    struct gm_export x = {.symbols = symbols};
    struct texts texts = {.out = out};
    size_t used = 0, room = 0;
    uint32_t *list = NULL;
    fputs("\"texts\":[", out);
    for (size_t i = 0; i < sites->series_count && !texts.failed; i++) {
        static const struct gm_frame_name other = {.text = "other call sites"};
        struct gm_frame_name site = other;
        const struct gm_frame_name *names = &other;
        unsigned count = 1;
        if (sites->keys[i] != GM_SERIES_OTHER) {
            gm_symbols_site(symbols, (uint32_t)sites->keys[i], &site);
            names = gm_export_stack(&x, (uint32_t)sites->keys[i], &count);
        }
        if (used + count + 2 > room) {
            room = 2 * (used + count + 2);
            uint32_t *grown = realloc(list, room * sizeof *grown);
            if (!grown) {
                texts.failed = true;
                break;
            }
            list = grown;
        }
        list[used++] = text_of(&texts, shown(&site));
        list[used++] = count;
        for (unsigned f = 0; f < count; f++)
            list[used++] = text_of(&texts, shown(&names[f]));
    }
    fputs("],", out);
    struct numbers n = begin_numbers(out, "stacks");
    for (size_t i = 0; i < used; i++)
        put_number(&n, list[i]);
    end_numbers(&n);
    putc(',', out);
    free(list);
    free_texts(&texts);
    return !texts.failed;
}

/* ---- series */

static void put_series_name(FILE *out, enum gm_series_set set, uint64_t key, const struct gm_reader *definitions) {
    static const char *const words[] = {"kinds", "call sites", "phases", "threads"};
    char text[64];
    const char *name = text;
    if (key == GM_SERIES_OTHER)
        snprintf(text, sizeof text, "other %s", words[set]);
    else if (key == GM_SERIES_NONE)
        name = "(no phase)";
    else if (set == GM_SERIES_KIND)
        name = gm_kind_name((enum gm_kind)key);
    else if (set == GM_SERIES_THREAD)
        snprintf(text, sizeof text, "thread %" PRId64, (int64_t)key);
    else if (!(name = gm_reader_string(definitions, (uint32_t)key)))
        name = "(unknown phase)";
    put_string(out, name);
}

static void put_set(FILE *out, const struct gm_timeline *t, enum gm_series_set set,
                    const struct gm_reader *definitions) {
    const struct gm_timeline_rows *rows = &t->sets[set];
    fprintf(out, "{\"count\":%zu,\"names\":[", rows->series_count);
    for (size_t i = 0; i < rows->series_count && set != GM_SERIES_SITE; i++) { /* sites: see put_sites */
        fputs(i ? "," : "", out);
        put_series_name(out, set, rows->keys[i], definitions);
    }
    fputs("],\"on_device\":[", out);
    for (size_t i = 0; i < rows->series_count && set == GM_SERIES_KIND; i++)
        fprintf(out, "%s%d", i ? "," : "", gm_kind_is_on_device((enum gm_kind)rows->keys[i]));
    fputs("],\"colours\":[", out);
    for (size_t i = 0; i < rows->series_count && set == GM_SERIES_KIND; i++) {
        fputs(i ? "," : "", out);
        put_string(out, gm_kind_colour((enum gm_kind)rows->keys[i]));
    }
    fputs("],", out);
    put_rows(out, t, rows);
    putc('}', out);
}

/* ---- blocks */

struct place {
    uint64_t key;
    uint32_t index;
    UT_hash_handle hh;
};

/* The index of each key of a set, by key. */
static struct place *places_of(const struct gm_timeline_rows *rows, struct place **by_key) {
    struct place *list = calloc(rows->series_count + 1, sizeof *list);
    for (size_t i = 0; list && i < rows->series_count; i++) {
        list[i] = (struct place){.key = rows->keys[i], .index = (uint32_t)i};
        HASH_ADD(hh, *by_key, key, sizeof list->key, &list[i]);
    }
    return list;
}

static uint32_t index_of(struct place *by_key, uint64_t key) {
    static const uint64_t other = GM_SERIES_OTHER;
    struct place *found;
    HASH_FIND(hh, by_key, &key, sizeof key, found);
    if (!found)
        HASH_FIND(hh, by_key, &other, sizeof other, found);
    return found ? found->index : 0;
}

static bool put_blocks(FILE *out, const struct gm_timeline *t) {
    struct place *by_key[GM_SERIES_SETS] = {NULL}, *lists[GM_SERIES_SETS];
    bool done = true;
    for (int i = 0; i < GM_SERIES_SETS; i++)
        done &= (lists[i] = places_of(&t->sets[i], &by_key[i])) != NULL;
    struct numbers n = begin_numbers(out, "blocks");
    for (size_t i = 0; done && i < t->block_count; i++) {
        const struct gm_live_block *b = &t->blocks[i].block;
        uint64_t ended = t->blocks[i].ended_ns, lived = ended > b->created_ns ? ended - b->created_ns : 0;
        const uint64_t values[] = {b->number,
                                   gm_live_block_address(b) >> 32,
                                   gm_live_block_address(b) & UINT32_MAX,
                                   b->bytes,
                                   b->slack,
                                   b->created_ns,
                                   ended == UINT64_MAX ? 0 : lived + 1, /* 0: alive at the end */
                                   index_of(by_key[GM_SERIES_KIND], b->kind),
                                   index_of(by_key[GM_SERIES_SITE], b->site),
                                   t->blocks[i].phase,
                                   index_of(by_key[GM_SERIES_THREAD], (uint64_t)(int64_t)b->thread),
                                   (uint64_t)(b->device + 1),
                                   b->call,
                                   gm_live_block_is_leak(b) && ended == UINT64_MAX};
        for (size_t j = 0; j < sizeof values / sizeof *values; j++)
            put_number(&n, values[j]);
    }
    end_numbers(&n);
    for (int i = 0; i < GM_SERIES_SETS; i++) {
        HASH_CLEAR(hh, by_key[i]);
        free(lists[i]);
    }
    return done;
}

/* ---- the page */

static void put_trace(FILE *out, const char *path, const struct gm_trace_header *h, const struct gm_timeline *t) {
    const struct gm_analysis *a = t->analysis;
    put_text(out, "file", gm_text_base_name(path));
    put_text(out, "program", h->program);
    put_text(out, "host", h->host);
    put_text(out, "policy", h->policy);
    put_text(out, "library", h->library);
    fprintf(out, "\"pid\":%d,\"rank\":%d,\"finished\":%u,", h->pid, h->rank, h->finished ? 1 : 0);
    put_value(out, "lost", h->dropped);
    put_value(out, "events", a->events);
    put_value(out, "end_ns", a->end_ns);
    put_value(out, "interval_ns", t->interval_ns);
    put_value(out, "interval_count", t->interval_count);
    put_value(out, "peak_bytes", a->peak_bytes);
    put_value(out, "peak_ns", a->peak_ns);
    put_value(out, "failed", a->failed_allocs);
    put_value(out, "summary_ns", h->summary_ns);
    put_value(out, "beyond_measured", a->untracked.count);
    put_value(out, "beyond_shared", a->untracked.shared);
}

static void put_calls(FILE *out) {
    fputs("\"calls\":[", out);
    for (int i = 0; i < GM_CALL_COUNT; i++) {
        fputs(i ? "," : "", out);
        put_string(out, gm_call_name((enum gm_call)i));
    }
    fputs("],", out);
}

bool gm_html_write(FILE *out, const char *path, const struct gm_reader *definitions, struct gm_symbols *symbols,
                   const struct gm_timeline *t) {
    fwrite(gm_html_before, 1, gm_html_before_bytes, out);
    putc('{', out);
    put_trace(out, path, gm_reader_header(definitions), t);
    put_intervals(out, t);
    put_calls(out);
    put_value(out, "block_count", t->block_count);
    bool done = put_sites(out, symbols, &t->sets[GM_SERIES_SITE]);
    fputs("\"sets\":[", out);
    for (int i = 0; i < GM_SERIES_SETS; i++) {
        fputs(i ? "," : "", out);
        put_set(out, t, (enum gm_series_set)i, definitions);
    }
    fputs("],", out);
    done = put_blocks(out, t) && done;
    putc('}', out);
    fwrite(gm_html_after, 1, gm_html_after_bytes, out);
    return done;
}
