/* What a trace says as a whole: totals, the peak and who held it, lifetimes, what was never freed. Sizes are
 * bytes, times ns. */
#ifndef GM_ANALYSIS_H
#define GM_ANALYSIS_H

#include "shim/base/stats.h"
#include "tools/cli/live_blocks.h"
#include "tools/cli/reader.h"

#define GM_LIFETIME_BINS 10 /* below 1 us, 10 us, ... 100 s, and longer */
#define GM_FAILURES_MAX  100

struct gm_site_totals {
    uint32_t id; /* 0 = unknown */
    uint64_t allocs, bytes, temporary, temporary_bytes, failed;
    uint64_t live_count, live_bytes; /* at the end of the trace: of device and host memory alike */
    uint64_t leaked_count, leaked_bytes;
    uint64_t released_count, released_bytes;       /* went with their context */
    uint64_t suppressed_count, suppressed_bytes;   /* taken out of the leaks by the report */
    uint64_t grown_count, grown_bytes, grown_most; /* see report_growth.c */
    uint64_t at_peak; /* device bytes live at the moment of the peak; final after gm_analysis_read */
    uint64_t device_live;
    uint32_t peak_seen;
};

struct gm_size_totals {
    uint64_t size, count;
};

struct gm_call_totals {
    uint64_t count, failed, allocated, freed, time_ns;
};

struct gm_kind_totals {
    uint64_t allocs, bytes, frees, hits;
    uint64_t live_count, live_bytes, peak_bytes; /* its own peak */
    uint64_t at_peak;                            /* at the moment of the whole peak */
    uint32_t peak_seen;
};

struct gm_count_and_bytes {
    uint64_t count, bytes;
};

/* The soft promises, as bits of enum gm_promise above GM_PROMISE_IPC: IPC, peer, RDMA. */
#define GM_SOFT_PROMISES 3

struct gm_failure {
    uint64_t time_ns, bytes, live_bytes;
    uint32_t site;
    uint16_t result;
    uint8_t call, action;
};

struct gm_analysis {
    uint64_t events, end_ns, time_ns;
    uint64_t by_action[GM_ACT_COUNT];
    struct gm_call_totals by_call[GM_CALL_COUNT];
    struct gm_kind_totals by_kind[GM_KIND_COUNT];
    uint64_t allocs, alloc_bytes, frees, failed_allocs, failed_frees;
    uint64_t temporary, temporary_bytes; /* freed before their thread allocated again */
    uint64_t hits;                       /* served from memory kept back */
    uint64_t moved;                      /* served by another kind than the call asked for */
    struct gm_count_and_bytes decisions[GM_KIND_COUNT]
                                       [GM_REASON_COUNT]; /* successful allocations: served by, because of */
    struct gm_count_and_bytes verdicts[GM_KIND_COUNT];    /* what the heuristic named, where it was only noted */
    struct gm_count_and_bytes trims;                      /* kept memory given back when memory ran out */
    uint64_t dropped[GM_SOFT_PROMISES];                   /* blocks without that promise */
    uint64_t unknown_frees;                               /* of blocks whose allocation the trace does not hold */
    uint64_t replaced;                       /* blocks whose free was never seen: their address came again */
    uint64_t released_count, released_bytes; /* went with their context */
    uint64_t live_bytes, live_reserved;      /* device memory */
    uint64_t peak_bytes, peak_ns, peak_reserved, peak_reserved_ns;
    uint64_t leaked_count, leaked_bytes;
    uint64_t lifetime_count[GM_LIFETIME_BINS], lifetime_bytes[GM_LIFETIME_BINS];
    struct gm_failure failures[GM_FAILURES_MAX]; /* the first ones */
    unsigned failure_count;
    struct gm_site_totals *sites; /* array */
    size_t site_count;
    struct gm_size_totals *sizes; /* array, most frequent first */
    size_t size_count;
    bool sizes_cut; /* there were more different sizes than are counted */
};

/* What happens to a block that gives memory, or any event. Valid during the call alone. */
struct gm_step {
    const struct gm_event *event; /* that made or ended the block; its action tells a free from a release */
    int thread;
    const struct gm_live_block *block; /* NULL for `event` */
    struct gm_site_totals *site;       /* of the block; NULL for `event` */
    const struct gm_analysis *now;     /* totals so far: with the new block, without the one that ends */
    uint64_t time_ns;                  /* of birth or end */
};

/* Someone who watches the trace go by. Functions may be NULL; false stops the reading as lack of memory
 * does. */
struct gm_observer {
    bool (*event)(struct gm_observer *self, const struct gm_step *step); /* before the totals know of it */
    bool (*created)(struct gm_observer *self, const struct gm_step *step);
    bool (*destroyed)(struct gm_observer *self, const struct gm_step *step);
    bool (*alive_at_end)(struct gm_observer *self, const struct gm_step *step); /* alive at the end; no event */
};

/* Reads the trace to its end. NULL = no memory, or an observer stopped it. Owned by the caller. `observers`
 * end with NULL; NULL = none. */
struct gm_analysis *gm_analysis_read(struct gm_reader *reader, struct gm_observer *const *observers);

/* The same event by event, for who reads several traces at once. `observers` stay the caller's and must
 * outlive the pass. */
struct gm_analysis_pass;
struct gm_analysis_pass *gm_analysis_begin(struct gm_observer *const *observers);                /* NULL = no memory */
bool gm_analysis_event(struct gm_analysis_pass *pass, const struct gm_event *event, int thread); /* false: see above */
struct gm_analysis *gm_analysis_end(struct gm_analysis_pass *pass);                              /* frees the pass */

void gm_analysis_free(struct gm_analysis *analysis);

/* A step of GPUMEM_OOM inside a call, not the program's trim of its own pool. */
bool gm_event_is_own_trim(const struct gm_event *event);
/* The event stands for a call of the program; false for what is noted beside one. */
bool gm_event_is_call(const struct gm_event *event);
/* The call gives memory; false for address space, mappings of it, and pools, which hold none by themselves.
 */
bool gm_call_gives_memory(enum gm_call call);

/* The address or handle that the program has. */
uint64_t gm_live_block_address(const struct gm_live_block *block);
/* The block counts as leaked when it is alive at the end. */
bool gm_live_block_is_leak(const struct gm_live_block *block);
/* The block that an event is about: its address or handle, each space of numbers apart. */
uint64_t gm_event_key(const struct gm_event *event);

#endif
