/* GPUMEM_LIMIT: how much memory of each device this process may hold, as if the device were smaller. With GPUMEM_GROUP
 * the processes of the group share the limit (group.h). `gpumem limit` changes it while the processes run. A process
 * that cannot join its group is granted nothing, because its memory would not count there.
 *
 * The live blocks of the program count, from the request until the free, whichever resource serves them. Free blocks
 * of the cache do not count, and neither do blocks that the out-of-memory steps placed in other memory (oom.h). Bytes
 * are counted before the memory is requested, so that parallel calls cannot exceed the limit together. A lowered limit
 * takes no memory away: requests are refused until enough blocks are freed. All functions are safe in any thread. */
#ifndef GM_ACCOUNTS_LIMIT_H
#define GM_ACCOUNTS_LIMIT_H

#include "shim/base/base.h"

#define GM_LIMIT_DEVICES 64

/* As set before the first call, for each device: bytes or a part of it (gm_memory_of); 0 = nothing is counted. */
extern uint64_t gm_limit_bytes;

/* Free memory that gpumem leaves on a device of `total` bytes for users that it does not see: 512 MiB or 3 %. */
static inline size_t gm_device_headroom(size_t total) {
    const size_t least = (size_t)512 << 20;
    return total / 32 > least ? total / 32 : least;
}

static inline bool gm_limit_on(void) { return GM_UNLIKELY(gm_limit_bytes != 0); }

/* Takes the options: `group` "" = the limit is this process' own; `bytes` 0 = none, or as gm_limit_bytes. Later calls
 * wait for the first one and change nothing. */
GM_INTERNAL void gm_limit_start(const char *group, uint64_t bytes);
/* Writes group and limit into the counters, for viewers. After gm_stats_open, and in the child of a fork. */
GM_INTERNAL void gm_limit_publish(void);
/* The limit of a device now in force, in bytes; UINT64_MAX = none, 0 = nothing is granted, since the group cannot be
 * had. */
GM_INTERNAL uint64_t gm_limit_now(int device);
/* Counts `bytes` on the device, unless that would exceed the limit. False: nothing was counted. */
GM_INTERNAL bool gm_limit_take(int device, uint64_t bytes);
/* Counts `bytes` even above the limit, for memory that may natively be larger than the device. */
GM_INTERNAL void gm_limit_force(int device, uint64_t bytes);
GM_INTERNAL void gm_limit_give(int device, uint64_t bytes);
/* The counted bytes of the process, or of its group. */
GM_INTERNAL uint64_t gm_limit_live(int device);
/* Lowers total and free bytes, as the driver reports them, to those of a device of the limit's size. */
GM_INTERNAL void gm_limit_view(int device, size_t *free_bytes, size_t *total);
/* The same for a device that is known by its UUID. */
GM_INTERNAL void gm_limit_view_uuid(const unsigned char uuid[16], uint64_t *free_bytes, uint64_t *total);
/* In the child of a fork none of the parent's blocks is alive. */
GM_INTERNAL void gm_limit_after_fork(void);

#endif
