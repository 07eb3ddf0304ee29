/* Files that the counters of a process name: its trace, and the group that it is in. The names are data. A file is
 * opened below the root of the process, and must belong to the process's user; what that user may not name himself, the
 * caller does not open for him. */
#ifndef GM_PROCESS_FILE_H
#define GM_PROCESS_FILE_H

#include "shim/accounts/group.h"
#include "tools/cli/process_counters.h"

/* Opens the trace that the process writes. -1: *why is a few words. */
int gm_process_trace_open(const struct gm_process_counters *counters, const char *path, const char **why);

/* Opens the group of this name that belongs to the process's user, as a copy (gm_group_read). False: *why is the
 * reason. */
bool gm_process_group_open(const struct gm_process_counters *counters, const char *name, struct gm_group_file *out,
                           const char **why);

#endif
