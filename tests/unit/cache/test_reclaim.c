/* Free blocks that the cache releases: after a while, and when memory runs out. */
#include "scripted_driver.h"

TEST(a_failed_native_free_is_tried_again) {
    open_cache("cache(1,sim)");
    struct gm_block block = get(MIB);
    give(&block);
    all_complete();
    gm_sim_fail_free(maker, 1, CUDA_ERROR_UNKNOWN);
    assert_int_equal(cache->ops->trim(cache, SIZE_MAX), 0);
    assert_int_equal(gm_sim_live_count(maker), 1);
    assert_int_equal(cache->ops->trim(cache, SIZE_MAX), MIB);
    assert_int_equal(gm_sim_live_count(maker), 0);
}

TEST(out_of_memory_releases_all_blocks) {
    struct gm_block blocks[10];
    open_cache("cache(1,sim)");
    gm_sim_set_memory(maker, 100 * MIB);
    for (int i = 0; i < 10; i++)
        blocks[i] = get(6 * MIB);
    for (int i = 0; i < 10; i++)
        give(&blocks[i]); /* none is complete */
    get(80 * MIB);
    assert_true(fake.waits > 0);
    assert_int_equal(gm_sim_live_count(maker), 1);
    struct gm_block block;
    assert_int_equal(try_get(80 * MIB, &block), GM_OUT_OF_MEMORY);
}

/* Native frees in relaxed mode disturb no capture. They free blocks that were freed before and during the capture, with
 * complete and with pending fences. */
TEST(out_of_memory_in_a_capture_releases_all_blocks) {
    struct gm_block blocks[9], block;
    open_cache("cache(1,sim)");
    gm_sim_set_memory(maker, 100 * MIB);
    for (int i = 0; i < 9; i++)
        blocks[i] = get(10 * MIB);
    for (int i = 0; i < 6; i++) {
        fake.recorded_state = i < 3 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
        give(&blocks[i]);
    }
    gm_capture_begin(STREAM, false, CU_STREAM_CAPTURE_MODE_RELAXED);
    int records = fake.records, queries = fake.queries;
    for (int i = 6; i < 9; i++)
        give(&blocks[i]);
    assert_int_equal(try_get(95 * MIB, &block), GM_OK);
    assert_int_equal(gm_sim_live_count(maker), 1);
    assert_true(fake.records == records && fake.queries == queries && fake.mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_int_equal(try_get(95 * MIB, &block), GM_OUT_OF_MEMORY);
    gm_capture_end(STREAM, false);
}

TEST(later_frees_release_idle_blocks) {
    const struct timespec nap = {0, 900000000};
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block blocks[3] = {get(MIB), get(MIB), get(4096)};
    give(&blocks[0]);
    give(&blocks[1]);
    assert_true(get(MIB).hit); /* makes both ready, takes one */
    nanosleep(&nap, NULL);
    give(&blocks[2]);
    assert_false(get(MIB).hit);
    assert_int_equal(gm_sim_live_count(maker), 3);
}

TEST(idle_blocks_of_ended_threads_are_released) {
    const struct timespec nap = {0, 900000000};
    uint64_t begin = gm_now_ns();
    open_cache("cache(2,sim)");
    in_new_thread(leave_five, MIB); /* two batches with a fence, one without */
    all_complete();
    struct gm_block blocks[2] = {get(4096), get(4096)};
    for (int i = 0; i < 3; i++) {
        give(&blocks[0]);
        give(&blocks[1]);
        blocks[0] = get(4096);
        blocks[1] = get(4096);
        if (i == 0 &&
            gm_now_ns() - begin > IDLE_MS * 1000000ull) /* on a machine that stood still they were idle by then */
            skip();
        assert_int_equal(gm_sim_live_count(maker), (i == 0 ? 5 : 0) + 2);
        nanosleep(&nap, NULL);
    }
}

int main(void) { return run_all(load_options, NULL); }
