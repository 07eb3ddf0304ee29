/* gpumem diff: compares two traces by call site and kind of memory, also of two builds of a program.
 *
 * Call sites match by function, and within a function by position: the source line, or the offset in the module where
 * there is none. An edit moves positions. So if a function has equally many positions in both traces, the first of one
 * matches the first of the other, and so on. If it has fewer in one trace and all of them in the other, equal positions
 * match. Otherwise the function is one row. Functions without a name count as one function for each module. */
#include "tools/cli/colour.h"
#include "tools/cli/commands.h"
#include "tools/cli/flags.h"
#include "tools/cli/number_text.h"
#include "tools/cli/shown.h"
#include "tools/cli/trace_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct side {
    uint64_t allocs, bytes, live, peak, leaked_count, leaked, time_ns;
};

struct row {
    struct gm_frame_name name; /* from the trace in which it appeared first */
    enum gm_kind kind;
    bool in[2];
    struct side sides[2];
    size_t group_bytes; /* of the key: function and kind */
    uint64_t position;
    UT_hash_handle hh;
    char key[]; /* function, kind, position */
};

/* Maps a site and kind of the trace being read to its row. */
struct known {
    uint64_t key;
    struct row *row;
    UT_hash_handle hh;
};

struct diff {
    struct gm_observer observer;
    struct gm_reader *definitions[2];
    bool judges, lacks; /* --worse; one of both traces is not whole */
    struct gm_symbols *symbols[2];
    unsigned depths[2];
    int side; /* the trace being read: 0 = A, 1 = B */
    struct row *rows;
    struct known *known, *last;
    struct side totals[2];
    uint64_t device_peaks[2][GM_DEVICES]; /* of live device memory */
};

static struct row *row_of_site(struct diff *d, uint32_t site, enum gm_kind kind) {
    struct gm_frame_name name;
    struct row *row;
    char key[900];
    int group;
    gm_symbols_site(d->symbols[d->side], site, &name);
    uint64_t position = name.line > 0 ? (uint64_t)name.line : name.offset;
    if (name.function[0])
        group = snprintf(key, sizeof key, "%s|%d", name.function, kind);
    else if (name.module[0])
        group = snprintf(key, sizeof key, "?%s|%d", gm_text_base_name(name.module), kind);
    else
        group = snprintf(key, sizeof key, "??%s|%d", name.text, kind);
    snprintf(key + group, sizeof key - (size_t)group, "|%s|%llu", gm_text_base_name(name.file),
             (unsigned long long)position);
    HASH_FIND_STR(d->rows, key, row);
    if (row) {
        row->in[d->side] = true;
        return row;
    }
    size_t length = strlen(key) + 1;
    row = calloc(1, sizeof *row + length);
    if (!row)
        return NULL;
    memcpy(row->key, key, length);
    row->name = name;
    row->kind = kind;
    row->in[d->side] = true;
    row->group_bytes = (size_t)group;
    row->position = position;
    HASH_ADD_STR(d->rows, key, row);
    return row;
}

static struct side *side_of(struct diff *d, uint32_t site, uint8_t kind) {
    uint64_t key = (uint64_t)site << 8 | kind;
    struct known *k = d->last;
    if (!k || k->key != key)
        HASH_FIND(hh, d->known, &key, sizeof key, k);
    if (!k) {
        struct row *row = row_of_site(d, site, (enum gm_kind)kind);
        k = row ? malloc(sizeof *k) : NULL;
        if (!k)
            return NULL;
        *k = (struct known){.key = key, .row = row};
        HASH_ADD(hh, d->known, key, sizeof key, k);
    }
    d->last = k;
    return &k->row->sides[d->side];
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    struct side *s = side_of((struct diff *)self, step->block->site, step->block->kind);
    if (!s)
        return false;
    s->allocs++;
    s->bytes += step->block->bytes;
    s->live += step->block->bytes;
    s->time_ns += step->event->duration_ns;
    if (s->live > s->peak)
        s->peak = s->live;
    return true;
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    struct side *s = side_of((struct diff *)self, step->block->site, step->block->kind);
    if (!s)
        return false;
    s->live -= step->block->bytes;
    s->time_ns += step->event->action == GM_ACT_FREE ? step->event->duration_ns : 0;
    return true;
}

static bool alive_at_end(struct gm_observer *self, const struct gm_step *step) {
    struct side *s = side_of((struct diff *)self, step->block->site, step->block->kind);
    if (!s)
        return false;
    s->leaked_count += gm_live_block_is_leak(step->block);
    s->leaked += gm_live_block_is_leak(step->block) ? step->block->bytes : 0;
    return true;
}

