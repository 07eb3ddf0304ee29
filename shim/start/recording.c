/* Starts, pauses and stops the trace (recording.h). One thread at a time does it. Others go on, and each decides for
 * its own call whether the call is recorded (shim/trace/recorded.h). */
#include "shim/start/recording.h"

#include <string.h>

#include "shim/base/events.h"
#include "shim/base/file.h"
#include "shim/base/options.h"
#include "shim/pipeline/phase.h"
#include "shim/pipeline/pipeline.h"
#include "shim/pipeline/sample.h"
#include "shim/sites/python.h"
#include "shim/sites/site.h"
#include "shim/start/untracked.h"
#include "shim/suspend/suspend.h"
#include "shim/trace/summary.h"

enum { POLL_NS = 1000000, POLLS = 1000 }; /* how long a stop waits for calls that are being recorded */

GM_LOCK(busy);
static bool set_up, sites_stay, waits_for_range, opened_once, ended;
static unsigned open_ranges;

/* ---- starting and stopping; the caller holds `busy` */

static void set_up_sites(unsigned frames) {
    static bool searched;
    if (!searched && frames && gm_option_bool(GM_OPT_PYTHON) &&
        __atomic_load_n(&gm_python_state, __ATOMIC_ACQUIRE) == GM_PYTHON_OFF)
        gm_python_setup();
    searched = true;
    gm_site_define_again();
    gm_site_find_unwinder();
    gm_site_setup(frames, false); /* last: other threads look for call sites from here on */
}

/* False: *why is the reason. */
static bool start_recording(unsigned frames, bool fresh, const char **why) {
    __atomic_store_n(&gm_trace_paused, false, __ATOMIC_RELAXED);
    if (!gm_trace_start(fresh, why))
        return false;
    gm_phase_again();
    gm_process_describe_contexts();
    set_up_sites(frames);
    gm_pipeline_observe(true); /* the free of a block whose allocation is recorded must be recorded */
    __atomic_store_n(&gm_trace_on, true, __ATOMIC_SEQ_CST);
    gm_stats->recording.state = GM_STATS_RECORDS;
    gm_untracked_setup();
    gm_pipeline_record_live();
    gm_nvtx_begin_waiting();
    return true;
}

static void stop_recording(void) {
    __atomic_store_n(&gm_trace_on, false, __ATOMIC_SEQ_CST);
    gm_stats->recording.state = GM_STATS_OFF;
    for (int poll = 0; poll < POLLS; poll++) {
        gm_sleep(POLL_NS);
        if (gm_pipeline_wrote_frees())
            break;
    }
    gm_trace_stop();
    gm_stats->trace[0] = '\0';
    if (!gm_pipeline_timed)
        __atomic_store_n(&gm_pipeline_sample_from, UINT64_MAX, __ATOMIC_RELAXED);
    if (sites_stay)
        return;
    __atomic_store_n(&gm_sites_on, false, __ATOMIC_SEQ_CST);
    gm_sleep(POLL_NS);
    gm_pipeline_observe(false);
}

/* ---- requests */

static void answer_request(uint32_t number, const char *text, bool failed) {
    struct gm_stats_recording *r = &gm_stats->recording;
    gm_format(r->text, sizeof r->text, "%s", text);
    r->failed = failed;
    __atomic_store_n(&r->answered, number, __ATOMIC_RELEASE);
}

static void answer_start(uint32_t number, const char *name, unsigned stacks) {
    const char *why = "the name of the file is too long";
    if (gm_trace_is_on()) {
        static char text[sizeof gm_stats->recording.text]; /* under `busy` */
        gm_format(text, sizeof text, "it records already%s%s", gm_trace_file()[0] ? ", into " : "", gm_trace_file());
        answer_request(number, text, true);
        return;
    }
    const char *refusal = ended             ? "it is about to end"
                          : waits_for_range ? "GPUMEM_TRACE_RANGE says when it records"
                          : gm_option_number(GM_OPT_TRACE_SUMMARY)
                              ? "GPUMEM_TRACE_SUMMARY is set, and a summary begins with the process"
                              : NULL;
    if (refusal) {
        answer_request(number, refusal, true);
        return;
    }
    gm_process_bound_trace();
    unsigned frames = stacks == UINT32_MAX ? (unsigned)gm_option_number(GM_OPT_STACKS) : stacks;
    bool started = gm_trace_prepare(name, (int)gm_option_number(GM_OPT_TRACE_FORMAT),
                                    gm_option_number(GM_OPT_TRACE_FLUSH), gm_stats->policy, GM_VERSION) &&
                   start_recording(frames, true, &why);
    answer_request(number, started ? gm_trace_file() : why, !started);
}

static void answer_stop(uint32_t number) {
    static char name[sizeof gm_stats->recording.text]; /* under `busy` */
    if (!gm_trace_is_on()) {
        answer_request(number, waits_for_range ? "it waits for a range of GPUMEM_TRACE_RANGE" : "it does not record",
                       true);
        return;
    }
    gm_format(name, sizeof name, "%s", gm_trace_file());
    waits_for_range = false;
    bool lost = name[0] && !gm_trace_is_in_place();
    stop_recording();
    if (lost)
        gm_format(name + strlen(name), sizeof name - strlen(name), ": somebody removed or renamed the file meanwhile");
    answer_request(number, name, lost);
}

