/* The contract, checked for the stacks that need no driver, and tests of "limit" and "fail-nth". */
#include "contract.h"

#include "shim/placement/router.h"
#include "shim/resource/sim.h"

static const struct origin origin = {.context = 0x1000, .context_id = 7, .device = 0};

static const char *const stacks[] = {
    "sim", "limit(1TiB,sim)", "fail-nth(1000000,sim)", "limit(512GiB,fail-nth(99999999,limit(1TiB,sim)))", "router",
};

TEST(test_contract) {
    gm_router_serve(GM_KIND_NATIVE, build("sim"));
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
        struct gm_resource *resource = build(stacks[i]);
        if (resource->ops->kind == GM_KIND_NATIVE && !resource->upstream) {
            /* The blocks of the router name its server as their owner. So the checks use the server instead. */
            struct gm_request request = plain_request(&origin, 100);
            struct gm_block block;
            assert_int_equal(allocate(resource, &request, &block), GM_OK);
            assert_ptr_equal(block.owner, gm_router_server(GM_KIND_NATIVE));
            resource = block.owner;
            struct gm_free_request how = plain_free();
            assert_int_equal(release(resource, &block, &how), GM_OK);
        }
        check_sizes(resource, &origin);
        check_free_orders(resource, &origin);
        check_reuse_of_many(resource, &origin);
        check_pitch(resource, &origin);
        check_refusals(resource, &origin);
        check_threads(resource, &origin);
    }
}

TEST(test_every_row_says_what_it_is) {
    assert_non_null(gm_resource_rows[0]);
    for (const struct gm_resource_ops *const *row = gm_resource_rows; *row; row++) {
        assert_non_null((*row)->name);
        assert_true((*row)->summary && (*row)->summary[0]);
        assert_non_null((*row)->breaks);
        assert_non_null((*row)->alloc);
        assert_non_null((*row)->free);
        assert_true((*row)->adaptor || !(*row)->arguments);
        assert_true((*row)->adaptor || (*row)->properties & (GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_HOST_ACCESSIBLE));
    }
}

TEST(test_limit) {
    struct gm_resource *limit = build("limit(1MiB,sim)");
    struct gm_resource *sim = limit->upstream;
    struct gm_request most = plain_request(&origin, 1048576 - 512), rest = plain_request(&origin, 512);
    struct gm_request two = plain_request(&origin, 2);
    struct gm_free_request how = plain_free();
    struct gm_block a, b, c;

    assert_int_equal(allocate(limit, &most, &a), GM_OK);
    assert_int_equal(allocate(limit, &rest, &b), GM_OK);
    assert_int_equal(allocate(limit, &two, &c), GM_OUT_OF_MEMORY);
    assert_int_equal(gm_sim_live_count(sim), 2);

    gm_sim_fail_free(sim, 1, 700); /* a block that could not be freed still counts */
    assert_int_equal(release(limit, &b, &how), 700);
    assert_int_equal(allocate(limit, &two, &c), GM_OUT_OF_MEMORY);
    assert_int_equal(release(limit, &b, &how), GM_OK);
    gm_sim_fail(sim, 1, 701); /* a block that could not be allocated does not count */
    assert_int_equal(allocate(limit, &rest, &b), 701);
    assert_int_equal(allocate(limit, &rest, &b), GM_OK);

    GM_TELL(limit, context_destroyed, origin.context_id);
    assert_int_equal(gm_sim_live_count(sim), 0);
    struct gm_request all = plain_request(&origin, 1048576);
    assert_int_equal(allocate(limit, &all, &a), GM_OK);
    assert_int_equal(release(limit, &a, &how), GM_OK);

    /* 100 rows of 100 bytes are 10000 bytes requested and 51200 bytes at the pitch. The larger number counts, and after
     * a refusal nothing counts. */
    struct gm_request rows = pitched_request(&origin, 100, 2000);
    assert_int_equal(allocate(limit, &rows, &a), GM_OK);
    assert_true(a.reserved == 2000 * 512);
    assert_int_equal(release(limit, &a, &how), GM_OK);
    rows = pitched_request(&origin, 100, 2100);
    assert_int_equal(allocate(limit, &rows, &a), GM_OUT_OF_MEMORY);
    assert_int_equal(gm_sim_live_count(sim), 0);
    assert_int_equal(allocate(limit, &all, &a), GM_OK);
    assert_int_equal(release(limit, &a, &how), GM_OK);
}

TEST(test_fail_nth) {
    struct gm_resource *resource = build("fail-nth(3,sim)");
    struct gm_request request = plain_request(&origin, 100);
    struct gm_free_request how = plain_free();
    for (int i = 1; i <= 6; i++) {
        struct gm_block block;
        gm_status status = allocate(resource, &request, &block);
        assert_int_equal(status, i == 3 ? GM_OUT_OF_MEMORY : GM_OK);
        if (!status)
            assert_int_equal(release(resource, &block, &how), GM_OK);
    }
}

int main(void) { return run_all(NULL, NULL); }