/* The peak of a site and kind on several devices is the sum of its peaks there. */
static bool summed(struct gm_observer *self, const struct gm_sum_step *step) {
    struct side *s = side_of((struct diff *)self, step->sum->site, step->sum->kind);
    if (!s)
        return false;
    s->allocs += step->allocs;
    s->bytes += step->bytes;
    uint64_t most = s->live - step->before + step->event->sum.most_live;
    s->live += step->sum->live - step->before;
    if (most > s->peak)
        s->peak = most;
    return true;
}

static bool add_leaks(struct diff *d, const struct gm_analysis *a) {
    bool done = true;
    for (size_t i = 0; i < a->sum_count && done; i++) {
        struct side *s = gm_sum_is_leak(&a->sums[i]) ? side_of(d, a->sums[i].site, a->sums[i].kind) : NULL;
        done = s || !gm_sum_is_leak(&a->sums[i]);
        if (s) {
            s->leaked_count += a->sums[i].count;
            s->leaked += a->sums[i].live;
        }
    }
    return done;
}

static void forget_known(struct diff *d) {
    struct known *k, *next;
    HASH_ITER(hh, d->known, k, next) {
        HASH_DEL(d->known, k);
        free(k);
    }
    d->last = NULL;
}

static void open_side(struct diff *d, const char *path, int side) {
    char error[512];
    d->definitions[side] = gm_reader_open_definitions(path, error, sizeof error);
    if (!d->definitions[side])
        gm_complain("%s", error);
    else if (!(d->symbols[side] = gm_symbols_new(d->definitions[side])))
        gm_complain("%s: out of memory", path);
}

static bool open_sides(struct diff *d, char **paths) {
    for (int side = 0; side < 2; side++) {
        open_side(d, paths[side], side);
        if (!d->symbols[side])
            return false;
        d->depths[side] = gm_symbols_depth(d->symbols[side]);
    }
    unsigned depth = d->depths[0] < d->depths[1] ? d->depths[0] : d->depths[1];
    for (int side = 0; side < 2; side++)
        gm_symbols_limit_depth(d->symbols[side], depth);
    gm_symbols_share_wrappers(d->symbols[0], d->symbols[1]);
    return true;
}

static bool read_side(struct diff *d, const char *path, int side) {
    struct gm_observer *const observers[] = {&d->observer, NULL};
    char error[512];
    struct gm_reader *events = gm_reader_open(path, error, sizeof error);
    struct gm_analysis *a = NULL;
    d->side = side;
    if (!events)
        gm_complain("%s", error);
    else if (!(a = gm_analysis_read(events, observers)))
        gm_complain("%s: out of memory", path);
    if (a)
        d->totals[side] = (struct side){.allocs = a->allocs,
                                        .bytes = a->alloc_bytes,
                                        .peak = a->peak_bytes,
                                        .leaked_count = a->leaked_count,
                                        .leaked = a->leaked_bytes,
                                        .time_ns = a->time_ns};
    for (unsigned device = 0; a && device < GM_DEVICES; device++)
        d->device_peaks[side][device] = a->devices[device].peak;
    bool done = a && add_leaks(d, a);
    if (a && d->judges)
        d->lacks |= !gm_reader_is_whole(events);
    else if (a)
        gm_reader_warn(path, gm_reader_damaged(events));
    gm_analysis_free(a);
    gm_reader_close(events);
    forget_known(d);
    return done;
}

/* ---- matching the positions of a function */

static int by_position(const struct row *a, const struct row *b) {
    size_t bytes = a->group_bytes < b->group_bytes ? a->group_bytes : b->group_bytes;
    int difference = memcmp(a->key, b->key, bytes);
    if (!difference && a->group_bytes != b->group_bytes)
        difference = a->group_bytes < b->group_bytes ? -1 : 1;
    if (!difference)
        difference = strcmp(gm_text_base_name(a->name.file), gm_text_base_name(b->name.file));
    return difference ? difference : (a->position > b->position) - (a->position < b->position);
}

static bool same_group(const struct row *a, const struct row *b) {
    return a->group_bytes == b->group_bytes && !memcmp(a->key, b->key, a->group_bytes);
}

static void add(struct side *sum, const struct side *more) {
    sum->allocs += more->allocs;
    sum->bytes += more->bytes;
    sum->live += more->live;
    sum->peak += more->peak;
    sum->leaked_count += more->leaked_count;
    sum->leaked += more->leaked;
    sum->time_ns += more->time_ns;
}

