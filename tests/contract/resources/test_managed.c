/* Managed memory: cheap allocation and free, prefetch by option, advice that ends with its block, and the managed
 * quota, which counts free blocks too. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/base/events.h"
#include "shim/base/options.h"
#include "shim/resource/managed_quota.h"
#include "world.h"

#define MIB ((size_t)1 << 20)

enum { PLAIN, POOL, CACHED, CACHED_SOON, STACKS };
static const char *const stacks[STACKS] = {"managed", "managed-pool", "cache(managed-pool)", "cache(1,managed-pool)"};
static struct gm_resource *built[STACKS];

static bool prefetching(void) { return gm_option_bool(GM_OPT_MANAGED_PREFETCH); }

static struct gm_block get(struct gm_resource *resource, const struct gm_request *request) {
    struct gm_block block;
    assert_int_equal(allocate(resource, request, &block), GM_OK);
    return block;
}

static void give(struct gm_resource *resource, const struct gm_block *block) {
    struct gm_free_request how = plain_free();
    assert_int_equal(release(resource, block, &how), GM_OK);
}

static void finish(struct gm_resource *resource, const struct world *world, size_t live) {
    CU(cuCtxSynchronize());
    gm_stack_trim(resource, SIZE_MAX);
    assert_int_equal(simcuda_live_blocks(), live);
    assert_int_equal(simcuda_violations(), 0);
    assert_int_equal(gm_managed_alive(), 0);
}

static int attribute(CUmem_range_attribute name, uint64_t address, size_t size) {
    int value = -99;
    CU(cuMemRangeGetAttribute(&value, sizeof value, name, address, size));
    return value;
}

static int prefetched_to(const struct gm_block *block) {
    return attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, block->address, block->size);
}

static __typeof__(gm_drv.device_get_attribute) true_attribute;

static CUresult no_migration(int *value, CUdevice_attribute name, CUdevice device) {
    CUresult result = true_attribute(value, name, device);
    if (name == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)
        *value = 0;
    return result;
}

/* A device without migration gets no prefetch. The query of the device is cached, so this runs in a child process
 * before the first query here, and first: CUDA does not survive a fork. */
