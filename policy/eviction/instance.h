/* What the rows share: the objects of an instance and lists of them. For files of this folder only.
 *
 * A list is a ring through a head that lies behind the last object. An object is in one list at most. While a row
 * inserts an object, it is resident, and listed only if the row remembers it. */
#ifndef GM_EVICTION_INSTANCE_H
#define GM_EVICTION_INSTANCE_H

#include "policy/eviction/eviction.h"

#define GM_EVICTION_LISTS 4

struct gm_eviction_object {
    uint64_t bytes;
    uint32_t next, previous; /* next: towards the most recent one */
    uint32_t pins;
    bool resident;
    unsigned char list;
    bool listed;
    /* Meaning by row */
    bool referenced, is_protected, hot, in_test;
};

struct gm_eviction {
    struct gm_eviction_setup setup;
    size_t memory;
    uint32_t resident, evictable; /* objects on the device, and those of them without a pin */
    uint64_t resident_bytes;
    uint64_t list_bytes[GM_EVICTION_LISTS];
    void *state;                         /* of state_bytes, zeroed */
    struct gm_eviction_object objects[]; /* then one head for each list */
};

static inline uint32_t gm_list_head(const struct gm_eviction *e, unsigned list) { return e->setup.objects + list; }

/* The oldest object of the list; its head where there is none. */
static inline uint32_t gm_list_oldest(const struct gm_eviction *e, unsigned list) {
    return e->objects[gm_list_head(e, list)].next;
}

static inline bool gm_list_empty(const struct gm_eviction *e, unsigned list) {
    return gm_list_oldest(e, list) == gm_list_head(e, list);
}

static inline bool gm_evictable(const struct gm_eviction *e, uint32_t object) {
    return e->objects[object].resident && !e->objects[object].pins;
}

/* Makes the object the most recent of the list. */
void gm_list_push(struct gm_eviction *e, unsigned list, uint32_t object);

/* Links the object just before `place`, an object of the list or its head. */
void gm_list_insert(struct gm_eviction *e, unsigned list, uint32_t place, uint32_t object);

/* Nothing happens where it is in no list. */
void gm_list_take(struct gm_eviction *e, uint32_t object);

/* The oldest object of the list that can be evicted; its head where there is none. */
uint32_t gm_list_oldest_evictable(const struct gm_eviction *e, unsigned list);

/* insert, hit and remove of the rows that keep the order of use alone, in list 0. */
void gm_recency_insert(struct gm_eviction *e, uint32_t object);
void gm_recency_remove(struct gm_eviction *e, uint32_t object, bool evicted);

#endif
