/* Which devices can access the memory of other devices. Plain memory can be copied between any two devices: where one
 * device cannot access the other, the driver stages the copy. The driver does not stage a copy of memory from pools or
 * mappings: it refuses the copy unless both devices have access to the block. So gpumem uses such memory only where all
 * devices can access each other, and opens it to every device that has a context. */
#ifndef GM_RESOURCE_REACH_H
#define GM_RESOURCE_REACH_H

#include "shim/driver/mapping.h"

/* True when every visible device can access the memory of every other. Queries the driver once. The first false is
 * logged. */
GM_INTERNAL bool gm_reach_all(void);

/* Notes that the device has a context. True until gm_reach_opened: the caller must open live blocks to the device. */
GM_INTERNAL bool gm_reach_note(int device);
GM_INTERNAL void gm_reach_opened(int device);
/* Set of devices that have or had a context; bit d = device d. */
GM_INTERNAL uint64_t gm_reach_devices(void);
/* Opens mapped addresses to the devices and the node of `location`, and to every device that has a context. A device
 * that gets its context during the call also gets access. Errors: the driver's own. */
GM_INTERNAL gm_status gm_reach_open(const struct gm_location *location, CUdeviceptr address, size_t size);

#endif
