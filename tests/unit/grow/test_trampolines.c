/* Each driver function gets one trampoline. When all are in use, the next function is handed out as it is, but
 * gm_trampolines_complete() turns false and `run_out` is called before that. The driver is this program itself, and its
 * functions are bytes of an array. */
#include "shim/driver/driver.h"
#include "shim/grow/trampolines.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TRAMPOLINES = 1024, TRAMPOLINE_BYTES = 16 };

GM_INTERNAL extern const char gm_trampolines[];
const char gm_trampolines[TRAMPOLINES * TRAMPOLINE_BYTES] = {1};
struct gm_driver gm_drv;

static char functions[TRAMPOLINES + 2] = {1};
static unsigned run_out_calls;
static bool complete_when_called;

static void run_out(void) {
    run_out_calls++;
    complete_when_called = gm_trampolines_complete();
}

/* The last byte stands for a function that only waits: it needs no trampoline. */
void *gm_driver_symbol(const char *name) {
    return !strcmp(name, "cuStreamSynchronize") ? (void *)&functions[TRAMPOLINES + 1] : NULL;
}

enum { THREADS = 4 };
static pthread_barrier_t all_there;

static void *look_up(void *unused) {
    char *waits = &functions[TRAMPOLINES + 1];
    pthread_barrier_wait(&all_there);
    return gm_trampoline_of(waits) == waits && gm_trampoline_of(functions) == gm_trampolines ? functions : unused;
}

static void threads_look_up_at_once(void **unused) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_there, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_up, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *right = NULL;
        assert_int_equal(pthread_join(threads[i], &right), 0);
        assert_non_null(right);
    }
}

static void each_function_has_one_trampoline(void **unused) {
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < TRAMPOLINES; i++)
            assert_ptr_equal(gm_trampoline_of(&functions[i]), gm_trampolines + (size_t)i * TRAMPOLINE_BYTES);
    assert_ptr_equal(gm_trampoline_of(&functions[TRAMPOLINES + 1]), &functions[TRAMPOLINES + 1]);
    assert_true(gm_trampolines_complete());
    assert_int_equal(run_out_calls, 0);
}

static void functions_of_others_need_none(void **unused) {
    assert_ptr_equal(gm_trampoline_of((void *)qsort), (void *)qsort);
    assert_true(gm_trampolines_complete());
}

static void one_function_too_many(void **unused) {
    assert_ptr_equal(gm_trampoline_of(&functions[TRAMPOLINES]), &functions[TRAMPOLINES]);
    assert_false(gm_trampolines_complete());
    assert_int_equal(run_out_calls, 1);
    assert_false(complete_when_called); /* else another thread could still defer a copy */
    assert_ptr_equal(gm_trampoline_of(&functions[0]), gm_trampolines);
    assert_false(gm_trampolines_complete());
}

int main(void) {
    gm_trampolines_start(run_out);
    gm_drv.ctx_get_current = (__typeof__(gm_drv.ctx_get_current))(void *)functions;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_look_up_at_once),
        cmocka_unit_test(each_function_has_one_trampoline),
        cmocka_unit_test(functions_of_others_need_none),
        cmocka_unit_test(one_function_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
