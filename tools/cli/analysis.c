#include "tools/cli/analysis.h"

#include "tools/cli/memory_kinds.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define SITE_IDS     (1u << 22) /* larger ids occur only in damaged files and count as unknown */
#define SIZES_MAX    65536u
#define RECENT_SIZES 1024u

struct size_entry {
    struct gm_size_totals totals;
    UT_hash_handle hh;
};

struct sum_entry {
    struct gm_sum sum;
    UT_hash_handle hh;
};

struct thread_entry {
    int id;
    uint64_t last_key; /* its latest allocation; 0 after it allocated or freed another block */
    UT_hash_handle hh;
};

struct gm_analysis_pass {
    struct gm_analysis *a;
    struct gm_observer *const *observers; /* ends with NULL */
    struct gm_live_blocks live;
    size_t site_room;     /* capacity of a->sites, which is in order of appearance */
    uint32_t *site_index; /* id -> index in a->sites, plus 1, of its latest device; `other` leads on */
    struct size_entry *sizes;
    struct size_entry *recent_sizes[RECENT_SIZES]; /* cache of `sizes`: most allocations repeat a size */
    struct thread_entry *threads, *last_thread;
    struct sum_entry *sums; /* of a summary, by site, kind and device */
    uint64_t trim_ns;       /* of the latest trim: one trim has an event for each kind */
    uint32_t peak;          /* number of peaks so far; shows whether a total changed since the latest one */
    bool failed;
};

static bool is_handle(const struct gm_live_block *b) { return b->call == GM_CALL_VMM_CREATE && b->kind == GM_KIND_VMM; }

bool gm_live_block_allocates(const struct gm_live_block *b) {
    return gm_call_allocates((enum gm_call)b->call, (enum gm_kind)b->kind);
}

/* Handles and addresses are different number spaces. Without the space, equal numbers would collide. */
static uint64_t space_of(enum gm_call call) {
    switch (call) {
    case GM_CALL_ARRAY:
    case GM_CALL_ARRAY3D:
    case GM_CALL_ARRAY_DESTROY:
    case GM_CALL_MIPMAP:
    case GM_CALL_MIPMAP_DESTROY: return 1;
    case GM_CALL_VMM_CREATE:
    case GM_CALL_VMM_IMPORT:
    case GM_CALL_VMM_RELEASE: return 2;
    case GM_CALL_POOL_CREATE:
    case GM_CALL_POOL_DESTROY: return 3;
    case GM_CALL_VMM_RESERVE:
    case GM_CALL_VMM_ADDRESS_FREE: return 4;
    case GM_CALL_VMM_MAP:
    case GM_CALL_VMM_UNMAP: return 5;
    default: return 0;
    }
}

static uint64_t key_of(const struct gm_event *e) { return e->address ^ space_of((enum gm_call)e->call) << 60; }

bool gm_event_is_own_trim(const struct gm_event *e) {
    return e->action == GM_ACT_TRIM && e->call != GM_CALL_POOL_CREATE;
}

bool gm_event_is_call(const struct gm_event *e) {
    return e->call != GM_CALL_NONE && e->action != GM_ACT_RELEASE && e->action != GM_ACT_DROP &&
           !gm_event_is_own_trim(e);
}

uint64_t gm_live_block_stream(const struct gm_live_block *b) {
    return b->call == GM_CALL_VMM_MAP || is_handle(b) ? 0 : b->stream;
}

uint64_t gm_live_block_address(const struct gm_live_block *b) { return b->key ^ space_of((enum gm_call)b->call) << 60; }

uint64_t gm_event_key(const struct gm_event *e) { return key_of(e); }

/* ---- tables */

static struct gm_site_totals *site_of(struct gm_analysis_pass *p, uint32_t id, int device_or_none) {
    if (id >= SITE_IDS)
        id = 0;
    struct gm_analysis *a = p->a;
    int device = (int)gm_device_index(device_or_none);
    uint32_t at = p->site_index[id];
    while (at && a->sites[at - 1].device != device)
        at = a->sites[at - 1].other;
    if (!at) {
        if (a->site_count == p->site_room) {
            size_t room = p->site_room ? 2 * p->site_room : 256;
            struct gm_site_totals *sites = realloc(a->sites, room * sizeof *sites);
            if (!sites) {
                p->failed = true;
                return NULL;
            }
            a->sites = sites;
            p->site_room = room;
        }
        a->sites[a->site_count] = (struct gm_site_totals){.id = id, .device = device, .other = p->site_index[id]};
        p->site_index[id] = at = (uint32_t)++a->site_count;
    }
    return &a->sites[at - 1];
}

