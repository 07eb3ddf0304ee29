/* The numbers of the pictures of a trace, whatever its size. The trace is read twice: the first pass learns the extents
 * of the pictures and the lifetime of each block, in one byte for each allocation. The second one fills cells,
 * intervals and bars. Objects are blocks for which the program requested device memory, including those that host
 * memory serves. */
#include "tools/cli/plot_series.h"

#ifdef GM_HAVE_JANSSON
#include "tools/cli/json.h"
#include "tools/cli/lifetime_classes.h"
#include "tools/cli/memory_kinds.h"
#include "tools/cli/phases.h"
#include "tools/cli/read_trace.h"
#include "tools/cli/shown.h"
#include "tools/cli/sort.h"
#include "tools/cli/symbols.h"

#include <stdlib.h>
#include <string.h>

#define BINS       400 /* of a line over time */
#define BANDS      400 /* blocks with the most bytes x time */
#define PHASES     400 /* the longest ones */
#define QUARTERS   32  /* bars of lifetimes from 10 ns to 1 s, four a decade */
#define LONG_BARS  40  /* of lifetimes from 1 s on */
#define LONG_BLOCK UINT64_C(1000000000)

/* A picture's enlarged part, or the whole. */
struct part {
    uint64_t last;                 /* number of the last object that is inside */
    uint64_t objects, sized;       /* sized: those with bytes */
    uint64_t created_ns, ended_ns; /* the latest */
    uint64_t least, most;          /* bytes */
};

struct band {
    double area;
    struct gm_live_block block;
    uint64_t ended_ns; /* UINT64_MAX: never */
};

struct phase {
    uint64_t begin_ns, ended_ns;
    uint32_t text;
};

enum { WHOLE, ZOOMED, PARTS };
enum { ALLOCATED, FREED, SERIES };

/* The values of all lines of a device at one time. A line's own extreme is at a time of its own. */
enum { MANAGED = GM_THRESHOLDS, LINES = 2 * GM_THRESHOLDS }; /* asynchronous, then managed */
struct extremes {
    uint64_t value[LINES], time_ns[LINES];
};
struct kinds_point {
    uint64_t time_ns, total, live[GM_KIND_COUNT];
};
enum { LOW, HIGH, LAST, POINTS };

/* Live bytes on a device: the least, the greatest and the last value of each interval. */
struct device {
    struct bin {
        bool used, has_objects;
        struct extremes lines[POINTS];
        struct kinds_point kinds[POINTS];
    } bins[BINS];
    uint64_t line[LINES]; /* now */
    struct kinds_point now;
    uint64_t peak[GM_KIND_COUNT]; /* of each kind alone */
    unsigned bin;
    bool has_objects;
};

struct series {
    struct gm_observer first, second;
    uint64_t zoom, end_ns;
    struct gm_lifetime_classes classes;
    struct part parts[PARTS];
    uint64_t quarters[QUARTERS], longest_ns, longs[LONG_BARS];
    struct band bands[2 * BANDS];
    unsigned band_count;
    double band_floor; /* no smaller one is among the largest */
    struct phase phases[2 * PHASES];
    unsigned phase_count;
    struct gm_phases *open_phases;
    struct gm_marks objects[PARTS][SERIES], sizes[PARTS][SERIES];
    struct device *devices[GM_DEVICES];
};

#define OF(pass) ((struct series *)((char *)self - offsetof(struct series, pass)))

static bool is_object(const struct gm_live_block *b) { return gm_kind_is_for_device((enum gm_kind)b->kind); }

/* ---- the largest blocks and the longest phases */

static int by_area(const void *x, const void *y) {
    const struct band *a = x, *b = y;
    return a->area < b->area ? 1 : a->area > b->area ? -1 : a->block.number < b->block.number ? -1 : 1;
}

static void cut_bands(struct series *s) {
    gm_sort(s->bands, s->band_count, sizeof s->bands[0], by_area);
    if (s->band_count < BANDS)
        return;
    s->band_count = BANDS;
    s->band_floor = s->bands[BANDS - 1].area;
}

