/* Where a region's memory lies and who may use it. */
#ifndef GM_DRIVER_LOCATION_H
#define GM_DRIVER_LOCATION_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"

enum { GM_LOCATION_DEVICES = 64 };

struct gm_location {
    CUdevice device;
    int node; /* memory node of the host tier; -1: on the device */
    bool exportable;
    uint64_t peers;     /* bit p: device p has access, too */
    size_t granularity; /* bytes */
};

/* Fills granularity and, with `host`, the node from what the device can. Errors: GM_NOT_SUPPORTED, the driver's own. */
GM_INTERNAL gm_status gm_location_query(struct gm_location *place, bool host);
/* Physical memory; `size` in whole granules. Memory of the host is taken only while the machine and the process's
 * control groups have it to spare. Errors: GM_OUT_OF_MEMORY, the driver's own. */
GM_INTERNAL gm_status gm_location_create(const struct gm_location *place, size_t size,
                                         CUmemGenericAllocationHandle *handle);
/* Opens mapped addresses: to read and write, or to read only. */
GM_INTERNAL gm_status gm_location_open(const struct gm_location *place, CUdeviceptr address, size_t size,
                                       bool read_only);
/* Opens them to device `peer`, or closes them to it. */
GM_INTERNAL gm_status gm_location_peer(CUdeviceptr address, size_t size, int peer, CUmemAccess_flags flags);
/* Bytes that are free where the memory would come from, for messages; the device's context is current. */
GM_INTERNAL uint64_t gm_location_free_bytes(const struct gm_location *place);

#endif