/* The first position of B in the group becomes the first one of A, and so on. False: no memory. */
static bool match_in_order(struct row *first, const struct row *end, size_t count) {
    struct side *sides = calloc(count, sizeof *sides);
    size_t at = 0;
    if (!sides)
        return false;
    for (struct row *r = first; r != end; r = r->hh.next) {
        if (r->in[1])
            sides[at++] = r->sides[1];
        r->in[1] = r->in[0];
    }
    at = 0;
    for (struct row *r = first; r != end; r = r->hh.next)
        r->sides[1] = r->in[0] ? sides[at++] : (struct side){0};
    free(sides);
    return true;
}

/* Makes one row of the group. Its peaks are sums of peaks. */
static void join(struct row *first, const struct row *end) {
    struct gm_frame_name *name = &first->name;
    const char *module = gm_text_base_name(name->module);
    for (struct row *r = first->hh.next; r != end; r = r->hh.next) {
        for (int side = 0; side < 2; side++) {
            add(&first->sides[side], &r->sides[side]);
            first->in[side] |= r->in[side];
            r->in[side] = false;
        }
    }
    name->file[0] = '\0';
    name->line = 0;
    if (name->function[0])
        snprintf(name->text, sizeof name->text, "%.255s (%.200s)", name->function, module);
    else
        snprintf(name->text, sizeof name->text, "%.255s", module);
}

static bool match_group(struct row *first, const struct row *end) {
    size_t in[2] = {0}, both = 0;
    for (const struct row *r = first; r != end; r = r->hh.next) {
        in[0] += r->in[0];
        in[1] += r->in[1];
        both += r->in[0] && r->in[1];
    }
    if (in[0] == in[1])
        return both == in[0] || match_in_order(first, end, in[0]);
    if (both < in[0] && both < in[1])
        join(first, end);
    return true;
}

static bool match_positions(struct diff *d) {
    struct row *first, *end, *r, *next;
    HASH_SORT(d->rows, by_position);
    for (first = d->rows; first; first = end) {
        for (end = first->hh.next; end && same_group(first, end);)
            end = end->hh.next;
        if (!match_group(first, end)) {
            fputs("gpumem: out of memory\n", stderr);
            return false;
        }
    }
    HASH_ITER(hh, d->rows, r, next) {
        if (r->in[0] || r->in[1])
            continue;
        HASH_DEL(d->rows, r);
        free(r);
    }
    return true;
}

/* ---- printing */

static uint64_t distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

