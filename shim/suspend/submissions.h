/* Calls of the program that submit work: which are in the driver now, and holding them back at their entry.
 *
 * While GPUMEM_SUSPEND is on, each such call is counted from its entry to its return. Whoever suspends closes the
 * entries, and waits until no counted call is left: then all work that the program submitted is known to the driver,
 * and none follows. A call that another one makes inside the driver belongs to that one and is never held.
 *
 * What touches device memory without a call of the driver (another process, a network card) is no submission: such
 * memory does not leave. Nor is what libraries submit through private tables of the driver. */
#ifndef GM_SUSPEND_SUBMISSIONS_H
#define GM_SUSPEND_SUBMISSIONS_H

#include "shim/driver/call.h"
#include "shim/driver/in_flight.h"

struct gm_submissions_mine {
    uint8_t inside;  /* counted calls of this thread, one inside the other */
    uint8_t by_hook; /* the hook that runs is one of them */
    uint8_t paused;  /* of `inside`, while the call waits for memory */
    bool again;      /* the outer one may be made again (called.c) */
    uint16_t slot;   /* from 1 on; 0: none yet */
};
GM_INTERNAL extern __thread struct gm_submissions_mine gm_submissions_mine __attribute__((tls_model("initial-exec")));

/* Whether a row of calls.h submits work that may use memory. */
static inline bool gm_submits_work(enum gm_role role, int stream) {
    return role == GM_ROLE_SUBMITS || (role == GM_ROLE_SHARES && stream != GM_STREAM_NONE);
}

/* Counts a call, before it. False: the entries are closed, and it is not counted. */
GM_INTERNAL bool gm_submission_try(void);
/* After a counted call. */
GM_INTERNAL void gm_submission_end(void);

/* Of a hook (gm_submission_begin_hook), whose gm_hook_leave ends it. */
static inline void gm_submission_end_hook(void) {
    if (GM_UNLIKELY(gm_submissions_mine.by_hook)) {
        gm_submissions_mine.by_hook = 0;
        gm_submission_end();
    }
}

/* Closes or opens the entries. */
GM_INTERNAL void gm_submissions_close(void);
GM_INTERNAL void gm_submissions_open(void);
GM_INTERNAL bool gm_submissions_are_closed(void);
/* Waits until no counted call is left, or the time is over: false. */
GM_INTERNAL bool gm_submissions_wait(uint64_t until_ns);
/* When the latest call was counted, in nanoseconds, exact to the time between two calls of this function. */
GM_INTERNAL uint64_t gm_submissions_idle_since(void);

#endif
