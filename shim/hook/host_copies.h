/* GPUMEM_TRACE_COPIES: records the program's copies from host memory to a device. Costs nothing in programs that do not
 * set the option. */
#ifndef GM_HOOK_HOST_COPIES_H
#define GM_HOOK_HOST_COPIES_H

#include "shim/base/base.h"

/* Reads the option, after the trace was set up, and puts the hooks in front of the calls. */
GM_INTERNAL void gm_host_copies_start(void);

#endif
