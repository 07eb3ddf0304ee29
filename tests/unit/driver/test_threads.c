/* What threads share in shim/driver: the table of contexts, those that reach another device, internal streams, the
 * reasons of GPUMEM_FREE=safe, and the table of hooks. The driver is a table of functions here. Run under
 * ThreadSanitizer, too (tests/sanitize). */
#include <pthread.h>
#include <sched.h>

#include "tests/test.h"

#include "shim/base/real_dl.h"
#include "shim/driver/fence.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/internal_stream.h"
#include "shim/driver/program_driver.h"

#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x1000 * (n)))
enum { THREADS = 4, HANDLES = 3, ROUNDS = 20000, PAIRS = 2000000 };

static __thread CUcontext current;
static uintptr_t described, events;
static int over, faults;
static pthread_barrier_t all_there;

static CUresult get_current(CUcontext *context) { return *context = current, CUDA_SUCCESS; }
/* Only one thread sees contexts first. They are of device 1 and 0 in turn. */
static CUresult get_device(CUdevice *device) { return *device = ++described & 1, CUDA_SUCCESS; }
/* All contexts have the same place in the table of internal streams. */
static CUresult get_id(CUcontext context, unsigned long long *id) {
    return (void)context, *id = described * 64, CUDA_SUCCESS;
}
static CUresult push(CUcontext context) { return current = context, CUDA_SUCCESS; }
static CUresult pop(CUcontext *context) { return *context = current, CUDA_SUCCESS; }
static CUresult exchange(CUstreamCaptureMode *mode) { return (void)mode, CUDA_SUCCESS; }
static CUresult create(CUevent *event, unsigned flags) {
    return *event = (CUevent)__atomic_add_fetch(&events, 1, __ATOMIC_RELAXED), CUDA_SUCCESS;
}
static CUresult destroy(CUevent event) { return (void)event, CUDA_SUCCESS; }
static CUresult record(CUcontext context, CUevent event) { return (void)context, (void)event, CUDA_SUCCESS; }

static void expect(bool holds) { __atomic_add_fetch(&faults, !holds, __ATOMIC_RELAXED); }

static void in_threads(void *(*run)(void *), unsigned count) {
    pthread_t threads[THREADS];
    faults = 0;
    pthread_barrier_init(&all_there, NULL, count);
    for (uintptr_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, (void *)i), 0);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(faults, 0);
}

/* ---- contexts come and go, each with the handle of one that ended */

static void come_and_go(void) {
    uint64_t id;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct gm_context context;
        current = CONTEXT(1 + i % HANDLES);
        expect(gm_context_current(&context));
        gm_context_note_reach(!context.device, &context);
        expect(gm_context_end(current, &id) && id == context.id);
        gm_internal_forget(id);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
}

static void use_streams(const struct gm_context *context) {
    struct gm_internal internal;
    struct gm_fence *taken[3];
    CUstream stream;
    if (!gm_internal_of(context->handle, context->id, context->device, &internal))
        return;
    expect(!gm_internal_stream_made(&internal, GM_INTERNAL_ALLOC, &stream));
    for (int i = 0; i < 3; i++)
        expect((taken[i] = gm_fence_take()) && taken[i]->context_id == 0);
    for (int i = 0; i < 3; i++)
        gm_fence_give(taken[i]);
    if (gm_context_life(context->handle, context->id) == GM_CONTEXT_DESTROYED)
        gm_internal_forget(context->id); /* found after it was forgotten */
}

/* The number counts contexts, as the upper half of the id does. So a copy shows if it is of two contexts. */
static void use_contexts(unsigned n) {
    struct gm_context users[GM_CONTEXT_USERS] = {{.handle = CONTEXT(100), .id = 1}}, found;
    unsigned owners;
    expect(gm_context_users(users, GM_CONTEXT_USERS, true, &owners) >= 1);
    if (!gm_context_find(CONTEXT(1 + n % HANDLES), &found))
        return;
    expect(found.number == (uint16_t)(found.id >> 32) && found.device == (found.number & 1));
    use_streams(&found);
}

static void *one_writer(void *number) {
    pthread_barrier_wait(&all_there);
    if (!number)
        come_and_go();
    for (unsigned n = 0; !__atomic_load_n(&over, __ATOMIC_RELAXED); n++)
        use_contexts(n);
    return NULL;
}

TEST(copies_of_contexts_are_whole) { in_threads(one_writer, THREADS); }

/* ---- a third context is created while the second one ends: two remain, so frees have to wait */

static void *second_and_third(void *number) {
    const struct gm_context context = {
        .handle = CONTEXT(2 + (uintptr_t)number), .id = 2 + (uintptr_t)number, .device = -1};
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < PAIRS; i++) {
        gm_free_sync_context(&context);
        expect(strcmp(gm_free_sync_state(), "wait: several contexts") == 0);
        gm_free_sync_context_destroyed(context.handle, context.id);
    }
    return NULL;
}

TEST(frees_wait_while_there_are_several_contexts) {
    gm_free_sync_setup(GM_FREE_SAFE);
    gm_free_sync_context(&(struct gm_context){.handle = CONTEXT(1), .id = 1, .device = -1});
    in_threads(second_and_third, 2);
    assert_string_equal(gm_free_sync_state(), "async: one stream");
}

/* ---- the table of hooks: this program exports what tells the preloaded library */

GM_PUBLIC int GM_PRELOADED_TRIM(size_t bytes, size_t *released);
int GM_PRELOADED_TRIM(size_t bytes, size_t *released) { return (void)bytes, (void)released, 0; }
GM_PUBLIC CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                       CUdriverProcAddressQueryResult *found) {
    (void)version, (void)flags, (void)found;
    sched_yield();
    *function = strcmp(name, "cuCtxGetCurrent") ? NULL : (void *)get_current;
    return CUDA_SUCCESS;
}

static void *take_table(void *unused) {
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < 100; i++) {
        const struct gm_driver *table = gm_program_driver();
        expect(table && table->ctx_get_current == get_current);
    }
    return unused;
}

TEST(one_thread_fills_the_table_of_hooks) {
    in_threads(take_table, THREADS);
    assert_ptr_not_equal(gm_program_driver(), &gm_drv);
}

int main(void) {
    const struct gm_driver table = {
        .ctx_get_current = get_current,
        .ctx_get_device = get_device,
        .ctx_get_id = get_id,
        .ctx_push = push,
        .ctx_pop = pop,
        .thread_exchange_capture_mode = exchange,
        .event_create = create,
        .event_destroy = destroy,
        .ctx_record_event = record,
    };
    gm_clock_init();
    gm_driver_use(&table);
    return run_all(NULL, NULL);
}
