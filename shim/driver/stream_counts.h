/* The living contexts, and how many streams of each may carry work: whether the legacy default stream is the only one.
 * A destroyed stream may still run. It counts until all later work of its context runs behind it. All functions may be
 * called by many threads at once; none calls the driver. */
#ifndef GM_DRIVER_STREAM_COUNTS_H
#define GM_DRIVER_STREAM_COUNTS_H

#include "shim/driver/driver.h"

/* True when streams other than the legacy default stream may carry work, in any context. */
GM_INTERNAL bool gm_stream_counts_any(void);
/* False: the context was listed before. A context for which there is no room is not counted. */
GM_INTERNAL bool gm_stream_counts_list(CUcontext context);
GM_INTERNAL bool gm_stream_counts_has(CUcontext context);
/* The context was destroyed. False: it was not listed. */
GM_INTERNAL bool gm_stream_counts_forget(CUcontext context);
GM_INTERNAL void gm_stream_counts_created(CUcontext context);
GM_INTERNAL void gm_stream_counts_destroyed(CUcontext context);
/* Before work is waited for or ordered: the number of destroyed streams. Afterwards: that number no longer counts. */
GM_INTERNAL uint32_t gm_stream_counts_begin(CUcontext context);
GM_INTERNAL void gm_stream_counts_settle(CUcontext context, uint32_t destroyed);

#endif
