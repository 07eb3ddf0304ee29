/* Reserves, extends, maps and frees address ranges by the driver's virtual memory management (address_range.h). */
#include "shim/driver/address_range.h"

#include "shim/base/base.h"
#include "shim/driver/program_driver.h"

gm_status gm_address_range_reserve(struct gm_address_range *range, size_t needed, size_t wanted) {
    const size_t unit = (size_t)2 << 20;
    gm_status status;
    size_t size = wanted > needed ? wanted : needed;
    for (;;) {
        status = gm_addresses_reserve(gm_program_driver(), size, 0, &range->base);
        if (!status)
            break;
        if (size == needed)
            return status;
        size = needed + (size - needed) / 2 / unit * unit;
    }
    range->reserved = range->segments[0] = size;
    range->segment_count = 1;
    return GM_OK;
}

static gm_status reserve_behind(struct gm_address_range *range, size_t size) {
    CUdeviceptr end = range->base + range->reserved, got;
    gm_status status = gm_addresses_reserve(gm_program_driver(), size, end, &got);
    if (status)
        return status;
    if (got != end) {
        gm_addresses_free(gm_program_driver(), got, size);
        return GM_NOT_SUPPORTED;
    }
    range->segments[range->segment_count++] = size;
    range->reserved += size;
    return GM_OK;
}

gm_status gm_address_range_extend(struct gm_address_range *range, size_t needed) {
    size_t more = needed - range->reserved;
    if (range->segment_count == GM_ADDRESS_RANGE_SEGMENTS)
        return GM_NOT_SUPPORTED;
    /* Doubling the range makes extensions rare. Addresses cost no memory. */
    if (more < range->reserved && range->reserved <= SIZE_MAX / 4 && reserve_behind(range, range->reserved) == GM_OK)
        return GM_OK;
    return reserve_behind(range, more);
}

void gm_address_range_cut(struct gm_address_range *range, unsigned segment_count) {
    while (range->segment_count > segment_count) {
        size_t size = range->segments[--range->segment_count];
        range->reserved -= size;
        gm_addresses_free(gm_program_driver(), range->base + range->reserved, size);
    }
}

size_t gm_address_range_room(const struct gm_address_range *range, size_t offset) {
    size_t end = 0;
    for (unsigned i = 0; i < range->segment_count && end <= offset; i++)
        end += range->segments[i];
    return end - offset;
}

gm_status gm_address_range_map(const struct gm_address_range *range, const struct gm_location *location, size_t offset,
                               const struct gm_extent *extent) {
    CUdeviceptr address = range->base + offset;
    gm_status status = gm_extents_map(gm_program_driver(), address, extent, 1);
    if (status)
        return status;
    status = gm_mapping_open(gm_program_driver(), location, address, extent->size, range->read_only);
    if (status)
        (void)gm_address_range_unmap(range, offset, extent);
    return status;
}

gm_status gm_address_range_unmap(const struct gm_address_range *range, size_t offset, const struct gm_extent *extent) {
    return gm_extents_unmap(gm_program_driver(), range->base + offset, extent, 1);
}

gm_status gm_address_range_map_all(const struct gm_address_range *range, const struct gm_location *location,
                                   const struct gm_extent *extents, unsigned count) {
    size_t offset = 0;
    for (unsigned i = 0; i < count; i++) {
        gm_status status = gm_address_range_map(range, location, offset, &extents[i]);
        if (status) {
            (void)gm_extents_unmap(gm_program_driver(), range->base, extents, i);
            return status;
        }
        offset += extents[i].size;
    }
    return GM_OK;
}

void gm_address_range_drop(struct gm_address_range *range, const struct gm_extent *extents, unsigned count) {
    size_t offset = 0;
    for (unsigned i = 0; i < count; i++) {
        if (gm_address_range_unmap(range, offset, &extents[i]))
            gm_log(GM_LOG_ERROR, "%zu bytes cannot be unmapped", extents[i].size);
        offset += extents[i].size;
    }
    gm_address_range_cut(range, 0);
}
