/* Tests of the pipeline over invented memory, with a real trace that is read back at the end: order of events when
 * addresses are reused, failed and unknown frees, consistent counters, reports to the policy. */
#include "pipeline_world.h"

#include <pthread.h>
#include <string.h>

#include "shim/accounts/limit.h"
#include "shim/pipeline/parts.h"

TEST(test_alloc_and_free) {
    uint64_t a, b;
    struct gpumem_block block = {.struct_size = sizeof block};
    begin_test("alloc_and_free", build("limit(1GiB,sim)"));
    assert_int_equal(get(1000, &a), GM_OK);
    assert_int_equal(get(5000, &b), GM_OK);
    assert_int_equal(gpumem_block_of((void *)(uintptr_t)(b + 4999), &block), GPUMEM_OK);
    assert_true(block.address == b && block.size == 5000 && block.device == 0);
    assert_string_equal(block.kind, "sim");
    assert_string_equal(block.call, "cuMemAlloc");
    assert_int_equal(gpumem_block_of((void *)(uintptr_t)(b + 5000), &block), GPUMEM_NOT_FOUND);
    assert_true(block.address == b); /* untouched */
    assert_int_equal(live_on_devices(), 6000);
    assert_int_equal(gm_stats->live_bytes[GM_KIND_SIM], 6000);
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(give(b), GM_OK);
    assert_int_equal(live_on_devices(), 0);
    assert_int_equal(gm_stats->peak_total, 6000);
    assert_int_equal(gm_stats->peak_bytes[GM_KIND_SIM], 6000);
    assert_int_equal(policy_calls.decided, 2);
    assert_int_equal(policy_calls.freed, 2);
    assert_int_equal(policy_calls.failed, 0);
    assert_int_equal(gm_sim_live_count(sim), 0);
    assert_int_equal(totals().moved, 2); /* a kind other than native served */
    check_balance();
}

TEST(test_rounding_counts_as_reserved) {
    begin_test("rounding", build("sim"));
    struct gm_scope scope = scope_of(GM_CALL_ALLOC_PITCH, 1000 * 3);
    scope.request.width = 1000;
    scope.request.height = 3;
    scope.request.element_size = 4;
    assert_int_equal(gm_pipeline_alloc(&scope), GM_OK);
    assert_int_equal(scope.block.pitch, 1024);
    assert_int_equal(gm_stats->reserved_bytes[GM_KIND_SIM], 3 * 1024);
    assert_int_equal(gm_stats->peak_reserved, 3 * 1024);
    assert_int_equal(give(scope.block.address), GM_OK);
    assert_int_equal(gm_stats->reserved_bytes[GM_KIND_SIM], 0);
    check_balance();
}

/* ---- a resource that keeps one block with its record, and whose native frees may fail */

enum { KEPT = 0x7d0000000000, REQUESTED = 4000, RESERVED = 4608 };
static struct gm_block_record *kept_record;
static gm_status answer_to_put;

static struct gm_block_record *keeping_take(struct gm_resource *self, const struct gm_request *request,
                                            const struct gm_decision *decision) {
    struct gm_block_record *record = kept_record;
    kept_record = NULL;
    return record;
}
static gm_status keeping_alloc(struct gm_resource *self, const struct gm_request *request,
                               const struct gm_decision *decision, struct gm_block *block) {
    return GM_OUT_OF_MEMORY;
}
static gm_status keeping_put(struct gm_resource *self, struct gm_block_record *record,
                             const struct gm_free_request *how) {
    gm_registry_remove(gm_registry_shared(), record);
    *how->kept = false;
    return answer_to_put;
}

static const struct gm_resource_ops keeping_row = {
    .name = "keeping", .properties = ~0u, .alloc = keeping_alloc, .take = keeping_take, .put = keeping_put};
static struct gm_resource keeping = {.ops = &keeping_row, .kind = GM_KIND_CACHE};

