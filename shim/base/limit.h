/* GPUMEM_LIMIT: how much memory of each device this process may hold, as if the card were smaller.
 *
 * What counts is alive: blocks of the program, whoever serves them, from the moment they are asked for until they are
 * freed. Memory that is kept for reuse does not count, nor does what the out-of-memory chain put elsewhere (oom.h).
 * Bytes are counted before memory is asked for, so that parallel calls cannot pass together. No function blocks; all
 * are safe from any thread. */
#ifndef GM_BASE_LIMIT_H
#define GM_BASE_LIMIT_H

#include "shim/base/base.h"

#define GM_LIMIT_DEVICES 64

extern uint64_t gm_limit_bytes; /* for each device, 0 = no limit; set before the first call */

/* Free memory of a device of `total` bytes that is left to what nobody here sees: 512 MiB or 3 %. */
static inline size_t gm_device_headroom(size_t total) {
    const size_t least = (size_t)512 << 20;
    return total / 32 > least ? total / 32 : least;
}

static inline bool gm_limit_on(void) { return GM_UNLIKELY(gm_limit_bytes != 0); }

/* Counts `bytes` on the device unless the limit is passed by them. False: nothing was counted. */
GM_INTERNAL bool gm_limit_take(int device, uint64_t bytes);
/* Counts them whatever the limit says: memory that may natively be larger than the card. */
GM_INTERNAL void gm_limit_force(int device, uint64_t bytes);
GM_INTERNAL void gm_limit_give(int device, uint64_t bytes);
GM_INTERNAL uint64_t gm_limit_live(int device);
/* What a card of this limit has: total and free bytes, from what the driver says and what would be given back. */
GM_INTERNAL void gm_limit_view(int device, size_t *free_bytes, size_t *total);
/* In the child of a fork nothing of the parent's is alive. */
GM_INTERNAL void gm_limit_after_fork(void);

#endif
