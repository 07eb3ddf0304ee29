/* The window in which an address is in new hands before the old free has returned, and threads that hand addresses
 * around. */
#include "pipeline_world.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

static void *give_in_thread(void *arg) {
    uint64_t address = (uint64_t)(uintptr_t)arg;
    return give(address) == GM_OK ? arg : NULL;
}

static void await_held(void) {
    while (!__atomic_load_n(&door.held, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void begin_delayed(const char *name) {
    memset(&door, 0, sizeof door);
    delaying.upstream = build("sim");
    delaying.properties = sim->properties;
    delaying.kind = sim->kind;
    begin_test(name, &delaying);
}

void test_reuse_while_the_free_is_under_way(void **state) {
    struct gpumem_block block = {.struct_size = sizeof block};
    pthread_t thread;
    uint64_t old, fresh;
    void *done;
    begin_delayed("window");
    assert_int_equal(get(7000, &old), GM_OK);
    door.hold_free = 1;
    assert_int_equal(pthread_create(&thread, NULL, give_in_thread, (void *)(uintptr_t)old), 0);
    await_held();
    assert_int_equal(gpumem_live_count(), 0); /* forgotten before it was freed */
    assert_int_equal(get(6999, &fresh), GM_OK);
    assert_true(fresh == old);
    __atomic_store_n(&door.go_on, 1, __ATOMIC_RELEASE);
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_int_equal(gpumem_block_of((void *)(uintptr_t)fresh, &block),
                     GPUMEM_OK); /* the late end of the old free took nothing away */
    assert_int_equal(block.size, 6999);
    assert_int_equal(totals().released[GM_KIND_SIM], 0); /* and nothing looked stale */
    assert_int_equal(live_on_devices(), 6999);
    assert_int_equal(give(fresh), GM_OK);
    check_balance();
}

/* An allocation that has its memory but has not returned is nobody's yet: not found, not counted. */
static void *get_in_thread(void *arg) { return get(512, arg) == GM_OK ? arg : NULL; }

void test_remembered_only_after_it_was_got(void **state) {
    pthread_t thread;
    uint64_t address = 0;
    void *done;
    begin_delayed("window_of_alloc");
    door.hold_alloc = 1;
    assert_int_equal(pthread_create(&thread, NULL, get_in_thread, &address), 0);
    await_held();
    assert_int_equal(gm_sim_live_count(sim), 1);
    assert_int_equal(gpumem_live_count(), 0);
    assert_int_equal(live_on_devices(), 0);
    __atomic_store_n(&door.go_on, 1, __ATOMIC_RELEASE);
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_int_equal(gpumem_live_count(), 1);
    assert_int_equal(give(address), GM_OK);
    check_balance();
}

/* Eight threads hand the same few addresses around as fast as they can. */

static void *churn(void *arg) {
    uintptr_t wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t a, b;
        if (get(512, &a) != GM_OK || get(512 + (i & 3) * 512, &b) != GM_OK)
            return (void *)1;
        wrong += give(a) != GM_OK;
        wrong += give(b) != GM_OK;
    }
    return (void *)wrong;
}

void test_threads_on_few_addresses(void **state) {
    pthread_t threads[THREADS];
    begin_test("churn", build("limit(1GiB,sim)"));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    struct gm_stats_shard sum = totals();
    assert_int_equal(sum.allocs[GM_KIND_SIM], 2 * THREADS * ROUNDS);
    assert_int_equal(sum.frees[GM_KIND_SIM], 2 * THREADS * ROUNDS);
    assert_int_equal(sum.unknown_frees, 0);
    assert_int_equal(sum.released[GM_KIND_SIM], 0);
    assert_int_equal(sum.temporary,
                     THREADS * ROUNDS); /* of each pair the second: its own free comes after the first one's */
    assert_int_equal(told.decided, 2 * THREADS * ROUNDS);
    assert_int_equal(told.freed, 2 * THREADS * ROUNDS);
    assert_true(sum.time_ns > 0);
    assert_int_equal(live_on_devices(), 0);
    assert_int_equal(gm_sim_live_count(sim), 0);
    check_balance();
}