static int by_change(const struct row *a, const struct row *b) {
    const uint64_t x[] = {distance(a->sides[0].peak, a->sides[1].peak), distance(a->sides[0].bytes, a->sides[1].bytes),
                          distance(a->sides[0].leaked, a->sides[1].leaked)},
                   y[] = {distance(b->sides[0].peak, b->sides[1].peak), distance(b->sides[0].bytes, b->sides[1].bytes),
                          distance(b->sides[0].leaked, b->sides[1].leaked)};
    for (int i = 0; i < 3; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? 1 : -1;
    return strcmp(a->key, b->key);
}

struct change {
    char text[40];
};

static struct gm_value signed_text(struct change *room, const char *(*show)(struct gm_text *, uint64_t), uint64_t a,
                                   uint64_t b) {
    struct gm_text text;
    snprintf(room->text, sizeof room->text, "%s%s",
             a == b  ? ""
             : a < b ? "+"
                     : "-",
             a == b ? "." : show(&text, distance(a, b)));
    return GM_T(room->text);
}

/* What is compared in total. The peaks are those of single devices: several are no peak together. */
struct total {
    char name[40], label[24]; /* in JSON; in text */
    const char *(*show)(struct gm_text *, uint64_t);
    uint64_t a, b;
    bool judged; /* by --worse: the time of calls varies */
};
enum { TOTALS_MOST = 6 + GM_DEVICES };

static unsigned list_totals(const struct diff *d, struct total list[TOTALS_MOST]) {
    const struct side *a = &d->totals[0], *b = &d->totals[1];
    unsigned count = 0, devices = 0;
    for (unsigned device = 0; device < GM_DEVICES; device++)
        devices += d->device_peaks[0][device] || d->device_peaks[1][device];
    list[count++] = (struct total){"allocations", "allocations", gm_text_count, a->allocs, b->allocs, true};
    list[count++] = (struct total){"allocated_bytes", "allocated memory", gm_text_bytes, a->bytes, b->bytes, true};
    if (devices < 2)
        list[count++] = (struct total){"peak_live_bytes", "peak live", gm_text_bytes, a->peak, b->peak, true};
    for (unsigned device = 0; devices > 1 && device < GM_DEVICES; device++) {
        uint64_t from = d->device_peaks[0][device], to = d->device_peaks[1][device];
        if (!from && !to)
            continue;
        struct total *t = &list[count++];
        *t = (struct total){.show = gm_text_bytes, .a = from, .b = to, .judged = true};
        snprintf(t->name, sizeof t->name, "peak_live_bytes_device_%u", device);
        snprintf(t->label, sizeof t->label, "peak device %u", device);
    }
    list[count++] =
        (struct total){"leaked_blocks", "leaked blocks", gm_text_count, a->leaked_count, b->leaked_count, false};
    list[count++] = (struct total){"leaked_bytes", "leaked memory", gm_text_bytes, a->leaked, b->leaked, true};
    list[count++] = (struct total){"call_ns", "time in calls", gm_text_time, a->time_ns, b->time_ns, false};
    return count;
}

static void print_totals(const struct diff *d, struct gm_out *out) {
    static const struct gm_column columns[] = {{"what", NULL, GM_CELL_TEXT},         {NULL, "", GM_CELL_TEXT, 16},
                                               {NULL, "A", GM_CELL_RIGHT, 13},       {NULL, "B", GM_CELL_RIGHT, 13},
                                               {NULL, "change", GM_CELL_CHANGE, 13}, {"a", NULL, GM_CELL_NUMBER},
                                               {"b", NULL, GM_CELL_NUMBER}};
    struct total list[TOTALS_MOST];
    unsigned count = list_totals(d, list);
    gm_out_table(out, "totals", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (unsigned i = 0; i < count; i++) {
        const struct total *t = &list[i];
        struct gm_text text[2];
        struct change change;
        gm_out_row(out,
                   (struct gm_value[]){GM_T(t->name), GM_T(t->label), GM_T(t->show(&text[0], t->a)),
                                       GM_T(t->show(&text[1], t->b)), signed_text(&change, t->show, t->a, t->b),
                                       GM_N(t->a), GM_N(t->b)},
                   NULL);
    }
    gm_out_table_end(out);
}

static void print_rows(struct diff *d, struct gm_out *out) {
    static const struct gm_column columns[] = {{NULL, "peak", GM_CELL_CHANGE, 13},
                                               {NULL, "bytes", GM_CELL_CHANGE, 13},
                                               {NULL, "allocations", GM_CELL_CHANGE, 13},
                                               {NULL, "leaked", GM_CELL_CHANGE, 13},
                                               {NULL, "time", GM_CELL_CHANGE, 13},
                                               {"kind", "kind", GM_CELL_TEXT},
                                               {"a_allocations", NULL, GM_CELL_NUMBER},
                                               {"b_allocations", NULL, GM_CELL_NUMBER},
                                               {"a_bytes", NULL, GM_CELL_NUMBER},
                                               {"b_bytes", NULL, GM_CELL_NUMBER},
                                               {"a_peak_bytes", NULL, GM_CELL_NUMBER},
                                               {"b_peak_bytes", NULL, GM_CELL_NUMBER},
                                               {"a_leaked_blocks", NULL, GM_CELL_NUMBER},
                                               {"b_leaked_blocks", NULL, GM_CELL_NUMBER},
                                               {"a_leaked_bytes", NULL, GM_CELL_NUMBER},
                                               {"b_leaked_bytes", NULL, GM_CELL_NUMBER},
                                               {"a_ns", NULL, GM_CELL_NUMBER},
                                               {"b_ns", NULL, GM_CELL_NUMBER}};
    HASH_SORT(d->rows, by_change);
    gm_out_table(out, "sites", columns, sizeof columns / sizeof *columns);
    for (const struct row *r = d->rows; r; r = r->hh.next) {
        const struct side *a = &r->sides[0], *b = &r->sides[1];
        struct gm_site_names place = {&r->name, 1};
        struct change c[5];
        if (!out->json && a->allocs == b->allocs && a->bytes == b->bytes && a->peak == b->peak &&
            a->leaked == b->leaked)
            continue;
        gm_out_row(out,
                   (struct gm_value[]){signed_text(&c[0], gm_text_bytes, a->peak, b->peak),
                                       signed_text(&c[1], gm_text_bytes, a->bytes, b->bytes),
                                       signed_text(&c[2], gm_text_count, a->allocs, b->allocs),
                                       signed_text(&c[3], gm_text_bytes, a->leaked, b->leaked),
                                       signed_text(&c[4], gm_text_time, a->time_ns, b->time_ns),
                                       GM_T(gm_kind_name(r->kind)), GM_N(a->allocs), GM_N(b->allocs), GM_N(a->bytes),
                                       GM_N(b->bytes), GM_N(a->peak), GM_N(b->peak), GM_N(a->leaked_count),
                                       GM_N(b->leaked_count), GM_N(a->leaked), GM_N(b->leaked), GM_N(a->time_ns),
                                       GM_N(b->time_ns)},
                   &place);
    }
    gm_out_table_end(out);
}

/* ---- the command */

struct options {
    unsigned long top, percent;
    bool json, judge;
};

static int take(void *options, const char *name, const char *value) {
    struct options *o = options;
    if (!strcmp(name, "top"))
        return gm_flag_count("diff", name, value, 1, 1000000, &o->top);
    if (!strcmp(name, "worse")) {
        o->judge = true;
        return gm_flag_count("diff", name, value, 0, 1000000, &o->percent);
    }
    o->json |= !strcmp(name, "json");
    return 0;
}

void gm_command_diff_help(void) {
    puts("usage: gpumem diff [OPTION...] A B\n\n"
         "Prints what changed from trace A to trace B, in total and by call site and kind of memory. Call sites match "
         "by\nfunction and line, also between two builds of a program.\n");
    gm_flags_help("diff");
}

static int judge(const struct diff *d, unsigned long percent) {
    struct total list[TOTALS_MOST];
    unsigned count = list_totals(d, list);
    int status = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct total *t = &list[i];
        if (!t->judged || (double)t->b <= (double)t->a * (1 + (double)percent / 100))
            continue;
        struct gm_text grown, from, to;
        gm_complain("%s grew by %s, from %s to %s, more than %lu %%", t->label, t->show(&grown, t->b - t->a),
                    t->show(&from, t->a), t->show(&to, t->b), percent);
        status = GM_EXIT_CHECK;
    }
    return d->lacks && !status ? GM_EXIT_UNPROVEN : status;
}

static void print_depths(const struct diff *d, struct gm_out *out) {
    bool b = d->depths[1] < d->depths[0];
    if (d->depths[0] != d->depths[1])
        gm_out_note(out, "the call sites of %c have at most %u stack frames: further frames of %c are ignored",
                    b ? 'B' : 'A', d->depths[b] + 1, b ? 'A' : 'B');
}

static void print_summaries(const struct diff *d, struct gm_out *out) {
    for (int side = 0; side < 2; side++)
        if (gm_reader_header(d->definitions[side])->summary_ns)
            gm_out_note(out, "%c is a summary, which has no single blocks and no time in calls", "AB"[side]);
}

static int print(struct diff *d, const struct options *o) {
    struct gm_report_json *json = o->json ? gm_report_json_begin() : NULL;
    struct gm_out out = {.top = (unsigned)o->top, .json = json ? gm_report_json_document(json) : NULL};
    if (o->json && !json) {
        fputs("gpumem: out of memory\n", stderr);
        return 1;
    }
    gm_out_section(&out, "diff", "FROM A TO B");
    print_depths(d, &out);
    print_summaries(d, &out);
    print_totals(d, &out);
    if (!json)
        gm_print_heading("BY CALL SITE AND KIND (changes; each row has its own peak)");
    print_rows(d, &out);
    bool written = !json || gm_report_json_end(json);
    if (fflush(stdout) || ferror(stdout) || !written) {
        fputs("gpumem: cannot write the report\n", stderr);
        return 1;
    }
    return o->judge ? judge(d, o->percent) : 0;
}

int gm_command_diff(int argc, char **argv) {
    struct options options = {.top = 10};
    struct diff d = {.observer = {NULL, created, destroyed, alive_at_end, summed}};
    struct row *row, *next;
    int first, status = gm_flags_read(argc, argv, take, &options, gm_command_diff_help, &first);
    if (status >= 0)
        return status;
    if (first + 2 != argc)
        return gm_usage_error("diff: two traces are needed; usage: gpumem diff [OPTION...] A B");
    if (options.json && !gm_report_json_available())
        return gm_usage_error("diff: this gpumem was built without jansson and has no --json");
    d.judges = options.judge;
    bool read = open_sides(&d, argv + first) && read_side(&d, argv[first], 0) && read_side(&d, argv[first + 1], 1);
    status = read && match_positions(&d) ? print(&d, &options) : 1;
    for (int side = 0; side < 2; side++) {
        gm_symbols_free(d.symbols[side]);
        gm_reader_close(d.definitions[side]);
    }
    HASH_ITER(hh, d.rows, row, next) {
        HASH_DEL(d.rows, row);
        free(row);
    }
    return status;
}