static void count_size(struct gm_analysis_pass *p, uint64_t size) {
    struct size_entry **recent = &p->recent_sizes[(size * UINT64_C(0x9e3779b97f4a7c15)) >> 54], *s = *recent;
    if (!s || s->totals.size != size)
        HASH_FIND(hh, p->sizes, &size, sizeof size, s);
    if (!s) {
        if (HASH_COUNT(p->sizes) >= SIZES_MAX) {
            p->a->sizes_cut = true;
            return;
        }
        s = calloc(1, sizeof *s);
        if (!s) {
            p->failed = true;
            return;
        }
        s->totals.size = size;
        HASH_ADD(hh, p->sizes, totals.size, sizeof size, s);
    }
    s->totals.count++;
    *recent = s;
}

static struct thread_entry *thread_of(struct gm_analysis_pass *p, int id) {
    struct thread_entry *t = p->last_thread;
    if (t && t->id == id)
        return t;
    HASH_FIND_INT(p->threads, &id, t);
    if (!t) {
        t = calloc(1, sizeof *t);
        if (!t) {
            p->failed = true;
            return NULL;
        }
        t->id = id;
        HASH_ADD_INT(p->threads, id, t);
    }
    return p->last_thread = t;
}

/* ---- live bytes
 * The analysis stores each total's value at the peak without copying all totals at each new peak: the first change of a
 * total since the latest peak saves its old value. */

static void change(uint32_t peaks, uint64_t *value, uint64_t *at_peak, uint32_t *seen, uint64_t difference) {
    if (*seen != peaks) {
        *at_peak = *value;
        *seen = peaks;
    }
    *value += difference;
}

/* Memory that the program maps is reserved by its handle before and afterwards. */
static void move_from_handle(struct gm_analysis_pass *p, const struct gm_live_block *mapping, bool created) {
    struct gm_live_block *handle = NULL;
    if (mapping->call == GM_CALL_VMM_MAP && mapping->kind == GM_KIND_MAPPED)
        handle = gm_live_blocks_find(&p->live, mapping->handle ^ space_of(GM_CALL_VMM_CREATE) << 60);
    if (!handle || !is_handle(handle))
        return;
    uint64_t bytes = created ? mapping->bytes : 0 - mapping->bytes;
    handle->mapped += bytes;
    gm_reserved_add(&p->a->reserved, gm_device_index(handle->device), handle->kind, 0 - bytes);
}

static void note_device_peak(struct gm_device_totals *device, uint64_t now) {
    if (device->live <= device->peak)
        return;
    device->peak = device->live;
    device->peak_ns = now;
    device->peaks++;
}

static void count_live(struct gm_analysis_pass *p, const struct gm_live_block *b, bool created, uint64_t now) {
    struct gm_analysis *a = p->a;
    struct gm_kind_totals *kind = &a->by_kind[b->kind];
    struct gm_site_totals *site = site_of(p, b->site, b->device);
    struct gm_device_totals *device = &a->devices[gm_device_index(b->device)];
    struct gm_kind_totals *here = &device->by_kind[b->kind];
    uint64_t one = created ? 1 : UINT64_MAX, bytes = created ? b->bytes : 0 - b->bytes;
    if (!site || !gm_live_block_allocates(b))
        return;
    move_from_handle(p, b, created);
    kind->live_count += one;
    site->live_count += one;
    site->live_bytes += bytes;
    here->live_count += one;
    change(p->peak, &kind->live_bytes, &kind->at_peak, &kind->peak_seen, bytes);
    change(device->peaks, &here->live_bytes, &here->at_peak, &here->peak_seen, bytes);
    if (b->displaced) {
        struct gm_displaced *displaced = &a->displaced[b->kind];
        displaced->live += bytes;
        displaced->peak = displaced->live > displaced->peak ? displaced->live : displaced->peak;
    }
    if (kind->live_bytes > kind->peak_bytes && created)
        kind->peak_bytes = kind->live_bytes;
    if (here->live_bytes > here->peak_bytes && created)
        here->peak_bytes = here->live_bytes;
    if (!gm_kind_is_on_device((enum gm_kind)b->kind))
        return;
    change(device->peaks, &site->device_live, &site->at_peak, &site->peak_seen, bytes);
    a->live_bytes += bytes;
    device->live += bytes;
    if (created)
        note_device_peak(device, now);
    if (created && a->live_bytes > a->peak_bytes) {
        a->peak_bytes = a->live_bytes;
        a->peak_ns = now;
        p->peak++;
    }
}

