/* Memory locations in terms of the driver's virtual memory management: support, properties and granularity of physical
 * memory (location.h). */
#include "shim/driver/location.h"

#include "shim/base/hostmem.h"

/* Older drivers do not know the attribute. That counts as 0. */
static gm_status attribute_of(CUdevice device, CUdevice_attribute attribute, int *value) {
    CUresult result = gm_drv.device_get_attribute(value, attribute, device);
    if (result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_NOT_SUPPORTED)
        return result;
    *value = 0;
    return GM_OK;
}

static bool has_functions(const struct gm_driver *driver) {
    return driver->mem_address_reserve && driver->mem_address_free && driver->mem_create && driver->mem_release &&
           driver->mem_map && driver->mem_unmap && driver->mem_set_access && driver->mem_get_allocation_granularity;
}

gm_status gm_location_find(const struct gm_driver *driver, struct gm_location *location, bool host) {
    int maps = 0, maps_host = 0, node = -1;
    gm_status status = GM_NOT_SUPPORTED;
    if (has_functions(driver))
        status = attribute_of(location->device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &maps);
    if (!status && host)
        status = attribute_of(location->device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                              &maps_host);
    if (!status && (!maps || (host && !maps_host)))
        status = GM_NOT_SUPPORTED;
    if (!status && host)
        status = attribute_of(location->device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, &node);
    location->node = host && node < 0 ? 0 : node;
    return status;
}

gm_status gm_location_measure(const struct gm_driver *driver, struct gm_location *location) {
    CUmemAllocationProp properties = gm_location_properties(location);
    gm_status status =
        driver->mem_get_allocation_granularity(&location->granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    return !status && !location->granularity ? GM_NOT_SUPPORTED : status;
}

CUmemAllocationProp gm_location_properties(const struct gm_location *location) {
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

uint64_t gm_location_free_bytes(const struct gm_driver *driver, const struct gm_location *location) {
    struct gm_hostmem memory;
    size_t unused = 0, total;
    if (location->node >= 0)
        return gm_hostmem_read("", location->node, &memory) ? gm_hostmem_takeable(&memory) : 0;
    return driver->mem_get_info(&unused, &total) == CUDA_SUCCESS ? unused : 0;
}
