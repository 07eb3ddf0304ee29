/* GPUMEM_TRACE_COPIES: records the program's copies from host memory to a device. Costs nothing in programs that do not
 * set the option. */
#ifndef GM_HOOK_HOST_COPIES_H
#define GM_HOOK_HOST_COPIES_H

#include "shim/base/base.h"

/* Reads the option, after the trace was set up. */
GM_INTERNAL void gm_host_copies_start(void);
/* The address that a look-up returns for `function` in place of `entry`. */
GM_INTERNAL void *gm_host_copies_route(void *function, void *entry);
/* Says at the end of the process when copies may be missing in the trace. */
GM_INTERNAL void gm_host_copies_report(void);

#endif
