/* The limits of the cache: how many bytes of free blocks it holds, for one thread and for all. */
#include "shim/base/events.h"
#include "shim/accounts/limit.h"
#include "shim/accounts/loans.h"
#include "shim/accounts/stats.h"

#include "scripted_driver.h"

#include "shim/cache/parts.h"

/* GPUMEM_CACHE_LIMIT */
static void open_limited(size_t most) {
    open_cache("cache(1,sim)");
    ((struct gm_cache *)cache->state)->limit = most;
}

TEST(the_limit_holds) {
    struct gm_block blocks[40];
    open_limited(256 * MIB);
    fake.recorded_state = CUDA_SUCCESS;
    for (int i = 0; i < 40; i++)
        blocks[i] = get(10 * MIB + 2 * MIB * (size_t)(i / 20));
    for (int i = 0; i < 40; i++) {
        give(&blocks[i]);
        size_t alive = (size_t)(39 - i) * 12 * MIB;
        assert_true(gm_sim_live_bytes(maker) <= 256 * MIB + alive);
    }
    assert_true(gm_sim_live_bytes(maker) > 200 * MIB);
    for (int i = 0; i < 20; i++)
        assert_true(get(12 * MIB).hit); /* the latest are still free */
    assert_true(get(10 * MIB).hit);
    assert_false(get(10 * MIB).hit); /* the oldest were released */
}

static void lend(int device) {}

/* Where a thread gives memory back, large blocks may keep the whole device, else a quarter of it. */
TEST(two_thirds_of_the_device_are_reused) {
    struct gm_block blocks[68];
    gm_events.much_kept = lend;
    open_cache("cache(sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 68; i++) {
            blocks[i] = get(10 * MIB);
            assert_int_equal(blocks[i].hit, round > 0);
        }
        for (int i = 0; i < 68; i++)
            give(&blocks[i]);
    }
    gm_events.much_kept = NULL;
    assert_true(gm_sim_live_bytes(maker) == 680 * MIB);
}

/* Each phase has its own sizes: the memory owned stays near the largest live total. Even an idle context answers
 * `late`. */
static void change_sizes(int late) {
    open_cache("cache(sim)");
    fake.recorded_state = CUDA_SUCCESS;
    fake.late = late;
    for (size_t phase = 0; phase < 30; phase++)
        for (int round = 0; round < 3; round++) {
            struct gm_block blocks[10];
            for (int i = 0; i < 10; i++) {
                blocks[i] = get((512 << 10) + phase * 16384);
                if (round)
                    assert_true(gm_sim_live_bytes(maker) <= 10 * MIB / 4 * 5 + 64 * MIB + 10 * MIB);
            }
            for (int i = 0; i < 10; i++)
                give(&blocks[i]);
        }
}

TEST(changing_sizes_do_not_pile_up) { change_sizes(0); }
TEST(changing_sizes_do_not_pile_up_when_fences_answer_late) { change_sizes(3); }

/* After a trim of everything the target follows the blocks that live then. */
TEST(a_trim_forgets_the_peak) {
    struct gm_block small;
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block large = get(600 * MIB);
    give(&large);
    cache->ops->trim(cache, SIZE_MAX);
    assert_int_equal(gm_sim_live_bytes(maker), 0);
    for (size_t phase = 0; phase < 20; phase++) {
        small = get(20 * MIB + phase * 6 * MIB);
        assert_true(gm_sim_live_bytes(maker) <= 3 * 134 * MIB + 512 * MIB + 134 * MIB);
        give(&small);
    }
}

TEST(little_free_memory_means_no_free_blocks) {
    open_cache("cache(1,sim)");
    fake.free_bytes = 100 * MIB;
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block block = get(MIB);
    give(&block);
    assert_int_equal(gm_sim_live_count(maker), 0);
}

TEST(ended_threads_take_no_room) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (int i = 0; i < 40; i++)
        in_new_thread(leave_one, 4096);
    struct gm_block block = get(250 * MIB);
    give(&block);
    assert_true(get(250 * MIB).hit);
}

/* The free blocks of all threads together stay within the limit; the last freed ones stay. */
TEST(the_limit_holds_for_all_threads_together) {
    struct gm_block mine = {0};
    gm_limit_bytes = 4096 * MIB; /* exact sizes: no thread reuses what another left */
    open_limited(256 * MIB);
    gm_limit_bytes = 0;
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block large = get(1600 * MIB); /* so large that only the limit matters */
    struct gm_block live = get(200 * MIB);
    size_t used = live.reserved + large.reserved;
    for (size_t i = 0; i < 40; i++) {
        in_new_thread(leave_five, 10 * MIB + i * 4096);
        assert_true(gm_sim_live_bytes(maker) - used <= 256 * MIB);
        assert_true(gm_sim_live_bytes(maker) - used >= (i < 4 ? 50 * (i + 1) : 240) * MIB);
    }
    give(&live);
    assert_true(gm_sim_live_bytes(maker) - large.reserved <= 256 * MIB);
    mine = get(200 * MIB);
    assert_true(mine.address == live.address);
    assert_true(get(10 * MIB + 39 * 4096).hit);
    assert_true(get(10 * MIB + 39 * 4096).hit);
}

TEST(the_longest_unused_block_is_released_of_any_thread) {
    static const size_t sizes[] = {20, 24, 28, 32, 36};
    open_limited(100 * MIB);
    fake.recorded_state = CUDA_SUCCESS;
    for (int i = 0; i < 5; i++)
        in_new_thread(leave_one, sizes[i] * MIB);
    assert_true(gm_sim_live_bytes(maker) <= 100 * MIB);
    assert_true(get(36 * MIB).hit);
    assert_true(get(32 * MIB).hit);
    assert_false(get(20 * MIB).hit);
}

TEST(little_free_memory_empties_the_lists_of_all_threads) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (int i = 0; i < 5; i++)
        in_new_thread(leave_one, MIB << i);
    const struct timespec nap = {0, 110000000};
    nanosleep(&nap, NULL);
    fake.free_bytes = 100 * MIB;
    struct gm_block block = get(64 * MIB);
    give(&block);
    assert_int_equal(gm_sim_live_count(maker), 0);
}

int main(void) { return run_all(load_options, NULL); }
