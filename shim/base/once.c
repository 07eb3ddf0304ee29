/* Work that is done once (once.h). */
#include "shim/base/once.h"

#include <unistd.h>

#include "shim/base/file.h"

enum { NAP_NS = 50000, MOST_NAPS = 100000 }; /* 5 s and more */

bool gm_once_begin(struct gm_once *once) {
    int now = __atomic_load_n(&once->state, __ATOMIC_ACQUIRE), self = getpid();
    for (int naps = 0; now != GM_ONCE_DONE && naps < MOST_NAPS; naps++) {
        if (now != self &&
            __atomic_compare_exchange_n(&once->state, &now, self, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return true;
        gm_sleep(NAP_NS);
        now = __atomic_load_n(&once->state, __ATOMIC_ACQUIRE);
    }
    return false;
}

void gm_once_end(struct gm_once *once) { __atomic_store_n(&once->state, GM_ONCE_DONE, __ATOMIC_RELEASE); }
