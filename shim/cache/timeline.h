/* The fences of a context in a cache, in the order of their recording. All threads of the cache share them. A thread
 * that has closed a batch takes a ticket: the number of the next fence that begins to be recorded. That fence, and each
 * later one, covers all work that was submitted before. So one fence serves the batches of many threads, and one thread
 * at a time calls the driver to record or query; the others go on meanwhile.
 *
 * The functions may be called by many threads at once. They take the lock of the timeline for a moment; gm_timeline_use
 * takes that of all timelines. gm_timeline_visit and gm_timeline_wait call the driver, and must be called without a
 * lock. */
#ifndef GM_CACHE_TIMELINE_H
#define GM_CACHE_TIMELINE_H

#include "shim/base/base.h"
#include "shim/driver/fence.h"

enum { GM_TIMELINE_FENCES = 64 }; /* recorded and not complete */

struct gm_fence_timeline {
    struct gm_fence_timeline *next;
    gm_spin lock;
    unsigned users; /* free lists */
    struct gm_context context;
    enum gm_fence_reach reach;
    uint64_t recording, querying; /* ticks when a thread began to do so; 0: none does */
    uint64_t begun, complete;     /* numbers of the latest fence that began to be recorded, and that is complete */
    uint64_t found_pending;       /* ticks when a query found a fence pending; 0: the latest one did not */
    struct gm_numbered_fence {
        uint64_t number; /* 0 = none */
        unsigned users;  /* threads that query it or wait for it */
        uint64_t thread; /* whose free recorded it; 0: no allocation may wait for it */
        struct gm_fence fence;
    } fences[GM_TIMELINE_FENCES]; /* number n has index n % GM_TIMELINE_FENCES */
};

/* All timelines of a cache. */
struct gm_fence_timelines {
    gm_spin lock;
    enum gm_fence_reach reach; /* of the cache's memory */
    struct gm_fence_timeline *first;
};

/* Adds a user to the timeline of the context, which is created if needed. NULL: the kernel has no memory. */
GM_INTERNAL struct gm_fence_timeline *gm_timeline_use(struct gm_fence_timelines *timelines, uint64_t context,
                                                      uint64_t context_id, int device);
/* Removes a user. The context of a timeline without users was destroyed; a later context reuses its memory. */
GM_INTERNAL void gm_timeline_leave(struct gm_fence_timeline *line);

GM_INTERNAL uint64_t gm_timeline_ticket(struct gm_fence_timeline *line);
static inline bool gm_timeline_has_passed(const struct gm_fence_timeline *line, uint64_t ticket) {
    return __atomic_load_n(&line->complete, __ATOMIC_ACQUIRE) >= ticket;
}
/* The oldest ticket whose fence is not complete. */
static inline uint64_t gm_timeline_next(const struct gm_fence_timeline *line) {
    return __atomic_load_n(&line->complete, __ATOMIC_ACQUIRE) + 1;
}
/* The fence of the ticket was recorded by a free of this thread. */
GM_INTERNAL bool gm_timeline_is_own(struct gm_fence_timeline *line, uint64_t ticket, uint64_t thread);
/* A query takes the driver about 0.2 us, and longer with many threads. Where they are more than a few, a fence that was
 * pending less than GM_TIMELINE_QUERY_NS ago is not queried again. */
#define GM_TIMELINE_QUERY_NS 500u
#define GM_TIMELINE_FEW      2
/* False: a visit for this ticket would achieve nothing now. The answer may be out of date. */
static inline bool gm_timeline_is_due(const struct gm_fence_timeline *line, uint64_t ticket) {
    const struct gm_numbered_fence *at = &line->fences[ticket % GM_TIMELINE_FENCES];
    uint64_t found = __atomic_load_n(&line->found_pending, __ATOMIC_RELAXED);
    if (__atomic_load_n(&at->number, __ATOMIC_RELAXED) != ticket)
        return !__atomic_load_n(&line->recording, __ATOMIC_RELAXED);
    return !__atomic_load_n(&line->querying, __ATOMIC_RELAXED) &&
           (!found || __atomic_load_n(&line->users, __ATOMIC_RELAXED) <= GM_TIMELINE_FEW ||
            gm_ticks_span_ns(gm_ticks() - found) > GM_TIMELINE_QUERY_NS);
}

/* One visit to the driver. Answers: GM_OK; GM_FENCE_PENDING: not now, a later visit tries again; else the driver's
 * error. */
struct gm_visit {
    uint64_t record;    /* ticket whose fence is recorded, unless it is or another thread records now */
    uint64_t thread;    /* the thread that frees; 0: no free runs */
    uint64_t query;     /* ticket whose fence is queried, unless another thread queries now; 0: none */
    gm_status recorded; /* GM_OK: the fence of `record` is recorded */
    gm_status answer;   /* GM_OK: the work before `query` is done */
};
GM_INTERNAL void gm_timeline_visit(struct gm_fence_timeline *line, struct gm_visit *visit);
/* A series of visits that ends when a context without work would have completed its fences. Zeroed before the first
 * one. The time in which the driver keeps a thread waiting for the calls of others does not count. */
struct gm_look {
    uint64_t begin, quiet, last;
};
/* False: the look is over. */
GM_INTERNAL bool gm_look_goes_on(struct gm_look *look, const struct gm_fence_timeline *line, uint64_t answer_ns);
/* Waits for the fence of the ticket, which it records if need be. The answers are those of a visit. */
GM_INTERNAL gm_status gm_timeline_wait(struct gm_fence_timeline *line, uint64_t ticket);

#endif
