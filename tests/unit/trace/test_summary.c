/* A summary in place of single blocks: its totals, peaks and leaks are those of the blocks, its file grows by intervals
 * and active call sites only, and little is lost with a killed process. Times are those of the events, so an hour of
 * intervals takes no time. */
#include "writer_world.h"

#include "shim/trace/ring.h"
#include "shim/trace/summary.h"
#include "tools/cli/read_trace.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

#ifdef __SANITIZE_THREAD__ /* each access takes many times longer, and millions of one thread show nothing */
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
enum { SITES = 500, HELD = 8 };

/* What happens, by plain counting. */
static struct world {
    uint64_t dice, now_ns;
    bool writes;
    uint64_t held[SITES][HELD];
    unsigned held_count[SITES];
    struct {
        uint64_t allocs, bytes, frees, released, released_bytes, live, at_peak;
    } site[SITES];
    uint64_t live, peak, peak_ns, allocs, changes;
} world;

static unsigned roll(unsigned sides) {
    world.dice = world.dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(world.dice >> 33) % sides;
}

static enum gm_kind kind_of(unsigned site) { return site % 10 == 9 ? GM_KIND_HOST : GM_KIND_CACHE; }

static void put(enum gm_action action, unsigned site, uint64_t bytes) {
    const struct gm_event e = {.time_ns = world.now_ns,
                               .bytes = bytes,
                               .site = site + 1,
                               .action = (uint8_t)action,
                               .kind = (uint8_t)kind_of(site)};
    world.changes++;
    if (world.writes)
        gm_trace_sum_up(&e);
}

static void allocate(unsigned site) {
    uint64_t bytes = 1 + roll(1 << 20);
    world.held[site][world.held_count[site]++] = bytes;
    world.site[site].allocs++;
    world.site[site].bytes += bytes;
    world.site[site].live += bytes;
    world.allocs++;
    put(GM_ACT_ALLOC, site, bytes);
    if (kind_of(site) == GM_KIND_HOST || (world.live += bytes) <= world.peak)
        return;
    world.peak = world.live;
    world.peak_ns = world.now_ns;
    for (int i = 0; i < SITES; i++)
        world.site[i].at_peak = kind_of((unsigned)i) == GM_KIND_HOST ? 0 : world.site[i].live;
}

static void end_block(unsigned site, bool released) {
    uint64_t bytes = world.held[site][--world.held_count[site]];
    world.site[site].live -= bytes;
    world.site[site].frees += !released;
    world.site[site].released += released;
    world.site[site].released_bytes += released ? bytes : 0;
    world.live -= kind_of(site) == GM_KIND_HOST ? 0 : bytes;
    put(released ? GM_ACT_RELEASE : GM_ACT_FREE, site, bytes);
}

static uint64_t begin_ns;

/* Each of the sites allocates or frees `each` times in an interval. */
static void play(bool writes, unsigned intervals, unsigned sites, unsigned each, uint64_t interval_ns) {
    memset(&world, 0, sizeof world);
    world.dice = 7;
    world.writes = writes;
    world.now_ns = begin_ns;
    for (unsigned i = 0; i < intervals; i++)
        for (unsigned turn = 0; turn < each * sites; turn++) {
            unsigned site = roll(sites);
            world.now_ns += interval_ns / (each * sites);
            if (world.held_count[site] == HELD || (world.held_count[site] && roll(2)))
                end_block(site, roll(50) == 0);
            else
                allocate(site);
        }
}

static void start(uint64_t flush_ns, uint64_t interval_ns) {
    gm_summary_setup(interval_ns);
    gm_trace_setup(path, AUTO, flush_ns, "auto", "1");
}

static struct gm_analysis *analyse(uint32_t *finished, uint64_t *dropped) {
    char error[512];
    struct gm_reader *r = gm_reader_open(path, error, sizeof error);
    if (!r)
        fail_msg("%s", error);
    struct gm_analysis *a = gm_analysis_read(r, NULL);
    assert_int_equal(gm_reader_damaged(r), 0);
    assert_false(gm_reader_has_blocks(r, "a test", error, sizeof error));
    *finished = gm_reader_header(r)->finished;
    *dropped = gm_reader_header(r)->dropped;
    gm_reader_close(r);
    return a;
}

static const struct gm_site_totals *site_totals(const struct gm_analysis *a, unsigned site) {
    static const struct gm_site_totals none;
    for (size_t i = 0; i < a->site_count; i++)
        if (a->sites[i].id == site + 1)
            return &a->sites[i];
    return &none;
}

