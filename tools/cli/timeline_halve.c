#include "tools/cli/timeline_halve.h"

#include <stdlib.h>
#include <string.h>

/* Two intervals, and in which of them the memory was at its maximum. */
struct pair {
    const struct gm_timeline *t;
    const unsigned *view_of;
    unsigned first, room;
};

static bool peaks_in_second(const struct pair *p, unsigned view) {
    const struct gm_interval *i = &p->t->intervals[(size_t)view * p->room + p->first];
    return i[1].peak_bytes > i[0].peak_bytes;
}

/* Live bytes of a series at a peak. `before`: when the pair began; a series without a row did not change. */
static uint64_t at_peak(bool second, bool on_device, const struct gm_timeline_row *a, const struct gm_timeline_row *b,
                        uint64_t before) {
    const struct gm_timeline_row *row = second ? b : a;
    if (row)
        return on_device ? row->live_at_device_peak : row->live_at_peak;
    return second ? a->live_at_end : before;
}

/* One of the rows may be missing. `live`: of the series when the pair began, and then when it ends. */
static struct gm_timeline_row join(const struct pair *p, const struct gm_timeline_row *a,
                                   const struct gm_timeline_row *b, uint64_t *live) {
    static const struct gm_timeline_row none;
    struct gm_timeline_row row = a ? *a : *b;
    const struct gm_timeline_row *more = a && b ? b : &none;
    unsigned view = p->view_of[p->t->series[row.series].device];
    row.interval = p->first / 2;
    row.allocs += more->allocs;
    row.bytes += more->bytes;
    row.frees += more->frees;
    row.freed_bytes += more->freed_bytes;
    row.temporary += more->temporary;
    row.temporary_bytes += more->temporary_bytes;
    row.leaked += more->leaked;
    row.leaked_bytes += more->leaked_bytes;
    row.most_live = more->most_live > row.most_live ? more->most_live : row.most_live;
    row.live_at_peak = at_peak(peaks_in_second(p, 0), false, a, b, *live);
    row.live_at_device_peak = at_peak(peaks_in_second(p, view), true, a, b, *live);
    row.live_at_end = *live = b ? b->live_at_end : a->live_at_end;
    return row;
}

/* Joins the rows [from, until) of a pair into those at `to`, and returns their number. They are read from a copy. */
static size_t join_rows(struct pair *p, const struct gm_timeline_row *from, const struct gm_timeline_row *until,
                        struct gm_timeline_row *to, uint64_t *live) {
    const struct gm_timeline_row *a = from, *b = from;
    size_t count = 0;
    while (b < until && b->interval == p->first)
        b++;
    for (const struct gm_timeline_row *end = b; a < end || b < until; count++) {
        bool has_a = a < end && (b == until || a->series <= b->series);
        bool has_b = b < until && (a == end || b->series <= a->series);
        uint32_t series = has_a ? a->series : b->series;
        to[count] = join(p, has_a ? a : NULL, has_b ? b : NULL, &live[series]);
        a += has_a;
        b += has_b;
    }
    return count;
}

static void join_intervals(struct gm_interval *i, unsigned count) {
    for (unsigned to = 0; to < count / 2; to++) {
        struct gm_interval a = i[2 * to], b = i[2 * to + 1];
        if (b.peak_bytes > a.peak_bytes) {
            a.peak_bytes = b.peak_bytes;
            a.peak_ns = b.peak_ns;
        }
        a.end_bytes = b.end_bytes;
        a.kept = b.kept > a.kept ? b.kept : a.kept;
        a.reserved = b.reserved > a.reserved ? b.reserved : a.reserved;
        a.untracked = b.untracked > a.untracked ? b.untracked : a.untracked;
        i[to] = a;
    }
}

bool gm_timeline_halve(struct gm_timeline *t, unsigned count, unsigned views, const unsigned *view_of, unsigned room) {
    uint64_t *live = calloc(t->series_count + 1, sizeof *live);
    struct gm_timeline_row *copy = malloc((2 * t->series_count + 1) * sizeof *copy);
    struct pair pair = {t, view_of, 0, room};
    bool done = live && copy;
    size_t used = 0;
    for (size_t at = 0, end; done && at < t->row_count; at = end) {
        pair.first = t->rows[at].interval & ~1u;
        for (end = at; end < t->row_count && t->rows[end].interval <= pair.first + 1; end++)
            copy[end - at] = t->rows[end];
        used += join_rows(&pair, copy, copy + (end - at), &t->rows[used], live);
    }
    free(copy);
    free(live);
    if (!done)
        return false;
    t->row_count = used;
    for (unsigned view = 0; view < views; view++)
        join_intervals(&t->intervals[(size_t)view * room], count);
    t->interval_ns *= 2;
    return true;
}
