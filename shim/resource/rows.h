/* The list of all resources. Those that need the CUDA driver exist only where GM_HAVE_CUDA is defined. */
#ifndef GM_RESOURCE_ROWS_H
#define GM_RESOURCE_ROWS_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

#define GM_RESOURCES_PURE(X) \
    X(router)                \
    X(sim)                   \
    X(new_delete)            \
    X(limit) X(fail_nth) X(log) X(statistics) X(track) X(aligned) X(fallback) X(stream_bound) X(retry) X(prime)
#define GM_RESOURCES_CUDA(X) \
    X(native)                \
    X(async)                 \
    X(cache)                 \
    X(managed) X(managed_pool) X(host_numa) X(vmm) X(guard) X(pinned) X(fill) X(prefetch) X(suspendable) X(split)

#define X(name) GM_INTERNAL extern const struct gm_resource_ops gm_resource_##name;
GM_RESOURCES_PURE(X)
GM_RESOURCES_CUDA(X)
#undef X

#endif
