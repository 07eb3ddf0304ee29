/* Driver calls that fail, and memory that runs out: no memory leaks, and unused memory counts as free memory. */
#include <stdio.h>
#include <string.h>

#include "shim/driver/fence.h"
#include "shim/resource/guard_ranges.h"
#include "shim/resource/reach.h"
#include "shim/resource/vmm.h"
#include "stacks.h"

/* ---- failures */

struct outcome {
    struct gm_block blocks[5];
    bool live[5];
    unsigned count; /* requests served */
    bool moved;
};

static void try_all(struct gm_resource *resource, const struct world *world, struct outcome *outcome,
                    void (*meanwhile)(struct outcome *outcome)) {
    /* More than a page of the device where pages are moved; else just a block that is no part of a page. */
    size_t large = meanwhile ? 2200000 : 1100000;
    uint64_t stream = (uint64_t)(uintptr_t)world->one;
    const struct gm_request requests[5] = {
        plain_request(&world->origin, 1000),       plain_request(&world->origin, large),
        pitched_request(&world->origin, 3001, 40), ordered_request(&world->origin, 5000, stream),
        plain_request(&world->origin, 1000),
    };
    for (int i = 0; i < 5; i++) {
        outcome->live[i] = allocate(resource, &requests[i], &outcome->blocks[i]) == GM_OK;
        outcome->count += outcome->live[i];
    }
    if (meanwhile)
        meanwhile(outcome);
    for (int i = 0; i < 5; i++) {
        struct gm_free_request how = i == 3 ? ordered_free(stream) : plain_free();
        how.settled = i == 4;
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

static void move_pages(struct outcome *outcome) {
    CUstreamCaptureMode mode;
    if (!outcome->live[0] || !outcome->live[1] ||
        !gm_vmm_can_move(outcome->blocks[0].address, outcome->blocks[1].address))
        return;
    assert_true(gm_capture_guard_enter(&mode));
    outcome->live[0] = gm_vmm_move(outcome->blocks[0].address, outcome->blocks[1].address) != GM_OK;
    gm_capture_guard_leave(mode);
    outcome->moved = !outcome->live[0];
}

/* The n-th driver call fails, for n = 1, 2, 3 ... until the test makes fewer than n calls. No memory leaks, and
 * everything works afterwards. `served`: requests that succeed without a failure. */
static void fail_each_call(const char *name, struct gm_resource *resource, unsigned served, int code) {
    struct world world;
    bool moves = !strcmp(name, "vmm");
    for (int n = 1, failed = 1; failed; n++) {
        struct outcome outcome = {0};
        char script[64];
        size_t free_before, free_after, total;
        world_open(&world);
        size_t live = simcuda_live_blocks(), ranges = simcuda_live_reservations() - gm_guard_arenas(),
               handles = simcuda_live_handles();
        CU(cuMemGetInfo_v2(&free_before, &total));
        simcuda_reset_counters();
        snprintf(script, sizeof script, "*:%d:%d", n, code);
        assert_int_equal(simcuda_set_failures(script), 0);
        try_all(resource, &world, &outcome, moves ? move_pages : NULL);
        uint64_t calls = simcuda_calls(NULL);
        simcuda_set_failures(NULL);
        failed = calls >= (uint64_t)n;
        if (!failed) {
            assert_int_equal(outcome.count, served);
            assert_int_equal(outcome.moved, moves);
        }
        free_the_rest(resource, &world, &outcome);
        CU(cuMemGetInfo_v2(&free_after, &total));
        if (simcuda_live_blocks() != live || free_after != free_before || gm_managed_alive())
            fail_msg("%s, call %d failing with %d: %zu blocks and %zu bytes leaked, %llu managed bytes counted", name,
                     n, code, simcuda_live_blocks() - live, free_before - free_after,
                     (unsigned long long)gm_managed_alive());
        assert_int_equal(simcuda_live_reservations() - gm_guard_arenas(), ranges);
        assert_int_equal(simcuda_live_handles(), handles);
        assert_int_equal(gm_host_numa_alive(), 0);
        assert_int_equal(simcuda_violations(), 0);
        assert_true(n < 2000);
        world_close(&world, resource);
    }
}

static const int codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN};

TEST(test_any_driver_call_may_fail) {
    for (int stack = 0; stack < STACKS; stack++)
        for (int code = 0; code < 2; code++)
            fail_each_call(stacks[stack], built[stack], 5, codes[code]);
}

/* Resource "vmm" serves plain requests alone, so it is not among the stacks. A block takes the pages of another. */
TEST(test_any_driver_call_of_vmm_may_fail) {
    struct gm_resource *vmm = build("vmm");
    gm_vmm_split_fronts();
    if (!gm_driver_ready(true) || !gm_reach_all())
        skip();
    for (int code = 0; code < 2; code++)
        fail_each_call("vmm", vmm, 3, codes[code]);
}

TEST(test_pool_is_trimmed_before_out_of_memory) {
    struct world world;
    EACH_STACK(resource, world) {
        if (!is_pool(resource) || resource->upstream)
            continue;
        size_t free_bytes, total;
        CU(cuMemGetInfo_v2(&free_bytes, &total));
        /* The pool holds many small unused blocks. Then comes a request that needs all of their memory. */
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

TEST(test_cached_memory_is_free_memory) {
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
    assert_int_equal(before - after, gm_stack_releasable(resource, 0));
    simcuda_set_streams("manual");
    block = get(resource, &request);
    assert_true(block.hit);
    world_fill(&world, world.one, &block, 1);
    give(resource, &block);
    assert_int_equal(gm_stack_releasable(resource, 0), 0); /* in use still */
    simcuda_run_all();
    assert_int_equal(gm_stack_trim(resource, 1), request.size);
    CU(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
    world_close(&world, resource);
}

/* A pool releases its unused memory when free memory is queried, beside a live block and without waiting. */
/* Free memory of the device as gpumem tells it, with what the resource keeps unused. */
static size_t free_with(struct gm_resource *resource) {
    size_t free_bytes, total, unused = gm_stack_releasable(resource, 0);
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes + unused;
}

TEST(test_unused_memory_of_a_pool_is_free_memory) {
    static const char *const names[] = {"cache(async)", "cache(1,async)", "cache(1,managed-pool)"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct gm_resource *resource = stack_named(names[i]);
        struct world world;
        struct gm_block blocks[20];
        size_t before, after, total;
        world_open(&world);
        if (!gm_fence_supported()) {
            world_close(&world, resource);
            skip();
        }
        struct gm_request small = plain_request(&world.origin, 300000),
                          large = plain_request(&world.origin, (size_t)10 << 20);
        struct gm_block alive = get(resource, &small), block = get(resource, &large);
        give(resource, &block);
        before = free_with(resource);
        for (int round = 0; round < 3; round++) {
            for (size_t j = 0; j < 20; j++)
                blocks[j] = get(resource, j % 2 ? &small : &large);
            for (size_t j = 0; j < 20; j++)
                give(resource, &blocks[j]);
            CU(cuMemGetInfo_v2(&after, &total));
            assert_true(before - after >= 10 * large.size);
            assert_int_equal(before, free_with(resource));
        }
        block = get(resource, &large);
        simcuda_set_streams("manual");
        world_fill(&world, world.one, &block, 1);
        int pending = simcuda_pending();
        give(resource, &block);
        assert_int_equal(before - free_with(resource), large.size); /* in use still */
        assert_true(pending > 0 && simcuda_pending() >= pending);
        simcuda_run_all();
        simcuda_set_streams("immediate");
        assert_int_equal(before, free_with(resource));
        give(resource, &alive);
        assert_int_equal(simcuda_violations(), 0);
        world_close(&world, resource);
    }
}

TEST(test_managed_memory_stays_below_what_is_free) {
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
        assert_int_equal(allocate(other, &request, &block), GM_OUT_OF_MEMORY); /* both count in one sum */
        give(resource, &blocks[--count]);
        block = get(resource, &request);
        give(resource, &block);
        gm_managed_note(2 * (int64_t)request.size); /* the program allocates some by its own call */
        assert_int_equal(allocate(resource, &request, &block), GM_OUT_OF_MEMORY);
        gm_managed_note(-2 * (int64_t)request.size);
        while (count)
            give(resource, &blocks[--count]);
        trim(resource);
        assert_int_equal(gm_managed_alive(), 0);
        world_close(&world, resource);
    }
}

int main(void) { return run_all(build_stacks, NULL); }
