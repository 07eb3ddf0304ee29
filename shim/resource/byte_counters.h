/* Bytes that live, by context, under one ceiling: a context that goes takes its bytes out of the sum without anybody
 * freeing its blocks one by one. All functions are safe from any thread; zeroed memory is an empty counters. */
#ifndef GM_RESOURCE_BYTE_COUNTERS_H
#define GM_RESOURCE_BYTE_COUNTERS_H

#include "shim/base/base.h"

#define GM_BYTE_COUNTERS_CONTEXTS 128 /* contexts with live bytes at one time */

struct gm_byte_counters {
    gm_spin lock;
    uint64_t total;
    struct {
        uint64_t context_id, bytes;
    } rows[GM_BYTE_COUNTERS_CONTEXTS];
};

/* Adds `bytes` unless the total would exceed `ceiling` or GM_BYTE_COUNTERS_CONTEXTS contexts hold bytes already; one
 * step, so that parallel requests cannot pass together. False: nothing was added. */
GM_INTERNAL bool gm_byte_counters_add(struct gm_byte_counters *counters, uint64_t context_id, uint64_t bytes,
                                      uint64_t ceiling);
/* Takes back what add counted; nothing when the context was forgotten meanwhile. */
GM_INTERNAL void gm_byte_counters_subtract(struct gm_byte_counters *counters, uint64_t context_id, uint64_t bytes);
/* Drops the context's bytes. */
GM_INTERNAL void gm_byte_counters_forget(struct gm_byte_counters *counters, uint64_t context_id);
GM_INTERNAL uint64_t gm_byte_counters_total(const struct gm_byte_counters *counters);

#endif
