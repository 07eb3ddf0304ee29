/* Replays a trace under another policy, without a GPU. The library's own policies, pipeline, resources and cache serve
 * its requests from simulated devices that only count bytes (replay_device.h), at the times of the trace. Memory use
 * grows with the number of live objects. */
#ifndef GM_REPLAY_H
#define GM_REPLAY_H

#include "policy/policy.h"
#include "tools/cli/reader.h"

extern uint64_t gm_replay_time; /* replay_clock.c: the time of the library's clock in ns; 0 = the real time */

struct gm_replay_counts {
    uint64_t allocs, frees, hits, moved;
    uint64_t failed; /* requests that succeeded in the trace and fail in the replay */
    uint64_t failed_bytes;
    uint64_t peak_live;        /* requested bytes of blocks on devices */
    uint64_t peak_reserved;    /* as gm_stats_take counts it */
    uint64_t live_at_reserved; /* requested bytes when peak_reserved was reached */
    uint64_t waits;            /* calls that wait for the device */
    uint64_t driver_allocs, driver_frees;
    uint64_t given_back; /* bytes of cached memory returned to the driver */
};

struct gm_replay_failure {
    uint64_t time_ns, bytes;
    int device;
};

struct gm_replay {
    struct gm_replay_counts counts;
    uint64_t allocs[GM_KIND_COUNT], hits[GM_KIND_COUNT];
    uint64_t peak[GM_KIND_COUNT];   /* requested bytes */
    struct gm_replay_failure first; /* valid when counts.failed */
    char policy_line[256];          /* the policy's closing line, "" = none */
    uint64_t damaged;               /* as gm_reader_damaged */
    char error[512];                /* one line if the replay was not possible; nothing else is valid then */
};

/* Replays the trace under `policy` (a value of GPUMEM_POLICY). It runs in a child process, because policies and
 * resources can be set up once in a process. Options of the library must have been loaded. `device_bytes`: bytes of
 * each device, 0 = as in the trace. */
void gm_replay_policy(const char *trace, const char *policy, uint64_t device_bytes, struct gm_replay *replay);

/* replay_run.c: the same in this process, which cannot replay again. */
void gm_replay_here(const char *trace, const char *policy, uint64_t device_bytes, struct gm_replay *replay);

#endif
