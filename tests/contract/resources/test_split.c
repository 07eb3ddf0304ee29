/* Resource "split": what of a block lies on the device and what in host memory, its contents across the border, what
 * limits it, and that a failure of any step leaves nothing behind. */
#include <stdio.h>
#include <string.h>

#include "shim/resource/reach.h"
#include "stacks.h"

#define MIB ((size_t)1 << 20)
/* The device keeps a headroom of 512 MiB: 4 MiB of a block lie on it. */
enum { FIRST = 4 << 20, WHOLE = 10 << 20 };

static struct gm_hostmem spare = {.available = (uint64_t)8 << 30, .total = (uint64_t)8 << 30};
static bool say_spare(int node, struct gm_hostmem *memory) {
    *memory = spare;
    return true;
}

static struct gm_resource *open_small(struct world *world) {
    struct gm_resource *resource = build("split");
    world_open(world);
    if (!gm_driver_ready(true) || !gm_reach_all())
        skip();
    simcuda_set_memory(simcuda_used(0) + 512 * MIB + FIRST + MIB);
    spare.available = spare.total;
    gm_host_numa_set_reader(say_spare);
    return resource;
}

static void close_small(struct world *world, struct gm_resource *resource) {
    world_close(world, resource);
    simcuda_set_memory((size_t)16 << 30);
    gm_host_numa_set_reader(NULL);
    assert_int_equal(gm_host_numa_alive(), 0);
    assert_int_equal(simcuda_violations(), 0);
}

static void check_copies_over_the_border(const struct gm_block *block) {
    enum { BYTES_OVER = 1 << 20 };
    static unsigned char wrote[2 * BYTES_OVER], read[2 * BYTES_OVER];
    CUdeviceptr at = block->address + FIRST - BYTES_OVER;
    for (size_t i = 0; i < sizeof wrote; i++)
        wrote[i] = (unsigned char)(i * 2654435761u >> 24);
    CU(cuMemcpyHtoD_v2(at, wrote, sizeof wrote));
    CU(cuMemcpyDtoH_v2(read, at, sizeof read));
    assert_memory_equal(wrote, read, sizeof wrote);
    CU(cuMemcpyDtoD_v2(block->address, at, sizeof read)); /* from both parts to the first */
    memset(read, 0, sizeof read);
    CU(cuMemcpyDtoH_v2(read, block->address, sizeof read));
    assert_memory_equal(wrote, read, sizeof wrote);
}

TEST(test_a_block_lies_in_both_memories) {
    struct world world;
    struct gm_resource *resource = open_small(&world);
    struct gm_block device, host;
    size_t before = simcuda_used(0);
    struct gm_request request = plain_request(&world.origin, WHOLE - 5);
    struct gm_block block = get(resource, &request);
    assert_int_equal(block.kind, GM_KIND_SPLIT);
    assert_int_equal(block.reserved, WHOLE);
    assert_int_equal(simcuda_used(0) - before, FIRST);
    assert_int_equal(gm_host_numa_alive(), WHOLE - FIRST);
    gm_block_parts(&block, &device, &host);
    assert_true(device.size == FIRST && device.reserved == FIRST && device.address == block.address);
    assert_true(host.size == WHOLE - FIRST - 5 && host.reserved == WHOLE - FIRST);
    assert_true(host.kind == GM_KIND_HOST_NUMA && host.address == block.address + FIRST);
    block.size = WHOLE;
    world_fill(&world, world.one, &block, 0x5eed5eed);
    assert_int_equal(world_differing(&world, &block, 0x5eed5eed), 0);
    check_copies_over_the_border(&block);
    give(resource, &block);
    assert_int_equal(simcuda_used(0), before);
    close_small(&world, resource);
}

/* Nothing of it lies in host memory. */
TEST(test_a_block_that_fits_the_device) {
    struct world world;
    struct gm_resource *resource = open_small(&world);
    struct gm_block device, host;
    struct gm_request request = plain_request(&world.origin, 3 * MIB);
    struct gm_block block = get(resource, &request);
    gm_block_parts(&block, &device, &host);
    assert_true(device.size == 3 * MIB && device.reserved == 4 * MIB && !host.size && !host.reserved);
    assert_int_equal(gm_host_numa_alive(), 0);
    give(resource, &block);
    close_small(&world, resource);
}

