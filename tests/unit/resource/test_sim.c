/* Resource "sim": reuse, wrong frees, failures on request, destroyed contexts. */

#include "tests/test.h"

#include "shim/resource/sim.h"

static struct gm_resource *sim;
static const struct gm_free_request how = {.call = GM_CALL_FREE};

static int setup(void **state) {
    char error[320];
    sim = gm_resource_build("sim", error, sizeof error);
    return sim ? 0 : -1;
}

static gm_status get(size_t size, uint64_t context_id, struct gm_block *block) {
    struct gm_request request = {.call = GM_CALL_ALLOC, .size = size, .context_id = context_id};
    return sim->ops->alloc(sim, &request, NULL, block);
}

TEST(test_reuses_the_last_freed_of_a_size) {
    struct gm_block a, b, c, other;
    assert_int_equal(get(1000, 1, &a), GM_OK);
    assert_int_equal(get(1000, 1, &b), GM_OK);
    assert_int_equal(sim->ops->free(sim, &a, &how), GM_OK);
    assert_int_equal(sim->ops->free(sim, &b, &how), GM_OK);
    assert_int_equal(get(2000, 1, &other), GM_OK);
    assert_true(other.address != a.address && other.address != b.address);
    assert_int_equal(get(999, 1, &c), GM_OK);
    assert_true(c.address == b.address);
    assert_int_equal(sim->ops->free(sim, &c, &how), GM_OK);
    assert_int_equal(sim->ops->free(sim, &other, &how), GM_OK);
    assert_int_equal(gm_sim_live_bytes(sim), 0);
}

TEST(test_refuses_what_is_not_live) {
    struct gm_block a;
    assert_int_equal(get(512, 1, &a), GM_OK);
    assert_int_equal(sim->ops->free(sim, &a, &how), GM_OK);
    assert_int_equal(sim->ops->free(sim, &a, &how), GM_INVALID_VALUE);
    a.address += 8;
    assert_int_equal(sim->ops->free(sim, &a, &how), GM_INVALID_VALUE);
}

TEST(test_fails_as_requested) {
    struct gm_block a;
    gm_sim_fail(sim, 2, 999);
    assert_int_equal(get(512, 1, &a), GM_OK);
    struct gm_block untouched = a;
    assert_int_equal(get(512, 1, &a), 999);
    assert_memory_equal(&a, &untouched, sizeof a);
    gm_sim_fail_free(sim, 1, 700);
    assert_int_equal(sim->ops->free(sim, &a, &how), 700);
    assert_int_equal(gm_sim_live_count(sim), 1);
    assert_int_equal(sim->ops->free(sim, &a, &how), GM_OK);
    gm_sim_set_memory(sim, 1024);
    assert_int_equal(get(1025, 1, &a), GM_OUT_OF_MEMORY);
    assert_int_equal(get(1024, 1, &a), GM_OK);
    assert_int_equal(sim->ops->free(sim, &a, &how), GM_OK);
    gm_sim_set_memory(sim, 0);
}

TEST(test_forgets_a_context) {
    struct gm_block a, b;
    assert_int_equal(get(512, 1, &a), GM_OK);
    assert_int_equal(get(512, 2, &b), GM_OK);
    sim->ops->context_destroyed(sim, 1);
    assert_int_equal(gm_sim_live_count(sim), 1);
    assert_int_equal(sim->ops->free(sim, &a, &how), GM_INVALID_VALUE);
    assert_int_equal(sim->ops->free(sim, &b, &how), GM_OK);
}

int main(void) { return run_all(setup, NULL); }
