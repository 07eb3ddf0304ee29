#ifndef GM_HOOK_CONTEXT_H
#define GM_HOOK_CONTEXT_H

#include "shim/hook/hook.h"

/* A context of the device is there. Returns when what is alive is open to the device. */
void gm_hook_device_used(CUcontext context, CUdevice device);

#endif
