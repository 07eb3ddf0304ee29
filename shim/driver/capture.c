/* Stream capture, counted for the whole process. While a stream captures, context-wide events, queries and plain allocation of
 * ours would invalidate the capture; so they run inside a guarded section, and a capture begins only when no section is open. */
#include <sched.h>

#include "shim/base/base.h"
#include "shim/driver/driver.h"

int gm_captures;
static int sections; /* guarded sections open now */

void gm_capture_begin(void) {
    __atomic_add_fetch(&gm_captures, 1, __ATOMIC_SEQ_CST);
    /* Sections last a few microseconds; one that has not returned within a second (a stopped thread) must not hang the program. */
    for (int spins = 0; __atomic_load_n(&sections, __ATOMIC_SEQ_CST) > 0 && spins < 1000000; spins++)
        sched_yield();
}

void gm_capture_end(void) {
    int now = __atomic_sub_fetch(&gm_captures, 1, __ATOMIC_SEQ_CST);
    if (now < 0) /* an end without a begin we saw */
        __atomic_compare_exchange_n(&gm_captures, &now, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

bool gm_capture_guard_enter(CUstreamCaptureMode *saved) {
    __atomic_add_fetch(&sections, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&gm_captures, __ATOMIC_SEQ_CST) > 0) {
        __atomic_sub_fetch(&sections, 1, __ATOMIC_SEQ_CST);
        return false;
    }
    *saved = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (gm_drv.thread_exchange_capture_mode)
        gm_drv.thread_exchange_capture_mode(saved);
    return true;
}

void gm_capture_guard_leave(CUstreamCaptureMode saved) {
    if (gm_drv.thread_exchange_capture_mode)
        gm_drv.thread_exchange_capture_mode(&saved);
    __atomic_sub_fetch(&sections, 1, __ATOMIC_SEQ_CST);
}