TEST(test_devices_without_migration) {
    int status = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        struct world world;
        struct gm_block block;
        world_open(&world);
        true_attribute = gm_drv.device_get_attribute;
        gm_drv.device_get_attribute = no_migration;
        struct gm_request request = plain_request(&world.origin, MIB);
        gm_status refused = gm_resource_alloc(built[POOL], &request, NULL, &block);
        gm_status served = gm_resource_alloc(built[PLAIN], &request, NULL, &block);
        _exit(refused == GM_NOT_SUPPORTED && served == GM_OK && prefetched_to(&block) == CU_DEVICE_INVALID ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- allocation and free */

TEST(test_a_pair_in_a_loop_asks_little_of_the_driver) {
    struct gm_resource *resource = built[CACHED];
    struct world world;
    world_open(&world);
    if (!gm_drv.ctx_record_event) {
        world_close(&world, resource);
        skip();
    }
    size_t live = simcuda_live_blocks();
    struct gm_request request = plain_request(&world.origin, MIB / 4);
    for (int i = 0; i < 64; i++) {
        struct gm_block block = get(resource, &request);
        give(resource, &block);
    }
    simcuda_reset_counters();
    for (int i = 0; i < 160; i++) {
        struct gm_block block = get(resource, &request);
        assert_int_equal(block.kind, GM_KIND_MANAGED_POOL);
        assert_true(block.hit);
        give(resource, &block);
    }
    assert_int_equal(simcuda_calls("cuMemAllocFromPoolAsync") + simcuda_calls("cuMemFreeAsync"), 0);
    assert_int_equal(
        simcuda_calls("cuStreamSynchronize") + simcuda_calls("cuCtxSynchronize") + simcuda_calls("cuStreamQuery"), 0);
    assert_int_equal(simcuda_calls("cuCtxRecordEvent"), 160 / 16);
    assert_true(simcuda_calls(NULL) <= 160);
    finish(resource, &world, live);
    world_close(&world, resource);
}

/* Allocation and free of a pool: one query whether the allocation is complete, one fence, no wait. */
TEST(test_a_pair_of_the_pool_does_not_wait) {
    struct gm_resource *resource = built[POOL];
    struct world world;
    world_open(&world);
    if (!gm_drv.ctx_record_event) {
        world_close(&world, resource);
        skip();
    }
    size_t live = simcuda_live_blocks();
    struct gm_request request = plain_request(&world.origin, MIB);
    struct gm_block block = get(resource, &request);
    give(resource, &block);
    simcuda_reset_counters();
    block = get(resource, &request);
    give(resource, &block);
    assert_int_equal(simcuda_calls("cuStreamSynchronize") + simcuda_calls("cuCtxSynchronize"), 0);
    assert_int_equal(simcuda_calls("cuStreamQuery"), 1);
    assert_int_equal(simcuda_calls("cuCtxRecordEvent"), 1);
    assert_int_equal(simcuda_calls("cuStreamWaitEvent"), 0); /* so no wait of the program is for another device */
    finish(resource, &world, live);
    world_close(&world, resource);
}

/* ---- the managed quota */

static void trim_cache(void) { gm_stack_trim(built[CACHED], SIZE_MAX); }

TEST(test_free_blocks_count_and_are_released) {
    struct gm_resource *resource = built[CACHED], *plain = built[PLAIN];
    struct world world;
    struct gm_block blocks[64], block;
    size_t free_bytes, total, count = 0;
    world_open(&world);
    if (!gm_drv.ctx_record_event) {
        world_close(&world, resource);
        skip();
    }
    gm_events.quota_short = trim_cache;
    size_t live = simcuda_live_blocks();
    struct gm_request request = plain_request(&world.origin, 64 * MIB), large = plain_request(&world.origin, 96 * MIB);
    while (count < 64 && allocate(resource, &request, &blocks[count]) == GM_OK)
        count++;
    assert_true(count > 4 && count < 64);
    for (size_t i = 0; i < count; i++)
        give(resource, &blocks[i]);
    uint64_t cached = gm_managed_alive();
    assert_true(cached >= request.size); /* free blocks are charged */

    struct gm_request most = plain_request(&world.origin, (count - 2) * request.size);
    block = get(plain, &most);
    give(plain, &block);

    /* The next request, of another size and from the other maker, gets the memory of the free blocks. */
    for (size_t i = 0; i < count / 3; i++) {
        blocks[i] = get(i % 2 ? plain : resource, &large);
        CU(cuMemGetInfo_v2(&free_bytes, &total));
        assert_true(free_bytes >= 512 * MIB); /* the headroom */
    }
    for (size_t i = 0; i < count / 3; i++)
        give(i % 2 ? plain : resource, &blocks[i]);
    block = get(plain, &request);
    give(plain, &block);
    gm_events.quota_short = NULL;
    finish(resource, &world, live);
    world_close(&world, resource);
}

/* ---- prefetch */

TEST(test_prefetch_is_an_option) {
    const int expected = prefetching() ? 0 : CU_DEVICE_INVALID;
    struct world world;
    for (int stack = 0; stack < STACKS; stack++) {
        struct gm_resource *resource = built[stack];
        world_open(&world);
        size_t live = simcuda_live_blocks();
        struct gm_request plain = plain_request(&world.origin, 3 * MIB);
        struct gm_request ordered = ordered_request(&world.origin, 3 * MIB, (uint64_t)(uintptr_t)world.one);
        struct gm_free_request how = ordered_free(ordered.stream);
        struct gm_block block = get(resource, &plain), second = get(resource, &ordered);
        assert_int_equal(prefetched_to(&block), expected);
        assert_int_equal(prefetched_to(&second), expected);
        give(resource, &block);
        assert_int_equal(release(resource, &second, &how), GM_OK);
        finish(resource, &world, live);
        world_close(&world, resource);
    }
}

/* A driver may have one signature, both or none. */
TEST(test_prefetch_by_either_signature) {
    struct gm_resource *resource = built[PLAIN];
    __typeof__(gm_drv.mem_prefetch) first = gm_drv.mem_prefetch;
    __typeof__(gm_drv.mem_prefetch_v2) second = gm_drv.mem_prefetch_v2;
    struct world world;
    if (!prefetching())
        skip();
    for (int have = 0; have < 4; have++) {
        world_open(&world);
        first = gm_drv.mem_prefetch, second = gm_drv.mem_prefetch_v2;
        assert_true(first && second);
        gm_drv.mem_prefetch = have & 1 ? first : NULL;
        gm_drv.mem_prefetch_v2 = have & 2 ? second : NULL;
        struct gm_request request = plain_request(&world.origin, MIB);
        struct gm_block block = get(resource, &request);
        assert_int_equal(prefetched_to(&block), have ? 0 : CU_DEVICE_INVALID);
        assert_int_equal(simcuda_calls("cuMemPrefetchAsync_v2"), have & 2 ? 1 : 0);
        give(resource, &block);
        gm_drv.mem_prefetch = first;
        gm_drv.mem_prefetch_v2 = second;
        world_close(&world, resource);
    }
}

/* Neither work of the program nor a free, of either kind, runs before a prefetch that is queued. No allocation waits
 * for a prefetch. */
TEST(test_prefetch_comes_before_the_free) {
    struct world world;
    if (!prefetching())
        skip();
    for (int stack = 0; stack < STACKS; stack++)
        for (int ordered = 0; ordered < 2; ordered++) {
            struct gm_resource *resource = built[stack];
            struct gm_block blocks[8];
            world_open(&world);
            size_t live = simcuda_live_blocks();
            struct gm_request request = plain_request(&world.origin, 5 * MIB);
            struct gm_free_request how = ordered ? ordered_free((uint64_t)(uintptr_t)world.two) : plain_free();
            struct gm_block warm = get(resource, &request);
            give(resource, &warm);
            CU(cuCtxSynchronize());
            gm_stack_trim(resource, SIZE_MAX);
            simcuda_set_streams("manual");
            for (int i = 0; i < 8; i++)
                blocks[i] = get(resource, &request);
            assert_true(stack != PLAIN || simcuda_pending() == 8); /* the prefetches, for which nobody waited */
            for (int i = 0; i < 8; i++) {
                world_fill(&world, world.two, &blocks[i], (uint32_t)i);
                assert_int_equal(release(resource, &blocks[i], &how), GM_OK);
            }
            while (simcuda_step(world.two)) /* runs all work that does not wait for a prefetch */
                ;
            simcuda_run_all();
            simcuda_set_streams("immediate");
            assert_int_equal(simcuda_violations(), 0);
            finish(resource, &world, live);
            world_close(&world, resource);
        }
}

/* ---- advice */

static void assert_no_advice(const struct gm_block *block) {
    for (size_t at = 0; at < block->size; at += 4096) {
        size_t part = block->size - at < 4096 ? block->size - at : 4096;
        assert_int_equal(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, block->address + at, part), 0);
        assert_int_equal(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, block->address + at, part),
                         CU_DEVICE_INVALID);
        assert_int_equal(attribute(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, block->address + at, part), CU_DEVICE_INVALID);
        assert_int_not_equal(attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, block->address + at, part),
                             CU_DEVICE_CPU);
    }
}

