/* gpumem's waits for the device are not cancellation points: a cancelled thread ends at its own next one. The driver
 * is a table of functions that are cancellation points. */
#include "shim/driver/fence.h"

#include <pthread.h>
#include <stdio.h>

#include "tests/test.h"

static CUresult exchange(CUstreamCaptureMode *mode) { return CUDA_SUCCESS; }

static CUresult wait_for_event(CUevent event) {
    pthread_testcancel();
    return CUDA_SUCCESS;
}

static CUresult wait_for_stream(CUstream stream) {
    pthread_testcancel();
    return CUDA_ERROR_LAUNCH_FAILED;
}

static CUresult wait_for_context(void) {
    pthread_testcancel();
    return CUDA_SUCCESS;
}

static int came_out; /* of gpumem's calls */

static void in_fence(void) {
    struct gm_fence fence = {.count = 1, .event_count = 1};
    assert_int_equal(gm_fence_wait(&fence), GM_OK);
}

static void in_stream(void) { assert_int_equal(gm_drv.stream_synchronize(NULL), CUDA_ERROR_LAUNCH_FAILED); }
static void in_context(void) { assert_int_equal(gm_drv.ctx_synchronize(), CUDA_SUCCESS); }

static void in_nested_holds(void) {
    gm_cancel_hold();
    in_context();
    pthread_testcancel();
    gm_cancel_release();
}

static void *cancels_itself(void *body) {
    pthread_cancel(pthread_self());
    ((void (*)(void))body)();
    came_out = 1;
    pthread_testcancel();
    return NULL;
}

static void *may_not_be_cancelled(void *body) {
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_cancel(pthread_self());
    ((void (*)(void))body)();
    pthread_testcancel();
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    came_out = state == PTHREAD_CANCEL_DISABLE;
    pthread_testcancel();
    return NULL;
}

TEST(a_thread_ends_behind_our_waits) {
    void (*const bodies[])(void) = {in_fence, in_stream, in_context, in_nested_holds};
    void *(*const threads[])(void *) = {cancels_itself, may_not_be_cancelled};
    for (unsigned i = 0; i < 8; i++) {
        pthread_t thread;
        void *result = NULL;
        came_out = 0;
        assert_int_equal(pthread_create(&thread, NULL, threads[i / 4], (void *)bodies[i % 4]), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_true(came_out);
        assert_ptr_equal(result, PTHREAD_CANCELED);
    }
}

int main(void) {
    const struct gm_driver table = {.thread_exchange_capture_mode = exchange,
                                    .event_synchronize = wait_for_event,
                                    .stream_synchronize = wait_for_stream,
                                    .ctx_synchronize = wait_for_context};
    gm_driver_use(&table);
    return run_all(NULL, NULL);
}
