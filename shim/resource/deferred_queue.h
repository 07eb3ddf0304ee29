/* Blocks that were given back but cannot be freed yet: during a stream capture, or until an event of their stream is
 * complete. A queue, oldest first, in slots that grow by pages. No driver call happens here. Zeroed memory is an empty
 * queue. */
#ifndef GM_RESOURCE_DEFERRED_QUEUE_H
#define GM_RESOURCE_DEFERRED_QUEUE_H

#include "policy/policy.h"
#include "shim/base/base.h"

struct gm_deferred_block {
    uint64_t address;
    uint64_t context; /* handle */
    uint64_t context_id;
    uint64_t size;          /* bytes charged for it */
    void *event;            /* complete when the block may be freed; NULL = no event */
    uint64_t event_context; /* handle */
    uint64_t event_context_id;
    int device;
};

struct gm_deferred_slot;
struct gm_deferred_queue {
    gm_spin lock;
    uint32_t count; /* read without the lock as a hint */
    uint64_t bytes;
    struct gm_deferred_slot *first, *last, *unused;
};

/* Appends a copy. GM_OUT_OF_MEMORY: the kernel gave no page, nothing was deferred. */
GM_INTERNAL gm_status gm_deferred_queue_push(struct gm_deferred_queue *queue, const struct gm_deferred_block *deferred);
/* Puts a block back at the front: its free failed and is tried again later. Lost, and logged,
 * only when the kernel gives no page any more. */
GM_INTERNAL void gm_deferred_queue_unpop(struct gm_deferred_queue *queue, const struct gm_deferred_block *deferred);
/* Takes the oldest. False: empty. */
GM_INTERNAL bool gm_deferred_queue_pop(struct gm_deferred_queue *queue, struct gm_deferred_block *deferred);
/* Forgets the blocks of a context; their events too, which die with their context. */
GM_INTERNAL void gm_deferred_queue_forget(struct gm_deferred_queue *queue, uint64_t context_id);

static inline uint32_t gm_deferred_queue_count(const struct gm_deferred_queue *queue) {
    return __atomic_load_n(&queue->count, __ATOMIC_RELAXED);
}
static inline uint64_t gm_deferred_queue_bytes(const struct gm_deferred_queue *queue) {
    return __atomic_load_n(&queue->bytes, __ATOMIC_RELAXED);
}

#endif
