/* The cache with made-up memory below it and a driver whose results the test sets. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "shim/base/base.h"
#include "shim/base/options.h"
#include "shim/base/stats.h"
#include "shim/driver/driver.h"
#include "shim/base/limit.h"
#include "shim/resource/sim.h"

#define MIB ((size_t)1 << 20)
enum { EVENTS = 4096, IDLE_MS = 400 }; /* as GPUMEM_CACHE_IDLE in main */

/* ---- the driver */

static struct {
    CUcontext current;
    CUresult events[EVENTS]; /* result of a query */
    CUcontext event_context[EVENTS];
    uintptr_t made;
    int records, queries, waits, exchanges;
    CUstreamCaptureMode mode;               /* of the thread */
    CUresult record_answer, recorded_state; /* result of cuCtxRecordEvent; state of an event after it */
    size_t free_bytes;
} fake;

#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x1000 * (n)))
#define STREAM     ((CUstream)(uintptr_t)0x5000)

static CUresult get_current(CUcontext *context) { return *context = fake.current, CUDA_SUCCESS; }
static CUresult push(CUcontext context) { return fake.current = context, CUDA_SUCCESS; }
static CUresult pop(CUcontext *context) { return *context = fake.current, fake.current = CONTEXT(1), CUDA_SUCCESS; }
static CUresult get_device(CUdevice *device) { return *device = 0, CUDA_SUCCESS; }
static CUresult exchange(CUstreamCaptureMode *mode) {
    CUstreamCaptureMode before = fake.mode;
    fake.mode = *mode;
    *mode = before;
    return fake.exchanges++, CUDA_SUCCESS;
}
static CUresult get_info(size_t *free_bytes, size_t *total) {
    return *free_bytes = fake.free_bytes, *total = 1024 * MIB, CUDA_SUCCESS;
}
static CUresult total_mem(size_t *total, CUdevice device) { return *total = 1024 * MIB, (void)device, CUDA_SUCCESS; }
static CUresult create(CUevent *event, unsigned flags) {
    assert_true(fake.made + 1 < EVENTS && (flags & CU_EVENT_DISABLE_TIMING));
    *event = (CUevent)++fake.made;
    fake.event_context[fake.made] = fake.current;
    return CUDA_SUCCESS;
}
static CUresult record(CUcontext context, CUevent event) {
    assert_ptr_equal(fake.event_context[(uintptr_t)event], context);
    assert_false(gm_capture_any());
    fake.records++;
    if (!fake.record_answer)
        fake.events[(uintptr_t)event] = fake.recorded_state;
    return fake.record_answer;
}
static CUresult query(CUevent event) {
    assert_false(gm_capture_any());
    return fake.queries++, fake.events[(uintptr_t)event];
}
static CUresult wait(CUevent event) {
    assert_true(fake.mode == CU_STREAM_CAPTURE_MODE_RELAXED);
    fake.waits++;
    if (fake.events[(uintptr_t)event] == CUDA_ERROR_NOT_READY)
        fake.events[(uintptr_t)event] = CUDA_SUCCESS;
    return fake.events[(uintptr_t)event];
}

static void all_complete(void) {
    memset(fake.events, 0, sizeof fake.events);
    fake.recorded_state = CUDA_SUCCESS;
}

/* ---- blocks */

static struct gm_resource *cache, *maker;

/* The context of a handle, with its present generation. */
static struct gm_context context_of(CUcontext handle) {
    struct gm_context context;
    fake.current = handle;
    assert_true(gm_context_current(&context));
    fake.current = CONTEXT(1);
    return context;
}

static void open_cache(const char *text) {
    char error[200];
    memset(&fake, 0, sizeof fake);
    fake.current = CONTEXT(1);
    fake.free_bytes = 1000 * MIB;
    fake.recorded_state = CUDA_ERROR_NOT_READY;
    gm_drv = (struct gm_driver){
        .ctx_get_current = get_current,
        .ctx_push = push,
        .ctx_pop = pop,
        .ctx_get_device = get_device,
        .thread_exchange_capture_mode = exchange,
        .mem_get_info = get_info,
        .device_total_mem = total_mem,
        .event_create = create,
        .event_query = query,
        .event_synchronize = wait,
        .ctx_record_event = record,
    };
    cache = gm_resource_build(text, error, sizeof error);
    assert_non_null(cache);
    maker = cache->upstream;
}

