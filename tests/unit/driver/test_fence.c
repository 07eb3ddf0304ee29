/* Fences over several contexts, some of which end. The driver is a table of functions here that give scripted answers.
 * gpumem must never name an event of a context that ended or is ending. */
#include <pthread.h>
#include <time.h>

#include "tests/test.h"

#include "shim/driver/fence.h"

#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x1000 * (n)))
enum { EVENTS = 256, OWN = 1, PEER = 2, FAR = 39 /* on another device */, PENDING = GM_FENCE_PENDING };

static struct {
    CUcontext current;
    uintptr_t made;
    CUcontext context[EVENTS];
    CUresult answer[EVENTS];
    bool forbidden[EVENTS]; /* its context is destroyed */
    CUresult record, push;
    int records, queries, waits, destroyed;
    int hold_up, held_up;
} fake;

static void name(CUevent event) { assert_false(fake.forbidden[(uintptr_t)event]); }

static CUresult get_current(CUcontext *context) { return *context = fake.current, CUDA_SUCCESS; }
static CUresult push(CUcontext context) { return fake.push ? fake.push : (fake.current = context, CUDA_SUCCESS); }
static CUresult pop(CUcontext *context) { return *context = fake.current, fake.current = CONTEXT(OWN), CUDA_SUCCESS; }
static CUresult get_device(CUdevice *device) { return *device = fake.current == CONTEXT(FAR), CUDA_SUCCESS; }
static CUresult exchange(CUstreamCaptureMode *mode) { return (void)mode, CUDA_SUCCESS; }
static CUresult get_state(CUdevice device, unsigned *flags, int *active) {
    return (void)device, (void)flags, *active = 0, CUDA_SUCCESS;
}
static CUresult create(CUevent *event, unsigned flags) {
    assert_in_range(++fake.made, 1, EVENTS - 1);
    fake.context[fake.made] = fake.current;
    return *event = (CUevent)fake.made, CUDA_SUCCESS;
}
static CUresult destroy(CUevent event) { return name(event), fake.destroyed++, CUDA_SUCCESS; }
static CUresult record(CUcontext context, CUevent event) {
    name(event);
    assert_ptr_equal(fake.context[(uintptr_t)event], context);
    fake.records++;
    if (context == CONTEXT(PEER) && fake.record)
        return fake.record;
    return fake.answer[(uintptr_t)event] = CUDA_ERROR_NOT_READY, CUDA_SUCCESS;
}
static CUresult answer(CUevent event, int *calls) {
    name(event);
    ++*calls;
    __atomic_store_n(&fake.held_up, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&fake.hold_up, __ATOMIC_SEQ_CST))
        ;
    return fake.answer[(uintptr_t)event];
}
static CUresult query(CUevent event) { return answer(event, &fake.queries); }
static CUresult wait(CUevent event) {
    fake.answer[(uintptr_t)event] = CUDA_SUCCESS;
    return answer(event, &fake.waits);
}

/* In place of waiting.c, which needs streams. */
gm_status gm_event_block(const struct gm_event_of *event) { return (gm_status)wait(event->event); }

static struct gm_context see(unsigned n) {
    struct gm_context context;
    fake.current = CONTEXT(n);
    assert_true(gm_context_current(&context));
    fake.current = CONTEXT(OWN);
    return context;
}

static struct gm_context reach(unsigned n) {
    struct gm_context context = see(n);
    gm_context_note_reach(0, &context);
    return context;
}

static void forbid(unsigned n) {
    for (unsigned i = 0; i < EVENTS; i++)
        fake.forbidden[i] |= fake.context[i] == CONTEXT(n);
}

static void end(unsigned n) {
    uint64_t id;
    if (gm_context_end(CONTEXT(n), &id))
        forbid(n);
}

static struct gm_context own;

static gm_status record_own(struct gm_fence *fence) { return gm_fence_record(fence, &own, GM_FENCE_COPIES); }

static void own_is(CUresult answer) {
    for (unsigned i = 0; i < EVENTS; i++)
        if (fake.context[i] == CONTEXT(OWN))
            fake.answer[i] = answer;
}