/* The file says what happened in the world. */
static void compare(void) {
    uint32_t finished;
    uint64_t dropped, leaked = 0, leaked_bytes = 0, frees = 0, released = 0, released_bytes = 0;
    struct gm_analysis *a = analyse(&finished, &dropped);
    assert_int_equal(finished, 1);
    assert_int_equal(dropped, 0);
    for (unsigned i = 0; i < SITES; i++) {
        const struct gm_site_totals *s = site_totals(a, i);
        assert_int_equal(s->allocs, world.site[i].allocs);
        assert_int_equal(s->bytes, world.site[i].bytes);
        assert_int_equal(s->released_count, world.site[i].released);
        assert_int_equal(s->released_bytes, world.site[i].released_bytes);
        assert_int_equal(s->at_peak, world.site[i].at_peak);
        assert_int_equal(s->leaked_bytes, world.site[i].live);
        assert_int_equal(s->leaked_count, world.held_count[i]);
        leaked += world.held_count[i];
        leaked_bytes += world.site[i].live;
        frees += world.site[i].frees;
        released += world.site[i].released;
        released_bytes += world.site[i].released_bytes;
    }
    assert_int_equal(a->allocs, world.allocs);
    assert_int_equal(a->frees, frees);
    assert_int_equal(a->released_count, released);
    assert_int_equal(a->released_bytes, released_bytes);
    assert_int_equal(a->peak_bytes, world.peak);
    assert_int_equal(a->by_kind[GM_KIND_CACHE].peak_bytes, world.peak);
    assert_int_equal(a->leaked_count, leaked);
    assert_int_equal(a->leaked_bytes, leaked_bytes);
    assert_true(a->peak_ns <= world.peak_ns - begin_ns && world.peak_ns - begin_ns <= a->peak_ns + 60 * SECOND);
    gm_analysis_free(a);
}

/* ---- a tenth of a day: at most a tenth of 100 MB */

static void write_long_run(void) {
    start(0, 10 * SECOND);
    play(true, 864, SITES, 4, 10 * SECOND);
    gm_trace_finish();
}

BINARY_TEST(busy_sites_of_a_day_fit_in_100_mb) {
    if (SANITIZED)
        skip();
    begin_ns = gm_now_ns();
    assert_int_equal(in_child(write_long_run), 0);
    play(false, 864, SITES, 4, 10 * SECOND);
    assert_true(world.changes == 864 * SITES * 4);
    assert_in_range(file_size(path), 1 << 20, 10000000);
    compare();
}

static void write_short_run(void) {
    start(0, SECOND);
    play(true, 30, 40, 100, SECOND);
    gm_trace_finish();
}

TEST_OF_BOTH(totals_are_those_of_the_blocks) {
    begin_ns = gm_now_ns();
    assert_int_equal(in_child(write_short_run), 0);
    play(false, 30, 40, 100, SECOND);
    compare();
}

static void write_busy_run(void) {
    start(0, SECOND);
    play(true, 30, 40, 10000, SECOND);
    gm_trace_finish();
}

TEST_OF_BOTH(the_file_does_not_grow_with_the_blocks) {
    if (SANITIZED)
        skip();
    begin_ns = gm_now_ns();
    assert_int_equal(in_child(write_short_run), 0);
    off_t few = file_size(path);
    assert_int_equal(in_child(write_busy_run), 0);
    assert_in_range(file_size(path), few, few + few / 2);
}

/* ---- the least that can be lost */

static void write_beyond_the_limit(void) {
    gm_trace_bound(1 << 20, 0, 0);
    write_long_run();
}

/* The intervals that do not fit become one, which ends with the process. */
TEST_OF_BOTH(a_size_limit_loses_no_total) {
    if (SANITIZED)
        skip();
    begin_ns = gm_now_ns();
    assert_int_equal(in_child(write_beyond_the_limit), 0);
    play(false, 864, SITES, 4, 10 * SECOND);
    assert_in_range(file_size(path), 1 << 18, 1 << 20);
    compare();
}

