/* The free lists of the cache: which free block serves which request. */
#include "shim/base/limit.h"

#include "shim/base/stats.h"

#include "scripted_driver.h"

static void reuses_only_what_is_complete(void **state) {
    open_cache("cache(1,sim)");
    struct gm_block first = get(MIB), second, third;
    assert_false(first.hit);
    give(&first);
    second = get(MIB);
    assert_true(second.address != first.address && !second.hit);
    assert_int_equal(fake.waits, 0);
    all_complete();
    third = get(MIB);
    assert_true(third.address == first.address && third.hit);
    assert_int_equal(gm_sim_live_count(maker), 2);
}

static void a_block_serves_its_size_and_context_only(void **state) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block block = get(1000), other;
    give(&block);
    assert_false(get(2000).hit);
    struct gm_request request = {.call = GM_CALL_ALLOC,
                                 .size = 1000,
                                 .context = (uint64_t)(uintptr_t)CONTEXT(2),
                                 .context_id = context_of(CONTEXT(2)).id};
    assert_int_equal(cache->ops->alloc(cache, &request, NULL, &other), GM_OK);
    assert_false(other.hit);
    other = get(1001); /* the same 512 bytes of the device */
    assert_true(other.hit && other.address == block.address && other.reserved == 1024);
}

/* Where no block of its size is ready, the smallest larger ready block serves that is at most twice as large. The block
 * keeps its own size. */
static void somewhat_larger_blocks_serve(void **state) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block small = get(3 * MIB), large = get(4 * MIB), got;
    give(&large);
    give(&small);
    assert_false(get(MIB + MIB / 2 - 512).hit); /* more than half of 3 MiB would be wasted */
    assert_false(get(5 * MIB).hit);
    got = get(2 * MIB + 1000);
    assert_true(got.hit && got.address == small.address && got.reserved == 3 * MIB && got.size == 2 * MIB + 1000);
    give(&got);
    got = get(3 * MIB);
    assert_true(got.hit && got.address == small.address);
    assert_true(get(3 * MIB).address == large.address);
    struct gm_block tiny = get(64);
    give(&tiny);
    assert_false(get(513).address == tiny.address);
    got = get(30 * MIB);
    give(&got);
    gm_limit_bytes = 1024 * MIB; /* GPUMEM_LIMIT counts the whole block */
    assert_false(get(29 * MIB).hit);
    gm_limit_bytes = 0;
    assert_true(get(29 * MIB).hit);
}

/* Live blocks that are larger than requested waste together an eighth of the memory owned at most. */
static void larger_blocks_waste_little_together(void **state) {
    struct gm_block blocks[8];
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (size_t i = 0; i < 8; i++)
        blocks[i] = get((10 + i) * MIB); /* 108 MiB */
    for (size_t i = 0; i < 8; i++)
        give(&blocks[i]);
    gm_stats->slack_bytes[cache->kind] = 13 * MIB; /* (108 + 48) / 8 = 19.5 */
    assert_true(get(6 * MIB).hit);
    gm_stats->slack_bytes[cache->kind] = 18 * MIB;
    assert_false(get(9 * MIB).hit); /* 11 MiB would waste more than an eighth of the request */
    assert_true(get(10 * MIB).hit); /* 11 MiB wastes less */
    gm_stats->slack_bytes[cache->kind] = 0;
}

static void larger_blocks_serve_only_when_complete(void **state) {
    open_cache("cache(1,sim)");
    struct gm_block block = get(3 * MIB);
    give(&block);
    assert_false(get(2 * MIB).hit);
    all_complete();
    assert_true(get(2 * MIB).address == block.address);
    assert_int_equal(fake.waits, 0);
}

/* Each request has a new size: free blocks serve most of them, and the memory owned stays near the largest live total.
 */
static void requests_of_new_sizes_are_served(void **state) {
    enum { LIVE = 64, STEPS = 4000 };
    static struct gm_block blocks[LIVE];
    unsigned random = 1, hits = 0;
    size_t live = 0, most = 0;
    open_cache("cache(sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (int i = 0; i < STEPS; i++) {
        random = random * 1664525u + 1013904223u;
        struct gm_block *block = &blocks[i < LIVE ? (unsigned)i : random >> 8 & (LIVE - 1)];
        random = random * 1664525u + 1013904223u;
        size_t size = ((size_t)32 << (random >> 28)) * (16 + (random >> 8 & 15)) + 1; /* up to 32 MiB */
        if (i >= LIVE) {
            give(block);
            live -= block->size;
        }
        *block = get(size);
        hits += i >= STEPS / 2 && block->hit;
        live += size;
        most = live > most ? live : most;
        assert_true(gm_sim_live_bytes(maker) <= most / 4 * 7 + 100 * MIB);
    }
    assert_true(hits > STEPS / 2 * 8 / 10);
}

