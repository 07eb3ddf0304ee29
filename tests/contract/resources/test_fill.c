/* Adaptor "fill": the content of new memory and of freed memory. */
#include <string.h>

#include "stacks.h"

TEST(test_fill_content) {
    static const struct {
        int stack;
        uint32_t pattern;
    } rows[] = {{5, 0xdbdbdbdb}, {6, 0}, {7, 0xdbdbdbdb}, {8, 0xdbdbdbdb}, {9, 0xdbdbdbdb}};
    struct world world;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gm_resource *resource = built[rows[i].stack];
        world_open(&world);
        struct gm_request plain = plain_request(&world.origin, BYTES);
        struct gm_request ordered = ordered_request(&world.origin, BYTES, (uint64_t)(uintptr_t)world.one);
        for (int round = 0; round < 4; round++) {
            struct gm_block block = get(resource, round % 2 ? &ordered : &plain);
            simcuda_set_streams("manual");
            world_check(&world, world.one, &block, rows[i].pattern);
            world_fill(&world, world.one, &block, 0x77777777);
            world_check(&world, world.one, &block, 0x77777777); /* must run before the poison of the free */
            struct gm_free_request how = round % 2 ? ordered_free(ordered.stream) : plain_free();
            assert_int_equal(release(resource, &block, &how), GM_OK);
            simcuda_run_all();
            simcuda_set_streams("immediate");
        }
        assert_int_equal(simcuda_check_runs(), 8);
        assert_int_equal(simcuda_check_mismatches(), 0);
        assert_int_equal(simcuda_violations(), 0);
        trim(resource);
        world_close(&world, resource);
    }
    char error[320];
    assert_null(gm_resource_build("fill(poison,sim)", error, sizeof error));
    assert_non_null(strstr(error, "sim"));
    assert_null(gm_resource_build("fill(red,native)", error, sizeof error));
    assert_true(strstr(error, "\"red\"") && strstr(error, "poison"));
}

/* All work was done before the free, but the poison of the free is new work. It must not overwrite the memory of the
 * next owner. */
TEST(test_poison_stays_behind) {
    char error[320];
    struct world world;
    struct gm_resource *resource = gm_resource_build("fill(poison,cache(native))", error, sizeof error);
    assert_non_null(resource);
    world_open(&world);
    struct gm_request plain = plain_request(&world.origin, BYTES);
    struct gm_free_request how = plain_free();
    how.settled = true;
    for (int round = 0; round < 4; round++) {
        struct gm_block block = get(resource, &plain);
        simcuda_set_streams("manual");
        assert_int_equal(release(resource, &block, &how), GM_OK);
        block = get(resource, &plain);
        world_fill(&world, world.one, &block, 0x55555555);
        CU(cuStreamSynchronize(world.one));
        simcuda_run_all();
        simcuda_set_streams("immediate");
        assert_int_equal(world_differing(&world, &block, 0x55555555), 0);
        assert_int_equal(release(resource, &block, &how), GM_OK);
    }
    assert_int_equal(simcuda_violations(), 0);
    trim(resource);
    world_close(&world, resource);
}

int main(void) { return run_all(build_stacks, NULL); }
