/* Queue of blocks that the program freed but that cannot be freed yet: a stream captures, or a fence is not complete.
 * The oldest block comes first. The queue calls the kernel for memory but never the driver. Zeroed memory is an empty
 * queue. */
#ifndef GM_RESOURCE_DEFERRED_QUEUE_H
#define GM_RESOURCE_DEFERRED_QUEUE_H

#include "shim/base/base.h"
#include "shim/base/nodes.h"
#include "shim/resource/resource.h"

struct gm_deferred_block {
    uint64_t address;
    uint64_t context; /* handle */
    uint64_t context_id;
    uint64_t size;          /* bytes that the block takes */
    uint64_t on_device;     /* as in the block */
    struct gm_fence *fence; /* the block may be freed when it is complete; NULL = now */
    bool *kept; /* set by the maker when it keeps the memory of a block that is freed now; NULL, as in queues: it must
                   not keep it */
    int device;
};

/* Without a fence. */
static inline struct gm_deferred_block gm_deferred_block_of(const struct gm_block *block) {
    return (struct gm_deferred_block){
        .address = block->address,
        .context = block->context,
        .context_id = block->context_id,
        .size = block->reserved,
        .on_device = block->on_device,
        .device = block->device,
    };
}

struct gm_deferred_slot;
struct gm_deferred_queue {
    gm_spin lock;
    uint32_t count; /* may be read without the lock, as a hint */
    uint64_t bytes;
    struct gm_deferred_slot *first, *last;
    gm_nodes unused;
};

/* Appends a copy. GM_OUT_OF_MEMORY: the kernel has no memory, nothing was appended. */
GM_INTERNAL gm_status gm_deferred_queue_push(struct gm_deferred_queue *queue, const struct gm_deferred_block *deferred);
/* Puts a block back at the front after its free failed. The block leaks, with a log line, when the kernel has no
 * memory. */
GM_INTERNAL void gm_deferred_queue_unpop(struct gm_deferred_queue *queue, const struct gm_deferred_block *deferred);
/* Removes the oldest block. False: the queue is empty. */
GM_INTERNAL bool gm_deferred_queue_pop(struct gm_deferred_queue *queue, struct gm_deferred_block *deferred);

static inline uint32_t gm_deferred_queue_count(const struct gm_deferred_queue *queue) {
    return __atomic_load_n(&queue->count, __ATOMIC_RELAXED);
}
static inline uint64_t gm_deferred_queue_bytes(const struct gm_deferred_queue *queue) {
    return __atomic_load_n(&queue->bytes, __ATOMIC_RELAXED);
}

#endif
