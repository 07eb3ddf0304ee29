/* The page reserve: physical memory (extents) that a page handover replaced. It waits for the front of the next larger
 * block (vmm.h). Reuse pays: the driver clears released memory before it hands it out again, and for an array that
 * grows step by step this costs more than all its copies.
 *
 * Each device has at most one set of extents. It stays within GPUMEM_CACHE_LIMIT, is released after GPUMEM_CACHE_IDLE,
 * and is not kept when the device has little free memory. All functions are safe from any thread. */
#ifndef GM_RESOURCE_VMM_RESERVE_H
#define GM_RESOURCE_VMM_RESERVE_H

#include "shim/driver/mapping.h"

enum { GM_VMM_DEVICES = 64, GM_VMM_RESERVE_SLOTS = 16 };

/* Takes over extents that are mapped nowhere and that no work uses: they replace the device's present set, or
 * are released. The device's context is current, and the caller is within the capture guard. */
GM_INTERNAL void gm_vmm_reserve_keep(int device, const struct gm_extent *extents, unsigned count);
/* Hands the device's set to the caller if it is not larger than `at_most` bytes. Returns the number of extents, at most
 * GM_VMM_RESERVE_SLOTS; 0: none. */
GM_INTERNAL unsigned gm_vmm_reserve_take(int device, uint64_t at_most, struct gm_extent *extents);
/* Releases the sets of all devices. only_idle: only those unused for GPUMEM_CACHE_IDLE, and none while a stream
 * captures. Returns the bytes released. */
GM_INTERNAL uint64_t gm_vmm_reserve_release(bool only_idle);
/* Bytes in the device's set. */
GM_INTERNAL uint64_t gm_vmm_reserve_bytes(int device);

#endif
