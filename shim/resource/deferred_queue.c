/* A linked list of slots under one lock (deferred_queue.h). */
#include "shim/resource/deferred_queue.h"

struct gm_deferred_slot {
    struct gm_deferred_slot *next;
    struct gm_deferred_block deferred;
};

static void set_sums(struct gm_deferred_queue *queue, int32_t count, int64_t bytes) {
    __atomic_store_n(&queue->count, queue->count + (uint32_t)count, __ATOMIC_RELAXED);
    __atomic_store_n(&queue->bytes, queue->bytes + (uint64_t)bytes, __ATOMIC_RELAXED);
}

static struct gm_deferred_slot *take_queue_slot(struct gm_deferred_queue *queue) {
    return gm_node_take(&queue->unused, sizeof(struct gm_deferred_slot), &queue->lock);
}

gm_status gm_deferred_queue_push(struct gm_deferred_queue *queue, const struct gm_deferred_block *deferred) {
    gm_spin_lock(&queue->lock);
    struct gm_deferred_slot *slot = take_queue_slot(queue);
    if (slot) {
        slot->deferred = *deferred;
        slot->deferred.kept = NULL;
        slot->next = NULL;
        if (queue->last)
            queue->last->next = slot;
        else
            queue->first = slot;
        queue->last = slot;
        set_sums(queue, 1, (int64_t)deferred->size);
    }
    gm_spin_unlock(&queue->lock);
    return slot ? GM_OK : GM_OUT_OF_MEMORY;
}

void gm_deferred_queue_unpop(struct gm_deferred_queue *queue, const struct gm_deferred_block *deferred) {
    gm_spin_lock(&queue->lock);
    struct gm_deferred_slot *slot = take_queue_slot(queue);
    if (slot) {
        slot->deferred = *deferred;
        slot->next = queue->first;
        queue->first = slot;
        if (!queue->last)
            queue->last = slot;
        set_sums(queue, 1, (int64_t)deferred->size);
    }
    gm_spin_unlock(&queue->lock);
    if (!slot)
        gm_log(GM_LOG_ERROR, "no memory for the entry of the block at %p: %zu bytes leak",
               (void *)(uintptr_t)deferred->address, (size_t)deferred->size);
}

bool gm_deferred_queue_pop(struct gm_deferred_queue *queue, struct gm_deferred_block *deferred) {
    if (!gm_deferred_queue_count(queue))
        return false;
    gm_spin_lock(&queue->lock);
    struct gm_deferred_slot *slot = queue->first;
    if (slot) {
        queue->first = slot->next;
        if (!queue->first)
            queue->last = NULL;
        *deferred = slot->deferred;
        gm_node_give(&queue->unused, slot);
        set_sums(queue, -1, -(int64_t)deferred->size);
    }
    gm_spin_unlock(&queue->lock);
    return slot;
}
