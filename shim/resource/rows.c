#include "shim/resource/rows.h"

const struct gm_resource_ops *const gm_resource_rows[] = {
#ifdef GM_HAVE_CUDA
    &gm_resource_native,       &gm_resource_async,     &gm_resource_managed,
    &gm_resource_managed_pool, &gm_resource_host_numa, &gm_resource_vmm,
#endif
    &gm_resource_router,       &gm_resource_sim,
#ifdef GM_HAVE_CUDA
    &gm_resource_cache,        &gm_resource_fill,
#endif
    &gm_resource_limit,        &gm_resource_fail_nth,  NULL,
};
