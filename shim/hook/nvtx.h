#ifndef GM_HOOK_NVTX_H
#define GM_HOOK_NVTX_H

#include "shim/base/base.h"

/* Open ranges that GPUMEM_TRACE_RANGE names, of this thread and of none. In the child of a fork there are no others. */
GM_INTERNAL unsigned gm_nvtx_open_ranges(void);
/* gpumem has a handler of its own for the child of a fork. */
GM_INTERNAL void gm_nvtx_leave_child(void);

#endif
