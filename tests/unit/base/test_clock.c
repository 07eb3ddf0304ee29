/* The clock, the thread id, the spinlock and anonymous pages of shim/base. */
#include "shim/base/base.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/test.h"

static uint64_t system_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_ms(long ms) {
    const struct timespec nap = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&nap, NULL);
}

/* Every reading lies between two readings of the system clock. The tolerance is 1e-4 of the time since the start, and
 * a microsecond. On a busy machine the two readings may be far apart; that only makes the test less strict. */
TEST(follows_the_system_clock) {
    uint64_t start = system_ns(), last = 0;
    gm_clock_init();
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 100; k++) {
            uint64_t before = system_ns(), now = gm_now_ns(), after = system_ns();
            uint64_t slack = (after - start) / 10000 + 1000;
            assert_in_range(now, before - slack, after + slack);
            assert_true(now >= last);
            last = now;
        }
        pause_ms(i % 20 ? 2 : 20);
    }
}

TEST(spans) {
    uint64_t before_ns = system_ns(), before = gm_ticks();
    uint64_t outer = system_ns();
    pause_ms(50);
    uint64_t inner = system_ns();
    uint64_t span = gm_ticks_span_ns(gm_ticks() - before), after_ns = system_ns();
    uint64_t slack = (after_ns - before_ns) / 10000 + 1000;
    assert_in_range(span, inner - outer - slack, after_ns - before_ns + slack);
    assert_int_equal(gm_ticks_span_ns(0), 0);
}

/* A count gives the same time whenever it is converted, also when counts are converted backwards. */
TEST(conversions_do_not_change) {
    enum { COUNT = 400 };
    static uint64_t ticks[COUNT], times[COUNT];
    for (int i = 0; i < COUNT; i++) {
        ticks[i] = gm_ticks();
        times[i] = gm_ticks_to_ns(ticks[i]);
        pause_ms(1);
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        assert_int_equal(gm_ticks_to_ns(ticks[i]), times[i]);
        assert_true(!i || times[i] >= times[i - 1]);
    }
}

static void *watch(void *stop) {
    uint64_t last = 0;
    uintptr_t backwards = 0;
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
        uint64_t now = gm_now_ns();
        backwards += now < last;
        last = now;
    }
    return (void *)backwards;
}

TEST(monotonic_in_every_thread) {
    pthread_t threads[4];
    int stop = 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, watch, &stop), 0);
    pause_ms(300);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 4; i++) {
        void *backwards;
        pthread_join(threads[i], &backwards);
        assert_null(backwards);
    }
}

static void *report_id(void *id) {
    *(int *)id =
        gm_thread_id() == (int)syscall(SYS_gettid) && gm_thread_id() == (int)syscall(SYS_gettid) ? gm_thread_id() : -1;
    return NULL;
}

TEST(thread_ids) {
    pthread_t thread;
    int other;
    assert_int_equal(gm_thread_id(), syscall(SYS_gettid));
    assert_int_equal(pthread_create(&thread, NULL, report_id, &other), 0);
    pthread_join(thread, NULL);
    assert_int_not_equal(other, -1);
    assert_int_not_equal(other, gm_thread_id());
}

/* fork() runs fork handlers, and the bare system call runs none. A grandchild forks from a child that has already read
 * its id. */
TEST(thread_ids_after_fork) {
    gm_thread_id();
    for (int bare = 0; bare < 2; bare++) {
        pid_t child = bare ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
        if (!child) {
            int status = gm_thread_id() != (int)syscall(SYS_gettid);
            pid_t grandchild = fork();
            if (!grandchild)
                _exit(gm_thread_id() != (int)syscall(SYS_gettid));
            int inner;
            waitpid(grandchild, &inner, 0);
            _exit(status || inner || gm_now_ns() == 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(gm_thread_id(), syscall(SYS_gettid));
    }
}

static void *count_up(void *arg) {
    static gm_spin lock;
    for (int i = 0; i < 20000; i++) {
        gm_spin_lock(&lock);
        ++*(volatile int *)arg;
        gm_spin_unlock(&lock);
    }
    return NULL;
}

TEST(spinlock_excludes) {
    pthread_t threads[4];
    int count = 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &count), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(count, 4 * 20000);
}

TEST(pages) {
    unsigned char *memory = gm_pages(100000);
    assert_non_null(memory);
    for (int i = 0; i < 100000; i += 999)
        assert_int_equal(memory[i], 0);
    memory[99999] = 1;
    assert_null(gm_pages(SIZE_MAX / 2));
}

int main(void) { return run_all(NULL, NULL); }
