#include "shim/trace/summary.h"

#include "shim/accounts/stats.h"

#include <string.h>

enum {
    SUMS = 1 << 16,     /* pairs of call site and kind; further ones count for an unknown site of their kind */
    PLACES = 2 * SUMS,  /* of the hash table */
    FAILURES = 16,      /* events of failed calls in an interval */
    UNKNOWN_ROOM = 512, /* sums that only unknown sites get */
};

/* What a call site did with a kind of memory of a device. */
struct sum {
    uint64_t key;
    uint64_t live, count; /* bytes and blocks now */
    uint64_t at_peak;     /* live bytes at the latest peak, if `seen` is its number; else `live` */
    uint64_t written;     /* live bytes that the trace has */
    uint32_t seen;
    bool on_device;
    /* of the interval: */
    uint32_t allocs, frees, released;
    uint64_t bytes, most, released_bytes;
};

uint64_t gm_summary_ns;

GM_LOCK(lock); /* protects the following */
static struct sum *sums;
static uint32_t *places; /* index in `sums` plus 1 */
static uint32_t count;
static struct sum *latest;     /* found last */
static uint64_t live;          /* bytes of all kinds on devices */
static uint64_t peak, peak_ns; /* of `live` in the interval */
static uint32_t peaks;         /* number of peaks so far */
static uint32_t failures;      /* failed calls in the interval */
static bool changed;           /* in the interval */
static uint64_t next_ns;       /* end of the interval; read without the lock, too */

GM_LOCK(writing); /* held while rows are written; protects the following */
static struct gm_event *rows;
static uint32_t row_count;

static uint64_t key_of(const struct gm_event *e) {
    return (uint64_t)e->site << 16 | (uint64_t)e->kind << 8 | (uint8_t)e->device;
}
static uint32_t site_of_sum(const struct sum *s) { return (uint32_t)(s->key >> 16); }
/* In the interval. */
static bool is_active(const struct sum *s) { return s->allocs || s->frees || s->released; }
static enum gm_kind kind_of_sum(const struct sum *s) { return (enum gm_kind)(s->key >> 8 & 0xff); }

void gm_summary_setup(uint64_t interval_ns) { gm_summary_ns = interval_ns; }

static void begin_interval(uint64_t now_ns) {
    peak = live;
    peak_ns = now_ns;
    peaks++;
    failures = 0;
    changed = false;
    __atomic_store_n(&next_ns, now_ns + gm_summary_ns, __ATOMIC_RELAXED);
}

bool gm_summary_open(uint64_t now_ns) {
    if (!sums) {
        struct sum *made = gm_pages(SUMS * sizeof *sums);
        places = gm_pages(PLACES * sizeof *places);
        rows = gm_pages((3 * SUMS + 2) * sizeof *rows);
        sums = places && rows ? made : NULL;
    }
    gm_spin_lock(&lock);
    begin_interval(now_ns);
    gm_spin_unlock(&lock);
    return sums != NULL;
}

void gm_summary_forget(void) {
    if (!sums)
        return;
    memset(places, 0, PLACES * sizeof *places);
    memset(sums, 0, count * sizeof *sums);
    count = 0;
    latest = NULL;
    live = 0;
}

static struct sum *find_sum(uint64_t key) {
    for (uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;; at++) {
        uint32_t *place = &places[at % PLACES];
        if (*place && sums[*place - 1].key == key)
            return &sums[*place - 1];
        if (*place)
            continue;
        if (count >= SUMS - UNKNOWN_ROOM && key >> 16)
            return find_sum(key & 0xffff);
        if (count == SUMS)
            return &sums[0];
        sums[count].key = key;
        sums[count].on_device = gm_kind_is_on_device(kind_of_sum(&sums[count]));
        *place = ++count;
        return &sums[count - 1];
    }
}

static inline struct sum *sum_of(const struct gm_event *e) {
    uint64_t key = key_of(e);
    if (!latest || latest->key != key)
        latest = find_sum(key);
    return latest;
}

static inline void raise(struct sum *s, uint64_t bytes, uint64_t now_ns) {
    s->live += bytes;
    s->most = s->live > s->most ? s->live : s->most;
    if (!s->on_device)
        return;
    live += bytes;
    if (live <= peak)
        return;
    peak = live;
    peak_ns = now_ns;
    peaks++;
}

static inline void sink(struct sum *s, uint64_t bytes) {
    bytes = bytes < s->live ? bytes : s->live;
    s->live -= bytes;
    if (s->on_device)
        live -= bytes;
}

