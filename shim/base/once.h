/* Work that one thread of a process does once, while the others wait for its end. In the child of a fork the thread
 * that had begun may not exist: then a thread of the child does the work again. A zeroed struct is ready for use. */
#ifndef GM_ONCE_H
#define GM_ONCE_H

#include "shim/base/base.h"

struct gm_once {
    int state; /* 0: not begun; GM_ONCE_DONE; else the process whose thread does the work */
};
enum { GM_ONCE_DONE = -1 };

/* True: the caller does the work and then calls gm_once_end. False: the work is done, and its results are visible; or
 * it has not ended for seconds, as when this call interrupts it. */
GM_INTERNAL bool gm_once_begin(struct gm_once *once);
GM_INTERNAL void gm_once_end(struct gm_once *once);
static inline bool gm_once_is_done(const struct gm_once *once) {
    return __atomic_load_n(&once->state, __ATOMIC_ACQUIRE) == GM_ONCE_DONE;
}

#endif
