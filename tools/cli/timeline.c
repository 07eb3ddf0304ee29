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

struct series {
    uint64_t key, live;
    uint32_t index, seen;
    bool touched;
    struct gm_timeline_row row; /* of the current interval */
    UT_hash_handle hh;
};

struct set {
    struct series *by_key, *last;
    struct series **list; /* array by index */
    size_t room;
    struct series **touched; /* array: the series with a row in the current interval; capacity `room` */
    size_t touched_count;
};

/* The largest blocks seen so far, the smallest of them first. */
struct heap {
    struct gm_timeline_block *list;
    unsigned count, room;
};

struct timeline_pass {
    struct gm_observer observer;
    struct gm_timeline *t;
    struct set sets[GM_SERIES_SETS];
    struct gm_phases *phases;
    uint32_t *phase_of; /* array: series of the phase by number of the block */
    size_t phase_room;
    struct heap largest, *each; /* each: array by interval */
    unsigned interval;
    uint32_t peak; /* number of new maxima so far; shows whether a series changed since the latest one */
    uint64_t live, temporary, kept, reserved, untracked;
    size_t rows;
    bool full, ended;
};

/* ---- series */

static bool grow_set(struct set *s) {
    size_t room = s->room ? 2 * s->room : 64;
    struct series **list = realloc(s->list, room * sizeof *list);
    if (list)
        s->list = list;
    struct series **touched = list ? realloc(s->touched, room * sizeof *touched) : NULL;
    if (!touched)
        return false;
    s->touched = touched;
    s->room = room;
    return true;
}

static struct series *series_of(struct set *s, uint64_t key) {
    struct series *found = s->last;
    if (found && found->key == key)
        return found;
    HASH_FIND(hh, s->by_key, &key, sizeof key, found);
    unsigned count = HASH_COUNT(s->by_key);
    if (!found && count >= GM_SERIES_MAX && key != GM_SERIES_OTHER)
        return series_of(s, GM_SERIES_OTHER);
    if (!found) {
        if (count == s->room && !grow_set(s))
            return NULL;
        found = calloc(1, sizeof *found);
        if (!found)
            return NULL;
        found->key = key;
        found->index = count;
        s->list[count] = found;
        HASH_ADD(hh, s->by_key, key, sizeof found->key, found);
    }
    return s->last = found;
}

static struct gm_timeline_row *touch(struct timeline_pass *p, struct set *s, struct series *series) {
    if (!series->touched) {
        series->touched = true;
        series->row =
            (struct gm_timeline_row){.interval = p->interval, .series = series->index, .most_live = series->live};
        s->touched[s->touched_count++] = series;
    }
    return &series->row;
}

static int by_index(const void *x, const void *y) {
    const struct series *a = *(struct series *const *)x, *b = *(struct series *const *)y;
    return (a->index > b->index) - (a->index < b->index);
}

/* ---- intervals */

static bool store_rows(struct timeline_pass *p, enum gm_series_set which) {
    struct set *s = &p->sets[which];
    struct gm_timeline_rows *rows = &p->t->sets[which];
    if (rows->count + s->touched_count > rows->room) {
        size_t room = 2 * (rows->count + s->touched_count);
        struct gm_timeline_row *list = realloc(rows->list, room * sizeof *list);
        if (!list)
            return false;
        rows->list = list;
        rows->room = room;
    }
    qsort(s->touched, s->touched_count, sizeof *s->touched, by_index);
    for (size_t i = 0; i < s->touched_count; i++) {
        struct series *series = s->touched[i];
        if (series->seen != p->peak)
            series->row.live_at_peak = series->live;
        series->row.live_at_end = series->live;
        series->touched = false;
        rows->list[rows->count++] = series->row;
    }
    p->rows += s->touched_count;
    s->touched_count = 0;
    return true;
}

static void begin_interval(struct timeline_pass *p, unsigned number) {
    uint64_t begin = number * p->t->interval_ns;
    p->interval = number;
    p->peak++;
    p->t->intervals[number] = (struct gm_interval){begin, p->live, p->live, p->kept, p->reserved, p->untracked};
}

