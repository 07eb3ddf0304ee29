/* gpumem suspend and resume: a request in the memory of the process's counters (shim/start/suspender.h). */
#include "tools/cli/commands.h"
#include "tools/cli/flags.h"
#include "tools/cli/process_counters.h"
#include "tools/cli/shown.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCK_MS = 5000, WAIT_MS = 600000 };

void gm_command_suspend_help(void) {
    puts("usage: gpumem suspend [OPTIONS] PID\n\n"
         "Lets a process that runs with GPUMEM_SUSPEND=on (gpumem run --suspend=on) give its device memory back: the\n"
         "contents are copied to the host. They return under the same addresses with the first call that submits\n"
         "work, or by gpumem resume. A GLOB names tags (gpumem_tag_push) or a part of call sites.\n");
    gm_flags_help("suspend");
}

void gm_command_resume_help(void) {
    puts("usage: gpumem resume PID [GLOB]\n\n"
         "Brings the memory of a suspended process back, or only the blocks that GLOB names by tag or call site.\n");
    gm_flags_help("resume");
}

struct arguments {
    const char *keep, *drop;
    bool wait;
};

static int take(void *data, const char *name, const char *value) {
    struct arguments *a = data;
    if (!strcmp(name, "keep"))
        a->keep = value;
    else if (!strcmp(name, "drop"))
        a->drop = value;
    else
        a->wait = true;
    return 0;
}

static int trouble(const char *command, long pid, const char *what) {
    gm_complain("%s: process %ld: %s", command, pid, what);
    return 1;
}

static int send(const char *command, long pid, struct gm_process_counters *counters, enum gm_stats_wanted wanted,
                const char *lines, bool wait) {
    static struct gm_stats stats;
    char text[sizeof stats.recording.text];
    bool failed = false;
    if (!gm_process_counters_lock(counters, LOCK_MS))
        return trouble(command, pid, "another request waits for its answer");
    enum gm_counters_status status = gm_process_counters_read(counters, &stats);
    if (status)
        return trouble(command, pid, gm_process_counters_reason(status));
    if (!stats.suspended.on)
        return trouble(command, pid, "it does not run with GPUMEM_SUSPEND=on");
    uint32_t number = gm_process_counters_request(counters, wanted, lines, wait);
    if (!number)
        return trouble(command, pid, "no request can be made from here: its counters are not writable");
    if (!gm_process_counters_answer(counters, number, WAIT_MS, &failed, text, sizeof text))
        return trouble(command, pid, "it has not answered");
    if (failed)
        return trouble(command, pid, text);
    printf("process %ld: %s\n", pid, GM_SHOWN(text));
    return 0;
}

static int request(const char *command, long pid, enum gm_stats_wanted wanted, const char *lines, bool wait) {
    struct gm_process_counters *counters;
    enum gm_counters_status status = gm_process_counters_open((pid_t)pid, &counters);
    if (status)
        return trouble(command, pid, gm_process_counters_reason(status));
    int result = send(command, pid, counters, wanted, lines, wait);
    gm_process_counters_close(counters);
    return result;
}

/* 0: the text is none. */
static long read_pid(const char *text) {
    char *end;
    errno = 0;
    long pid = strtol(text, &end, 10);
    return end == text || *end || errno || pid <= 0 || pid > INT32_MAX ? 0 : pid;
}

/* Two globs as two lines. */
static bool join(char *lines, size_t size, const char *first, const char *second) {
    return !strchr(first, '\n') && !strchr(second, '\n') &&
           (size_t)snprintf(lines, size, "%s\n%s", first, second) < size;
}

static int ask(const char *command, const char *process, enum gm_stats_wanted wanted, const char *first,
               const char *second, bool wait) {
    char lines[sizeof((struct gm_stats_recording *)0)->name];
    long pid = read_pid(process);
    if (!pid)
        return gm_usage_error("%s: '%s' is not a process id", command, process);
    if (!join(lines, sizeof lines, first, second))
        return gm_usage_error("%s: accepted: globs of one line, %zu bytes together", command, sizeof lines - 2);
    return request(command, pid, wanted, lines, wait);
}

int gm_command_suspend(int argc, char **argv) {
    struct arguments a = {"", "", false};
    int first, status = gm_flags_read(argc, argv, take, &a, gm_command_suspend_help, &first);
    if (status >= 0)
        return status;
    if (argc - first != 1)
        return gm_usage_error("suspend: expected a process id");
    return ask("suspend", argv[first], GM_STATS_SUSPEND, a.keep, a.drop, a.wait);
}

int gm_command_resume(int argc, char **argv) {
    struct arguments a = {"", "", false};
    int first, status = gm_flags_read(argc, argv, take, &a, gm_command_resume_help, &first);
    if (status >= 0)
        return status;
    if (argc - first != 1 && argc - first != 2)
        return gm_usage_error("resume: expected a process id, and perhaps a GLOB");
    return ask("resume", argv[first], GM_STATS_RESUME, argc - first == 2 ? argv[first + 1] : "", "", false);
}
