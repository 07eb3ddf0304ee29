/* lru: the least recently used object goes first (memhc, 5.4.1, algorithm 1). */
#include "policy/eviction/instance.h"

static uint32_t lru_choose(struct gm_eviction *e) { return gm_list_oldest_evictable(e, 0); }

const struct gm_eviction_policy gm_eviction_lru = {
    .name = "lru",
    .source = "memhc, 5.4.1, algorithm 1",
    .insert = gm_recency_insert,
    .hit = gm_recency_insert,
    .remove = gm_recency_remove,
    .choose = lru_choose,
};