static void note_reserved(struct gm_analysis *a, int device, uint64_t now) {
    struct gm_device_totals *on = &a->devices[gm_device_index(device)];
    uint64_t bytes = a->reserved.on[gm_device_index(device)].bytes;
    if (bytes > on->peak_reserved) {
        on->peak_reserved = bytes;
        on->peak_reserved_ns = now;
    }
    /* A pool takes memory before the block that needs it counts as live. */
    if (a->reserved.bytes < a->peak_reserved ||
        (a->reserved.bytes == a->peak_reserved && a->live_bytes <= a->live_at_reserved))
        return;
    if (a->reserved.bytes > a->peak_reserved)
        a->peak_reserved_ns = now;
    a->peak_reserved = a->reserved.bytes;
    a->live_at_reserved = a->live_bytes;
    a->kept_at_reserved = a->reserved.kept;
}

static void reserve(struct gm_analysis *a, const struct gm_live_block *b) {
    if (is_handle(b))
        gm_reserved_handle_created(&a->reserved, b);
    else if (gm_live_block_allocates(b))
        gm_reserved_created(&a->reserved, b);
    else
        return;
    note_reserved(a, b->device, b->created_ns);
}

static void unreserve(struct gm_analysis *a, const struct gm_live_block *b, const struct gm_event *e) {
    if (is_handle(b))
        gm_reserved_handle_destroyed(&a->reserved, b, e);
    else if (gm_live_block_allocates(b))
        gm_reserved_destroyed(&a->reserved, b, e);
}

static void on_trim(struct gm_analysis_pass *p, const struct gm_event *e) {
    struct gm_analysis *a = p->a;
    bool sized = e->action == GM_ACT_POOL_SIZE;
    uint64_t given = sized ? gm_reserved_pool_size(&a->reserved, e) : gm_reserved_trimmed(&a->reserved, e);
    note_reserved(a, e->device, e->time_ns);
    struct gm_count_and_bytes *trims = &a->trims[e->reason];
    trims->bytes += given;
    if (sized)
        return;
    trims->count += e->time_ns != p->trim_ns;
    p->trim_ns = e->time_ns;
}

/* A measurement begins with this event. It has no event for a reason without bytes. */
static void on_untracked(struct gm_analysis *a, const struct gm_event *e) {
    struct gm_device_totals *device = &a->devices[gm_device_index(e->device)];
    struct gm_untracked *untracked = &a->untracked;
    untracked->bytes += e->bytes - device->untracked;
    device->untracked = e->bytes;
    if (e->bytes > device->untracked_peak)
        device->untracked_peak = e->bytes;
    untracked->count++;
    untracked->shared |= (e->flags & GM_EVENT_SHARED) != 0;
    if (untracked->bytes > untracked->peak) {
        untracked->peak = untracked->bytes;
        untracked->peak_ns = e->time_ns;
    }
    for (int why = 0; why < GM_REASON_COUNT; why++)
        a->held[why].bytes = 0;
}

static void on_held(struct gm_analysis *a, const struct gm_event *e) {
    struct gm_held *held = &a->held[e->reason];
    held->bytes = e->bytes;
    held->peak = e->bytes > held->peak ? e->bytes : held->peak;
}

struct gm_amounts gm_analysis_amounts(const struct gm_analysis *a) {
    return (struct gm_amounts){a->live_bytes, a->reserved.kept, a->reserved.bytes};
}

struct gm_amounts gm_analysis_amounts_on(const struct gm_analysis *a, unsigned device) {
    const struct gm_reserved_device *on = &a->reserved.on[device];
    if (gm_analysis_device_count(a) < 2)
        return gm_analysis_amounts(a);
    return (struct gm_amounts){a->devices[device].live, on->kept, on->bytes};
}

bool gm_analysis_has_device(const struct gm_analysis *a, unsigned device) {
    const struct gm_device_totals *d = &a->devices[device];
    return d->allocs || d->failed_allocs || d->peak_reserved;
}

unsigned gm_analysis_device_count(const struct gm_analysis *a) {
    unsigned count = 0;
    for (unsigned device = 0; device < GM_DEVICES; device++)
        count += gm_analysis_has_device(a, device);
    return count;
}

struct gm_count_and_bytes gm_analysis_trims(const struct gm_analysis *a) {
    struct gm_count_and_bytes sum = {0};
    for (int why = 0; why < GM_REASON_COUNT; why++) {
        sum.count += a->trims[why].count;
        sum.bytes += a->trims[why].bytes;
    }
    return sum;
}

