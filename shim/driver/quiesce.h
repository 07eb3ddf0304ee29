/* Waits until no submitted work uses the memory of a region. Unmapping does not wait for work, so a region must
 * quiesce before it unmaps anything. */
#ifndef GM_DRIVER_QUIESCE_H
#define GM_DRIVER_QUIESCE_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"

/* Waits for all work submitted so far that may use memory of the context's device, and for the primary contexts of
 * `peers` (bit p: device p). The context must be current. GM_STREAM_CAPTURE: a stream of the process captures, and
 * nothing was waited for. Other errors: the driver's own. */
GM_INTERNAL gm_status gm_quiesce(const struct gm_context *context, uint64_t peers);

/* Waits as a native cudaFree in this context does, also while a stream captures: no event of a context may be recorded
 * then, but the driver's own frees are allowed and wait. Errors: the driver's own. */
GM_INTERNAL gm_status gm_wait_natively(CUcontext context);

enum { GM_STREAM_CAPTURE = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED };

#endif
