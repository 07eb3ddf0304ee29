/* gpumem trace start and stop. */
#ifndef GM_TRACE_CONTROL_H
#define GM_TRACE_CONTROL_H

#include <stdint.h>

/* `name`: pattern of the trace's name, relative to the current folder. `stacks`: UINT32_MAX = as the process says. Both
 * return an exit status. */
int gm_trace_control_start(long pid, const char *name, uint32_t stacks);
int gm_trace_control_stop(long pid);

#endif
