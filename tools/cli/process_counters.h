/* The counters of processes that run now: found from outside, copied without the process's help. */
#ifndef GM_PROCESS_COUNTERS_H
#define GM_PROCESS_COUNTERS_H

#include "shim/base/stats.h"

#include <sys/types.h>

enum gm_counters_status {
    GM_COUNTERS_OK,
    GM_COUNTERS_NO_PROCESS,
    GM_COUNTERS_DENIED,        /* another user's, or one that may not be looked at */
    GM_COUNTERS_NO_READ,       /* its counters are mapped and not open, and the kernel forbids to read its memory */
    GM_COUNTERS_NO_COUNTERS,   /* without gpumem, or with it and no use of CUDA yet */
    GM_COUNTERS_OTHER_VERSION, /* the layout of another gpumem */
    GM_COUNTERS_ENDED,
    GM_COUNTERS_NO_MEMORY,
};

struct gm_process_counters; /* one process under watch */

/* Whether `length` bytes are the beginning of counters that this tool understands, of the process that knows itself as
 * `own_pid`. */
enum gm_counters_status gm_process_counters_judge(const void *bytes, size_t length, int32_t own_pid);

/* Finds the process's counters. On GM_WATCH_OK the caller owns *out, which gm_process_counters_close takes back; else
 * *out is NULL. Needs the kernel's leave to read /proc/PID (ptrace(2), PTRACE_MODE_READ): same user and a dumpable
 * process, or CAP_SYS_PTRACE. */
enum gm_counters_status gm_process_counters_open(pid_t pid, struct gm_process_counters **out);
/* NULL is fine. */
void gm_process_counters_close(struct gm_process_counters *counters);

pid_t gm_process_counters_pid(const struct gm_process_counters *counters);

/* Copies the counters. GM_WATCH_ENDED: the process is no more, or is another program now; `out` then holds its last
 * counts where they could still be had, else it is left as it was. */
enum gm_counters_status gm_process_counters_read(struct gm_process_counters *counters, struct gm_stats *out);

/* Asks the process to time its calls for so many nanoseconds from now. False where that cannot be asked for. */
bool gm_process_counters_time_calls(struct gm_process_counters *counters, uint64_t ns);

/* One line's worth of why, without a full stop. */
const char *gm_process_counters_reason(enum gm_counters_status status);

/* Calls `found` with each process of this user (of all users for root), until it returns false. */
void gm_each_process(bool (*found)(pid_t pid, void *arg), void *arg);

#endif
