/* Tests of call sites: the same chain has the same id, another chain has another id, on any kind of stack. */
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/test.h"

#include "shim/base/base.h"
#include "shim/sites/site.h"
#include "shim/trace/writer.h"
#include "tools/cli/reader.h"

#ifndef EXTRA_FRAMES
#define EXTRA_FRAMES 40
#endif

#define APART __attribute__((noinline, noclone, optimize("no-optimize-sibling-calls")))

static volatile int twice = 2; /* unknown to the compiler, which would unroll the loop and create two call sites */
static char trace_file[] = "/tmp/gpumem-site-XXXXXX";

/* A function like the driver hooks: not inlined, looks up its own caller. */
APART uint32_t hook(void);
APART uint32_t hook(void) {
    uint32_t site = GM_SITE_HERE();
    __asm__ volatile("" ::: "memory");
    return site;
}

APART uint32_t first_place(void);
APART uint32_t first_place(void) {
    uint32_t site = hook();
    __asm__ volatile("" ::: "memory");
    return site;
}

APART uint32_t second_place(void);
APART uint32_t second_place(void) {
    uint32_t site = hook();
    __asm__ volatile("" ::: "memory");
    return site;
}

/* The size of the frame depends on the argument, so the return addresses lie at different offsets. */
APART uint32_t with_frame(unsigned bytes);
APART uint32_t with_frame(unsigned bytes) {
    volatile char *room = __builtin_alloca(bytes + 16);
    room[bytes] = 1;
    uint32_t site = hook();
    return room[bytes] ? site : 0;
}

APART uint32_t down(unsigned depth);
APART uint32_t down(unsigned depth) {
    uint32_t site = depth ? down(depth - 1) : hook();
    __asm__ volatile("" ::: "memory");
    return site;
}

enum { THREADS = 8 };

static void *in_thread(void *arg) {
    uint32_t *out = arg;
    for (int i = 0; i < 500; i++) {
        uint32_t sites[2] = {first_place(), second_place()};
        if (i && (sites[0] != out[0] || sites[1] != out[1]))
            return NULL;
        memcpy(out, sites, sizeof sites);
    }
    return arg;
}

/* First: it opens the trace on that stack. */
TEST(test_a_thread_with_the_smallest_stack) {
    pthread_attr_t attributes;
    pthread_t thread;
    uint32_t sites[2] = {0};
    void *done;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN + 4096), 0);
    assert_int_equal(pthread_create(&thread, &attributes, in_thread, sites), 0);
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_int_not_equal(sites[0], 0);
    pthread_attr_destroy(&attributes);
}

TEST(test_one_place_is_one_site) {
    uint32_t first[4], second[4];
    for (int i = 0; i < 4; i++) {
        first[i] = first_place();
        second[i] = second_place();
    }
    assert_int_not_equal(first[0], 0);
    assert_int_not_equal(second[0], 0);
    assert_int_not_equal(first[0], second[0]);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(first[i], first[0]);
        assert_int_equal(second[i], second[0]);
    }
}

TEST(test_two_lines_of_one_function_differ) {
    uint32_t a = first_place();
    uint32_t b = first_place(); /* another return address one frame out */
    assert_int_not_equal(a, b);
}

TEST(test_frames_of_changing_size) {
    uint32_t sites[50];
    for (int round = 0; round < 50; round++)
        sites[round] = with_frame((unsigned)(round * 7 % 25) * 48); /* one line: one chain, 25 layouts */
    for (int round = 1; round < 50; round++)
        assert_int_equal(sites[round], sites[0]);
}

TEST(test_recursion) {
    uint32_t by_depth[30][2];
    for (int again = 0; again < twice; again++)
        for (unsigned depth = 0; depth < 30; depth++)
            by_depth[depth][again] = down(depth);
    for (unsigned depth = 0; depth < 30; depth++) {
        assert_int_not_equal(by_depth[depth][0], 0);
        assert_int_equal(by_depth[depth][0], by_depth[depth][1]);
        for (unsigned other = 0; other < depth; other++) /* stored deep enough to differ */
            assert_int_not_equal(by_depth[depth][0], by_depth[other][0]);
    }
}

TEST(test_deeper_than_what_is_kept) {
    static uint32_t sites[3];
    static const unsigned depths[] = {100, 2000, 2000};
    for (int i = 0; i < 3; i++)
        sites[i] = down(depths[i]);
    assert_int_not_equal(sites[0], 0);
    assert_int_equal(sites[1], sites[2]);
    assert_int_equal(sites[0], sites[1]); /* cut within the same recursion: they are equal, which is acceptable */
}

/* ---- threads */

TEST(test_threads_agree) {
    pthread_t threads[THREADS];
    uint32_t sites[THREADS][2];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, in_thread, sites[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *done;
        pthread_join(threads[i], &done);
        assert_non_null(done);
        assert_int_equal(sites[i][0], sites[0][0]);
        assert_int_equal(sites[i][1], sites[0][1]);
    }
    assert_int_not_equal(sites[0][0], sites[0][1]);
}

/* A site is described while another thread adds sites. */
static void *describe_again_and_again(void *arg) {
    uint32_t site = first_place();
    struct gm_site_location location;
    uintptr_t frame;
    for (int i = 0; i < 2000; i++)
        if (gm_site_python(site, &frame, 1) || (i % 100 == 0 && !gm_site_location(site, &location)))
            return NULL;
    return arg;
}

