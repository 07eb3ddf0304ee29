/* The contract over every maker and adaptor on the simulated driver: what the program's own calls promise is kept. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/driver/fence.h"
#include "shim/resource/decided.h"
#include "shim/resource/host_numa.h"
#include "shim/resource/managed.h"
#include "shim/resource/rows.h"
#include "world.h"

#define BYTES ((size_t)65536)

static const char *const stacks[] = {
    "native",           "async",
    "managed",          "managed-pool",
    "fill(off,native)", "fill(poison,native)",
    "fill(zero,async)", "fill(poison,async)",
    "fill(poison,managed)", "fill(poison,managed-pool)",
    "limit(64GiB,async)",   "fail-nth(100000000,fill(zero,limit(64GiB,managed)))",
    "host-numa",            "fill(poison,host-numa)",
    "cache(native)",    "cache(1,native)",
    "cache(3,limit(64GiB,native))", "fill(poison,cache(native))",
    "true-kind(cache(managed-pool))", "true-kind(cache(1,managed-pool))",
};
enum { STACKS = sizeof stacks / sizeof *stacks };
static struct gm_resource *built[STACKS];

static struct gm_resource *stack_named(const char *name) {
    for (int i = 0; i < STACKS; i++)
        if (!strcmp(stacks[i], name))
            return built[i];
    fail_msg("no stack %s", name);
    return NULL;
}

static enum gm_kind kind_of(const struct gm_resource *resource) { return resource->kind; }
static bool is_pool(const struct gm_resource *resource) {
    return kind_of(resource) == GM_KIND_ASYNC || kind_of(resource) == GM_KIND_MANAGED_POOL;
}

/* Free does not wait, and what is freed stays with the resource for a while. */
static bool is_cache(const struct gm_resource *resource) {
    while (resource && resource->row != &gm_resource_cache)
        resource = resource->upstream;
    return resource != NULL;
}

/* An adaptor that works on the memory would wait for it. */
static bool is_cache_itself(const struct gm_resource *resource) {
    return is_cache(resource) && resource->row != &gm_resource_fill;
}

static struct gm_block get(struct gm_resource *resource, const struct gm_request *request) {
    struct gm_block block;
    gm_status status = allocate(resource, request, &block);
    if (status)
        fail_msg("%s: allocation answered %d", resource->row->name, status);
    return block;
}

static void give(struct gm_resource *resource, const struct gm_block *block) {
    struct gm_free_request how = plain_free();
    assert_int_equal(release(resource, block, &how), GM_OK);
}

static void trim(struct gm_resource *resource) {
    if (resource->row->trim)
        resource->row->trim(resource, SIZE_MAX);
}

#define EACH_STACK(resource, world)                                                                          \
    for (int stack_ = 0; stack_ < STACKS; stack_++)                                                          \
        for (struct gm_resource *resource = built[stack_], *once_ = resource; once_ && (world_open(&world), 1);  \
             world_close(&world, resource), once_ = NULL)

static void test_contract(void **state) {
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

static void test_pitch_is_the_devices_choice(void **state) {
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
    }
}

static void test_data_survives_neighbours(void **state) {
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
        assert_int_equal(simcuda_violations(), 0);
    }
}

/* ---- reuse */

/* Work of stream one on a block that is then given back; the next block of that size is used on stream two, which runs first.
 * Returns the mistakes that the simulated streams saw. */
static uint64_t early_reuse_mistakes(struct gm_resource *resource, const struct world *world) {
    simcuda_reset_counters();
    assert_int_equal(simcuda_set_streams("manual"), 0);
    struct gm_request request = plain_request(&world->origin, BYTES);
    struct gm_block first = get(resource, &request);
    world_fill(world, world->one, &first, 0x11111111);
    world_check(world, world->one, &first, 0x11111111);
    simcuda_step(world->one);
    give(resource, &first);
    struct gm_block second = get(resource, &request);
    world_fill(world, world->two, &second, 0x22222222);
    while (simcuda_step(world->two))
        ;
    simcuda_run_all();
    uint64_t checked = simcuda_check_runs();
    uint64_t mistakes = simcuda_check_mismatches() + world_differing(world, &second, 0x22222222) + simcuda_violations();
    assert_int_equal(checked, 1);
    give(resource, &second);
    simcuda_run_all();
    simcuda_set_streams("immediate");
    return mistakes;
}

