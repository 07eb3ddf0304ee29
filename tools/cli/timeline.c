#include "tools/cli/timeline.h"

#include "tools/cli/memory_kinds.h"
#include "tools/cli/phases.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define ROWS_MAX        300000u
#define INTERVALS_LEAST 16u
#define LARGEST         4096u /* blocks of the trace */
#define LARGEST_EACH    16u   /* blocks created in an interval */
#define PHASES          4096u

struct series {
    struct gm_series key;
    uint64_t live;
    uint32_t index, seen, seen_on_device; /* number of the peak whose value the row has */
    bool touched;
    struct gm_timeline_row row; /* of the current interval */
    UT_hash_handle hh;
};

/* The largest blocks seen so far, the smallest of them first. */
struct heap {
    struct gm_timeline_block *list;
    unsigned count, room;
};

struct timeline_pass {
    struct gm_observer observer;
    struct gm_timeline *t;
    struct series *by_key, *last;
    struct series **list;    /* array by index */
    struct series **touched; /* array: the series with a row in the current interval */
    size_t room, touched_count;
    struct gm_phases *phases;
    size_t phase_room;
    uint32_t *series_of; /* array: series by number of the block */
    size_t block_room;
    struct heap largest, *each; /* each: array by interval */
    unsigned interval, views;   /* views: arrays of intervals */
    unsigned view_of[GM_DEVICES];
    /* Of all devices and of each: number of new maxima so far, which shows whether a series changed since. */
    uint32_t peaks[GM_DEVICES + 1];
    struct gm_interval now[GM_DEVICES + 1];
    uint64_t temporary;
    bool full, ended;
};

/* ---- series */

static bool grow_series(struct timeline_pass *p) {
    size_t room = p->room ? 2 * p->room : 64;
    struct series **list = realloc(p->list, room * sizeof *list);
    if (list)
        p->list = list;
    struct series **touched = list ? realloc(p->touched, room * sizeof *touched) : NULL;
    if (!touched)
        return false;
    p->touched = touched;
    p->room = room;
    return true;
}

static struct series *series_of(struct timeline_pass *p, struct gm_series key) {
    struct series *found = p->last;
    if (found && !memcmp(&found->key, &key, sizeof key))
        return found;
    HASH_FIND(hh, p->by_key, &key, sizeof key, found);
    unsigned count = HASH_COUNT(p->by_key);
    if (!found && count >= GM_SERIES_MAX && key.site != GM_SERIES_OTHER)
        return series_of(p, (struct gm_series){GM_SERIES_OTHER, GM_SERIES_NONE, 0, key.kind, key.device, 0});
    if (!found) {
        if (count == p->room && !grow_series(p))
            return NULL;
        found = calloc(1, sizeof *found);
        if (!found)
            return NULL;
        found->key = key;
        found->index = count;
        p->list[count] = found;
        HASH_ADD(hh, p->by_key, key, sizeof found->key, found);
    }
    return p->last = found;
}

static struct gm_timeline_row *touch(struct timeline_pass *p, struct series *series) {
    if (!series->touched) {
        series->touched = true;
        series->row =
            (struct gm_timeline_row){.interval = p->interval, .series = series->index, .most_live = series->live};
        p->touched[p->touched_count++] = series;
    }
    return &series->row;
}

static int by_index(const void *x, const void *y) {
    const struct series *a = *(struct series *const *)x, *b = *(struct series *const *)y;
    return (a->index > b->index) - (a->index < b->index);
}

/* ---- intervals */

static uint32_t peak_on_device(const struct timeline_pass *p, const struct series *series) {
    return p->peaks[p->view_of[series->key.device]];
}

static bool store_rows(struct timeline_pass *p) {
    struct gm_timeline *t = p->t;
    if (t->row_count + p->touched_count > t->row_room) {
        size_t room = 2 * (t->row_count + p->touched_count);
        struct gm_timeline_row *rows = realloc(t->rows, room * sizeof *rows);
        if (!rows)
            return false;
        t->rows = rows;
        t->row_room = room;
    }
    qsort(p->touched, p->touched_count, sizeof *p->touched, by_index);
    for (size_t i = 0; i < p->touched_count; i++) {
        struct series *series = p->touched[i];
        if (series->seen != p->peaks[0])
            series->row.live_at_peak = series->live;
        if (series->seen_on_device != peak_on_device(p, series))
            series->row.live_at_device_peak = series->live;
        series->row.live_at_end = series->live;
        series->touched = false;
        t->rows[t->row_count++] = series->row;
    }
    p->touched_count = 0;
    return true;
}