TEST(test_described_amid_new_sites) {
    pthread_t thread;
    void *done;
    assert_int_equal(pthread_create(&thread, NULL, describe_again_and_again, &done), 0);
    for (unsigned depth = 30; depth < 60; depth++)
        assert_int_not_equal(down(depth), 0);
    pthread_join(thread, &done);
    assert_non_null(done);
}

/* ---- stacks of other shapes */

static ucontext_t main_context, coroutine;
static uint32_t coroutine_sites[6];

static void coroutine_body(void) {
    for (int i = 0; i < 3; i++) {
        coroutine_sites[2 * i] = first_place();
        coroutine_sites[2 * i + 1] = second_place();
        swapcontext(&coroutine, &main_context);
    }
}

/* The stack lies between inaccessible pages: a read beyond it would end the test. */
TEST(test_a_coroutine_on_its_own_stack) {
    size_t page = 4096, bytes = 64 * 1024;
    char *area = mmap(NULL, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(area != MAP_FAILED);
    assert_int_equal(mprotect(area + page, bytes, PROT_READ | PROT_WRITE), 0);
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = area + page;
    coroutine.uc_stack.ss_size = bytes;
    coroutine.uc_link = &main_context;
    makecontext(&coroutine, coroutine_body, 0);
    for (int i = 0; i < 3; i++)
        swapcontext(&main_context, &coroutine);
    for (int i = 0; i < 6; i++)
        assert_int_not_equal(coroutine_sites[i], 0);
    assert_int_not_equal(coroutine_sites[0], coroutine_sites[1]);
    swapcontext(&main_context, &coroutine); /* its end */
    munmap(area, bytes + 2 * page);
}

/* A frame at the top of a thread's stack: known layouts must not be read beyond the stack's end. */
static void *near_the_top(void *arg) {
    *(uint32_t *)arg = hook();
    return arg;
}

TEST(test_near_the_top_of_a_stack) {
    size_t page = 4096, bytes = 4 << 20; /* a sanitizer needs much stack */
    char *area = mmap(NULL, bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    uint32_t site = 0;
    assert_true(area != MAP_FAILED);
    assert_int_equal(mprotect(area, bytes, PROT_READ | PROT_WRITE), 0);
    for (int i = 0; i < 40; i++)
        assert_int_not_equal(down((unsigned)i), 0);
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, area, bytes), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&thread, &attributes, near_the_top, &site), 0);
        pthread_join(thread, NULL);
        assert_int_not_equal(site, 0);
    }
    pthread_attr_destroy(&attributes);
    munmap(area, bytes + page);
}

/* ---- a forked child numbers its chains from 1, in its own trace */

TEST(test_fork) {
    uint32_t before = first_place();
    pid_t child = fork();
    int status = -1;
    assert_true(child >= 0 && before);
    if (child == 0) {
        alarm(20);
        gm_fork_zero();
        gm_trace_after_fork();
        gm_site_after_fork();
        uint32_t sites[2][2];
        for (int i = 0; i < twice; i++) {
            sites[i][0] = first_place();
            sites[i][1] = second_place();
        }
        bool right =
            sites[0][0] && sites[0][0] != sites[0][1] && sites[0][0] == sites[1][0] && sites[0][1] == sites[1][1];
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- sites in the trace */

static uint32_t told_site;

static void write_one(uint32_t site) {
    struct gm_event event = {
        .seq = gm_trace_sequence(), .time_ns = gm_now_ns(), .bytes = 1, .site = site, .action = GM_ACT_MARK};
    gm_trace_event(&event);
}

TEST(test_the_trace_names_frames_and_modules) {
    char error[320];
    struct gm_site site;
    struct gm_module module;
    told_site = down(12);
    write_one(told_site);
    gm_trace_finish();
    struct gm_reader *reader = gm_reader_open(trace_file, error, sizeof error);
    struct gm_event event;
    int thread;
    if (!reader)
        fail_msg("%s", error);
    while (gm_reader_next(reader, &event, &thread))
        ;
    assert_true(gm_reader_site(reader, told_site, &site));
    assert_true(site.frames >= 13); /* GPUMEM_STACKS stores the whole recursion */
    assert_int_equal(site.outside, 0);
    for (unsigned i = 0; i < 13; i++) {
        assert_true(gm_reader_module(reader, site.addresses[i], &module));
        assert_non_null(strstr(module.path, "test_site"));
        assert_true(site.addresses[i] >= module.start && site.addresses[i] < module.limit);
    }
    for (unsigned i = 2; i < 12; i++)
        assert_true(site.addresses[i] == site.addresses[1]); /* the recursive call */
    assert_int_equal(gm_reader_damaged(reader), 0);
    gm_reader_close(reader);
}

static int begin(void **state) {
    int fd = mkstemp(trace_file);
    if (fd < 0)
        return -1;
    close(fd);
    unlink(trace_file);
    gm_clock_init();
    gm_trace_setup(trace_file, 1, 0, "none", "test");
    gm_site_setup(EXTRA_FRAMES, true);
    return 0;
}

static int end(void **state) {
    char pattern[300];
    unlink(trace_file);
    gm_format(pattern, sizeof pattern, "rm -f %s.*", trace_file);
    return system(pattern);
}

int main(void) { return run_all(begin, end); }