static gm_status try_get(size_t size, struct gm_block *block) {
    struct gm_context context = context_of(CONTEXT(1));
    struct gm_request request = {.call = GM_CALL_ALLOC,
                                 .size = size,
                                 .device = 0,
                                 .context = (uint64_t)(uintptr_t)context.handle,
                                 .context_id = context.id};
    return cache->ops->alloc(cache, &request, NULL, block);
}

static struct gm_block get(size_t size) {
    struct gm_block block;
    assert_int_equal(try_get(size, &block), GM_OK);
    assert_int_equal(block.size, size);
    assert_int_equal(block.kind, cache->kind);
    assert_ptr_equal(block.owner, cache);
    return block;
}

static gm_status try_give(const struct gm_block *block, bool settled) {
    struct gm_free_request how = {.call = GM_CALL_FREE, .settled = settled};
    return cache->ops->free(cache, block, &how);
}

static void give(const struct gm_block *block) { assert_int_equal(try_give(block, false), GM_OK); }

/* ---- reuse */

static void reuses_only_what_is_complete(void **state) {
    open_cache("cache(1,sim)");
    struct gm_block first = get(MIB), second, third;
    assert_false(first.hit);
    give(&first);
    second = get(MIB);
    assert_true(second.address != first.address && !second.hit);
    assert_int_equal(fake.waits, 0);
    all_complete();
    third = get(MIB);
    assert_true(third.address == first.address && third.hit);
    assert_int_equal(gm_sim_live_count(maker), 2);
}

static void one_record_and_one_query_for_a_batch(void **state) {
    struct gm_block blocks[8];
    open_cache("cache(8,sim)");
    for (int i = 0; i < 8; i++)
        blocks[i] = get(4096);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(fake.records, 0);
        give(&blocks[i]);
    }
    assert_int_equal(fake.records, 1);
    all_complete();
    fake.queries = 0;
    for (int i = 0; i < 8; i++)
        assert_true(get(4096).hit);
    assert_int_equal(fake.queries, 1);
    assert_int_equal(fake.records, 1); /* never inside an allocation */
    assert_false(get(4096).hit);
}

static void bytes_close_a_batch(void **state) {
    open_cache("cache(100,sim)");
    struct gm_block blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = get(2 * MIB);
    for (int i = 0; i < 4; i++)
        give(&blocks[i]);
    assert_int_equal(fake.records, 1); /* at the third: 6 MiB */
}

static void a_block_serves_its_size_and_context_only(void **state) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block block = get(1000), other;
    give(&block);
    assert_false(get(2000).hit);
    struct gm_request request = {.call = GM_CALL_ALLOC,
                                 .size = 1000,
                                 .context = (uint64_t)(uintptr_t)CONTEXT(2),
                                 .context_id = context_of(CONTEXT(2)).id};
    assert_int_equal(cache->ops->alloc(cache, &request, NULL, &other), GM_OK);
    assert_false(other.hit);
    other = get(1001); /* the same 512 bytes of the device */
    assert_true(other.hit && other.address == block.address && other.reserved == 1024);
}

/* Where no block of its size is ready, the smallest ready block that is not much larger serves. The block keeps its own
 * size. */
static void somewhat_larger_blocks_serve(void **state) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block small = get(3 * MIB), large = get(4 * MIB), got;
    give(&large);
    give(&small);
    assert_false(get(MIB + MIB / 2).hit); /* half of 3 MiB would be wasted */
    assert_false(get(5 * MIB).hit);
    got = get(2 * MIB + 1000);
    assert_true(got.hit && got.address == small.address && got.reserved == 3 * MIB && got.size == 2 * MIB + 1000);
    give(&got);
    got = get(3 * MIB);
    assert_true(got.hit && got.address == small.address);
    assert_true(get(3 * MIB).address == large.address);
    struct gm_block huge = get(50 * MIB), tiny = get(64);
    give(&huge);
    give(&tiny);
    assert_false(get(39 * MIB).hit);
    assert_true(get(41 * MIB).hit);
    assert_false(get(513).address == tiny.address);
    got = get(30 * MIB);
    give(&got);
    gm_limit_bytes = 1024 * MIB; /* GPUMEM_LIMIT counts the whole block */
    assert_false(get(29 * MIB).hit);
    gm_limit_bytes = 0;
    assert_true(get(29 * MIB).hit);
}