TEST(test_what_cannot_be_split) {
    struct world world;
    struct gm_resource *resource = open_small(&world);
    struct gm_block block, first;
    struct gm_request request = plain_request(&world.origin, WHOLE),
                      ordered = ordered_request(&world.origin, WHOLE, (uint64_t)(uintptr_t)world.one),
                      pitched = pitched_request(&world.origin, 1 << 20, 10);
    assert_int_equal(allocate(resource, &ordered, &block), GM_NOT_SUPPORTED);
    assert_int_equal(allocate(resource, &pitched, &block), GM_NOT_SUPPORTED);
    /* All host memory of blocks together is bounded as that of "host-numa": half of what could be spared. */
    spare.available = (512 + 11) * MIB;
    spare.total = (size_t)1 << 30;
    simcuda_reset_counters();
    assert_int_equal(allocate(resource, &request, &block), GM_OUT_OF_MEMORY);
    assert_int_equal(simcuda_calls("cuMemAddressReserve") + simcuda_calls("cuMemCreate"), 0);
    spare.available = (512 + 12) * MIB;
    first = get(resource, &request);
    /* Before a request is refused, the resource waits for deferred frees. But the device has nothing to give now. */
    assert_int_equal(allocate(resource, &request, &block), GM_OUT_OF_MEMORY);
    give(resource, &first);
    gm_drv.mem_create = NULL;
    gm_host_numa_set_reader(say_spare); /* drops what is cached about the devices */
    assert_int_equal(allocate(resource, &request, &block), GM_NOT_SUPPORTED);
    gm_driver_ready(true);
    gm_drv.mem_create = cuMemCreate;
    gm_host_numa_set_reader(say_spare);
    spare = (struct gm_hostmem){.available = (uint64_t)8 << 30, .total = (uint64_t)8 << 30};
    close_small(&world, resource);
}

/* The n-th driver call fails, for n = 1, 2, 3 ... until allocation and free make fewer than n. */
TEST(test_a_failure_of_any_step_leaves_nothing) {
    for (int n = 1, failed = 1; failed; n++) {
        struct world world;
        struct gm_resource *resource = open_small(&world);
        struct gm_request request = plain_request(&world.origin, WHOLE);
        struct gm_free_request how = plain_free();
        struct gm_block block;
        char script[32];
        size_t used = simcuda_used(0), ranges = simcuda_live_reservations(), handles = simcuda_live_handles();
        simcuda_reset_counters();
        snprintf(script, sizeof script, "*:%d:%d", n, CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(simcuda_set_failures(script), 0);
        bool made = allocate(resource, &request, &block) == GM_OK;
        bool freed = made && release(resource, &block, &how) == GM_OK;
        failed = simcuda_calls(NULL) >= (uint64_t)n;
        simcuda_set_failures(NULL);
        assert_true(failed || freed);
        if (made && !freed)
            give(resource, &block);
        trim(resource);
        assert_int_equal(simcuda_used(0), used);
        assert_int_equal(simcuda_live_reservations(), ranges);
        assert_int_equal(simcuda_live_handles(), handles);
        assert_int_equal(gm_host_numa_alive(), 0);
        assert_true(n < 200);
        close_small(&world, resource);
    }
}

/* The work that uses the block is not done when the free returns in its stream's device, and a context that ends. */
TEST(test_a_free_waits_for_work) {
    struct world world;
    struct gm_resource *resource = open_small(&world);
    size_t ranges = simcuda_live_reservations(), handles = simcuda_live_handles();
    struct gm_request request = plain_request(&world.origin, WHOLE);
    struct gm_block block = get(resource, &request);
    simcuda_set_streams("manual");
    world_fill(&world, world.one, &block, 7);
    world_check(&world, world.one, &block, 7);
    give(resource, &block);
    assert_int_equal(simcuda_check_mismatches(), 0);
    simcuda_set_streams("immediate");
    block = get(resource, &request);
    world_close(&world, resource);
    resource->ops->abandon(resource, &block);
    assert_int_equal(simcuda_live_reservations(), ranges);
    assert_int_equal(simcuda_live_handles(), handles);
    world_open(&world);
    close_small(&world, resource);
}

int main(void) { return run_all(NULL, NULL); }
