#include "tools/cli/analysis.h"
#include "tools/cli/live.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define SITE_IDS  (1u << 22) /* ids above count as unknown: only a damaged file has them */
#define SIZES_MAX 65536u

struct size_entry {
    struct gm_size_totals totals;
    UT_hash_handle hh;
};

struct thread_entry {
    int id;
    uint64_t last_key; /* its latest allocation, 0 once something else was allocated or freed */
    UT_hash_handle hh;
};

struct pass {
    struct gm_analysis *a;
    struct gm_live_table live;
    struct gm_site_totals *sites; /* by order of appearance */
    size_t site_count, site_room;
    uint32_t *site_index; /* id -> place in sites + 1 */
    struct size_entry *sizes, *last_size;
    struct thread_entry *threads, *last_thread;
    uint32_t peak; /* number of the peaks so far: tells whether a total changed since the latest */
    bool failed;
};

bool gm_kind_on_device(enum gm_kind kind) {
    return kind != GM_KIND_HOST && kind != GM_KIND_IMPORTED && kind != GM_KIND_HOST_NUMA;
}

bool gm_call_gives_memory(enum gm_call call) {
    return call != GM_CALL_VMM_RESERVE && call != GM_CALL_VMM_MAP && call != GM_CALL_POOL_CREATE;
}

/* Handles and addresses are numbers of different spaces that may meet by chance. */
static uint64_t key_of(const struct gm_event *e) {
    uint64_t space;
    switch ((enum gm_call)e->call) {
    case GM_CALL_ARRAY:
    case GM_CALL_ARRAY3D:
    case GM_CALL_ARRAY_DESTROY:
    case GM_CALL_MIPMAP:
    case GM_CALL_MIPMAP_DESTROY:
        space = 1;
        break;
    case GM_CALL_VMM_CREATE:
    case GM_CALL_VMM_IMPORT:
    case GM_CALL_VMM_RELEASE:
        space = 2;
        break;
    case GM_CALL_POOL_CREATE:
    case GM_CALL_POOL_DESTROY:
        space = 3;
        break;
    case GM_CALL_VMM_RESERVE:
    case GM_CALL_VMM_ADDRESS_FREE:
        space = 4;
        break;
    case GM_CALL_VMM_MAP:
    case GM_CALL_VMM_UNMAP:
        space = 5;
        break;
    default:
        space = 0;
    }
    return e->address ^ space << 60;
}

uint64_t gm_event_key(const struct gm_event *e) {
    return key_of(e);
}

/* ---- tables */

static struct gm_site_totals *site_of(struct pass *p, uint32_t id) {
    if (id >= SITE_IDS)
        id = 0;
    if (!p->site_index[id]) {
        if (p->site_count == p->site_room) {
            size_t room = p->site_room ? 2 * p->site_room : 256;
            struct gm_site_totals *sites = realloc(p->sites, room * sizeof *sites);
            if (!sites) {
                p->failed = true;
                return NULL;
            }
            p->sites = sites;
            p->site_room = room;
        }
        p->sites[p->site_count] = (struct gm_site_totals){.id = id};
        p->site_index[id] = (uint32_t)++p->site_count;
    }
    return &p->sites[p->site_index[id] - 1];
}

static void count_size(struct pass *p, uint64_t size) {
    struct size_entry *s = p->last_size;
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
    p->last_size = s;
}

