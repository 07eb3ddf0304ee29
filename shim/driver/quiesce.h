/* Nobody uses a region's memory any more: what has to be true before anything is unmapped, since unmapping does not
 * wait. */
#ifndef GM_DRIVER_QUIESCE_H
#define GM_DRIVER_QUIESCE_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"

/* Waits for all work submitted so far that may use memory of the context's device, and in the primary contexts of
 * `peers` (bit p: device p). The context is current. GM_STREAM_CAPTURE: a stream of the process captures, nothing was
 * waited for; else the driver's own error. */
GM_INTERNAL gm_status gm_quiesce(const struct gm_context *context, uint64_t peers);

enum { GM_STREAM_CAPTURE = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED };

#endif
