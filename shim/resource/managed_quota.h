/* Managed memory of the whole process, counted in one place so that its sum stays below what the device has free: going
 * over can hang the GPU for everybody on it. */
#ifndef GM_RESOURCE_MANAGED_QUOTA_H
#define GM_RESOURCE_MANAGED_QUOTA_H

#include "shim/base/base.h"
#include "policy/policy.h"

/* Counts `bytes` of managed memory for a context that is current on `device`. The rule:
 *
 *     request + managed bytes alive + freed bytes that managed pools keep + headroom <= free memory of the device
 *
 * with the driver's own figure of free memory. Residency is never counted on: managed pages that already lie on the
 * device are missing from the free figure and count as alive once more, which errs on the safe side. One step for
 * parallel requests. The figure is asked anew unless it is younger than a millisecond and the sum is below half of it.
 * Errors: GM_OUT_OF_MEMORY when kept memory was given back and the rule still says no (logged once), the driver's own.
 */
GM_INTERNAL gm_status gm_managed_charge(uint64_t context_id, int device, uint64_t bytes);
/* Takes back a charge whose memory is free again, or was never got. */
GM_INTERNAL void gm_managed_discharge(uint64_t context_id, uint64_t bytes);
/* A managed pool keeps `bytes` that it no longer counts as alive: they stay in the sum until the pool was asked. */
GM_INTERNAL void gm_managed_retain(uint64_t context_id, uint64_t bytes);
/* The context is gone with its managed memory. Harmless when repeated. */
GM_INTERNAL void gm_managed_forget(uint64_t context_id);
GM_INTERNAL uint64_t gm_managed_alive(void);

/* The program allocated (+) or freed (-) managed memory by its own call, which is never refused but counts. */
GM_INTERNAL void gm_managed_note(int64_t delta);

/* What a maker of managed memory keeps beyond its living blocks. */
struct gm_managed_keeper {
    uint64_t (*excess)(void); /* bytes that are not counted yet; NULL: none */
    void (*give_back)(void);  /* waits for the program's work if need be */
    struct gm_managed_keeper *next;
};
/* Registers a maker for the life of the process, once. Not thread-safe: while stacks are built. */
GM_INTERNAL void gm_managed_quota_add(struct gm_managed_keeper *keeper);
/* Gives back what caches around the makers keep, before the makers do. NULL: there are none. Set before the first
 * request. */
GM_INTERNAL extern void (*gm_managed_quota_trim)(void);

#endif
