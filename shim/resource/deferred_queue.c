#include "shim/resource/deferred_queue.h"

#define PAGE_BYTES ((size_t)16384)

struct gm_parking_slot {
    struct gm_parking_slot *next;
    struct gm_parked parked;
};

static void set_sums(struct gm_parking *parking, int32_t count, int64_t bytes) {
    __atomic_store_n(&parking->count, parking->count + (uint32_t)count, __ATOMIC_RELAXED);
    __atomic_store_n(&parking->bytes, parking->bytes + (uint64_t)bytes, __ATOMIC_RELAXED);
}

static void link_pages(struct gm_parking *parking, struct gm_parking_slot *slots) {
    for (size_t i = 0; i < PAGE_BYTES / sizeof *slots; i++) {
        slots[i].next = parking->unused;
        parking->unused = &slots[i];
    }
}

/* An unused slot with the lock held, or NULL with the lock held. The kernel is asked without the lock. */
static struct gm_parking_slot *take_slot(struct gm_parking *parking) {
    if (!parking->unused) {
        gm_spin_unlock(&parking->lock);
        struct gm_parking_slot *slots = gm_pages(PAGE_BYTES);
        gm_spin_lock(&parking->lock);
        if (slots)
            link_pages(parking, slots);
    }
    struct gm_parking_slot *slot = parking->unused;
    if (slot)
        parking->unused = slot->next;
    return slot;
}

gm_status gm_parking_push(struct gm_parking *parking, const struct gm_parked *parked) {
    gm_spin_lock(&parking->lock);
    struct gm_parking_slot *slot = take_slot(parking);
    if (slot) {
        slot->parked = *parked;
        slot->next = NULL;
        if (parking->last)
            parking->last->next = slot;
        else
            parking->first = slot;
        parking->last = slot;
        set_sums(parking, 1, (int64_t)parked->size);
    }
    gm_spin_unlock(&parking->lock);
    return slot ? GM_OK : GM_OUT_OF_MEMORY;
}

void gm_parking_unpop(struct gm_parking *parking, const struct gm_parked *parked) {
    gm_spin_lock(&parking->lock);
    struct gm_parking_slot *slot = take_slot(parking);
    if (slot) {
        slot->parked = *parked;
        slot->next = parking->first;
        parking->first = slot;
        if (!parking->last)
            parking->last = slot;
        set_sums(parking, 1, (int64_t)parked->size);
    }
    gm_spin_unlock(&parking->lock);
    if (!slot)
        gm_log(GM_LOG_ERROR, "no memory to note the block at %p: %zu bytes are lost", (void *)(uintptr_t)parked->address,
               (size_t)parked->size);
}

bool gm_parking_pop(struct gm_parking *parking, struct gm_parked *parked) {
    if (!gm_parking_count(parking))
        return false;
    gm_spin_lock(&parking->lock);
    struct gm_parking_slot *slot = parking->first;
    if (slot) {
        parking->first = slot->next;
        if (!parking->first)
            parking->last = NULL;
        *parked = slot->parked;
        slot->next = parking->unused;
        parking->unused = slot;
        set_sums(parking, -1, -(int64_t)parked->size);
    }
    gm_spin_unlock(&parking->lock);
    return slot;
}

void gm_parking_forget(struct gm_parking *parking, uint64_t context_id) {
    gm_spin_lock(&parking->lock);
    struct gm_parking_slot **link = &parking->first, *last = NULL;
    while (*link) {
        struct gm_parking_slot *slot = *link;
        if (slot->parked.context_id == context_id) {
            *link = slot->next;
            set_sums(parking, -1, -(int64_t)slot->parked.size);
            slot->next = parking->unused;
            parking->unused = slot;
            continue;
        }
        if (slot->parked.event && slot->parked.event_context_id == context_id)
            slot->parked.event = NULL; /* its stream is gone, and the work in it */
        last = slot;
        link = &slot->next;
    }
    parking->last = last;
    gm_spin_unlock(&parking->lock);
}
