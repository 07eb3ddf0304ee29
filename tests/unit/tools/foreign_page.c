/* Loaded into a program, it offers counters that hold the text FOREIGN wherever counters have a text, and answers each
 * request with it: as a failure if FOREIGN_FAILS is set. The trace is FOREIGN_TRACE. */
#include "shim/base/base.h"
#include "shim/base/options.h"
#include "shim/accounts/stats.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define PUT(member, text) gm_format(member, sizeof member, "%s", text)

extern char **environ;

static void *answer(void *arg) {
    const char *text = arg;
    struct gm_stats_recording *r = &gm_stats->recording;
    for (;; usleep(1000)) {
        uint32_t request = __atomic_load_n(&r->request, __ATOMIC_ACQUIRE);
        if (request == r->answered)
            continue;
        PUT(r->text, text);
        r->failed = getenv("FOREIGN_FAILS") != NULL;
        __atomic_store_n(&r->answered, request, __ATOMIC_RELEASE);
    }
    return NULL;
}

__attribute__((constructor)) static void start(void) {
    char *text = getenv("FOREIGN"), *trace = getenv("FOREIGN_TRACE");
    pthread_t thread;
    if (!text)
        return;
    gm_options_load(environ);
    gm_stats_open(gm_option_text(GM_OPT_STATS));
    PUT(gm_stats->program, text);
    PUT(gm_stats->policy, text);
    PUT(gm_stats->free_sync, text);
    PUT(gm_stats->group, getenv("FOREIGN_GROUP") ? text : "");
    PUT(gm_stats->trace, trace ? trace : text);
    gm_stats->recording.state = trace ? GM_STATS_RECORDS : GM_STATS_OFF;
    gm_stats->checked_order = 1;
    gm_stats->reliance_count = 1;
    gm_stats->reliances[0] = (struct gm_stats_reliance){.count = 1, .frames = {0x1010}, .frame_count = 1};
    PUT(gm_stats->reliances[0].module, text);
    PUT(gm_stats->reliances[0].text, text);
    gm_stats_mine()->allocs[GM_KIND_NATIVE] = 2;
    gm_stats->live_bytes[GM_KIND_NATIVE] = gm_stats->live_on[0] = gm_stats->peak_live_on[0] = 4096;
    pthread_create(&thread, NULL, answer, text);
}

__attribute__((destructor)) static void end(void) {
    if (getenv("FOREIGN"))
        gm_stats->finished = 1;
}
