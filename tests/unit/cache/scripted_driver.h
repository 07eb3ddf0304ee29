/* A cache for tests: its upstream is resource "sim", which hands out made-up addresses, and the test sets the results
 * of its driver. */
#ifndef SCRIPTED_DRIVER_H
#define SCRIPTED_DRIVER_H

#include <pthread.h>
#include <time.h>

#include "tests/test.h"

#include "shim/base/base.h"
#include "shim/base/options.h"
#include "shim/cache/cache.h"
#include "shim/driver/driver.h"
#include "shim/driver/event.h"
#include "shim/resource/sim.h"

#define MIB ((size_t)1 << 20)
enum { EVENTS = 4096, IDLE_MS = 400 }; /* as GPUMEM_CACHE_IDLE in load_options */

/* ---- the driver */

static struct {
    CUcontext current;
    CUresult events[EVENTS]; /* result of a query */
    CUcontext event_context[EVENTS];
    uintptr_t made;
    int records, queries, waits, exchanges;
    int late, still_late;                   /* so many queries after a record find nothing complete */
    CUstreamCaptureMode mode;               /* of the thread */
    CUresult record_answer, recorded_state; /* result of cuCtxRecordEvent; state of an event after it */
    void (*during_record)(void);            /* called by the next record */
    void (*during_wait)(void);              /* called by the next wait */
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
    void (*during)(void) = fake.during_record;
    fake.records++;
    fake.still_late = fake.late;
    fake.during_record = NULL;
    if (during)
        during();
    if (!fake.record_answer)
        fake.events[(uintptr_t)event] = fake.recorded_state;
    return fake.record_answer;
}
static CUresult query(CUevent event) {
    assert_false(gm_capture_any());
    if (fake.still_late)
        return fake.queries++, fake.still_late--, CUDA_ERROR_NOT_READY;
    return fake.queries++, fake.events[(uintptr_t)event];
}
static CUresult wait(CUevent event) {
    assert_true(fake.mode == CU_STREAM_CAPTURE_MODE_RELAXED);
    void (*during)(void) = fake.during_wait;
    fake.waits++;
    fake.during_wait = NULL;
    if (during)
        during();
    if (fake.events[(uintptr_t)event] == CUDA_ERROR_NOT_READY)
        fake.events[(uintptr_t)event] = CUDA_SUCCESS;
    return fake.events[(uintptr_t)event];
}

/* In place of waiting.c, which needs streams. */
gm_status gm_event_block(const struct gm_event_of *event) { return (gm_status)wait(event->event); }

static inline void all_complete(void) {
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

static inline gm_status try_get(size_t size, struct gm_block *block) {
    struct gm_context context = context_of(CONTEXT(1));
    struct gm_request request = {.call = GM_CALL_ALLOC,
                                 .size = size,
                                 .device = 0,
                                 .context = (uint64_t)(uintptr_t)context.handle,
                                 .context_id = context.id};
    return gm_resource_alloc(cache, &request, NULL, block);
}

static inline struct gm_block get(size_t size) {
    struct gm_block block;
    assert_int_equal(try_get(size, &block), GM_OK);
    assert_int_equal(block.size, size);
    assert_int_equal(block.kind, cache->kind);
    assert_ptr_equal(block.owner, cache);
    return block;
}

static inline gm_status try_give(const struct gm_block *block, bool settled) {
    struct gm_free_request how = {.call = GM_CALL_FREE, .settled = settled};
    return gm_resource_free(cache, block, &how);
}

static inline void give(const struct gm_block *block) { assert_int_equal(try_give(block, false), GM_OK); }

/* ---- threads that run one after the other, each with free lists of its own, as if all had begun before the first
 * ended */

struct threads_call {
    void *(*run)(void *);
    size_t argument;
    unsigned number;
};

static inline void *run_as_another(void *threads_call) {
    const struct threads_call *call = threads_call;
    gm_cache_act_as(call->number);
    return call->run((void *)(uintptr_t)call->argument);
}

static inline void in_new_thread(void *(*run)(void *), size_t argument) {
    static unsigned threads;
    struct threads_call call = {run, argument, 1 + threads++ % 60};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_as_another, &call), 0);
    pthread_join(thread, NULL);
}

static inline void *leave_one(void *size) {
    struct gm_block block = get((size_t)(uintptr_t)size);
    give(&block);
    return NULL;
}

static inline void *leave_five(void *size) {
    struct gm_block blocks[5];
    for (int i = 0; i < 5; i++)
        blocks[i] = get((size_t)(uintptr_t)size);
    for (int i = 0; i < 5; i++)
        give(&blocks[i]);
    return NULL;
}

/* For a group of tests. */
static inline int load_options(void **state) {
    static char idle[] = "GPUMEM_CACHE_IDLE=400ms";
    char *environment[] = {idle, NULL};
    gm_clock_init();
    gm_options_load(environment);
    return 0;
}

#endif
