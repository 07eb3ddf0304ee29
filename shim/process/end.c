/* The end of the process completes the trace and writes what the options asked for, without any CUDA call. */
#include "shim/process/process.h"

#include <dlfcn.h>
#include <unistd.h>

#include "shim/accounts/stats.h"
#include "shim/base/options.h"
#include "shim/base/real_dl.h"
#include "shim/driver/free_sync.h"
#include "shim/explain/access.h"
#include "shim/explain/explain.h"
#include "shim/grow/grow.h"
#include "shim/hook/check.h"
#include "shim/hook/coverage.h"
#include "shim/pipeline/pipeline.h"
#include "shim/start/recording.h"
#include "shim/trace/writer.h"

extern char **environ;

/* Whether a driver was loaded that no entry point saw. Such a process starts nothing, and the coverage report says
 * so. */
static bool was_bypassed(void) {
    if (!*gm_environment_value(environ, "GPUMEM_COVERAGE") || !gm_real_dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD))
        return false;
    gm_options_load(environ);
    return gm_option_bool(GM_OPT_COVERAGE);
}

static void log_policy_end(void) {
    const struct gm_policy *policy = gm_pipeline_policy();
    char line[256];
    if (policy && policy->ended && policy->ended(line, sizeof(line)))
        gm_log(GM_LOG_INFO, "%s", line);
}

__attribute__((destructor)) static void process_end(void) {
    if (!__atomic_load_n(&gm_process_is_started, __ATOMIC_ACQUIRE)) {
        if (was_bypassed())
            gm_coverage_report(STDERR_FILENO);
        return;
    }
    if (gm_coverage_on)
        gm_coverage_report(STDERR_FILENO);
    log_policy_end();
    gm_process_report_stacks();
    gm_explain_finish();
    gm_explain_access_finish();
    gm_grow_report(STDERR_FILENO);
    gm_check_report(STDERR_FILENO);
    gm_recording_report();
    gm_recording_end();
    gm_trace_finish();
    if (gm_free_sync_slows())
        gm_format(gm_stats->free_sync, sizeof(gm_stats->free_sync), "%s", gm_free_sync_state());
    __atomic_store_n(&gm_stats->finished, 1, __ATOMIC_RELEASE);
}
