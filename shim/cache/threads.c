/* The threads of caches and their shards. */
#include "shim/accounts/stats.h"
#include "shim/cache/cache.h"
#include "shim/cache/parts.h"

uint64_t gm_cache_shards = 1;
static __thread unsigned place __attribute__((tls_model("initial-exec"))); /* 1 + index of the shard; 0 = none yet */

_Static_assert(GM_CACHE_SHARDS >= GM_STATS_SHARDS - 1, "threads with a number share no shard");

/* A thread's number is the lowest that no other thread has. So threads that follow each other use the same shard, with
 * the blocks that are free there. Threads without a number are spread over all shards. */
static GM_APART void choose_shard(void) {
    gm_stats_mine();
    place = gm_mine.number ? gm_mine.number : 1 + (unsigned)gm_thread_id() % GM_CACHE_SHARDS;
    gm_stats_raise(&gm_cache_shards, place);
}

struct gm_shard *gm_cache_my_shard(struct gm_resource *self) {
    struct gm_cache *state = self->state;
    if (GM_UNLIKELY(!place))
        choose_shard();
    return &state->shards[place - 1];
}

uint64_t gm_cache_this_thread(void) {
    return GM_LIKELY(gm_mine.number) ? gm_mine.number : (uint64_t)GM_STATS_SHARDS + (uint64_t)gm_thread_id();
}

void gm_cache_act_as(unsigned number) {
    gm_mine.number = (uint8_t)(1 + number % (GM_STATS_SHARDS - 1));
    place = 0;
}