static void peer_is(CUresult answer) {
    for (unsigned i = 0; i < EVENTS; i++)
        if (fake.context[i] == CONTEXT(PEER))
            fake.answer[i] = answer;
}

static int start(void **state) {
    gm_drv = (struct gm_driver){
        .ctx_get_current = get_current,
        .ctx_push = push,
        .ctx_pop = pop,
        .ctx_get_device = get_device,
        .primary_get_state = get_state,
        .thread_exchange_capture_mode = exchange,
        .event_create = create,
        .event_destroy = destroy,
        .event_query = query,
        .event_synchronize = wait,
        .ctx_record_event = record,
    };
    memset(&fake, 0, sizeof fake);
    own = see(OWN);
    return 0;
}

static int stop(void **state) {
    for (unsigned n = OWN; n < 40; n++)
        end(n);
    return 0;
}

TEST_WITH(a_peer_that_ended_is_done, start, stop) {
    struct gm_fence fence = {0};
    reach(PEER);
    assert_int_equal(record_own(&fence), GM_OK);
    assert_int_equal(fake.records, 2);
    own_is(CUDA_SUCCESS);
    assert_int_equal(gm_fence_query(&fence), PENDING);
    end(PEER);
    assert_int_equal(gm_fence_query(&fence), GM_OK);
    assert_int_equal(gm_fence_wait(&fence), GM_OK);
    see(PEER); /* another context with the same handle */
    assert_int_equal(gm_fence_query(&fence), GM_OK);
    assert_int_equal(record_own(&fence), GM_OK);
    assert_true(fake.records == 3 && fence.count == 1 && fence.event_count == 1);
    gm_fence_discard(&fence);
    assert_int_equal(fake.destroyed, 1);
}

/* Its streams may copy from and to the memory. The driver orders such copies of native memory. */
TEST_WITH(a_device_without_access_uses_no_native_memory, start, stop) {
    struct gm_fence fence = {0};
    struct gm_context far = see(FAR);
    assert_int_equal(gm_fence_record(&fence, &own, GM_FENCE_ACCESS), GM_OK);
    assert_int_equal(fence.count, 1);
    assert_int_equal(gm_fence_record(&fence, &own, GM_FENCE_COPIES), GM_OK);
    assert_true(fence.count == 2 && fence.owners == 1);
    gm_context_note_reach(0, &far); /* peer access is enabled */
    assert_int_equal(gm_fence_record(&fence, &own, GM_FENCE_ACCESS), GM_OK);
    assert_int_equal(fence.count, 2);
    assert_int_equal(gm_fence_record(&fence, &own, GM_FENCE_DEVICE), GM_OK);
    assert_int_equal(fence.count, 1);
    gm_fence_discard(&fence);
}

TEST_WITH(a_fence_is_pending_while_a_context_ends, start, stop) {
    struct gm_fence fence = {0}, other = {0};
    reach(PEER);
    assert_int_equal(record_own(&fence), GM_OK);
    own_is(CUDA_SUCCESS);
    peer_is(CUDA_SUCCESS);
    uint64_t id = gm_context_ending(CONTEXT(PEER));
    forbid(PEER);
    int queries = fake.queries;
    assert_int_equal(gm_fence_query(&fence), PENDING);
    assert_int_equal(gm_fence_wait(&fence), PENDING);
    assert_int_equal(fake.queries, queries + 1); /* the block's own event */
    assert_int_equal(record_own(&other), PENDING);
    assert_int_equal(other.count, 0);
    memset(fake.forbidden, 0, sizeof fake.forbidden);
    gm_context_stays(CONTEXT(PEER), id); /* the call did not end the context */
    assert_int_equal(gm_fence_query(&fence), GM_OK);
    assert_int_equal(record_own(&other), GM_OK);
    assert_int_equal(other.count, 2);
    gm_fence_discard(&fence);
    gm_fence_discard(&other);
    assert_int_equal(fake.destroyed, 4);
}

