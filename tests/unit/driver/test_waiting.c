/* Waits that block the thread (waiting.c). The driver is a table of functions here. */
#include "tests/test.h"

#include "shim/driver/event.h"

#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x1000 * (n)))
#define WORK       ((CUevent)(uintptr_t)0x77)

static struct {
    CUcontext current;
    bool pending; /* what queries find */
    int streams, events, waited_behind;
    uintptr_t synchronised;
    CUresult stream_answer, record_answer;
} fake;

static CUresult get_current(CUcontext *context) { return *context = fake.current, CUDA_SUCCESS; }
static CUresult push(CUcontext context) { return fake.current = context, CUDA_SUCCESS; }
static CUresult pop(CUcontext *context) { return *context = fake.current, fake.current = CONTEXT(1), CUDA_SUCCESS; }
static CUresult get_device(CUdevice *device) { return *device = 0, CUDA_SUCCESS; }
static CUresult query(CUevent event) {
    assert_ptr_equal(event, WORK);
    return fake.pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
static CUresult create_stream(CUstream *stream, unsigned flags) {
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    if (!fake.stream_answer)
        *stream = (CUstream)(uintptr_t)(0x500 + fake.streams++);
    return fake.stream_answer;
}
static CUresult create(CUevent *event, unsigned flags) {
    assert_true(flags & CU_EVENT_BLOCKING_SYNC && flags & CU_EVENT_DISABLE_TIMING);
    return *event = (CUevent)(uintptr_t)++fake.events, CUDA_SUCCESS;
}
static CUresult wait_in_stream(CUstream stream, CUevent event, unsigned flags) {
    assert_ptr_equal(event, WORK);
    return (void)stream, (void)flags, fake.waited_behind++, CUDA_SUCCESS;
}
static CUresult record(CUevent event, CUstream stream) { return (void)event, (void)stream, fake.record_answer; }
static CUresult synchronise(CUevent event) { return fake.synchronised = (uintptr_t)event, CUDA_SUCCESS; }

static struct gm_event_of work_in(unsigned n) {
    struct gm_context context;
    fake.current = CONTEXT(n);
    assert_true(gm_context_current(&context));
    fake.current = CONTEXT(1);
    return (struct gm_event_of){context.handle, context.id, WORK};
}

static void end(const struct gm_event_of *event) {
    uint64_t id;
    gm_context_ending(event->context);
    assert_true(gm_context_end(event->context, &id));
}

static int start(void **state) {
    gm_drv = (struct gm_driver){.ctx_get_current = get_current,
                                .ctx_push = push,
                                .ctx_pop = pop,
                                .ctx_get_device = get_device,
                                .stream_create = create_stream,
                                .stream_wait_event = wait_in_stream,
                                .event_create = create,
                                .event_record = record,
                                .event_query = query,
                                .event_synchronize = synchronise};
    memset(&fake, 0, sizeof fake);
    return 0;
}

TEST_WITH(a_wait_for_what_is_done_only_queries, start, NULL) {
    struct gm_event_of work = work_in(1);
    assert_int_equal(gm_event_wait(&work, true), GM_OK);
    assert_true(!fake.synchronised && !fake.streams && !fake.events);
    end(&work);
}

TEST_WITH(a_long_wait_blocks_behind_the_work, start, NULL) {
    struct gm_event_of work = work_in(2);
    for (int i = 1; i <= 3; i++) {
        fake.pending = true;
        assert_int_equal(gm_event_wait(&work, true), GM_OK);
        assert_true(fake.synchronised == 1 && fake.waited_behind == i);
        assert_true(fake.streams == 1 && fake.events == 1); /* made once */
        assert_ptr_equal(fake.current, CONTEXT(1));
    }
    end(&work);
}

TEST_WITH(what_a_destroyed_context_had_is_not_used, start, NULL) {
    for (int i = 1; i <= 200; i++) {
        struct gm_event_of work = work_in(3);
        fake.pending = true;
        assert_int_equal(gm_event_wait(&work, true), GM_OK);
        assert_true(fake.synchronised == (uintptr_t)i && fake.streams == i);
        end(&work);
        assert_int_equal(gm_event_wait(&work, true), GM_FENCE_PENDING);
    }
}

/* A green context makes no such stream; a full one makes none. */
TEST_WITH(without_a_stream_the_wait_is_that_of_the_event, start, NULL) {
    struct gm_event_of work = work_in(4);
    fake.pending = true;
    fake.stream_answer = CUDA_ERROR_NOT_PERMITTED;
    assert_int_equal(gm_event_wait(&work, true), GM_OK);
    assert_true(fake.synchronised == (uintptr_t)WORK);
    fake.pending = true;
    fake.stream_answer = CUDA_SUCCESS;
    fake.record_answer = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(gm_event_wait(&work, true), GM_OK);
    assert_true(fake.synchronised == (uintptr_t)WORK);
    end(&work);
}

int main(void) {
    gm_clock_init();
    return run_all(NULL, NULL);
}
