/* Copies between devices. Plain memory can be copied between any two devices: where one cannot access the other's
 * memory, the driver stages the copy. It stages none for memory of pools and mappings, and refuses the copy unless the
 * block is open to both devices. So such memory serves only where all devices can be given access, and is open to every
 * device that has a context. */
#ifndef GM_RESOURCE_REACH_H
#define GM_RESOURCE_REACH_H

#include "shim/base/base.h"

/* True when every visible device can access the memory of every other; asked of the driver once. The first false is
 * logged. */
GM_INTERNAL bool gm_reach_all(void);

/* The device has a context. True until gm_reach_opened: what is alive is to be opened to it. */
GM_INTERNAL bool gm_reach_note(int device);
GM_INTERNAL void gm_reach_opened(int device);
/* Bit d: device d has, or had, a context. */
GM_INTERNAL uint64_t gm_reach_devices(void);

#endif