static struct thread_entry *thread_of(struct pass *p, int id) {
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
 * A total's value at the moment of the peak is kept without copying all totals at each new peak: whoever
 * changes a total for the first time since the latest peak saves the value it had. */

static void change(const struct pass *p, uint64_t *value, uint64_t *at_peak, uint32_t *seen,
                   uint64_t difference) {
    if (*seen != p->peak) {
        *at_peak = *value;
        *seen = p->peak;
    }
    *value += difference;
}

static void count_live(struct pass *p, const struct gm_live *b, bool born, uint64_t now) {
    struct gm_analysis *a = p->a;
    struct gm_kind_totals *kind = &a->by_kind[b->kind];
    struct gm_site_totals *site = site_of(p, b->site);
    uint64_t one = born ? 1 : UINT64_MAX, bytes = born ? b->bytes : 0 - b->bytes;
    if (!site || !gm_call_gives_memory((enum gm_call)b->call))
        return;
    kind->live_count += one;
    site->live_count += one;
    site->live_bytes += bytes;
    change(p, &kind->live_bytes, &kind->at_peak, &kind->peak_seen, bytes);
    if (kind->live_bytes > kind->peak_bytes && born)
        kind->peak_bytes = kind->live_bytes;
    if (!gm_kind_on_device((enum gm_kind)b->kind))
        return;
    change(p, &site->device_live, &site->at_peak, &site->peak_seen, bytes);
    a->live_bytes += bytes;
    a->live_reserved += born ? b->bytes + b->slack : 0 - (b->bytes + b->slack);
    if (born && a->live_bytes > a->peak_bytes) {
        a->peak_bytes = a->live_bytes;
        a->peak_ns = now;
        p->peak++;
    }
    if (born && a->live_reserved > a->peak_reserved) {
        a->peak_reserved = a->live_reserved;
        a->peak_reserved_ns = now;
    }
}

static void count_lifetime(struct gm_analysis *a, uint64_t ns, uint64_t bytes) {
    unsigned bin = 0;
    for (uint64_t limit = 1000; bin < GM_LIFETIME_BINS - 1 && ns >= limit; limit *= 10)
        bin++;
    a->lifetime_count[bin]++;
    a->lifetime_bytes[bin] += bytes;
}

/* ---- events */

/* The kind that the call gives when nobody moves it. */
static bool was_moved(const struct gm_event *e) {
    return (e->kind == GM_KIND_ASYNC || e->kind == GM_KIND_MANAGED || e->kind == GM_KIND_MANAGED_POOL ||
            e->kind == GM_KIND_HOST_NUMA) &&
           e->call != GM_CALL_ALLOC_MANAGED;
}

static void count_share(struct gm_share *share, uint64_t bytes) {
    share->count++;
    share->bytes += bytes;
}

/* A verdict beside a decision: the policy watched with the active list and placed as asked. */
static void count_decision(struct gm_analysis *a, const struct gm_event *e) {
    count_share(&a->decisions[e->kind][e->reason], e->bytes);
    if (e->kind == GM_KIND_NATIVE && e->verdict != GM_KIND_NATIVE && e->reason == GM_REASON_POLICY)
        count_share(&a->verdicts[e->verdict], e->bytes);
}

static void on_drop(struct gm_analysis *a, const struct gm_event *e) {
    for (unsigned i = 0; i < GM_SOFT_PROMISES; i++)
        a->dropped[i] += (e->bytes & (uint64_t)GM_PROMISE_IPC << i) != 0;
}

static void on_alloc(struct pass *p, const struct gm_event *e, int thread) {
    struct gm_analysis *a = p->a;
    uint64_t key = key_of(e);
    struct gm_live old, block = {key,
                                 e->bytes,
                                 e->time_ns + e->duration_ns,
                                 e->slack,
                                 e->site < SITE_IDS ? e->site : 0,
                                 e->context,
                                 e->kind,
                                 e->call};
    struct thread_entry *t = thread_of(p, thread);
    if (gm_call_gives_memory((enum gm_call)e->call)) {
        struct gm_site_totals *site = site_of(p, e->site);
        a->allocs++;
        a->alloc_bytes += e->bytes;
        a->hits += e->hit;
        a->moved += was_moved(e);
        count_decision(a, e);
        a->by_kind[e->kind].allocs++;
        a->by_kind[e->kind].bytes += e->bytes;
        a->by_kind[e->kind].hits += e->hit;
        if (site) {
            site->allocs++;
            site->bytes += e->bytes;
        }
        count_size(p, e->bytes);
        if (t)
            t->last_key = key;
    }
    if (!key)
        return;
    switch (gm_live_add(&p->live, &block, &old)) {
    case 1:
        a->replaced++;
        count_live(p, &old, false, block.born_ns);
        break;
    case -1:
        p->failed = true;
        return;
    }
    count_live(p, &block, true, block.born_ns);
}

static void on_free(struct pass *p, const struct gm_event *e, int thread) {
    struct gm_analysis *a = p->a;
    struct gm_live block;
    struct thread_entry *t = thread_of(p, thread);
    uint64_t key = key_of(e);
    if (!gm_live_take(&p->live, key, &block)) {
        a->unknown_frees += e->action == GM_ACT_FREE;
        return;
    }
    count_live(p, &block, false, e->time_ns);
    if (!gm_call_gives_memory((enum gm_call)block.call))
        return;
    if (e->action == GM_ACT_RELEASE) {
        a->released_count++;
        a->released_bytes += block.bytes;
    } else {
        a->frees++;
        a->by_kind[block.kind].frees++;
        if (t && t->last_key == key) {
            struct gm_site_totals *site = site_of(p, block.site);
            a->temporary++;
            if (site)
                site->temporary++;
            t->last_key = 0;
        }
    }
    count_lifetime(a, e->time_ns > block.born_ns ? e->time_ns - block.born_ns : 0, block.bytes);
}

static void on_failure(struct pass *p, const struct gm_event *e) {
    struct gm_analysis *a = p->a;
    if (e->action == GM_ACT_ALLOC_FAIL) {
        struct gm_site_totals *site = site_of(p, e->site);
        a->failed_allocs++;
        if (site)
            site->failed++;
    } else {
        a->failed_frees++;
    }
    if (a->failures_kept < GM_FAILURES_KEPT)
        a->failures[a->failures_kept++] =
            (struct gm_failure){e->time_ns, e->bytes, a->live_bytes, e->site, e->result, e->call, e->action};
}

/* Writers name each block that goes with a context; this finds those of traces that lost such events. */
static void on_context_gone(struct pass *p, const struct gm_event *e) {
    for (size_t i = 0; e->context && i < p->live.size;) {
        struct gm_live *b = &p->live.slots[i];
        if (!b->key || b->context != e->context || b->kind == GM_KIND_HOST) {
            i++;
            continue;
        }
        struct gm_live gone;
        gm_live_take(&p->live, b->key, &gone); /* another record may move here: look at this place again */
        count_live(p, &gone, false, e->time_ns);
        if (gm_call_gives_memory((enum gm_call)gone.call)) {
            p->a->released_count++;
            p->a->released_bytes += gone.bytes;
        }
    }
}

/* A step of ours inside a call, not the program's trim of its own pool. */
static bool is_own_trim(const struct gm_event *e) { return e->action == GM_ACT_TRIM && e->call != GM_CALL_POOL_CREATE; }

static void on_event(struct pass *p, const struct gm_event *e, int thread) {
    struct gm_analysis *a = p->a;
    uint64_t end = e->time_ns + e->duration_ns;
    a->events++;
    a->by_action[e->action]++;
    if (end > a->end_ns)
        a->end_ns = end;
    bool failure = e->action == GM_ACT_ALLOC_FAIL || e->action == GM_ACT_FREE_FAIL;
    if (e->call != GM_CALL_NONE && e->action != GM_ACT_RELEASE && e->action != GM_ACT_DROP && !is_own_trim(e)) {
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
    case GM_ACT_MAP:
        on_alloc(p, e, thread);
        break;
    case GM_ACT_FREE:
    case GM_ACT_RELEASE:
    case GM_ACT_UNRESERVE:
    case GM_ACT_UNMAP:
        on_free(p, e, thread);
        break;
    case GM_ACT_ALLOC_FAIL:
    case GM_ACT_FREE_FAIL:
        on_failure(p, e);
        break;
    case GM_ACT_DROP:
        on_drop(a, e);
        break;
    case GM_ACT_TRIM:
        if (is_own_trim(e))
            count_share(&a->trims, e->bytes);
        break;
    case GM_ACT_CONTEXT_GONE:
        on_context_gone(p, e);
        break;
    default:
        break;
    }
}

/* ---- the end */

static int by_frequency(const void *x, const void *y) {
    const struct gm_size_totals *a = x, *b = y;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    return a->size < b->size ? 1 : a->size > b->size ? -1 : 0;
}

static void conclude(struct pass *p) {
    struct gm_analysis *a = p->a;
    for (size_t i = 0; i < p->live.size; i++) {
        const struct gm_live *b = &p->live.slots[i];
        struct gm_site_totals *site;
        /* Memory of graph nodes is the graph's, and another process's memory is that process's. */
        if (!b->key || !gm_call_gives_memory((enum gm_call)b->call) || b->kind == GM_KIND_GRAPH ||
            b->kind == GM_KIND_IMPORTED || !(site = site_of(p, b->site)))
            continue;
        site->leaked_count++;
        site->leaked_bytes += b->bytes;
        a->leaked_count++;
        a->leaked_bytes += b->bytes;
    }
    for (size_t i = 0; i < p->site_count; i++)
        change(p, &p->sites[i].device_live, &p->sites[i].at_peak, &p->sites[i].peak_seen, 0);
    for (int k = 0; k < GM_KIND_COUNT; k++)
        change(p, &a->by_kind[k].live_bytes, &a->by_kind[k].at_peak, &a->by_kind[k].peak_seen, 0);
    a->sites = p->sites;
    a->site_count = p->site_count;
    p->sites = NULL;
    a->sizes = malloc((HASH_COUNT(p->sizes) + 1) * sizeof *a->sizes);
    if (!a->sizes) {
        p->failed = true;
        return;
    }
    for (struct size_entry *s = p->sizes; s; s = s->hh.next)
        a->sizes[a->size_count++] = s->totals;
    qsort(a->sizes, a->size_count, sizeof *a->sizes, by_frequency);
}

static void free_pass(struct pass *p) {
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
    gm_live_free(&p->live);
    free(p->sites);
    free(p->site_index);
}

struct gm_analysis *gm_analysis_read(struct gm_reader *reader) {
    struct pass p = {.a = calloc(1, sizeof *p.a), .site_index = calloc(SITE_IDS, sizeof *p.site_index)};
    struct gm_event event;
    int thread;
    p.failed = !p.a || !p.site_index;
    while (!p.failed && gm_reader_next(reader, &event, &thread))
        on_event(&p, &event, thread);
    if (!p.failed)
        conclude(&p);
    free_pass(&p);
    if (p.failed) {
        gm_analysis_free(p.a);
        return NULL;
    }
    return p.a;
}

void gm_analysis_free(struct gm_analysis *a) {
    if (!a)
        return;
    free(a->sites);
    free(a->sizes);
    free(a);
}