/* Many blocks of two sizes on both streams, in an order of the seed's choosing; odd seeds let the driver run what is queued at its
 * calls, even ones only now and then, so that much is under way. */
static uint64_t random_reuse_mistakes(struct gm_resource *resource, const struct world *world, unsigned seed) {
    struct gm_block blocks[8] = {0};
    uint32_t patterns[8], random = seed * 2654435761u;
    char mode[32];
    simcuda_reset_counters();
    snprintf(mode, sizeof mode, seed & 1 ? "random:%u" : "manual", seed);
    assert_int_equal(simcuda_set_streams(mode), 0);
    for (uint32_t step = 0; step < 120; step++) {
        random = random * 1664525u + 1013904223u;
        unsigned i = random >> 20 & 7;
        CUstream stream = i & 1 ? world->one : world->two;
        if (!(seed & 1) && (random >> 24 & 1))
            simcuda_step(random >> 25 & 1 ? world->one : world->two);
        if (blocks[i].address) {
            world_check(world, stream, &blocks[i], patterns[i]);
            give(resource, &blocks[i]);
            blocks[i].address = 0;
        } else {
            struct gm_request request = plain_request(&world->origin, i & 2 ? BYTES : 3 * BYTES);
            blocks[i] = get(resource, &request);
            patterns[i] = 0xc0000000u + step;
            world_fill(world, stream, &blocks[i], patterns[i]);
        }
    }
    for (unsigned i = 0; i < 8; i++)
        if (blocks[i].address)
            give(resource, &blocks[i]);
    simcuda_run_all();
    simcuda_set_streams("immediate");
    assert_true(simcuda_check_runs() > 20);
    return simcuda_check_mismatches() + simcuda_violations();
}

static void test_no_reuse_before_earlier_work_is_done(void **state) {
    struct world world;
    EACH_STACK(resource, world) {
        if (early_reuse_mistakes(resource, &world))
            fail_msg("%s: memory was reused early: %s", stacks[stack_], simcuda_last_violation());
        for (unsigned seed = 1; seed <= 8; seed++)
            if (random_reuse_mistakes(resource, &world, seed))
                fail_msg("%s: memory was reused early with seed %u: %s", stacks[stack_], seed, simcuda_last_violation());
    }
}

/* A cache as it must not be: hands a freed block out again at once, with no fence. */
static struct gm_block kept;

static gm_status hasty_alloc(struct gm_resource *self, const struct gm_request *request, struct gm_block *block) {
    if (kept.address && kept.size == request->size) {
        *block = kept;
        kept.address = 0;
        return GM_OK;
    }
    gm_status status = self->upstream->row->alloc(self->upstream, request, block);
    if (!status)
        block->owner = self;
    return status;
}

static gm_status hasty_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    if (kept.address)
        return self->upstream->row->free(self->upstream, block, how);
    kept = *block;
    return GM_OK;
}

static void test_the_suite_sees_early_reuse(void **state) {
    static const struct gm_resource_row row = {.name = "hasty", .alloc = hasty_alloc, .free = hasty_free};
    struct gm_resource hasty = {.row = &row, .upstream = built[0], .properties = built[0]->properties};
    struct world world;
    unsigned seen = 0;
    world_open(&world);
    kept.address = 0;
    assert_true(early_reuse_mistakes(&hasty, &world) > 0);
    for (unsigned seed = 1; seed <= 8; seed++)
        seen += random_reuse_mistakes(&hasty, &world, seed) > 0;
    assert_true(seen > 0);
    world_close(&world, built[0]);
}

/* A driver that records nothing is a cache without fences. */
static CUresult record_nothing(CUcontext context, CUevent event) { return (void)context, (void)event, CUDA_SUCCESS; }