static void notify_created(struct gm_analysis_pass *p, const struct gm_event *e, int thread,
                           const struct gm_live_block *b) {
    struct gm_step step = {e, thread, b, *p->observers ? site_of(p, b->site, b->device) : NULL, p->a, b->created_ns};
    for (struct gm_observer *const *o = p->observers; *o && !p->failed; o++)
        p->failed = (*o)->created && !(*o)->created(*o, &step);
}

static void notify_destroyed(struct gm_analysis_pass *p, const struct gm_event *e, int thread,
                             const struct gm_live_block *b) {
    struct gm_step step = {e, thread, b, *p->observers ? site_of(p, b->site, b->device) : NULL, p->a, e->time_ns};
    for (struct gm_observer *const *o = p->observers; *o && !p->failed; o++)
        p->failed = (*o)->destroyed && !(*o)->destroyed(*o, &step);
}

static void notify_alive_at_end(struct gm_analysis_pass *p, const struct gm_live_block *b) {
    struct gm_step step = {.thread = b->thread, .block = b, .now = p->a, .time_ns = p->a->end_ns};
    for (struct gm_observer *const *o = p->observers; *o && !p->failed; o++)
        p->failed = (*o)->alive_at_end && !(*o)->alive_at_end(*o, &step);
}

static void count_lifetime(struct gm_analysis *a, uint64_t ns, uint64_t bytes) {
    unsigned bin = 0;
    for (uint64_t limit = 1000; bin < GM_LIFETIME_BINS - 1 && ns >= limit; limit *= 10)
        bin++;
    a->lifetime_count[bin]++;
    a->lifetime_bytes[bin] += bytes;
}

/* ---- a summary */

static struct gm_sum *sum_of(struct gm_analysis_pass *p, const struct gm_event *e) {
    uint64_t key = (uint64_t)e->site << 16 | (uint64_t)e->kind << 8 | (uint8_t)e->device;
    struct sum_entry *found;
    HASH_FIND(hh, p->sums, &key, sizeof key, found);
    if (found)
        return &found->sum;
    found = calloc(1, sizeof *found);
    if (!found) {
        p->failed = true;
        return NULL;
    }
    found->sum = (struct gm_sum){key, e->site < SITE_IDS ? e->site : 0, e->kind, e->device, 0, 0, 0};
    HASH_ADD(hh, p->sums, sum.key, sizeof found->sum.key, found);
    return &found->sum;
}

bool gm_sum_is_leak(const struct gm_sum *sum) { return sum->live && gm_kind_can_leak((enum gm_kind)sum->kind); }

/* The peaks of process and kinds follow with GM_ACT_PEAK or GM_ACT_TOTAL: the rows before it belong to one moment. */
static void on_sum(struct gm_analysis_pass *p, const struct gm_event *e) {
    struct gm_analysis *a = p->a;
    struct gm_sum *sum = sum_of(p, e);
    struct gm_site_totals *site = site_of(p, e->site, e->device);
    if (!sum || !site)
        return;
    bool released = e->reason == GM_REASON_CONTEXT_GONE;
    bool counts = e->sum.allocs || e->sum.frees; /* else it says what the site held at a peak */
    uint64_t held = sum->counted + e->sum.alloc_bytes, gone = counts && held > e->sum.live ? held - e->sum.live : 0;
    struct gm_sum_step step = {
        .event = e, .sum = sum, .before = sum->live, .allocs = e->sum.allocs, .bytes = e->sum.alloc_bytes, .now = a};
    *(released ? &step.released : &step.frees) = e->sum.frees;
    *(released ? &step.released_bytes : &step.freed_bytes) = gone;
    struct gm_kind_totals *kind = &a->by_kind[e->kind];
    struct gm_device_totals *device = &a->devices[gm_device_index(e->device)];
    struct gm_kind_totals *here = &device->by_kind[e->kind];
    uint64_t blocks = step.allocs - e->sum.frees, bytes = e->sum.live - sum->live;
    device->allocs += step.allocs;
    device->bytes += step.bytes;
    device->frees += step.frees;
    here->allocs += step.allocs;
    here->bytes += step.bytes;
    here->frees += step.frees;
    here->live_count += blocks;
    a->allocs += step.allocs;
    a->alloc_bytes += step.bytes;
    a->frees += step.frees;
    a->released_count += step.released;
    a->released_bytes += step.released_bytes;
    kind->allocs += step.allocs;
    kind->bytes += step.bytes;
    kind->frees += step.frees;
    kind->live_count += blocks;
    site->allocs += step.allocs;
    site->bytes += step.bytes;
    site->released_count += step.released;
    site->released_bytes += step.released_bytes;
    site->live_count += blocks;
    site->live_bytes += bytes;
    sum->count += blocks;
    sum->live = e->sum.live;
    sum->counted = counts ? e->sum.live : sum->counted;
    change(p->peak, &kind->live_bytes, &kind->at_peak, &kind->peak_seen, bytes);
    change(device->peaks, &here->live_bytes, &here->at_peak, &here->peak_seen, bytes);
    if (gm_kind_is_on_device((enum gm_kind)e->kind)) {
        change(device->peaks, &site->device_live, &site->at_peak, &site->peak_seen, bytes);
        device->live += bytes;
    }
    for (struct gm_observer *const *o = p->observers; *o && !p->failed; o++)
        p->failed = (*o)->summed && !(*o)->summed(*o, &step);
}

