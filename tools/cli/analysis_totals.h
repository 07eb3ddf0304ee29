/* What an analysis computes, and who observes it. Sizes are bytes, times ns. */
#ifndef GM_ANALYSIS_TOTALS_H
#define GM_ANALYSIS_TOTALS_H

#include "shim/accounts/stats.h"
#include "shim/trace/event.h"
#include "tools/cli/live_blocks.h"
#include "tools/cli/reserved.h"

#define GM_LIFETIME_BINS 10 /* below 1 us, 10 us, ... 100 s, and longer */
#define GM_FAILURES_MAX  100

/* A call site on one device. A site that used several devices has one for each. */
struct gm_site_totals {
    uint32_t id; /* 0 = unknown */
    int device;
    uint32_t other; /* the same site on another device: its index plus 1, 0 = none */
    uint64_t allocs, bytes, temporary, temporary_bytes, failed;
    uint64_t live_count, live_bytes; /* at the end of the trace, device and host memory together */
    uint64_t leaked_count, leaked_bytes;
    uint64_t released_count, released_bytes;       /* released with their context */
    uint64_t suppressed_count, suppressed_bytes;   /* leaks that a suppression covers; the report moves them here */
    uint64_t grown_count, grown_bytes, grown_most; /* see report_growth.c */
    uint64_t freed_last_count, freed_last_bytes;   /* freed after the last allocation of the trace */
    uint64_t freed_last_after;                     /* number of the allocation behind which these were freed */
    uint64_t at_peak; /* device bytes live at the peak of the device; final after gm_analysis_read */
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
    uint64_t live_count, live_bytes, peak_bytes; /* the peak of this kind alone */
    uint64_t at_peak;                            /* live bytes of this kind when all kinds together peaked */
    uint32_t peak_seen;
};

/* Accounts of a device, as they are in the trace. */
struct gm_accounts {
    struct gm_account taking;          /* its items are being read */
    struct gm_account latest, fullest; /* the fullest: as in struct gm_stats_accounts */
    bool of_failure, failed;           /* `taking` is, and `fullest` is, of a request that found no memory */
};

/* What happened on one device. `live` and the peaks are those of device memory; the counts are of all kinds. */
struct gm_device_totals {
    uint64_t allocs, bytes, frees, failed_allocs;
    uint64_t live, peak, peak_ns;
    uint64_t peak_reserved, peak_reserved_ns;
    uint64_t untracked, untracked_peak; /* as struct gm_untracked */
    struct gm_accounts accounts;
    uint64_t leaked_count, leaked_bytes;
    uint32_t peaks; /* number of peaks so far: a total that changes first saves its value at the latest one */
    struct gm_kind_totals by_kind[GM_KIND_COUNT]; /* at_peak: when this device peaked */
};

struct gm_count_and_bytes {
    uint64_t count, bytes;
};

/* Soft promises are the bits of enum gm_promise from GM_PROMISE_IPC on: IPC, peer access, RDMA. */
#define GM_SOFT_PROMISES 3

struct gm_failure {
    uint64_t time_ns, bytes, live_bytes; /* live on the device */
    uint32_t site;
    uint16_t result;
    uint8_t call, action;
    int8_t device;
};

/* What a summary says of a call site, a kind of memory and a device. */
struct gm_sum {
    uint64_t key;
    uint32_t site;
    uint8_t kind;
    int8_t device;
    uint64_t live, count; /* bytes and blocks */
    uint64_t counted;     /* live bytes at its latest row with counts */
};

/* Bytes on devices (shim/accounts/stats.h has the words). */
struct gm_amounts {
    uint64_t live, kept, reserved;
};

