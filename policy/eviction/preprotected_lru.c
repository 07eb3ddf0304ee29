/* preprotected_lru: LRU that spares what the announced vector uses again (memhc, 5.4.2, algorithm 2).
 *
 * Objects of the vector that are on the device when it is announced are protected. A protected object at the end of the
 * queue moves to the front, loses its protection, and the scan goes on from the end. If all were protected, the second
 * pass over the queue therefore evicts in LRU order.
 *
 * Algorithm 2 sets the flags when memory is first short, and has no line between 15 and 16 that restarts the scan: the
 * text says what is meant ("move it from the end to the front"). A new vector ends the protection of the one before. */
#include "policy/eviction/instance.h"

static void insert(struct gm_eviction *e, uint32_t object) {
    e->objects[object].is_protected = false;
    gm_recency_insert(e, object);
}

static void announce(struct gm_eviction *e, const uint32_t *vector, uint32_t count) {
    for (uint32_t object = gm_list_oldest(e, 0); object != gm_list_head(e, 0); object = e->objects[object].next)
        e->objects[object].is_protected = false;
    for (uint32_t i = 0; i < count; i++)
        e->objects[vector[i]].is_protected = e->objects[vector[i]].resident;
}

static uint32_t choose(struct gm_eviction *e) {
    for (;;) {
        const uint32_t object = gm_list_oldest_evictable(e, 0);
        if (!e->objects[object].is_protected)
            return object;
        insert(e, object); /* to the front, without protection */
    }
}

const struct gm_eviction_policy gm_eviction_preprotected_lru = {
    .name = "preprotected_lru",
    .source = "memhc, 5.4.2, algorithm 2",
    .insert = insert,
    .hit = gm_recency_insert,
    .remove = gm_recency_remove,
    .announce = announce,
    .choose = choose,
};
