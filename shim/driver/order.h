/* Book-keeping about the order of work. It separates work that is ordered by the program itself (by events, by
 * waits of the host, by the legacy default stream) and which work is ordered only because a cudaFree waited. It never
 * calls the driver.
 *
 * Each stream counts its submissions and has a clock: the latest submission of each stream that is ordered before its
 * own next one. An event copies the clock of the stream that records it, and passes it to the streams that wait for
 * it. The host has one clock for all explicit waits of all threads, because gpumem does not see how threads
 * synchronise with each other. Where an order is unknown, it is assumed to exist, so that no call site is named
 * without reason.
 *
 * A free that waits for a busy stream T leaves a mark on T. Work that another stream submits later relies on that
 * free, when no order places it behind T's work up to the mark. The host relies on the free when T gets more work
 * before the host waited for a copy to the host (or other work whose result it may read).
 *
 * The caller must serialise all calls. Zeroed memory is the empty state. */
#ifndef GM_DRIVER_ORDER_H
#define GM_DRIVER_ORDER_H

#include "shim/base/base.h"

enum {
    GM_ORDER_STREAMS = 128, /* followed at one time */
    GM_ORDER_EVENTS = 1024,
    GM_ORDER_SITES = 256, /* counted separately */
    GM_ORDER_BUSY = 32,   /* queried by one free */
};

enum gm_order_kind { GM_ORDER_NON_BLOCKING, GM_ORDER_BLOCKING, GM_ORDER_LEGACY };

struct gm_order_stream {
    uint64_t context;
    uint64_t handle; /* of the driver; a per-thread default stream is identified by its thread, too */
    uint32_t thread;
    enum gm_order_kind kind;
    uint32_t number; /* the n-th created stream seen, since handles are reused */
};

/* The latest submission of each stream. */
struct gm_order_clock {
    uint64_t of[GM_ORDER_STREAMS];
};

/* A call site on whose frees later work relied. */
struct gm_order_finding {
    uint64_t count;                       /* frees */
    uint32_t site;                        /* 0: unknown */
    bool others;                          /* there are more pairs than the first one */
    bool host;                            /* the host relies on the free, not a stream */
    struct gm_order_stream busy, relying; /* the first pair */
};

struct gm_order_mark {
    uint64_t up_to, number; /* the submission, the number of the free; 0: no mark */
    uint32_t site;
    bool counted; /* the free is already counted at its site */
};

struct gm_order_entry {
    struct gm_order_stream stream;
    bool used, alive;
    uint64_t seen;    /* when it was last used, for replacement */
    uint64_t settled; /* the latest submission that a free waited for or found done */
    uint64_t visible; /* the latest submission whose result the host may read; 0: none since the last free */
    struct gm_order_mark freed, host;
    struct gm_order_clock knows; /* the clock; its own entry counts the submissions */
};

struct gm_order {
    struct gm_order_entry entries[GM_ORDER_STREAMS];
    unsigned count;
    bool lost; /* a living stream was evicted, so a new one may be an old one */
    uint64_t now, frees;
    uint32_t created;                   /* created streams seen */
    struct gm_order_clock host, waited; /* the host's clock; the part that the host waited for */
    struct {
        uint64_t handle, seen;
        struct gm_order_clock knows;
    } events[GM_ORDER_EVENTS];
    struct gm_order_finding findings[GM_ORDER_SITES];
    unsigned found;
    uint64_t unlisted; /* findings at sites that did not fit */
    bool host_relies;  /* the host relied on a free, at any site */
};

/* Index of a living stream; -1: not known. A handle that is unique in the process has thread 0, and its context is
 * ignored. */
GM_INTERNAL int gm_order_find(const struct gm_order *order, const struct gm_order_stream *stream);
/* The same, but adds an unknown stream. */
GM_INTERNAL unsigned gm_order_stream(struct gm_order *order, const struct gm_order_stream *stream);
/* The stream was destroyed: its handle may name another stream, while its work may still run. */
GM_INTERNAL void gm_order_destroyed(struct gm_order *order, unsigned at);
GM_INTERNAL void gm_order_context_destroyed(struct gm_order *order, uint64_t context);

/* Work is submitted. `visible`: the host may read its result. */
GM_INTERNAL void gm_order_submit(struct gm_order *order, unsigned at, bool visible);
/* The host may learn of this stream's work in a way that is not seen: a host function, or a value in memory. */
GM_INTERNAL void gm_order_tells_host(struct gm_order *order, unsigned at);
/* The stream waits for something that is not seen: a value in memory, or a semaphore. */
GM_INTERNAL void gm_order_waits_unseen(struct gm_order *order, unsigned at);
GM_INTERNAL void gm_order_record(struct gm_order *order, unsigned at, uint64_t event);
GM_INTERNAL void gm_order_wait_event(struct gm_order *order, unsigned at, uint64_t event);
/* The same for all streams of a context. */
GM_INTERNAL void gm_order_context_record(struct gm_order *order, uint64_t context, uint64_t event);
GM_INTERNAL void gm_order_context_wait(struct gm_order *order, uint64_t event);
/* The host waited, or found all work done. */
GM_INTERNAL void gm_order_host_stream(struct gm_order *order, unsigned at);
GM_INTERNAL void gm_order_host_event(struct gm_order *order, uint64_t event);
GM_INTERNAL void gm_order_host_context(struct gm_order *order, uint64_t context);

/* A stream of a context that may be busy; `up_to` is its latest submission. */
struct gm_order_busy {
    unsigned at;
    bool alive; /* its handle may be used in a call */
    bool busy;  /* set by the caller */
    uint64_t up_to;
    struct gm_order_stream stream;
};
GM_INTERNAL unsigned gm_order_candidates(const struct gm_order *order, uint64_t context,
                                         struct gm_order_busy out[GM_ORDER_BUSY]);
/* A free at `site` waits for these streams. True: one of them was busy. */
GM_INTERNAL bool gm_order_free(struct gm_order *order, const struct gm_order_busy *streams, unsigned count,
                               uint32_t site);
/* The process ends. Work that the host has not waited for counts as never waited for. */
GM_INTERNAL void gm_order_end(struct gm_order *order);

/* "stream 4 (0x55e0) may rely on the wait for stream 3 (0x55d0)" */
GM_INTERNAL void gm_order_say(const struct gm_order_finding *finding, char *out, size_t size);
/* Sorts the findings by count, the largest first; returns their number. */
GM_INTERNAL unsigned gm_order_sort(struct gm_order *order);

#endif
