/* Resource "host-numa": which memory it uses, what limits it, and who releases it. */
#include "stacks.h"

static struct gm_hostmem spare;
static bool say_spare(int node, struct gm_hostmem *memory) {
    *memory = spare;
    return true;
}

TEST(test_host_memory_takes_nothing_of_the_device) {
    struct gm_resource *resource = build("host-numa");
    struct world world;
    size_t before, after, total;
    unsigned long long access;
    CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};
    world_open(&world);
    CU(cuMemGetInfo_v2(&before, &total));
    struct gm_request request = plain_request(&world.origin, ((size_t)8 << 20) + 1);
    struct gm_block block = get(resource, &request);
    CU(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
    assert_int_equal(block.reserved, (size_t)10 << 20);
    assert_int_equal(gm_host_numa_alive(), block.reserved);
    CU(cuMemGetAccess(&access, &host, block.address));
    assert_int_equal(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    world_fill(&world, world.one, &block, 0x5eed5eed);
    assert_int_equal(world_differing(&world, &block, 0x5eed5eed), 0);
    give(resource, &block);
    world_close(&world, resource);
}

TEST(test_host_memory_is_bounded_by_the_host) {
    struct gm_resource *resource = build("host-numa");
    struct world world;
    struct gm_block block, first;
    world_open(&world);
    struct gm_request request = plain_request(&world.origin, (size_t)4 << 20);
    /* All blocks may have half of what could be spared without them: 6 MiB. */
    spare = (struct gm_hostmem){.available = ((uint64_t)512 + 12) << 20, .total = (uint64_t)1 << 30};
    gm_host_numa_set_reader(say_spare);
    simcuda_reset_counters();
    first = get(resource, &request);
    spare.available -= first.reserved; /* what the machine would report now */
    assert_int_equal(allocate(resource, &request, &block), GM_OUT_OF_MEMORY);
    assert_int_equal(simcuda_calls("cuMemCreate"), 1); /* the refused request made no driver call */
    request.size = (size_t)2 << 20;
    block = get(resource, &request);
    give(resource, &block);
    /* Before a request is refused, the resource waits for deferred frees. */
    struct gm_free_request how = ordered_free((uint64_t)(uintptr_t)world.one);
    assert_int_equal(release(resource, &first, &how), GM_OK);
    spare.available = (uint64_t)512 << 20;
    assert_int_equal(allocate(resource, &request, &block), GM_OUT_OF_MEMORY);
    assert_int_equal(gm_host_numa_alive(), 0);
    gm_host_numa_set_reader(NULL);
    world_close(&world, resource);
}

/* Two requests at once. Each of them alone would fit. */
static struct gm_resource *second_resource;
static struct gm_request second_request;
static gm_status second_status;
static bool ask_in_between(int node, struct gm_hostmem *memory) {
    gm_host_numa_set_reader(say_spare);
    struct gm_block block;
    second_status = allocate(second_resource, &second_request, &block);
    return say_spare(node, memory);
}

TEST(test_parallel_requests_for_host_memory) {
    struct gm_resource *resource = build("host-numa");
    struct world world;
    world_open(&world);
    struct gm_request request = plain_request(&world.origin, (size_t)4 << 20);
    spare = (struct gm_hostmem){.available = ((uint64_t)512 + 12) << 20, .total = (uint64_t)1 << 30};
    second_resource = resource;
    second_request = request;
    gm_host_numa_set_reader(ask_in_between);
    struct gm_block block = get(resource, &request);
    assert_int_equal(second_status, GM_OUT_OF_MEMORY);
    give(resource, &block);
    gm_host_numa_set_reader(NULL);
    world_close(&world, resource);
}

static CUresult lacks(int *value, CUdevice_attribute attribute, CUdevice device) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    return CUDA_SUCCESS;
}

TEST(test_host_memory_needs_driver_and_device) {
    struct gm_resource *resource = build("host-numa");
    struct gm_driver saved_driver = gm_drv;
    struct world world;
    struct gm_block block;
    world_open(&world);
    struct gm_request request = plain_request(&world.origin, BYTES);
    gm_drv.mem_create = NULL;
    assert_int_equal(allocate(resource, &request, &block), GM_NOT_SUPPORTED);
    gm_drv.mem_create = saved_driver.mem_create;
    gm_host_numa_set_reader(NULL); /* drops what is cached about the devices */
    gm_drv.device_get_attribute = lacks;
    assert_int_equal(allocate(resource, &request, &block), GM_NOT_SUPPORTED);
    gm_drv.device_get_attribute = saved_driver.device_get_attribute;
    gm_host_numa_set_reader(NULL);
    block = get(resource, &request);
    give(resource, &block);
    world_close(&world, resource);
}

/* The mapping does not belong to the context, so the resource releases it when the context is destroyed. */
TEST(test_abandoned_host_memory_is_given_back) {
    struct gm_resource *resource = build("host-numa");
    struct world world;
    size_t ranges = simcuda_live_reservations(), handles = simcuda_live_handles();
    world_open(&world);
    struct gm_request request = plain_request(&world.origin, BYTES);
    struct gm_request ordered = ordered_request(&world.origin, BYTES, (uint64_t)(uintptr_t)world.one);
    struct gm_free_request how = ordered_free(ordered.stream);
    struct gm_block block = get(resource, &request), deferred = get(resource, &ordered);
    simcuda_set_streams("manual");
    world_fill(&world, world.one, &deferred, 1);
    assert_int_equal(release(resource, &deferred, &how), GM_OK);
    world_close(&world, resource);
    resource->ops->abandon(resource, &block);
    assert_int_equal(simcuda_live_reservations(), ranges);
    assert_int_equal(simcuda_live_handles(), handles);
    assert_int_equal(gm_host_numa_alive(), 0);
}

int main(void) { return run_all(NULL, NULL); }