static void note_band(struct series *s, const struct gm_live_block *b, uint64_t until_ns, uint64_t ended_ns) {
    double area = until_ns > b->created_ns ? (double)b->bytes * (double)(until_ns - b->created_ns) : 0;
    if (!b->bytes || area < s->band_floor)
        return;
    s->bands[s->band_count++] = (struct band){area, *b, ended_ns};
    if (s->band_count == 2 * BANDS)
        cut_bands(s);
}

static int by_length(const void *x, const void *y) {
    const struct phase *a = x, *b = y;
    uint64_t m = a->ended_ns - a->begin_ns, n = b->ended_ns - b->begin_ns;
    return m < n ? 1 : m > n ? -1 : a->begin_ns < b->begin_ns ? -1 : a->begin_ns > b->begin_ns;
}

static void cut_phases(struct series *s) {
    gm_sort(s->phases, s->phase_count, sizeof s->phases[0], by_length);
    s->phase_count = s->phase_count < PHASES ? s->phase_count : PHASES;
}

static void note_phase(const struct gm_phase *phase, uint64_t ended_ns, void *arg) {
    struct series *s = arg;
    s->phases[s->phase_count++] = (struct phase){phase->begin_ns, ended_ns, phase->text};
    if (s->phase_count == 2 * PHASES)
        cut_phases(s);
}

/* ---- first pass */

static bool follow_phases(struct gm_observer *self, const struct gm_step *step) {
    return gm_phases_event(OF(first)->open_phases, step->event, step->thread);
}

static void widen(struct part *p, const struct gm_live_block *b) {
    p->objects++;
    p->sized += b->bytes > 0;
    p->last = b->number;
    p->created_ns = b->created_ns > p->created_ns ? b->created_ns : p->created_ns;
    if (!b->bytes)
        return;
    p->least = b->bytes < p->least || !p->least ? b->bytes : p->least;
    p->most = b->bytes > p->most ? b->bytes : p->most;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    struct series *s = OF(first);
    if (!gm_lifetime_classes_begin(&s->classes, step->block->number))
        return false;
    if (is_object(step->block)) {
        widen(&s->parts[WHOLE], step->block);
        if (s->parts[ZOOMED].objects < s->zoom)
            widen(&s->parts[ZOOMED], step->block);
    }
    return true;
}

static void count_lifetime(struct series *s, uint64_t ns) {
    static const uint64_t ends[] = {17783, 31623, 56235, 100000}; /* of a decade's bars, from 10 ns on, in ps */
    unsigned bar = 0;
    if (ns >= LONG_BLOCK) {
        s->longest_ns = ns > s->longest_ns ? ns : s->longest_ns;
        return;
    }
    for (uint64_t scale = 1; bar < QUARTERS - 1 && 1000 * ns >= ends[bar % 4] * scale; bar++)
        scale *= bar % 4 == 3 ? 10 : 1;
    s->quarters[bar]++;
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    struct series *s = OF(first);
    const struct gm_live_block *b = step->block;
    uint64_t lived = gm_lifetime_of(step);
    gm_lifetime_classes_end(&s->classes, b->number, lived);
    if (!is_object(b))
        return true;
    count_lifetime(s, lived);
    note_band(s, b, step->time_ns, step->time_ns);
    for (int part = 0; part < PARTS; part++)
        if (b->number <= s->parts[part].last && step->time_ns > s->parts[part].ended_ns)
            s->parts[part].ended_ns = step->time_ns;
    return true;
}

static bool alive_at_end(struct gm_observer *self, const struct gm_step *step) {
    if (is_object(step->block))
        note_band(OF(first), step->block, step->time_ns, UINT64_MAX);
    return true;
}

/* ---- second pass */

