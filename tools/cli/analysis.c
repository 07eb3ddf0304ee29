#include "tools/cli/analysis.h"

#include "tools/cli/analysis_amounts.h"
#include "tools/cli/analysis_pass.h"
#include "tools/cli/analysis_summary.h"
#include "tools/cli/memory_kinds.h"
#include "tools/cli/sort.h"

#include <stdlib.h>

static struct gm_site_totals *site_for_observers(struct gm_analysis_pass *p, const struct gm_live_block *b) {
    return *p->observers && !p->blocks_only ? gm_pass_site(p, b->site, b->device) : NULL;
}

static void notify_created(struct gm_analysis_pass *p, const struct gm_event *e, int thread,
                           const struct gm_live_block *b) {
    struct gm_step step = {e, thread, b, site_for_observers(p, b), p->a, b->created_ns};
    for (struct gm_observer *const *o = p->observers; *o && !p->failed; o++)
        p->failed = (*o)->created && !(*o)->created(*o, &step);
}

static void notify_destroyed(struct gm_analysis_pass *p, const struct gm_event *e, int thread,
                             const struct gm_live_block *b) {
    struct gm_step step = {e, thread, b, site_for_observers(p, b), p->a, e->time_ns};
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
static void count_decision(struct gm_analysis *a, const struct gm_event *e, uint64_t on_device) {
    if (e->reason == GM_REASON_OUT_OF_MEMORY) {
        bool split = e->kind == GM_KIND_SPLIT;
        enum gm_kind kind = split ? GM_KIND_HOST_NUMA : (enum gm_kind)e->kind;
        if (!a->displaced[kind].all.count)
            a->displaced_ns[kind] = e->time_ns;
        count_share(&a->displaced[kind].all, !split ? e->bytes : e->bytes > on_device ? e->bytes - on_device : 0);
    }
    count_share(&a->decisions[e->kind][e->reason], e->bytes);
    if (e->kind == GM_KIND_NATIVE && e->verdict != GM_KIND_NATIVE && e->reason == GM_REASON_POLICY)
        count_share(&a->verdicts[e->verdict], e->bytes);
}

static void on_drop(struct gm_analysis *a, const struct gm_event *e) {
    for (unsigned i = 0; i < GM_SOFT_PROMISES; i++)
        a->dropped[i] += (e->bytes & (uint64_t)GM_PROMISE_IPC << i) != 0;
}

static void count_alloc(struct gm_analysis_pass *p, const struct gm_event *e, int thread, uint64_t key) {
    struct gm_analysis *a = p->a;
    struct gm_device_totals *device = &a->devices[gm_device_index(e->device)];
    struct gm_site_totals *site = gm_pass_site(p, e->site, e->device);
    struct thread_entry *t = gm_pass_thread(p, thread);
    a->alloc_bytes += e->bytes;
    if (e->flags & GM_EVENT_LIVE)
        count_share(&a->older, e->bytes);
    a->hits += e->hit;
    a->moved += was_moved(e);
    count_decision(a, e, p->on_device);
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
    gm_pass_size(p, e->bytes);
    if (t && !(e->flags & GM_EVENT_LIVE))
        t->last_key = key;
}

/* The bytes of a block begin or end to be live and reserved. */
static void count_live(struct gm_analysis_pass *p, const struct gm_live_block *b, uint64_t now) {
    if (p->blocks_only)
        return;
    gm_pass_live(p, b, true, now);
    gm_pass_reserve(p->a, b);
}

static void count_gone(struct gm_analysis_pass *p, const struct gm_live_block *b, const struct gm_event *free,
                       uint64_t now) {
    if (p->blocks_only)
        return;
    gm_pass_live(p, b, false, now);
    gm_pass_unreserve(p->a, b, free);
}

static void on_alloc(struct gm_analysis_pass *p, const struct gm_event *e, int thread) {
    struct gm_analysis *a = p->a;
    uint64_t key = gm_event_key(e);
    bool memory = gm_call_allocates((enum gm_call)e->call, (enum gm_kind)e->kind);
    struct gm_live_block old, block = {.key = key,
                                       .bytes = e->bytes,
                                       .created_ns = e->time_ns + e->duration_ns,
                                       .stream = e->kind == GM_KIND_SPLIT ? p->on_device : e->stream,
                                       .slack = e->slack,
                                       .site = e->site < SITE_IDS ? e->site : 0,
                                       .thread = thread,
                                       .context = e->context,
                                       .kind = e->kind,
                                       .call = e->call,
                                       .device = e->device,
                                       .hit = e->hit,
                                       .displaced = e->reason == GM_REASON_OUT_OF_MEMORY};
    if (memory)
        block.number = ++a->allocs;
    if (memory && !p->blocks_only)
        count_alloc(p, e, thread, key);
    if (!key)
        return;
    switch (gm_live_blocks_add(&p->live, &block, &old)) {
    case 1:
        a->replaced++;
        count_gone(p, &old, NULL, block.created_ns);
        if (gm_live_block_allocates(&old))
            notify_destroyed(p, e, thread, &old);
        break;
    case -1: p->failed = true; return;
    }
    count_live(p, &block, block.created_ns);
    if (memory)
        notify_created(p, e, thread, &block);
}

static void count_released(struct gm_analysis_pass *p, const struct gm_live_block *b) {
    struct gm_site_totals *site = gm_pass_site(p, b->site, b->device);
    p->a->released_count++;
    p->a->released_bytes += b->bytes;
    if (site) {
        site->released_count++;
        site->released_bytes += b->bytes;
    }
}

/* Each allocation makes the count begin anew. */
static void count_freed_last(const struct gm_analysis *a, struct gm_site_totals *site, uint64_t count, uint64_t bytes) {
    if (site->freed_last_after != a->allocs) {
        site->freed_last_after = a->allocs;
        site->freed_last_count = site->freed_last_bytes = 0;
    }
    site->freed_last_count += count;
    site->freed_last_bytes += bytes;
}

static void count_free(struct gm_analysis_pass *p, const struct gm_event *e, int thread,
                       const struct gm_live_block *block) {
    struct gm_analysis *a = p->a;
    struct gm_device_totals *device = &a->devices[gm_device_index(block->device)];
    struct gm_site_totals *site = gm_pass_site(p, block->site, block->device);
    struct thread_entry *t = gm_pass_thread(p, thread);
    a->frees++;
    a->by_kind[block->kind].frees++;
    device->frees++;
    device->by_kind[block->kind].frees++;
    if (site)
        count_freed_last(a, site, 1, block->bytes);
    if (t && t->last_key == block->key) {
        a->temporary++;
        a->temporary_bytes += block->bytes;
        if (site) {
            site->temporary++;
            site->temporary_bytes += block->bytes;
        }
        t->last_key = 0;
    }
}

static void on_free(struct gm_analysis_pass *p, const struct gm_event *e, int thread) {
    struct gm_analysis *a = p->a;
    struct gm_live_block block;
    if (!gm_live_blocks_take(&p->live, gm_event_key(e), &block)) {
        a->unknown_frees += e->action == GM_ACT_FREE;
        return;
    }
    count_gone(p, &block, e, e->time_ns);
    if (!gm_live_block_allocates(&block))
        return;
    if (!p->blocks_only) {
        if (e->action == GM_ACT_RELEASE)
            count_released(p, &block);
        else
            count_free(p, e, thread, &block);
        count_lifetime(a, e->time_ns > block.created_ns ? e->time_ns - block.created_ns : 0, block.bytes);
    }
    notify_destroyed(p, e, thread, &block);
}

static void on_failure(struct gm_analysis_pass *p, const struct gm_event *e) {
    struct gm_analysis *a = p->a;
    struct gm_device_totals *device = &a->devices[gm_device_index(e->device)];
    if (e->action == GM_ACT_ALLOC_FAIL) {
        struct gm_site_totals *site = gm_pass_site(p, e->site, e->device);
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
        count_gone(p, &destroyed, e, e->time_ns);
        if (gm_live_block_allocates(&destroyed)) {
            if (!p->blocks_only)
                count_released(p, &destroyed);
            notify_destroyed(p, e, thread, &destroyed);
        }
    }
}

static void on_error(struct gm_analysis_pass *p, const struct gm_event *e) {
    struct gm_analysis *a = p->a;
    if (!(a->error_count & (a->error_count - 1))) { /* the room is a power of two */
        struct gm_event *more = realloc(a->errors, (a->error_count ? 2 * a->error_count : 1) * sizeof *more);
        p->failed = !more;
        if (!more)
            return;
        a->errors = more;
    }
    a->errors[a->error_count++] = *e;
}

static void on_event(struct gm_analysis_pass *p, const struct gm_event *e, int thread) {
    struct gm_analysis *a = p->a;
    struct gm_event split;
    if (e->kind == GM_KIND_SPLIT && e->action == GM_ACT_ALLOC) { /* which has no stream (event.h) */
        split = *e;
        split.stream = 0;
        p->on_device = e->stream;
        e = &split;
    }
    uint64_t end = e->time_ns + (e->action == GM_ACT_SUM || e->action == GM_ACT_ERROR ? 0 : e->duration_ns);
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
            gm_pass_trim(p, e);
        break;
    case GM_ACT_POOL_SIZE: gm_pass_trim(p, e); break;
    case GM_ACT_KEPT:
        gm_reserved_kept(&a->reserved, e);
        gm_pass_reserved(a, e->device, e->time_ns);
        break;
    case GM_ACT_UNTRACKED: gm_pass_untracked(a, e); break;
    case GM_ACT_HELD: gm_pass_held(a, e); break;
    case GM_ACT_ACCOUNT: gm_pass_account(a, e); break;
    case GM_ACT_ERROR: on_error(p, e); break;
    case GM_ACT_SUM: gm_pass_sum(p, e); break;
    case GM_ACT_PEAK: gm_pass_peak(p, e); break;
    case GM_ACT_TOTAL: gm_pass_total(p, e); break;
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

/* Of a handle, only the bytes that are not mapped leak by themselves. */
static bool is_alive_at_end(struct gm_live_block *b) {
    if (b->key && gm_live_block_is_handle(b)) {
        b->bytes -= b->mapped;
        return b->bytes > 0;
    }
    return b->key && gm_live_block_allocates(b);
}

static void conclude_kinds(struct gm_kind_totals kinds[GM_KIND_COUNT], uint32_t peaks) {
    for (int k = 0; k < GM_KIND_COUNT; k++)
        gm_pass_change(peaks, &kinds[k].live_bytes, &kinds[k].at_peak, &kinds[k].peak_seen, 0);
}

static void conclude(struct gm_analysis_pass *p) {
    struct gm_analysis *a = p->a;
    for (size_t i = 0; i < p->live.size; i++) {
        struct gm_live_block *b = &p->live.slots[i];
        struct gm_site_totals *site;
        if (!is_alive_at_end(b))
            continue;
        notify_alive_at_end(p, b);
        if (!gm_live_block_is_leak(b) || !(site = gm_pass_site(p, b->site, b->device)))
            continue;
        site->leaked_count++;
        site->leaked_bytes += b->bytes;
        gm_pass_leak(a, b->device, 1, b->bytes);
    }
    gm_pass_conclude_sums(p);
    for (size_t i = 0; i < a->site_count; i++) {
        struct gm_site_totals *site = &a->sites[i];
        gm_pass_change(a->devices[site->device].peaks, &site->device_live, &site->at_peak, &site->peak_seen, 0);
        count_freed_last(a, site, 0, 0);
    }
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
    gm_sort(a->sizes, a->size_count, sizeof *a->sizes, by_frequency);
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

struct gm_analysis_pass *gm_analysis_begin_blocks(struct gm_observer *const *observers) {
    struct gm_analysis_pass *p = gm_analysis_begin(observers);
    if (p)
        p->blocks_only = true;
    return p;
}

bool gm_analysis_event(struct gm_analysis_pass *p, const struct gm_event *event, int thread) {
    unsigned device = gm_device_index(event->device);
    if (p->a->device_end <= device)
        p->a->device_end = device + 1;
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
    free(a->errors);
    free(a);
}
