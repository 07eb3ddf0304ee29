/* The fast case of a pair does nothing while somebody observes calls. */
#include "scripted_driver.h"

#include "shim/cache/cache.h"
#include "shim/cache/fast.h"

TEST(observed_calls_take_the_whole_way) {
    const size_t size = 4096;
    size_t freed = 0;
    open_cache("cache(sim)");
    struct gm_block block;
    uint64_t context_id = context_of(CONTEXT(1)).id;
    for (int i = 0; i < 2; i++) {
        block = get(size);
        assert_int_equal(try_give(&block, true), GM_OK);
    }
    struct gm_shard *shard = gm_cache_my_shard(cache);
    for (unsigned bit = 0; bit < GM_OBSERVER_COUNT; bit++) {
        gm_observers = 1u << bit;
        assert_null(gm_cache_take_newest(shard, context_id, size));
    }
    gm_observers = 0;
    struct gm_block_record *record = gm_cache_take_newest(shard, context_id, size);
    assert_non_null(record);
    for (unsigned bit = 0; bit < GM_OBSERVER_COUNT; bit++) {
        gm_observers = 1u << bit;
        assert_false(gm_cache_put_newest(shard, record, true, block.address, &freed));
    }
    gm_observers = 0;
    assert_true(gm_cache_put_newest(shard, record, true, block.address, &freed));
    assert_int_equal(freed, size);
}

TEST(upkeep_comes_after_so_many_blocks) {
    size_t freed;
    open_cache("cache(4,sim)");
    struct gm_block block = get(4096);
    uint64_t context_id = context_of(CONTEXT(1)).id;
    assert_int_equal(try_give(&block, true), GM_OK);
    struct gm_shard *shard = gm_cache_my_shard(cache);
    for (int i = 0; i < 3; i++) { /* the first free counts */
        struct gm_block_record *record = gm_cache_take_newest(shard, context_id, 4096);
        assert_non_null(record);
        assert_int_equal(gm_cache_put_newest(shard, record, true, block.address, &freed), i < 2);
    }
}

/* A large block serves requests of its own number of pages, a small one requests of its class. */
TEST(a_larger_block_does_not_serve) {
    open_cache("cache(16,sim)");
    struct gm_block small = get(4096), large = get(8 * MIB);
    uint64_t context_id = context_of(CONTEXT(1)).id;
    assert_int_equal(try_give(&small, true), GM_OK);
    assert_int_equal(try_give(&large, true), GM_OK);
    struct gm_shard *shard = gm_cache_my_shard(cache);
    assert_null(gm_cache_take_newest(shard, context_id, 3584));
    assert_null(gm_cache_take_newest(shard, context_id, 6 * MIB));
    assert_non_null(gm_cache_take_newest(shard, context_id, 3585));
    struct gm_block_record *record = gm_cache_take_newest(shard, context_id, 6 * MIB + 1);
    assert_true(record && gm_record_address(record) == large.address);
}

int main(void) { return run_all(NULL, NULL); }