static void larger_blocks_serve_only_when_complete(void **state) {
    open_cache("cache(1,sim)");
    struct gm_block block = get(3 * MIB);
    give(&block);
    assert_false(get(2 * MIB).hit);
    all_complete();
    assert_true(get(2 * MIB).address == block.address);
    assert_int_equal(fake.waits, 0);
}

/* Each request has a new size: free blocks serve most of them, and the memory owned stays near the largest live total.
 */
static void requests_of_new_sizes_are_served(void **state) {
    enum { LIVE = 64, STEPS = 4000 };
    static struct gm_block blocks[LIVE];
    unsigned random = 1, hits = 0;
    size_t live = 0, most = 0;
    open_cache("cache(sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (int i = 0; i < STEPS; i++) {
        random = random * 1664525u + 1013904223u;
        struct gm_block *block = &blocks[i < LIVE ? (unsigned)i : random >> 8 & (LIVE - 1)];
        random = random * 1664525u + 1013904223u;
        size_t size = ((size_t)32 << (random >> 28)) * (16 + (random >> 8 & 15)) + 1; /* up to 32 MiB */
        if (i >= LIVE) {
            give(block);
            live -= block->size;
        }
        *block = get(size);
        hits += i >= STEPS / 2 && block->hit;
        live += size;
        most = live > most ? live : most;
        assert_true(gm_sim_live_bytes(maker) <= most / 4 * 7 + 100 * MIB);
    }
    assert_true(hits > STEPS / 2 * 8 / 10);
}

/* ---- waiting */

static void *alloc_elsewhere(void *size) {
    struct gm_block block;
    return (void *)(uintptr_t)(try_get((size_t)(uintptr_t)size, &block) == GM_OK && !block.hit);
}

static void waits_only_for_an_own_free(void **state) {
    struct gm_block blocks[3];
    pthread_t thread;
    void *was_native;
    open_cache("cache(1,sim)");
    for (int i = 0; i < 3; i++)
        blocks[i] = get(8 * MIB);
    for (int i = 0; i < 3; i++)
        give(&blocks[i]);
    assert_int_equal(pthread_create(&thread, NULL, alloc_elsewhere, (void *)(uintptr_t)(8 * MIB)), 0);
    pthread_join(thread, &was_native);
    assert_non_null(was_native);
    assert_int_equal(fake.waits, 0);
    struct gm_block block = get(8 * MIB); /* 24 MiB wait for their fences */
    assert_int_equal(fake.waits, 1);
    assert_true(block.hit && block.address == blocks[0].address);
}

static void large_blocks_do_not_rotate(void **state) {
    open_cache("cache(sim)");
    struct gm_block first = get(100 * MIB);
    for (int i = 0; i < 5; i++) {
        give(&first);
        assert_int_equal(fake.waits, i);
        assert_true(get(100 * MIB).address == first.address);
    }
    assert_int_equal(gm_sim_live_count(maker), 1);
}

static void settled_blocks_are_ready_without_a_fence(void **state) {
    open_cache("cache(4,sim)");
    for (int i = 1; i <= 3; i++) {
        struct gm_block block = get(MIB);
        assert_int_equal(block.hit, i > 1);
        assert_int_equal(try_give(&block, true), GM_OK);
    }
    assert_int_equal(fake.records + fake.queries + fake.waits, 0);
}

/* Otherwise idle blocks would never be released, and blocks of earlier frees would wait for a fence that nobody
 * records. */
