/* The rows of all resources; those that need the CUDA driver exist where GM_HAVE_CUDA is defined. */
#ifndef GM_RESOURCE_ROWS_H
#define GM_RESOURCE_ROWS_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

GM_INTERNAL extern const struct gm_resource_ops gm_resource_router;
GM_INTERNAL extern const struct gm_resource_ops gm_resource_sim;
GM_INTERNAL extern const struct gm_resource_ops gm_resource_limit;
GM_INTERNAL extern const struct gm_resource_ops gm_resource_fail_nth;

GM_INTERNAL extern const struct gm_resource_ops gm_resource_native;
GM_INTERNAL extern const struct gm_resource_ops gm_resource_async;
GM_INTERNAL extern const struct gm_resource_ops gm_resource_managed;
GM_INTERNAL extern const struct gm_resource_ops gm_resource_managed_pool;
GM_INTERNAL extern const struct gm_resource_ops gm_resource_fill;
GM_INTERNAL extern const struct gm_resource_ops gm_resource_cache;
GM_INTERNAL extern const struct gm_resource_ops gm_resource_host_numa;
GM_INTERNAL extern const struct gm_resource_ops gm_resource_vmm;

#endif
