/* The fences of the cache: how many frees share one, which contexts it covers, who waits for it, and what an error of
 * it means. */
#include "scripted_driver.h"

#include "shim/cache/timeline.h"

TEST(one_record_and_one_query_for_a_batch) {
    struct gm_block blocks[8];
    open_cache("cache(8,sim)");
    for (int i = 0; i < 8; i++)
        blocks[i] = get(4096);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(fake.records, 0);
        give(&blocks[i]);
    }
    assert_int_equal(fake.records, 1);
    all_complete();
    fake.queries = 0;
    for (int i = 0; i < 8; i++)
        assert_true(get(4096).hit);
    assert_int_equal(fake.queries, 1);
    assert_int_equal(fake.records, 1); /* never inside an allocation */
    assert_false(get(4096).hit);
}

TEST(bytes_close_a_batch) {
    open_cache("cache(100,sim)");
    struct gm_block blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = get(4 * MIB);
    for (int i = 0; i < 4; i++)
        give(&blocks[i]);
    assert_int_equal(fake.records, 1); /* at the third: 12 MiB */
}

TEST(batches_are_as_large_after_many_threads) {
    struct gm_block blocks[6];
    open_cache("cache(100,sim)");
    for (int i = 0; i < 20; i++)
        in_new_thread(leave_one, 4096);
    for (int i = 0; i < 6; i++)
        blocks[i] = get(MIB);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(fake.records, 0);
        give(&blocks[i]);
    }
    assert_int_equal(fake.records, 1);
}

TEST(all_batches_together_are_bounded) {
    open_cache("cache(100,sim)");
    get(400 * MIB); /* so the free blocks stay within the target, and no request looks for one in another way */
    for (int i = 0; i < 15; i++)
        in_new_thread(leave_five, MIB);
    /* 64 MiB without a fence at the 13th: fewer than one for each thread. How many depends on what is found passed. */
    assert_in_range(fake.records, 2, 12);
    int records = fake.records;
    in_new_thread(leave_five, MIB);
    in_new_thread(leave_five, MIB);
    assert_true(fake.records > records);
}

static void leave_one_in_a_thread(void) { in_new_thread(leave_one, 8192); }

/* The fence that is recorded now may not cover what other threads submitted meanwhile. The next one does. */
TEST(a_batch_closed_during_a_record_waits_for_the_next) {
    open_cache("cache(1,sim)");
    struct gm_block block = get(4096);
    fake.during_record = leave_one_in_a_thread;
    give(&block);
    assert_int_equal(fake.records, 1); /* the other thread did not wait for its turn */
    all_complete();
    fake.recorded_state = CUDA_ERROR_NOT_READY;
    assert_true(get(4096).hit);
    assert_false(get(8192).hit);
    assert_int_equal(fake.records, 2);
    all_complete();
    assert_true(get(8192).hit);
    assert_int_equal(fake.records, 2);
}

static void leave_one_in_two_threads(void) {
    leave_one_in_a_thread();
    leave_one_in_a_thread();
}

TEST(one_fence_serves_the_batches_of_many_threads) {
    open_cache("cache(1,sim)");
    struct gm_block block = get(4096), next = get(4096);
    fake.during_record = leave_one_in_two_threads;
    give(&block);
    give(&next);
    assert_int_equal(fake.records, 2);
    all_complete();
    assert_true(get(8192).hit);
    assert_true(get(8192).hit);
    assert_int_equal(fake.records, 2);
}

/* The work of so many batches never ends. Later ones get a fence when one of theirs is complete. */
TEST(fences_are_reused_when_they_are_complete) {
    struct gm_block blocks[GM_TIMELINE_FENCES + 2];
    open_cache("cache(1,sim)");
    for (int i = 0; i < GM_TIMELINE_FENCES + 2; i++)
        blocks[i] = get(4096);
    for (int i = 0; i < GM_TIMELINE_FENCES + 2; i++)
        give(&blocks[i]);
    assert_int_equal(fake.records, GM_TIMELINE_FENCES);
    assert_false(get(4096).hit);
    all_complete();
    for (int i = 0; i < GM_TIMELINE_FENCES + 2; i++)
        assert_true(get(4096).hit);
    assert_in_range(fake.records, GM_TIMELINE_FENCES + 1, GM_TIMELINE_FENCES + 2);
}

