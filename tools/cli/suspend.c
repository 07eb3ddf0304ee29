/* gpumem suspend and resume: a request in the memory of the process's counters (shim/start/suspender.h). */
#include "tools/cli/checkpoint.h"
#include "tools/cli/commands.h"
#include "tools/cli/flags.h"
#include "tools/cli/number_text.h"
#include "tools/cli/process_counters.h"
#include "tools/cli/shown.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINES = sizeof((struct gm_stats_recording *)0)->name };
enum { LOCK_MS = 5000, WAIT_MS = 600000, CALLS_MS = 10000, WHY = 200 };

void gm_command_suspend_help(void) {
    puts("usage: gpumem suspend [OPTIONS] PID\n\n"
         "Lets a process that runs with GPUMEM_SUSPEND=on (gpumem run --suspend=on) give its device memory back: the\n"
         "contents are copied to the host. They return under the same addresses with the first call that submits\n"
         "work, or by gpumem resume. A GLOB names tags (gpumem_tag_push), NVTX ranges or a part of call sites.\n"
         "With --context the driver then saves what is left, and the whole process leaves the device; a process\n"
         "without gpumem leaves by the driver alone.\n");
    gm_flags_help("suspend");
}

void gm_command_resume_help(void) {
    puts("usage: gpumem resume PID [GLOB]\n\n"
         "Brings the memory of a suspended process back, or only the blocks that GLOB names by tag, NVTX range or\n"
         "call site. A process that left by --context comes back to the device first.\n");
    gm_flags_help("resume");
}

static const char everything[] = "\n\n"; /* without globs, and no folder */
static const char not_on[] = "it does not run with GPUMEM_SUSPEND=on";

struct arguments {
    const char *keep, *drop, *to;
    bool wait, context;
};

static int take(void *data, const char *name, const char *value) {
    struct arguments *a = data;
    if (!strcmp(name, "keep"))
        a->keep = value;
    else if (!strcmp(name, "drop"))
        a->drop = value;
    else if (!strcmp(name, "context"))
        a->context = true;
    else if (!strcmp(name, "to"))
        a->to = value;
    else
        a->wait = true;
    return 0;
}

static int trouble(const char *command, long pid, const char *what) {
    gm_complain("%s: process %ld: %s", command, pid, what);
    return 1;
}

/* The account knows what no block has; where other processes count among that, it says nothing of this one. */
static void put_stayed(const struct gm_stats *stats) {
    static const enum gm_account_row rows[] = {GM_ACCOUNT_POOLS, GM_ACCOUNT_CONTEXTS};
    struct gm_text t;
    for (unsigned i = 0; i < GM_STATS_STAYED && stats->suspended.stayed[i].bytes; i++)
        printf("  stays %11s  %s\n", gm_text_bytes(&t, stats->suspended.stayed[i].bytes),
               GM_SHOWN(stats->suspended.stayed[i].why));
    for (int device = 0; device < GM_STATS_DEVICES; device++) {
        const struct gm_account *account = &stats->accounts[device].latest;
        for (unsigned i = 0; gm_account_is_known(account) && !account->shared && i < sizeof rows / sizeof *rows; i++)
            if (account->rows[rows[i]])
                printf("  stays %11s  %s\n", gm_text_bytes(&t, account->rows[rows[i]]),
                       gm_account_meaning(account, rows[i]));
    }
}

static int send(const char *command, long pid, struct gm_process_counters *counters, enum gm_stats_wanted wanted,
                const char *lines, enum gm_stats_sleep sleep) {
    static struct gm_stats stats;
    char text[sizeof stats.recording.text];
    bool failed = false;
    if (!gm_process_counters_lock(counters, LOCK_MS))
        return trouble(command, pid, "another request waits for its answer");
    enum gm_counters_status status = gm_process_counters_read(counters, &stats);
    if (status)
        return trouble(command, pid, gm_process_counters_reason(status));
    if (!stats.suspended.on)
        return trouble(command, pid, not_on);
    uint32_t number = gm_process_counters_request(counters, wanted, lines, sleep);
    if (!number)
        return trouble(command, pid, "no request can be made from here: its counters are not writable");
    if (!gm_process_counters_answer(counters, number, WAIT_MS, &failed, text, sizeof text))
        return trouble(command, pid, "it has not answered");
    if (failed)
        return trouble(command, pid, text);
    printf("process %ld: %s\n", pid, GM_SHOWN(text));
    if (wanted == GM_STATS_SUSPEND && !gm_process_counters_read(counters, &stats))
        put_stayed(&stats);
    return 0;
}

static int request(const char *command, long pid, enum gm_stats_wanted wanted, const char *lines,
                   enum gm_stats_sleep sleep) {
    struct gm_process_counters *counters;
    enum gm_counters_status status = gm_process_counters_open((pid_t)pid, &counters);
    if (status)
        return trouble(command, pid, gm_process_counters_reason(status));
    int result = send(command, pid, counters, wanted, lines, sleep);
    gm_process_counters_close(counters);
    return result;
}

/* NULL: the process can suspend itself. *whole: its context has left, too. */
static const char *why_not_suspendable(long pid, bool *whole) {
    static struct gm_stats stats;
    struct gm_process_counters *counters;
    enum gm_counters_status status = gm_process_counters_open((pid_t)pid, &counters);
    if (!status)
        status = gm_process_counters_read(counters, &stats);
    gm_process_counters_close(counters);
    *whole = !status && stats.suspended.context;
    return status ? gm_process_counters_reason(status) : stats.suspended.on ? NULL : not_on;
}

