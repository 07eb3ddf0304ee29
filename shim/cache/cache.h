/* What others may ask of the cache beyond its row. */
#ifndef GM_CACHE_CACHE_H
#define GM_CACHE_CACHE_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* For replays, where one thread makes the calls of many: caches take the calling thread for the one of this number from
 * now on, 0 = one that they have not met yet. Returns the number it had. */
GM_INTERNAL unsigned gm_cache_act_as(unsigned number);

#endif
