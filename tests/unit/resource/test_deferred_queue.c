/* The queue of deferred blocks: order, growth, blocks put back. */

#include "tests/test.h"

#include "shim/resource/deferred_queue.h"

static struct gm_deferred_queue queue;

static void push(uint64_t address) {
    struct gm_deferred_block deferred = {.address = address, .size = 10};
    assert_int_equal(gm_deferred_queue_push(&queue, &deferred), GM_OK);
}

TEST(test_oldest_first_beyond_a_page) {
    struct gm_deferred_block deferred;
    enum { COUNT = 5000 };
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 1; i <= COUNT; i++)
            push(i);
        assert_int_equal(gm_deferred_queue_count(&queue), COUNT);
        assert_int_equal(gm_deferred_queue_bytes(&queue), COUNT * 10);
        for (uint64_t i = 1; i <= COUNT; i++) {
            assert_true(gm_deferred_queue_pop(&queue, &deferred));
            assert_int_equal(deferred.address, i);
        }
        assert_false(gm_deferred_queue_pop(&queue, &deferred));
        assert_int_equal(gm_deferred_queue_bytes(&queue), 0);
    }
}

TEST(test_put_back) {
    struct gm_deferred_block deferred;
    push(1);
    push(2);
    assert_true(gm_deferred_queue_pop(&queue, &deferred));
    gm_deferred_queue_unpop(&queue, &deferred);
    for (uint64_t i = 1; i <= 2; i++) {
        assert_true(gm_deferred_queue_pop(&queue, &deferred));
        assert_int_equal(deferred.address, i);
    }
    gm_deferred_queue_unpop(&queue, &deferred); /* into the empty queue */
    push(3);
    assert_true(gm_deferred_queue_pop(&queue, &deferred));
    assert_true(gm_deferred_queue_pop(&queue, &deferred));
    assert_int_equal(deferred.address, 3);
}

int main(void) { return run_all(NULL, NULL); }