static struct gm_interval *interval_at(const struct timeline_pass *p, unsigned view) {
    return &p->t->intervals[view * p->t->interval_count + p->interval];
}

static void begin_interval(struct timeline_pass *p, unsigned number) {
    p->interval = number;
    for (unsigned view = 0; view < p->views; view++) {
        p->peaks[view]++;
        *interval_at(p, view) = p->now[view];
        interval_at(p, view)->peak_ns = number * p->t->interval_ns;
        interval_at(p, view)->peak_bytes = p->now[view].end_bytes;
    }
}

static void raise(uint64_t *most, uint64_t value) { *most = value > *most ? value : *most; }

static void note_amounts(struct timeline_pass *p, unsigned view, uint64_t kept, uint64_t reserved, uint64_t untracked) {
    struct gm_interval *interval = interval_at(p, view), *now = &p->now[view];
    now->kept = kept;
    now->reserved = reserved;
    now->untracked = untracked;
    raise(&interval->kept, kept);
    raise(&interval->reserved, reserved);
    raise(&interval->untracked, untracked);
}

/* The totals are so at the latest event. */
static void note_totals(struct timeline_pass *p, const struct gm_analysis *now) {
    note_amounts(p, 0, now->reserved.kept, now->reserved.bytes, now->untracked.bytes);
    for (unsigned view = 1; view < p->views; view++) {
        unsigned device = p->t->devices[view - 1];
        const struct gm_reserved_device *on = &now->reserved.on[device];
        note_amounts(p, view, on->kept, on->bytes, now->devices[device].untracked);
    }
}

static void note_live(struct timeline_pass *p, unsigned view, uint64_t live, uint64_t now_ns) {
    struct gm_interval *interval = interval_at(p, view);
    p->now[view].end_bytes = live;
    if (live <= interval->peak_bytes)
        return;
    interval->peak_bytes = live;
    interval->peak_ns = now_ns;
    p->peaks[view]++;
}

static void note_all_live(struct timeline_pass *p, const struct gm_analysis *now, uint64_t live, uint64_t now_ns) {
    note_live(p, 0, live, now_ns);
    for (unsigned view = 1; view < p->views; view++)
        note_live(p, view, now->devices[p->t->devices[view - 1]].live, now_ns);
}

static bool end_interval(struct timeline_pass *p) {
    for (unsigned view = 0; view < p->views; view++)
        interval_at(p, view)->end_bytes = p->now[view].end_bytes;
    if (!store_rows(p))
        return false;
    p->full = p->t->row_count > ROWS_MAX && p->t->interval_count > INTERVALS_LEAST;
    return !p->full;
}

/* Threads record events slightly out of order: a late one counts for the current interval. */
static bool advance(struct timeline_pass *p, uint64_t time_ns) {
    uint64_t number = time_ns / p->t->interval_ns;
    unsigned to = number < p->t->interval_count ? (unsigned)number : p->t->interval_count - 1;
    if (to <= p->interval)
        return true;
    if (!end_interval(p))
        return false;
    while (p->interval < to)
        begin_interval(p, p->interval + 1);
    return true;
}

/* ---- blocks */

static uint64_t rank(const struct heap *h, unsigned i) { return h->list[i].block.bytes; }

static void swap(struct heap *h, unsigned a, unsigned b) {
    struct gm_timeline_block kept = h->list[a];
    h->list[a] = h->list[b];
    h->list[b] = kept;
}

static bool keep_largest(struct heap *h, const struct gm_timeline_block *b, unsigned most) {
    if (h->count == h->room && h->room < most) {
        unsigned room = h->room ? 2 * h->room : 4;
        struct gm_timeline_block *list = realloc(h->list, room * sizeof *list);
        if (!list)
            return false;
        h->list = list;
        h->room = room;
    }
    if (h->count < most) {
        unsigned i = h->count++;
        h->list[i] = *b;
        for (; i && rank(h, i) < rank(h, (i - 1) / 2); i = (i - 1) / 2)
            swap(h, i, (i - 1) / 2);
        return true;
    }
    if (b->block.bytes <= rank(h, 0))
        return true;
    h->list[0] = *b;
    for (unsigned i = 0, child; (child = 2 * i + 1) < h->count; i = child) {
        child += child + 1 < h->count && rank(h, child + 1) < rank(h, child);
        if (rank(h, child) >= rank(h, i))
            break;
        swap(h, i, child);
    }
    return true;
}

static unsigned interval_of(const struct gm_timeline *t, uint64_t time_ns) {
    uint64_t number = time_ns / t->interval_ns;
    return number < t->interval_count ? (unsigned)number : t->interval_count - 1;
}