/* All rows of a moment were read. */
static void on_moment(struct gm_analysis_pass *p, uint64_t time_ns, uint64_t live) {
    struct gm_analysis *a = p->a;
    a->live_bytes = live;
    for (int k = 0; k < GM_KIND_COUNT; k++)
        if (a->by_kind[k].live_bytes > a->by_kind[k].peak_bytes)
            a->by_kind[k].peak_bytes = a->by_kind[k].live_bytes;
    for (int i = 0; i < GM_DEVICES; i++) {
        struct gm_device_totals *device = &a->devices[i];
        for (int k = 0; k < GM_KIND_COUNT; k++)
            if (device->by_kind[k].live_bytes > device->by_kind[k].peak_bytes)
                device->by_kind[k].peak_bytes = device->by_kind[k].live_bytes;
        note_device_peak(device, time_ns);
    }
    if (live <= a->peak_bytes)
        return;
    a->peak_bytes = live;
    a->peak_ns = time_ns;
    p->peak++;
}

/* What was live and kept when reserved bytes peaked is known only if that was the end of an interval. */
static void on_peak(struct gm_analysis_pass *p, const struct gm_event *e) {
    struct gm_analysis *a = p->a;
    on_moment(p, e->time_ns, e->peak.live);
    if (e->peak.most_reserved <= a->peak_reserved)
        return;
    a->peak_reserved = a->reserved.bytes = e->peak.most_reserved;
    a->peak_reserved_ns = e->time_ns;
    a->live_at_reserved = a->kept_at_reserved = UINT64_MAX;
}

static void on_total(struct gm_analysis_pass *p, const struct gm_event *e) {
    struct gm_analysis *a = p->a;
    on_moment(p, e->time_ns, e->total.live);
    a->failed_allocs += e->total.failures;
    a->reserved.kept = e->total.kept;
    a->reserved.bytes = e->total.reserved;
    if (a->live_at_reserved == UINT64_MAX && e->total.reserved == a->peak_reserved) {
        a->live_at_reserved = e->total.live;
        a->kept_at_reserved = e->total.kept;
        a->peak_reserved_ns = e->time_ns;
    }
}

static void count_leak(struct gm_analysis *a, int device, uint64_t count, uint64_t bytes) {
    struct gm_device_totals *on = &a->devices[gm_device_index(device)];
    a->leaked_count += count;
    a->leaked_bytes += bytes;
    on->leaked_count += count;
    on->leaked_bytes += bytes;
}

static void conclude_sums(struct gm_analysis_pass *p) {
    struct gm_analysis *a = p->a;
    a->sums = calloc(HASH_COUNT(p->sums) + 1, sizeof *a->sums);
    p->failed = !a->sums;
    for (struct sum_entry *s = p->sums; s && !p->failed; s = s->hh.next) {
        struct gm_site_totals *site;
        a->sums[a->sum_count++] = s->sum;
        if (!gm_sum_is_leak(&s->sum) || !(site = site_of(p, s->sum.site, s->sum.device)))
            continue;
        site->leaked_count += s->sum.count;
        site->leaked_bytes += s->sum.live;
        count_leak(a, s->sum.device, s->sum.count, s->sum.live);
    }
}

/* ---- events */

/* The block lies in a kind of memory that its call does not return by itself. */
static bool was_moved(const struct gm_event *e) {
    return gm_kind_is_chosen((enum gm_kind)e->kind) && e->call != GM_CALL_ALLOC_MANAGED;
}

static void count_share(struct gm_count_and_bytes *share, uint64_t bytes) {
    share->count++;
    share->bytes += bytes;
}

