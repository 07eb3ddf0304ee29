#ifndef GM_HOOK_NVTX_H
#define GM_HOOK_NVTX_H

#include "shim/base/base.h"

/* Writes the open ranges of the calling thread to the trace, once there is one. */
void gm_nvtx_begin_waiting(void);

#endif
