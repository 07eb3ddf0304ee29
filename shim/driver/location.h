/* A memory location: where physical memory lies (a device, or a memory node of the host) and which devices may access
 * it. mapping.h makes memory there. */
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

/* `driver` is the table whose functions are called: the driver's own (gm_drv), or that of gm_program_driver. */

/* Fills the node: -1, or with `host` the node of the host that is nearest to the device. Errors: GM_NOT_SUPPORTED,
 * when the driver or the device cannot map such memory, or the driver's own. */
GM_INTERNAL gm_status gm_location_find(const struct gm_driver *driver, struct gm_location *location, bool host);
/* Fills the granularity. Errors: GM_NOT_SUPPORTED, or the driver's own. */
GM_INTERNAL gm_status gm_location_measure(const struct gm_driver *driver, struct gm_location *location);
/* The properties of physical memory there, as cuMemCreate reads them. */
GM_INTERNAL CUmemAllocationProp gm_location_properties(const struct gm_location *location);
/* Free bytes at the location. For host memory: bytes that the machine and the control groups of the process can spare.
 * The device's context must be current. */
GM_INTERNAL uint64_t gm_location_free_bytes(const struct gm_driver *driver, const struct gm_location *location);

#endif
