/* Addresses of a region: reservations that lie side by side, with physical memory mapped from the start on. */
#ifndef GM_REGION_RANGE_H
#define GM_REGION_RANGE_H

#include "shim/driver/location.h"

/* Physical memory; its place in a range is the sum of the sizes before it. */
struct gm_extent {
    CUmemGenericAllocationHandle handle;
    size_t size;
};

enum { GM_SPAN_SEGMENTS = 8 };

struct gm_span {
    CUdeviceptr base;
    size_t reserved; /* bytes of all segments */
    unsigned segment_count;
    size_t segments[GM_SPAN_SEGMENTS]; /* sizes of the reservations, in order */
    bool read_only;
};

/* Reserves `wanted` bytes, or less where the driver has not so many, at least `needed`. */
GM_INTERNAL gm_status gm_span_reserve(struct gm_span *range, size_t needed, size_t wanted);
/* Reserves behind the end, `needed` bytes in all or more. GM_NOT_SUPPORTED: the addresses there are taken. */
GM_INTERNAL gm_status gm_span_extend(struct gm_span *range, size_t needed);
/* Takes back extensions until `segment_count` are left. Nothing may be mapped there. */
GM_INTERNAL void gm_span_cut(struct gm_span *range, unsigned segment_count);
/* Bytes from `offset` to the end of the reservation it lies in: no mapping crosses that. */
GM_INTERNAL size_t gm_span_room(const struct gm_span *range, size_t offset);
/* Maps the extent at `offset` and opens exactly that. */
GM_INTERNAL gm_status gm_span_map(const struct gm_span *range, const struct gm_place *place, size_t offset,
                                   const struct gm_extent *extent);
GM_INTERNAL gm_status gm_span_unmap(const struct gm_span *range, size_t offset, const struct gm_extent *extent);
/* Maps all; on failure none is left mapped. */
GM_INTERNAL gm_status gm_span_map_all(const struct gm_span *range, const struct gm_place *place, const struct gm_extent *extents,
                                       unsigned count);
/* Unmaps all and gives the addresses back. What the driver refuses twice is logged. */
GM_INTERNAL void gm_span_drop(struct gm_span *range, const struct gm_extent *extents, unsigned count);

#endif
