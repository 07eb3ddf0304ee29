/* The list of captures (shim/driver/capture.c). The driver is a table of functions here that give scripted answers. */
#include <pthread.h>
#include <time.h>

#include "tests/test.h"

#include "shim/base/events.h"
#include "shim/driver/driver.h"

#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x1000 * (n)))
#define STREAM(n)  ((CUstream)(uintptr_t)(0x100 * (n)))
#define GLOBAL     CU_STREAM_CAPTURE_MODE_GLOBAL
#define RELAXED    CU_STREAM_CAPTURE_MODE_RELAXED

enum { RECHECK_NS = 100000000 }; /* captures that last longer are queried, no more often than this */
static const struct timespec long_since = {.tv_nsec = 130000000};

static struct {
    CUresult answer;
    CUstreamCaptureStatus status;
    int queries, lost;
    int hold_up, held_up; /* is_capturing: a query does not return; is running */
    struct gm_capture last;
} fake;

static __thread CUcontext current;

static CUresult get_current(CUcontext *context) { return *context = current, CUDA_SUCCESS; }
static CUresult exchange(CUstreamCaptureMode *mode) { return (void)mode, CUDA_SUCCESS; }
/* Streams from 100 on belong to context 2. */
static CUresult context_of(CUstream stream, CUcontext *context) {
    return *context = stream < STREAM(100) ? CONTEXT(1) : CONTEXT(2), CUDA_SUCCESS;
}
static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status) {
    __atomic_add_fetch(&fake.queries, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&fake.held_up, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&fake.hold_up, __ATOMIC_SEQ_CST))
        ;
    __atomic_store_n(&fake.held_up, 0, __ATOMIC_SEQ_CST);
    return *status = fake.status, fake.answer;
}
/* Only a report of a capture that is still listed counts: what waits for the end must come after the report. */
static void lost(const struct gm_capture *capture) { fake.lost += gm_captures > 0, fake.last = *capture; }

static int start(void **state) {
    gm_fork_zero();
    memset(&fake, 0, sizeof fake);
    current = CONTEXT(1);
    gm_drv = (struct gm_driver){
        .ctx_get_current = get_current,
        .thread_exchange_capture_mode = exchange,
        .stream_get_ctx = context_of,
        .stream_is_capturing = is_capturing,
    };
    gm_events.capture_lost = lost;
    return 0;
}

static void begin(CUstream stream, bool per_thread, CUstreamCaptureMode mode) {
    gm_capture_begun(gm_capture_begin(stream, per_thread, mode), true);
}

static bool may_disturb(void) {
    CUstreamCaptureMode mode;
    bool inside = gm_capture_guard_enter(&mode);
    if (inside)
        gm_capture_guard_leave(mode);
    return inside;
}

TEST_WITH(a_begin_that_fails_is_no_capture, start, NULL) {
    begin(STREAM(1), false, GLOBAL);
    gm_capture_begun(gm_capture_begin(STREAM(1), false, GLOBAL), false); /* the stream captures already */
    assert_int_equal(gm_captures, 1);
    gm_capture_end(STREAM(2), false);
    assert_int_equal(gm_captures, 1);
    assert_false(may_disturb());
    gm_capture_end(STREAM(1), false);
    gm_capture_end(STREAM(1), false);
    assert_true(may_disturb() && !fake.lost && !fake.queries);
}

TEST_WITH(more_captures_than_a_page_holds, start, NULL) {
    for (uintptr_t i = 1; i <= 3000; i++)
        begin(STREAM(1000 + i), false, RELAXED);
    assert_int_equal(gm_captures, 3000);
    for (uintptr_t i = 3000; i > 0; i -= 2)
        gm_capture_end(STREAM(1000 + i), false);
    assert_int_equal(gm_captures, 1500);
    gm_capture_ending(NULL, CONTEXT(2));
    gm_capture_destroyed(NULL, CONTEXT(2), true);
    assert_true(gm_captures == 0 && fake.lost == 1500);
}

TEST_WITH(captures_end_with_their_stream, start, NULL) {
    begin(STREAM(1), false, GLOBAL);
    begin(STREAM(2), false, RELAXED);
    gm_capture_ending(STREAM(1), NULL);
    gm_capture_destroyed(STREAM(1), NULL, false); /* it could not be destroyed */
    assert_int_equal(gm_captures, 2);
    gm_capture_ending(STREAM(1), NULL);
    gm_capture_destroyed(STREAM(1), NULL, true);
    assert_true(gm_captures == 1 && fake.lost == 1 && fake.last.stream == STREAM(1) && fake.last.context == CONTEXT(1));
    gm_capture_ending(STREAM(2), NULL);
    begin(STREAM(3), false, GLOBAL);
    gm_capture_end(STREAM(2), false); /* ended by another thread meanwhile */
    begin(STREAM(2), false, GLOBAL);  /* the handle of the destroyed stream is used again */
    gm_capture_destroyed(STREAM(2), NULL, true);
    assert_true(gm_captures == 2 && fake.lost == 1);
}

TEST_WITH(captures_end_with_their_context, start, NULL) {
    begin(STREAM(1), false, GLOBAL);
    begin(STREAM(100), false, GLOBAL);
    begin(STREAM(101), false, RELAXED);
    current = CONTEXT(2);
    begin(NULL, true, RELAXED);
    gm_capture_ending(NULL, CONTEXT(2));
    gm_capture_destroyed(NULL, CONTEXT(2), false);
    assert_int_equal(gm_captures, 4);
    gm_capture_ending(NULL, CONTEXT(2));
    gm_capture_destroyed(NULL, CONTEXT(2), true);
    assert_true(gm_captures == 1 && fake.lost == 3);
    gm_capture_end(STREAM(1), false);
    assert_true(may_disturb());
}

