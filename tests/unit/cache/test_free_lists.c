/* The free lists of the cache: which free block serves which request. */
#include "shim/accounts/limit.h"

#include "shim/accounts/stats.h"

#include "scripted_driver.h"

#include "shim/cache/parts.h"

TEST(reuses_only_what_is_complete) {
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

TEST(a_block_serves_its_size_and_context_only) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block block = get(1000), other;
    give(&block);
    assert_false(get(2000).hit);
    struct gm_request request = {.call = GM_CALL_ALLOC,
                                 .size = 1000,
                                 .context = (uint64_t)(uintptr_t)CONTEXT(2),
                                 .context_id = context_of(CONTEXT(2)).id};
    assert_int_equal(gm_resource_alloc(cache, &request, NULL, &other), GM_OK);
    assert_false(other.hit);
    other = get(1001); /* the same 512 bytes of the device */
    assert_true(other.hit && other.address == block.address && other.reserved == 1024);
}

/* A small block serves every request of its class, eight to a doubling. A large one serves requests of as many pages.
 */
TEST(a_block_serves_its_class) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block block = get(9 * MIB + 1), again;
    assert_int_equal(block.reserved, 10 * MIB);
    give(&block);
    again = get(10 * MIB);
    assert_true(again.hit && again.address == block.address && again.size == 10 * MIB);
    give(&again);
    assert_false(get(8 * MIB).hit);
    assert_true(get(8 * MIB + 4096).address == block.address);
    assert_int_equal(get(4097).reserved, 4608);
    assert_int_equal(get(MIB - 1).reserved, MIB);
    assert_int_equal(get(MIB).reserved, MIB);
    assert_int_equal(get(MIB + 1).reserved, 2 * MIB);
    assert_int_equal(get(300 * MIB + 1).reserved, 302 * MIB);
    block = get(100 << 10);
    assert_int_equal(block.reserved, 104 << 10);
    give(&block);
    assert_true(get((96 << 10) + 1).address == block.address);
}

/* The bin of many bytes has blocks of several sizes. */
TEST(other_sizes_of_a_bin_do_not_serve) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block block = get(256 * MIB), other;
    give(&block);
    other = get(272 * MIB);
    assert_true(!other.hit && other.reserved == 272 * MIB);
    give(&other);
    assert_false(get(270 * MIB).hit);
    assert_true(get(256 * MIB).address == block.address);
    assert_true(get(272 * MIB).address == other.address);
}

/* No live block holds more pages than a native one, whatever was freed before. */
TEST(a_larger_block_does_not_serve) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (size_t size = 8192; size <= 64 * MIB; size *= 4) {
        struct gm_block block = get(size);
        give(&block);
        assert_false(get(size / 2).hit);
    }
    for (size_t size = 2 * MIB; size <= 64 * MIB; size += 2 * MIB)
        assert_int_equal(get(size - 1000).reserved, size);
}

/* A program may fill a device with blocks that it keeps: what is rounded up stays small, and blocks beyond that serve
 * requests of just their size. */
static size_t rounded_up(size_t blocks, size_t size, size_t free_bytes) {
    size_t taken = 0;
    open_cache("cache(1,sim)");
    fake.free_bytes = free_bytes;
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block block = {0};
    for (size_t i = 0; i < blocks; i++) {
        block = get(size);
        taken += block.reserved - size;
    }
    assert_int_equal(block.reserved, size);
    give(&block);
    assert_false(get(size - 512).hit);
    assert_true(get(size).address == block.address);
    return taken;
}

TEST(little_is_rounded_up) {
    const size_t size = (96 << 10) + 512; /* the class has 104 KiB: 15 granules of 512 bytes more */
    assert_in_range(rounded_up(1000, size, 1000 * MIB), 1000 * MIB / 256 - 8192, 1000 * MIB / 256);
    assert_in_range(rounded_up(12000, size, (size_t)64 << 30), 64 * MIB - 8192, 64 * MIB);
}

/* What was rounded up is counted until the block is released, and no longer. */
TEST(rounding_ends_with_the_block) {
    const size_t size = (96 << 10) + 512;
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (int i = 0; i < 5000; i++) {
        struct gm_block block = get(size);
        assert_int_equal(block.reserved, 104 << 10);
        give(&block);
        cache->ops->trim(cache, SIZE_MAX);
    }
}

/* One of `live` blocks is replaced at a time, by one of a new size: free blocks serve nearly all requests, and the
 * memory owned stays near what the live blocks take. */
static void replace_at_random(unsigned live, size_t from, size_t to, double served) {
    enum { MOST = 4096, STEPS = 15000 };
    static struct gm_block blocks[MOST];
    uint64_t random = 1;
    unsigned hits = 0;
    size_t taken = 0, most = 0;
    open_cache("cache(sim)");
    fake.free_bytes = (size_t)64 << 30;
    ((struct gm_cache *)cache->state)->limit = (size_t)64 << 30;
    fake.recorded_state = CUDA_SUCCESS;
    for (unsigned i = 0; i < live + STEPS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        struct gm_block *block = &blocks[i < live ? i : (random >> 33) % live];
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t size = from + (random >> 20) % (to - from);
        if (i >= live) {
            give(block);
            taken -= block->reserved;
        }
        *block = get(size);
        hits += i >= live && block->hit;
        taken += block->reserved;
        most = taken > most ? taken : most;
        assert_true(gm_sim_live_bytes(maker) <= (to > MIB ? 3 * most + 512 * MIB : most / 4 * 5 + 64 * MIB) + 4 * MIB);
    }
    if (hits < served * STEPS)
        fail_msg("%u of %u served for %u live blocks of %zu to %zu bytes", hits, STEPS, live, from, to);
}

TEST(requests_of_new_sizes_are_served) {
    replace_at_random(64, 1 << 10, 4 * MIB, 0.98);
    replace_at_random(256, 1 << 10, 4 * MIB, 0.98);
    replace_at_random(256, MIB + 1, 4 * MIB, 0.98);
    replace_at_random(1024, 1 << 10, MIB, 0.95);
    replace_at_random(4096, 1 << 9, 64 << 10, 0.95);
    replace_at_random(256, 1 << 10, 64 << 10, 0.95);
    replace_at_random(64, 1 << 10, 8 * MIB, 0.98);
    replace_at_random(64, 1 << 10, 64 * MIB, 0.95);
}

TEST(large_blocks_do_not_rotate) {
    open_cache("cache(sim)");
    struct gm_block first = get(100 * MIB);
    for (int i = 0; i < 5; i++) {
        give(&first);
        assert_int_equal(fake.waits, i);
        assert_true(get(100 * MIB).address == first.address);
    }
    assert_int_equal(gm_sim_live_count(maker), 1);
}

TEST(pinned_blocks_are_freed_natively) {
    open_cache("cache(1,sim)");
    struct gm_block block = get(MIB);
    block.pinned_native = 1;
    give(&block);
    assert_int_equal(gm_sim_live_count(maker), 0);
    assert_int_equal(fake.records, 0);
    assert_false(cache->ops->keeps(cache, block.address));
}

TEST(knows_its_free_blocks) {
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

TEST(a_context_is_forgotten_without_the_driver) {
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
        GM_TELL(cache, context_destroyed, id);
        assert_true(fake.records == records && fake.queries == queries && !fake.waits);
        assert_int_equal(gm_sim_live_count(maker), 0);
        for (int i = 0; i < 18; i++)
            assert_false(cache->ops->keeps(cache, blocks[i].address));
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

int main(void) { return run_all(load_options, NULL); }
