#include "shim/base/observers.h"

uint32_t gm_observers = GM_OBSERVED_START;

void gm_observers_set(enum gm_observed by, bool value) {
    if (value)
        __atomic_fetch_or(&gm_observers, (uint32_t)by, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_and(&gm_observers, ~(uint32_t)by, __ATOMIC_SEQ_CST);
}
