/* Fences that the device waits for instead of a thread (GPUMEM_FENCE=device): all later work of the context waits for the work that a
 * fence covers (cuCtxWaitEvent, driver 12.5 and later), so blocks behind the fence may be handed out at once.
 *
 * That binds streams that natively are independent, and it binds only one context. So it ends for good as soon as something shows
 * that work of the context may wait for other work of it, or that others than the context use its memory. Kernels that wait for
 * each other by memory alone are not seen: whoever asks for device waits vouches for there being none. */
#ifndef GM_DRIVER_DEVICE_WAIT_H
#define GM_DRIVER_DEVICE_WAIT_H

#include "shim/driver/fence.h"

enum gm_device_wait_enemy {
    /* Others use the memory: what was handed out before is waited for first. */
    GM_ENEMY_PEERS,    /* cuCtxEnablePeerAccess */
    GM_ENEMY_SHARED,   /* IPC handles, shareable handles and pool pointers, exported or imported */
    GM_ENEMY_RANGE,    /* cuMemGetHandleForAddressRange: dma-buf */
    GM_ENEMY_GREEN,    /* cuGreenCtxCreate: a context of its own over the same memory */
    /* Work may wait for other work by means that streams do not show. */
    GM_ENEMY_VALUES,     /* a call of cuStreamWaitValue*, cuStreamBatchMemOp*, or such a graph node */
    GM_ENEMY_SEMAPHORES, /* a call of cuWaitExternalSemaphoresAsync, or such a graph node */
    GM_ENEMY_HOST,       /* a call of cuLaunchHostFunc or cuStreamAddCallback, or such a graph node */
    GM_ENEMY_CONTEXTS,   /* a second context was seen */
    GM_ENEMY_LIBRARIES,  /* NCCL or NVSHMEM is loaded */
    GM_ENEMIES
};

/* The user asked for device waits; before the first fence. */
GM_INTERNAL void gm_device_wait_want(void);
/* Seen: device waits are over. To be called before the true call, with no lock held. Cheap where nobody asked for them. */
GM_INTERNAL void gm_device_wait_refuse(enum gm_device_wait_enemy enemy);
/* Makes later work of the context wait for a recorded fence. GM_NOT_SUPPORTED: not wanted, refused, a capture runs, the fence is of
 * several contexts, or the driver cannot: wait in the thread. Else the driver's own error. */
GM_INTERNAL gm_status gm_device_wait(const struct gm_fence *fence, CUcontext context);

#endif
