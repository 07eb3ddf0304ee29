/* The threads of caches and their shards. */
#include "shim/cache/cache.h"
#include "shim/cache/parts.h"

unsigned gm_cache_shards = 1;
static unsigned threads_seen; /* by all caches */
static __thread unsigned thread_number __attribute__((tls_model("initial-exec")));

static GM_APART void number_thread(void) {
    thread_number = __atomic_add_fetch(&threads_seen, 1, __ATOMIC_RELAXED);
    if (thread_number > 1 && thread_number <= GM_CACHE_SHARDS)
        __atomic_add_fetch(&gm_cache_shards, 1, __ATOMIC_RELAXED);
}

struct gm_shard *gm_cache_my_shard(struct gm_resource *self) {
    struct gm_cache *state = self->state;
    if (GM_UNLIKELY(!thread_number))
        number_thread();
    return &state->shards[(thread_number - 1) % GM_CACHE_SHARDS];
}

const void *gm_cache_this_thread(void) { return (const void *)(uintptr_t)thread_number; }

unsigned gm_cache_act_as(unsigned number) {
    unsigned own = thread_number;
    thread_number = number;
    return own;
}