struct gm_analysis {
    uint64_t events, end_ns, time_ns;
    uint64_t by_action[GM_ACT_COUNT];
    struct gm_call_totals by_call[GM_CALL_COUNT];
    struct gm_kind_totals by_kind[GM_KIND_COUNT];
    struct gm_count_and_bytes older; /* live blocks when recording began, or went on after a pause */
    uint64_t allocs, alloc_bytes, frees, failed_allocs, failed_frees;
    uint64_t temporary, temporary_bytes; /* freed before their thread allocated again */
    uint64_t hits;                       /* allocations served from the cache */
    uint64_t moved;                      /* allocations served by another kind of memory than the call requests */
    struct gm_count_and_bytes decisions[GM_KIND_COUNT][GM_REASON_COUNT]; /* successful allocations by kind and reason */
    uint64_t displaced_ns[GM_KIND_COUNT];              /* the first allocation with GM_REASON_OUT_OF_MEMORY */
    struct gm_count_and_bytes verdicts[GM_KIND_COUNT]; /* kinds that a heuristic named without effect */
    struct gm_count_and_bytes trims[GM_REASON_COUNT];  /* kept memory returned to the driver */
    struct gm_displaced {
        uint64_t live, peak;
        struct gm_count_and_bytes all;
    } displaced[GM_KIND_COUNT];              /* blocks with GM_REASON_OUT_OF_MEMORY, of kind split the part in host
                                                memory, as kind host-numa */
    uint64_t dropped[GM_SOFT_PROMISES];      /* blocks that do not keep the promise */
    uint64_t unknown_frees;                  /* frees of blocks whose allocation is not in the trace */
    uint64_t replaced;                       /* blocks without a free in the trace, whose address was allocated again */
    uint64_t released_count, released_bytes; /* released with their context */
    struct gm_untracked {
        uint64_t bytes, peak, peak_ns, count; /* as measured */
        bool shared;                          /* memory of other processes of the card is included */
    } untracked;                              /* what the process holds beyond gpumem's view, all devices */
    struct gm_held {
        uint64_t bytes, peak;
    } held[GM_REASON_COUNT]; /* unused bytes that could not be given back */
    uint64_t live_bytes;     /* device memory */
    struct gm_reserved reserved;
    uint64_t peak_bytes, peak_ns, peak_reserved, peak_reserved_ns;
    uint64_t live_at_reserved, kept_at_reserved; /* when reserved bytes peaked */
    uint64_t leaked_count, leaked_bytes;
    uint64_t lifetime_count[GM_LIFETIME_BINS], lifetime_bytes[GM_LIFETIME_BINS];
    struct gm_failure failures[GM_FAILURES_MAX]; /* the first GM_FAILURES_MAX ones */
    unsigned failure_count;
    struct gm_event *errors; /* array of GM_ACT_ERROR, in the order of the trace */
    size_t error_count;
    struct gm_device_totals devices[GM_DEVICES];
    unsigned device_end;          /* no event has this device, or a higher one */
    struct gm_site_totals *sites; /* array */
    size_t site_count;
    struct gm_size_totals *sizes; /* array, most frequent first */
    size_t size_count;
    bool sizes_cut;      /* there are more different sizes than the analysis counts */
    struct gm_sum *sums; /* array: of a summary, at its end */
    size_t sum_count;
};

/* One event, or one change of a block. Valid only during the call of the observer. */
struct gm_step {
    const struct gm_event *event; /* created or destroyed the block; its action distinguishes a free from a release */
    int thread;
    const struct gm_live_block *block; /* NULL for `event` */
    struct gm_site_totals *site;       /* of the block; NULL for `event` */
    const struct gm_analysis *now;     /* totals so far: they include a created block and exclude a destroyed one */
    uint64_t time_ns;                  /* of creation or destruction */
};

/* A row of a summary: what changed. Valid only during the call of the observer. */
struct gm_sum_step {
    const struct gm_event *event;
    const struct gm_sum *sum;          /* after the row */
    uint64_t before;                   /* live bytes before it */
    uint64_t allocs, bytes;            /* allocated since the row before */
    uint64_t frees, freed_bytes;       /* freed */
    uint64_t released, released_bytes; /* released with their context */
    const struct gm_analysis *now;     /* totals: those of single sites and kinds include the row; live_bytes and the
                                          peak change with the next GM_ACT_PEAK or GM_ACT_TOTAL */
};

/* Observes a trace while it is read. Each function may be NULL. A function returns false to stop the reading, for
 * instance when it has no memory. */
struct gm_observer {
    bool (*event)(struct gm_observer *self, const struct gm_step *step); /* called before the totals count it */
    bool (*created)(struct gm_observer *self, const struct gm_step *step);
    bool (*destroyed)(struct gm_observer *self, const struct gm_step *step);
    /* The block is alive at the end of the trace. There is no event. */
    bool (*alive_at_end)(struct gm_observer *self, const struct gm_step *step);
    bool (*summed)(struct gm_observer *self, const struct gm_sum_step *step); /* GM_ACT_SUM */
};

/* Whether what remains of the sum at the end of the trace is a leak. */
bool gm_sum_is_leak(const struct gm_sum *sum);

struct gm_amounts gm_analysis_amounts(const struct gm_analysis *analysis);
/* The same of one device. Kept bytes of unknown devices count if the process used only one. */
struct gm_amounts gm_analysis_amounts_on(const struct gm_analysis *analysis, unsigned device);
/* The process used this device. */
bool gm_analysis_has_device(const struct gm_analysis *analysis, unsigned device);
unsigned gm_analysis_device_count(const struct gm_analysis *analysis); /* that it used */
/* The event is the last item of an account: writes the whole. False: it is not, or the account is damaged. */
bool gm_analysis_account(const struct gm_analysis *analysis, const struct gm_event *event, struct gm_account *account);
/* All trims of the trace together. */
struct gm_count_and_bytes gm_analysis_trims(const struct gm_analysis *analysis);

#endif
