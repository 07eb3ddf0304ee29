/* Counts the live bytes of each context and keeps their sum below a ceiling. When a context is destroyed its bytes
 * leave the sum at once, although nobody frees its blocks one by one. All functions are safe from any thread. Zeroed
 * memory is a counter without bytes. */
#ifndef GM_RESOURCE_BYTE_COUNTERS_H
#define GM_RESOURCE_BYTE_COUNTERS_H

#include "shim/base/base.h"

#define GM_BYTE_COUNTERS_CONTEXTS 128 /* contexts with live bytes at one time */

struct gm_byte_counters {
    gm_spin lock; /* to be released in the child of a fork */
    uint64_t total;
    struct {
        uint64_t context_id, bytes;
    } rows[GM_BYTE_COUNTERS_CONTEXTS];
};

/* Adds `bytes` unless the total would exceed `ceiling` or GM_BYTE_COUNTERS_CONTEXTS contexts have bytes already. Check
 * and addition are one step, so two parallel requests cannot exceed the ceiling together. False: nothing was added. */
GM_INTERNAL bool gm_byte_counters_add(struct gm_byte_counters *counters, uint64_t context_id, uint64_t bytes,
                                      uint64_t ceiling);
/* Subtracts bytes that were added. Does nothing when the context was forgotten meanwhile. */
GM_INTERNAL void gm_byte_counters_subtract(struct gm_byte_counters *counters, uint64_t context_id, uint64_t bytes);
/* Subtracts all bytes of a destroyed context. */
GM_INTERNAL void gm_byte_counters_forget(struct gm_byte_counters *counters, uint64_t context_id);
GM_INTERNAL uint64_t gm_byte_counters_total(const struct gm_byte_counters *counters);

#endif
