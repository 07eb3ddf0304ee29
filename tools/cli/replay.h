/* What a trace would have come to under another policy, without a GPU: the shim's own policies, pipeline, resources and
 * cache serve its requests from cards that only count (replay_device.h), at the times of the trace. Memory is bounded
 * by the live objects. */
#ifndef GM_REPLAY_H
#define GM_REPLAY_H

#include "policy/policy.h"
#include "tools/cli/reader.h"

extern uint64_t gm_replay_time; /* replay_clock.c: what the shim's clock says, ns; 0 = the time of day */

struct gm_replay_counts {
    uint64_t allocs, frees, hits, moved;
    uint64_t failed; /* requests that the trace served and the card could not */
    uint64_t failed_bytes;
    uint64_t peak_live;        /* bytes asked, of blocks on devices */
    uint64_t peak_reserved;    /* bytes of the cards, kept memory included */
    uint64_t live_at_reserved; /* bytes asked when peak_reserved was reached */
    uint64_t waits;            /* calls that wait for the device */
    uint64_t driver_allocs, driver_frees;
    uint64_t given_back; /* bytes of kept memory given back to the driver */
};

struct gm_replay_failure {
    uint64_t time_ns, bytes;
    int device;
};

struct gm_replay {
    struct gm_replay_counts counts;
    uint64_t allocs[GM_KIND_COUNT], hits[GM_KIND_COUNT],
        peak[GM_KIND_COUNT];        /* by kind of memory; peak in bytes asked */
    struct gm_replay_failure first; /* valid when counts.failed */
    char said[256];                 /* what the policy says of itself at the end, "" = nothing */
    char error[512];                /* one line: the replay was not possible; nothing else is valid then */
};

/* Replays the trace under `policy` (a value of GPUMEM_POLICY) in a process of its own, because policies and resources
 * live once a process. Options of the shim count as set in the environment. `card`: bytes of each device, 0 = what the
 * trace says of it. */
void gm_replay_policy(const char *trace, const char *policy, uint64_t card, struct gm_replay *replay);

/* replay_run.c: the same in this process, which is of no other use then. */
void gm_replay_here(const char *trace, const char *policy, uint64_t card, struct gm_replay *replay);

#endif