/* The verdict of the active list, where the policy recorded it and still served the call as requested. */
static void count_decision(struct gm_analysis *a, const struct gm_event *e) {
    if (e->reason == GM_REASON_OUT_OF_MEMORY && !a->decisions[e->kind][e->reason].count)
        a->displaced_ns[e->kind] = e->time_ns;
    count_share(&a->decisions[e->kind][e->reason], e->bytes);
    if (e->kind == GM_KIND_NATIVE && e->verdict != GM_KIND_NATIVE && e->reason == GM_REASON_POLICY)
        count_share(&a->verdicts[e->verdict], e->bytes);
}

static void on_drop(struct gm_analysis *a, const struct gm_event *e) {
    for (unsigned i = 0; i < GM_SOFT_PROMISES; i++)
        a->dropped[i] += (e->bytes & (uint64_t)GM_PROMISE_IPC << i) != 0;
}

static void on_alloc(struct gm_analysis_pass *p, const struct gm_event *e, int thread) {
    struct gm_analysis *a = p->a;
    uint64_t key = key_of(e);
    bool memory = gm_call_allocates((enum gm_call)e->call, (enum gm_kind)e->kind);
    struct gm_live_block old, block = {.key = key,
                                       .bytes = e->bytes,
                                       .created_ns = e->time_ns + e->duration_ns,
                                       .stream = e->stream,
                                       .slack = e->slack,
                                       .site = e->site < SITE_IDS ? e->site : 0,
                                       .thread = thread,
                                       .context = e->context,
                                       .kind = e->kind,
                                       .call = e->call,
                                       .device = e->device,
                                       .hit = e->hit,
                                       .displaced = e->reason == GM_REASON_OUT_OF_MEMORY};
    struct thread_entry *t = thread_of(p, thread);
    struct gm_device_totals *device = &a->devices[gm_device_index(e->device)];
    if (memory) {
        struct gm_site_totals *site = site_of(p, e->site, e->device);
        block.number = ++a->allocs;
        a->alloc_bytes += e->bytes;
        if (e->flags & GM_EVENT_LIVE)
            count_share(&a->older, e->bytes);
        a->hits += e->hit;
        a->moved += was_moved(e);
        count_decision(a, e);
        a->by_kind[e->kind].allocs++;
        a->by_kind[e->kind].bytes += e->bytes;
        a->by_kind[e->kind].hits += e->hit;
        device->allocs++;
        device->bytes += e->bytes;
        device->by_kind[e->kind].allocs++;
        device->by_kind[e->kind].bytes += e->bytes;
        device->by_kind[e->kind].hits += e->hit;
        if (site) {
            site->allocs++;
            site->bytes += e->bytes;
        }
        count_size(p, e->bytes);
        if (t && !(e->flags & GM_EVENT_LIVE))
            t->last_key = key;
    }
    if (!key)
        return;
    switch (gm_live_blocks_add(&p->live, &block, &old)) {
    case 1:
        a->replaced++;
        count_live(p, &old, false, block.created_ns);
        unreserve(a, &old, NULL);
        if (gm_live_block_allocates(&old))
            notify_destroyed(p, e, thread, &old);
        break;
    case -1: p->failed = true; return;
    }
    count_live(p, &block, true, block.created_ns);
    reserve(a, &block);
    if (memory)
        notify_created(p, e, thread, &block);
}

static void count_released(struct gm_analysis_pass *p, const struct gm_live_block *b) {
    struct gm_site_totals *site = site_of(p, b->site, b->device);
    p->a->released_count++;
    p->a->released_bytes += b->bytes;
    if (site) {
        site->released_count++;
        site->released_bytes += b->bytes;
    }
}

static void on_free(struct gm_analysis_pass *p, const struct gm_event *e, int thread) {
    struct gm_analysis *a = p->a;
    struct gm_live_block block;
    struct thread_entry *t = thread_of(p, thread);
    uint64_t key = key_of(e);
    if (!gm_live_blocks_take(&p->live, key, &block)) {
        a->unknown_frees += e->action == GM_ACT_FREE;
        return;
    }
    count_live(p, &block, false, e->time_ns);
    unreserve(a, &block, e);
    if (!gm_live_block_allocates(&block))
        return;
    if (e->action == GM_ACT_RELEASE) {
        count_released(p, &block);
    } else {
        struct gm_device_totals *device = &a->devices[gm_device_index(block.device)];
        a->frees++;
        a->by_kind[block.kind].frees++;
        device->frees++;
        device->by_kind[block.kind].frees++;
        if (t && t->last_key == key) {
            struct gm_site_totals *site = site_of(p, block.site, block.device);
            a->temporary++;
            a->temporary_bytes += block.bytes;
            if (site) {
                site->temporary++;
                site->temporary_bytes += block.bytes;
            }
            t->last_key = 0;
        }
    }
    count_lifetime(a, e->time_ns > block.created_ns ? e->time_ns - block.created_ns : 0, block.bytes);
    notify_destroyed(p, e, thread, &block);
}

