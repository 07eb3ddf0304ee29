/* The trace is stopped and the next one is started while a call runs: each block is in each trace once, and each free
 * has its allocation there (shim/trace/recorded.h). */
#include "pipeline_world.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/pipeline/phase.h"
#include "shim/trace/writer.h"
#include "tools/cli/reader.h"

static char folder[] = "/tmp/gpumem-sessions-XXXXXX";
static char files[8][64];
static unsigned file_count;

static void start(void) {
    const char *why = "";
    char *name = files[file_count++];
    snprintf(name, sizeof files[0], "%s/%u", folder, file_count);
    assert_true(gm_trace_prepare(name, 1, 0, "counting", "test"));
    if (!gm_trace_start(true, &why))
        fail_msg("%s", why);
    __atomic_store_n(&gm_trace_on, true, __ATOMIC_SEQ_CST);
    gm_pipeline_record_live();
}

static void stop(void) {
    __atomic_store_n(&gm_trace_on, false, __ATOMIC_SEQ_CST);
    gm_trace_stop();
}

static void start_anew(void) {
    stop();
    start();
}

struct content {
    unsigned live, allocs, frees, releases; /* events: blocks older than the trace, and others */
    unsigned left;                          /* blocks at the end */
};

static struct content read_back(const char *name) {
    static uint64_t alive[512];
    struct content c = {0};
    struct gm_event event;
    char error[320];
    int thread;
    struct gm_reader *reader = gm_reader_open(name, error, sizeof error);
    if (!reader)
        fail_msg("%s", error);
    while (gm_reader_next(reader, &event, &thread)) {
        bool begins = event.action == GM_ACT_ALLOC,
             ends = event.action == GM_ACT_FREE || event.action == GM_ACT_RELEASE;
        unsigned i = 0;
        while (i < c.left && alive[i] != event.address)
            i++;
        if (begins && i < c.left)
            fail_msg("%s: event %llu: allocated twice", name, (unsigned long long)event.seq);
        if (ends && i == c.left)
            fail_msg("%s: event %llu: freed but not live", name, (unsigned long long)event.seq);
        if (begins)
            alive[c.left++] = event.address;
        if (ends)
            alive[i] = alive[--c.left];
        c.live += begins && event.flags & GM_EVENT_LIVE;
        c.allocs += begins && !(event.flags & GM_EVENT_LIVE);
        c.frees += event.action == GM_ACT_FREE;
        c.releases += event.action == GM_ACT_RELEASE;
    }
    gm_reader_close(reader);
    return c;
}

static void free_behind(uint64_t address) {
    struct gm_block behind = {.address = address};
    struct gm_free_request how = {.call = GM_CALL_FREE};
    assert_int_equal(gm_resource_free(sim, &behind, &how), GM_OK);
}

/* The block is added while an old record of its address goes, and the policy is called meanwhile. */
static void replace_block(void (*meanwhile)(void)) {
    uint64_t a, b;
    assert_int_equal(get(3000, &a), GM_OK);
    free_behind(a);
    when_freed = meanwhile;
    assert_int_equal(get(2999, &b), GM_OK);
    assert_true(a == b);
    assert_null(when_freed);
    assert_int_equal(give(b), GM_OK);
}

TEST(test_another_trace_begins_during_an_allocation) {
    begin_test("", build("sim"));
    start();
    replace_block(start_anew);
    stop();
    struct content first = read_back(files[file_count - 2]), next = read_back(files[file_count - 1]);
    assert_int_equal(first.allocs, 1);
    assert_int_equal(next.live + next.allocs, 1);
    assert_int_equal(next.frees, 1);
    assert_int_equal(next.left, 0);
}

TEST(test_a_trace_begins_during_an_allocation) {
    begin_test("", build("sim"));
    replace_block(start);
    stop();
    struct content trace = read_back(files[file_count - 1]);
    assert_int_equal(trace.live + trace.allocs, 1);
    assert_int_equal(trace.frees, 1);
}

TEST(test_a_trace_ends_during_an_allocation) {
    begin_test("", build("sim"));
    start();
    replace_block(stop);
    struct content trace = read_back(files[file_count - 1]);
    assert_int_equal(trace.allocs, 1);
    assert_int_equal(trace.frees + trace.releases, 0);
}

/* The blocks are taken one by one, so the trace holds those that are left. */
TEST(test_a_trace_begins_while_a_context_ends) {
    uint64_t a;
    begin_test("", build("sim"));
    for (int i = 0; i < 200; i++)
        assert_int_equal(get(512, &a), GM_OK);
    when_freed = start;
    gm_pipeline_context_destroyed(7);
    stop();
    struct content trace = read_back(files[file_count - 1]);
    assert_int_equal(trace.live, 199);
    assert_int_equal(trace.releases, 199);
}

static void *give_in_thread(void *arg) { return give((uint64_t)(uintptr_t)arg) == GM_OK ? arg : NULL; }

/* A free that stays inside the driver for long. */
TEST(test_another_trace_begins_during_a_free) {
    pthread_t thread;
    uint64_t a;
    void *done;
    memset(&delay, 0, sizeof delay);
    delaying.upstream = build("sim");
    delaying.properties = sim->properties;
    delaying.kind = sim->kind;
    begin_test("", &delaying);
    start();
    assert_int_equal(get(7000, &a), GM_OK);
    delay.hold_free = 1;
    assert_int_equal(pthread_create(&thread, NULL, give_in_thread, (void *)(uintptr_t)a), 0);
    while (!__atomic_load_n(&delay.held, __ATOMIC_ACQUIRE))
        sched_yield();
    assert_false(gm_pipeline_wrote_frees());
    start_anew();
    __atomic_store_n(&delay.go_on, 1, __ATOMIC_RELEASE);
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_true(gm_pipeline_wrote_frees());
    stop();
    struct content first = read_back(files[file_count - 2]), next = read_back(files[file_count - 1]);
    assert_int_equal(first.allocs, 1);
    assert_int_equal(first.left, 1); /* the free ended after the trace */
    assert_int_equal(next.live + next.allocs + next.frees, 0);
}

/* A thread names phases, with a text that another thread stores, while traces begin. */
static void *name_phases(void *stop) {
    while (!__atomic_load_n((int *)stop, __ATOMIC_ACQUIRE))
        gm_phase_note(GM_ACT_MARK, 0, 1);
    return NULL;
}

TEST(test_traces_begin_while_phases_are_named) {
    pthread_t thread;
    int stopped = 0;
    begin_test("", build("sim"));
    start();
    assert_int_equal(pthread_create(&thread, NULL, name_phases, &stopped), 0);
    usleep(2000);
    assert_int_equal(gm_phase_text("epoch", 5), 1);
    for (int i = 0; i < 200; i++) {
        gm_phase_again();
        usleep(10);
    }
    __atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    stop();
}

static int begin(void **state) {
    gm_clock_init();
    return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state) {
    for (unsigned i = 0; i < file_count; i++)
        unlink(files[i]);
    return rmdir(folder);
}

int main(void) { return run_all(begin, end); }