/* The advice of the program. The hook marks the block, as done here. */
static void advise(struct gm_block *block, const struct world *world, int devices) {
    const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    size_t half = block->size / 2;
    int answer = cuMemAdvise_v2(block->address + half, block->size - half, CU_MEM_ADVISE_SET_READ_MOSTLY, host);
    assert_int_equal(answer,
                     block->kind == GM_KIND_MANAGED ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED); /* a pool's memory */
    CU(cuMemAdvise(block->address, block->size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0));
    CU(cuMemAdvise(block->address, half, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
    for (int device = 0; device < devices; device++)
        CU(cuMemAdvise(block->address + half, 1, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
    CU(cuMemPrefetchAsync_v2(block->address, block->size, host, 0, world->one));
    block->pinned_native = 1;
}

TEST(test_advice_ends_with_its_block) {
    struct world world;
    int devices;
    for (int stack = 0; stack < STACKS; stack++)
        for (int ordered = 0; ordered < 2; ordered++) {
            struct gm_resource *resource = built[stack];
            struct gm_block block, next;
            world_open(&world);
            CU(cuDeviceGetCount(&devices));
            size_t live = simcuda_live_blocks();
            struct gm_request request = ordered
                                            ? ordered_request(&world.origin, MIB + 300, (uint64_t)(uintptr_t)world.one)
                                            : plain_request(&world.origin, MIB + 300);
            struct gm_free_request how = ordered ? ordered_free(request.stream) : plain_free();
            for (int round = 0; round < 3; round++) {
                block = get(resource, &request);
                assert_no_advice(&block);
                advise(&block, &world, devices);
                assert_int_equal(release(resource, &block, &how), GM_OK);
                CU(cuCtxSynchronize());
                next = get(resource, &request);
                assert_true(stack == PLAIN || next.address == block.address); /* otherwise this check proves nothing */
                assert_no_advice(&next);
                assert_int_equal(release(resource, &next, &how), GM_OK);
            }
            finish(resource, &world, live);
            world_close(&world, resource);
        }
}

TEST(test_advice_ends_during_a_capture) {
    struct world world;
    int devices;
    for (int stack = POOL; stack < STACKS; stack++) {
        struct gm_resource *resource = built[stack];
        CUgraph graph;
        world_open(&world);
        CU(cuDeviceGetCount(&devices));
        size_t live = simcuda_live_blocks();
        struct gm_request request = plain_request(&world.origin, MIB);
        struct gm_block block = get(resource, &request), next;
        advise(&block, &world, devices);
        CU(cuCtxSynchronize());
        gm_capture_begin(world.one, false, CU_STREAM_CAPTURE_MODE_GLOBAL);
        CU(cuStreamBeginCapture_v2(world.one, CU_STREAM_CAPTURE_MODE_GLOBAL));
        give(resource, &block);
        CU(cuStreamEndCapture(world.one, &graph));
        gm_capture_end(world.one, false);
        GM_TELL(resource, capture, -1);
        next = get(resource, &request);
        assert_int_equal(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, next.address, next.size), 0);
        assert_int_equal(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, next.address, next.size),
                         CU_DEVICE_INVALID);
        give(resource, &next);
        finish(resource, &world, live);
        world_close(&world, resource);
    }
}

/* ---- failures and threads */

struct tried {
    struct gm_block blocks[4];
    bool live[4];
};

static void try_all(struct gm_resource *resource, const struct world *world, struct tried *tried) {
    const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    uint64_t stream = (uint64_t)(uintptr_t)world->two;
    const struct gm_request requests[4] = {plain_request(&world->origin, MIB), plain_request(&world->origin, 3 * MIB),
                                           ordered_request(&world->origin, MIB, stream),
                                           plain_request(&world->origin, MIB)};
    for (int i = 0; i < 4; i++) {
        struct gm_block *block = &tried->blocks[i];
        tried->live[i] = allocate(resource, &requests[i], block) == GM_OK;
        /* The mark is set only where the driver took the advice. */
        if (tried->live[i] && i < 3)
            block->pinned_native =
                cuMemAdvise_v2(block->address, block->size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host) == CUDA_SUCCESS;
    }
    for (int i = 0; i < 4; i++) {
        struct gm_free_request how = i == 1 || i == 2 ? ordered_free(stream) : plain_free();
        if (tried->live[i] && release(resource, &tried->blocks[i], &how) == GM_OK)
            tried->live[i] = false;
    }
}

/* The n-th driver call fails. No memory leaks, the quota returns to 0, and no advice passes to the next block. */
TEST(test_any_driver_call_may_fail) {
    static const int codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE};
    struct world world;
    for (int stack = 0; stack < STACKS; stack++)
        for (int code = 0; code < 2; code++)
            for (int n = 1, failed = 1; failed; n++) {
                struct gm_resource *resource = built[stack];
                struct tried tried = {0};
                char script[64];
                world_open(&world);
                size_t live = simcuda_live_blocks();
                snprintf(script, sizeof script, "*:%d:%d", n, codes[code]);
                assert_int_equal(simcuda_set_failures(script), 0);
                try_all(resource, &world, &tried);
                failed = simcuda_calls(NULL) >= (uint64_t)n;
                simcuda_set_failures(NULL);
                for (int i = 0; i < 4; i++)
                    if (tried.live[i])
                        give(resource, &tried.blocks[i]);
                for (int i = 0; i < 4; i++) {
                    struct gm_request request = plain_request(&world.origin, i == 1 ? 3 * MIB : MIB);
                    tried.blocks[i] = get(resource, &request);
                    assert_int_equal(
                        attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, tried.blocks[i].address, request.size),
                        CU_DEVICE_INVALID);
                }
                for (int i = 0; i < 4; i++)
                    give(resource, &tried.blocks[i]);
                assert_true(n < 2000);
                finish(resource, &world, live);
                world_close(&world, resource);
            }
}

