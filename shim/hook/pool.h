/* Memory pools that the program sets as current. */
#ifndef GM_HOOK_POOL_H
#define GM_HOOK_POOL_H

#include "shim/hook/hook.h"

/* Bit d: the program set the current pool of device d. */
GM_INTERNAL extern uint64_t gm_hook_pools_set;
/* True when this cuMemAllocAsync allocates from such a pool. Call only while a bit is set. */
bool gm_hook_takes_from_set_pool(const struct gm_request *request);

#endif
