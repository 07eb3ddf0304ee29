/* Control of the resource "sim", for tests: failures, out of memory, live bytes. */
#ifndef GM_RESOURCE_SIM_H
#define GM_RESOURCE_SIM_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* The n-th allocation from now on (1 = the next) fails with `status`; n = 0: none fails. */
GM_INTERNAL void gm_sim_fail(struct gm_resource *sim, uint64_t n, gm_status status);
/* The n-th free from now on fails with `status`; n = 0: none fails. */
GM_INTERNAL void gm_sim_fail_free(struct gm_resource *sim, uint64_t n, gm_status status);
/* Most live bytes; above it an allocation is out of memory. 0 = no limit. */
GM_INTERNAL void gm_sim_set_memory(struct gm_resource *sim, uint64_t bytes);
GM_INTERNAL uint64_t gm_sim_live_count(struct gm_resource *sim);
GM_INTERNAL uint64_t gm_sim_live_bytes(struct gm_resource *sim);

#endif
