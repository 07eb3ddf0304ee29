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
    for (unsigned bit = 0; bit < 6; bit++) {
        gm_observers = 1u << bit;
        assert_null(gm_cache_take_newest(shard, context_id, size, true));
    }
    gm_observers = 0;
    struct gm_block_record *record = gm_cache_take_newest(shard, context_id, size, true);
    assert_non_null(record);
    record->block.direct = 1;
    for (unsigned bit = 0; bit < 6; bit++) {
        gm_observers = 1u << bit;
        assert_false(gm_cache_put_newest(shard, record, true, true, block.address, &freed));
    }
    gm_observers = 0;
    assert_true(gm_cache_put_newest(shard, record, true, true, block.address, &freed));
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
        struct gm_block_record *record = gm_cache_take_newest(shard, context_id, 4096, true);
        assert_non_null(record);
        record->block.direct = 1;
        assert_int_equal(gm_cache_put_newest(shard, record, true, true, block.address, &freed), i < 2);
    }
}

/* Where its class has no ready block, a larger one serves a small request at once, unless blocks of the class wait. */
TEST(larger_blocks_serve_small_requests) {
    open_cache("cache(16,sim)");
    struct gm_block large = get(4096), larger = get(8192);
    uint64_t context_id = context_of(CONTEXT(1)).id;
    assert_int_equal(try_give(&larger, true), GM_OK);
    struct gm_shard *shard = gm_cache_my_shard(cache);
    assert_null(gm_cache_take_newest(shard, context_id, 3584, true)); /* 8192 is more than twice as large */
    assert_int_equal(try_give(&large, false), GM_OK);
    assert_null(gm_cache_take_newest(shard, context_id, 4096, true));
    struct gm_block_record *record = gm_cache_take_newest(shard, context_id, 4608, true);
    assert_true(record && gm_record_address(record) == larger.address);
}

int main(void) { return run_all(NULL, NULL); }
