/* Ranges of guarded blocks on invented addresses: apart from each other, found again by any address, and handed out
 * again in the order of their frees. */

#include "tests/test.h"

#include "shim/resource/guard_ranges.h"

#define MIB    ((uint64_t)1 << 20)
#define BUDGET (256 * MIB) /* 64 places, of which the first stays unused */
enum { PLACES = 63 };

static uint64_t next_address = (uint64_t)1 << 40, refused;

static uint64_t reserve(size_t bytes) {
    if (bytes > refused && refused)
        return 0;
    uint64_t address = next_address;
    next_address += bytes + ((uint64_t)1 << 42);
    return address;
}

static uint64_t live(size_t size, uint32_t site) {
    size_t mapped = (size + GM_GUARD_GRANULE - 1) / GM_GUARD_GRANULE * GM_GUARD_GRANULE;
    uint64_t mapping = gm_guard_range_take(mapped);
    if (!mapping)
        return 0;
    struct gm_guard_block block = {.address = mapping + mapped - (size + 511) / 512 * 512,
                                   .size = size,
                                   .mapping = mapping,
                                   .mapped = mapped,
                                   .allocated_at = site};
    gm_guard_range_live(&block);
    return block.address;
}

static void end(uint64_t address, uint32_t site) {
    struct gm_guard_block block;
    assert_true(gm_guard_range_freed(address, site, false));
    assert_true(gm_guard_at(address, &block));
    assert_int_equal(block.state, GM_GUARD_FREED);
    gm_guard_range_release(block.mapping);
}

static void expect(uint64_t address, uint32_t site, enum gm_guard_state state) {
    struct gm_guard_block block = {0};
    assert_true(gm_guard_find(address, &block));
    assert_int_equal(block.allocated_at, site);
    assert_int_equal(block.state, state);
}

/* The first test: no arena exists yet. */
TEST(test_found_by_any_address) {
    struct gm_guard_block block;
    assert_int_equal(gm_guard_range_take(GM_GUARD_GRANULE), 0);
    gm_guard_ranges_setup(BUDGET, reserve);
    assert_false(gm_guard_covers((uint64_t)1 << 40));
    uint64_t one = live(1000, 1), two = live(5 * MIB, 2), three = live(1000, 3);
    assert_int_equal(gm_guard_arenas(), 1);
    assert_true(gm_guard_covers(one) && gm_guard_covers(three));
    assert_int_equal(one % 512, 0);
    for (uint64_t offset = 0; offset < 1000; offset += 333)
        expect(one + offset, 1, GM_GUARD_LIVE);
    expect(one - 1, 1, GM_GUARD_LIVE);
    expect(one + 1000, 1, GM_GUARD_LIVE);
    expect(one + 1000 + MIB, 1, GM_GUARD_LIVE);
    expect(two - 1, 2, GM_GUARD_LIVE);
    /* Before the mapping of a block, which begins 1 MiB before it: nearer to it than to the block before. */
    expect(two - MIB - 16, 2, GM_GUARD_LIVE);
    expect(two - MIB - GM_GUARD_GRANULE + 16, 1, GM_GUARD_LIVE);
    expect(two + 5 * MIB + 3 * MIB, 2, GM_GUARD_LIVE);
    expect(three - 16, 3, GM_GUARD_LIVE);
    end(two, 7);
    expect(two + 100, 2, GM_GUARD_FREED);
    assert_true(gm_guard_at(two, &block));
    assert_int_equal(block.freed_at, 7);
    assert_false(gm_guard_at(two + 1, &block));
    assert_false(gm_guard_range_freed(two, 8, false)); /* twice */
    assert_false(gm_guard_find(12, &block));
    end(one, 7);
    end(three, 7);
}

TEST(test_neighbours_are_apart) {
    uint64_t blocks[8];
    struct gm_guard_block block[8];
    for (unsigned i = 0; i < 8; i++) {
        blocks[i] = live(i % 2 ? 3 * MIB : 100, i);
        assert_true(gm_guard_at(blocks[i], &block[i]));
        for (unsigned j = 0; j < i; j++) {
            uint64_t low = block[i].mapping < block[j].mapping ? i : j, high = low == i ? j : i;
            assert_true(block[low].mapping + block[low].mapped + GM_GUARD_GRANULE <= block[high].mapping);
        }
    }
    for (unsigned i = 0; i < 8; i++)
        end(blocks[i], 0);
}

TEST(test_the_oldest_comes_back_first) {
    uint64_t first = 0, before = 0;
    for (unsigned round = 0; round < 3 * PLACES; round++) {
        uint64_t address = live(100, round);
        assert_true(address != 0 && address != before);
        end(address, round);
        if (!round)
            first = address;
        if (round && round < PLACES)
            assert_true(address != first);
        if (round == PLACES)
            assert_true(address == first);
        before = address;
    }
    assert_int_equal(gm_guard_arenas(), 1);
}

/* A freed block whose range was taken partly is forgotten as a whole. */
TEST(test_reuse_by_another_size) {
    uint64_t large[7], small[PLACES];
    struct gm_guard_block block;
    unsigned count = 0;
    for (unsigned i = 0; i < 7; i++)
        assert_true((large[i] = live(16 * MIB, 100 + i)) != 0); /* 8 places each */
    assert_true(live(16 * MIB, 0) == 0);
    for (unsigned i = 0; i < 7; i++)
        end(large[i], 0);
    while (count < PLACES && (small[count] = live(100, count)) != 0)
        count++;
    assert_int_equal(count, PLACES);
    assert_true(live(100, 0) == 0);
    for (unsigned i = 0; i < 7; i++)
        assert_true(!gm_guard_at(large[i], &block) || block.allocated_at != 100 + i);
    for (unsigned i = 0; i < PLACES; i++) {
        expect(small[i] + 3, i, GM_GUARD_LIVE);
        end(small[i], 0);
    }
}

static void count_one(const struct gm_guard_block *block, void *count) { ++*(unsigned *)count; }

TEST(test_each_live_block_once) {
    unsigned count = 0;
    uint64_t one = live(100, 1), two = live(9 * MIB, 2);
    gm_guard_each(count_one, &count);
    assert_int_equal(count, 2);
    end(one, 0);
    assert_true(gm_guard_range_freed(two, 0, false));
    gm_guard_range_revive(two);
    count = 0;
    gm_guard_each(count_one, &count);
    assert_int_equal(count, 1);
    end(two, 0);
}

TEST(test_child_has_none) {
    uint64_t address = live(100, 1);
    gm_guard_ranges_after_fork();
    assert_false(gm_guard_covers(address));
    assert_int_equal(live(100, 1), 0);
}

int main(void) { return run_all(NULL, NULL); }
