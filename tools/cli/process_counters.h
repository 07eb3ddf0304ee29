/* Reads the counters of running processes from outside, without their cooperation. */
#ifndef GM_PROCESS_COUNTERS_H
#define GM_PROCESS_COUNTERS_H

#include "shim/accounts/stats.h"

#include <sys/types.h>

enum gm_counters_status {
    GM_COUNTERS_OK,
    GM_COUNTERS_NO_PROCESS,
    GM_COUNTERS_DENIED,        /* another user's process, or one that this user may not inspect */
    GM_COUNTERS_NO_READ,       /* the process closed its descriptor, and the kernel forbids reading its memory */
    GM_COUNTERS_NO_COUNTERS,   /* the process runs without gpumem, or has not used CUDA yet */
    GM_COUNTERS_OTHER_VERSION, /* the counters have the layout of another version of gpumem */
    GM_COUNTERS_ENDED,
    GM_COUNTERS_NO_MEMORY,
};

struct gm_process_counters; /* one process whose counters are open */

/* Checks whether `length` bytes begin with counters that this tool understands and that belong to the process with the
 * pid `own_pid` in its own pid namespace. */
enum gm_counters_status gm_process_counters_judge(const void *bytes, size_t length, int32_t own_pid);

/* Finds the process's counters. On GM_COUNTERS_OK the caller owns *out and closes it with gm_process_counters_close;
 * otherwise *out is NULL. The caller needs permission to read /proc/PID (ptrace(2), PTRACE_MODE_READ): the same user
 * and a dumpable process, or CAP_SYS_PTRACE. */
enum gm_counters_status gm_process_counters_open(pid_t pid, struct gm_process_counters **out);
/* NULL is allowed. */
void gm_process_counters_close(struct gm_process_counters *counters);

pid_t gm_process_counters_pid(const struct gm_process_counters *counters);
/* Whether the process runs, and still executes the program whose counters these are. */
bool gm_process_counters_alive(const struct gm_process_counters *counters);

/* Copies the counters. They are what the process wrote; texts end within their fields, and that is all that is known of
 * them. GM_COUNTERS_ENDED: the process ended or executes another program; `out` then holds the last
 * counts if they were still readable, else it is unchanged. */
enum gm_counters_status gm_process_counters_read(struct gm_process_counters *counters, struct gm_stats *out);

/* Requests that the process times its calls for the next `ns` nanoseconds. False if that is not possible. */
bool gm_process_counters_time_calls(struct gm_process_counters *counters, uint64_t ns);

/* Changes the limit of a process that counts its blocks; 0 = none. False if that is not possible. */
bool gm_process_counters_limit(struct gm_process_counters *counters, uint64_t bytes);

/* Until counters are closed, no other tool that locks them asks this process, or others of its gpumem run. Waits at
 * most `ms`. False: another tool asks. */
bool gm_process_counters_lock(struct gm_process_counters *counters, unsigned ms);
/* Asks the process to start or stop its trace, under the lock. The request counts until the next one. `name`: of the
 * trace, as the process sees it; `stacks`: see struct gm_stats_recording. Returns the request's number; 0: that is not
 * possible. */
uint32_t gm_process_counters_request(struct gm_process_counters *counters, enum gm_stats_wanted wanted,
                                     const char *name, uint32_t stacks);
/* Waits at most `ms` for the answer. False: there is none yet. */
bool gm_process_counters_answer(struct gm_process_counters *counters, uint32_t request, unsigned ms, bool *failed,
                                char *text, size_t size);

/* The reason as one line without a full stop. */
const char *gm_process_counters_reason(enum gm_counters_status status);

/* Calls `found` for each process of this user (of all users for root) until it returns false. */
void gm_each_process(bool (*found)(pid_t pid, void *arg), void *arg);

#endif