TEST(settled_blocks_are_ready_without_a_fence) {
    open_cache("cache(4,sim)");
    for (int i = 1; i <= 3; i++) {
        struct gm_block block = get(MIB);
        assert_int_equal(block.hit, i > 1);
        assert_int_equal(try_give(&block, true), GM_OK);
    }
    assert_int_equal(fake.records + fake.queries + fake.waits, 0);
}

/* Otherwise idle blocks would never be released, and blocks of earlier frees would wait for a fence that nobody
 * records. */
TEST(settled_frees_close_batches_too) {
    open_cache("cache(4,sim)");
    struct gm_block pending = get(2 * MIB);
    give(&pending);
    assert_false(get(2 * MIB).hit);
    for (int i = 0; i < 4; i++) {
        struct gm_block block = get(MIB);
        assert_int_equal(try_give(&block, true), GM_OK);
    }
    assert_int_equal(fake.records, 1);
    all_complete();
    assert_true(get(2 * MIB).hit);
}

TEST(an_error_of_the_record_is_the_frees_own) {
    struct gm_block blocks[4];
    open_cache("cache(3,sim)");
    for (int i = 0; i < 4; i++)
        blocks[i] = get(MIB);
    give(&blocks[0]);
    give(&blocks[1]);
    fake.record_answer = CUDA_ERROR_ILLEGAL_ADDRESS;
    gm_sim_fail_free(maker, 1, CUDA_ERROR_ILLEGAL_ADDRESS); /* the driver's error for the free itself */
    assert_int_equal(try_give(&blocks[2], false), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(gm_sim_live_count(maker), 2); /* the two others were freed upstream */
    fake.record_answer = CUDA_SUCCESS;
    all_complete();
    give(&blocks[2]);
    give(&blocks[3]);
    assert_int_equal(gm_sim_live_count(maker), 0); /* no block becomes a free block any more */
    assert_false(get(MIB).hit);
}

TEST(an_error_of_a_query_disables_the_cache) {
    open_cache("cache(1,sim)");
    struct gm_block block = get(MIB), other = get(4096);
    give(&block);
    for (int i = 0; i < EVENTS; i++)
        fake.events[i] = CUDA_ERROR_UNKNOWN;
    assert_false(get(MIB).hit);
    all_complete();
    assert_false(get(MIB).hit);
    assert_int_equal(gm_sim_live_count(maker), 4);
    give(&other); /* also frees the free blocks */
    assert_int_equal(gm_sim_live_count(maker), 2);
}

TEST(without_context_events_nothing_is_reused) {
    open_cache("cache(1,sim)");
    gm_drv.ctx_record_event = NULL;
    struct gm_block block = get(MIB);
    give(&block);
    assert_int_equal(gm_sim_live_count(maker), 0);
}

TEST(frees_of_a_capture_are_fenced_after_it) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block blocks[6], ready[3] = {get(4096), get(4096), get(4096)};
    for (int i = 0; i < 6; i++)
        blocks[i] = get(MIB);
    for (int i = 0; i < 3; i++)
        give(&ready[i]); /* each queries the fence of the one before */
    get(4096);
    int records = fake.records, queries = fake.queries, exchanges = fake.exchanges;
    gm_capture_begin(STREAM, false, CU_STREAM_CAPTURE_MODE_RELAXED);
    for (int i = 0; i < 4; i++)
        give(&blocks[i]);
    assert_true(get(4096).hit); /* was ready before the capture */
    assert_false(get(MIB).hit); /* freed during the capture */
    give(&blocks[4]);
    assert_true(fake.records == records && fake.queries == queries && fake.exchanges == exchanges && !fake.waits);
    gm_capture_end(STREAM, false);
    assert_false(get(MIB).hit); /* still without a fence */
    give(&blocks[5]);
    assert_int_equal(fake.records, records + 1);
    for (int i = 0; i < 6; i++)
        assert_true(get(MIB).hit);
}

