/* What the adaptor "statistics" counts. */
#ifndef GM_RESOURCE_STATISTICS_H
#define GM_RESOURCE_STATISTICS_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

struct gm_resource_counts {
    uint64_t allocations, failures, deallocations, total_bytes;
    uint64_t live_count, live_bytes, peak_count, peak_bytes;
};

/* Copies the counters of a resource of the row. */
GM_INTERNAL void gm_statistics_of(struct gm_resource *statistics, struct gm_resource_counts *counts);

#endif