static void settled_frees_close_batches_too(void **state) {
    open_cache("cache(4,sim)");
    struct gm_block pending = get(2 * MIB);
    give(&pending);
    assert_false(get(2 * MIB).hit);
    for (int i = 0; i < 4; i++) {
        struct gm_block block = get(MIB);
        assert_int_equal(try_give(&block, true), GM_OK);
    }
    assert_int_equal(fake.records, 1);
    all_complete();
    assert_true(get(2 * MIB).hit);
}

/* ---- errors */

static void an_error_of_the_record_is_the_frees_own(void **state) {
    struct gm_block blocks[4];
    open_cache("cache(3,sim)");
    for (int i = 0; i < 4; i++)
        blocks[i] = get(MIB);
    give(&blocks[0]);
    give(&blocks[1]);
    fake.record_answer = CUDA_ERROR_ILLEGAL_ADDRESS;
    gm_sim_fail_free(maker, 1, CUDA_ERROR_ILLEGAL_ADDRESS); /* the driver's error for the free itself */
    assert_int_equal(try_give(&blocks[2], false), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(gm_sim_live_count(maker), 2); /* the two others were freed upstream */
    fake.record_answer = CUDA_SUCCESS;
    all_complete();
    give(&blocks[2]);
    give(&blocks[3]);
    assert_int_equal(gm_sim_live_count(maker), 0); /* no block becomes a free block any more */
    assert_false(get(MIB).hit);
}

static void an_error_of_a_query_disables_the_cache(void **state) {
    open_cache("cache(1,sim)");
    struct gm_block block = get(MIB), other = get(4096);
    give(&block);
    for (int i = 0; i < EVENTS; i++)
        fake.events[i] = CUDA_ERROR_UNKNOWN;
    assert_false(get(MIB).hit);
    all_complete();
    assert_false(get(MIB).hit);
    assert_int_equal(gm_sim_live_count(maker), 4);
    give(&other); /* also frees the free blocks */
    assert_int_equal(gm_sim_live_count(maker), 2);
}

static void a_failed_native_free_is_tried_again(void **state) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block block = get(MIB);
    give(&block);
    gm_sim_fail_free(maker, 1, CUDA_ERROR_UNKNOWN);
    assert_int_equal(cache->ops->trim(cache, SIZE_MAX), 0);
    assert_int_equal(gm_sim_live_count(maker), 1);
    assert_int_equal(cache->ops->trim(cache, SIZE_MAX), MIB);
    assert_int_equal(gm_sim_live_count(maker), 0);
}

static void without_context_events_nothing_is_reused(void **state) {
    open_cache("cache(1,sim)");
    gm_drv.ctx_record_event = NULL;
    struct gm_block block = get(MIB);
    give(&block);
    assert_int_equal(gm_sim_live_count(maker), 0);
}

/* ---- limits */

static void the_limit_holds(void **state) {
    struct gm_block blocks[40];
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (int i = 0; i < 40; i++)
        blocks[i] = get(10 * MIB + 4096 * (size_t)i);
    for (int i = 0; i < 40; i++) {
        give(&blocks[i]);
        size_t alive = (size_t)(39 - i) * 11 * MIB;
        assert_true(gm_sim_live_bytes(maker) <= 256 * MIB + alive); /* a quarter of the device */
    }
    assert_true(gm_sim_live_bytes(maker) > 200 * MIB);
    assert_true(get(10 * MIB + 4096 * 39).hit);     /* the latest is still free */
    assert_true(get(10 * MIB).reserved > 10 * MIB); /* the oldest was released */
}