static void on_failure(struct gm_analysis_pass *p, const struct gm_event *e) {
    struct gm_analysis *a = p->a;
    struct gm_device_totals *device = &a->devices[gm_device_index(e->device)];
    if (e->action == GM_ACT_ALLOC_FAIL) {
        struct gm_site_totals *site = site_of(p, e->site, e->device);
        a->failed_allocs++;
        device->failed_allocs++;
        if (site)
            site->failed++;
    } else {
        a->failed_frees++;
    }
    if (a->failure_count < GM_FAILURES_MAX)
        a->failures[a->failure_count++] =
            (struct gm_failure){e->time_ns, e->bytes, device->live, e->site,
                                e->result,  e->call,  e->action,    (int8_t)gm_device_index(e->device)};
}

/* The library records the release of each block of a destroyed context. This function handles traces that lost such
 * events. */
static void on_context_destroyed(struct gm_analysis_pass *p, const struct gm_event *e, int thread) {
    for (size_t i = 0; e->context && !e->result && i < p->live.size;) {
        struct gm_live_block *b = &p->live.slots[i];
        if (!b->key || b->context != e->context || gm_kind_outlives_context((enum gm_kind)b->kind)) {
            i++;
            continue;
        }
        struct gm_live_block destroyed;
        gm_live_blocks_take(&p->live, b->key, &destroyed); /* another record may move here: look again */
        count_live(p, &destroyed, false, e->time_ns);
        unreserve(p->a, &destroyed, e);
        if (gm_live_block_allocates(&destroyed)) {
            count_released(p, &destroyed);
            notify_destroyed(p, e, thread, &destroyed);
        }
    }
}

static void on_event(struct gm_analysis_pass *p, const struct gm_event *e, int thread) {
    struct gm_analysis *a = p->a;
    uint64_t end = e->time_ns + (e->action == GM_ACT_SUM ? 0 : e->duration_ns);
    struct gm_step step = {.event = e, .thread = thread, .now = a, .time_ns = e->time_ns};
    for (struct gm_observer *const *o = p->observers; *o && !p->failed; o++)
        p->failed = (*o)->event && !(*o)->event(*o, &step);
    a->events++;
    a->by_action[e->action]++;
    if (end > a->end_ns)
        a->end_ns = end;
    bool failure = e->action == GM_ACT_ALLOC_FAIL || e->action == GM_ACT_FREE_FAIL;
    if (gm_event_is_call(e) && !(e->flags & GM_EVENT_LIVE)) {
        struct gm_call_totals *call = &a->by_call[e->call];
        call->count++;
        call->failed += failure;
        if (e->action == GM_ACT_ALLOC)
            call->allocated += e->bytes;
        else if (e->action == GM_ACT_FREE)
            call->freed += e->bytes;
        call->time_ns += e->duration_ns;
        a->time_ns += e->duration_ns;
    }
    switch ((enum gm_action)e->action) {
    case GM_ACT_ALLOC:
    case GM_ACT_RESERVE:
    case GM_ACT_MAP: on_alloc(p, e, thread); break;
    case GM_ACT_FREE:
    case GM_ACT_RELEASE:
    case GM_ACT_UNRESERVE:
    case GM_ACT_UNMAP: on_free(p, e, thread); break;
    case GM_ACT_ALLOC_FAIL:
    case GM_ACT_FREE_FAIL: on_failure(p, e); break;
    case GM_ACT_DROP: on_drop(a, e); break;
    case GM_ACT_TRIM:
        if (gm_event_is_own_trim(e))
            on_trim(p, e);
        break;
    case GM_ACT_POOL_SIZE: on_trim(p, e); break;
    case GM_ACT_KEPT:
        gm_reserved_kept(&a->reserved, e);
        note_reserved(a, e->device, e->time_ns);
        break;
    case GM_ACT_UNTRACKED: on_untracked(a, e); break;
    case GM_ACT_HELD: on_held(a, e); break;
    case GM_ACT_SUM: on_sum(p, e); break;
    case GM_ACT_PEAK: on_peak(p, e); break;
    case GM_ACT_TOTAL: on_total(p, e); break;
    case GM_ACT_CONTEXT_DESTROYED: on_context_destroyed(p, e, thread); break;
    default: break;
    }
}

