/* Byte counters: ceiling, contexts, parallel threads. */
#include <pthread.h>

#include "tests/test.h"

#include "shim/resource/byte_counters.h"

static struct gm_byte_counters counters;

TEST(test_ceiling_and_contexts) {
    assert_true(gm_byte_counters_add(&counters, 1, 60, 100));
    assert_false(gm_byte_counters_add(&counters, 2, 41, 100));
    assert_true(gm_byte_counters_add(&counters, 2, 40, 100));
    assert_int_equal(gm_byte_counters_total(&counters), 100);
    gm_byte_counters_forget(&counters, 1);
    assert_int_equal(gm_byte_counters_total(&counters), 40);
    gm_byte_counters_subtract(&counters, 1, 60); /* freed after its context was destroyed */
    assert_int_equal(gm_byte_counters_total(&counters), 40);
    gm_byte_counters_subtract(&counters, 2, 40);
    assert_int_equal(gm_byte_counters_total(&counters), 0);
    assert_false(gm_byte_counters_add(&counters, 1, 200, 100));
    assert_false(gm_byte_counters_add(&counters, 1, UINT64_MAX, 100));
}

TEST(test_contexts_beyond_the_rows) {
    for (uint64_t id = 1; id <= GM_BYTE_COUNTERS_CONTEXTS; id++)
        assert_true(gm_byte_counters_add(&counters, id * 977, 10, UINT64_MAX));
    assert_false(gm_byte_counters_add(&counters, 5, 10, UINT64_MAX));
    gm_byte_counters_subtract(&counters, 977 * 3, 10);
    assert_true(gm_byte_counters_add(&counters, 5, 10, UINT64_MAX));
    for (uint64_t id = 1; id <= GM_BYTE_COUNTERS_CONTEXTS; id++)
        gm_byte_counters_forget(&counters, id * 977);
    assert_int_equal(gm_byte_counters_total(&counters), 10);
    gm_byte_counters_forget(&counters, 5);
    assert_int_equal(gm_byte_counters_total(&counters), 0);
}

static uint64_t highest;

static void *add_and_subtract(void *arg) {
    for (int i = 0; i < 20000; i++)
        if (gm_byte_counters_add(&counters, (uint64_t)(uintptr_t)arg, 30, 100)) {
            uint64_t total = gm_byte_counters_total(&counters), seen = __atomic_load_n(&highest, __ATOMIC_RELAXED);
            while (total > seen &&
                   !__atomic_compare_exchange_n(&highest, &seen, total, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                ;
            gm_byte_counters_subtract(&counters, (uint64_t)(uintptr_t)arg, 30);
        }
    return NULL;
}

TEST(test_threads_never_pass_together) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_and_subtract, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_true(highest >= 30 && highest <= 90);
    assert_int_equal(gm_byte_counters_total(&counters), 0);
}

int main(void) { return run_all(NULL, NULL); }