/* Each phase has its own sizes: the memory owned stays near the largest live total. */
static void changing_sizes_do_not_pile_up(void **state) {
    open_cache("cache(sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (size_t phase = 0; phase < 20; phase++)
        for (int round = 0; round < 3; round++) {
            struct gm_block blocks[10];
            for (int i = 0; i < 10; i++) {
                blocks[i] = get(8 * MIB + phase * 65536);
                if (round)
                    assert_true(gm_sim_live_bytes(maker) <= 10 * 10 * MIB / 4 * 5 + 64 * MIB + 10 * MIB);
            }
            for (int i = 0; i < 10; i++)
                give(&blocks[i]);
        }
}

/* Other resources serve blocks too. A quarter of these counts as well, so the cache may own as much as if it served all
 * blocks of the process. */
static void blocks_of_others_raise_the_target(void **state) {
    size_t most = 0;
    open_cache("cache(sim)");
    fake.recorded_state = CUDA_SUCCESS;
    gm_stats->peak_total = 400 * MIB;
    for (size_t phase = 0; phase < 20; phase++)
        for (int i = 0; i < 10; i++) {
            struct gm_block block = get(20 * MIB + phase * 6 * MIB);
            most = gm_sim_live_bytes(maker) > most ? gm_sim_live_bytes(maker) : most;
            give(&block);
        }
    gm_stats->peak_total = 0;
    assert_in_range(most, 300 * MIB,
                    134 * MIB + 400 * MIB / 4 + 64 * MIB + 134 * MIB); /* counting only its own blocks: 276 MiB */
}

static void little_free_memory_means_no_free_blocks(void **state) {
    open_cache("cache(1,sim)");
    fake.free_bytes = 100 * MIB;
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block block = get(MIB);
    give(&block);
    assert_int_equal(gm_sim_live_count(maker), 0);
}

static void out_of_memory_releases_all_blocks(void **state) {
    struct gm_block blocks[10];
    open_cache("cache(1,sim)");
    gm_sim_set_memory(maker, 100 * MIB);
    for (int i = 0; i < 10; i++)
        blocks[i] = get(6 * MIB);
    for (int i = 0; i < 10; i++)
        give(&blocks[i]); /* none is complete */
    get(80 * MIB);
    assert_true(fake.waits > 0);
    assert_int_equal(gm_sim_live_count(maker), 1);
    struct gm_block block;
    assert_int_equal(try_get(80 * MIB, &block), GM_OUT_OF_MEMORY);
}

static void later_frees_release_idle_blocks(void **state) {
    const struct timespec nap = {0, 900000000};
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block blocks[3] = {get(MIB), get(MIB), get(4096)};
    give(&blocks[0]);
    give(&blocks[1]);
    assert_true(get(MIB).hit); /* makes both ready, takes one */
    nanosleep(&nap, NULL);
    give(&blocks[2]);
    assert_false(get(MIB).hit);
    assert_int_equal(gm_sim_live_count(maker), 3);
}

static void pinned_blocks_are_freed_natively(void **state) {
    open_cache("cache(1,sim)");
    struct gm_block block = get(MIB);
    block.pinned_native = 1;
    give(&block);
    assert_int_equal(gm_sim_live_count(maker), 0);
    assert_int_equal(fake.records, 0);
}

/* ---- threads that start and end */

static void in_new_thread(void *(*run)(void *), size_t argument) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, (void *)(uintptr_t)argument), 0);
    pthread_join(thread, NULL);
}

static void *leave_one(void *size) {
    struct gm_block block = get((size_t)(uintptr_t)size);
    give(&block);
    return NULL;
}

static void *leave_five(void *size) {
    struct gm_block blocks[5];
    for (int i = 0; i < 5; i++)
        blocks[i] = get((size_t)(uintptr_t)size);
    for (int i = 0; i < 5; i++)
        give(&blocks[i]);
    return NULL;
}

static void ended_threads_take_no_room(void **state) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (int i = 0; i < 40; i++)
        in_new_thread(leave_one, 4096);
    struct gm_block block = get(250 * MIB);
    give(&block);
    assert_true(get(250 * MIB).hit);
}

/* The free blocks of all threads together hold at most a quarter of the device; the last freed ones stay. */
static void the_limit_holds_for_all_threads_together(void **state) {
    struct gm_block mine = {0};
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    gm_stats->peak_total = 4096 * MIB; /* so large that only the limit matters */
    struct gm_block live = get(200 * MIB);
    for (size_t i = 0; i < 40; i++) {
        in_new_thread(leave_five, 10 * MIB + i * 4096);
        assert_true(gm_sim_live_bytes(maker) - live.reserved <= 256 * MIB);
        assert_true(gm_sim_live_bytes(maker) - live.reserved >= (i < 4 ? 50 * (i + 1) : 240) * MIB);
    }
    give(&live);
    assert_true(gm_sim_live_bytes(maker) <= 256 * MIB);
    mine = get(200 * MIB);
    assert_true(mine.address == live.address);
    assert_true(get(10 * MIB + 39 * 4096).hit);
    assert_true(get(10 * MIB + 39 * 4096).hit);
    gm_stats->peak_total = 0;
}

