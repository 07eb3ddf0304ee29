/* One atomic counter of live bytes for each device (limit.h). */
#include "shim/base/limit.h"

#include <string.h>

uint64_t gm_limit_bytes;
static uint64_t live[GM_LIMIT_DEVICES];

static bool is_known(int device) { return device >= 0 && device < GM_LIMIT_DEVICES; }

bool gm_limit_take(int device, uint64_t bytes) {
    if (!is_known(device))
        return true;
    uint64_t seen = __atomic_load_n(&live[device], __ATOMIC_RELAXED);
    do {
        if (bytes > gm_limit_bytes || seen > gm_limit_bytes - bytes)
            return false;
    } while (
        !__atomic_compare_exchange_n(&live[device], &seen, seen + bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return true;
}

void gm_limit_force(int device, uint64_t bytes) {
    if (is_known(device))
        __atomic_add_fetch(&live[device], bytes, __ATOMIC_RELAXED);
}

void gm_limit_give(int device, uint64_t bytes) {
    if (!is_known(device))
        return;
    uint64_t seen = __atomic_load_n(&live[device], __ATOMIC_RELAXED), remaining;
    do {
        remaining = seen > bytes ? seen - bytes : 0; /* a child may free a block of its parent */
    } while (!__atomic_compare_exchange_n(&live[device], &seen, remaining, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

uint64_t gm_limit_live(int device) { return is_known(device) ? __atomic_load_n(&live[device], __ATOMIC_RELAXED) : 0; }

void gm_limit_view(int device, size_t *free_bytes, size_t *total) {
    uint64_t used = gm_limit_live(device), remaining = gm_limit_bytes > used ? gm_limit_bytes - used : 0;
    if (!gm_limit_bytes)
        return;
    if (*total > gm_limit_bytes)
        *total = gm_limit_bytes;
    if (free_bytes && *free_bytes > remaining)
        *free_bytes = remaining;
}

void gm_limit_after_fork(void) { memset(live, 0, sizeof live); }
