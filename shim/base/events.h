/* Calls from a room to one above it. The lower room publishes an event and includes this file; the table names the
 * function above that is told of it. The README of the shim has this table, too. */
#ifndef GM_BASE_EVENTS_H
#define GM_BASE_EVENTS_H

#include "shim/base/base.h"

/* Events whose publisher is in no library without the function: plain calls, X(function, result, parameters, when). */
#define GM_EVENTS_LINKED(X)                                                                                   \
    X(gm_hooks_ready, bool, (void), "the hooks are not ready yet: may this call of the program pass a hook?") \
    X(gm_process_prepare, void, (void), "a limit is asked for before the first call of the driver")

#define X(function, result, parameters, when) GM_INTERNAL result function parameters;
GM_EVENTS_LINKED(X)
#undef X

#endif
