/* Pages that a block left behind when it took over another's: kept, idle, for the front of the next one. The driver
 * wipes what it gets back before it hands it out again, which costs an array that grows step by step more than all its
 * copies.
 *
 * One set a device, within GPUMEM_CACHE_LIMIT and as long as GPUMEM_CACHE_IDLE, and none where the device has little
 * memory left. All functions are safe from any thread. */
#ifndef GM_RESOURCE_VMM_RESERVE_H
#define GM_RESOURCE_VMM_RESERVE_H

#include "shim/driver/driver.h"

enum { GM_VMM_DEVICES = 64, GM_VMM_RESERVE_SLOTS = 16 };

/* Physical memory of one handle, mapped or not. */
struct gm_vmm_extent {
    CUmemGenericAllocationHandle handle;
    uint64_t size;
    bool on_host;
    int node; /* of the host */
};

/* Releases handles; what the driver refuses twice is logged. */
GM_INTERNAL void gm_vmm_release(const struct gm_vmm_extent *extents, unsigned count);

/* Takes over handles that no work uses and that are mapped nowhere: keeps them in place of what was kept, or releases
 * them. The device's context is current, and the caller within the capture guard. */
GM_INTERNAL void gm_vmm_reserve_keep(int device, const struct gm_vmm_extent *extents, unsigned count);
/* Hands out what is kept if it is not more than `at_most` bytes: how many extents, at most GM_VMM_RESERVE_SLOTS; 0 =
 * none. */
GM_INTERNAL unsigned gm_vmm_reserve_take(int device, uint64_t at_most, struct gm_vmm_extent *extents);
/* Releases what is kept: all of it, or what nobody took for long; nothing while a stream captures. Returns the bytes.
 */
GM_INTERNAL uint64_t gm_vmm_reserve_release(bool only_idle);
GM_INTERNAL uint64_t gm_vmm_reserve_bytes(int device);
GM_INTERNAL void gm_vmm_reserve_after_fork(void);

#endif
