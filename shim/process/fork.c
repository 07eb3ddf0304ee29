/* The child of a fork goes on without the threads of its parent. */
#include "shim/base/events.h"

#include <pthread.h>

#include "shim/accounts/limit.h"
#include "shim/accounts/stats.h"
#include "shim/driver/check_order.h"
#include "shim/driver/free_sync.h"
#include "shim/hook/guard.h"
#include "shim/hook/nvtx.h"
#include "shim/pipeline/phase.h"
#include "shim/pipeline/pipeline.h"
#include "shim/sites/site.h"
#include "shim/start/lender.h"
#include "shim/start/recording.h"
#include "shim/start/suspender.h"
#include "shim/suspend/suspend.h"
#include "shim/trace/writer.h"

static void in_child(void) {
    gm_fork_zero();
    gm_watch_set(GM_WATCH_CAPTURES, false);
    gm_trace_after_fork();
    gm_site_after_fork();
    gm_phase_again();
    gm_recording_after_fork(gm_nvtx_open_ranges());
    gm_pipeline_after_fork();
    gm_free_sync_after_fork();
    gm_check_order_after_fork();
    gm_stats_after_fork();
    gm_limit_publish();
    gm_guard_after_fork();
    gm_lender_after_fork();
    gm_suspend_after_fork();
    gm_suspender_after_fork();
}

/* Work that may wait for locks of the C library. Called by any thread before the start. */
void gm_process_prepare(void) {
    static bool registered;
    if (!__atomic_exchange_n(&registered, true, __ATOMIC_RELAXED) && !pthread_atfork(NULL, NULL, in_child))
        gm_nvtx_leave_child();
}
