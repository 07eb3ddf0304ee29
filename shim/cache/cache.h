/* Functions of the cache that other folders call, beside its ops (gm_resource_cache in shim/resource/rows.h). */
#ifndef GM_CACHE_CACHE_H
#define GM_CACHE_CACHE_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* For replays, where one thread makes the calls of many threads. From now on all caches treat the calling thread as
 * thread `number`; 0 = a thread that no cache has seen yet. Returns the previous number. */
GM_INTERNAL unsigned gm_cache_act_as(unsigned number);

#endif