/* The limit has room for the request and not for the whole block that is kept. */
static void keep_one_below_a_limit(const char *name) {
    const struct gm_block block = {.address = KEPT,
                                   .size = REQUESTED,
                                   .reserved = RESERVED,
                                   .owner = &keeping,
                                   .context_id = 7,
                                   .call = GM_CALL_ALLOC,
                                   .kind = GM_KIND_CACHE};
    begin_test(name, &keeping);
    gm_keeper = &keeping;
    gm_limit_bytes = RESERVED - 1;
    gm_stats_take(GM_KIND_CACHE, 0, RESERVED);
    kept_record = gm_registry_add_held(gm_registry_shared(), &block, NULL);
}

static void expect_nothing_kept(void) {
    struct gm_block out;
    assert_false(gm_registry_find(gm_registry_shared(), KEPT, &out));
    assert_int_equal(gm_limit_live(0), 0);
    assert_int_equal(gm_stats->reserved_bytes[GM_KIND_CACHE], 0);
    gm_limit_bytes = 0;
    gm_keeper = NULL;
    check_balance();
}

/* The driver refuses to free the block. */
TEST(test_a_block_that_cannot_go_back_is_known) {
    struct gm_block out;
    uint64_t address = 0;
    keep_one_below_a_limit("cannot_go_back");
    answer_to_put = 999;
    assert_int_equal(get(REQUESTED, &address), GM_OK);
    assert_true(address == KEPT && gm_registry_find(gm_registry_shared(), KEPT, &out) && out.charged);
    assert_int_equal(gm_limit_live(0), RESERVED);
    assert_int_equal(gm_stats->reserved_bytes[GM_KIND_CACHE], RESERVED);
    answer_to_put = GM_OK;
    assert_int_equal(give(KEPT), GM_OK);
    expect_nothing_kept();
}

TEST(test_a_block_that_goes_back_is_reserved_no_more) {
    uint64_t address = 0;
    keep_one_below_a_limit("goes_back");
    answer_to_put = GM_OK;
    assert_int_equal(get(REQUESTED, &address), GM_OUT_OF_MEMORY);
    expect_nothing_kept();
}

TEST(test_a_failed_allocation) {
    uint64_t a = 42;
    begin_test("failed_allocation", build("fail-nth(2,sim)"));
    assert_int_equal(get(100, &a), GM_OK);
    uint64_t first = a;
    assert_int_equal(get(200, &a), GM_OUT_OF_MEMORY);
    assert_true(a == first);
    assert_int_equal(policy_calls.failed, 1);
    gm_sim_fail(sim, 1, 999);
    assert_int_equal(get(300, &a), 999); /* the driver's own number */
    assert_int_equal(policy_calls.failed, 2);
    assert_int_equal(totals().failed_allocs, 2);
    assert_int_equal(get(400, &a), GM_OK);
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(give(first), GM_OK);
    assert_int_equal(policy_calls.freed, 2);
    check_balance();
}

TEST(test_zero_bytes_are_not_decided) {
    uint64_t a;
    begin_test("zero_bytes", build("sim"));
    assert_int_equal(get(0, &a), GM_INVALID_VALUE);
    assert_int_equal(policy_calls.decided, 0);
    assert_int_equal(policy_calls.failed, 0);
}

TEST(test_a_failed_free_keeps_the_record) {
    struct gpumem_block block = {.struct_size = sizeof block};
    uint64_t a;
    begin_test("failed_free", build("sim"));
    assert_int_equal(get(4096, &a), GM_OK);
    gm_sim_fail_free(sim, 1, 700);
    assert_int_equal(give(a), 700);
    assert_int_equal(gpumem_block_of((void *)(uintptr_t)a, &block), GPUMEM_OK);
    assert_int_equal(live_on_devices(), 4096);
    assert_int_equal(policy_calls.freed, 0);
    assert_int_equal(totals().failed_frees, 1);
    assert_int_equal(totals().unknown_frees, 0);
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(policy_calls.freed, 1);
    check_balance();
}