/* ---- the end */

static int by_frequency(const void *x, const void *y) {
    const struct gm_size_totals *a = x, *b = y;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    return a->size < b->size ? 1 : a->size > b->size ? -1 : 0;
}

bool gm_live_block_is_leak(const struct gm_live_block *b) {
    return (gm_live_block_allocates(b) || is_handle(b)) && gm_kind_can_leak((enum gm_kind)b->kind);
}

/* Of a handle, only the bytes that are not mapped leak by themselves. */
static bool is_alive_at_end(struct gm_live_block *b) {
    if (b->key && is_handle(b)) {
        b->bytes -= b->mapped;
        return b->bytes > 0;
    }
    return b->key && gm_live_block_allocates(b);
}

static void conclude_kinds(struct gm_kind_totals kinds[GM_KIND_COUNT], uint32_t peaks) {
    for (int k = 0; k < GM_KIND_COUNT; k++)
        change(peaks, &kinds[k].live_bytes, &kinds[k].at_peak, &kinds[k].peak_seen, 0);
}

static void conclude(struct gm_analysis_pass *p) {
    struct gm_analysis *a = p->a;
    for (size_t i = 0; i < p->live.size; i++) {
        struct gm_live_block *b = &p->live.slots[i];
        struct gm_site_totals *site;
        if (!is_alive_at_end(b))
            continue;
        notify_alive_at_end(p, b);
        if (!gm_live_block_is_leak(b) || !(site = site_of(p, b->site, b->device)))
            continue;
        site->leaked_count++;
        site->leaked_bytes += b->bytes;
        count_leak(a, b->device, 1, b->bytes);
    }
    conclude_sums(p);
    for (size_t i = 0; i < a->site_count; i++)
        change(a->devices[a->sites[i].device].peaks, &a->sites[i].device_live, &a->sites[i].at_peak,
               &a->sites[i].peak_seen, 0);
    conclude_kinds(a->by_kind, p->peak);
    for (int i = 0; i < GM_DEVICES; i++)
        conclude_kinds(a->devices[i].by_kind, a->devices[i].peaks);
    a->sizes = malloc((HASH_COUNT(p->sizes) + 1) * sizeof *a->sizes);
    if (!a->sizes) {
        p->failed = true;
        return;
    }
    for (struct size_entry *s = p->sizes; s; s = s->hh.next)
        a->sizes[a->size_count++] = s->totals;
    qsort(a->sizes, a->size_count, sizeof *a->sizes, by_frequency);
}

static void free_pass(struct gm_analysis_pass *p) {
    struct size_entry *s, *next_size;
    struct thread_entry *t, *next_thread;
    HASH_ITER(hh, p->sizes, s, next_size) {
        HASH_DEL(p->sizes, s);
        free(s);
    }
    HASH_ITER(hh, p->threads, t, next_thread) {
        HASH_DEL(p->threads, t);
        free(t);
    }
    struct sum_entry *sum, *next_sum;
    HASH_ITER(hh, p->sums, sum, next_sum) {
        HASH_DEL(p->sums, sum);
        free(sum);
    }
    gm_live_blocks_free(&p->live);
    free(p->site_index);
    free(p);
}

struct gm_analysis_pass *gm_analysis_begin(struct gm_observer *const *observers) {
    static struct gm_observer *const none[] = {NULL};
    struct gm_analysis_pass *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->a = calloc(1, sizeof *p->a);
    p->observers = observers ? observers : none;
    p->site_index = calloc(SITE_IDS, sizeof *p->site_index);
    p->failed = !p->a || !p->site_index;
    return p;
}

bool gm_analysis_event(struct gm_analysis_pass *p, const struct gm_event *event, int thread) {
    if (!p->failed)
        on_event(p, event, thread);
    return !p->failed;
}

struct gm_analysis *gm_analysis_end(struct gm_analysis_pass *p) {
    if (!p)
        return NULL;
    if (!p->failed)
        conclude(p);
    struct gm_analysis *a = p->a;
    if (p->failed) {
        gm_analysis_free(a);
        a = NULL;
    }
    free_pass(p);
    return a;
}

void gm_analysis_free(struct gm_analysis *a) {
    if (!a)
        return;
    free(a->sites);
    free(a->sizes);
    free(a->sums);
    free(a);
}
