/* The counters of processes that run now: found from outside, copied without the process's help. */
#ifndef GM_WATCH_H
#define GM_WATCH_H

#include "shim/base/stats.h"

#include <sys/types.h>

enum gm_watch_status {
    GM_WATCH_OK,
    GM_WATCH_NO_PROCESS,
    GM_WATCH_DENIED,        /* another user's, or one that may not be looked at */
    GM_WATCH_NO_READ,       /* its counters are mapped and not open, and the kernel forbids to read its memory */
    GM_WATCH_NO_COUNTERS,   /* without gpumem, or with it and no use of CUDA yet */
    GM_WATCH_OTHER_VERSION, /* the layout of another gpumem */
    GM_WATCH_ENDED,
    GM_WATCH_NO_MEMORY,
};

struct gm_watch; /* one process under watch */

/* Whether `length` bytes are the beginning of counters that this tool understands, of the process that knows itself as
 * `own_pid`. */
enum gm_watch_status gm_watch_judge(const void *bytes, size_t length, int32_t own_pid);

/* Finds the process's counters. On GM_WATCH_OK the caller owns *out, which gm_watch_close takes back; else *out is
 * NULL. Needs the kernel's leave to read /proc/PID (ptrace(2), PTRACE_MODE_READ): same user and a dumpable process, or
 * CAP_SYS_PTRACE. */
enum gm_watch_status gm_watch_open(pid_t pid, struct gm_watch **out);
/* NULL is fine. */
void gm_watch_close(struct gm_watch *watch);

pid_t gm_watch_pid(const struct gm_watch *watch);

/* Copies the counters. GM_WATCH_ENDED: the process is no more, or is another program now; `out` then holds its last
 * counts where they could still be had, else it is left as it was. */
enum gm_watch_status gm_watch_read(struct gm_watch *watch, struct gm_stats *out);

/* Asks the process to time its calls for so many nanoseconds from now. False where that cannot be asked for. */
bool gm_watch_time_calls(struct gm_watch *watch, uint64_t ns);

/* One line's worth of why, without a full stop. */
const char *gm_watch_reason(enum gm_watch_status status);

/* Calls `found` with each process of this user (of all users for root), until it returns false. */
void gm_watch_each_process(bool (*found)(pid_t pid, void *arg), void *arg);

#endif
