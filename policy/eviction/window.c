/* window: ours, no paper's. Belady's rule (A study of replacement algorithms for a virtual-storage computer, 1966)
 * within the announced vector: the object whose next use is farthest goes first. Objects that the rest of the vector
 * does not use are farther than all others; among them the least recently used one goes.
 *
 * It differs from preprotected_lru where the vector does not fit: it then keeps what is used soonest, and an object
 * whose last use in the vector is over protects nothing. Choosing looks at every object on the device. */
#include "policy/eviction/instance.h"

#include <string.h>

#define NO_USE UINT32_MAX

struct state {
    uint32_t announced;
    /* Position of the next use in the vector, by object; then by position: the vector, and the next use of its object.
     */
    uint32_t numbers[];
};

static uint32_t *next_use(const struct gm_eviction *e) { return ((struct state *)e->state)->numbers; }
static uint32_t *vector_of(const struct gm_eviction *e) { return next_use(e) + e->setup.objects; }
static uint32_t *use_after(const struct gm_eviction *e) { return vector_of(e) + e->setup.window; }

static size_t window_state_bytes(uint32_t objects, uint32_t window) {
    return sizeof(struct state) + ((size_t)objects + 2 * (size_t)window) * sizeof(uint32_t);
}

static void window_open(struct gm_eviction *e) { memset(next_use(e), 0xff, e->setup.objects * sizeof(uint32_t)); }

static void use(struct gm_eviction *e, uint32_t object) {
    uint32_t *next = &next_use(e)[object];
    if (*next != NO_USE)
        *next = use_after(e)[*next];
    gm_recency_insert(e, object);
}

static void window_announce(struct gm_eviction *e, const uint32_t *vector, uint32_t count) {
    struct state *state = e->state;
    for (uint32_t i = 0; i < state->announced; i++)
        next_use(e)[vector_of(e)[i]] = NO_USE;
    state->announced = count;
    for (uint32_t i = count; i--;) {
        vector_of(e)[i] = vector[i];
        use_after(e)[i] = next_use(e)[vector[i]];
        next_use(e)[vector[i]] = i;
    }
}

static uint32_t window_choose(struct gm_eviction *e) {
    uint32_t farthest = gm_list_oldest_evictable(e, 0);
    for (uint32_t object = farthest; object != gm_list_head(e, 0); object = e->objects[object].next) {
        if (gm_evictable(e, object) && next_use(e)[object] > next_use(e)[farthest])
            farthest = object;
    }
    return farthest;
}

const struct gm_eviction_policy gm_eviction_window = {
    .name = "window",
    .source = "ours: Belady's rule within the announced vector",
    .state_bytes = window_state_bytes,
    .open = window_open,
    .insert = use,
    .insert_ahead = gm_recency_insert, /* the announced use is still to come */
    .hit = use,
    .remove = gm_recency_remove,
    .announce = window_announce,
    .choose = window_choose,
};
