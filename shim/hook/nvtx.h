#ifndef GM_HOOK_NVTX_H
#define GM_HOOK_NVTX_H

#include "shim/base/base.h"

/* Writes the ranges that the calling thread has open, once there is a trace. */
void gm_nvtx_begin_waiting(void);

#endif