static bool begin_marks(struct series *s) {
    bool done = true;
    for (int part = 0; part < PARTS; part++)
        for (int of = 0; of < SERIES; of++) {
            const struct part *p = &s->parts[part];
            double latest = (double)(p->created_ns > p->ended_ns ? p->created_ns : p->ended_ns);
            double until = (double)(part == WHOLE ? s->end_ns : p->created_ns);
            s->objects[part][of] = (struct gm_marks){1, (double)p->last, 0, latest, false, 0, 0, NULL};
            s->sizes[part][of] = (struct gm_marks){0, until, (double)p->least, (double)p->most, true, 0, 0, NULL};
            done = done && gm_marks_begin(&s->objects[part][of]) && gm_marks_begin(&s->sizes[part][of]);
        }
    return done;
}

static void mark(struct series *s, const struct gm_live_block *b, uint64_t time_ns, int of) {
    for (int part = 0; part < PARTS; part++) {
        const struct part *p = &s->parts[part];
        if (b->number > p->last)
            continue;
        gm_marks_add(&s->objects[part][of], b->number, time_ns, 1);
        if (b->bytes && (part == WHOLE || time_ns <= p->created_ns))
            gm_marks_add(&s->sizes[part][of], time_ns, b->bytes, 1);
    }
}

/* The last values of the interval in which the latest event was. */
static void end_bin(struct device *d) {
    struct bin *bin = &d->bins[d->bin];
    for (unsigned i = 0; i < LINES; i++) {
        bin->lines[LAST].value[i] = d->line[i];
        bin->lines[LAST].time_ns[i] = d->now.time_ns;
    }
    bin->kinds[LAST] = d->now;
}

static struct bin *bin_at(struct series *s, struct device *d, uint64_t time_ns) {
    uint64_t at = (uint64_t)((double)time_ns / (double)(s->end_ns ? s->end_ns : 1) * BINS);
    unsigned now = at < BINS ? (unsigned)at : BINS - 1;
    if (now != d->bin) {
        end_bin(d);
        d->bin = now;
    }
    return &d->bins[now];
}

static void change_kind(struct device *d, struct bin *bin, unsigned kind, uint64_t difference) {
    d->now.live[kind] += difference;
    d->peak[kind] = d->now.live[kind] > d->peak[kind] ? d->now.live[kind] : d->peak[kind];
    d->now.total += difference;
    if (!bin->used || d->now.total < bin->kinds[LOW].total)
        bin->kinds[LOW] = d->now;
    if (!bin->used || d->now.total > bin->kinds[HIGH].total)
        bin->kinds[HIGH] = d->now;
}

/* The first point of an interval: of all lines. */
static void begin_lines(struct device *d, struct bin *bin) {
    memcpy(bin->lines[LOW].value, d->line, sizeof d->line);
    for (unsigned i = 0; i < LINES; i++)
        bin->lines[LOW].time_ns[i] = d->now.time_ns;
    bin->lines[HIGH] = bin->lines[LOW];
    d->has_objects = bin->has_objects = true;
}

/* Lines that rise or fall, in an interval that has points of them. */
static void raise_lines(struct device *d, struct extremes *high, unsigned from, unsigned to, uint64_t bytes) {
    for (unsigned i = from; i < to; i++) {
        uint64_t now = d->line[i] += bytes;
        high->time_ns[i] = now > high->value[i] ? d->now.time_ns : high->time_ns[i];
        high->value[i] = now > high->value[i] ? now : high->value[i];
    }
}

static void lower_lines(struct device *d, struct extremes *low, unsigned from, unsigned to, uint64_t bytes) {
    for (unsigned i = from; i < to; i++) {
        uint64_t now = d->line[i] -= bytes;
        low->time_ns[i] = now < low->value[i] ? d->now.time_ns : low->time_ns[i];
        low->value[i] = now < low->value[i] ? now : low->value[i];
    }
}

/* Of each threshold, one of the two lines changes: the managed one of those that are shorter than the lifetime. */
static void change_lines(struct device *d, struct bin *bin, unsigned class, uint64_t bytes, int of) {
    void (*move)(struct device *, struct extremes *, unsigned, unsigned, uint64_t) =
        of == ALLOCATED ? raise_lines : lower_lines;
    struct extremes *extremes = &bin->lines[of == ALLOCATED ? HIGH : LOW];
    move(d, extremes, class, MANAGED, bytes);
    move(d, extremes, MANAGED, MANAGED + class, bytes);
    if (!bin->has_objects)
        begin_lines(d, bin);
}