TEST(test_unknown_and_double_frees) {
    uint64_t a;
    begin_test("unknown_frees", build("sim"));
    assert_int_equal(get(4096, &a), GM_OK);
    assert_int_equal(give(0x10), GM_INVALID_VALUE);
    assert_int_equal(give(a + 8), GM_INVALID_VALUE); /* interior */
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(give(a), GM_INVALID_VALUE);
    assert_int_equal(totals().unknown_frees, 3);
    assert_int_equal(totals().failed_frees, 3);
    assert_int_equal(policy_calls.freed, 1);
    check_balance();
}

/* A free that bypassed every entry point: the address is allocated again while the old record exists. */
TEST(test_a_stale_record_is_released) {
    struct gpumem_block block = {.struct_size = sizeof block};
    uint64_t a, b;
    begin_test("stale_record", build("sim"));
    assert_int_equal(get(3000, &a), GM_OK);
    struct gm_block behind = {.address = a};
    struct gm_free_request how = {.call = GM_CALL_FREE};
    assert_int_equal(gm_resource_free(sim, &behind, &how), GM_OK);
    assert_int_equal(get(2999, &b), GM_OK);
    assert_true(a == b);
    assert_int_equal(gpumem_live_count(), 1);
    assert_int_equal(gpumem_block_of((void *)(uintptr_t)a, &block), GPUMEM_OK);
    assert_int_equal(block.size, 2999);
    assert_int_equal(policy_calls.freed, 1);
    assert_int_equal(policy_calls.last_freed, 3000);
    assert_int_equal(totals().released[GM_KIND_SIM], 1);
    assert_int_equal(live_on_devices(), 2999);
    assert_int_equal(gm_stats->peak_total, 3000); /* they never lived at the same time */
    assert_int_equal(give(b), GM_OK);
    assert_int_equal(policy_calls.freed, 2);
    check_balance();
}

TEST(test_a_context_takes_its_blocks_along) {
    uint64_t a = 0, kept;
    begin_test("context_destroyed", build("sim"));
    for (int i = 0; i < 200; i++)
        assert_int_equal(get(512, &a), GM_OK);
    struct gm_scope other = scope_of(GM_CALL_ALLOC, 512);
    other.request.context_id = 8;
    assert_int_equal(gm_pipeline_alloc(&other), GM_OK);
    kept = other.block.address;
    gm_pipeline_context_destroyed(7);
    assert_int_equal(gpumem_live_count(), 1);
    assert_int_equal(policy_calls.freed, 200);
    assert_int_equal(gm_stats->released_bytes, 200 * 512);
    assert_int_equal(gm_sim_live_count(sim), 1);
    assert_int_equal(give(a), GM_INVALID_VALUE);
    assert_int_equal(give(kept), GM_OK);
    check_balance();
}

/* Temporary: freed with no other allocation of its thread in between. */
static void *get_once(void *arg) {
    uint64_t *address = arg;
    return get(512, address) == GM_OK ? arg : NULL;
}

/* The driver reuses an address of a destroyed context in another one before the release of the old block is written. */
static uint64_t comes_again;

static void *take_address(void *arg) {
    struct gm_scope scope = scope_of(GM_CALL_ALLOC, 256);
    scope.request.context_id = 8;
    gm_pipeline_saw_alloc(&scope, GM_KIND_NATIVE, comes_again, 0, GM_OK);
    return arg;
}

static void take_address_in_thread(void) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_address, NULL), 0);
    pthread_join(thread, NULL);
}

TEST(test_an_address_of_a_gone_context_comes_again) {
    begin_test("address_comes_again", build("sim"));
    assert_int_equal(get(512, &comes_again), GM_OK);
    when_freed = take_address_in_thread;
    gm_pipeline_context_destroyed(7);
    assert_null(when_freed);
    assert_int_equal(gpumem_live_count(), 1);
    struct gm_scope scope = scope_of(GM_CALL_FREE, 0);
    gm_pipeline_free_begin(&scope, comes_again);
    assert_true(scope.known && scope.block.context_id == 8);
    gm_pipeline_free_end(&scope, GM_ACT_FREE, comes_again, GM_OK);
    check_balance();
}

