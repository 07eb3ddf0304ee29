#include "tools/cli/timeline.h"

#include "tools/cli/largest_blocks.h"
#include "tools/cli/memory_kinds.h"
#include "tools/cli/phases.h"
#include "tools/cli/sort.h"
#include "tools/cli/timeline_halve.h"

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
    struct gm_largest largest, *each; /* each: array by interval */
    unsigned interval, intervals;     /* the current one, and room for so many */
    unsigned views;                   /* arrays of intervals: of all devices together, then of each so far */
    unsigned view_of[GM_DEVICES];     /* 0: none yet */
    unsigned device_of[GM_DEVICES + 1];
    /* Of each view: number of new maxima so far, which shows whether a series changed since. */
    uint32_t peaks[GM_DEVICES + 1];
    struct gm_interval now[GM_DEVICES + 1];
    uint64_t temporary;
    bool ended;
};

/* ---- series */

static bool grow_series(struct timeline_pass *p) {
    size_t room = p->room ? 2 * p->room : 64;
    struct series **list = realloc(p->list, room * sizeof *list);
    if (list)
        p->list = list;
    struct series **touched = list ? realloc(p->touched, room * sizeof *touched) : NULL;
    if (touched)
        p->touched = touched;
    struct gm_series *keys = touched ? realloc(p->t->series, room * sizeof *keys) : NULL;
    if (!keys)
        return false;
    p->t->series = keys;
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
        p->t->series[count] = key;
        p->t->series_count = count + 1;
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

/* ---- the largest blocks */

/* Intervals were joined in pairs. */
static bool join_largest(struct timeline_pass *p) {
    for (unsigned i = 0; i < p->intervals; i++) {
        struct gm_largest h = p->each[i], *to = &p->each[i / 2];
        p->each[i] = (struct gm_largest){0};
        if (!to->list) {
            *to = h;
            continue;
        }
        for (unsigned j = 0; j < h.count; j++)
            if (!gm_largest_keep(to, &h.list[j], LARGEST_EACH))
                return false;
        free(h.list);
    }
    return true;
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
    gm_sort(p->touched, p->touched_count, sizeof *p->touched, by_index);
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
    return &p->t->intervals[(size_t)view * p->intervals + p->interval];
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

/* Every device that an event names has a view from then on; it was unused before. */
static bool add_view(struct timeline_pass *p, unsigned device) {
    if (p->view_of[device])
        return true;
    unsigned view = p->views;
    struct gm_interval *all = realloc(p->t->intervals, (size_t)(view + 1) * p->intervals * sizeof *all);
    if (!all)
        return false;
    p->t->intervals = all;
    for (unsigned i = 0; i <= p->interval; i++)
        all[(size_t)view * p->intervals + i] = (struct gm_interval){.peak_ns = i * p->t->interval_ns};
    p->views++;
    p->view_of[device] = view;
    p->device_of[view] = device;
    p->peaks[view] = 1;
    return true;
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
        unsigned device = p->device_of[view];
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
        note_live(p, view, now->devices[p->device_of[view]].live, now_ns);
}

static bool end_interval(struct timeline_pass *p) {
    for (unsigned view = 0; view < p->views; view++)
        interval_at(p, view)->end_bytes = p->now[view].end_bytes;
    return store_rows(p);
}

/* The current interval has ended. */
static bool halve(struct timeline_pass *p) {
    if (p->interval % 2 == 0)
        begin_interval(p, p->interval + 1);
    if (!gm_timeline_halve(p->t, p->interval + 1, p->views, p->view_of, p->intervals))
        return false;
    p->interval /= 2;
    return join_largest(p);
}

/* Threads record events slightly out of order: a late one counts for the current interval. */
static bool advance(struct timeline_pass *p, uint64_t time_ns) {
    if (time_ns / p->t->interval_ns <= p->interval)
        return true;
    if (!end_interval(p))
        return false;
    if (p->t->row_count > ROWS_MAX && p->interval >= 2 * INTERVALS_LEAST && p->interval % 2 && !halve(p))
        return false;
    while (time_ns / p->t->interval_ns >= p->intervals)
        if (!halve(p))
            return false;
    while (p->interval < time_ns / p->t->interval_ns)
        begin_interval(p, p->interval + 1);
    return true;
}

static unsigned interval_of(const struct timeline_pass *p, uint64_t time_ns) {
    uint64_t number = time_ns / p->t->interval_ns;
    return number < p->intervals ? (unsigned)number : p->intervals - 1;
}

static bool keep_block(struct timeline_pass *p, const struct gm_live_block *b, uint64_t ended_ns,
                       const struct series *series) {
    struct gm_timeline_block block = {*b, ended_ns, series->index};
    return gm_largest_keep(&p->largest, &block, LARGEST) &&
           gm_largest_keep(&p->each[interval_of(p, b->created_ns)], &block, LARGEST_EACH);
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
    gm_sort(t->phases, t->phase_count, sizeof *t->phases, longest_first);
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
        p->now[view].end_bytes = step->now->devices[p->device_of[view]].live;
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
    if (!add_view(p, gm_device_index(e->device)))
        return false;
    if (e->action == GM_ACT_PEAK || e->action == GM_ACT_TOTAL) {
        if (!advance(p, e->time_ns))
            return false;
        note_all_live(p, step->now, e->action == GM_ACT_PEAK ? e->peak.live : e->total.live, e->time_ns);
    }
    return gm_phases_event(p->phases, step->event, step->thread);
}

static bool end_last_interval(struct timeline_pass *p, uint64_t end_ns) {
    if (p->ended)
        return true;
    p->ended = true;
    if (!advance(p, end_ns) || !end_interval(p))
        return false;
    p->t->interval_count = p->interval + 1;
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
    if (!end_last_interval(p, step->now->end_ns))
        return false;
    /* A handle of memory that the program maps has no number. What is not mapped of it leaks. */
    struct series *series = b->number ? p->list[p->series_of[b->number]] : series_of(p, key_of(b, GM_SERIES_NONE));
    struct gm_timeline_row *row =
        series && gm_live_block_is_leak(b) ? row_of(p->t, interval_of(p, b->created_ns), series->index) : NULL;
    if (row) {
        row->leaked++;
        row->leaked_bytes += b->bytes;
    }
    return series && keep_block(p, b, UINT64_MAX, series);
}

/* ---- the end */

static int by_number(const void *x, const void *y) {
    const struct gm_timeline_block *a = x, *b = y;
    return (a->block.number > b->block.number) - (a->block.number < b->block.number);
}

static bool collect_blocks(struct timeline_pass *p) {
    struct gm_timeline *t = p->t;
    size_t room = p->largest.count, count = 0;
    for (unsigned i = 0; i < p->intervals; i++)
        room += p->each[i].count;
    t->blocks = malloc((room + 1) * sizeof *t->blocks);
    if (!t->blocks)
        return false;
    for (unsigned i = 0; i <= p->intervals; i++) {
        const struct gm_largest *h = i < p->intervals ? &p->each[i] : &p->largest;
        for (unsigned j = 0; j < h->count; j++)
            t->blocks[count++] = h->list[j];
    }
    gm_sort(t->blocks, count, sizeof *t->blocks, by_number);
    for (size_t i = 0; i < count; i++)
        if (!i || t->blocks[i].block.number != t->blocks[t->block_count - 1].block.number)
            t->blocks[t->block_count++] = t->blocks[i];
    return true;
}

static void free_pass(struct timeline_pass *p) {
    size_t count = HASH_COUNT(p->by_key);
    HASH_CLEAR(hh, p->by_key);
    for (size_t i = 0; i < count; i++)
        free(p->list[i]);
    free(p->list);
    free(p->touched);
    for (unsigned i = 0; p->each && i < p->intervals; i++)
        free(p->each[i].list);
    free(p->each);
    free(p->largest.list);
    free(p->series_of);
    gm_phases_free(p->phases);
}

/* ---- a pass over the trace */

static struct gm_analysis *read_events(const char *path, struct gm_observer *observer, struct gm_timeline *t) {
    struct gm_observer *const observers[] = {observer, NULL};
    char error[512];
    struct gm_reader *reader = gm_reader_open(path, error, sizeof error);
    struct gm_analysis *a = reader ? gm_analysis_read(reader, observers) : NULL;
    if (a) {
        t->damaged = gm_reader_damaged(reader);
        t->finished = gm_reader_header(reader)->finished;
    }
    gm_reader_close(reader);
    return a;
}

/* Leaves the view of all devices, and then those of the devices that the process used, if these are several. */
static bool collect_views(struct timeline_pass *p) {
    struct gm_timeline *t = p->t;
    size_t count = t->interval_count;
    for (unsigned device = 0; device < GM_DEVICES; device++)
        if (gm_analysis_has_device(t->analysis, device))
            t->devices[t->device_count++] = device;
    unsigned views = t->device_count > 1 ? t->device_count + 1 : 1;
    struct gm_interval *kept = malloc(views * count * sizeof *kept);
    for (unsigned view = 0; kept && view < views; view++) {
        unsigned from = view ? p->view_of[t->devices[view - 1]] : 0;
        memcpy(kept + view * count, &t->intervals[(size_t)from * p->intervals], count * sizeof *kept);
    }
    free(t->intervals);
    t->intervals = kept;
    return kept;
}

static bool collect(struct timeline_pass *p) {
    struct gm_timeline *t = p->t;
    note_totals(p, t->analysis);
    if (!end_last_interval(p, t->analysis->end_ns) || !collect_blocks(p))
        return false;
    note_leaks(p, t->analysis);
    gm_phases_end(p->phases, t->analysis->end_ns);
    keep_longest(t, PHASES);
    gm_sort(t->phases, t->phase_count, sizeof *t->phases, by_begin);
    return collect_views(p);
}

struct gm_timeline *gm_timeline_read(const char *path, unsigned intervals) {
    struct gm_timeline *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->interval_ns = 1;
    struct timeline_pass p = {.observer = {event, created, destroyed, alive_at_end, summed},
                              .t = t,
                              .intervals = intervals,
                              .views = 1,
                              .each = calloc(intervals, sizeof *p.each)};
    t->intervals = calloc(intervals, sizeof *t->intervals);
    p.phases = gm_phases_new(phase_closed, &p);
    if (t->intervals && p.each && p.phases) {
        begin_interval(&p, 0);
        t->analysis = read_events(path, &p.observer, t);
    }
    bool done = t->analysis && collect(&p);
    free_pass(&p);
    if (done)
        return t;
    gm_timeline_free(t);
    return NULL;
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
