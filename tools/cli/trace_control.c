/* Starts and stops the trace of a running process, by a request in the memory of its counters (shim/accounts/stats.h).
 */
#include "tools/cli/trace_control.h"
#include "tools/cli/commands.h"
#include "tools/cli/process_counters.h"
#include "tools/cli/shown.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_MS = 3000, LOCK_MS = 5000 };

static int trouble(long pid, const char *what) {
    gm_complain("trace: process %ld: %s", pid, what);
    return 1;
}

/* Why the process would refuse, NULL: it would not. It needs no request, and may not call for a long time. */
static const char *refusal(const struct gm_stats *stats, enum gm_stats_wanted wanted, char *room, size_t size) {
    const struct gm_stats_recording *r = &stats->recording;
    if (r->state == GM_STATS_WAITS)
        return "GPUMEM_TRACE_RANGE says when it records";
    if (wanted == GM_STATS_STOP)
        return r->state == GM_STATS_RECORDS ? NULL : "it does not record";
    snprintf(room, size, "it records already%s%.*s", stats->trace[0] ? ", into " : "", (int)sizeof stats->trace - 1,
             stats->trace);
    return r->state == GM_STATS_RECORDS ? room : NULL;
}

static bool is_pending(const struct gm_stats_recording *r, enum gm_stats_wanted wanted) {
    return r->answered != r->request && r->wanted == (uint32_t)wanted;
}

static int send_request(long pid, struct gm_process_counters *counters, enum gm_stats_wanted wanted, const char *name,
                        uint32_t stacks) {
    static struct gm_stats stats;
    char text[sizeof stats.recording.text];
    bool failed = false;
    if (!gm_process_counters_lock(counters, LOCK_MS))
        return trouble(pid, "another gpumem trace start or stop waits for its answer");
    enum gm_counters_status status = gm_process_counters_read(counters, &stats);
    if (status)
        return trouble(pid, gm_process_counters_reason(status));
    if (wanted == GM_STATS_START && is_pending(&stats.recording, GM_STATS_START))
        return trouble(pid,
                       "a start is requested already, and begins with its next call; gpumem trace stop withdraws it");
    bool withdraws = wanted == GM_STATS_STOP && is_pending(&stats.recording, GM_STATS_START);
    const char *why = withdraws ? NULL : refusal(&stats, wanted, text, sizeof text);
    if (why)
        return trouble(pid, why);
    uint32_t number = gm_process_counters_request(counters, wanted, name, stacks);
    if (!number)
        return trouble(pid, "no request can be made from here: its counters are not writable");
    if (withdraws) {
        printf("process %ld: had not begun to record, and will not\n", pid);
        return 0;
    }
    bool answered = gm_process_counters_answer(counters, number, WAIT_MS, &failed, text, sizeof text);
    if (failed)
        return trouble(pid, text);
    if (!answered && gm_process_counters_read(counters, &stats))
        return trouble(pid, gm_process_counters_reason(GM_COUNTERS_ENDED));
    if (!answered)
        printf("process %ld: has made no call since; recording %s with its next one\n", pid,
               wanted == GM_STATS_START ? "starts" : "stops");
    else
        printf("process %ld: %s %s\n", pid, wanted == GM_STATS_START ? "records into" : "recorded into",
               *text ? GM_SHOWN(text) : "no file, because there was no event");
    return 0;
}

static int request(long pid, enum gm_stats_wanted wanted, const char *name, uint32_t stacks) {
    struct gm_process_counters *counters;
    enum gm_counters_status status = gm_process_counters_open((pid_t)pid, &counters);
    if (status)
        return trouble(pid, gm_process_counters_reason(status));
    int result = send_request(pid, counters, wanted, name, stacks);
    gm_process_counters_close(counters);
    return result;
}

int gm_trace_control_start(long pid, const char *name, uint32_t stacks) {
    char absolute[sizeof(struct gm_stats_recording) + 4096] = "";
    size_t used = 0;
    if (*name != '/') {
        char folder[4096];
        if (!getcwd(folder, sizeof folder))
            return gm_usage_error("trace: the current folder has no name; give the whole name of the trace");
        for (const char *p = folder; *p && used + 3 < sizeof absolute; p++) { /* a % there is not a pattern */
            if (*p == '%')
                absolute[used++] = '%';
            absolute[used++] = *p;
        }
        absolute[used++] = '/';
    }
    if (used + strlen(name) >= sizeof((struct gm_stats_recording *)0)->name)
        return gm_usage_error("trace: '%s': accepted: at most %zu bytes with its folder", name,
                              sizeof((struct gm_stats_recording *)0)->name - 1);
    strcpy(absolute + used, name);
    return request(pid, GM_STATS_START, absolute, stacks);
}

int gm_trace_control_stop(long pid) { return request(pid, GM_STATS_STOP, "", 0); }