/* A block begins or ends. */
static bool change(struct series *s, const struct gm_step *step, int of) {
    const struct gm_live_block *b = step->block;
    struct device **device = &s->devices[gm_device_index(b->device)];
    uint64_t difference = of == ALLOCATED ? b->bytes : 0 - b->bytes;
    if (!*device && !(*device = calloc(1, sizeof **device)))
        return false;
    struct bin *bin = bin_at(s, *device, step->time_ns);
    (*device)->now.time_ns = step->time_ns;
    change_kind(*device, bin, b->kind, difference);
    bin->used = true;
    if (!is_object(b) || b->number > s->classes.count) /* the trace may have grown */
        return true;
    change_lines(*device, bin, s->classes.of[b->number - 1], b->bytes, of);
    mark(s, b, step->time_ns, of);
    return true;
}

static bool again_created(struct gm_observer *self, const struct gm_step *step) {
    return change(OF(second), step, ALLOCATED);
}

static double longest_s(const struct series *s) {
    uint64_t most = (s->longest_ns + LONG_BLOCK - 1) / LONG_BLOCK;
    return most > 2 ? (double)most : 2;
}

static bool again_destroyed(struct gm_observer *self, const struct gm_step *step) {
    struct series *s = OF(second);
    uint64_t lived = gm_lifetime_of(step);
    if (is_object(step->block) && lived >= LONG_BLOCK) {
        unsigned bar = (unsigned)(((double)lived / 1e9 - 1) / (longest_s(s) - 1) * LONG_BARS);
        s->longs[bar < LONG_BARS ? bar : LONG_BARS - 1]++;
    }
    return change(s, step, FREED);
}

/* ---- output */

static json_t *list(const uint64_t *values, size_t count) {
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(all, gm_json_number(values[i]));
    return all;
}

static json_t *marks(struct gm_marks *m) {
    json_t *x = json_array(), *y = json_array(), *counts = json_array();
    size_t used = gm_marks_end(m);
    for (size_t i = 0; i < used; i++) {
        json_array_append_new(x, gm_json_number(m->cells[i].x));
        json_array_append_new(y, gm_json_number(m->cells[i].y));
        json_array_append_new(counts, gm_json_number(m->cells[i].count));
    }
    return json_pack("{s:o, s:o, s:o}", "x", x, "y", y, "count", counts);
}

static json_t *parts(struct series *s) {
    json_t *all = json_array();
    for (int i = 0; i < (s->parts[WHOLE].objects > s->zoom ? PARTS : 1); i++) {
        const struct part *p = &s->parts[i];
        json_array_append_new(all, json_pack("{s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:{s:o, s:o}}", "objects",
                                             gm_json_number(p->objects), "sized", gm_json_number(p->sized), "until_ns",
                                             gm_json_number(i == WHOLE ? s->end_ns : p->created_ns), "least_bytes",
                                             gm_json_number(p->least), "most_bytes", gm_json_number(p->most), "numbers",
                                             "allocated", marks(&s->objects[i][ALLOCATED]), "freed",
                                             marks(&s->objects[i][FREED]), "sizes", "allocated",
                                             marks(&s->sizes[i][ALLOCATED]), "freed", marks(&s->sizes[i][FREED])));
    }
    return all;
}

/* Puts the three points of an interval in the order of their times. */
static void order(const uint64_t times[POINTS], int places[POINTS]) {
    for (int i = 0; i < POINTS; i++) {
        int at = i;
        for (; at > 0 && times[i] < times[places[at - 1]]; at--)
            places[at] = places[at - 1];
        places[at] = i;
    }
}

