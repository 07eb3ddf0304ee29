/* Writes the data of the page as JSON. Tables with many rows are columns of numbers: base64 of numbers in groups of 7
 * bits, the lowest first; the highest bit of a byte says that another one follows. */
#include "tools/cli/html_page.h"

#include "tools/cli/cuda_result.h"
#include "tools/cli/export.h"
#include "tools/cli/number_text.h"
#include "tools/cli/shown.h"
#include "tools/cli/trace_window.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* ---- strings */

/* No character of the string can end the element of the page that holds it. */
static void put_string(FILE *out, const char *text) {
    putc('"', out);
    for (const char *p = GM_SHOWN(text); *p; p++)
        if (strchr("\"\\<>&'", *p))
            fprintf(out, "\\u%04x", *p);
        else
            putc(*p, out);
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

static void put_rows(FILE *out, const struct gm_timeline *t) {
    struct numbers n = begin_numbers(out, "rows");
    for (size_t i = 0, of = 0; of < t->interval_count; of++) {
        size_t end = i;
        while (end < t->row_count && t->rows[end].interval == of)
            end++;
        put_number(&n, end - i);
        for (uint32_t last = 0; i < end; i++) {
            const struct gm_timeline_row *r = &t->rows[i];
            const uint64_t values[] = {
                r->series - last,       r->allocs,          r->bytes,    r->frees,        r->freed_bytes,
                r->temporary,           r->temporary_bytes, r->leaked,   r->leaked_bytes, r->live_at_peak,
                r->live_at_device_peak, r->live_at_end,     r->most_live};
            for (size_t j = 0; j < sizeof values / sizeof *values; j++)
                put_number(&n, values[j]);
            last = r->series;
        }
    }
    end_numbers(&n);
    putc(',', out);
}

static void put_intervals(FILE *out, const struct gm_timeline *t, unsigned view) {
    const struct gm_interval *interval = &t->intervals[(size_t)view * t->interval_count];
    struct numbers n = begin_numbers(out, "intervals");
    for (unsigned i = 0; i < t->interval_count; i++, interval++) {
        uint64_t begin = i * t->interval_ns;
        put_number(&n, interval->peak_ns > begin ? interval->peak_ns - begin : 0);
        put_number(&n, interval->peak_bytes);
        put_number(&n, interval->end_bytes);
        put_number(&n, interval->kept);
        put_number(&n, interval->reserved);
        put_number(&n, interval->untracked);
    }
    end_numbers(&n);
}

/* What is to be subtracted. */
static void put_less(FILE *out, const char *comma, const char *name, const char *meaning, uint64_t fullest,
                     uint64_t last) {
    if (!fullest && !last)
        return;
    fprintf(out, "%s{", comma);
    put_text(out, "name", name);
    put_text(out, "meaning", meaning);
    fprintf(out, "\"fullest\":-%" PRIu64 ",\"last\":-%" PRIu64 "}", fullest, last);
}

/* The rows of the accounts add up to the device's memory. */
static void put_account(FILE *out, const struct gm_accounts *accounts) {
    const struct gm_account *fullest = &accounts->fullest, *last = &accounts->latest;
    const char *comma = "";
    fputs("\"account\":[", out);
    for (int row = 0; fullest->taken_ns && row < GM_ACCOUNT_ROWS; row++) {
        enum gm_account_row r = (enum gm_account_row)row;
        if (!gm_account_shows(fullest, r) && !gm_account_shows(last, r))
            continue;
        fprintf(out, "%s{", comma);
        put_text(out, "name", gm_account_label(fullest, r));
        put_text(out, "meaning", gm_account_meaning(fullest, r));
        put_value(out, "fullest", fullest->rows[r]);
        fprintf(out, "\"last\":%" PRIu64 "}", last->rows[r]);
        comma = ",";
    }
    put_less(out, comma, GM_ACCOUNT_SUSPENDED, GM_ACCOUNT_SUSPENDED_MEANING, fullest->suspended, last->suspended);
    put_less(out, comma, GM_ACCOUNT_ELSEWHERE, GM_ACCOUNT_ELSEWHERE_MEANING, fullest->elsewhere, last->elsewhere);
    fprintf(out, "],\"ran_out\":%d,", accounts->failed);
}

/* Of all devices together, then of each if there are several. */
static void put_devices(FILE *out, const struct gm_timeline *t, const struct gm_reader *definitions) {
    unsigned views = t->device_count > 1 ? t->device_count + 1 : 1;
    fputs("\"devices\":[", out);
    for (unsigned view = 0; view < views; view++) {
        struct gm_device d = {.name = ""}, found;
        int device = view ? (int)t->devices[view - 1] : views == 1 && t->device_count ? (int)t->devices[0] : -1;
        for (unsigned i = 0; device >= 0 && gm_reader_device(definitions, i, &found); i++)
            if (found.device == device)
                d = found;
        fprintf(out, "%s{\"device\":%d,", view ? "," : "", device);
        put_text(out, "name", d.name);
        put_value(out, "bytes", d.total);
        if (device >= 0)
            put_account(out, &t->analysis->devices[gm_device_index(device)].accounts);
        put_intervals(out, t, view);
        putc('}', out);
    }
    fputs("],", out);
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

/* Numbers in the order of their first use, by key. */
struct place {
    uint64_t key;
    uint32_t index;
    UT_hash_handle hh;
};

static bool place_of(struct place **by_key, uint64_t key, uint32_t *index, bool *fresh) {
    struct place *found;
    HASH_FIND(hh, *by_key, &key, sizeof key, found);
    *fresh = !found;
    if (!found && (found = malloc(sizeof *found))) {
        *found = (struct place){.key = key, .index = HASH_COUNT(*by_key)};
        HASH_ADD(hh, *by_key, key, sizeof key, found);
    }
    *index = found ? found->index : 0;
    return found;
}

static void free_places(struct place *by_key) {
    struct place *place, *next;
    HASH_ITER(hh, by_key, place, next) {
        HASH_DEL(by_key, place);
        free(place);
    }
}

struct list {
    uint32_t *numbers;
    size_t used, room;
};

static bool list_add(struct list *list, uint32_t number) {
    if (list->used == list->room) {
        size_t room = list->room ? 2 * list->room : 1024;
        uint32_t *grown = realloc(list->numbers, room * sizeof *grown);
        if (!grown)
            return false;
        list->numbers = grown;
        list->room = room;
    }
    list->numbers[list->used++] = number;
    return true;
}

static void put_list(FILE *out, const char *name, const struct list *list) {
    struct numbers n = begin_numbers(out, name);
    for (size_t i = 0; i < list->used; i++)
        put_number(&n, list->numbers[i]);
    end_numbers(&n);
    putc(',', out);
}

static bool add_site(struct gm_symbols *symbols, uint64_t key, struct texts *texts, struct list *stacks) {
    static const struct gm_frame_name other = {.text = "other call sites"};
    struct gm_export x = {.symbols = symbols};
    struct gm_frame_name site = other;
    const struct gm_frame_name *names = &other;
    unsigned count = 1;
    if (key != GM_SERIES_OTHER) {
        gm_symbols_site(symbols, (uint32_t)key, &site);
        names = gm_export_stack(&x, (uint32_t)key, &count);
    }
    bool done = list_add(stacks, text_of(texts, shown(&site))) && list_add(stacks, count);
    for (unsigned f = 0; f < count && done; f++)
        done = list_add(stacks, text_of(texts, shown(&names[f])));
    return done && !texts->failed;
}

static const char *phase_name(uint64_t key, const struct gm_reader *definitions) {
    const char *name = key == GM_SERIES_NONE ? "(no phase)" : gm_reader_string(definitions, (uint32_t)key);
    return name ? name : "(unknown phase)";
}

static uint32_t text_of_phase(struct texts *texts, uint64_t key, const struct gm_reader *definitions) {
    return text_of(texts, phase_name(key, definitions));
}

/* "texts"; "stacks": for each call site the number of its name, of frames, and of each frame, innermost first;
 * "series": kind, device, call site, text of the phase, thread of each; "failures", "phases". */
static bool put_names(FILE *out, const struct gm_timeline *t, struct gm_symbols *symbols,
                      const struct gm_reader *definitions) {
    struct texts texts = {.out = out};
    struct list stacks = {0}, series = {0}, failures = {0};
    struct place *sites = NULL;
    uint32_t site;
    bool done = true, fresh;
    fputs("\"texts\":[", out);
    for (size_t i = 0; i < t->series_count && done; i++) {
        const struct gm_series *s = &t->series[i];
        done = place_of(&sites, s->site, &site, &fresh) && (!fresh || add_site(symbols, s->site, &texts, &stacks)) &&
               list_add(&series, s->kind) && list_add(&series, s->device) && list_add(&series, site) &&
               list_add(&series, text_of_phase(&texts, s->phase, definitions)) &&
               list_add(&series, (uint32_t)s->thread);
    }
    for (unsigned i = 0; i < t->analysis->failure_count && done; i++) {
        const struct gm_failure *f = &t->analysis->failures[i];
        done = place_of(&sites, f->site, &site, &fresh) && (!fresh || add_site(symbols, f->site, &texts, &stacks)) &&
               list_add(&failures, site);
    }
    struct list phases = {0};
    for (size_t i = 0; i < t->phase_count && done; i++)
        done = list_add(&phases, text_of_phase(&texts, t->phases[i].phase.text, definitions));
    fputs("],", out);
    put_list(out, "stacks", &stacks);
    put_list(out, "series", &series);
    put_list(out, "failed_at", &failures);
    put_list(out, "phase_texts", &phases);
    free(stacks.numbers);
    free(series.numbers);
    free(failures.numbers);
    free(phases.numbers);
    free_places(sites);
    free_texts(&texts);
    return done && !texts.failed;
}

static void put_phases(FILE *out, const struct gm_timeline *t) {
    struct numbers n = begin_numbers(out, "phases");
    for (size_t i = 0; i < t->phase_count; i++) {
        const struct gm_timeline_phase *p = &t->phases[i];
        put_number(&n, p->phase.begin_ns);
        put_number(&n, p->ended_ns - p->phase.begin_ns);
        put_number(&n, p->phase.depth);
        put_number(&n, (uint32_t)p->phase.thread);
        put_number(&n, p->phase.kind == GM_PHASE_NESTED);
    }
    end_numbers(&n);
    putc(',', out);
}

static void put_failures(FILE *out, const struct gm_analysis *a) {
    fputs("\"failures\":[", out);
    for (unsigned i = 0; i < a->failure_count; i++) {
        const struct gm_failure *f = &a->failures[i];
        fprintf(out, "%s{\"time_ns\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"live\":%" PRIu64 ",\"device\":%d,\"call\":%d,",
                i ? "," : "", f->time_ns, f->bytes, f->live_bytes, f->device, f->call);
        fprintf(out, "\"alloc\":%d,\"result\":\"%u %s\"}", f->action == GM_ACT_ALLOC_FAIL, f->result,
                gm_result_name(f->result));
    }
    fputs("],", out);
}

/* ---- blocks */

static void put_blocks(FILE *out, const struct gm_timeline *t) {
    struct numbers n = begin_numbers(out, "blocks");
    for (size_t i = 0; i < t->block_count; i++) {
        const struct gm_live_block *b = &t->blocks[i].block;
        uint64_t ended = t->blocks[i].ended_ns, lived = ended > b->created_ns ? ended - b->created_ns : 0;
        const uint64_t values[] = {b->number,
                                   gm_live_block_address(b) >> 32,
                                   gm_live_block_address(b) & UINT32_MAX,
                                   b->bytes,
                                   b->slack,
                                   b->created_ns,
                                   ended == UINT64_MAX ? 0 : lived + 1, /* 0: alive at the end */
                                   t->blocks[i].series,
                                   b->call,
                                   gm_live_block_is_leak(b) && ended == UINT64_MAX};
        for (size_t j = 0; j < sizeof values / sizeof *values; j++)
            put_number(&n, values[j]);
    }
    end_numbers(&n);
}

/* ---- the page */

static void put_trace(FILE *out, const char *path, const struct gm_trace_header *h, const struct gm_timeline *t) {
    const struct gm_analysis *a = t->analysis;
    put_text(out, "file", gm_text_base_name(path));
    put_text(out, "program", h->program);
    put_text(out, "host", h->host);
    put_text(out, "policy", h->policy);
    put_text(out, "library", h->library);
    fprintf(out, "\"pid\":%d,\"rank\":%d,\"finished\":%u,", h->pid, h->rank, t->finished);
    put_value(out, "lost", h->dropped);
    put_value(out, "from_ns", gm_window.from_ns);
    put_value(out, "until_ns", gm_window.until_ns == UINT64_MAX ? 0 : gm_window.until_ns);
    put_value(out, "min_bytes", gm_window.min_bytes);
    put_value(out, "events", a->events);
    put_value(out, "end_ns", a->end_ns);
    put_value(out, "interval_ns", t->interval_ns);
    put_value(out, "interval_count", t->interval_count);
    put_value(out, "epoch_ns", h->epoch_ns);
    put_value(out, "peak_bytes", a->peak_bytes);
    put_value(out, "peak_ns", a->peak_ns);
    put_value(out, "failed", a->failed_allocs);
    put_value(out, "leaked_bytes", a->leaked_bytes);
    put_value(out, "summary_ns", h->summary_ns);
    put_value(out, "beyond_measured", a->untracked.count);
    put_value(out, "beyond_shared", a->untracked.shared);
}

/* ---- names that all traces share */

static void put_shared(FILE *out) {
    fputs("\"calls\":[", out);
    for (int i = 0; i < GM_CALL_COUNT; i++) {
        fputs(i ? "," : "", out);
        put_string(out, gm_call_name((enum gm_call)i));
    }
    fputs("],\"kinds\":[", out);
    for (int i = 0; i < GM_KIND_COUNT; i++) {
        fprintf(out, "%s{\"on_device\":%d,", i ? "," : "", gm_kind_is_on_device((enum gm_kind)i));
        put_text(out, "name", gm_kind_name((enum gm_kind)i));
        fprintf(out, "\"colour\":\"%s\"}", gm_kind_colour((enum gm_kind)i));
    }
    fputs("],", out);
}

void gm_html_begin(FILE *out, bool compare) {
    fwrite(gm_html_before, 1, gm_html_before_bytes, out);
    putc('{', out);
    put_shared(out);
    fprintf(out, "\"compare\":%d,\"traces\":[", compare);
}

bool gm_html_add(FILE *out, const char *path, const struct gm_reader *definitions, struct gm_symbols *symbols,
                 const struct gm_timeline *t, bool first) {
    fputs(first ? "{" : ",{", out);
    put_trace(out, path, gm_reader_header(definitions), t);
    put_devices(out, t, definitions);
    put_value(out, "block_count", t->block_count);
    put_value(out, "series_count", t->series_count);
    put_value(out, "phase_count", t->phase_count);
    bool done = put_names(out, t, symbols, definitions);
    put_phases(out, t);
    put_failures(out, t->analysis);
    put_rows(out, t);
    put_blocks(out, t);
    putc('}', out);
    return done;
}

void gm_html_end(FILE *out) {
    fputs("]}", out);
    fwrite(gm_html_after, 1, gm_html_after_bytes, out);
}
