/* Calls whose entries continue at functions of gpumem, but only where an option needs it. */
#ifndef GM_HOOK_DIVERTED_H
#define GM_HOOK_DIVERTED_H

#include "shim/base/base.h"

/* Copies of device memory, where GPUMEM_GROW observes them. */
GM_INTERNAL void gm_copies_start(void);
/* True when the call is one of these: its function finds out whether the copy ends a page handover. */
GM_INTERNAL bool gm_copies_defers(unsigned call_number);

/* Copies from host memory to a device, which GPUMEM_TRACE_COPIES records. After the trace was set up. */
GM_INTERNAL void gm_host_copies_start(void);

/* Handles of physical memory, where GPUMEM_SUSPEND is on. After the pipeline was set up. */
GM_INTERNAL void gm_handles_start(void);

/* Queries of streams and events, where GPUMEM_FREE lets frees leave work in flight. */
GM_INTERNAL void gm_queries_start(void);

#endif
