/* preprotected_lru: LRU that spares what the announced vector uses again (memhc, 5.4.2, algorithm 2).
 *
 * When memory is short, the objects of the vector that are on the device are protected (lines 1 to 7). While memory
 * stays short, a protected object at the end of the queue moves to the front, loses its protection, and the scan goes
 * on from the end (lines 8 to 17). If all were protected, the second pass over the queue therefore evicts in LRU order.
 * The next shortage protects again, also what was placed since.
 *
 * Algorithm 2 has no line between 15 and 16 that restarts the scan: the text says what is meant ("move it from the end
 * to the front"). Ours: a new vector ends the protection of the one before. */
#include "policy/eviction/instance.h"

#include <string.h>

struct state {
    uint32_t count;
    bool short_of_memory; /* since the last object was placed */
    uint32_t vector[];
};

static size_t protected_state_bytes(uint32_t objects, uint32_t window) {
    return sizeof(struct state) + window * sizeof(uint32_t);
}

static void protected_insert(struct gm_eviction *e, uint32_t object) {
    ((struct state *)e->state)->short_of_memory = false;
    e->objects[object].is_protected = false;
    gm_recency_insert(e, object);
}

static void protected_announce(struct gm_eviction *e, const uint32_t *vector, uint32_t count) {
    struct state *state = e->state;
    for (uint32_t i = 0; i < state->count; i++)
        e->objects[state->vector[i]].is_protected = false;
    state->short_of_memory = false;
    state->count = count;
    memcpy(state->vector, vector, count * sizeof *vector);
}

static void protect(struct gm_eviction *e) {
    struct state *state = e->state;
    if (state->short_of_memory)
        return;
    state->short_of_memory = true;
    for (uint32_t i = 0; i < state->count; i++)
        e->objects[state->vector[i]].is_protected = e->objects[state->vector[i]].resident;
}

static uint32_t protected_choose(struct gm_eviction *e) {
    protect(e);
    for (;;) {
        const uint32_t object = gm_list_oldest_evictable(e, 0);
        if (!e->objects[object].is_protected)
            return object;
        e->objects[object].is_protected = false;
        gm_recency_insert(e, object); /* to the front */
    }
}

const struct gm_eviction_policy gm_eviction_preprotected_lru = {
    .name = "preprotected_lru",
    .source = "memhc, 5.4.2, algorithm 2",
    .state_bytes = protected_state_bytes,
    .insert = protected_insert,
    .hit = gm_recency_insert,
    .remove = gm_recency_remove,
    .announce = protected_announce,
    .choose = protected_choose,
};
