#include "shim/resource/byte_counters.h"

/* Row of the context, else a row without bytes, else -1. Rows without bytes belong to nobody. */
static int find_row(const struct gm_ledger *ledger, uint64_t context_id) {
    int empty = -1;
    unsigned start = (unsigned)(context_id % GM_LEDGER_CONTEXTS);
    for (unsigned i = 0; i < GM_LEDGER_CONTEXTS; i++) {
        unsigned row = (start + i) % GM_LEDGER_CONTEXTS;
        if (!ledger->rows[row].bytes) {
            if (empty < 0)
                empty = (int)row;
        } else if (ledger->rows[row].context_id == context_id) {
            return (int)row;
        }
    }
    return empty;
}

bool gm_ledger_add(struct gm_ledger *ledger, uint64_t context_id, uint64_t bytes, uint64_t ceiling) {
    bool fits = false;
    gm_spin_lock(&ledger->lock);
    int row = find_row(ledger, context_id);
    if (row >= 0 && bytes <= ceiling && ledger->total <= ceiling - bytes) {
        ledger->rows[row].context_id = context_id;
        ledger->rows[row].bytes += bytes;
        __atomic_store_n(&ledger->total, ledger->total + bytes, __ATOMIC_RELAXED);
        fits = true;
    }
    gm_spin_unlock(&ledger->lock);
    return fits;
}

static void take(struct gm_ledger *ledger, int row, uint64_t bytes) {
    if (bytes > ledger->rows[row].bytes)
        bytes = ledger->rows[row].bytes;
    ledger->rows[row].bytes -= bytes;
    __atomic_store_n(&ledger->total, ledger->total - bytes, __ATOMIC_RELAXED);
}

void gm_ledger_subtract(struct gm_ledger *ledger, uint64_t context_id, uint64_t bytes) {
    gm_spin_lock(&ledger->lock);
    int row = find_row(ledger, context_id);
    if (row >= 0 && ledger->rows[row].context_id == context_id)
        take(ledger, row, bytes);
    gm_spin_unlock(&ledger->lock);
}

void gm_ledger_forget(struct gm_ledger *ledger, uint64_t context_id) {
    gm_ledger_subtract(ledger, context_id, UINT64_MAX);
}

uint64_t gm_ledger_total(const struct gm_ledger *ledger) { return __atomic_load_n(&ledger->total, __ATOMIC_RELAXED); }