/* ---- threads */

static void *begin_default(void *mode) {
    current = CONTEXT(1);
    begin(mode ? CU_STREAM_PER_THREAD : NULL, !mode, RELAXED);
    return NULL;
}

static void *begin_and_end_default(void *unused) {
    current = CONTEXT(1);
    begin(NULL, true, GLOBAL);
    current = CONTEXT(2);
    begin(NULL, true, GLOBAL);
    gm_capture_end(CU_STREAM_PER_THREAD, false); /* the same stream by its other name */
    return unused;
}

static void in_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, argument), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

TEST_WITH(each_thread_has_a_default_stream, start, NULL) {
    begin(NULL, true, GLOBAL);
    in_thread(begin_default, NULL);
    in_thread(begin_default, "by handle");
    in_thread(begin_and_end_default, NULL);
    assert_int_equal(gm_captures, 4);
    assert_false(gm_capture_recheck()); /* captures of ended threads are over at once */
    assert_true(gm_captures == 1 && fake.lost == 3 && !fake.queries && fake.last.per_thread);
    gm_capture_end(NULL, false); /* the legacy stream is a different stream */
    assert_int_equal(gm_captures, 1);
    gm_capture_end(NULL, true);
    assert_true(may_disturb());
}

static void *begin_two(void *unused) {
    current = CONTEXT(1);
    begin(STREAM(1), false, RELAXED);
    begin(STREAM(2), false, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    return unused;
}

TEST_WITH(only_relaxed_captures_outlive_their_thread, start, NULL) {
    in_thread(begin_two, NULL);
    assert_false(may_disturb());
    assert_true(gm_captures == 1 && fake.lost == 1 && fake.last.stream == STREAM(2));
    gm_capture_end(STREAM(1), false);
    assert_true(may_disturb());
}

/* ---- captures that last long */

TEST_WITH(long_captures_are_queried, start, NULL) {
    fake.status = CU_STREAM_CAPTURE_STATUS_NONE;
    uint64_t since = gm_now_ns();
    begin(STREAM(1), false, GLOBAL);
    uint64_t coming = gm_capture_begin(STREAM(2), false, GLOBAL); /* the driver has not begun it yet */
    assert_false(gm_capture_recheck());
    assert_true(fake.queries == 0 || gm_now_ns() - since > RECHECK_NS);
    nanosleep(&long_since, NULL);
    assert_false(gm_capture_recheck());
    assert_true(fake.queries == 1 && gm_captures == 1 && fake.lost == 1 && fake.last.stream == STREAM(1));
    gm_capture_begun(coming, true);
    fake.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED; /* still to be ended */
    begin(NULL, true, GLOBAL);                          /* no other thread can name it */
    since = gm_now_ns();
    for (int i = 0; i < 1000; i++)
        assert_false(may_disturb());
    nanosleep(&long_since, NULL);
    assert_false(may_disturb());
    assert_in_range(fake.queries, 2, 3 + (gm_now_ns() - since) / RECHECK_NS); /* not 1000 times */
    fake.answer = CUDA_ERROR_ILLEGAL_ADDRESS;
    nanosleep(&long_since, NULL);
    assert_false(may_disturb());
    assert_int_equal(gm_captures, 2);
    gm_capture_end(NULL, true);
    fake.answer = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    nanosleep(&long_since, NULL);
    assert_true(may_disturb());
    assert_int_equal(fake.lost, 2);
    begin(STREAM(3), false, GLOBAL);
    fake.answer = CUDA_ERROR_INVALID_HANDLE; /* the stream is gone */
    nanosleep(&long_since, NULL);
    assert_true(may_disturb());
    assert_int_equal(fake.lost, 3);
}

static void *recheck(void *unused) {
    gm_capture_recheck();
    return unused;
}

static int destroyed;

static void *destroy(void *unused) {
    gm_capture_ending(STREAM(1), NULL);
    __atomic_store_n(&destroyed, 1, __ATOMIC_SEQ_CST);
    gm_capture_destroyed(STREAM(1), NULL, true);
    return unused;
}

/* A stream is not destroyed while a thread queries it. */
TEST_WITH(destruction_waits_for_queries, start, NULL) {
    pthread_t recheck_thread, destroy_thread;
    fake.status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    fake.hold_up = 1;
    begin(STREAM(1), false, GLOBAL);
    nanosleep(&long_since, NULL);
    assert_int_equal(pthread_create(&recheck_thread, NULL, recheck, NULL), 0);
    while (!__atomic_load_n(&fake.held_up, __ATOMIC_SEQ_CST))
        ;
    assert_int_equal(pthread_create(&destroy_thread, NULL, destroy, NULL), 0);
    for (int i = 0; i < 100; i++) { /* far less than the longest wait */
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
        assert_false(__atomic_load_n(&destroyed, __ATOMIC_SEQ_CST));
    }
    __atomic_store_n(&fake.hold_up, 0, __ATOMIC_SEQ_CST);
    pthread_join(recheck_thread, NULL);
    pthread_join(destroy_thread, NULL);
    assert_true(destroyed && gm_captures == 0 && fake.lost == 1);
}

int main(void) {
    gm_clock_init();
    return run_all(NULL, NULL);
}
