#include "shim/base/limit.h"

#include <string.h>

uint64_t gm_budget_bytes;
static uint64_t live[GM_BUDGET_DEVICES];

static bool is_known(int device) { return device >= 0 && device < GM_BUDGET_DEVICES; }

bool gm_budget_take(int device, uint64_t bytes) {
    if (!is_known(device))
        return true;
    uint64_t seen = __atomic_load_n(&live[device], __ATOMIC_RELAXED);
    do {
        if (bytes > gm_budget_bytes || seen > gm_budget_bytes - bytes)
            return false;
    } while (!__atomic_compare_exchange_n(&live[device], &seen, seen + bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return true;
}

void gm_budget_force(int device, uint64_t bytes) {
    if (is_known(device))
        __atomic_add_fetch(&live[device], bytes, __ATOMIC_RELAXED);
}

void gm_budget_give(int device, uint64_t bytes) {
    if (!is_known(device))
        return;
    uint64_t seen = __atomic_load_n(&live[device], __ATOMIC_RELAXED), left;
    do {
        left = seen > bytes ? seen - bytes : 0; /* of a parent's block, freed in its child */
    } while (!__atomic_compare_exchange_n(&live[device], &seen, left, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

uint64_t gm_budget_live(int device) { return is_known(device) ? __atomic_load_n(&live[device], __ATOMIC_RELAXED) : 0; }

void gm_budget_view(int device, size_t *free_bytes, size_t *total) {
    uint64_t used = gm_budget_live(device), left = gm_budget_bytes > used ? gm_budget_bytes - used : 0;
    if (!gm_budget_bytes)
        return;
    if (*total > gm_budget_bytes)
        *total = gm_budget_bytes;
    if (free_bytes && *free_bytes > left)
        *free_bytes = left;
}

void gm_budget_after_fork(void) { memset(live, 0, sizeof live); }
