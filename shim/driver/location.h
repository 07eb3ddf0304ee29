/* A memory location: where the physical memory of a region lies (a device, or a memory node of the host) and which
 * devices may access it. */
#ifndef GM_DRIVER_LOCATION_H
#define GM_DRIVER_LOCATION_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"

enum { GM_LOCATION_DEVICES = 64 };

struct gm_location {
    CUdevice device;
    int node; /* memory node of host memory; -1: device memory */
    bool exportable;
    uint64_t peers;     /* bit p: device p has access as well */
    size_t granularity; /* bytes */
};

/* Fills granularity and, with `host`, the node, from the attributes of the device. Errors: GM_NOT_SUPPORTED, or the
 * driver's own. */
GM_INTERNAL gm_status gm_location_query(struct gm_location *location, bool host);
/* Creates physical memory of `size` bytes, a multiple of the granularity. Host memory is created only while the
 * machine and the control groups of the process have enough to spare. Errors: GM_OUT_OF_MEMORY, or the driver's own. */
GM_INTERNAL gm_status gm_location_create(const struct gm_location *location, size_t size,
                                         CUmemGenericAllocationHandle *handle);
/* Gives the devices of the location access to mapped addresses: read and write, or read only. */
GM_INTERNAL gm_status gm_location_open(const struct gm_location *location, CUdeviceptr address, size_t size,
                                       bool read_only);
/* Gives device `peer` access to mapped addresses, or takes it away (CU_MEM_ACCESS_FLAGS_PROT_NONE). */
GM_INTERNAL gm_status gm_location_peer(CUdeviceptr address, size_t size, int peer, CUmemAccess_flags flags);
/* Free bytes at the location. The device's context must be current. */
GM_INTERNAL uint64_t gm_location_free_bytes(const struct gm_location *location);

#endif
