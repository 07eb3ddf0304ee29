/* One reading of a process's counters, and rates from two of them. */
#ifndef GM_COUNTER_SAMPLE_H
#define GM_COUNTER_SAMPLE_H

#include "shim/accounts/stats.h"

/* One reading of a process's counters. Units are bytes and nanoseconds. */
struct gm_counter_sample {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    int32_t pid;      /* in the caller's pid namespace */
    bool finished, timed;
    char program[64], policy[64]; /* as they are shown (shim/base/foreign.h) */
    char trace[256];              /* file that the process writes, "" = none */
    char group[48];               /* "" = none */
    uint64_t limit;               /* of each device, now in force (gm_memory_of); 0 = none */
    struct gm_stats_suspended suspended;
    struct gm_stats_shared shared;
    uint64_t start_ns;
    uint64_t live[GM_KIND_COUNT], cached[GM_KIND_COUNT], reserved[GM_KIND_COUNT], peak[GM_KIND_COUNT],
        blocks[GM_KIND_COUNT];
    uint64_t live_all, cached_all, reserved_all; /* on devices */
    uint64_t peak_all, peak_reserved_all;        /* live and reserved bytes on devices */
    uint64_t untracked, untracked_peak;          /* what the process holds beyond gpumem's view, all devices */
    struct gm_device_sample {
        bool used;
        char uuid[48];  /* "GPU-...", as nvidia-smi has it; "" = unknown */
        uint64_t total; /* bytes of the device; 0 = unknown */
        uint64_t limit; /* bytes; 0 = none */
        uint64_t live, peak_live, reserved, peak_reserved, untracked;
        struct gm_stats_accounts accounts; /* those that are not known are zeroed */
    } devices[GM_STATS_DEVICES];
    uint64_t allocs, frees, hits, reusable; /* reusable: allocations of kinds that cache freed blocks */
    struct gm_stats_shard total;
};

/* Rates between two readings. Negative values are unknown. */
struct gm_rates {
    double seconds;
    double allocs, frees, fence_waits; /* per second */
    double hits; /* fraction of the allocations served from the cache; hits_in_all is the same since the start */
    double hits_in_all;
    double time; /* fraction of the time inside calls; above 1 with several threads */
};

void gm_counter_sample_take(struct gm_counter_sample *out, const struct gm_stats *stats, int32_t pid, uint64_t now_ns);
/* `before` NULL: this is the first reading. `timed`: the process timed its calls between the readings. */
struct gm_rates gm_counter_sample_rates(const struct gm_counter_sample *before, const struct gm_counter_sample *now,
                                        bool timed);
/* The limit of a process in a group is that of the group, which its counters do not have. */
void gm_counter_sample_limit(struct gm_counter_sample *sample, uint64_t limit);
/* Two processes may number the same card differently: its UUID decides where it is known. */
bool gm_device_is(const struct gm_device_sample *device, int number, const char *uuid, int other_number);
/* The process has used this kind of memory. */
bool gm_counter_sample_has_kind(const struct gm_counter_sample *sample, enum gm_kind kind);

#endif