/* Copies the request. 0: it is being written. */
static uint32_t read_request(struct gm_stats_recording *out) {
    const struct gm_stats_recording *r = &gm_stats->recording;
    uint32_t number = __atomic_load_n(&r->request, __ATOMIC_ACQUIRE);
    memcpy(out, r, sizeof *out);
    out->name[sizeof out->name - 1] = '\0';
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return number & 1 || __atomic_load_n(&r->request, __ATOMIC_RELAXED) != number ? 0 : number;
}

static void serve_request(void) {
    static struct gm_stats_recording request; /* under `busy`, because the stack may be small */
    __atomic_and_fetch(&gm_stats->watched_until, ~GM_STATS_REQUESTED,
                       __ATOMIC_ACQ_REL); /* the next one sets it again */
    uint32_t number = read_request(&request);
    if (!number || number == request.answered)
        return;
    bool moves = request.wanted == GM_STATS_SUSPEND || request.wanted == GM_STATS_RESUME;
    if (moves && gm_suspend_is_on()) /* its own thread answers */
        return;
    if (moves)
        answer_request(number, "it does not run with GPUMEM_SUSPEND=on", true);
    else if (request.wanted == GM_STATS_START)
        answer_start(number, request.name, request.stacks);
    else if (request.wanted == GM_STATS_STOP)
        answer_stop(number);
    else
        answer_request(number, "an unknown request", true);
}

static bool is_requested(void) {
    return __atomic_load_n(&gm_stats->watched_until, __ATOMIC_RELAXED) & GM_STATS_REQUESTED;
}

void gm_recording_requested(void) {
    if (!is_requested() || !gm_spin_try(&busy))
        return;
    if (set_up)
        serve_request();
    gm_spin_unlock(&busy);
}

/* ---- ranges */

/* Own calls of the driver are not the program's. */
static int lock_recording(void) {
    int depth = gm_mine.depth;
    gm_mine.depth = 1;
    gm_spin_lock(&busy);
    return depth;
}

static void unlock_recording(int depth) {
    gm_spin_unlock(&busy);
    gm_mine.depth = (__typeof__(gm_mine.depth))depth;
}

static void begin_by_range(void) {
    const char *why;
    opened_once = true;
    if (ended)
        return;
    if (gm_trace_is_on()) {
        __atomic_store_n(&gm_trace_paused, false, __ATOMIC_SEQ_CST);
        gm_pipeline_record_live();
    } else if (!start_recording((unsigned)gm_option_number(GM_OPT_STACKS), false, &why)) {
        gm_log(GM_LOG_ERROR, "%s", why);
        waits_for_range = false;
    }
}

void gm_recording_opened(void) {
    int depth = lock_recording();
    if (++open_ranges == 1 && set_up && waits_for_range)
        begin_by_range();
    unlock_recording(depth);
}

void gm_recording_closed(void) {
    int depth = lock_recording();
    if (open_ranges && --open_ranges == 0 && set_up && waits_for_range && gm_trace_is_on())
        __atomic_store_n(&gm_trace_paused, true, __ATOMIC_RELAXED);
    unlock_recording(depth);
}

/* ---- life */

void gm_recording_setup(bool keeps_sites) {
    const char *glob = gm_option_text(GM_OPT_TRACE_RANGE);
    sites_stay = keeps_sites;
    if (glob[0] && !gm_trace_is_on())
        gm_log(GM_LOG_WARN, "%s: ranges are recorded in the trace, so set GPUMEM_TRACE, too",
               gm_option_label(GM_OPT_TRACE_RANGE).text);
    waits_for_range = glob[0] && gm_trace_is_on() && !gm_summary_on();
    if (waits_for_range)
        gm_trace_on = false;
    gm_stats->recording.state = waits_for_range ? GM_STATS_WAITS : gm_trace_is_on() ? GM_STATS_RECORDS : GM_STATS_OFF;
}

void gm_recording_started(void) {
    int depth = lock_recording();
    set_up = true;
    if (open_ranges && waits_for_range)
        begin_by_range();
    unlock_recording(depth);
}

void gm_recording_report(void) {
    if (waits_for_range && !opened_once)
        gm_log(GM_LOG_WARN, "%s=%.80s: no such NVTX range was opened%s, so nothing was recorded",
               gm_option_label(GM_OPT_TRACE_RANGE).text, gm_option_text(GM_OPT_TRACE_RANGE),
               gm_nvtx_is_used() ? "" : " (NVTX_INJECTION64_PATH does not name this library, or NVTX was not used)");
}

void gm_recording_end(void) {
    bool mine = false;
    for (int poll = 0; poll < 3 * POLLS && !(mine = gm_spin_try(&busy)); poll++)
        gm_sleep(POLL_NS);
    ended = true;
    if (mine)
        gm_spin_unlock(&busy);
}

void gm_recording_after_fork(unsigned still_open) {
    open_ranges = still_open;
    if (waits_for_range && gm_trace_is_on())
        gm_trace_paused = !open_ranges;
}