static void large_blocks_do_not_rotate(void **state) {
    open_cache("cache(sim)");
    struct gm_block first = get(100 * MIB);
    for (int i = 0; i < 5; i++) {
        give(&first);
        assert_int_equal(fake.waits, i);
        assert_true(get(100 * MIB).address == first.address);
    }
    assert_int_equal(gm_sim_live_count(maker), 1);
}

static void pinned_blocks_are_freed_natively(void **state) {
    open_cache("cache(1,sim)");
    struct gm_block block = get(MIB);
    block.pinned_native = 1;
    give(&block);
    assert_int_equal(gm_sim_live_count(maker), 0);
    assert_int_equal(fake.records, 0);
}

static void knows_its_free_blocks(void **state) {
    enum { COUNT = 1000 };
    static struct gm_block blocks[COUNT];
    open_cache("cache(sim)");
    for (int i = 0; i < COUNT; i++)
        blocks[i] = get(512 * (size_t)(1 + i % 7));
    for (int i = 0; i < COUNT / 2; i++)
        give(&blocks[i]);
    for (int i = 0; i < COUNT; i++)
        assert_true(cache->ops->keeps(cache, blocks[i].address) == (i < COUNT / 2));
    assert_false(cache->ops->keeps(cache, blocks[0].address + 256));
    for (int i = COUNT / 2; i < COUNT; i++) {
        give(&blocks[i]);
        assert_true(cache->ops->keeps(cache, blocks[i].address));
    }
    all_complete();
    for (int i = 0; i < COUNT; i++) {
        struct gm_block again = get(512 * (size_t)(1 + i % 7));
        assert_false(cache->ops->keeps(cache, again.address));
    }
    cache->ops->trim(cache, SIZE_MAX);
    for (int i = 0; i < COUNT; i++)
        assert_false(cache->ops->keeps(cache, blocks[i].address));
}

static void a_context_is_forgotten_without_the_driver(void **state) {
    struct gm_block blocks[20];
    for (int round = 0; round < 3; round++) {
        open_cache("cache(4,sim)");
        for (int i = 0; i < 20; i++)
            blocks[i] = get(4096 * (size_t)(1 + i % 3));
        for (int i = 0; i < 18; i++)
            give(&blocks[i]);
        int records = fake.records, queries = fake.queries;
        uint64_t id;
        assert_true(gm_context_end(CONTEXT(1), &id));
        cache->ops->context_destroyed(cache, id);
        assert_true(fake.records == records && fake.queries == queries && !fake.waits);
        assert_int_equal(gm_sim_live_count(maker), 0);
        all_complete();
        struct gm_block block = get(4096);
        assert_false(block.hit);
        uintptr_t made = fake.made;
        for (int i = 0; i < 4; i++)
            give(&(struct gm_block){.address = block.address + (uint64_t)i,
                                    .size = 1,
                                    .reserved = 512,
                                    .owner = cache,
                                    .context_id = block.context_id,
                                    .context = block.context,
                                    .call = GM_CALL_ALLOC,
                                    .kind = GM_KIND_CACHE});
        assert_int_equal(fake.made, made + 1); /* no event of the old context is used again */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reuses_only_what_is_complete),
        cmocka_unit_test(a_block_serves_its_size_and_context_only),
        cmocka_unit_test(somewhat_larger_blocks_serve),
        cmocka_unit_test(larger_blocks_waste_little_together),
        cmocka_unit_test(larger_blocks_serve_only_when_complete),
        cmocka_unit_test(requests_of_new_sizes_are_served),
        cmocka_unit_test(large_blocks_do_not_rotate),
        cmocka_unit_test(pinned_blocks_are_freed_natively),
        cmocka_unit_test(knows_its_free_blocks),
        cmocka_unit_test(a_context_is_forgotten_without_the_driver),
    };
    return cmocka_run_group_tests(tests, load_options, NULL);
}