static void the_longest_unused_block_is_released_of_any_thread(void **state) {
    static const size_t sizes[] = {20, 30, 45, 68, 100};
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (int i = 0; i < 5; i++)
        in_new_thread(leave_one, sizes[i] * MIB);
    assert_true(gm_sim_live_bytes(maker) <= 125 * MIB + 64 * MIB);
    assert_true(get(100 * MIB).hit);
    assert_true(get(68 * MIB).hit);
    assert_false(get(20 * MIB).hit);
}

static void batches_are_as_large_after_many_threads(void **state) {
    struct gm_block blocks[6];
    open_cache("cache(100,sim)");
    for (int i = 0; i < 20; i++)
        in_new_thread(leave_one, 4096);
    for (int i = 0; i < 6; i++)
        blocks[i] = get(MIB);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(fake.records, 0);
        give(&blocks[i]);
    }
    assert_int_equal(fake.records, 1);
}

static void all_batches_together_are_bounded(void **state) {
    open_cache("cache(100,sim)");
    for (int i = 0; i < 15; i++)
        in_new_thread(leave_five, MIB);
    assert_in_range(fake.records, 2, 4); /* 64 MiB without a fence at the 13th */
    int records = fake.records;
    in_new_thread(leave_five, MIB);
    in_new_thread(leave_five, MIB);
    assert_true(fake.records > records);
}

static void idle_blocks_of_ended_threads_are_released(void **state) {
    const struct timespec nap = {0, 900000000};
    uint64_t begin = gm_now_ns();
    open_cache("cache(2,sim)");
    in_new_thread(leave_five, MIB); /* two batches with a fence, one without */
    all_complete();
    struct gm_block blocks[2] = {get(4096), get(4096)};
    for (int i = 0; i < 3; i++) {
        give(&blocks[0]);
        give(&blocks[1]);
        blocks[0] = get(4096);
        blocks[1] = get(4096);
        if (i == 0 &&
            gm_now_ns() - begin > IDLE_MS * 1000000ull) /* on a machine that stood still they were idle by then */
            skip();
        assert_int_equal(gm_sim_live_count(maker), (i == 0 ? 5 : i == 1 ? 1 : 0) + 2);
        nanosleep(&nap, NULL);
    }
}

static void little_free_memory_empties_the_lists_of_all_threads(void **state) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    for (int i = 0; i < 5; i++)
        in_new_thread(leave_one, MIB << i);
    const struct timespec nap = {0, 110000000};
    nanosleep(&nap, NULL);
    fake.free_bytes = 100 * MIB;
    struct gm_block block = get(64 * MIB);
    give(&block);
    assert_int_equal(gm_sim_live_count(maker), 0);
}

/* ---- a second free of a block */

static void knows_its_free_blocks(void **state) {
    enum { COUNT = 1000 };
    static struct gm_block blocks[COUNT];
    open_cache("cache(sim)");
    for (int i = 0; i < COUNT; i++)
        blocks[i] = get(512 * (size_t)(1 + i % 7));
    for (int i = 0; i < COUNT / 2; i++)
        give(&blocks[i]);
    for (int i = 0; i < COUNT; i++)
        assert_true(cache->ops->keeps(cache, blocks[i].address) == (i < COUNT / 2));
    assert_false(cache->ops->keeps(cache, blocks[0].address + 256));
    for (int i = COUNT / 2; i < COUNT; i++) {
        give(&blocks[i]);
        assert_true(cache->ops->keeps(cache, blocks[i].address));
    }
    all_complete();
    for (int i = 0; i < COUNT; i++) {
        struct gm_block again = get(512 * (size_t)(1 + i % 7));
        assert_false(cache->ops->keeps(cache, again.address));
    }
    cache->ops->trim(cache, SIZE_MAX);
    for (int i = 0; i < COUNT; i++)
        assert_false(cache->ops->keeps(cache, blocks[i].address));
}

