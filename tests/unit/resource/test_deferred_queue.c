#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shim/resource/deferred_queue.h"

static struct gm_parking parking;

static void push(uint64_t address, uint64_t context_id, void *event, uint64_t event_context_id) {
    struct gm_parked parked = {.address = address, .context_id = context_id, .size = 10, .event = event,
                               .event_context_id = event_context_id};
    assert_int_equal(gm_parking_push(&parking, &parked), GM_OK);
}

static void test_oldest_first_beyond_a_page(void **state) {
    struct gm_parked parked;
    enum { COUNT = 5000 };
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 1; i <= COUNT; i++)
            push(i, 1, NULL, 0);
        assert_int_equal(gm_parking_count(&parking), COUNT);
        assert_int_equal(gm_parking_bytes(&parking), COUNT * 10);
        for (uint64_t i = 1; i <= COUNT; i++) {
            assert_true(gm_parking_pop(&parking, &parked));
            assert_int_equal(parked.address, i);
        }
        assert_false(gm_parking_pop(&parking, &parked));
        assert_int_equal(gm_parking_bytes(&parking), 0);
    }
}

static void test_put_back(void **state) {
    struct gm_parked parked;
    push(1, 1, NULL, 0);
    push(2, 1, NULL, 0);
    assert_true(gm_parking_pop(&parking, &parked));
    gm_parking_unpop(&parking, &parked);
    for (uint64_t i = 1; i <= 2; i++) {
        assert_true(gm_parking_pop(&parking, &parked));
        assert_int_equal(parked.address, i);
    }
    gm_parking_unpop(&parking, &parked); /* into the empty queue */
    push(3, 1, NULL, 0);
    assert_true(gm_parking_pop(&parking, &parked));
    assert_true(gm_parking_pop(&parking, &parked));
    assert_int_equal(parked.address, 3);
}

static void test_forgets_contexts(void **state) {
    struct gm_parked parked;
    int event;
    push(1, 1, NULL, 0);
    push(2, 2, &event, 1); /* its block lives, its event went */
    push(3, 1, &event, 1);
    gm_parking_forget(&parking, 1);
    assert_int_equal(gm_parking_count(&parking), 1);
    push(4, 2, &event, 2);
    assert_true(gm_parking_pop(&parking, &parked));
    assert_int_equal(parked.address, 2);
    assert_null(parked.event);
    assert_true(gm_parking_pop(&parking, &parked));
    assert_ptr_equal(parked.event, &event);
    assert_int_equal(gm_parking_bytes(&parking), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oldest_first_beyond_a_page),
        cmocka_unit_test(test_put_back),
        cmocka_unit_test(test_forgets_contexts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
