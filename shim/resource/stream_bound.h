/* Adaptor "stream-bound": all memory is allocated and freed in the order of one stream. */
#ifndef GM_RESOURCE_STREAM_BOUND_H
#define GM_RESOURCE_STREAM_BOUND_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* The stream of a resource of the row. */
GM_INTERNAL uint64_t gm_stream_bound_to(const struct gm_resource *bound);

#endif
