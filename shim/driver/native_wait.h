/* The wait of a native cudaFree, by freeing a block that nothing uses.
 *
 * A native free waits for all work of its context, and for copies that streams of other devices make from or to the
 * memory of the context, unless peer access is enabled. An event of the context covers only a part of such a copy, and
 * cuCtxSynchronize too (measured with driver 580). It does not wait for other work of these devices, which may wait for
 * what the calling thread submits next. */
#ifndef GM_DRIVER_NATIVE_WAIT_H
#define GM_DRIVER_NATIVE_WAIT_H

#include "shim/driver/driver.h"

/* Allowed while a stream captures. GM_FENCE_PENDING: the context is ending. Otherwise the error of earlier work. */
GM_INTERNAL gm_status gm_native_wait(const struct gm_context *context);

#endif