static json_t *line(const struct device *d, unsigned line) {
    json_t *times = json_array(), *values = json_array();
    for (const struct bin *bin = d->bins; bin < d->bins + BINS; bin++) {
        const struct extremes *at = bin->lines;
        int places[POINTS];
        order((uint64_t[]){at[LOW].time_ns[line], at[HIGH].time_ns[line], at[LAST].time_ns[line]}, places);
        for (int i = 0; i < POINTS && bin->has_objects; i++) {
            json_array_append_new(times, gm_json_number(at[places[i]].time_ns[line]));
            json_array_append_new(values, gm_json_number(at[places[i]].value[line]));
        }
    }
    return json_pack("{s:o, s:o}", "times", times, "bytes", values);
}

static json_t *kinds(const struct device *d) {
    json_t *times = json_array(), *all = json_object(), *peaks = json_object();
    for (int k = -1; k < GM_KIND_COUNT; k++) { /* -1: the times */
        json_t *values = k < 0 ? times : json_array();
        for (const struct bin *bin = d->bins; bin < d->bins + BINS; bin++) {
            const struct kinds_point *at = bin->kinds;
            int places[POINTS];
            order((uint64_t[]){at[LOW].time_ns, at[HIGH].time_ns, at[LAST].time_ns}, places);
            for (int i = 0; i < POINTS && bin->used; i++) {
                uint64_t value = k < 0 ? at[places[i]].time_ns : at[places[i]].live[k];
                json_array_append_new(values, gm_json_number(value));
            }
        }
        if (k >= 0 && d->peak[k]) {
            json_object_set_new(all, gm_kind_name((enum gm_kind)k), values);
            json_object_set_new(peaks, gm_kind_name((enum gm_kind)k), gm_json_number(d->peak[k]));
        } else if (k >= 0) {
            json_decref(values);
        }
    }
    return json_pack("{s:o, s:o, s:o}", "times", times, "bytes", all, "peaks", peaks);
}

static json_t *devices(const struct series *s) {
    json_t *all = json_array();
    for (unsigned i = 0; i < GM_DEVICES; i++) {
        struct device *d = s->devices[i];
        if (!d)
            continue;
        end_bin(d);
        json_t *splits = json_array();
        for (unsigned t = 0; t < GM_THRESHOLDS && d->has_objects; t++)
            json_array_append_new(splits,
                                  json_pack("{s:o, s:o}", "async", line(d, t), "managed", line(d, MANAGED + t)));
        json_array_append_new(all, json_pack("{s:i, s:o, s:o}", "device", (int)i, "kinds", kinds(d), "splits", splits));
    }
    return all;
}

static json_t *bands(struct series *s, struct gm_symbols *symbols) {
    json_t *all = json_array();
    struct gm_frame_name name;
    cut_bands(s);
    for (unsigned i = 0; i < s->band_count; i++) {
        const struct gm_live_block *b = &s->bands[i].block;
        if (!gm_symbols_stack(symbols, b->site, GM_STACK_KNOWN, &name, 1))
            name.text[0] = 0;
        json_array_append_new(
            all, json_pack("{s:o, s:o, s:o, s:o, s:o}", "address", gm_json_number(gm_live_block_address(b)), "bytes",
                           gm_json_number(b->bytes), "created_ns", gm_json_number(b->created_ns), "ended_ns",
                           s->bands[i].ended_ns == UINT64_MAX ? json_null() : gm_json_number(s->bands[i].ended_ns),
                           "site", gm_json_text(name.text)));
    }
    return all;
}

static json_t *phases(struct series *s, const struct gm_reader *definitions) {
    json_t *all = json_array();
    cut_phases(s);
    for (unsigned i = 0; i < s->phase_count; i++) {
        const char *name = gm_reader_string(definitions, s->phases[i].text);
        json_t *text = gm_json_text(name ? name : "");
        json_array_append_new(all,
                              json_pack("[o, o, o]", json_is_null(text) ? json_string("") : text,
                                        gm_json_number(s->phases[i].begin_ns), gm_json_number(s->phases[i].ended_ns)));
    }
    return all;
}

