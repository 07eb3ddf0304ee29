/* Threads that build, wrap, report and first use resources at the same moment, and a fork in the middle of their calls.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "public.h"
#include "shim/base/options.h"
#include "stacks.h"

enum { THREADS = 2 };

/* Calls `work` in THREADS threads at once. */
static void in_threads(void *(*work)(void *), void *arg) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, arg), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

/* ---- the makers of managed memory enter a list when they are first built, so this test is the first */

static void *build_managed(void *barrier) {
    struct gpumem_resource *resource;
    pthread_barrier_wait(barrier);
    if (gpumem_resource_create("fallback(managed,managed-pool)", &resource))
        return "create";
    return gpumem_resource_destroy(resource) ? "destroy" : NULL;
}

TEST(test_first_managed_resources) {
    pthread_barrier_t barrier;
    struct world world;
    struct gpumem_resource *resource = NULL;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    in_threads(build_managed, &barrier);
    world_open(&world);
    alarm(60); /* a maker that is twice in the list makes it endless */
    resource = create("managed");
    must_put(resource, must_get(resource, BYTES), BYTES);
    OK(gpumem_resource_destroy(resource));
    alarm(0);
    world_close(&world, build("managed"));
    pthread_barrier_destroy(&barrier);
}

/* ---- what "host-numa" learns of a device at the first request */

struct first_use {
    pthread_barrier_t barrier;
    struct gm_resource *resource;
    const struct world *world;
};

static bool say_much(int node, struct gm_hostmem *memory) {
    *memory = (struct gm_hostmem){.available = (uint64_t)1 << 40, .total = (uint64_t)1 << 40};
    return true;
}

static void *use_first(void *arg) {
    struct first_use *use = arg;
    struct gm_request request = plain_request(&use->world->origin, BYTES);
    struct gm_free_request how = plain_free();
    struct gm_block block;
    use->world->origin.enter(&use->world->origin);
    pthread_barrier_wait(&use->barrier);
    if (gm_resource_alloc(use->resource, &request, NULL, &block))
        return "alloc";
    return gm_resource_free(use->resource, &block, &how) ? "free" : NULL;
}

TEST(test_first_use_of_a_device) {
    struct world world;
    struct first_use use = {.resource = build("host-numa"), .world = &world};
    world_open(&world);
    assert_int_equal(pthread_barrier_init(&use.barrier, NULL, THREADS), 0);
    for (int round = 0; round < 300; round++) {
        gm_host_numa_set_reader(say_much); /* forgets what is known of the devices */
        in_threads(use_first, &use);
    }
    gm_host_numa_set_reader(NULL);
    pthread_barrier_destroy(&use.barrier);
    world_close(&world, use.resource);
}

/* ---- a stack is watched once, and only while none wraps it */

static void *wrap_and_unwrap(void *given) {
    for (int i = 0; i < 20000; i++) {
        struct gpumem_resource *inner = given, *outer;
        if (gpumem_resource_compose("log($1)", &inner, 1, &outer))
            return "compose";
        if (gpumem_resource_destroy(outer))
            return "destroy";
    }
    return NULL;
}

TEST(test_wrapped_by_threads) {
    enum { MOST = 1024 };
    static struct gpumem_resource *all[MOST];
    struct gpumem_resource *given = create("new-delete"), *further;
    in_threads(wrap_and_unwrap, given);
    OK(gpumem_resource_destroy(given));
    for (int i = 0; i < MOST; i++) /* so many can be watched, if none was left */
        all[i] = create("new-delete");
    assert_int_equal(gpumem_resource_create("new-delete", &further), GPUMEM_OUT_OF_MEMORY);
    for (int i = 0; i < MOST; i++)
        OK(gpumem_resource_destroy(all[i]));
}

/* ---- reports name call stacks */

static void *track_and_report(void *arg) {
    struct gpumem_resource *tracked;
    void *memory;
    for (int i = 0; i < 20; i++) {
        if (gpumem_resource_create("track(new-delete)", &tracked) ||
            gpumem_resource_allocate(tracked, BYTES, 16, &memory) || !gpumem_resource_destroy(tracked) ||
            gpumem_resource_deallocate(tracked, memory, BYTES, 16) || gpumem_resource_destroy(tracked))
            return "track";
    }
    return NULL;
}

TEST(test_reports_of_threads) {
    gm_log_set(GM_LOG_ERROR);
    in_threads(track_and_report, NULL);
    gm_log_set(GM_LOG_WARN);
}

/* ---- fork: locks that other threads hold at that moment do not block the child */

static bool stop;

static bool get_and_put(struct gm_resource *stack) {
    const struct origin none = {.device = -1};
    struct gm_request request = plain_request(&none, 4096);
    struct gm_free_request how = plain_free();
    struct gm_block block = {0};
    return !gm_resource_alloc(stack, &request, NULL, &block) && !gm_resource_free(stack, &block, &how);
}

static void *go_on(void *stack) {
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
        if (!get_and_put(stack))
            return "call";
    return NULL;
}

TEST(test_fork_amid_calls) {
    struct gm_resource *stack = build("limit(1GiB,statistics(new-delete))");
    pthread_t threads[THREADS];
#if defined(__SANITIZE_THREAD__) /* ThreadSanitizer takes the parent's threads for threads of the child */
    skip();
#endif
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, go_on, stack), 0);
    for (int round = 0; round < 60; round++) {
        pid_t child = fork();
        int status = -1;
        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGALRM, SIG_DFL);
            alarm(10);
            gm_fork_zero();
            GM_TELL(stack, after_fork);
            _exit(get_and_put(stack) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(void) {
    gm_clock_init();
    gm_options_load(environ);
    return run_all(NULL, NULL);
}
