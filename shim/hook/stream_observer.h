/* Watchers of streams on drivers that cannot record a context (watch_rows.h). */
#ifndef GM_HOOK_STREAM_OBSERVER_H
#define GM_HOOK_STREAM_OBSERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "shim/base/base.h"

/* Finds what is watched, once the driver's table is complete; any thread, any number of times. */
GM_INTERNAL void gm_observer_find(void);
/* Tells the streams' book-keeping that it may rely on it. `all_known`: every hooked function has one address only. */
GM_INTERNAL void gm_observer_start(bool all_known);
/* The watcher that stands for `function`, or `function` itself. */
GM_INTERNAL void *gm_observer_route(void *function);

#endif