static bool put(struct series *s, json_t *report, const struct gm_reader *definitions, struct gm_symbols *symbols) {
    json_t *all =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:f}, s:o, s:o}", "report", report, "end_ns",
                  gm_json_number(s->end_ns), "phases", phases(s, definitions), "parts", parts(s), "devices", devices(s),
                  "lifetimes", "quarter_decades", list(s->quarters, QUARTERS), "longer", list(s->longs, LONG_BARS),
                  "longest_s", longest_s(s), "bands", bands(s, symbols), "zoom", gm_json_number(s->zoom));
    bool done = all && !json_dumpf(all, stdout, JSON_COMPACT) && putchar('\n') != EOF && !fflush(stdout);
    json_decref(all);
    return done;
}

/* ---- the two passes */

static struct gm_reader *open_trace(const char *path, bool definitions) {
    char error[512];
    struct gm_reader *reader =
        definitions ? gm_reader_open_definitions(path, error, sizeof error) : gm_reader_open(path, error, sizeof error);
    if (!reader)
        gm_complain("%s", error);
    return reader;
}

/* Returns the report, NULL: no memory, or the trace is missing. */
static json_t *read_first(struct series *s, const char *path, struct gm_symbols *symbols) {
    struct gm_plot_report report = {{NULL}};
    struct gm_reader *reader = open_trace(path, false);
    json_t *document = NULL;
    struct gm_observer *observers[GM_PLOT_REPORT_PARTS + 2] = {&s->first};
    struct gm_analysis *a = NULL;
    if (reader && gm_plot_report_begin(&report)) {
        memcpy(observers + 1, report.observers, sizeof report.observers);
        a = gm_analysis_read(reader, observers);
    }
    if (a) {
        s->end_ns = a->end_ns;
        document = gm_plot_report_end(
            &report,
            &(struct gm_report){
                .path = path, .header = gm_reader_header(reader), .reader = reader, .a = a, .symbols = symbols});
    }
    gm_plot_report_free(&report);
    gm_analysis_free(a);
    gm_reader_close(reader);
    return document;
}

static bool read_second(struct series *s, const char *path) {
    struct gm_reader *reader = open_trace(path, false);
    struct gm_analysis *a = reader ? gm_analysis_read_blocks(reader, (struct gm_observer *[]){&s->second, NULL}) : NULL;
    if (a)
        s->end_ns = a->end_ns;
    gm_analysis_free(a);
    gm_reader_close(reader);
    return a != NULL;
}

static void free_series(struct series *s) {
    for (int part = 0; part < PARTS; part++)
        for (int of = 0; of < SERIES; of++) {
            gm_marks_free(&s->objects[part][of]);
            gm_marks_free(&s->sizes[part][of]);
        }
    for (unsigned i = 0; i < GM_DEVICES; i++)
        free(s->devices[i]);
    gm_lifetime_classes_free(&s->classes);
    gm_phases_free(s->open_phases);
    free(s);
}

int gm_plot_series_print(const char *path, uint64_t zoom) {
    struct series *s = calloc(1, sizeof *s);
    struct gm_reader *definitions = open_trace(path, true);
    struct gm_symbols *symbols = definitions ? gm_symbols_new(definitions) : NULL;
    json_t *report = NULL;
    bool done = false;
    if (!s || !symbols || !(s->open_phases = gm_phases_new(note_phase, s)))
        goto out;
    s->zoom = zoom;
    s->first = (struct gm_observer){follow_phases, created, destroyed, alive_at_end};
    s->second = (struct gm_observer){NULL, again_created, again_destroyed};
    if (!(report = read_first(s, path, symbols)))
        goto out;
    gm_phases_end(s->open_phases, s->end_ns);
    done = begin_marks(s) && read_second(s, path) && put(s, report, definitions, symbols);
out:
    gm_symbols_free(symbols);
    gm_reader_close(definitions);
    if (s)
        free_series(s);
    return !done;
}
#else
#include <stdio.h>
int gm_plot_series_print(const char *path, uint64_t zoom) {
    fputs("gpumem: plot: this gpumem was built without jansson and has no numbers to draw\n", stderr);
    return 1;
}
#endif