struct worker {
    struct gm_resource *resource;
    const struct world *world;
    unsigned seed, wrong;
};

static void *work(void *argument) {
    struct worker *worker = argument;
    const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    worker->world->origin.enter(&worker->world->origin);
    for (int i = 0; i < 300; i++) {
        struct gm_free_request how = plain_free();
        struct gm_request request =
            plain_request(&worker->world->origin, (1 + (size_t)rand_r(&worker->seed) % 4) * 256 * 1024);
        struct gm_block block;
        int value = 0;
        if (gm_resource_alloc(worker->resource, &request, NULL, &block) != GM_OK) {
            worker->wrong++;
            continue;
        }
        worker->wrong += cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                                block.address, block.size) != CUDA_SUCCESS ||
                         value != CU_DEVICE_INVALID;
        if (i % 3 == 0) {
            worker->wrong +=
                cuMemAdvise_v2(block.address, block.size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host) != CUDA_SUCCESS;
            block.pinned_native = 1;
        }
        worker->wrong += gm_resource_free(worker->resource, &block, &how) != GM_OK;
    }
    return NULL;
}

TEST(test_threads_inherit_nothing) {
    enum { THREADS = 4 };
    struct world world;
    for (int stack = 0; stack < STACKS; stack++) {
        struct gm_resource *resource = built[stack];
        struct worker workers[THREADS];
        pthread_t threads[THREADS];
        world_open(&world);
        size_t live = simcuda_live_blocks();
        for (unsigned i = 0; i < THREADS; i++) {
            workers[i] = (struct worker){resource, &world, i + 1, 0};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(workers[i].wrong, 0);
        }
        finish(resource, &world, live);
        world_close(&world, resource);
    }
}

static int setup(void **state) {
    gm_options_load(environ);
    for (int i = 0; i < STACKS; i++)
        built[i] = build(stacks[i]);
    return 0;
}

int main(void) { return run_all(setup, NULL); }
