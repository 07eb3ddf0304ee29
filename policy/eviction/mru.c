/* mru: the most recently used object goes first (memhc, 5.4.1 and 6.4). */
#include "policy/eviction/instance.h"

static uint32_t mru_choose(struct gm_eviction *e) {
    uint32_t object = e->objects[gm_list_head(e, 0)].previous;
    while (!gm_evictable(e, object))
        object = e->objects[object].previous;
    return object;
}

const struct gm_eviction_policy gm_eviction_mru = {
    .name = "mru",
    .source = "memhc, 5.4.1",
    .insert = gm_recency_insert,
    .hit = gm_recency_insert,
    .remove = gm_recency_remove,
    .choose = mru_choose,
};