static bool keep_block(struct timeline_pass *p, const struct gm_live_block *b, uint64_t ended_ns,
                       const struct series *series) {
    struct gm_timeline_block block = {*b, ended_ns, series->index};
    return keep_largest(&p->largest, &block, LARGEST) &&
           keep_largest(&p->each[interval_of(p->t, b->created_ns)], &block, LARGEST_EACH);
}

/* ---- phases */

static int longest_first(const void *x, const void *y) {
    const struct gm_timeline_phase *a = x, *b = y;
    uint64_t lasted_a = a->ended_ns - a->phase.begin_ns, lasted_b = b->ended_ns - b->phase.begin_ns;
    return (lasted_a < lasted_b) - (lasted_a > lasted_b);
}

static int by_begin(const void *x, const void *y) {
    const struct gm_timeline_phase *a = x, *b = y;
    if (a->phase.begin_ns != b->phase.begin_ns)
        return a->phase.begin_ns < b->phase.begin_ns ? -1 : 1;
    return longest_first(x, y);
}

static void keep_longest(struct gm_timeline *t, size_t most) {
    if (t->phase_count <= most)
        return;
    qsort(t->phases, t->phase_count, sizeof *t->phases, longest_first);
    t->phase_count = most;
}

/* Without memory the page lacks phases, as it does when there are too many. */
static void phase_closed(const struct gm_phase *phase, uint64_t ended_ns, void *arg) {
    struct timeline_pass *p = arg;
    struct gm_timeline *t = p->t;
    if (t->phase_count == p->phase_room) {
        struct gm_timeline_phase *phases = p->phase_room ? NULL : malloc(2 * PHASES * sizeof *phases);
        if (phases) {
            t->phases = phases;
            p->phase_room = 2 * PHASES;
        }
        keep_longest(t, PHASES);
    }
    if (t->phase_count < p->phase_room)
        t->phases[t->phase_count++] = (struct gm_timeline_phase){*phase, ended_ns};
}

static uint64_t phase_of(const struct timeline_pass *p, int thread) {
    const struct gm_phase *open;
    size_t count = gm_phases_open(p->phases, &open);
    while (count && !gm_phase_covers(&open[count - 1], thread))
        count--;
    return count ? open[count - 1].text : GM_SERIES_NONE;
}

/* ---- the observer */

static bool remember_series(struct timeline_pass *p, uint64_t number, const struct series *series) {
    if (number >= p->block_room) {
        size_t room = 2 * number + 64;
        uint32_t *grown = realloc(p->series_of, room * sizeof *grown);
        if (!grown)
            return false;
        p->series_of = grown;
        p->block_room = room;
    }
    p->series_of[number] = series->index;
    return true;
}

static void change_live(const struct timeline_pass *p, struct series *series, uint64_t difference) {
    if (series->seen != p->peaks[0]) {
        series->row.live_at_peak = series->live;
        series->seen = p->peaks[0];
    }
    if (series->seen_on_device != peak_on_device(p, series)) {
        series->row.live_at_device_peak = series->live;
        series->seen_on_device = peak_on_device(p, series);
    }
    series->live += difference;
    if (series->live > series->row.most_live && (int64_t)difference > 0)
        series->row.most_live = series->live;
}

static struct gm_series key_of(const struct gm_live_block *b, uint64_t phase) {
    return (struct gm_series){b->site, phase, b->thread, b->kind, (uint8_t)gm_device_index(b->device), 0};
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    struct timeline_pass *p = (struct timeline_pass *)self;
    const struct gm_live_block *b = step->block;
    if (!advance(p, step->time_ns))
        return false;
    struct series *series = series_of(p, key_of(b, phase_of(p, step->thread)));
    if (!series || !remember_series(p, b->number, series))
        return false;
    struct gm_timeline_row *row = touch(p, series);
    row->allocs++;
    row->bytes += b->bytes;
    change_live(p, series, b->bytes);
    note_all_live(p, step->now, step->now->live_bytes, step->time_ns);
    return true;
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    struct timeline_pass *p = (struct timeline_pass *)self;
    const struct gm_live_block *b = step->block;
    bool freed = step->event->action == GM_ACT_FREE, temporary = step->now->temporary != p->temporary;
    if (!advance(p, step->time_ns))
        return false;
    struct series *series = p->list[p->series_of[b->number]];
    p->temporary = step->now->temporary;
    struct gm_timeline_row *row = touch(p, series);
    row->frees += freed;
    row->freed_bytes += freed ? b->bytes : 0;
    row->temporary += temporary;
    row->temporary_bytes += temporary ? b->bytes : 0;
    change_live(p, series, 0 - b->bytes);
    p->now[0].end_bytes = step->now->live_bytes;
    for (unsigned view = 1; view < p->views; view++)
        p->now[view].end_bytes = step->now->devices[p->t->devices[view - 1]].live;
    return keep_block(p, b, step->time_ns, series);
}

