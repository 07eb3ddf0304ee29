#include "shim/driver/watch.h"

struct gm_watch gm_watch = {.flags = GM_WATCH_CLOSED};
GM_ZERO_IN_CHILD(gm_watch.state);
uint32_t gm_watch_checks;

void gm_watch_set(enum gm_watch_flag flag, bool value) {
    if (flag == GM_WATCH_CHECKS)
        __atomic_store_n(&gm_watch_checks, value, __ATOMIC_SEQ_CST);
    if (value)
        __atomic_fetch_or(&gm_watch.flags, (uint16_t)flag, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_and(&gm_watch.flags, (uint16_t)~flag, __ATOMIC_SEQ_CST);
}
