/* Captures, destroyed contexts, frees while another context is current, and devices that access each other. */
#include "stacks.h"

#include "shim/driver/fence.h"
#include "shim/driver/internal_stream.h"
#include "shim/driver/streams.h"
#include "shim/resource/reach.h"

/* ---- capture */

TEST(test_a_capture_is_not_disturbed) {
    struct world world;
    EACH_STACK(resource, world) {
        if (kind_of(resource) == GM_KIND_NATIVE)
            continue;
        struct gm_request request = plain_request(&world.origin, BYTES);
        size_t live = simcuda_live_blocks();
        struct gm_block held = get(resource, &request), ordered = get(resource, &request), block;
        struct gm_free_request in_capture = ordered_free((uint64_t)(uintptr_t)world.one);
        CUgraph graph;

        gm_capture_begin(world.one, false, CU_STREAM_CAPTURE_MODE_GLOBAL);
        CU(cuStreamBeginCapture_v2(world.one, CU_STREAM_CAPTURE_MODE_GLOBAL));
        GM_TELL(resource, capture, 1);
        request.capturing = true;
        assert_int_equal(allocate(resource, &request, &block), GM_NOT_SUPPORTED);
        request.capturing = false; /* the capture began after the request was made */
        assert_int_equal(allocate(resource, &request, &block), GM_NOT_SUPPORTED);
        give(resource, &held);
        if (kind_of(resource) == GM_KIND_MANAGED || kind_of(resource) == GM_KIND_HOST_NUMA) {
            struct gm_free_request beside = ordered_free((uint64_t)(uintptr_t)world.two);
            assert_int_not_equal(release(resource, &ordered, &in_capture), GM_OK);
            assert_int_equal(release(resource, &ordered, &beside), GM_OK);
        } else {
            give(resource, &ordered);
        }
        assert_int_equal(simcuda_calls("cuCtxRecordEvent"), 0);
        CU(cuStreamEndCapture(world.one, &graph));
        gm_capture_end(world.one, false);
        GM_TELL(resource, capture, -1);

        block = get(resource, &request);
        give(resource, &block);
        trim(resource);
        assert_int_equal(simcuda_live_blocks(), live);
        assert_int_equal(gm_managed_alive(), 0);
    }
}

/* ---- contexts, peers */

TEST(test_context_destroyed) {
    for (int stack = 0; stack < STACKS; stack++) {
        struct gm_resource *resource = built[stack];
        for (int round = 0; round < 3; round++) {
            struct world world;
            world_open(&world);
            struct gm_request request = plain_request(&world.origin, BYTES);
            struct gm_request ordered = ordered_request(&world.origin, BYTES, (uint64_t)(uintptr_t)world.one);
            struct gm_free_request how = ordered_free(ordered.stream);
            struct gm_block lost = get(resource, &request), block = get(resource, &ordered);
            const struct gm_resource *maker = resource;
            while (maker->upstream)
                maker = maker->upstream;
            simcuda_set_streams("manual");
            world_fill(&world, world.one, &block, 1);
            assert_int_equal(release(resource, &block, &how), GM_OK);
            world_close(&world, resource); /* with one live block and one whose free is deferred */
            assert_int_equal(gm_managed_alive(), 0);
            assert_true(lost.address != 0);
            if (maker->ops->abandon)
                maker->ops->abandon((struct gm_resource *)maker, &lost);
        }
    }
}

/* Frees the block while a stream of another context captures, so the free is deferred. */
static void give_in_capture(struct gm_resource *resource, const struct gm_block *block, const struct world *other) {
    gm_capture_begin(other->one, false, CU_STREAM_CAPTURE_MODE_RELAXED);
    CU(cuStreamBeginCapture_v2(other->one, CU_STREAM_CAPTURE_MODE_RELAXED));
    give(resource, block);
}

static void end_capture(const struct world *other) {
    CUgraph graph;
    CU(cuCtxSetCurrent(other->context));
    CU(cuStreamEndCapture(other->one, &graph));
    gm_capture_end(other->one, false);
}

/* A block is freed during a capture, so the free is deferred. Then its context is destroyed before the capture ends.
 * The memory of the pool does not leak. */
TEST(test_pool_memory_put_aside_outlives_its_context) {
    static const char *const pools[] = {"async", "managed-pool"};
    for (int i = 0; i < 2; i++) {
        struct gm_resource *resource = stack_named(pools[i]);
        struct world world, other;
        world_open(&other);
        size_t live = simcuda_live_blocks();
        world_open(&world);
        struct gm_request request = plain_request(&world.origin, BYTES);
        struct gm_block block = get(resource, &request);
        give_in_capture(resource, &block, &other);
        world_close(&world, resource);
        assert_int_equal(simcuda_live_blocks(), live + 1);
        end_capture(&other);
        GM_TELL(resource, capture, -1);
        assert_int_equal(simcuda_live_blocks(), live);
        world_close(&other, resource);
    }
}

/* Another thread is in a call that may end the context when a block put aside would be freed in it. */
TEST(test_a_deferred_free_does_not_enter_a_context_that_ends) {
    struct gm_resource *resource = stack_named("managed");
    struct world world, other;
    world_open(&other);
    world_open(&world);
    struct gm_request request = plain_request(&world.origin, BYTES);
    struct gm_block block = get(resource, &request);
    give_in_capture(resource, &block, &other);
    end_capture(&other);
    uint64_t id = gm_context_ending(world.context), frees = simcuda_calls("cuMemFree_v2");
    GM_TELL(resource, capture, -1);
    assert_int_equal(simcuda_calls("cuMemFree_v2"), frees);
    gm_context_stays(world.context, id);
    trim(resource);
    assert_int_equal(simcuda_calls("cuMemFree_v2"), frees + 1);
    world_close(&world, resource);
    world_close(&other, resource);
}