static void test_the_suite_sees_a_cache_without_fences(void **state) {
    struct gm_resource *resource = build("cache(1,native)");
    struct world world;
    unsigned seen = 0;
    if (!gm_drv.ctx_record_event)
        skip();
    __typeof__(gm_drv.ctx_record_event) kept_function = gm_drv.ctx_record_event;
    world_open(&world);
    gm_drv.ctx_record_event = record_nothing;
    assert_true(early_reuse_mistakes(resource, &world) > 0);
    for (unsigned seed = 1; seed <= 8; seed++)
        seen += random_reuse_mistakes(resource, &world, seed) > 0;
    gm_drv.ctx_record_event = kept_function;
    assert_true(seen > 0);
    world_close(&world, resource);
}

static void test_free_waits_only_where_it_says_so(void **state) {
    struct world world;
    EACH_STACK(resource, world) {
        for (int strict = 0; strict < 2; strict++) {
            struct gm_request request = plain_request(&world.origin, BYTES);
            struct gm_block block = get(resource, &request);
            struct gm_free_request how = plain_free();
            how.strict = strict;
            simcuda_reset_counters();
            simcuda_set_streams("manual");
            world_fill(&world, world.one, &block, 1);
            world_check(&world, world.one, &block, 1);
            assert_int_equal(release(resource, &block, &how), GM_OK);
            /* Waits where it cannot record. */
            bool by_lane = (is_pool(resource) && !is_cache(resource)) || strcmp(resource->row->name, "fill") == 0;
            bool waits = strict || !(is_pool(resource) || is_cache(resource)) || (by_lane && !gm_drv.ctx_record_event) ||
                         (is_cache(resource) && !gm_fence_supported());
            assert_int_equal(simcuda_check_runs(), waits ? 1 : 0);
            simcuda_run_all();
            assert_int_equal(simcuda_violations(), 0);
            simcuda_set_streams("immediate");
        }
    }
}

static void test_allocation_never_waits_for_the_program(void **state) {
    struct world world;
    EACH_STACK(resource, world) {
        struct gm_request request = plain_request(&world.origin, BYTES);
        struct gm_block busy = get(resource, &request), block;
        simcuda_reset_counters();
        simcuda_set_streams("manual");
        world_check(&world, world.one, &busy, 1);
        block = get(resource, &request);
        assert_int_equal(simcuda_check_runs(), 0);
        simcuda_run_all();
        simcuda_set_streams("immediate");
        give(resource, &busy);
        give(resource, &block);
    }
}

/* ---- stream order */

