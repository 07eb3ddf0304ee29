#include "tools/cli/trace_window.h"

#include "tools/cli/analysis.h"
#include "tools/cli/memory_kinds.h"
#include "tools/cli/sort.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct gm_window gm_window = {.until_ns = UINT64_MAX};

bool gm_window_is_part(void) { return gm_window.from_ns || gm_window.until_ns != UINT64_MAX || gm_window.min_bytes; }

/* A live block. It is left out, or held until the range begins. */
struct block {
    uint64_t key;
    struct gm_event event;
    int thread;
    bool left_out;
    UT_hash_handle hh;
};

struct timed_event {
    struct gm_event event;
    int thread;
};

struct gm_trace_window {
    gm_window_source *source;
    void *arg;
    struct block *blocks;
    struct gm_analysis_pass *before; /* what was kept and reserved when the range begins; NULL: it has begun */
    struct timed_event *first;       /* array: events that stand for what was before the range */
    size_t first_count, first_at;
    struct timed_event pending; /* the first one of the range */
    bool has_pending, cut, failed;
};

bool gm_trace_window_is_cut(const struct gm_trace_window *w) { return w->cut; }

struct gm_trace_window *gm_trace_window_new(gm_window_source *source, void *arg) {
    struct gm_trace_window *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->source = source;
    w->arg = arg;
    if (gm_window.from_ns && !(w->before = gm_analysis_begin(NULL))) {
        free(w);
        return NULL;
    }
    return w;
}

static void free_blocks(struct gm_trace_window *w) {
    struct block *block, *next;
    HASH_ITER(hh, w->blocks, block, next) {
        HASH_DEL(w->blocks, block);
        free(block);
    }
}

void gm_trace_window_free(struct gm_trace_window *w) {
    if (!w)
        return;
    free_blocks(w);
    gm_analysis_free(gm_analysis_end(w->before));
    free(w->first);
    free(w);
}

static struct block *find(struct gm_trace_window *w, const struct gm_event *e) {
    uint64_t key = gm_event_key(e);
    struct block *block;
    HASH_FIND(hh, w->blocks, &key, sizeof key, block);
    return block;
}

static void forget(struct gm_trace_window *w, struct block *block) {
    if (!block)
        return;
    HASH_DEL(w->blocks, block);
    free(block);
}

static void note_block(struct gm_trace_window *w, const struct gm_event *e, int thread, bool left_out) {
    forget(w, find(w, e));
    struct block *block = malloc(sizeof *block);
    if (!block) {
        w->failed = true;
        return;
    }
    *block = (struct block){.key = gm_event_key(e), .event = *e, .thread = thread, .left_out = left_out};
    HASH_ADD(hh, w->blocks, key, sizeof block->key, block);
}

static void forget_context(struct gm_trace_window *w, uint16_t context) {
    struct block *block, *next;
    HASH_ITER(hh, w->blocks, block, next)
    if (block->event.context == context && !gm_kind_outlives_context((enum gm_kind)block->event.kind))
        forget(w, block);
}

static bool makes_block(const struct gm_event *e) {
    return e->action == GM_ACT_ALLOC || e->action == GM_ACT_RESERVE || e->action == GM_ACT_MAP;
}

static bool ends_block(const struct gm_event *e) {
    return e->action == GM_ACT_FREE || e->action == GM_ACT_RELEASE || e->action == GM_ACT_UNRESERVE ||
           e->action == GM_ACT_UNMAP;
}

static bool is_phase(const struct gm_event *e) {
    return e->action == GM_ACT_MARK || e->action == GM_ACT_PHASE_BEGIN || e->action == GM_ACT_PHASE_END;
}

/* Follows the blocks that are left out or, before the range, held. Returns whether the event belongs to one left out.
 */
static bool follow(struct gm_trace_window *w, const struct gm_event *e, int thread) {
    if (makes_block(e)) {
        bool left_out = e->action == GM_ACT_ALLOC && e->bytes < gm_window.min_bytes;
        if (e->address && (left_out || w->before))
            note_block(w, e, thread, left_out);
        return left_out;
    }
    if (ends_block(e)) {
        struct block *block = find(w, e);
        bool left_out = block && block->left_out;
        forget(w, block);
        return left_out;
    }
    if (e->action == GM_ACT_CONTEXT_DESTROYED && e->context && !e->result)
        forget_context(w, e->context);
    return false;
}

