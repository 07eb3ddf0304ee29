/* The virtual addresses of a region.
 *
 * A range is a row of adjacent address reservations (segments). Physical memory (extents) is mapped into it from the
 * start, one extent behind the other, so the offset of an extent is the sum of the sizes of those before it. To grow, a
 * range reserves more addresses directly behind its end. When these are taken, the caller maps everything once more in
 * a new range. No function copies data. The calls are those of gm_program_driver. */
#ifndef GM_DRIVER_ADDRESS_RANGE_H
#define GM_DRIVER_ADDRESS_RANGE_H

#include "shim/driver/mapping.h"

enum { GM_ADDRESS_RANGE_SEGMENTS = 8 };

struct gm_address_range {
    CUdeviceptr base;
    size_t reserved; /* bytes of all segments */
    unsigned segment_count;
    size_t segments[GM_ADDRESS_RANGE_SEGMENTS]; /* sizes of the reservations, in order */
    bool read_only;
};

/* Reserves `wanted` bytes of addresses. Where the driver has fewer, it reserves less, but at least `needed`. */
GM_INTERNAL gm_status gm_address_range_reserve(struct gm_address_range *range, size_t needed, size_t wanted);
/* Reserves addresses behind the end, so that the range has at least `needed` bytes in all. GM_NOT_SUPPORTED: these
 * addresses are taken, or the range has GM_ADDRESS_RANGE_SEGMENTS segments. */
GM_INTERNAL gm_status gm_address_range_extend(struct gm_address_range *range, size_t needed);
/* Frees the last segments until `segment_count` remain. Nothing may be mapped in them. */
GM_INTERNAL void gm_address_range_cut(struct gm_address_range *range, unsigned segment_count);
/* Bytes from `offset` to the end of its segment. A mapping cannot cross the border of two segments. */
GM_INTERNAL size_t gm_address_range_room(const struct gm_address_range *range, size_t offset);
/* Maps the extent at `offset` and gives the devices of the location access to it. */
GM_INTERNAL gm_status gm_address_range_map(const struct gm_address_range *range, const struct gm_location *location,
                                           size_t offset, const struct gm_extent *extent);
GM_INTERNAL gm_status gm_address_range_unmap(const struct gm_address_range *range, size_t offset,
                                             const struct gm_extent *extent);
/* Maps all extents from offset 0 on. After a failure none is mapped. */
GM_INTERNAL gm_status gm_address_range_map_all(const struct gm_address_range *range, const struct gm_location *location,
                                               const struct gm_extent *extents, unsigned count);
/* Unmaps all extents and frees the addresses. A call that the driver refuses twice is logged. */
GM_INTERNAL void gm_address_range_drop(struct gm_address_range *range, const struct gm_extent *extents, unsigned count);

#endif