/* ---- capture, contexts, peers */

static void frees_of_a_capture_are_fenced_after_it(void **state) {
    open_cache("cache(1,sim)");
    fake.recorded_state = CUDA_SUCCESS;
    struct gm_block blocks[6], ready[3] = {get(4096), get(4096), get(4096)};
    for (int i = 0; i < 6; i++)
        blocks[i] = get(MIB);
    for (int i = 0; i < 3; i++)
        give(&ready[i]); /* each queries the fence of the one before */
    get(4096);
    int records = fake.records, queries = fake.queries, exchanges = fake.exchanges;
    gm_capture_begin(STREAM, false, CU_STREAM_CAPTURE_MODE_RELAXED);
    for (int i = 0; i < 4; i++)
        give(&blocks[i]);
    assert_true(get(4096).hit); /* was ready before the capture */
    assert_false(get(MIB).hit); /* freed during the capture */
    give(&blocks[4]);
    assert_true(fake.records == records && fake.queries == queries && fake.exchanges == exchanges && !fake.waits);
    gm_capture_end(STREAM, false);
    assert_false(get(MIB).hit); /* still without a fence */
    give(&blocks[5]);
    assert_int_equal(fake.records, records + 1);
    for (int i = 0; i < 6; i++)
        assert_true(get(MIB).hit);
}

/* Native frees in relaxed mode disturb no capture. They free blocks that were freed before and during the capture, with
 * complete and with pending fences. */