static void test_stream_order_is_kept(void **state) {
    struct world world;
    EACH_STACK(resource, world) {
        uint64_t stream = (uint64_t)(uintptr_t)world.one;
        struct gm_request request = ordered_request(&world.origin, BYTES, stream);
        struct gm_free_request how = ordered_free(stream);
        size_t live = simcuda_live_blocks();
        simcuda_set_streams("manual");
        for (uint32_t i = 0; i < 100; i++) {
            struct gm_block block = get(resource, &request);
            assert_true(block.stream == stream);
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
        struct gm_block block = get(resource, &plain); /* a later call frees what waited */
        give(resource, &block);
        trim(resource);
        assert_int_equal(simcuda_live_blocks(), live);
        assert_int_equal(gm_managed_alive(), 0);
    }
}

static void test_waiting_managed_blocks_are_bounded(void **state) {
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

/* ---- failures */

struct outcome {
    struct gm_block blocks[5];
    bool live[5];
    unsigned count;
};

static void try_all(struct gm_resource *resource, const struct world *world, struct outcome *outcome) {
    uint64_t stream = (uint64_t)(uintptr_t)world->one;
    const struct gm_request requests[5] = {
        plain_request(&world->origin, 1000),          plain_request(&world->origin, 2200000),
        pitched_request(&world->origin, 3001, 40),    ordered_request(&world->origin, 5000, stream),
        plain_request(&world->origin, 1000),
    };
    for (int i = 0; i < 5; i++) {
        outcome->live[i] = allocate(resource, &requests[i], &outcome->blocks[i]) == GM_OK;
        outcome->count += outcome->live[i];
    }
    for (int i = 0; i < 5; i++) {
        struct gm_free_request how = i == 3 ? ordered_free(stream) : plain_free();
        how.strict = i == 4;
        if (outcome->live[i] && release(resource, &outcome->blocks[i], &how) == GM_OK)
            outcome->live[i] = false;
    }
}

static void free_the_rest(struct gm_resource *resource, const struct world *world, struct outcome *outcome) {
    for (int i = 0; i < 5; i++) {
        struct gm_free_request how = i == 3 ? ordered_free((uint64_t)(uintptr_t)world->one) : plain_free();
        if (outcome->live[i])
            assert_int_equal(release(resource, &outcome->blocks[i], &how), GM_OK);
    }
    struct gm_request request = plain_request(&world->origin, 1000);
    struct gm_block block = get(resource, &request);
    give(resource, &block);
    CU(cuCtxSynchronize());
    trim(resource);
}

/* The n-th driver call fails, for n = 1, 2, 3 ... until none is left to fail: nothing is lost, and all works again after. */
static void test_any_driver_call_may_fail(void **state) {
    static const int codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN};
    struct world world;
    for (int stack = 0; stack < STACKS; stack++)
        for (int code = 0; code < 2; code++)
            for (int n = 1, failed = 1; failed; n++) {
                struct gm_resource *resource = built[stack];
                struct outcome outcome = {0};
                char script[64];
                size_t free_before, free_after, total;
                world_open(&world);
                size_t live = simcuda_live_blocks(), ranges = simcuda_live_reservations(), handles = simcuda_live_handles();
                CU(cuMemGetInfo_v2(&free_before, &total));
                simcuda_reset_counters();
                snprintf(script, sizeof script, "*:%d:%d", n, codes[code]);
                assert_int_equal(simcuda_set_failures(script), 0);
                try_all(resource, &world, &outcome);
                uint64_t calls = simcuda_calls(NULL);
                simcuda_set_failures(NULL);
                failed = calls >= (uint64_t)n;
                if (!failed)
                    assert_int_equal(outcome.count, 5);
                free_the_rest(resource, &world, &outcome);
                CU(cuMemGetInfo_v2(&free_after, &total));
                if (simcuda_live_blocks() != live || free_after != free_before || gm_managed_alive())
                    fail_msg("%s, call %d failing with %d: %zu blocks and %zu bytes lost, %llu managed bytes counted", stacks[stack],
                             n, codes[code], simcuda_live_blocks() - live, free_before - free_after,
                             (unsigned long long)gm_managed_alive());
                assert_int_equal(simcuda_live_reservations(), ranges);
                assert_int_equal(simcuda_live_handles(), handles);
                assert_int_equal(gm_host_numa_alive(), 0);
                assert_int_equal(simcuda_violations(), 0);
                assert_true(n < 2000);
                world_close(&world, resource);
            }
}

static void test_pool_is_trimmed_before_out_of_memory(void **state) {
    struct world world;
    EACH_STACK(resource, world) {
        if (!is_pool(resource) || resource->upstream)
            continue;
        size_t free_bytes, total;
        CU(cuMemGetInfo_v2(&free_bytes, &total));
        /* Many small pieces kept by the pool; then one request that only all of the memory can serve. */
        size_t most = free_bytes / 8 * 3;
        struct gm_request small = plain_request(&world.origin, most / 16), large = plain_request(&world.origin, most);
        struct gm_block blocks[16], block;
        if (kind_of(resource) == GM_KIND_MANAGED_POOL)
            small.size /= 4, large.size /= 2;
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < 16; i++)
                blocks[i] = get(resource, &small);
            for (int i = 0; i < 16; i++)
                give(resource, &blocks[i]);
            block = get(resource, &large);
            give(resource, &block);
        }
        trim(resource);
    }
}

/* ---- capture */

static void test_a_capture_is_not_disturbed(void **state) {
    struct world world;
    EACH_STACK(resource, world) {
        if (kind_of(resource) == GM_KIND_NATIVE)
            continue;
        struct gm_request request = plain_request(&world.origin, BYTES);
        size_t live = simcuda_live_blocks();
        struct gm_block held = get(resource, &request), ordered = get(resource, &request), block;
        struct gm_free_request in_capture = ordered_free((uint64_t)(uintptr_t)world.one);
        CUgraph graph;

        gm_capture_begin();
        CU(cuStreamBeginCapture_v2(world.one, CU_STREAM_CAPTURE_MODE_GLOBAL));
        if (resource->row->capture)
            resource->row->capture(resource, 1);
        request.capturing = true;
        assert_int_equal(allocate(resource, &request, &block), GM_NOT_SUPPORTED);
        request.capturing = false; /* began between the request and its service */
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
        gm_capture_end();
        if (resource->row->capture)
            resource->row->capture(resource, -1);

        block = get(resource, &request);
        give(resource, &block);
        trim(resource);
        assert_int_equal(simcuda_live_blocks(), live);
        assert_int_equal(gm_managed_alive(), 0);
    }
}

