/* Waits by the kernel's futex (shim/base/futex.h). The program defines `syscall` itself, so that a test can act between
 * the decision to wait and the sleep. A wait that lost its wake-up ends after some seconds and is found out. */
#include "shim/base/futex.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/test.h"

enum { WAIT = 128, SECONDS = 20, ROUNDS = 20000, WAITERS = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct gm_condition condition;
static uint32_t word;
static bool ready;
static unsigned calls, timeouts, awake, turn;
static void (*before_sleep)(void);

/* gpumem's calls have at most six arguments. */
long syscall(long number, ...) {
    long (*call)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    const struct timespec limit = {SECONDS, 0};
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number != SYS_futex)
        return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    if (a[1] != WAIT)
        return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (before_sleep)
        before_sleep();
    const long failed = call(number, a[0], a[1], a[2], a[3] ? a[3] : (long)&limit, a[4], a[5]);
    if (failed && errno == ETIMEDOUT && !a[3])
        __atomic_add_fetch(&timeouts, 1, __ATOMIC_SEQ_CST);
    return failed;
}

static int reset(void **state) {
    condition = (struct gm_condition){0};
    word = calls = timeouts = awake = turn = 0;
    ready = false;
    before_sleep = NULL;
    return 0;
}

static void make_ready(void) {
    pthread_mutex_lock(&mutex);
    ready = true;
    gm_condition_wake(&condition);
    pthread_mutex_unlock(&mutex);
}

static void *await_ready(void *argument) {
    pthread_mutex_lock(&mutex);
    while (!ready)
        gm_condition_wait(&condition, &mutex);
    awake++;
    pthread_mutex_unlock(&mutex);
    return argument;
}

static void change_word(void) {
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    gm_futex_wake(&word);
}

TEST_WITH(a_wake_up_before_the_sleep_is_not_lost, reset, NULL) {
    before_sleep = make_ready;
    await_ready(NULL);
    assert_int_equal(calls, 2);
    before_sleep = change_word;
    gm_futex_wait(&word, 0, NULL);
    assert_int_equal(calls, 4);
    assert_int_equal(timeouts, 0);
}

static void await_waiters(unsigned count) {
    for (unsigned waiting = 0; waiting != count; usleep(1000)) {
        pthread_mutex_lock(&mutex);
        waiting = condition.waiting;
        pthread_mutex_unlock(&mutex);
    }
}

TEST_WITH(all_that_wait_are_woken, reset, NULL) {
    pthread_t threads[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, await_ready, NULL), 0);
    await_waiters(WAITERS);
    assert_int_equal(awake, 0);
    make_ready();
    for (int i = 0; i < WAITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(awake, WAITERS);
    assert_int_equal(condition.waiting, 0);
    assert_int_equal(timeouts, 0);
}

TEST_WITH(nobody_is_woken_without_a_system_call, reset, NULL) {
    make_ready();
    assert_int_equal(calls, 0);
}

static void *take_turns(void *own) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < ROUNDS; i++) {
        while (turn != (own != NULL))
            gm_condition_wait(&condition, &mutex);
        turn = !turn;
        gm_condition_wake(&condition);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

TEST_WITH(two_threads_take_turns, reset, NULL) {
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, take_turns, &word), 0);
    take_turns(NULL);
    pthread_join(other, NULL);
    assert_int_equal(timeouts, 0);
}

static void *wait_and_end(void *argument) {
    await_ready(NULL);
    pthread_testcancel();
    return argument;
}

TEST_WITH(a_cancelled_thread_ends_behind_the_wait, reset, NULL) {
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, wait_and_end, NULL), 0);
    await_waiters(1);
    pthread_cancel(thread);
    usleep(20000);
    make_ready();
    pthread_join(thread, &result);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(awake, 1);
    assert_int_equal(timeouts, 0);
}

TEST_WITH(waits_end_in_time_and_keep_errno, reset, NULL) {
    const struct timespec brief = {0, 1000000};
    errno = EDOM;
    gm_futex_wait(&word, 0, &brief);
    gm_futex_wait(&word, 1, NULL); /* the word is another one */
    gm_futex_wake(&word);
    assert_int_equal(errno, EDOM);
    assert_int_equal(calls, 3);
}

int main(void) {
#undef TEST
    return run_all(NULL, NULL);
}
