/* Live bytes by context in a small hash table (byte_counters.h). */
#include "shim/resource/byte_counters.h"

/* Returns the row of the context, else an empty row, else -1. A row without bytes is empty. */
static int find_counter(const struct gm_byte_counters *counters, uint64_t context_id) {
    int empty = -1;
    unsigned start = (unsigned)(context_id % GM_BYTE_COUNTERS_CONTEXTS);
    for (unsigned i = 0; i < GM_BYTE_COUNTERS_CONTEXTS; i++) {
        unsigned row = (start + i) % GM_BYTE_COUNTERS_CONTEXTS;
        if (!counters->rows[row].bytes) {
            if (empty < 0)
                empty = (int)row;
        } else if (counters->rows[row].context_id == context_id) {
            return (int)row;
        }
    }
    return empty;
}

bool gm_byte_counters_add(struct gm_byte_counters *counters, uint64_t context_id, uint64_t bytes, uint64_t ceiling) {
    bool fits = false;
    gm_spin_lock(&counters->lock);
    int row = find_counter(counters, context_id);
    if (row >= 0 && bytes <= ceiling && counters->total <= ceiling - bytes) {
        counters->rows[row].context_id = context_id;
        counters->rows[row].bytes += bytes;
        __atomic_store_n(&counters->total, counters->total + bytes, __ATOMIC_RELAXED);
        fits = true;
    }
    gm_spin_unlock(&counters->lock);
    return fits;
}

void gm_byte_counters_subtract(struct gm_byte_counters *counters, uint64_t context_id, uint64_t bytes) {
    gm_spin_lock(&counters->lock);
    int row = find_counter(counters, context_id);
    if (row >= 0 && counters->rows[row].context_id == context_id) {
        if (bytes > counters->rows[row].bytes)
            bytes = counters->rows[row].bytes;
        counters->rows[row].bytes -= bytes;
        __atomic_store_n(&counters->total, counters->total - bytes, __ATOMIC_RELAXED);
    }
    gm_spin_unlock(&counters->lock);
}

void gm_byte_counters_forget(struct gm_byte_counters *counters, uint64_t context_id) {
    gm_byte_counters_subtract(counters, context_id, UINT64_MAX);
}

uint64_t gm_byte_counters_total(const struct gm_byte_counters *counters) {
    return __atomic_load_n(&counters->total, __ATOMIC_RELAXED);
}
