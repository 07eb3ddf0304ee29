/* Blocks that were given back but cannot be freed yet: during a stream capture, or until an event of their stream is complete.
 * A queue, oldest first, in slots that grow by pages. No driver call happens here. Zeroed memory is an empty queue. */
#ifndef GM_RESOURCE_PARKING_H
#define GM_RESOURCE_PARKING_H

#include "policy/policy.h"
#include "shim/base/base.h"

struct gm_parked {
    uint64_t address;
    uint64_t context; /* handle */
    uint64_t context_id;
    uint64_t size;    /* bytes charged for it */
    void *event;      /* complete when the block may be freed; NULL = no event */
    uint64_t event_context; /* handle */
    uint64_t event_context_id;
    int device;
};

struct gm_parking_slot;
struct gm_parking {
    gm_spin lock;
    uint32_t count; /* read without the lock as a hint */
    uint64_t bytes;
    struct gm_parking_slot *first, *last, *unused;
};

/* Appends a copy. GM_OUT_OF_MEMORY: the kernel gave no page, nothing was parked. */
GM_INTERNAL gm_status gm_parking_push(struct gm_parking *parking, const struct gm_parked *parked);
/* Puts a block back at the front: its free failed and is tried again later. Lost, and logged,
 * only when the kernel gives no page any more. */
GM_INTERNAL void gm_parking_unpop(struct gm_parking *parking, const struct gm_parked *parked);
/* Takes the oldest. False: empty. */
GM_INTERNAL bool gm_parking_pop(struct gm_parking *parking, struct gm_parked *parked);
/* Forgets the blocks of a context; their events too, which die with their context. */
GM_INTERNAL void gm_parking_forget(struct gm_parking *parking, uint64_t context_id);

static inline uint32_t gm_parking_count(const struct gm_parking *parking) {
    return __atomic_load_n(&parking->count, __ATOMIC_RELAXED);
}
static inline uint64_t gm_parking_bytes(const struct gm_parking *parking) {
    return __atomic_load_n(&parking->bytes, __ATOMIC_RELAXED);
}

#endif
