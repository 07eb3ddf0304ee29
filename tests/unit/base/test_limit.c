/* The start of GPUMEM_LIMIT (shim/base/limit.h): a query of NVML and the first call of the driver may both make it. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/test.h"

#include "shim/base/group.h"
#include "shim/base/limit.h"
#include "shim/base/stats.h"

enum { THREADS = 8, LIMIT = 1000 };

static char name[GM_GROUP_NAME];
static pthread_barrier_t all_there;

/* Returns how many bytes more than the limit the thread could take. */
static void *start(void *unused) {
    pthread_barrier_wait(&all_there);
    gm_limit_start(name, LIMIT);
    return (void *)(uintptr_t)(!gm_limit_on() + gm_limit_take(0, LIMIT + 1));
}

static bool read_uuid(int device, unsigned char uuid[16]) {
    uuid[15] = (unsigned char)(device + 1);
    return true;
}

TEST(each_thread_finds_the_limit_in_force) {
    pthread_t threads[THREADS];
    void *beyond;
    const char *why;
    snprintf(name, sizeof name, "test-limit-%d", (int)getpid());
    pthread_barrier_init(&all_there, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, start, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &beyond), 0);
        assert_null(beyond);
    }
    gm_limit_publish();
    assert_string_equal(gm_stats->group, name);
    assert_int_equal(gm_stats->limit_bytes, LIMIT);
    assert_int_equal(gm_limit_now(), LIMIT);

    gm_limit_uuid = read_uuid;
    for (int device = 0; device < GM_GROUP_DEVICES; device++)
        assert_true(gm_limit_take(device, 1));
    assert_false(gm_limit_take(GM_GROUP_DEVICES, 1)); /* it would not count */
    gm_group_after_fork();                            /* leaves the group */
    gm_group_remove(name, &why);
}

int main(void) { return run_all(NULL, NULL); }
