/* The counters are exact for any number of threads. */
#include "shim/accounts/stats.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

enum { THREADS = 2 * GM_STATS_SHARDS, CALLS = 100000 };

static pthread_barrier_t barrier;

static void count_calls(int calls) {
    for (int i = 0; i < calls; i++) {
        gm_stats_count(&gm_stats_mine()->allocs[GM_KIND_NATIVE], 1);
        gm_stats_cached(GM_KIND_CACHE, 512);
        gm_stats_uncached(GM_KIND_CACHE, 256);
        gm_stats_settle();
    }
}

static void *work(void *unused) {
    gm_stats_mine(); /* no thread ends before all have started */
    gm_stats_settle();
    pthread_barrier_wait(&barrier);
    count_calls(CALLS);
    pthread_barrier_wait(&barrier); /* all have counted, and none has ended */
    pthread_barrier_wait(&barrier);
    gm_stats_count(&gm_stats_mine()->failed_allocs, 1); /* without gm_stats_settle */
    return NULL;
}

static void expect(uint64_t calls, uint64_t ended) {
    struct gm_stats_shard total = gm_stats_total(gm_stats);
    assert_int_equal(total.allocs[GM_KIND_NATIVE], calls);
    assert_int_equal(total.cached_in[GM_KIND_CACHE], calls * 512);
    assert_int_equal(total.cached_out[GM_KIND_CACHE], calls * 256);
    assert_int_equal(total.failed_allocs, ended);
}

static uint64_t calls, ended;

TEST(many_threads) {
    pthread_t threads[THREADS];
    for (int round = 0; round < 2; round++) { /* the second round reuses the shards of the first */
        assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS + 1), 0);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        expect(calls += (uint64_t)THREADS * CALLS, ended);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        expect(calls, ended += THREADS);
        pthread_barrier_destroy(&barrier);
    }
}

static void *fork_and_count(void *unused) {
    int status;
    count_calls(1);
    gm_stats_count(&gm_stats_mine()->frees[GM_KIND_NATIVE], 1); /* counts for the parent only */
    pid_t pid = fork();
    if (pid == 0) {
        gm_stats_after_fork();
        count_calls(7);
        struct gm_stats_shard total = gm_stats_total(gm_stats);
        _exit(total.allocs[GM_KIND_NATIVE] == 7 && total.frees[GM_KIND_NATIVE] == 0 ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    return (void *)(intptr_t)status;
}

static void *hold_a_shard(void *unused) {
    gm_stats_mine();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

TEST(a_child_begins_at_zero) {
    pthread_t threads[GM_STATS_SHARDS], last;
    void *status;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, GM_STATS_SHARDS + 1), 0);
    for (int i = 0; i < GM_STATS_SHARDS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hold_a_shard, NULL), 0);
    pthread_barrier_wait(&barrier);
    assert_int_equal(pthread_create(&last, NULL, fork_and_count, NULL), 0);
    assert_int_equal(pthread_join(last, &status), 0);
    assert_null(status);
    expect(calls += 1, ended);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < GM_STATS_SHARDS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void) {
    gm_stats_open(NULL);
    return run_all(NULL, NULL);
}