TEST_WITH(the_blocks_own_context_ends, start, stop) {
    struct gm_fence fence = {0};
    assert_int_equal(record_own(&fence), GM_OK);
    own_is(CUDA_SUCCESS);
    gm_context_ending(CONTEXT(OWN));
    forbid(OWN);
    assert_int_equal(gm_fence_query(&fence), PENDING);
    end(OWN);
    assert_int_equal(gm_fence_query(&fence), PENDING);
    assert_int_equal(gm_fence_wait(&fence), PENDING);
    assert_int_equal(record_own(&fence), PENDING);
    gm_fence_discard(&fence);
    assert_true(!fake.destroyed && !fake.waits);
}

/* The context was destroyed by a call that gpumem does not observe. Only the driver knows. */
TEST_WITH(the_driver_reports_a_destroyed_context, start, stop) {
    static const CUresult errors[] = {CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_CONTEXT,
                                      CUDA_ERROR_INVALID_HANDLE};
    struct gm_fence fence = {0};
    reach(PEER);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(record_own(&fence), GM_OK);
        own_is(CUDA_SUCCESS);
        peer_is(errors[i]);
        assert_int_equal(gm_fence_query(&fence), GM_OK);
        own_is(errors[i]);
        assert_int_equal(gm_fence_query(&fence), i < 2 ? PENDING : errors[i]);
    }
    own_is(CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(gm_fence_query(&fence), CUDA_ERROR_ILLEGAL_ADDRESS);
    fake.record = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    assert_int_equal(record_own(&fence), GM_OK);
    assert_int_equal(fence.count, 1);
    own_is(CUDA_SUCCESS);
    assert_int_equal(gm_fence_query(&fence), GM_OK);
    fake.record = CUDA_ERROR_ILLEGAL_ADDRESS; /* the context exists, but has an error */
    assert_int_equal(record_own(&fence), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* More contexts, one after the other, than a fence has points. */
TEST_WITH(many_contexts_come_and_go, start, stop) {
    struct gm_fence fence = {0};
    for (unsigned n = PEER; n < 40; n++) {
        reach(n);
        assert_int_equal(record_own(&fence), GM_OK);
        assert_int_equal(fence.count, 2);
        end(n);
    }
    gm_fence_discard(&fence);
    assert_int_equal(fake.destroyed, 1);
}

static void *query_fence(void *fence) { return (void *)(intptr_t)gm_fence_query(fence); }
static void *wait_for_fence(void *fence) { return (void *)(intptr_t)gm_fence_wait(fence); }

static int ending;

static void *end_own(void *unused) {
    gm_context_ending(CONTEXT(OWN));
    __atomic_store_n(&ending, 1, __ATOMIC_SEQ_CST);
    return unused;
}

static void end_during(void *(*call)(void *fence)) {
    struct gm_fence fence = {0};
    pthread_t calling, end_thread;
    assert_int_equal(record_own(&fence), GM_OK);
    ending = 0;
    fake.hold_up = 1;
    assert_int_equal(pthread_create(&calling, NULL, call, &fence), 0);
    while (!__atomic_load_n(&fake.held_up, __ATOMIC_SEQ_CST))
        ;
    assert_int_equal(pthread_create(&end_thread, NULL, end_own, NULL), 0);
    for (int i = 0; i < 100; i++) { /* far less than the longest wait */
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
        assert_false(__atomic_load_n(&ending, __ATOMIC_SEQ_CST));
    }
    __atomic_store_n(&fake.hold_up, 0, __ATOMIC_SEQ_CST);
    pthread_join(calling, NULL);
    pthread_join(end_thread, NULL);
    assert_true(ending);
}

TEST_WITH(destruction_waits_for_queries, start, stop) { end_during(query_fence); }
TEST_WITH(destruction_waits_for_waits, start, stop) { end_during(wait_for_fence); }

/* The last test: graphs stay possible. */
TEST_WITH(a_graph_of_another_device_may_copy, start, stop) {
    struct gm_fence fence = {0};
    see(FAR);
    gm_context_note_graphs();
    assert_int_equal(gm_fence_record(&fence, &own, GM_FENCE_ACCESS), GM_OK);
    assert_int_equal(fence.count, 2);
    gm_fence_discard(&fence);
}

int main(void) {
    gm_clock_init();
    return run_all(NULL, NULL);
}
