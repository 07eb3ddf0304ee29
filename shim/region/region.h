/* What vectors need of their region beside gpumem.h. */
#ifndef GM_REGION_REGION_H
#define GM_REGION_REGION_H

#include "shim/base/base.h"
#include "shim/gpumem.h"

/* Makes the region's context current, for work on its memory; gm_context_leave() ends that. Fails by gm_fail. */
GM_INTERNAL gm_status gm_region_enter(const struct gpumem_region *region, bool *pushed);

#endif
