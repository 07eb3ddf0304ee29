/* Stands in for libgpumem.so: loaded into a program by gpumem run, it counts and traces two made-up blocks if
 * PROBE is set, so that the launcher can be tried where no CUDA exists. */
#include "shim/base/events.h"
#include "shim/base/base.h"
#include "shim/base/options.h"
#include "shim/accounts/stats.h"
#include "shim/trace/writer.h"

#include <stdlib.h>

extern char **environ;

static void note_trace(const char *name) { gm_format(gm_stats->trace, sizeof gm_stats->trace, "%s", name); }

static void make_block(uint64_t address, uint64_t bytes) {
    struct gm_event event = {.seq = gm_trace_sequence(),
                             .time_ns = gm_now_ns(),
                             .address = address,
                             .bytes = bytes,
                             .call = GM_CALL_ALLOC,
                             .action = GM_ACT_ALLOC};
    gm_stats_mine()->allocs[GM_KIND_NATIVE]++;
    gm_stats->live_bytes[GM_KIND_NATIVE] += bytes;
    gm_stats->peak_bytes[GM_KIND_NATIVE] = gm_stats->peak_total = gm_stats->peak_reserved =
        gm_stats->live_bytes[GM_KIND_NATIVE];
    if (gm_trace_on)
        gm_trace_event(&event);
}

__attribute__((constructor)) static void start(void) {
    if (!getenv("PROBE"))
        return;
    gm_options_load(environ);
    gm_stats_open(gm_option_text(GM_OPT_STATS));
    gm_events.trace_named = note_trace;
    gm_trace_setup(gm_option_text(GM_OPT_TRACE), (int)gm_option_number(GM_OPT_TRACE_FORMAT),
                   gm_option_number(GM_OPT_TRACE_FLUSH), "probe", "0");
    gm_format(gm_stats->policy, sizeof gm_stats->policy, "%s", gm_option_text(GM_OPT_POLICY));
    make_block(0x1000, 4096);
    make_block(0x9000, 1024);
}

__attribute__((destructor)) static void end(void) {
    if (!getenv("PROBE"))
        return;
    gm_trace_finish();
    gm_stats->finished = 1;
}
