/* Which work runs behind which because the program says so: by events, by waits of the host, by the legacy
 * default stream; and which only because a cudaFree has waited. Book-keeping alone: nothing here calls the
 * driver.
 *
 * Each stream counts its submissions and has a clock: for each stream the latest submission that is ordered
 * before its own next one. An event takes the clock of the stream that records it, and hands it on. The host
 * has one clock, that of all its explicit waits, by whichever thread: how threads tell each other is not
 * seen. What is not known counts as an order, so that nothing is named without need.
 *
 * A free that waits for a busy stream T leaves its mark there. Work of another stream, submitted later, that
 * no order places behind T's work up to the mark, relies on that free. So does the host when it has not
 * waited for a copy to it (or other work that it may see) before it gives T more work.
 *
 * The caller excludes threads from each other. Zeroed memory is an empty book. */
#ifndef GM_DRIVER_ORDER_H
#define GM_DRIVER_ORDER_H

#include "shim/base/base.h"

enum {
    GM_ORDER_STREAMS = 128, /* that are followed at a time */
    GM_ORDER_EVENTS = 1024,
    GM_ORDER_SITES = 256, /* that are told apart */
    GM_ORDER_BUSY = 32,   /* that one free asks */
    GM_ORDER_NAME = 64,   /* bytes of a stream's name */
};

enum gm_order_kind { GM_ORDER_NON_BLOCKING, GM_ORDER_BLOCKING, GM_ORDER_LEGACY };

struct gm_order_stream {
    uint64_t context;
    uint64_t handle; /* of the driver; a per-thread default stream has its thread as well */
    uint32_t thread;
    enum gm_order_kind kind;
    uint32_t number; /* of a created stream: the n-th one seen; handles are used again */
};

/* Latest submission of each stream. */
struct gm_order_clock {
    uint64_t of[GM_ORDER_STREAMS];
};

/* A call site whose frees were relied on. */
struct gm_order_finding {
    uint64_t count;                       /* frees */
    uint32_t site;                        /* 0: unknown */
    bool others;                          /* further pairs than the one named */
    bool host;                            /* the host relies, not a stream */
    struct gm_order_stream busy, relying; /* the first pair */
};

struct gm_order_mark {
    uint64_t up_to, number; /* submission, free; 0: no mark */
    uint32_t site;
    bool counted; /* the free is, at its site */
};

struct gm_order_entry {
    struct gm_order_stream stream;
    bool used, alive;
    uint64_t seen;    /* when it was last used, for replacement */
    uint64_t settled; /* latest submission that a free has waited for, or found done */
    uint64_t visible; /* latest submission whose result the host may look at; 0: none since the last free */
    struct gm_order_mark freed, host;
    struct gm_order_clock knows; /* of itself: what was submitted */
};

struct gm_order {
    struct gm_order_entry entries[GM_ORDER_STREAMS];
    unsigned count;
    bool lost; /* a living stream made room: new ones may be old ones */
    uint64_t now, frees;
    uint32_t created;                   /* streams seen */
    struct gm_order_clock host, waited; /* ordered before what the host does next; what it waited for */
    struct {
        uint64_t handle, seen;
        struct gm_order_clock knows;
    } events[GM_ORDER_EVENTS];
    struct gm_order_finding findings[GM_ORDER_SITES];
    unsigned found;
    uint64_t beyond; /* findings at further sites */
};

/* Index of a living stream, -1: not known. A handle that names one stream of the process has thread 0, and
 * its context does not matter. */
GM_INTERNAL int gm_order_find(const struct gm_order *order, const struct gm_order_stream *stream);
/* The same; adds it when it is not known. */
GM_INTERNAL unsigned gm_order_stream(struct gm_order *order, const struct gm_order_stream *stream);
/* The handle will name another stream; work of this one may still run. */
GM_INTERNAL void gm_order_destroyed(struct gm_order *order, unsigned at);
GM_INTERNAL void gm_order_context_destroyed(struct gm_order *order, uint64_t context);

/* Work is submitted. `visible`: the host may look at its result. */
GM_INTERNAL void gm_order_submit(struct gm_order *order, unsigned at, bool visible);
/* The host may learn of this stream's work in ways that are not seen: a host function, a value in memory. */
GM_INTERNAL void gm_order_tells_host(struct gm_order *order, unsigned at);
/* The stream waits for what is not seen: a value in memory, a semaphore. */
GM_INTERNAL void gm_order_waits_unseen(struct gm_order *order, unsigned at);
GM_INTERNAL void gm_order_record(struct gm_order *order, unsigned at, uint64_t event);
GM_INTERNAL void gm_order_wait_event(struct gm_order *order, unsigned at, uint64_t event);
/* The same for all streams of a context. */
GM_INTERNAL void gm_order_context_record(struct gm_order *order, uint64_t context, uint64_t event);
GM_INTERNAL void gm_order_context_wait(struct gm_order *order, uint64_t event);
/* The host waited, or found that all is done. */
GM_INTERNAL void gm_order_host_stream(struct gm_order *order, unsigned at);
GM_INTERNAL void gm_order_host_event(struct gm_order *order, uint64_t event);
GM_INTERNAL void gm_order_host_context(struct gm_order *order, uint64_t context);

/* A stream of a context that may be busy; `up_to` is its latest submission. */
struct gm_order_busy {
    unsigned at;
    bool alive; /* its handle may be named */
    bool busy;  /* for the caller to find out */
    uint64_t up_to;
    struct gm_order_stream stream;
};
GM_INTERNAL unsigned gm_order_candidates(const struct gm_order *order, uint64_t context,
                                         struct gm_order_busy out[GM_ORDER_BUSY]);
/* A free at `site` waits for these. True: for work of one of them. */
GM_INTERNAL bool gm_order_free(struct gm_order *order, const struct gm_order_busy *streams, unsigned count,
                               uint32_t site);
/* The process ends: what the host has not waited for by now it does not wait for. */
GM_INTERNAL void gm_order_end(struct gm_order *order);

/* "stream 3 (0x55d0)", "the default stream" ... */
GM_INTERNAL const char *gm_order_name(const struct gm_order_stream *stream, char out[GM_ORDER_NAME]);
/* "stream 4 (0x55e0) may rely on the wait for stream 3 (0x55d0)" */
GM_INTERNAL void gm_order_say(const struct gm_order_finding *finding, char *out, size_t size);
/* Sorts by count, the largest first; returns how many there are. */
GM_INTERNAL unsigned gm_order_sort(struct gm_order *order);

#endif
