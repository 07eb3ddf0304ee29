/* Reserves, creates, maps and opens memory, and undoes each step (mapping.h). */
#include "shim/driver/mapping.h"

gm_status gm_addresses_reserve(const struct gm_driver *driver, size_t size, CUdeviceptr wanted, CUdeviceptr *address) {
    return driver->mem_address_reserve(address, size, 0, wanted, 0);
}

void gm_addresses_free(const struct gm_driver *driver, CUdeviceptr address, size_t size) {
    if (GM_TWICE(driver->mem_address_free(address, size)))
        gm_log(GM_LOG_ERROR, "%zu bytes of addresses cannot be freed", size);
}

gm_status gm_extent_create(const struct gm_driver *driver, const struct gm_location *location, size_t size,
                           struct gm_extent *extent) {
    CUmemAllocationProp properties = gm_location_properties(location);
    struct gm_extent created = {.size = size};
    gm_status status = driver->mem_create(&created.handle, size, &properties, 0);
    if (!status)
        *extent = created;
    return status;
}

void gm_extents_release(const struct gm_driver *driver, const struct gm_extent *extents, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if (GM_TWICE(driver->mem_release(extents[i].handle)))
            gm_log(GM_LOG_ERROR, "a handle of %zu bytes cannot be released", extents[i].size);
}

gm_status gm_extents_map(const struct gm_driver *driver, CUdeviceptr address, const struct gm_extent *extents,
                         unsigned count) {
    CUdeviceptr at = address;
    for (unsigned i = 0; i < count; at += extents[i++].size) {
        gm_status status = driver->mem_map(at, extents[i].size, 0, extents[i].handle, 0);
        if (status) {
            (void)gm_extents_unmap(driver, address, extents, i);
            return status;
        }
    }
    return GM_OK;
}

gm_status gm_extents_unmap(const struct gm_driver *driver, CUdeviceptr address, const struct gm_extent *extents,
                           unsigned count) {
    gm_status status = GM_OK, last;
    for (unsigned i = 0; i < count; address += extents[i++].size)
        if ((last = GM_TWICE(driver->mem_unmap(address, extents[i].size))) != GM_OK)
            status = last;
    return status;
}

static CUmemAccessDesc access_of(CUmemLocationType type, int id, CUmemAccess_flags flags) {
    return (CUmemAccessDesc){.location = {.type = type, .id = id}, .flags = flags};
}

gm_status gm_mapping_open(const struct gm_driver *driver, const struct gm_location *location, CUdeviceptr address,
                          size_t size, bool read_only) {
    CUmemAccess_flags flags = read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemAccessDesc list[GM_LOCATION_DEVICES + 1];
    unsigned count = 0;
    for (int device = 0; device < GM_LOCATION_DEVICES; device++)
        if (device == location->device || location->peers >> device & 1)
            list[count++] = access_of(CU_MEM_LOCATION_TYPE_DEVICE, device, flags);
    if (location->node >= 0)
        list[count++] = access_of(CU_MEM_LOCATION_TYPE_HOST_NUMA, location->node, flags);
    return driver->mem_set_access(address, size, list, count);
}

gm_status gm_mapping_open_to(const struct gm_driver *driver, CUdeviceptr address, size_t size, int device,
                             CUmemAccess_flags flags) {
    CUmemAccessDesc access = access_of(CU_MEM_LOCATION_TYPE_DEVICE, device, flags);
    return driver->mem_set_access(address, size, &access, 1);
}
