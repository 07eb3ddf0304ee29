/* Guards of static variables, as host code of nvcc calls them. */
#include "spgemm_test.h"

#include <pthread.h>
#include <unistd.h>

int __cxa_guard_acquire(char *initialized);
void __cxa_guard_release(char *initialized);

#define THREADS 8

static char outer_guard[8], inner_guard[8];
static int outer, inner, initialized;

/* A variable whose initialization takes a while and needs another variable. */
static int variable(void) {
    if (__cxa_guard_acquire(outer_guard)) {
        if (__cxa_guard_acquire(inner_guard)) {
            inner = 3;
            __cxa_guard_release(inner_guard);
        }
        usleep(20000);
        initialized++;
        outer = inner + 4;
        __cxa_guard_release(outer_guard);
    }
    return outer;
}

static void *use(void *seen) {
    *(int *)seen = variable();
    return NULL;
}

TEST(initialized_once) {
    pthread_t threads[THREADS];
    int seen[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, &seen[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(seen[i], 7);
    assert_int_equal(initialized, 1);
    assert_true(outer_guard[0] == 1 && inner_guard[0] == 1);
}

int main(void) { return run_all(NULL, NULL); }
