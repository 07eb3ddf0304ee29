/* The managed quota: counts the managed memory of the whole process and keeps the sum below the free memory of the
 * device. More managed memory than that can hang the GPU for all its users. */
#ifndef GM_RESOURCE_MANAGED_QUOTA_H
#define GM_RESOURCE_MANAGED_QUOTA_H

#include "shim/base/base.h"
#include "policy/policy.h"

/* Counts `bytes` of managed memory for a context that is current on `device`. The rule:
 *
 *     request + live managed bytes + freed bytes that managed pools hold + headroom <= free memory of the device
 *
 * with the free memory that the driver reports. The rule does not depend on residency: managed pages that already lie
 * on the device reduce the free memory and also count as live bytes, which errs on the safe side. Check and addition
 * are one step, so parallel requests cannot exceed the quota together. With GPUMEM_MANAGED_OVERSUBSCRIBE the host's
 * free memory counts, too, while no other process has memory of the device. The driver is queried unless its last
 * figure is younger than a millisecond and the sum is below half of it. Errors: GM_OUT_OF_MEMORY when free blocks were
 * released and the rule still fails (logged once), the driver's own. */
GM_INTERNAL gm_status gm_managed_charge(uint64_t context_id, int device, uint64_t bytes);
/* Subtracts a charge whose memory was freed, or was never allocated. */
GM_INTERNAL void gm_managed_discharge(uint64_t context_id, uint64_t bytes);
/* A managed pool holds `bytes` that are no longer live. They stay in the sum until the next query of the pool. */
GM_INTERNAL void gm_managed_retain(uint64_t context_id, uint64_t bytes);
/* The context was destroyed, and its managed memory with it. A second call does nothing. */
GM_INTERNAL void gm_managed_forget(uint64_t context_id);
/* Live managed bytes of the process. */
GM_INTERNAL uint64_t gm_managed_alive(void);

/* The program allocated (+) or freed (-) managed memory by its own call. The call is never refused, but it counts. */
GM_INTERNAL void gm_managed_note(int64_t delta);

/* A maker of managed memory, which may hold memory beyond its live blocks. */
struct gm_managed_maker {
    uint64_t (*excess)(void); /* bytes held beyond live blocks; NULL: none */
    void (*release)(void);    /* releases these bytes; may wait for the program's work */
    struct gm_managed_maker *next;
    bool added;
};
/* Registers a maker for the life of the process. A second call does nothing. Safe from any thread: programs build
 * stacks at any time. */
GM_INTERNAL void gm_managed_quota_add(struct gm_managed_maker *maker);

#endif
