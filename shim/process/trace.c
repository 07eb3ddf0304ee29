/* The bounds of the trace, and its name for viewers. */
#include "shim/process/process.h"

#include "shim/accounts/stats.h"
#include "shim/base/options.h"
#include "shim/trace/ring.h"
#include "shim/trace/summary.h"

/* Returns whether the trace is a summary. */
static bool sum_up(void) {
    uint64_t interval = gm_option_number(GM_OPT_TRACE_SUMMARY);
    if (!interval)
        return false;
    const struct gm_option_label name = gm_option_label(GM_OPT_TRACE_SUMMARY);
    if (interval < GM_SUMMARY_LEAST) {
        gm_log(GM_LOG_WARN, "%s is below 10ms: intervals of 10ms", name.text);
        interval = GM_SUMMARY_LEAST;
    }
    if (gm_option_text(GM_OPT_TRACE_RING)[0])
        gm_log(GM_LOG_WARN, "%s: a summary has no single events, so GPUMEM_TRACE_RING has no effect", name.text);
    if (gm_option_text(GM_OPT_TRACE_RANGE)[0])
        gm_log(GM_LOG_WARN, "%s: a summary covers the whole run, so GPUMEM_TRACE_RANGE has no effect", name.text);
    if (gm_option_bool(GM_OPT_TRACE_COPIES))
        gm_log(GM_LOG_WARN, "%s: a summary has no single events, so GPUMEM_TRACE_COPIES has no effect", name.text);
    gm_summary_setup(interval);
    return true;
}

void gm_process_bound_trace(void) {
    uint64_t limit = gm_option_number(GM_OPT_TRACE_LIMIT), bytes = 0, ns = 0;
    const char *ring = sum_up() ? "" : gm_option_text(GM_OPT_TRACE_RING);
    const uint64_t least = GM_TRACE_LEAST;
    if (limit && limit < least) {
        gm_log(GM_LOG_WARN, "%s is below 1M: the trace has at most 1M", gm_option_label(GM_OPT_TRACE_LIMIT).text);
        limit = least;
    }
    if (ring[0] && !gm_option_ring(ring, &bytes, &ns)) {
        gm_log(GM_LOG_WARN, "%s=%.80s: accepted: " GM_RING_ACCEPTED "; keeping 64M",
               gm_option_label(GM_OPT_TRACE_RING).text, ring);
        bytes = (uint64_t)64 << 20;
    }
    gm_trace_bound(limit, bytes, ns);
}

void gm_process_name_trace(const char *file) {
    gm_format(gm_stats->trace, sizeof(gm_stats->trace), "%s", file);
    uint32_t records = GM_STATS_RECORDS;
    if (!file[0])
        __atomic_compare_exchange_n(&gm_stats->recording.state, &records, GM_STATS_OFF, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
}