bool gm_summary_change(const struct gm_event *e) {
    gm_spin_lock(&lock);
    struct sum *s = sum_of(e);
    if (s->seen != peaks) {
        s->at_peak = s->live;
        s->seen = peaks;
    }
    if (!is_active(s))
        s->most = s->live;
    if (e->action == GM_ACT_ALLOC) {
        s->allocs++;
        s->count++;
        s->bytes += e->bytes;
        raise(s, e->bytes, e->time_ns);
        changed = true;
    } else if (s->count) { /* a child of a fork frees no block of its parent */
        s->count--;
        s->frees += e->action == GM_ACT_FREE;
        s->released += e->action == GM_ACT_RELEASE;
        s->released_bytes += e->action == GM_ACT_RELEASE ? e->bytes : 0;
        sink(s, e->bytes);
        changed = true;
    }
    if (s->allocs == UINT32_MAX || s->frees == UINT32_MAX) /* more do not fit into a row */
        __atomic_store_n(&next_ns, 0, __ATOMIC_RELAXED);
    bool over = e->time_ns >= next_ns;
    gm_spin_unlock(&lock);
    return over;
}

bool gm_summary_keeps(const struct gm_event *e) {
    switch (e->action) {
    case GM_ACT_CONTEXT:
    case GM_ACT_CONTEXT_DESTROYED:
    case GM_ACT_PEER:
    case GM_ACT_UNTRACKED:
    case GM_ACT_ACCOUNT:
    case GM_ACT_ERROR:
    case GM_ACT_SUSPEND:
    case GM_ACT_RESUME:
    case GM_ACT_HELD: return true;
    case GM_ACT_ALLOC_FAIL:
    case GM_ACT_FREE_FAIL:
        gm_spin_lock(&lock);
        bool kept = ++failures <= FAILURES;
        changed = true;
        gm_spin_unlock(&lock);
        return kept;
    default: return false;
    }
}

/* ---- rows */

static struct gm_event *add_summary_row(uint64_t time_ns, enum gm_action action, enum gm_kind kind, int device) {
    struct gm_event *row = &rows[row_count++];
    gm_event_fill(row, 0, time_ns, action, kind, device);
    row->verdict = GM_KIND_NATIVE;
    return row;
}

static struct gm_event *add_sum(const struct sum *s, uint64_t time_ns, uint64_t held) {
    struct gm_event *row = add_summary_row(time_ns, GM_ACT_SUM, kind_of_sum(s), (int8_t)(s->key & 0xff));
    row->site = site_of_sum(s);
    row->sum.live = held;
    return row;
}

/* What the site held at the peak of the interval, unless the trace says so already. */
static void add_at_peak(struct sum *s) {
    uint64_t held = s->seen == peaks ? s->at_peak : s->live;
    if (held != s->written && s->on_device)
        add_sum(s, peak_ns, s->written = held);
}

static void add_change(struct sum *s, uint64_t now_ns) {
    struct gm_event *row = add_sum(s, now_ns, s->live + s->released_bytes);
    row->sum.alloc_bytes = s->bytes;
    row->sum.most_live = s->most;
    row->sum.frees = s->frees;
    row->sum.allocs = s->allocs;
    if (s->released) {
        row = add_sum(s, now_ns, s->live);
        row->sum.most_live = s->live + s->released_bytes;
        row->sum.frees = s->released;
        row->reason = GM_REASON_CONTEXT_GONE;
    }
    s->written = s->live;
    s->bytes = s->released_bytes = 0;
    s->allocs = s->frees = s->released = 0;
}

/* The caller holds both locks. */
static void collect_rows(uint64_t now_ns) {
    row_count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (is_active(&sums[i]))
            add_at_peak(&sums[i]);
    struct gm_event *row = add_summary_row(peak_ns, GM_ACT_PEAK, GM_KIND_NATIVE, -1);
    row->peak.most_reserved = __atomic_load_n(&gm_stats->peak_reserved, __ATOMIC_RELAXED);
    row->peak.live = peak;
    for (uint32_t i = 0; i < count; i++)
        if (is_active(&sums[i]))
            add_change(&sums[i], now_ns);
    row = add_summary_row(now_ns, GM_ACT_TOTAL, GM_KIND_NATIVE, -1);
    row->total.kept = gm_stats_kept(gm_stats);
    row->total.live = live;
    row->total.reserved = gm_stats_on_devices(gm_stats->reserved_bytes);
    row->total.failures = failures > FAILURES ? failures - FAILURES : 0;
    begin_interval(now_ns);
}

static uint64_t rows_to_come(void) {
    uint64_t active = 0;
    for (uint32_t i = 0; i < count; i++)
        active += is_active(&sums[i]);
    return 3 * active + 2;
}

void gm_summary_write(uint64_t now_ns, bool end, bool (*has_room)(uint64_t events),
                      void (*write)(struct gm_event *event)) {
    if (!sums || (!end && now_ns < __atomic_load_n(&next_ns, __ATOMIC_RELAXED)))
        return;
    if (end)
        gm_spin_lock(&writing);
    else if (!gm_spin_try(&writing))
        return;
    row_count = 0;
    gm_spin_lock(&lock);
    if (!changed)
        begin_interval(now_ns);
    else if (end || has_room(rows_to_come()))
        collect_rows(now_ns);
    gm_spin_unlock(&lock);
    for (uint32_t i = 0; i < row_count; i++)
        write(&rows[i]);
    gm_spin_unlock(&writing);
}