/* ---- when the range begins */

static int by_number(const void *x, const void *y) {
    const struct timed_event *a = x, *b = y;
    return (a->event.seq > b->event.seq) - (a->event.seq < b->event.seq);
}

static void add_first(struct gm_trace_window *w, enum gm_action action, unsigned kind, int device, uint64_t bytes) {
    struct gm_event *e = &w->first[w->first_count++].event;
    *e = (struct gm_event){
        .seq = 1, .bytes = bytes, .device = (int8_t)device, .action = (uint8_t)action, .kind = (uint8_t)kind};
}

/* What the totals of the time before say by events of their own. */
static void add_amounts(struct gm_trace_window *w, const struct gm_analysis *a) {
    for (unsigned kind = 0; kind < GM_KIND_COUNT; kind++) {
        uint64_t kept = 0;
        for (unsigned device = 0; device <= GM_DEVICES; device++)
            kept += a->reserved.on[device].kept_of[kind];
        if (kept)
            add_first(w, GM_ACT_KEPT, kind, -1, kept);
        for (unsigned device = 0; device < GM_DEVICES; device++)
            if (a->reserved.on[device].has_pool[kind])
                add_first(w, GM_ACT_POOL_SIZE, kind, (int)device, a->reserved.on[device].pool_of[kind]);
    }
    for (unsigned device = 0; device < GM_DEVICES; device++)
        if (a->devices[device].untracked)
            add_first(w, GM_ACT_UNTRACKED, 0, (int)device, a->devices[device].untracked);
}

static void begin_range(struct gm_trace_window *w) {
    struct gm_analysis *a = gm_analysis_end(w->before);
    size_t room = HASH_COUNT(w->blocks) + (size_t)(GM_KIND_COUNT + 1) * (GM_DEVICES + 1);
    w->before = NULL;
    w->first = a ? calloc(room, sizeof *w->first) : NULL;
    w->failed |= !w->first;
    if (w->first) {
        add_amounts(w, a);
        size_t amounts = w->first_count;
        struct block *block, *next;
        HASH_ITER(hh, w->blocks, block, next) {
            if (block->left_out)
                continue;
            struct timed_event *e = &w->first[w->first_count++];
            *e = (struct timed_event){block->event, block->thread};
            e->event.flags |= GM_EVENT_LIVE;
            e->event.duration_ns = 0;
            e->event.hit = 0; /* the block that it reused is no more */
            forget(w, block);
        }
        gm_sort(w->first + amounts, w->first_count - amounts, sizeof *w->first, by_number);
    }
    gm_analysis_free(a);
}

static bool next_of_trace(struct gm_trace_window *w, struct gm_event *e, int *thread) {
    if (w->has_pending) {
        *e = w->pending.event;
        *thread = w->pending.thread;
        w->has_pending = false;
        return true;
    }
    return w->source(w->arg, e, thread);
}

/* Reads until the range begins. True: `e` is an event of a phase before it. */
static bool read_before(struct gm_trace_window *w, struct gm_event *e, int *thread) {
    while (w->source(w->arg, e, thread)) {
        if (e->time_ns >= gm_window.from_ns) {
            w->pending = (struct timed_event){*e, *thread};
            w->has_pending = true;
            break;
        }
        bool left_out = follow(w, e, *thread);
        w->failed |= !left_out && !gm_analysis_event(w->before, e, *thread);
        if (w->failed)
            return false;
        if (is_phase(e))
            return true;
    }
    begin_range(w);
    return false;
}

bool gm_trace_window_next(struct gm_trace_window *w, struct gm_event *e, int *thread, bool whole) {
    bool found = w->before && read_before(w, e, thread);
    while (!found && !w->failed) {
        if (w->first_at < w->first_count) {
            *e = w->first[w->first_at].event;
            *thread = w->first[w->first_at++].thread;
            e->time_ns = gm_window.from_ns;
            found = true;
            break;
        }
        if (!next_of_trace(w, e, thread))
            return false;
        bool inside = e->time_ns < gm_window.until_ns;
        w->cut |= !inside;
        if (!inside && !whole)
            return false;
        found = inside && !follow(w, e, *thread);
    }
    e->time_ns = e->time_ns > gm_window.from_ns ? e->time_ns - gm_window.from_ns : 0;
    return found && !w->failed;
}