/* ---- contexts, peers */

static void test_context_gone(void **state) {
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
            world_close(&world, resource); /* with one block alive and one on its way */
            assert_int_equal(gm_managed_alive(), 0);
            assert_true(lost.address != 0);
            if (maker->row->abandon)
                maker->row->abandon((struct gm_resource *)maker, &lost);
        }
    }
}

static void test_free_with_another_context_current(void **state) {
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

static void check_peers(struct gm_resource *resource) {
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
    gm_context_note_primary(1, peer);
    CU(cuCtxEnablePeerAccess(world.context, 0));
    struct gm_context accessor;
    uint64_t ended;
    assert_true(gm_context_current(&accessor));
    gm_context_note_reach(0, &accessor);
    resource->row->peer_enabled(resource, 0, 1);
    if (resource->row->peer_reaches)
        resource->row->peer_reaches(resource, &early, 1);
    CU(cuModuleLoadData(&module, "peer"));
    CU(cuModuleGetFunction(&fill, module, SIMCUDA_KERNEL_FILL));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    /* The peer's work on the block is not done when the owner frees it and takes the next. */
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
    if (resource->row->context_gone)
        resource->row->context_gone(resource, ended);
    CU(cuCtxSetCurrent(world.context));
    /* Fences go on without the peer. */
    for (int i = 0; i < 40; i++) {
        struct gm_block block = get(resource, &request);
        give(resource, &block);
    }
    world_close(&world, resource);
}

static void test_peers_reach_pools(void **state) { check_peers(built[1]); }

static void test_peers_reach_host_memory(void **state) { check_peers(build("host-numa")); }

static void test_work_of_peers_holds_a_block_back(void **state) { check_peers(build("cache(1,native)")); }

/* ---- programs that wait for themselves and finish natively; SIGALRM ends the test when they do not here */

struct two_threads {
    struct world world;
    struct gm_resource *resource;
    CUdeviceptr flag;
    size_t size;
};

static void wait_for_flag(const struct two_threads *shared, CUstream stream, uint32_t value) {
    CU(cuStreamWaitValue32_v2(stream, shared->flag, value, CU_STREAM_WAIT_VALUE_GEQ));
}

/* Work on the first words of a block. */
static void touch(const struct two_threads *shared, CUstream stream, const struct gm_block *block) {
    world_fill(&shared->world, stream, &(struct gm_block){.address = block->address, .size = 4096}, 1);
}

/* The other rank's part, that thread one's kernel waits for: allocates, works, answers. */
static void *answer(void *argument) {
    struct two_threads *shared = argument;
    struct gm_request request = plain_request(&shared->world.origin, shared->size);
    struct gm_block blocks[3];
    cuCtxSetCurrent(shared->world.context);
    for (int i = 0; i < 3; i++)
        if (shared->resource->row->alloc(shared->resource, &request, &blocks[i]) != GM_OK)
            return NULL;
    touch(shared, shared->world.two, &blocks[0]);
    cuStreamWriteValue32_v2(shared->world.two, shared->flag, 1, 0);
    for (int i = 0; i < 3; i++) {
        struct gm_free_request how = plain_free();
        shared->resource->row->free(shared->resource, &blocks[i], &how);
    }
    return shared;
}

/* Thread one frees while its kernel waits for a kernel that thread two submits after allocating: with small blocks, and with so
 * large ones that the budget of waiting blocks is used up and thread one has to wait in its free. */
static void test_a_collective_does_not_hang(void **state) {
    alarm(100);
    static const size_t sizes[] = {BYTES, (size_t)20 << 20, (size_t)40 << 20, (size_t)100 << 20};
    for (int stack = 0; stack < STACKS; stack++)
        for (size_t i = 0; is_cache_itself(built[stack]) && i < sizeof sizes / sizeof *sizes; i++) {
            struct two_threads shared = {.resource = built[stack], .size = sizes[i]};
            struct gm_block blocks[5];
            pthread_t thread;
            void *finished;
            world_open(&shared.world);
            CU(cuMemAlloc_v2(&shared.flag, 4));
            CU(cuMemsetD32_v2(shared.flag, 0, 1));
            struct gm_request request = plain_request(&shared.world.origin, shared.size);
            for (int j = 0; j < 5; j++)
                blocks[j] = get(shared.resource, &request);
            wait_for_flag(&shared, shared.world.one, 1);
            touch(&shared, shared.world.one, &blocks[0]);
            assert_int_equal(pthread_create(&thread, NULL, answer, &shared), 0);
            for (int j = 0; j < 5; j++)
                give(shared.resource, &blocks[j]);
            pthread_join(thread, &finished);
            assert_non_null(finished);
            CU(cuCtxSynchronize());
            assert_int_equal(simcuda_violations(), 0);
            CU(cuMemFree_v2(shared.flag));
            trim(shared.resource);
            world_close(&shared.world, shared.resource);
        }
    alarm(0);
}

/* A kernel that runs until the host tells it to end is launched after some frees; the host allocates before it does. */
static void test_a_persistent_kernel_does_not_hang(void **state) {
    alarm(100);
    static const size_t sizes[] = {BYTES, (size_t)20 << 20, (size_t)40 << 20, (size_t)100 << 20};
    for (int stack = 0; stack < STACKS; stack++)
        for (size_t i = 0; is_cache_itself(built[stack]) && i < sizeof sizes / sizeof *sizes; i++) {
            struct two_threads shared = {.resource = built[stack], .size = sizes[i]};
            struct gm_block blocks[5];
            world_open(&shared.world);
            CU(cuMemAlloc_v2(&shared.flag, 4));
            CU(cuMemsetD32_v2(shared.flag, 0, 1));
            struct gm_request request = plain_request(&shared.world.origin, shared.size);
            for (int j = 0; j < 5; j++)
                blocks[j] = get(shared.resource, &request);
            for (int j = 0; j < 5; j++) {
                touch(&shared, shared.world.two, &blocks[j]);
                give(shared.resource, &blocks[j]);
            }
            wait_for_flag(&shared, shared.world.one, 1);
            for (int j = 0; j < 5; j++) {
                blocks[j] = get(shared.resource, &request);
                touch(&shared, shared.world.two, &blocks[j]);
            }
            CU(cuStreamWriteValue32_v2(shared.world.two, shared.flag, 1, 0));
            for (int j = 0; j < 5; j++)
                give(shared.resource, &blocks[j]);
            CU(cuCtxSynchronize());
            assert_int_equal(simcuda_violations(), 0);
            CU(cuMemFree_v2(shared.flag));
            trim(shared.resource);
            world_close(&shared.world, shared.resource);
        }
    alarm(0);
}

static void test_kept_memory_is_free_memory(void **state) {
    struct gm_resource *resource = stack_named("cache(native)");
    struct world world;
    size_t before, after, total;
    world_open(&world);
    if (!gm_fence_supported()) {
        world_close(&world, resource);
        skip();
    }
    struct gm_request request = plain_request(&world.origin, (size_t)10 << 20);
    CU(cuMemGetInfo_v2(&before, &total));
    struct gm_block block = get(resource, &request);
    give(resource, &block);
    CU(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before - after, resource->row->releasable(resource, 0));
    simcuda_set_streams("manual");
    block = get(resource, &request);
    assert_true(block.hit);
    world_fill(&world, world.one, &block, 1);
    give(resource, &block);
    assert_int_equal(resource->row->releasable(resource, 0), 0); /* in use still */
    simcuda_run_all();
    assert_int_equal(resource->row->trim(resource, 1), request.size);
    CU(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
    world_close(&world, resource);
}

/* ---- what single resources promise beyond the contract */

static void test_fill_content(void **state) {
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

static void test_managed_memory_stays_below_what_is_free(void **state) {
    for (int stack = 2; stack < 4; stack++) {
        struct gm_resource *resource = built[stack], *other = built[5 - stack];
        struct world world;
        struct gm_block blocks[64], block;
        size_t free_bytes, total, count = 0;
        world_open(&world);
        CU(cuMemGetInfo_v2(&free_bytes, &total));
        struct gm_request request = plain_request(&world.origin, (size_t)64 << 20);
        while (count < 64 && allocate(resource, &request, &blocks[count]) == GM_OK) {
            count++;
            CU(cuMemGetInfo_v2(&free_bytes, &total));
            assert_true(count * request.size + (512u << 20) - request.size <= free_bytes + request.size);
        }
        assert_true(count > 4 && count < 64);
        assert_int_equal(allocate(resource, &request, &block), GM_OUT_OF_MEMORY);
        assert_int_equal(allocate(other, &request, &block), GM_OUT_OF_MEMORY); /* one sum for both */
        give(resource, &blocks[--count]);
        block = get(resource, &request);
        give(resource, &block);
        gm_managed_note(2 * (int64_t)request.size); /* the program takes some by its own call */
        assert_int_equal(allocate(resource, &request, &block), GM_OUT_OF_MEMORY);
        gm_managed_note(-2 * (int64_t)request.size);
        while (count)
            give(resource, &blocks[--count]);
        trim(resource);
        assert_int_equal(gm_managed_alive(), 0);
        world_close(&world, resource);
    }
}

/* ---- host memory behind the device */

static struct gm_hostmem spare;
static bool say_spare(int node, struct gm_hostmem *memory) {
    *memory = spare;
    return true;
}

static void test_host_memory_takes_nothing_of_the_device(void **state) {
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

static void test_host_memory_is_bounded_by_the_host(void **state) {
    struct gm_resource *resource = build("host-numa");
    struct world world;
    struct gm_block block, first;
    world_open(&world);
    struct gm_request request = plain_request(&world.origin, (size_t)4 << 20);
    spare = (struct gm_hostmem){.available = ((uint64_t)512 + 6) << 20, .total = (uint64_t)1 << 30};
    gm_host_numa_ask(say_spare);
    simcuda_reset_counters();
    first = get(resource, &request);
    spare.available -= first.reserved; /* as the machine would say now */
    assert_int_equal(allocate(resource, &request, &block), GM_OUT_OF_MEMORY);
    assert_int_equal(simcuda_calls("cuMemCreate"), 1); /* the driver was not even asked */
    request.size = (size_t)2 << 20;
    block = get(resource, &request);
    give(resource, &block);
    /* What waits for its stream is waited for before a request is refused. */
    struct gm_free_request how = ordered_free((uint64_t)(uintptr_t)world.one);
    assert_int_equal(release(resource, &first, &how), GM_OK);
    spare.available = (uint64_t)512 << 20;
    assert_int_equal(allocate(resource, &request, &block), GM_OUT_OF_MEMORY);
    assert_int_equal(gm_host_numa_alive(), 0);
    gm_host_numa_ask(NULL);
    world_close(&world, resource);
}

/* Two requests at once, each of which fits alone. */
static struct gm_resource *second_resource;
static struct gm_request second_request;
static gm_status second_status;
static bool ask_in_between(int node, struct gm_hostmem *memory) {
    gm_host_numa_ask(say_spare);
    struct gm_block block;
    second_status = allocate(second_resource, &second_request, &block);
    return say_spare(node, memory);
}

static void test_parallel_requests_for_host_memory(void **state) {
    struct gm_resource *resource = build("host-numa");
    struct world world;
    world_open(&world);
    struct gm_request request = plain_request(&world.origin, (size_t)4 << 20);
    spare = (struct gm_hostmem){.available = ((uint64_t)512 + 6) << 20, .total = (uint64_t)1 << 30};
    second_resource = resource;
    second_request = request;
    gm_host_numa_ask(ask_in_between);
    struct gm_block block = get(resource, &request);
    assert_int_equal(second_status, GM_OUT_OF_MEMORY);
    give(resource, &block);
    gm_host_numa_ask(NULL);
    world_close(&world, resource);
}

static CUresult lacks(int *value, CUdevice_attribute attribute, CUdevice device) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    return CUDA_SUCCESS;
}

static void test_host_memory_needs_driver_and_device(void **state) {
    struct gm_resource *resource = build("host-numa");
    struct gm_driver kept_driver = gm_drv;
    struct world world;
    struct gm_block block;
    world_open(&world);
    struct gm_request request = plain_request(&world.origin, BYTES);
    gm_drv.mem_create = NULL;
    assert_int_equal(allocate(resource, &request, &block), GM_NOT_SUPPORTED);
    gm_drv.mem_create = kept_driver.mem_create;
    gm_host_numa_ask(NULL); /* forgets what is known of the devices */
    gm_drv.device_get_attribute = lacks;
    assert_int_equal(allocate(resource, &request, &block), GM_NOT_SUPPORTED);
    gm_drv.device_get_attribute = kept_driver.device_get_attribute;
    gm_host_numa_ask(NULL);
    block = get(resource, &request);
    give(resource, &block);
    world_close(&world, resource);
}

/* The mapping is not the context's: whoever ends the context gives it back. */
static void test_abandoned_host_memory_is_given_back(void **state) {
    struct gm_resource *resource = build("host-numa");
    struct world world;
    size_t ranges = simcuda_live_reservations(), handles = simcuda_live_handles();
    world_open(&world);
    struct gm_request request = plain_request(&world.origin, BYTES);
    struct gm_request ordered = ordered_request(&world.origin, BYTES, (uint64_t)(uintptr_t)world.one);
    struct gm_free_request how = ordered_free(ordered.stream);
    struct gm_block block = get(resource, &request), parked = get(resource, &ordered);
    simcuda_set_streams("manual");
    world_fill(&world, world.one, &parked, 1);
    assert_int_equal(release(resource, &parked, &how), GM_OK);
    world_close(&world, resource);
    resource->row->abandon(resource, &block);
    assert_int_equal(simcuda_live_reservations(), ranges);
    assert_int_equal(simcuda_live_handles(), handles);
    assert_int_equal(gm_host_numa_alive(), 0);
}

static int setup(void **state) {
    for (int i = 0; i < STACKS; i++)
        built[i] = build(stacks[i]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contract),
        cmocka_unit_test(test_pitch_is_the_devices_choice),
        cmocka_unit_test(test_data_survives_neighbours),
        cmocka_unit_test(test_no_reuse_before_earlier_work_is_done),
        cmocka_unit_test(test_the_suite_sees_early_reuse),
        cmocka_unit_test(test_the_suite_sees_a_cache_without_fences),
        cmocka_unit_test(test_free_waits_only_where_it_says_so),
        cmocka_unit_test(test_allocation_never_waits_for_the_program),
        cmocka_unit_test(test_stream_order_is_kept),
        cmocka_unit_test(test_waiting_managed_blocks_are_bounded),
        cmocka_unit_test(test_any_driver_call_may_fail),
        cmocka_unit_test(test_pool_is_trimmed_before_out_of_memory),
        cmocka_unit_test(test_a_capture_is_not_disturbed),
        cmocka_unit_test(test_context_gone),
        cmocka_unit_test(test_free_with_another_context_current),
        cmocka_unit_test(test_peers_reach_pools),
        cmocka_unit_test(test_peers_reach_host_memory),
        cmocka_unit_test(test_host_memory_takes_nothing_of_the_device),
        cmocka_unit_test(test_host_memory_is_bounded_by_the_host),
        cmocka_unit_test(test_parallel_requests_for_host_memory),
        cmocka_unit_test(test_host_memory_needs_driver_and_device),
        cmocka_unit_test(test_abandoned_host_memory_is_given_back),
        cmocka_unit_test(test_work_of_peers_holds_a_block_back),
        cmocka_unit_test(test_a_collective_does_not_hang),
        cmocka_unit_test(test_a_persistent_kernel_does_not_hang),
        cmocka_unit_test(test_kept_memory_is_free_memory),
        cmocka_unit_test(test_fill_content),
        cmocka_unit_test(test_managed_memory_stays_below_what_is_free),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
