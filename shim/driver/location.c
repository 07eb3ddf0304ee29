/* Memory locations in terms of the driver's virtual memory management: properties, granularity and access rights of
 * physical memory (location.h). */
#include "shim/driver/location.h"

#include "shim/base/hostmem.h"
#include "shim/driver/program_driver.h"

static CUmemAllocationProp properties_of(const struct gm_location *location) {
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = location->device},
    };
    if (location->node >= 0)
        properties.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = location->node};
    if (location->exportable)
        properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return properties;
}

/* Older drivers do not know the attribute. That counts as 0. */
static bool has(CUdevice device, CUdevice_attribute attribute) {
    int value = 0;
    return gm_drv.device_get_attribute(&value, attribute, device) == CUDA_SUCCESS && value;
}

gm_status gm_location_query(struct gm_location *location, bool host) {
    const struct gm_driver *driver = gm_program_driver();
    location->node = -1;
    if (!driver->mem_address_reserve || !driver->mem_address_free || !driver->mem_create || !driver->mem_release ||
        !driver->mem_map || !driver->mem_unmap || !driver->mem_set_access || !driver->mem_get_allocation_granularity ||
        !has(location->device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return GM_NOT_SUPPORTED;
    if (host) {
        if (!has(location->device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
            return GM_NOT_SUPPORTED;
        if (gm_drv.device_get_attribute(&location->node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, location->device) !=
                CUDA_SUCCESS ||
            location->node < 0)
            location->node = 0;
    }
    CUmemAllocationProp properties = properties_of(location);
    gm_status status = (gm_status)driver->mem_get_allocation_granularity(&location->granularity, &properties,
                                                                         CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    return !status && !location->granularity ? GM_NOT_SUPPORTED : status;
}

uint64_t gm_location_free_bytes(const struct gm_location *location) {
    struct gm_hostmem memory;
    size_t unused = 0, total;
    if (location->node >= 0)
        return gm_hostmem_read("", location->node, &memory) ? gm_hostmem_takeable(&memory) : 0;
    return gm_program_driver()->mem_get_info(&unused, &total) == CUDA_SUCCESS ? unused : 0;
}

gm_status gm_location_create(const struct gm_location *location, size_t size, CUmemGenericAllocationHandle *handle) {
    CUmemAllocationProp properties = properties_of(location);
    if (location->node >= 0 && gm_location_free_bytes(location) < size)
        return GM_OUT_OF_MEMORY;
    return (gm_status)gm_program_driver()->mem_create(handle, size, &properties, 0);
}

static CUmemAccessDesc access_of(CUmemLocationType type, int id, CUmemAccess_flags flags) {
    return (CUmemAccessDesc){.location = {.type = type, .id = id}, .flags = flags};
}

gm_status gm_location_open(const struct gm_location *location, CUdeviceptr address, size_t size, bool read_only) {
    CUmemAccess_flags flags = read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemAccessDesc list[GM_LOCATION_DEVICES + 1];
    unsigned count = 0;
    for (int device = 0; device < GM_LOCATION_DEVICES; device++)
        if (device == location->device || location->peers >> device & 1)
            list[count++] = access_of(CU_MEM_LOCATION_TYPE_DEVICE, device, flags);
    if (location->node >= 0)
        list[count++] = access_of(CU_MEM_LOCATION_TYPE_HOST_NUMA, location->node, flags);
    return (gm_status)gm_program_driver()->mem_set_access(address, size, list, count);
}

gm_status gm_location_peer(CUdeviceptr address, size_t size, int peer, CUmemAccess_flags flags) {
    CUmemAccessDesc access = access_of(CU_MEM_LOCATION_TYPE_DEVICE, peer, flags);
    return (gm_status)gm_program_driver()->mem_set_access(address, size, &access, 1);
}