/* A summary knows no phases and threads. */
static struct gm_series key_of_sum(const struct gm_sum *sum) {
    return (struct gm_series){sum->site, GM_SERIES_NONE, 0, sum->kind, (uint8_t)gm_device_index(sum->device), 0};
}

static bool summed(struct gm_observer *self, const struct gm_sum_step *step) {
    struct timeline_pass *p = (struct timeline_pass *)self;
    struct series *series = advance(p, step->event->time_ns) ? series_of(p, key_of_sum(step->sum)) : NULL;
    if (!series)
        return false;
    struct gm_timeline_row *row = touch(p, series);
    row->allocs += step->allocs;
    row->bytes += step->bytes;
    row->frees += step->frees;
    row->freed_bytes += step->freed_bytes;
    change_live(p, series, step->sum->live - step->before);
    return true;
}

/* The leaks of a summary count for the latest interval in which their site was active. */
static void note_leaks(struct timeline_pass *p, const struct gm_analysis *a) {
    for (size_t i = 0; i < a->sum_count; i++) {
        const struct series *series = gm_sum_is_leak(&a->sums[i]) ? series_of(p, key_of_sum(&a->sums[i])) : NULL;
        size_t at = series ? p->t->row_count : 0;
        while (at && p->t->rows[at - 1].series != series->index)
            at--;
        if (!at)
            continue;
        p->t->rows[at - 1].leaked += a->sums[i].count;
        p->t->rows[at - 1].leaked_bytes += a->sums[i].live;
    }
}

/* The totals do not contain this event yet, so they belong to the one before. */
static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct timeline_pass *p = (struct timeline_pass *)self;
    const struct gm_event *e = step->event;
    note_totals(p, step->now);
    if (e->action == GM_ACT_PEAK || e->action == GM_ACT_TOTAL) {
        if (!advance(p, e->time_ns))
            return false;
        note_all_live(p, step->now, e->action == GM_ACT_PEAK ? e->peak.live : e->total.live, e->time_ns);
    }
    return gm_phases_event(p->phases, step->event, step->thread);
}

static bool end_last_interval(struct timeline_pass *p) {
    if (p->ended)
        return true;
    p->ended = true;
    if (!end_interval(p))
        return false;
    while (p->interval + 1 < p->t->interval_count)
        begin_interval(p, p->interval + 1);
    return true;
}

/* The row in which the block was created: that of its interval, or a later one if the event came late. */
static struct gm_timeline_row *row_of(const struct gm_timeline *t, unsigned interval, uint32_t series) {
    size_t low = 0, high = t->row_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct gm_timeline_row *row = &t->rows[middle];
        if (row->interval < interval || (row->interval == interval && row->series < series))
            low = middle + 1;
        else
            high = middle;
    }
    while (low < t->row_count && (t->rows[low].series != series || !t->rows[low].allocs))
        low++;
    return low < t->row_count ? &t->rows[low] : NULL;
}

static bool alive_at_end(struct gm_observer *self, const struct gm_step *step) {
    struct timeline_pass *p = (struct timeline_pass *)self;
    const struct gm_live_block *b = step->block;
    if (!end_last_interval(p))
        return false;
    /* A handle of memory that the program maps has no number. What is not mapped of it leaks. */
    struct series *series = b->number ? p->list[p->series_of[b->number]] : series_of(p, key_of(b, GM_SERIES_NONE));
    struct gm_timeline_row *row =
        series && gm_live_block_is_leak(b) ? row_of(p->t, interval_of(p->t, b->created_ns), series->index) : NULL;
    if (row) {
        row->leaked++;
        row->leaked_bytes += b->bytes;
    }
    return series && keep_block(p, b, UINT64_MAX, series);
}

/* ---- a pass over the trace */

static int by_number(const void *x, const void *y) {
    const struct gm_timeline_block *a = x, *b = y;
    return (a->block.number > b->block.number) - (a->block.number < b->block.number);
}

static bool collect_blocks(struct timeline_pass *p) {
    struct gm_timeline *t = p->t;
    size_t room = p->largest.count, count = 0;
    for (unsigned i = 0; i < t->interval_count; i++)
        room += p->each[i].count;
    t->blocks = malloc((room + 1) * sizeof *t->blocks);
    if (!t->blocks)
        return false;
    for (unsigned i = 0; i <= t->interval_count; i++) {
        const struct heap *h = i < t->interval_count ? &p->each[i] : &p->largest;
        for (unsigned j = 0; j < h->count; j++)
            t->blocks[count++] = h->list[j];
    }
    qsort(t->blocks, count, sizeof *t->blocks, by_number);
    for (size_t i = 0; i < count; i++)
        if (!i || t->blocks[i].block.number != t->blocks[t->block_count - 1].block.number)
            t->blocks[t->block_count++] = t->blocks[i];
    return true;
}

