#ifndef GM_HOOK_CONTEXT_H
#define GM_HOOK_CONTEXT_H

#include "shim/hook/hook.h"

/* Called when a device has a context. On return, live blocks of other devices are accessible to the device. */
void gm_hook_device_used(CUcontext context, CUdevice device);

#endif