TEST(fences_cover_peers_of_the_device) {
    open_cache("cache(1,sim)");
    struct gm_block block = get(MIB), other = get(MIB);
    struct gm_context peer = context_of(CONTEXT(5));
    gm_context_note_reach(0, &peer);
    give(&block);
    assert_int_equal(fake.records, 2);
    fake.events[1] = CUDA_SUCCESS; /* the owner's work is done, the peer's is not */
    assert_false(get(MIB).hit);
    all_complete();
    assert_true(get(MIB).hit);
    uint64_t id;
    assert_true(gm_context_end(CONTEXT(5), &id));
    give(&other);
    assert_int_equal(fake.records, 3);
}

/* A peer's kernel may wait for what this thread submits next. */
TEST(nobody_waits_for_a_peer) {
    struct gm_block blocks[4];
    uint64_t id;
    open_cache("cache(1,sim)");
    struct gm_context peer = context_of(CONTEXT(6));
    gm_context_note_reach(0, &peer);
    for (int i = 0; i < 4; i++)
        blocks[i] = get(8 * MIB);
    for (int i = 0; i < 4; i++)
        give(&blocks[i]);
    assert_false(
        get(8 * MIB).hit); /* more bytes wait for their fences than allowed, but the work of the peer is not done */
    int of_peer = 0;
    for (uintptr_t event = 1; event <= fake.made; event++)
        if (fake.event_context[event] == CONTEXT(6)) {
            assert_int_equal(fake.events[event], CUDA_ERROR_NOT_READY);
            of_peer++;
        }
    assert_true(of_peer > 0);
    assert_int_equal(fake.waits, 1);
    all_complete();
    assert_true(get(8 * MIB).hit);
    assert_true(gm_context_end(CONTEXT(6), &id));
    assert_true(get(8 * MIB).hit);
}

static void *alloc_elsewhere(void *size) {
    struct gm_block block;
    return (void *)(uintptr_t)(try_get((size_t)(uintptr_t)size, &block) == GM_OK && !block.hit);
}

TEST(waits_only_for_an_own_free) {
    struct gm_block blocks[3];
    pthread_t thread;
    void *was_native;
    open_cache("cache(1,sim)");
    for (int i = 0; i < 3; i++)
        blocks[i] = get(8 * MIB);
    for (int i = 0; i < 3; i++)
        give(&blocks[i]);
    assert_int_equal(pthread_create(&thread, NULL, alloc_elsewhere, (void *)(uintptr_t)(8 * MIB)), 0);
    pthread_join(thread, &was_native);
    assert_non_null(was_native);
    assert_int_equal(fake.waits, 0);
    struct gm_block block = get(8 * MIB); /* 24 MiB wait for their fences */
    assert_int_equal(fake.waits, 1);
    assert_true(block.hit && block.address == blocks[0].address);
}

/* A thread waits for a fence while another one finds a later fence complete. */
static struct gm_fence_timeline *line;

static void find_the_second_complete(void) {
    struct gm_visit visit = {.record = 2, .query = 2};
    all_complete();
    gm_timeline_visit(line, &visit);
    assert_int_equal(visit.answer, GM_OK);
}

TEST(a_fence_that_has_passed_stays_so) {
    struct gm_fence_timelines lines = {.reach = GM_FENCE_ACCESS};
    open_cache("cache(1,sim)");
    struct gm_context context = context_of(CONTEXT(1));
    line = gm_timeline_use(&lines, (uint64_t)(uintptr_t)context.handle, context.id, 0);
    assert_non_null(line);
    for (uint64_t ticket = 1; ticket <= 2; ticket++) {
        struct gm_visit visit = {.record = ticket};
        gm_timeline_visit(line, &visit);
        assert_int_equal(visit.recorded, GM_OK);
    }
    fake.during_wait = find_the_second_complete;
    assert_int_equal(gm_timeline_wait(line, 1), GM_OK);
    assert_int_equal(fake.waits, 1);
    assert_true(gm_timeline_has_passed(line, 2));
    gm_timeline_leave(line);
}

int main(void) { return run_all(load_options, NULL); }