TEST(test_free_with_another_context_current) {
    struct world world;
    EACH_STACK(resource, world) {
        struct gm_request request = plain_request(&world.origin, BYTES);
        struct gm_block block = get(resource, &request);
        CUcontext other, current;
        CU(cuCtxCreate_v2(&other, 0, 0));
        simcuda_set_streams("manual");
        world_fill(&world, world.one, &block, 5);
        give(resource, &block);
        simcuda_run_all();
        CU(cuCtxGetCurrent(&current));
        assert_ptr_equal(current, other);
        assert_int_equal(simcuda_violations(), 0);
        simcuda_set_streams("immediate");
        CU(cuCtxDestroy_v2(other));
        CU(cuCtxSetCurrent(world.context));
    }
}

/* `primary`: the peer's context is the primary one of its device; else one that the program created. */
static void check_peers(struct gm_resource *resource, bool primary) {
    struct world world;
    CUcontext peer;
    CUmodule module;
    CUfunction fill;
    CUstream stream;
    int count;
    world_open(&world);
    CU(cuDeviceGetCount(&count));
    if (count < 2) {
        world_close(&world, resource);
        skip();
    }
    struct gm_request request = plain_request(&world.origin, BYTES);
    struct gm_block early = get(resource, &request);
    CU(cuCtxCreate_v2(&peer, 0, 1));
    if (primary)
        gm_context_note_primary(1, peer);
    CU(cuCtxEnablePeerAccess(world.context, 0));
    struct gm_context accessor;
    uint64_t ended;
    assert_true(gm_context_current(&accessor));
    gm_context_note_reach(0, &accessor);
    assert_true(gm_reach_note(1));
    GM_TELL(resource, open_to, 1);
    if (resource->ops->open_block_to)
        resource->ops->open_block_to(resource, &early, 1);
    CU(cuModuleLoadData(&module, "peer"));
    CU(cuModuleGetFunction(&fill, module, SIMCUDA_KERNEL_FILL));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    /* The peer's work on the block is not done when the owner frees the block and allocates the next one. */
    CUdeviceptr address = early.address;
    uint64_t bytes = BYTES;
    uint32_t pattern = 0x33333333;
    void *arguments[] = {&address, &bytes, &pattern};
    simcuda_set_streams("manual");
    CU(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    CU(cuCtxSetCurrent(world.context));
    give(resource, &early);
    struct gm_block late = get(resource, &request);
    world_fill(&world, world.one, &late, 0x44444444);
    while (simcuda_step(world.one))
        ;
    simcuda_run_all();
    assert_int_equal(simcuda_violations(), 0);
    if (gm_drv.ctx_record_event && (is_pool(resource) || is_cache(resource)))
        assert_true(late.address != early.address);
    assert_int_equal(world_differing(&world, &late, 0x44444444), 0);
    give(resource, &late);
    simcuda_set_streams("immediate");
    gm_context_note_primary(1, NULL);
    CU(cuCtxDestroy_v2(peer));
    assert_true(gm_context_end(peer, &ended));
    GM_TELL(resource, context_destroyed, ended);
    gm_internal_forget(ended);
    CU(cuCtxSetCurrent(world.context));
    /* Fences still work without the peer. */
    for (int i = 0; i < 40; i++) {
        struct gm_block block = get(resource, &request);
        give(resource, &block);
    }
    world_close(&world, resource);
}

TEST(test_peers_reach_pools) {
    check_peers(built[1], true);
    check_peers(built[1], false);
}

TEST(test_peers_reach_host_memory) {
    check_peers(build("host-numa"), true);
    check_peers(build("host-numa"), false);
}

TEST(test_work_of_peers_holds_a_block_back) {
    check_peers(build("cache(1,native)"), true);
    check_peers(build("cache(1,native)"), false);
}

/* ---- streams that end, where a fence is an event in each stream */

static CUstream new_stream(void) {
    CUstream stream;
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gm_streams_made(stream);
    return stream;
}

/* A stream is destroyed while its work waits: the work runs all the same. */
TEST(test_work_of_a_destroyed_stream_holds_a_block_back) {
    struct gm_resource *resource = build("cache(1,native)");
    struct world world;
    world_open(&world);
    struct gm_request request = plain_request(&world.origin, BYTES);
    CUstream stream = new_stream();
    struct gm_block block = get(resource, &request);
    simcuda_set_streams("manual");
    world_fill(&world, stream, &block, 1);
    gm_streams_ending(stream);
    CU(cuStreamDestroy_v2(stream));
    give(resource, &block);
    struct gm_block next = get(resource, &request);
    if (gm_fence_supported())
        assert_true(next.address != block.address);
    world_fill(&world, world.one, &next, 2);
    while (simcuda_step(world.one))
        ;
    simcuda_run_all();
    assert_int_equal(simcuda_violations(), 0);
    assert_int_equal(world_differing(&world, &next, 2), 0);
    simcuda_set_streams("immediate");
    give(resource, &next);
    world_close(&world, resource);
}

/* Its work is not known to end: no freed block is reused any more. The last test, because this lasts. */
TEST(test_a_stream_without_an_event_ends_all_reuse) {
    struct gm_resource *resource = build("cache(1,native)");
    struct world world;
    if (!gm_streams_usable())
        skip();
    world_open(&world);
    CUstream stream = new_stream();
    assert_int_equal(simcuda_set_failures("cuEventCreate:1:999"), 0);
    gm_streams_ending(stream);
    simcuda_set_failures(NULL);
    CU(cuStreamDestroy_v2(stream));
    assert_false(gm_streams_usable() || gm_fence_supported());
    world_close(&world, resource);
}

int main(void) { return run_all(build_stacks, NULL); }
