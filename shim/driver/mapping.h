/* The steps by which the driver's virtual memory management puts memory at an address: reserve addresses, create
 * physical memory (extents), map it, open it to devices, and back. Regions, resource "vmm" and resource "host-numa"
 * are made of these steps.
 *
 * `driver` is the table whose functions are called: the driver's own (gm_drv), or that of gm_program_driver. A step
 * back is tried once more when the driver refuses it, because its memory or addresses would leak. */
#ifndef GM_DRIVER_MAPPING_H
#define GM_DRIVER_MAPPING_H

#include "shim/driver/location.h"

/* Physical memory of one handle, mapped or not. */
struct gm_extent {
    CUmemGenericAllocationHandle handle;
    size_t size;
};

/* Reserves addresses, at `wanted` if it is free; 0: anywhere. Errors: the driver's own. */
GM_INTERNAL gm_status gm_addresses_reserve(const struct gm_driver *driver, size_t size, CUdeviceptr wanted,
                                           CUdeviceptr *address);
/* Nothing may be mapped there. A second refusal is logged. */
GM_INTERNAL void gm_addresses_free(const struct gm_driver *driver, CUdeviceptr address, size_t size);

/* Creates `size` bytes, a multiple of the location's granularity. Errors: the driver's own; *extent is untouched. */
GM_INTERNAL gm_status gm_extent_create(const struct gm_driver *driver, const struct gm_location *location, size_t size,
                                       struct gm_extent *extent);
/* Releases handles. Their memory stays while it is mapped. A second refusal is logged. */
GM_INTERNAL void gm_extents_release(const struct gm_driver *driver, const struct gm_extent *extents, unsigned count);

/* Maps extents side by side from `address` on. After a failure none is mapped. */
GM_INTERNAL gm_status gm_extents_map(const struct gm_driver *driver, CUdeviceptr address,
                                     const struct gm_extent *extents, unsigned count);
/* Returns the last error among the extents that the driver refused to unmap twice. */
GM_INTERNAL gm_status gm_extents_unmap(const struct gm_driver *driver, CUdeviceptr address,
                                       const struct gm_extent *extents, unsigned count);

/* Gives the devices and the node of the location access to mapped addresses: read and write, or read only. */
GM_INTERNAL gm_status gm_mapping_open(const struct gm_driver *driver, const struct gm_location *location,
                                      CUdeviceptr address, size_t size, bool read_only);
/* Gives one device access to mapped addresses, or takes it away (CU_MEM_ACCESS_FLAGS_PROT_NONE). */
GM_INTERNAL gm_status gm_mapping_open_to(const struct gm_driver *driver, CUdeviceptr address, size_t size, int device,
                                         CUmemAccess_flags flags);

#endif