static bool collect_series(struct timeline_pass *p) {
    struct gm_timeline *t = p->t;
    size_t count = HASH_COUNT(p->by_key);
    t->series = malloc((count + 1) * sizeof *t->series);
    for (; t->series && t->series_count < count; t->series_count++)
        t->series[t->series_count] = p->list[t->series_count]->key;
    return t->series;
}

static void free_pass(struct timeline_pass *p) {
    size_t count = HASH_COUNT(p->by_key);
    HASH_CLEAR(hh, p->by_key);
    for (size_t i = 0; i < count; i++)
        free(p->list[i]);
    free(p->list);
    free(p->touched);
    for (unsigned i = 0; p->each && i < p->t->interval_count; i++)
        free(p->each[i].list);
    free(p->each);
    free(p->largest.list);
    free(p->series_of);
    gm_phases_free(p->phases);
}

/* `t` NULL: only the totals. */
static struct gm_analysis *read_events(const char *path, struct gm_observer *observer, struct gm_timeline *t) {
    struct gm_observer *const observers[] = {observer, NULL};
    char error[512];
    struct gm_reader *reader = gm_reader_open(path, error, sizeof error);
    struct gm_analysis *a = reader ? gm_analysis_read(reader, observers) : NULL;
    if (a && t) {
        t->damaged = gm_reader_damaged(reader);
        t->finished = gm_reader_header(reader)->finished;
    }
    gm_reader_close(reader);
    return a;
}

static void note_devices(struct timeline_pass *p, const struct gm_analysis *a) {
    struct gm_timeline *t = p->t;
    for (unsigned device = 0; device < GM_DEVICES; device++)
        if (gm_analysis_has_device(a, device))
            t->devices[t->device_count++] = device;
    p->views = t->device_count > 1 ? t->device_count + 1 : 1;
    for (unsigned view = 1; view < p->views; view++)
        p->view_of[t->devices[view - 1]] = view;
}

/* Returns the timeline, or NULL. Then `*fewer` > 0 is the number of intervals to try next. `known`: of an earlier pass
 * over the trace. */
static struct gm_timeline *read_intervals(const char *path, const struct gm_analysis *known, unsigned intervals,
                                          unsigned *fewer) {
    struct gm_timeline *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->interval_ns = known->end_ns / intervals + 1;
    t->interval_count = intervals;
    struct timeline_pass p = {.observer = {event, created, destroyed, alive_at_end, summed}, .t = t};
    note_devices(&p, known);
    t->intervals = calloc((size_t)intervals * p.views, sizeof *t->intervals);
    p.each = calloc(intervals, sizeof *p.each);
    p.phases = gm_phases_new(phase_closed, &p);
    bool done = t->intervals && p.each && p.phases;
    if (done) {
        begin_interval(&p, 0);
        t->analysis = read_events(path, &p.observer, t);
        if (t->analysis)
            note_totals(&p, t->analysis);
        done = t->analysis && end_last_interval(&p) && collect_blocks(&p);
        if (done) {
            note_leaks(&p, t->analysis);
            gm_phases_end(p.phases, t->analysis->end_ns);
            keep_longest(t, PHASES);
            if (t->phase_count)
                qsort(t->phases, t->phase_count, sizeof *t->phases, by_begin);
            done = collect_series(&p);
        }
    }
    *fewer = p.full ? (p.interval * 9 / 10 > INTERVALS_LEAST ? p.interval * 9 / 10 : INTERVALS_LEAST) : 0;
    free_pass(&p);
    if (done)
        return t;
    gm_timeline_free(t);
    return NULL;
}

struct gm_timeline *gm_timeline_read(const char *path, unsigned intervals) {
    struct gm_observer none = {0};
    struct gm_analysis *a = read_events(path, &none, NULL);
    struct gm_timeline *t = NULL;
    for (unsigned count = intervals; a && !t && count;)
        t = read_intervals(path, a, count, &count);
    gm_analysis_free(a);
    return t;
}

void gm_timeline_free(struct gm_timeline *t) {
    if (!t)
        return;
    free(t->rows);
    free(t->series);
    free(t->intervals);
    free(t->phases);
    free(t->blocks);
    gm_analysis_free(t->analysis);
    free(t);
}
