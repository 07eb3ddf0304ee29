/* Tests of the moment in which an address already has a new owner while the old free has not returned, and of
 * threads that exchange addresses. */
#include "pipeline_world.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#ifdef GM_HAVE_CUDA
#include "shim/resource/reach.h"
#endif

static void *give_in_thread(void *arg) {
    uint64_t address = (uint64_t)(uintptr_t)arg;
    return give(address) == GM_OK ? arg : NULL;
}

static void wait_until_stopped(void) {
    while (!__atomic_load_n(&delay.held, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void begin_delayed(const char *name) {
    memset(&delay, 0, sizeof delay);
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
    delay.hold_free = 1;
    assert_int_equal(pthread_create(&thread, NULL, give_in_thread, (void *)(uintptr_t)old), 0);
    wait_until_stopped();
    assert_int_equal(gpumem_live_count(), 0); /* it left the registry before it was freed */
    assert_int_equal(get(6999, &fresh), GM_OK);
    assert_true(fresh == old);
    __atomic_store_n(&delay.go_on, 1, __ATOMIC_RELEASE);
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_int_equal(gpumem_block_of((void *)(uintptr_t)fresh, &block),
                     GPUMEM_OK); /* the late end of the old free removed nothing */
    assert_int_equal(block.size, 6999);
    assert_int_equal(totals().released[GM_KIND_SIM], 0); /* and no record looked stale */
    assert_int_equal(live_on_devices(), 6999);
    assert_int_equal(give(fresh), GM_OK);
    check_balance();
}

/* An allocation that has its memory but has not returned is not in the registry and not counted. */
static void *get_in_thread(void *arg) { return get(512, arg) == GM_OK ? arg : NULL; }

void test_remembered_only_after_it_was_got(void **state) {
    pthread_t thread;
    uint64_t address = 0;
    void *done;
    begin_delayed("window_of_alloc");
    delay.hold_alloc = 1;
    assert_int_equal(pthread_create(&thread, NULL, get_in_thread, &address), 0);
    wait_until_stopped();
    assert_int_equal(gm_sim_live_count(sim), 1);
    assert_int_equal(gpumem_live_count(), 0);
    assert_int_equal(live_on_devices(), 0);
    __atomic_store_n(&delay.go_on, 1, __ATOMIC_RELEASE);
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_int_equal(gpumem_live_count(), 1);
    assert_int_equal(give(address), GM_OK);
    check_balance();
}

/* A device gets its first context while an allocation has its memory but has not returned. */
#ifdef GM_HAVE_CUDA
static uint64_t opened; /* address of the block that was opened to device 1 */

static void note_opened(struct gm_resource *self, const struct gm_block *block, int device) {
    if (device == 1)
        opened = block->address;
}

void test_opened_to_a_device_that_comes_meanwhile(void **state) {
    struct gm_resource_ops ops = *delaying.ops;
    struct gm_resource server = {.ops = &ops, .properties = ~0u};
    pthread_t thread;
    uint64_t address = 0;
    void *done;
    ops.open_block_to = note_opened;
    begin_delayed("new_device");
    gm_router_serve(GM_KIND_SIM, &server);
    delay.hold_alloc = 1;
    assert_int_equal(pthread_create(&thread, NULL, get_in_thread, &address), 0);
    wait_until_stopped();
    assert_true(gm_reach_note(1));
    gm_pipeline_open_to(1);
    gm_reach_opened(1);
    assert_int_equal(opened, 0);
    __atomic_store_n(&delay.go_on, 1, __ATOMIC_RELEASE);
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_true(opened == address);
    gm_router_serve(GM_KIND_SIM, NULL);
    assert_int_equal(give(address), GM_OK);
}
#else
void test_opened_to_a_device_that_comes_meanwhile(void **state) {
    gpumem_mark("new_device");
    skip();
}
#endif

/* Eight threads exchange the same few addresses as fast as they can. */

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
                     THREADS * ROUNDS); /* the second block of each pair: its own free follows the first one's */
    assert_int_equal(policy_calls.decided, 2 * THREADS * ROUNDS);
    assert_int_equal(policy_calls.freed, 2 * THREADS * ROUNDS);
    assert_true(sum.time_ns > 0);
    assert_int_equal(live_on_devices(), 0);
    assert_int_equal(gm_sim_live_count(sim), 0);
    check_balance();
}
