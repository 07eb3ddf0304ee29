/* Stream observers, for drivers that cannot record a context: notice that the program uses a per-thread default
 * stream. The rows are in observer_rows.h. */
#ifndef GM_HOOK_STREAM_OBSERVER_H
#define GM_HOOK_STREAM_OBSERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "shim/base/base.h"

/* Finds the observed functions, once the driver's table is complete. Any thread may call it any number of times. */
GM_INTERNAL void gm_observer_find(void);
/* Reports to shim/driver/streams.h that streams are observed. `all_known`: every hooked function has one address
 * only. */
GM_INTERNAL void gm_observer_start(bool all_known);
/* The observer of `function`, or `function` itself. */
GM_INTERNAL void *gm_observer_route(void *function);

#endif
