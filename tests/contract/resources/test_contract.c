/* The contract, checked for every stack on the simulated driver: each keeps the promises of the program's own calls. */
#include "stacks.h"

TEST(test_contract) {
    struct world world;
    EACH_STACK(resource, world) {
        size_t live = simcuda_live_blocks();
        check_sizes(resource, &world.origin);
        check_free_orders(resource, &world.origin);
        check_reuse_of_many(resource, &world.origin);
        check_pitch(resource, &world.origin);
        check_refusals(resource, &world.origin);
        check_threads(resource, &world.origin);
        trim(resource);
        assert_int_equal(simcuda_live_blocks(), live);
        assert_int_equal(simcuda_violations(), 0);
        assert_int_equal(gm_managed_alive(), 0);
        assert_int_equal(gm_host_numa_alive(), 0);
    }
}

TEST(test_pitch_is_the_devices_choice) {
    static const size_t widths[] = {1, 31, 32, 33, 100, 511, 512, 513, 5000};
    struct world world;
    EACH_STACK(resource, world) {
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            CUdeviceptr native;
            size_t pitch;
            CU(cuMemAllocPitch_v2(&native, &pitch, widths[i], 3, 4));
            CU(cuMemFree_v2(native));
            struct gm_request request = pitched_request(&world.origin, widths[i], 3);
            struct gm_block block = get(resource, &request);
            assert_int_equal(block.pitch, pitch);
            give(resource, &block);
        }
        trim(resource);
    }
}

TEST(test_data_survives_neighbours) {
    struct world world;
    EACH_STACK(resource, world) {
        struct gm_block blocks[12];
        for (uint32_t i = 0; i < 12; i++) {
            struct gm_request request = plain_request(&world.origin, 4096 + 64 * 1024 * (i % 3));
            blocks[i] = get(resource, &request);
            world_fill(&world, i % 2 ? world.one : world.two, &blocks[i], 0xabc00000u + i);
        }
        for (uint32_t i = 0; i < 12; i += 2)
            give(resource, &blocks[i]);
        for (uint32_t i = 0; i < 12; i += 2) {
            struct gm_request request = plain_request(&world.origin, 4096 + 64 * 1024 * (i % 3));
            blocks[i] = get(resource, &request);
            world_fill(&world, world.two, &blocks[i], 0xdef00000u + i);
        }
        for (uint32_t i = 0; i < 12; i++) {
            assert_int_equal(world_differing(&world, &blocks[i], (i % 2 ? 0xabc00000u : 0xdef00000u) + i), 0);
            give(resource, &blocks[i]);
        }
        trim(resource);
        assert_int_equal(simcuda_violations(), 0);
    }
}

/* ---- stream order */

TEST(test_stream_order_is_kept) {
    struct world world;
    EACH_STACK(resource, world) {
        uint64_t stream = (uint64_t)(uintptr_t)world.one;
        struct gm_request request = ordered_request(&world.origin, BYTES, stream);
        struct gm_free_request how = ordered_free(stream);
        size_t live = simcuda_live_blocks();
        uint64_t first = 0;
        simcuda_set_streams("manual");
        for (uint32_t i = 0; i < 100; i++) {
            struct gm_block block = get(resource, &request);
            assert_true(block.stream == stream);
            first = first ? first : block.address;
            if (is_pool(resource)) /* freed in the same stream, so it comes again at once */
                assert_true(block.address == first);
            world_fill(&world, world.one, &block, i);
            world_check(&world, world.one, &block, i);
            assert_int_equal(release(resource, &block, &how), GM_OK);
        }
        simcuda_run_all();
        assert_int_equal(simcuda_check_runs(), 100);
        assert_int_equal(simcuda_check_mismatches(), 0);
        assert_int_equal(simcuda_violations(), 0);
        simcuda_set_streams("immediate");
        struct gm_request plain = plain_request(&world.origin, BYTES);
        struct gm_block block = get(resource, &plain); /* a later call does the deferred frees */
        give(resource, &block);
        trim(resource);
        assert_int_equal(simcuda_live_blocks(), live);
        assert_int_equal(gm_managed_alive(), 0);
    }
}

TEST(test_waiting_managed_blocks_are_bounded) {
    struct gm_resource *resource = built[2];
    struct world world;
    world_open(&world);
    uint64_t stream = (uint64_t)(uintptr_t)world.one;
    struct gm_free_request how = ordered_free(stream);
    simcuda_set_streams("manual");
    for (int big = 0; big < 2; big++)
        for (int i = 0; i < 200; i++) {
            struct gm_request request = ordered_request(&world.origin, big ? (size_t)32 << 20 : 4096, stream);
            struct gm_block block = get(resource, &request);
            world_fill(&world, world.one, &(struct gm_block){.address = block.address, .size = 64}, 1);
            assert_int_equal(release(resource, &block, &how), GM_OK);
            assert_true(simcuda_live_blocks() <= 65);
            assert_true(gm_managed_alive() <= (big ? ((uint64_t)288 << 20) + 64 * 4096 : 65 * 4096));
        }
    assert_int_equal(simcuda_violations(), 0);
    world_close(&world, resource);
}

int main(void) { return run_all(build_stacks, NULL); }