static unsigned long long ms_since(const struct timespec *begin) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)((now.tv_sec - begin->tv_sec) * 1000 + (now.tv_nsec - begin->tv_nsec) / 1000000);
}

static void put_whole(long pid, const char *reason, const char *moved, const struct timespec *begin, const char *more) {
    printf("process %ld: %s %s the device in %llu ms%s\n", pid,
           reason ? "all that it has" : "its context and what was left", moved, ms_since(begin), more);
}

/* Neither gpumem nor the driver serves the process. */
static int trouble_of_both(const char *command, long pid, const char *reason, const char *why) {
    char text[2 * WHY];
    snprintf(text, sizeof text, "%s, and %s", reason, why);
    return trouble(command, pid, text);
}

/* First what gpumem serves, since its calls then wait outside of the driver, and its copies are faster. */
static int leave_whole(long pid, const char *lines) {
    bool whole;
    const char *reason = why_not_suspendable(pid, &whole);
    char why[WHY];
    struct timespec begin;
    int status = reason ? 0 : request("suspend", pid, GM_STATS_SUSPEND, lines, GM_STATS_WHOLE);
    if (status)
        return status;
    if (reason && strcmp(lines, everything) != 0)
        return trouble("suspend", pid, "--keep, --drop and --to need a process that runs with GPUMEM_SUSPEND=on");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (!gm_checkpoint_leave(pid, CALLS_MS, why, sizeof why)) {
        put_whole(pid, reason, "left", &begin, reason ? ", by the driver alone: as a whole, until gpumem resume" : "");
        return 0;
    }
    if (reason)
        return trouble_of_both("suspend", pid, reason, why);
    request("resume", pid, GM_STATS_RESUME, everything, GM_STATS_WAKES);
    return trouble("suspend", pid, why);
}

static int come_back(long pid, const char *lines) {
    bool whole;
    char why[WHY];
    struct timespec begin;
    const char *reason = why_not_suspendable(pid, &whole);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    enum gm_checkpoint found = reason || whole ? gm_checkpoint_return(pid, why, sizeof why) : GM_CHECKPOINT_NOTHING;
    if (found == GM_CHECKPOINT_FAILED)
        return trouble("resume", pid, why);
    if (found == GM_CHECKPOINT_DONE)
        put_whole(pid, reason, "came back to", &begin, "");
    if (!reason)
        return request("resume", pid, GM_STATS_RESUME, lines, GM_STATS_WAKES);
    return found == GM_CHECKPOINT_DONE ? 0 : trouble_of_both("resume", pid, reason, why);
}

/* 0: the text is none. */
static long read_pid(const char *text) {
    char *end;
    errno = 0;
    long pid = strtol(text, &end, 10);
    return end == text || *end || errno || pid <= 0 || pid > INT32_MAX ? 0 : pid;
}

/* A line each. */
static bool join(char *lines, size_t size, const struct arguments *a, const char *folder) {
    return !strchr(a->keep, '\n') && !strchr(a->drop, '\n') && !strchr(folder, '\n') &&
           (size_t)snprintf(lines, size, "%s\n%s\n%s", a->keep, a->drop, folder) < size;
}

/* The process and the lines. The other process may have another folder as its current one. 0: the error was shown, and
 * *status is the exit status. */
static long read_arguments(const char *command, const char *process, const struct arguments *a, char lines[LINES],
                           int *status) {
    char folder[PATH_MAX] = "";
    long pid = read_pid(process);
    *status = GM_EXIT_USAGE;
    if (!pid) {
        gm_usage_error("%s: '%s' is not a process id", command, process);
        return 0;
    }
    if (*a->to && !realpath(a->to, folder)) {
        gm_complain("%s: --to=%s: %s", command, GM_SHOWN(a->to), strerror(errno));
        *status = 1;
        return 0;
    }
    if (join(lines, LINES, a, folder))
        return pid;
    gm_usage_error("%s: accepted: globs and a folder of one line, %zu bytes together", command, (size_t)LINES - 3);
    return 0;
}

int gm_command_suspend(int argc, char **argv) {
    struct arguments a = {"", "", "", false, false};
    char lines[LINES];
    int first, status = gm_flags_read(argc, argv, take, &a, gm_command_suspend_help, &first);
    if (status >= 0)
        return status;
    if (argc - first != 1)
        return gm_usage_error("suspend: expected a process id");
    long pid = read_arguments("suspend", argv[first], &a, lines, &status);
    return !pid        ? status
           : a.context ? leave_whole(pid, lines)
                       : request("suspend", pid, GM_STATS_SUSPEND, lines, a.wait ? GM_STATS_SLEEPS : GM_STATS_WAKES);
}

int gm_command_resume(int argc, char **argv) {
    struct arguments a = {"", "", "", false, false};
    char lines[LINES];
    int first, status = gm_flags_read(argc, argv, take, &a, gm_command_resume_help, &first);
    if (status >= 0)
        return status;
    if (argc - first != 1 && argc - first != 2)
        return gm_usage_error("resume: expected a process id, and perhaps a GLOB");
    a.keep = argc - first == 2 ? argv[first + 1] : "";
    long pid = read_arguments("resume", argv[first], &a, lines, &status);
    return pid ? come_back(pid, lines) : status;
}
