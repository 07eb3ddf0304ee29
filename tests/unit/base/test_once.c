/* Work that is done once (shim/base/once.h). */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#include "shim/base/once.h"

enum { THREADS = 8 };

static struct gm_once once;
static int result; /* plain: who finds the work done sees it */

static void *work_or_wait(void *unused) {
    if (gm_once_begin(&once)) {
        usleep(1000);
        result++;
        gm_once_end(&once);
    }
    return (void *)(intptr_t)result;
}

TEST(one_thread_works_and_the_others_see_the_result) {
    pthread_t threads[THREADS];
    void *seen;
    assert_false(gm_once_is_done(&once));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work_or_wait, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &seen), 0);
        assert_int_equal((intptr_t)seen, 1);
    }
    assert_true(gm_once_is_done(&once));
}

TEST(a_forked_child_does_the_work_that_its_parent_had_begun) {
    static struct gm_once begun;
    int status;
    assert_true(gm_once_begin(&begun));
    pid_t child = fork();
    if (!child) {
        alarm(10);
        bool works = gm_once_begin(&begun);
        gm_once_end(&begun);
        _exit(!works || gm_once_begin(&begun));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    gm_once_end(&begun);
    assert_false(gm_once_begin(&begun));
}

int main(void) { return run_all(NULL, NULL); }
