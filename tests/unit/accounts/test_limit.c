/* The start of GPUMEM_LIMIT (shim/accounts/limit.h): a query of NVML and the first call of the driver may both make it.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/test.h"

#include "shim/base/events.h"
#include "shim/accounts/group.h"
#include "shim/accounts/limit.h"
#include "shim/base/options.h"
#include "shim/accounts/stats.h"

enum { THREADS = 8, LIMIT = 1000 };

static char name[GM_GROUP_NAME];
static pthread_barrier_t all_there;

static uint64_t total_of(int device) { return device ? 4000 : 1000; }

/* Each device has its own part. */
static void hold_parts(void) {
    uint64_t half = GM_MEMORY_PART | GM_MEMORY_WHOLE / 2;
    size_t free_bytes = 900, total = 1000;
    gm_events.device_total = total_of;
    gm_limit_bytes = half;
    assert_int_equal(gm_limit_now(0), 500);
    assert_int_equal(gm_limit_now(1), 2000);
    assert_true(gm_limit_take(0, 400));
    assert_false(gm_limit_take(0, 101));
    assert_true(gm_limit_take(1, 2000));
    assert_false(gm_limit_take(1, 1));
    gm_limit_view(0, &free_bytes, &total);
    assert_true(total == 500 && free_bytes == 100);
}

TEST(a_part_of_each_device) {
    const char *why;
    struct gm_group *group;
    hold_parts();
    uint64_t half = GM_MEMORY_PART | GM_MEMORY_WHOLE / 2;
    snprintf(name, sizeof name, "test-part-%d", (int)getpid());
    assert_non_null(group = gm_group_join(name, &half, &why));
    assert_true(gm_group_take(0, 500, 1000));
    assert_false(gm_group_take(0, 1, 1000));
    assert_true(gm_group_take(1, 501, 4000));
    group->limit = GM_MEMORY_PART | GM_MEMORY_WHOLE << 40; /* what no member writes */
    assert_false(gm_group_take(0, 501, 1000));
    gm_group_after_fork();
    gm_group_remove(name, &why);
}

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
    assert_int_equal(gm_limit_now(0), LIMIT);

    gm_events.device_uuid = read_uuid;
    for (int device = 0; device < GM_GROUP_DEVICES; device++)
        assert_true(gm_limit_take(device, 1));
    assert_false(gm_limit_take(GM_GROUP_DEVICES, 1)); /* it would not count */
    gm_group_after_fork();                            /* leaves the group */
    gm_group_remove(name, &why);
}

int main(void) { return run_all(NULL, NULL); }
