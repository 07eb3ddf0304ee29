/* random: each object that can go is as likely as the others (memhc, 5.4.1 and 6.4). The seed decides. */
#include "policy/eviction/instance.h"
#include "policy/eviction/random_numbers.h"

static size_t random_state_bytes(uint32_t objects, uint32_t window) { return sizeof(uint64_t); }

static void random_open(struct gm_eviction *e) { *(uint64_t *)e->state = e->setup.seed; }

static void random_hit(struct gm_eviction *e, uint32_t object) {}

static uint32_t random_choose(struct gm_eviction *e) {
    uint32_t before = gm_random_below(e->state, e->evictable);
    uint32_t object = gm_list_oldest_evictable(e, 0);
    while (before) {
        object = e->objects[object].next;
        before -= gm_evictable(e, object);
    }
    return object;
}

const struct gm_eviction_policy gm_eviction_random = {
    .name = "random",
    .source = "memhc, 5.4.1",
    .state_bytes = random_state_bytes,
    .open = random_open,
    .insert = gm_recency_insert,
    .hit = random_hit,
    .remove = gm_recency_remove,
    .choose = random_choose,
};
