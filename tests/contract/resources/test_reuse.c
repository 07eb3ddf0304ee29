/* A resource reuses memory only after the work of its last owner is done. No call waits that would not wait natively.
 */
#include <stdio.h>
#include <string.h>

#include "shim/driver/fence.h"
#include "stacks.h"

/* Stream one works on a block, which is then freed. The next block of this size is used on stream two, which runs
 * first. Returns the violations that the simulated driver counted. */
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

/* Many blocks of two sizes on both streams, in an order that depends on the seed. With an odd seed the driver runs
 * queued work during its calls. With an even seed it does so only sometimes, so that much work is queued. */
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

TEST(test_no_reuse_before_earlier_work_is_done) {
    struct world world;
    EACH_STACK(resource, world) {
        if (early_reuse_mistakes(resource, &world))
            fail_msg("%s: memory was reused early: %s", stacks[stack_], simcuda_last_violation());
        for (unsigned seed = 1; seed <= 8; seed++)
            if (random_reuse_mistakes(resource, &world, seed))
                fail_msg("%s: memory was reused early with seed %u: %s", stacks[stack_], seed,
                         simcuda_last_violation());
    }
}

/* A wrong cache: it reuses a freed block at once, without a fence. */
static struct gm_block freed;

static gm_status hasty_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    if (freed.address && freed.size == request->size) {
        *block = freed;
        freed.address = 0;
        return GM_OK;
    }
    gm_status status = gm_resource_alloc(self->upstream, request, decision, block);
    if (!status)
        block->owner = self;
    return status;
}

static gm_status hasty_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    if (freed.address)
        return gm_resource_free(self->upstream, block, how);
    freed = *block;
    return GM_OK;
}

TEST(test_the_suite_sees_early_reuse) {
    static const struct gm_resource_ops row = {.name = "hasty", .alloc = hasty_alloc, .free = hasty_free};
    struct gm_resource hasty = {.ops = &row, .upstream = built[0], .properties = built[0]->properties};
    struct world world;
    unsigned seen = 0;
    world_open(&world);
    freed.address = 0;
    assert_true(early_reuse_mistakes(&hasty, &world) > 0);
    for (unsigned seed = 1; seed <= 8; seed++)
        seen += random_reuse_mistakes(&hasty, &world, seed) > 0;
    assert_true(seen > 0);
    world_close(&world, built[0]);
}

/* With a driver that records nothing the cache has no working fences. */
static CUresult record_nothing(CUcontext context, CUevent event) { return (void)context, (void)event, CUDA_SUCCESS; }

TEST(test_the_suite_sees_a_cache_without_fences) {
    struct gm_resource *resource = build("cache(1,native)");
    struct world world;
    unsigned seen = 0;
    if (!gm_drv.ctx_record_event)
        skip();
    __typeof__(gm_drv.ctx_record_event) saved_function = gm_drv.ctx_record_event;
    world_open(&world);
    gm_drv.ctx_record_event = record_nothing;
    assert_true(early_reuse_mistakes(resource, &world) > 0);
    for (unsigned seed = 1; seed <= 8; seed++)
        seen += random_reuse_mistakes(resource, &world, seed) > 0;
    gm_drv.ctx_record_event = saved_function;
    assert_true(seen > 0);
    world_close(&world, resource);
}

TEST(test_free_waits_only_where_it_says_so) {
    struct world world;
    EACH_STACK(resource, world) {
        struct gm_request request = plain_request(&world.origin, BYTES);
        struct gm_block block = get(resource, &request);
        struct gm_free_request how = plain_free();
        simcuda_reset_counters();
        simcuda_set_streams("manual");
        world_fill(&world, world.one, &block, 1);
        world_check(&world, world.one, &block, 1);
        assert_int_equal(release(resource, &block, &how), GM_OK);
        /* A free waits where it cannot record a fence. */
        bool by_internal_stream =
            (is_pool(resource) && !is_cache(resource)) || strcmp(resource->ops->name, "fill") == 0;
        bool waits = !(is_pool(resource) || is_cache(resource)) || (by_internal_stream && !gm_drv.ctx_record_event) ||
                     (is_cache(resource) && !gm_fence_supported());
        assert_int_equal(simcuda_check_runs(), waits ? 1 : 0);
        simcuda_run_all();
        assert_int_equal(simcuda_violations(), 0);
        simcuda_set_streams("immediate");
    }
}

TEST(test_allocation_never_waits_for_the_program) {
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

int main(void) { return run_all(build_stacks, NULL); }