static void raise(uint64_t *most, uint64_t value) { *most = value > *most ? value : *most; }

/* The totals are so at the latest event. */
static void note_totals(struct timeline_pass *p, const struct gm_analysis *now) {
    struct gm_interval *interval = &p->t->intervals[p->interval];
    p->kept = now->reserved.kept;
    p->reserved = now->reserved.bytes;
    p->untracked = now->untracked.bytes;
    raise(&interval->kept, p->kept);
    raise(&interval->reserved, p->reserved);
    raise(&interval->untracked, p->untracked);
}

static void note_live(struct timeline_pass *p, uint64_t live, uint64_t now_ns) {
    struct gm_interval *interval = &p->t->intervals[p->interval];
    p->live = live;
    if (live <= interval->peak_bytes)
        return;
    interval->peak_bytes = live;
    interval->peak_ns = now_ns;
    p->peak++;
}

static bool end_interval(struct timeline_pass *p) {
    p->t->intervals[p->interval].end_bytes = p->live;
    for (int i = 0; i < GM_SERIES_SETS; i++)
        if (!store_rows(p, (enum gm_series_set)i))
            return false;
    p->full = p->rows > ROWS_MAX && p->t->interval_count > INTERVALS_LEAST;
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

static uint32_t phase_of(const struct timeline_pass *p, const struct gm_live_block *b) {
    return b->number < p->phase_room ? p->phase_of[b->number] : 0;
}

static bool keep_block(struct timeline_pass *p, const struct gm_live_block *b, uint64_t ended_ns) {
    struct gm_timeline_block block = {*b, ended_ns, phase_of(p, b)};
    return keep_largest(&p->largest, &block, LARGEST) &&
           keep_largest(&p->each[interval_of(p->t, b->created_ns)], &block, LARGEST_EACH);
}

/* ---- phases: the innermost one in which the thread allocated the block */

static bool store_phase(struct timeline_pass *p, const struct gm_live_block *b, int thread) {
    const struct gm_phase *open;
    size_t count = gm_phases_open(p->phases, &open);
    while (count && !gm_phase_covers(&open[count - 1], thread))
        count--;
    if (!count)
        return true;
    struct series *series = series_of(&p->sets[GM_SERIES_PHASE], open[count - 1].text);
    if (series && b->number >= p->phase_room) {
        size_t room = 2 * b->number;
        uint32_t *grown = realloc(p->phase_of, room * sizeof *grown);
        if (!grown)
            return false;
        memset(grown + p->phase_room, 0, (room - p->phase_room) * sizeof *grown);
        p->phase_of = grown;
        p->phase_room = room;
    }
    if (series)
        p->phase_of[b->number] = series->index;
    return series != NULL;
}

/* ---- the observer */

static bool find_series(struct timeline_pass *p, const struct gm_live_block *b, struct series *found[GM_SERIES_SETS]) {
    found[GM_SERIES_KIND] = series_of(&p->sets[GM_SERIES_KIND], b->kind);
    found[GM_SERIES_SITE] = series_of(&p->sets[GM_SERIES_SITE], b->site);
    found[GM_SERIES_PHASE] = p->sets[GM_SERIES_PHASE].list[phase_of(p, b)];
    found[GM_SERIES_THREAD] = series_of(&p->sets[GM_SERIES_THREAD], (uint64_t)(int64_t)b->thread);
    return found[GM_SERIES_KIND] && found[GM_SERIES_SITE] && found[GM_SERIES_THREAD];
}

static void change_live(const struct timeline_pass *p, struct series *series, uint64_t difference) {
    if (series->seen != p->peak) {
        series->row.live_at_peak = series->live;
        series->seen = p->peak;
    }
    series->live += difference;
    if (series->live > series->row.most_live && (int64_t)difference > 0)
        series->row.most_live = series->live;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    struct timeline_pass *p = (struct timeline_pass *)self;
    const struct gm_live_block *b = step->block;
    struct series *series[GM_SERIES_SETS];
    bool on_device = gm_kind_is_on_device((enum gm_kind)b->kind);
    if (!advance(p, step->time_ns) || !store_phase(p, b, step->thread) || !find_series(p, b, series))
        return false;
    for (int i = 0; i < GM_SERIES_SETS; i++) {
        struct gm_timeline_row *row = touch(p, &p->sets[i], series[i]);
        row->allocs++;
        row->bytes += b->bytes;
        if (i == GM_SERIES_KIND || on_device)
            change_live(p, series[i], b->bytes);
    }
    note_live(p, step->now->live_bytes, step->time_ns);
    return true;
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    struct timeline_pass *p = (struct timeline_pass *)self;
    const struct gm_live_block *b = step->block;
    struct series *series[GM_SERIES_SETS];
    bool on_device = gm_kind_is_on_device((enum gm_kind)b->kind), freed = step->event->action == GM_ACT_FREE;
    bool temporary = step->now->temporary != p->temporary;
    if (!advance(p, step->time_ns) || !find_series(p, b, series))
        return false;
    p->temporary = step->now->temporary;
    for (int i = 0; i < GM_SERIES_SETS; i++) {
        struct gm_timeline_row *row = touch(p, &p->sets[i], series[i]);
        row->frees += freed;
        row->freed_bytes += freed ? b->bytes : 0;
        row->temporary += temporary;
        row->temporary_bytes += temporary ? b->bytes : 0;
        if (i == GM_SERIES_KIND || on_device)
            change_live(p, series[i], 0 - b->bytes);
    }
    p->live = step->now->live_bytes;
    return keep_block(p, b, step->time_ns);
}

/* A summary knows no phases and threads. The maximum of a kind of memory is that of known moments. */
static bool summed(struct gm_observer *self, const struct gm_sum_step *step) {
    struct timeline_pass *p = (struct timeline_pass *)self;
    const uint64_t keys[] = {[GM_SERIES_KIND] = step->sum->kind, [GM_SERIES_SITE] = step->sum->site};
    if (!advance(p, step->event->time_ns))
        return false;
    for (int i = GM_SERIES_KIND; i <= GM_SERIES_SITE; i++) {
        struct series *series = series_of(&p->sets[i], keys[i]);
        if (!series)
            return false;
        struct gm_timeline_row *row = touch(p, &p->sets[i], series);
        row->allocs += step->allocs;
        row->bytes += step->bytes;
        row->frees += step->frees;
        row->freed_bytes += step->freed_bytes;
        if (i == GM_SERIES_KIND || gm_kind_is_on_device((enum gm_kind)step->sum->kind))
            change_live(p, series, step->sum->live - step->before);
    }
    return true;
}

/* The leaks of a summary count for the latest interval in which their site was active. */
static void note_leaks(struct timeline_pass *p, const struct gm_analysis *a) {
    for (size_t i = 0; i < a->sum_count; i++) {
        const uint64_t keys[] = {[GM_SERIES_KIND] = a->sums[i].kind, [GM_SERIES_SITE] = a->sums[i].site};
        for (int set = GM_SERIES_KIND; set <= GM_SERIES_SITE && gm_sum_is_leak(&a->sums[i]); set++) {
            const struct series *series = series_of(&p->sets[set], keys[set]);
            struct gm_timeline_rows *rows = &p->t->sets[set];
            size_t at = rows->count;
            while (at && rows->list[at - 1].series != series->index)
                at--;
            if (!at)
                continue;
            rows->list[at - 1].leaked += a->sums[i].count;
            rows->list[at - 1].leaked_bytes += a->sums[i].live;
        }
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
        note_live(p, e->action == GM_ACT_PEAK ? e->peak.live : e->total.live, e->time_ns);
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
static struct gm_timeline_row *row_of(const struct gm_timeline_rows *rows, unsigned interval, uint32_t series) {
    size_t low = 0, high = rows->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct gm_timeline_row *row = &rows->list[middle];
        if (row->interval < interval || (row->interval == interval && row->series < series))
            low = middle + 1;
        else
            high = middle;
    }
    while (low < rows->count && (rows->list[low].series != series || !rows->list[low].allocs))
        low++;
    return low < rows->count ? &rows->list[low] : NULL;
}

static bool alive_at_end(struct gm_observer *self, const struct gm_step *step) {
    struct timeline_pass *p = (struct timeline_pass *)self;
    const struct gm_live_block *b = step->block;
    struct series *series[GM_SERIES_SETS];
    if (!end_last_interval(p) || !find_series(p, b, series))
        return false;
    for (int i = 0; i < GM_SERIES_SETS && gm_live_block_is_leak(b); i++) {
        struct gm_timeline_row *row = row_of(&p->t->sets[i], interval_of(p->t, b->created_ns), series[i]->index);
        if (row) {
            row->leaked++;
            row->leaked_bytes += b->bytes;
        }
    }
    return keep_block(p, b, UINT64_MAX);
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

static bool collect_keys(struct timeline_pass *p) {
    for (int i = 0; i < GM_SERIES_SETS; i++) {
        const struct set *s = &p->sets[i];
        struct gm_timeline_rows *rows = &p->t->sets[i];
        rows->series_count = HASH_COUNT(s->by_key);
        rows->keys = malloc((rows->series_count + 1) * sizeof *rows->keys);
        if (!rows->keys)
            return false;
        for (size_t j = 0; j < rows->series_count; j++)
            rows->keys[j] = s->list[j]->key;
    }
    return true;
}

static void free_pass(struct timeline_pass *p) {
    for (int i = 0; i < GM_SERIES_SETS; i++) {
        size_t count = HASH_COUNT(p->sets[i].by_key);
        HASH_CLEAR(hh, p->sets[i].by_key);
        for (size_t j = 0; j < count; j++)
            free(p->sets[i].list[j]);
        free(p->sets[i].list);
        free(p->sets[i].touched);
    }
    for (unsigned i = 0; p->each && i < p->t->interval_count; i++)
        free(p->each[i].list);
    free(p->each);
    free(p->largest.list);
    free(p->phase_of);
    gm_phases_free(p->phases);
}

static struct gm_analysis *read_events(const char *path, struct gm_observer *observer, uint64_t *damaged) {
    struct gm_observer *const observers[] = {observer, NULL};
    char error[512];
    struct gm_reader *reader = gm_reader_open(path, error, sizeof error);
    struct gm_analysis *a = reader ? gm_analysis_read(reader, observers) : NULL;
    *damaged = a ? gm_reader_damaged(reader) : 0;
    gm_reader_close(reader);
    return a;
}

/* Returns the timeline, or NULL. Then `*fewer` > 0 is the number of intervals to try next. */
static struct gm_timeline *read_intervals(const char *path, uint64_t end_ns, unsigned intervals, unsigned *fewer) {
    struct gm_timeline *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    *t = (struct gm_timeline){.interval_ns = end_ns / intervals + 1, .interval_count = intervals};
    struct timeline_pass p = {.observer = {event, created, destroyed, alive_at_end, summed}, .t = t};
    t->intervals = calloc(intervals, sizeof *t->intervals);
    p.each = calloc(intervals, sizeof *p.each);
    p.phases = gm_phases_new(NULL, NULL);
    bool done = t->intervals && p.each && p.phases && series_of(&p.sets[GM_SERIES_PHASE], GM_SERIES_NONE);
    if (done) {
        begin_interval(&p, 0);
        t->analysis = read_events(path, &p.observer, &t->damaged);
        if (t->analysis)
            note_totals(&p, t->analysis);
        done = t->analysis && end_last_interval(&p) && collect_blocks(&p) && collect_keys(&p);
        if (done)
            note_leaks(&p, t->analysis);
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
    uint64_t damaged;
    struct gm_analysis *a = read_events(path, &none, &damaged);
    struct gm_timeline *t = NULL;
    for (unsigned count = intervals; a && !t && count;)
        t = read_intervals(path, a->end_ns, count, &count);
    gm_analysis_free(a);
    return t;
}

void gm_timeline_free(struct gm_timeline *t) {
    if (!t)
        return;
    for (int i = 0; i < GM_SERIES_SETS; i++) {
        free(t->sets[i].list);
        free(t->sets[i].keys);
    }
    free(t->intervals);
    free(t->blocks);
    gm_analysis_free(t->analysis);
    free(t);
}
