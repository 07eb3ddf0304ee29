/* Addresses of a region: reservations that lie side by side, with physical memory mapped from the start on. */
#ifndef GM_DRIVER_ADDRESS_RANGE_H
#define GM_DRIVER_ADDRESS_RANGE_H

#include "shim/driver/location.h"

/* Physical memory; its place in a range is the sum of the sizes before it. */
struct gm_extent {
    CUmemGenericAllocationHandle handle;
    size_t size;
};

enum { GM_ADDRESS_RANGE_SEGMENTS = 8 };

struct gm_address_range {
    CUdeviceptr base;
    size_t reserved; /* bytes of all segments */
    unsigned segment_count;
    size_t segments[GM_ADDRESS_RANGE_SEGMENTS]; /* sizes of the reservations, in order */
    bool read_only;
};

/* Reserves `wanted` bytes, or less where the driver has not so many, at least `needed`. */
GM_INTERNAL gm_status gm_address_range_reserve(struct gm_address_range *range, size_t needed, size_t wanted);
/* Reserves behind the end, `needed` bytes in all or more. GM_NOT_SUPPORTED: the addresses there are taken. */
GM_INTERNAL gm_status gm_address_range_extend(struct gm_address_range *range, size_t needed);
/* Takes back extensions until `segment_count` are left. Nothing may be mapped there. */
GM_INTERNAL void gm_address_range_cut(struct gm_address_range *range, unsigned segment_count);
/* Bytes from `offset` to the end of the reservation it lies in: no mapping crosses that. */
GM_INTERNAL size_t gm_address_range_room(const struct gm_address_range *range, size_t offset);
/* Maps the extent at `offset` and opens exactly that. */
GM_INTERNAL gm_status gm_address_range_map(const struct gm_address_range *range, const struct gm_location *place,
                                           size_t offset, const struct gm_extent *extent);
GM_INTERNAL gm_status gm_address_range_unmap(const struct gm_address_range *range, size_t offset,
                                             const struct gm_extent *extent);
/* Maps all; on failure none is left mapped. */
GM_INTERNAL gm_status gm_address_range_map_all(const struct gm_address_range *range, const struct gm_location *place,
                                               const struct gm_extent *extents, unsigned count);
/* Unmaps all and gives the addresses back. What the driver refuses twice is logged. */
GM_INTERNAL void gm_address_range_drop(struct gm_address_range *range, const struct gm_extent *extents, unsigned count);

#endif
