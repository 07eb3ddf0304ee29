/* Per-thread memory (shim/base/room.h). */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#include "shim/base/real_dl.h"
#include "shim/base/room.h"

enum { THREADS = 500, TOGETHER = 100 };

static unsigned ended, wrong;
static pthread_barrier_t all_there;

static void count_ended(void *part) {
    __atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&wrong, *(char *)part != 7, __ATOMIC_RELAXED);
}

static void *use(void *unused) {
    char *part = gm_room_part(GM_ROOM_TRACE), *other = gm_room_part(GM_ROOM_ERROR);
    for (int i = 0; part && i < GM_ROOM_BYTES - GM_ROOM_TRACE; i++)
        __atomic_add_fetch(&wrong, part[i] != 0, __ATOMIC_RELAXED);
    if (!part || other - part != GM_ROOM_ERROR - GM_ROOM_TRACE || gm_room_part_known(GM_ROOM_TRACE) != part)
        return NULL;
    memset(part, 7, GM_ROOM_BYTES - GM_ROOM_TRACE);
    return part;
}

static void *use_beside_others(void *unused) {
    void *part = use(unused);
    pthread_barrier_wait(&all_there);
    return part;
}

TEST(threads_in_sequence_share_memory) {
    void *first = NULL, *part;
    ended = wrong = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, use, NULL), 0);
        assert_int_equal(pthread_join(thread, &part), 0);
        assert_non_null(part);
        first = first ? first : part;
        assert_ptr_equal(part, first);
    }
    assert_int_equal(ended, THREADS);
    assert_int_equal(wrong, 0);
}

TEST(parallel_threads_have_their_own_memory) {
    pthread_t threads[TOGETHER];
    void *parts[TOGETHER];
    ended = wrong = 0;
    pthread_barrier_init(&all_there, NULL, TOGETHER);
    for (int i = 0; i < TOGETHER; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_beside_others, NULL), 0);
    for (int i = 0; i < TOGETHER; i++) {
        assert_int_equal(pthread_join(threads[i], &parts[i]), 0);
        assert_non_null(parts[i]);
        for (int j = 0; j < i; j++)
            assert_ptr_not_equal(parts[i], parts[j]);
    }
    pthread_barrier_destroy(&all_there);
    assert_int_equal(ended, TOGETHER);
    assert_int_equal(wrong, 0);
}

static void *look(void *unused) { return gm_room_part_known(GM_ROOM_CLOCK); }

TEST(a_thread_that_needs_no_memory_has_none) {
    pthread_t thread;
    void *part = &thread;
    assert_int_equal(pthread_create(&thread, NULL, look, NULL), 0);
    assert_int_equal(pthread_join(thread, &part), 0);
    assert_null(part);
}

static bool stop;

static void nothing(void *unused) { (void)unused; }

static void *register_often(void *unused) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        gm_thread_at_exit(nothing, &stop);
    return NULL;
}

/* The other thread mostly holds the lock at the fork. */
TEST(a_forked_child_does_not_wait_for_threads_of_its_parent) {
    pthread_t thread;
    int status;
    assert_int_equal(pthread_create(&thread, NULL, register_often, NULL), 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (!child) {
            alarm(10);
            gm_fork_zero();
            _exit(gm_thread_at_exit(nothing, &status) != 0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void) {
    gm_room_on_leave(GM_ROOM_TRACE, count_ended);
    return run_all(NULL, NULL);
}
