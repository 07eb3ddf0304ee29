/* Threads start and end while they use one cache. The free blocks of all threads stay within the limit, and no block
 * leaks. */
#include <pthread.h>

#include "tests/test.h"

#include "idle_driver.h"
#include "shim/base/options.h"
#include "shim/cache/cache.h"
#include "shim/cache/parts.h"
#include "shim/resource/registry.h"

enum { ROUNDS = 6, THREADS = 6, STEPS = 1500, LIVE = 32 };

static struct gm_resource *cache;
static unsigned wrong;

/* Random frees and allocations in two contexts, with calls of the other ops in between. */
static void *churn(void *seed) {
    unsigned random = (unsigned)(uintptr_t)seed * 7919 + 1;
    struct gm_block live[LIVE] = {0};
    for (int i = 0; i < STEPS; i++) {
        random = random * 1664525u + 1013904223u;
        struct gm_block *block = &live[random >> 27];
        struct gm_free_request how = {.call = GM_CALL_FREE, .settled = random >> 20 & 1};
        const struct gm_context *context = &contexts[random >> 7 & 1];
        struct gm_request request = {.call = GM_CALL_ALLOC,
                                     .size = (random >> 8) % (4 * MIB) + 1,
                                     .context = (uint64_t)(uintptr_t)context->handle,
                                     .context_id = context->id};
        bool failed = block->address && gm_resource_free(cache, block, &how);
        failed |= gm_resource_alloc(cache, &request, NULL, block) != GM_OK;
        failed |= i % 97 == 0 && cache->ops->keeps(cache, block->address);
        if (i % 501 == 0)
            cache->ops->releasable(cache, 0);
        if (i % 1001 == 0)
            cache->ops->trim(cache, 10 * MIB);
        __atomic_add_fetch(&wrong, failed, __ATOMIC_RELAXED);
    }
    for (int i = 0; i < LIVE; i++) {
        struct gm_free_request how = {.call = GM_CALL_FREE};
        bool failed = live[i].address && gm_resource_free(cache, &live[i], &how);
        __atomic_add_fetch(&wrong, failed, __ATOMIC_RELAXED);
    }
    return NULL;
}

TEST(free_blocks_stay_within_the_limit) {
    const struct gm_cache *inside = cache->state;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        size_t bytes = 0, allowed = 0;
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(uintptr_t)(round * THREADS + i + 1)), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < GM_CACHE_SHARDS; i++) {
            const struct gm_share *share = &inside->shards[i].shares[0];
            assert_true(share->bytes <= share->allowance);
            bytes += share->bytes;
            allowed += share->allowance;
        }
        assert_int_equal(wrong, 0);
        assert_int_equal(bytes, got - freed);
        assert_int_equal(allowed, inside->devices[0].allowed);
        assert_true(allowed <= inside->devices[0].limit);
        assert_true(bytes > 0);
    }
}

static pthread_barrier_t all_have_one;

static void *take_shard(void *unused) {
    void *shard = gm_cache_my_shard(cache);
    pthread_barrier_wait(&all_have_one);
    return shard;
}

/* Also where earlier threads have ended: threads that share a shard wait for each other. */
TEST(threads_that_run_share_no_shard) {
    enum { MOST = 40 };
    for (int count = 7; count <= MOST; count += 11) {
        pthread_t threads[MOST];
        void *shards[MOST + 1] = {gm_cache_my_shard(cache)};
        pthread_barrier_init(&all_have_one, NULL, (unsigned)count);
        for (int i = 0; i < count; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, take_shard, NULL), 0);
        for (int i = 0; i < count; i++)
            pthread_join(threads[i], &shards[i + 1]);
        pthread_barrier_destroy(&all_have_one);
        for (int i = 0; i <= count; i++)
            for (int j = 0; j < i; j++)
                assert_ptr_not_equal(shards[i], shards[j]);
        assert_true(gm_cache_shards_used() <= MOST + 1u);
    }
}

TEST(nothing_remains_of_destroyed_contexts) {
    const struct gm_cache *inside = cache->state;
    GM_TELL(cache, context_destroyed, contexts[0].id);
    cache->ops->trim(cache, SIZE_MAX);
    GM_TELL(cache, context_destroyed, contexts[1].id);
    for (int i = 0; i < GM_CACHE_SHARDS; i++)
        assert_true(!inside->shards[i].shares[0].bytes && !inside->shards[i].unfenced);
    assert_int_equal(gm_registry_count(gm_registry_shared()), 0);
}

int main(void) {
    static char idle[] = "GPUMEM_CACHE_IDLE=5ms";
    char *environment[] = {idle, NULL};
    gm_clock_init();
    gm_options_load(environment);
    card_bytes = 1024 * MIB;
    cache = open_idle_cache();
    return cache ? run_all(NULL, NULL) : 1;
}