TEST(test_temporary) {
    uint64_t a, b, again;
    pthread_t thread;
    void *done;
    begin_test("temporary", build("sim"));
    assert_int_equal(get(512, &a), GM_OK);
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(totals().temporary, 1);
    assert_int_equal(get(512, &a), GM_OK);
    assert_int_equal(get(1024, &b), GM_OK);
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(totals().temporary, 1);
    assert_int_equal(give(b), GM_OK);
    assert_int_equal(totals().temporary, 2);
    /* When another thread gets the same address, it is not this thread's newest block. */
    assert_int_equal(get(512, &a), GM_OK);
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(totals().temporary, 3);
    assert_int_equal(pthread_create(&thread, NULL, get_once, &again), 0);
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_true(again == a);
    assert_int_equal(give(again), GM_OK);
    assert_int_equal(totals().temporary, 3);
    check_balance();
}

/* Calls that are never moved: recorded, and freed by the program's own call. */
TEST(test_seen_calls) {
    begin_test("seen", build("sim"));
    struct gm_scope scope = scope_of(GM_CALL_HOST_ALLOC, 4096);
    gm_pipeline_saw_alloc(&scope, GM_KIND_HOST, 0x5000, 0, GM_OK);
    assert_int_equal(gm_stats->live_bytes[GM_KIND_HOST], 4096);
    assert_int_equal(live_on_devices(), 0); /* no device memory */
    scope = scope_of(GM_CALL_VMM_RESERVE, 1 << 30);
    gm_pipeline_saw_alloc(&scope, GM_KIND_VMM, 0x5000, 0, GM_OK);
    assert_int_equal(live_on_devices(), 0);   /* address space is no memory */
    assert_int_equal(gpumem_live_count(), 1); /* nor is it a block, though it has the number of one */
    scope = scope_of(GM_CALL_HOST_ALLOC, 4096);
    gm_pipeline_saw_alloc(&scope, GM_KIND_HOST, 0, 0, GM_OUT_OF_MEMORY);
    assert_int_equal(totals().failed_allocs, 1);
    scope = scope_of(GM_CALL_FREE_HOST, 0);
    gm_pipeline_free_begin(&scope, 0x5000);
    assert_true(scope.known && !scope.block.owner && scope.block.kind == GM_KIND_HOST);
    gm_pipeline_free_end(&scope, GM_ACT_FREE, 0x5000, GM_OK);
    scope = scope_of(GM_CALL_VMM_ADDRESS_FREE, 0);
    gm_pipeline_free_begin(&scope, gm_key(GM_SPACE_RESERVATION, 0x5000));
    assert_true(scope.known);
    gm_pipeline_free_end(&scope, GM_ACT_UNRESERVE, gm_key(GM_SPACE_RESERVATION, 0x5000), GM_OK);
    assert_int_equal(policy_calls.decided + policy_calls.freed, 0); /* not decided by the policy */
    check_balance();
}

TEST(test_keys) {
    static const uint64_t values[] = {0, 0x10, 0x7fffffffffff, 1ull << 61, ~0ull >> 2};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int space = GM_SPACE_ADDRESS; space <= GM_SPACE_OBJECT; space++) {
            assert_true(gm_key_value(gm_key((enum gm_space)space, values[i])) == values[i]);
            for (int other = GM_SPACE_ADDRESS; other < space; other++)
                assert_true(gm_key((enum gm_space)space, values[i]) != gm_key((enum gm_space)other, values[i]));
        }
}

#define LIST(name) LIST_TEST(name, #name, name, NULL, NULL)
LIST(test_reuse_while_the_free_is_under_way);
LIST(test_remembered_only_after_it_was_got);
LIST(test_opened_to_a_device_that_comes_meanwhile);
LIST(test_threads_on_few_addresses);
LIST(test_the_trace_tells_it_all); /* the last: it reads what all others wrote */

int main(void) { return run_all(begin_trace, remove_trace); }