static void nap(unsigned ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

static void write_wait_and_kill(void) {
    start(1000000, GM_SUMMARY_LEAST);
    world.now_ns = gm_now_ns();
    world.writes = true;
    for (unsigned i = 0; i < 5; i++)
        allocate(i);
    for (uint64_t until = gm_now_ns() + 20 * SECOND;
         file_size(path) <= (strstr(path, ".csv") ? 800 : 4096) && gm_now_ns() < until;)
        nap(5);
    nap(20);
    allocate(7);
    raise(SIGKILL);
}

TEST_OF_BOTH(sigkill_loses_an_interval_at_most) {
    uint32_t finished;
    uint64_t dropped;
    memset(&world, 0, sizeof world);
    assert_int_equal(WTERMSIG(in_child(write_wait_and_kill)), SIGKILL);
    struct gm_analysis *a = analyse(&finished, &dropped);
    assert_int_equal(finished, 0);
    assert_int_equal(a->leaked_count, a->allocs);
    assert_in_range(a->allocs, 5, 6);
    gm_analysis_free(a);
}

static void write_failures(void) {
    start(0, SECOND);
    for (int i = 0; i < 100; i++) {
        const struct gm_event e = {.seq = gm_trace_sequence(),
                                   .time_ns = gm_now_ns(),
                                   .bytes = 1 << 20,
                                   .site = 1,
                                   .action = GM_ACT_ALLOC_FAIL,
                                   .call = GM_CALL_ALLOC,
                                   .result = 2};
        gm_trace_event(&e);
    }
    write_event(gm_trace_sequence(), 0x1000, 1); /* an event of a single block is no part of a summary */
    gm_trace_finish();
}

TEST_OF_BOTH(failures_of_an_interval_are_counted) {
    uint32_t finished;
    uint64_t dropped;
    assert_int_equal(in_child(write_failures), 0);
    struct gm_analysis *a = analyse(&finished, &dropped);
    assert_int_equal(a->failed_allocs, 100);
    assert_int_equal(a->by_action[GM_ACT_ALLOC_FAIL], 16);
    assert_int_equal(a->by_action[GM_ACT_ALLOC], 0);
    gm_analysis_free(a);
}

/* ---- processes and threads */

static void fork_and_write(void) {
    start(1000000, GM_SUMMARY_LEAST);
    world.now_ns = gm_now_ns();
    world.writes = true;
    for (unsigned i = 0; i < 5; i++)
        allocate(i);
    pid_t child = fork();
    if (!child) {
        gm_fork_zero();
        gm_trace_after_fork();
        end_block(2, false); /* the parent's */
        allocate(3);
        gm_trace_finish();
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    gm_trace_finish();
}

BINARY_TEST(a_child_has_a_summary_of_its_own) {
    uint32_t finished;
    uint64_t dropped;
    char command[1200];
    memset(&world, 0, sizeof world);
    assert_int_equal(in_child(fork_and_write), 0);
    assert_int_equal(files_in_folder(), 2);
    struct gm_analysis *a = analyse(&finished, &dropped);
    assert_int_equal(a->allocs, 5);
    assert_int_equal(a->leaked_count, 5);
    gm_analysis_free(a);
    snprintf(command, sizeof command, "mv %s.* %s", path, path);
    assert_int_equal(system(command), 0);
    a = analyse(&finished, &dropped);
    assert_int_equal(a->allocs, 1);
    assert_int_equal(a->frees, 0);
    gm_analysis_free(a);
}

enum { THREADS = 8, ROUNDS = SANITIZED ? 3000 : 30000 };

/* Each round leaves nothing but the last block. */
static void *thread_allocates(void *number) {
    struct gm_event e = {.bytes = 1000, .site = 1 + (uint32_t)(uintptr_t)number % 3, .kind = GM_KIND_NATIVE};
    for (int i = 0; i < ROUNDS; i++) {
        e.time_ns = gm_now_ns();
        e.action = GM_ACT_ALLOC;
        gm_trace_sum_up(&e);
        if (i + 1 == ROUNDS)
            break;
        e.action = GM_ACT_FREE;
        gm_trace_sum_up(&e);
    }
    return NULL;
}

static void eight_threads(void) {
    pthread_t threads[THREADS];
    start(1000000, GM_SUMMARY_LEAST);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, thread_allocates, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    gm_trace_finish();
}

TEST_OF_BOTH(threads_lose_nothing) {
    uint32_t finished;
    uint64_t dropped;
    assert_int_equal(in_child(eight_threads), 0);
    struct gm_analysis *a = analyse(&finished, &dropped);
    assert_int_equal(a->allocs, THREADS * ROUNDS);
    assert_int_equal(a->frees, THREADS * (ROUNDS - 1));
    assert_int_equal(a->leaked_bytes, THREADS * 1000);
    assert_int_equal(a->peak_bytes, THREADS * 1000);
    gm_analysis_free(a);
}

/* More pairs of call site and kind than the table holds count for an unknown site. */
static void write_many_sites(void) {
    start(0, SECOND);
    struct gm_event e = {.time_ns = gm_now_ns(), .bytes = 10, .kind = GM_KIND_NATIVE, .action = GM_ACT_ALLOC};
    for (e.site = 1; e.site <= 70000; e.site++)
        gm_trace_sum_up(&e);
    gm_trace_finish();
}

BINARY_TEST(further_sites_are_one) {
    uint32_t finished;
    uint64_t dropped;
    assert_int_equal(in_child(write_many_sites), 0);
    struct gm_analysis *a = analyse(&finished, &dropped);
    assert_int_equal(a->allocs, 70000);
    assert_int_equal(a->leaked_bytes, 700000);
    assert_in_range(a->site_count, 65000, 65536);
    gm_analysis_free(a);
}

int main(void) { return run_all(make_folder, remove_folder); }
