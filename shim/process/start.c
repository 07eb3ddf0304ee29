/* The start of gpumem in a process. The first call of the driver reads the options and creates policy, resources and
 * trace. Nothing happens before. */
#include "shim/process/process.h"

#include "shim/accounts/limit.h"
#include "shim/accounts/stats.h"
#include "shim/api/resources.h"
#include "shim/base/options.h"
#include "shim/base/wrappers.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/streams.h"
#include "shim/explain/access.h"
#include "shim/grow/grow.h"
#include "shim/hook/check.h"
#include "shim/hook/diverted.h"
#include "shim/hook/guard.h"
#include "shim/hook/hook.h"
#include "shim/pipeline/fast.h"
#include "shim/pipeline/guard.h"
#include "shim/resource/managed_advice.h"
#include "shim/resource/managed_quota.h"
#include "shim/sites/python.h"
#include "shim/start/card.h"
#include "shim/start/lender.h"
#include "shim/start/recording.h"
#include "shim/start/untracked.h"
#include "shim/suspend/select.h"
#include "shim/trace/writer.h"

extern char **environ;

bool gm_process_is_started;

/* A call site of GPUMEM_GROW is a whole stack: with deeper ones it would take other arrays when a trace is written. */
static unsigned stack_frames(bool guards) {
    bool deep = gm_option_is_set(GM_OPT_STACKS) || ((guards || gm_trace_is_on()) && gm_grow_mode < GM_GROW_VMM);
    return deep ? (unsigned)gm_option_number(GM_OPT_STACKS) : 0;
}

/* Enough to name a function of the program below the layers of a framework. */
static unsigned few_frames(void) {
    const unsigned most = 16;
    uint64_t frames = gm_option_number(GM_OPT_STACKS);
    return frames < most || gm_option_is_set(GM_OPT_STACKS) ? (unsigned)frames : most;
}

static void skip_wrappers(void) {
    const char *globs = gm_option_text(GM_OPT_SKIP);
    char error[160];
    if (globs[0] && !gm_wrappers_skip(globs, error, sizeof error))
        gm_log(GM_LOG_ERROR, "GPUMEM_SKIP=%.80s: %s; ignored", globs, error);
}

static void set_up_limit(void) {
    gm_limit_start(gm_option_text(GM_OPT_GROUP), gm_option_number(GM_OPT_LIMIT));
    gm_limit_publish();
}

static void set_up_pipeline(const struct gm_policy *policy, bool user_named, uint32_t wants) {
    const struct gm_pipeline_setup setup = {
        .policy = policy,
        .root = gm_process_resources(policy),
        .timed = gm_option_text(GM_OPT_STATS)[0] != '\0',
        .synchronise = gm_process_synchronise,
        .user_named = user_named,
        .wants = wants,
        .advise = gm_managed_advice_advise,
        .grows = gm_grow_mode >= GM_GROW_VMM ? gm_grow_takes : NULL,
        .handed_over = gm_grow_mode != GM_GROW_OFF ? gm_grow_freed : NULL,
        .program_managed = gm_managed_note,
    };
    gm_pipeline_setup(&setup);
}

/* Before the trace is set up, which is the first to publish. */
static void subscribe(void) {
#define X(event, function, ...) __atomic_store_n(&gm_events.event, function, __ATOMIC_RELEASE);
    GM_EVENTS(X)
#undef X
}

static void set_up_trace(const struct gm_policy *policy) {
    if (!gm_option_text(GM_OPT_TRACE)[0])
        return;
    gm_process_bound_trace();
    gm_trace_setup(gm_option_text(GM_OPT_TRACE), (int)gm_option_number(GM_OPT_TRACE_FORMAT),
                   gm_option_number(GM_OPT_TRACE_FLUSH), policy->name, GM_VERSION);
}

static void set_up_sites(bool sites, bool guards, bool of_policy) {
    skip_wrappers();
    if ((gm_trace_is_on() || guards) && gm_option_number(GM_OPT_STACKS) && gm_option_bool(GM_OPT_PYTHON))
        gm_python_setup();
    if (gm_trace_is_on() || sites || guards)
        gm_site_setup(stack_frames(guards), of_policy);
    if (!gm_trace_is_on() && !sites) /* one of N blocks is guarded: only these have a call site */
        __atomic_store_n(&gm_sites_on, false, __ATOMIC_RELEASE);
    gm_site_setup_of_new(few_frames());
    if (gm_process_tracks())
        gm_resources_track((unsigned)gm_option_number(GM_OPT_STACKS));
}

static void name_log(void) {
    static char name[4096];
    if (gm_trace_expand(gm_option_text(GM_OPT_LOG_FILE), name, sizeof name))
        gm_log(GM_LOG_WARN, "GPUMEM_LOG_FILE=%.80s: too long, or a %% that is not one of %%p %%h %%r %%%%",
               gm_option_text(GM_OPT_LOG_FILE));
    else
        gm_log_to(name);
}

void gm_process_start(void) {
    bool user_named;
    uint32_t wants = 0;

    gm_clock_init();
    gm_options_load(environ);
    gm_log_set((enum gm_log_level)gm_option_number(GM_OPT_LOG));
    name_log();
    __atomic_store_n(&gm_coverage_on, gm_option_bool(GM_OPT_COVERAGE), __ATOMIC_RELAXED);
    const struct gm_policy *policy = gm_process_policy(&user_named, &wants);
    gm_stats_open(gm_option_text(GM_OPT_STATS));
    gm_process_steps();
    set_up_limit();
    wants |= gm_grow_start();
    gm_format(gm_stats->policy, sizeof(gm_stats->policy), "%s", policy->name);
    bool guards = gm_guard_start(wants & GM_WANT_GUARD);
    set_up_pipeline(policy, user_named, wants & ~(uint32_t)GM_WANT_GUARD);
    bool checks = gm_check_start();
    gm_free_sync_setup(checks || gm_option_bool(GM_OPT_STRICT) ? GM_FREE_WAIT
                                                               : (enum gm_free_level)gm_option_number(GM_OPT_FREE));
    subscribe();
    set_up_trace(policy);
    gm_copies_start();
    gm_host_copies_start();
    gm_queries_start();
    gm_handles_start();
    bool sites = wants & GM_WANT_SITE || checks || (guards && gm_guard_every <= 1);
    gm_recording_setup(sites || gm_process_tracks());
    set_up_sites(sites, guards, wants & GM_WANT_SITE);
    gm_untracked_setup();
    gm_fast_open(gm_coverage_on);
    gm_streams_observe();
    __atomic_store_n(&gm_process_is_started, true, __ATOMIC_RELEASE);
    gm_log(GM_LOG_INFO, "gpumem %s: policy %s%s%s", GM_VERSION, policy->name, gm_trace_is_on() ? ", trace " : "",
           gm_trace_is_on() ? gm_option_text(GM_OPT_TRACE) : "");
}

void gm_process_started(void) {
    if (gm_sites_are_on() || gm_sites_are_of_new())
        gm_site_find_unwinder();
    gm_recording_started();
    gm_nvtx_begin_waiting();
}