static void out_of_memory_in_a_capture_releases_all_blocks(void **state) {
    struct gm_block blocks[9], block;
    open_cache("cache(1,sim)");
    gm_sim_set_memory(maker, 100 * MIB);
    for (int i = 0; i < 9; i++)
        blocks[i] = get(10 * MIB);
    for (int i = 0; i < 6; i++) {
        fake.recorded_state = i < 3 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
        give(&blocks[i]);
    }
    gm_capture_begin(STREAM, false, CU_STREAM_CAPTURE_MODE_RELAXED);
    int records = fake.records, queries = fake.queries;
    for (int i = 6; i < 9; i++)
        give(&blocks[i]);
    assert_int_equal(try_get(95 * MIB, &block), GM_OK);
    assert_int_equal(gm_sim_live_count(maker), 1);
    assert_true(fake.records == records && fake.queries == queries && fake.mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_int_equal(try_get(95 * MIB, &block), GM_OUT_OF_MEMORY);
    gm_capture_end(STREAM, false);
}

static void a_context_is_forgotten_without_the_driver(void **state) {
    struct gm_block blocks[20];
    for (int round = 0; round < 3; round++) {
        open_cache("cache(4,sim)");
        for (int i = 0; i < 20; i++)
            blocks[i] = get(4096 * (size_t)(1 + i % 3));
        for (int i = 0; i < 18; i++)
            give(&blocks[i]);
        int records = fake.records, queries = fake.queries;
        uint64_t id;
        assert_true(gm_context_end(CONTEXT(1), &id));
        cache->ops->context_destroyed(cache, id);
        assert_true(fake.records == records && fake.queries == queries && !fake.waits);
        assert_int_equal(gm_sim_live_count(maker), 0);
        all_complete();
        struct gm_block block = get(4096);
        assert_false(block.hit);
        uintptr_t made = fake.made;
        for (int i = 0; i < 4; i++)
            give(&(struct gm_block){.address = block.address + (uint64_t)i,
                                    .size = 1,
                                    .reserved = 512,
                                    .owner = cache,
                                    .context_id = block.context_id,
                                    .context = block.context,
                                    .call = GM_CALL_ALLOC,
                                    .kind = GM_KIND_CACHE});
        assert_int_equal(fake.made, made + 1); /* no event of the old context is used again */
    }
}

static void fences_cover_peers_of_the_device(void **state) {
    open_cache("cache(1,sim)");
    struct gm_block block = get(MIB), other = get(MIB);
    struct gm_context peer = context_of(CONTEXT(5));
    gm_context_note_reach(0, &peer);
    give(&block);
    assert_int_equal(fake.records, 2);
    fake.events[1] = CUDA_SUCCESS; /* the owner's work is done, the peer's is not */
    assert_false(get(MIB).hit);
    all_complete();
    assert_true(get(MIB).hit);
    uint64_t id;
    assert_true(gm_context_end(CONTEXT(5), &id));
    give(&other);
    assert_int_equal(fake.records, 3);
}

/* A peer's kernel may wait for what this thread submits next. */
static void nobody_waits_for_a_peer(void **state) {
    struct gm_block blocks[4];
    uint64_t id;
    open_cache("cache(1,sim)");
    struct gm_context peer = context_of(CONTEXT(6));
    gm_context_note_reach(0, &peer);
    for (int i = 0; i < 4; i++)
        blocks[i] = get(8 * MIB);
    for (int i = 0; i < 4; i++)
        give(&blocks[i]);
    assert_false(
        get(8 * MIB).hit); /* more bytes wait for their fences than allowed, but the work of the peer is not done */
    int of_peer = 0;
    for (uintptr_t event = 1; event <= fake.made; event++)
        if (fake.event_context[event] == CONTEXT(6)) {
            assert_int_equal(fake.events[event], CUDA_ERROR_NOT_READY);
            of_peer++;
        }
    assert_true(of_peer > 0);
    assert_int_equal(fake.waits, 1);
    all_complete();
    assert_true(get(8 * MIB).hit);
    assert_true(gm_context_end(CONTEXT(6), &id));
    assert_true(get(8 * MIB).hit);
}

int main(void) {
    static char idle[] = "GPUMEM_CACHE_IDLE=400ms";
    char *environment[] = {idle, NULL};
    gm_clock_init();
    gm_options_load(environment);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reuses_only_what_is_complete),
        cmocka_unit_test(one_record_and_one_query_for_a_batch),
        cmocka_unit_test(bytes_close_a_batch),
        cmocka_unit_test(a_block_serves_its_size_and_context_only),
        cmocka_unit_test(somewhat_larger_blocks_serve),
        cmocka_unit_test(larger_blocks_serve_only_when_complete),
        cmocka_unit_test(requests_of_new_sizes_are_served),
        cmocka_unit_test(large_blocks_do_not_rotate),
        cmocka_unit_test(settled_blocks_are_ready_without_a_fence),
        cmocka_unit_test(settled_frees_close_batches_too),
        cmocka_unit_test(an_error_of_the_record_is_the_frees_own),
        cmocka_unit_test(an_error_of_a_query_disables_the_cache),
        cmocka_unit_test(a_failed_native_free_is_tried_again),
        cmocka_unit_test(without_context_events_nothing_is_reused),
        cmocka_unit_test(the_limit_holds),
        cmocka_unit_test(changing_sizes_do_not_pile_up),
        cmocka_unit_test(blocks_of_others_raise_the_target),
        cmocka_unit_test(little_free_memory_means_no_free_blocks),
        cmocka_unit_test(out_of_memory_releases_all_blocks),
        cmocka_unit_test(later_frees_release_idle_blocks),
        cmocka_unit_test(pinned_blocks_are_freed_natively),
        cmocka_unit_test(frees_of_a_capture_are_fenced_after_it),
        cmocka_unit_test(out_of_memory_in_a_capture_releases_all_blocks),
        cmocka_unit_test(a_context_is_forgotten_without_the_driver),
        cmocka_unit_test(fences_cover_peers_of_the_device),
        cmocka_unit_test(nobody_waits_for_a_peer),
        cmocka_unit_test(waits_only_for_an_own_free),
        cmocka_unit_test(ended_threads_take_no_room),
        cmocka_unit_test(the_limit_holds_for_all_threads_together),
        cmocka_unit_test(the_longest_unused_block_is_released_of_any_thread),
        cmocka_unit_test(batches_are_as_large_after_many_threads),
        cmocka_unit_test(all_batches_together_are_bounded),
        cmocka_unit_test(idle_blocks_of_ended_threads_are_released),
        cmocka_unit_test(little_free_memory_empties_the_lists_of_all_threads),
        cmocka_unit_test(knows_its_free_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
