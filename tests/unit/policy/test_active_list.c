/* Tests of the active list against sequences worked out by hand from hybrid-allocation-he, III.D, and against a
 * model that computes every list from the history of its calls. */
#include "policy/active_list.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#define F GM_REASON_LIST_FILLING
#define S GM_REASON_LIST_STEADY
#define G GM_REASON_LIST_GROWING

/* Like the library: pages of the kernel; only used pages take memory. */
static struct {
    void *memory;
    size_t bytes;
} reserved[2];
static unsigned reserved_count;

static void *reserve(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    reserved[reserved_count].memory = memory;
    reserved[reserved_count++].bytes = bytes;
    return memory;
}

static void release(void) {
    while (reserved_count) {
        reserved_count--;
        munmap(reserved[reserved_count].memory, reserved[reserved_count].bytes);
    }
}

static void start(unsigned length, unsigned range) {
    struct gm_policy_setup setup = {
        .list_length = length, .list_range = range, .managed = GM_KIND_MANAGED, .reserve = reserve};
    release();
    assert_int_equal(gm_active_list_setup(&setup), GM_OK);
}

static struct gm_request request_of(int device, size_t size) {
    return (struct gm_request){.call = GM_CALL_ALLOC, .device = device, .size = size};
}

static enum gm_reason take(size_t size) {
    struct gm_request request = request_of(0, size);
    enum gm_reason reason = GM_REASON_NONE;
    enum gm_kind kind = gm_active_list_allocated(&request, &reason);
    assert_int_equal(kind, reason == S ? GM_KIND_ASYNC : GM_KIND_MANAGED);
    return reason;
}

static void give(size_t size) {
    struct gm_request request = request_of(0, size);
    gm_active_list_freed(&request);
}

static void fail_last(size_t size) {
    struct gm_request request = request_of(0, size);
    gm_active_list_failed(&request);
}

static void expect_list(size_t size, uint32_t live, unsigned count, const uint32_t *entries) {
    uint32_t got[GM_LIST_LENGTH_MAX], got_live;
    assert_int_equal(gm_active_list_read(0, size, got, &got_live), count);
    assert_int_equal(got_live, live);
    assert_memory_equal(got, entries, count * sizeof *got);
}

TEST(steady_loop) {
    start(10, 5);
    for (int i = 1; i <= 40; i++) {
        assert_int_equal(take(4096), i < 10 ? F : S);
        give(4096);
    }
    expect_list(4096, 0, 10, (uint32_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST(growing) {
    start(10, 5);
    for (int i = 1; i <= 40; i++)
        assert_int_equal(take(4096), i < 10 ? F : G);
    expect_list(4096, 40, 10, (uint32_t[]){31, 32, 33, 34, 35, 36, 37, 38, 39, 40});
}

/* Nine of ten blocks stay, then a loop follows: the list becomes steady when the growth has left it. */
TEST(growth_then_loop) {
    start(10, 5);
    for (int i = 1; i <= 10; i++)
        take(64);
    give(64);
    /* live 10 at each push; list k pushes on: {1 + k .. 10, 10 x k}: range 9 - k */
    for (int k = 1; k <= 12; k++) {
        assert_int_equal(take(64), 9 - k < 5 ? S : G);
        give(64);
    }
}

TEST(mixed_by_hand) {
    static const struct {
        unsigned frees_before;
        enum gm_reason reason;
        unsigned count;
        uint32_t entries[4];
    } steps[] = {
        {0, F, 1, {1}},          {0, F, 2, {1, 2}},       {1, F, 3, {1, 2, 2}},    {1, S, 4, {1, 2, 2, 2}},
        {0, S, 4, {2, 2, 2, 3}}, {0, G, 4, {2, 2, 3, 4}}, {3, G, 4, {2, 3, 4, 2}}, {1, G, 4, {3, 4, 2, 2}},
        {1, G, 4, {4, 2, 2, 2}}, {1, S, 4, {2, 2, 2, 2}}, {2, S, 4, {2, 2, 2, 1}}, {0, S, 4, {2, 2, 1, 2}},
        {0, G, 4, {2, 1, 2, 3}},
    };
    start(4, 2);
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        for (unsigned n = 0; n < steps[i].frees_before; n++)
            give(512);
        assert_int_equal(take(512), steps[i].reason);
        expect_list(512, steps[i].entries[steps[i].count - 1], steps[i].count, steps[i].entries);
    }
}

TEST(sizes_and_devices_are_apart) {
    enum gm_reason reason;
    start(3, 2);
    for (int i = 1; i <= 5; i++) {
        struct gm_request other = request_of(1, 100);
        assert_int_equal(take(100), i < 3 ? F : G); /* grows on device 0 */
        gm_active_list_allocated(&other, &reason);  /* allocated and freed on device 1 */
        assert_int_equal(reason, i < 3 ? F : S);
        gm_active_list_freed(&other);
        assert_int_equal(take(101), i < 3 ? F : S);
        give(101);
    }
}

/* Growth keeps the range at L - 1, a loop keeps it at 0. */
TEST(all_lengths_and_ranges) {
    for (unsigned length = 1; length <= GM_LIST_LENGTH_MAX; length++) {
        const unsigned ranges[] = {0, 1, 2, length - 1, length, length + 1};
        for (unsigned r = 0; r < sizeof ranges / sizeof *ranges; r++) {
            start(length, ranges[r]);
            for (unsigned i = 1; i <= length + 5; i++) {
                assert_int_equal(take(8), i < length ? F : length - 1 < ranges[r] ? S : G);
                assert_int_equal(take(16), i < length ? F : 0 < ranges[r] ? S : G);
                give(16);
            }
        }
    }
}

TEST(frees_never_go_below_zero) {
    start(2, 1);
    give(5); /* never allocated */
    take(5);
    give(5);
    give(5);
    give(5);
    take(5);
    expect_list(5, 1, 2, (uint32_t[]){1, 1});
}

TEST(undo_at_each_position) {
    for (unsigned length = 1; length <= 12; length++) {
        start(length, 3);
        for (unsigned n = 0; n < 3 * length + GM_LIST_HISTORY + 5; n++) {
            uint32_t before[GM_LIST_LENGTH_MAX], live;
            unsigned count = gm_active_list_read(0, 7, before, &live);
            take(7);
            fail_last(7);
            expect_list(7, live, count, before);
            take(7);
            fail_last(7);
            expect_list(7, live, count, before);
            take(7);
            if (n % 3)
                give(7);
        }
    }
}

/* With a full list of 3 and X = 2, the answer after a failure is the one without it. */
TEST(undo_keeps_answers) {
    start(3, 2);
    take(9), give(9);
    take(9), give(9);
    assert_int_equal(take(9), S);
    assert_int_equal(take(9), S); /* 1 1 2 */
    assert_int_equal(take(9), G); /* 1 2 3 */
    fail_last(9);
    expect_list(9, 2, 3, (uint32_t[]){1, 1, 2});
    give(9);
    assert_int_equal(take(9), S); /* 1 2 2 */
    expect_list(9, 2, 3, (uint32_t[]){1, 2, 2});
}

TEST(map_is_bounded) {
    struct gm_request beyond = request_of(0, GM_LIST_SIZES + 1);
    enum gm_reason reason;
    start(2, 1);
    for (size_t size = 1; size <= GM_LIST_SIZES; size++)
        assert_int_equal(take(size), F);
    assert_int_equal(gm_active_list_allocated(&beyond, &reason), GM_KIND_MANAGED);
    assert_int_equal(reason, GM_REASON_LIST_MAP_FULL);
    gm_active_list_failed(&beyond);
    gm_active_list_freed(&beyond);
    give(1);
    assert_int_equal(take(1), S);
    expect_list(GM_LIST_SIZES, 1, 1, (uint32_t[]){1});
}

static void *refuse(size_t bytes) { return NULL; }

TEST(setup_errors) {
    struct gm_policy_setup setup = {.list_length = 65, .list_range = 5, .managed = GM_KIND_MANAGED, .reserve = reserve};
    assert_int_equal(gm_active_list_setup(&setup), GM_INVALID_VALUE);
    assert_string_equal(setup.error, "list length 65 is not between 1 and 64");
    setup.list_length = 0;
    assert_int_equal(gm_active_list_setup(&setup), GM_INVALID_VALUE);
    assert_string_equal(setup.error, "list length 0 is not between 1 and 64");
    setup.list_length = 10;
    setup.reserve = refuse;
    assert_int_equal(gm_active_list_setup(&setup), GM_OUT_OF_MEMORY);
    assert_string_not_equal(setup.error, "");
}

/* ---- several threads with calls in flight, against the model */

enum { WORKERS = 3, HISTORY = 4000, SIZES = 2 };

enum command { IDLE, ALLOCATE, FAIL, STOP };

struct worker {
    pthread_t thread;
    enum command command;
    size_t size;
    enum gm_reason reason;
    int in_flight; /* index in the model's history, -1 none */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void *work(void *arg) {
    struct worker *self = arg;
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (self->command == IDLE)
            pthread_cond_wait(&changed, &mutex);
        enum command command = self->command;
        if (command == ALLOCATE)
            self->reason = take(self->size);
        else if (command == FAIL)
            fail_last(self->size);
        self->command = IDLE;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
        if (command == STOP)
            return NULL;
    }
}

static void order(struct worker *worker, enum command command) {
    pthread_mutex_lock(&mutex);
    worker->command = command;
    pthread_cond_broadcast(&changed);
    while (worker->command != IDLE)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

/* The history: allocations (void after a failure) and frees, in order. */
static struct {
    size_t size;
    bool free;
    bool void_;
} history[HISTORY];
static int happened;

static unsigned model(size_t size, unsigned length, uint32_t *entries, uint32_t *live) {
    unsigned count = 0;
    *live = 0;
    for (int i = 0; i < happened; i++) {
        if (history[i].size != size || history[i].void_)
            continue;
        if (history[i].free) {
            *live -= 1;
            continue;
        }
        *live += 1;
        if (count == length)
            memmove(entries, entries + 1, --count * sizeof *entries);
        entries[count++] = *live;
    }
    return count;
}

static enum gm_reason model_answer(const uint32_t *entries, unsigned count, unsigned length, unsigned range) {
    uint32_t least = UINT32_MAX, most = 0;
    for (unsigned i = 0; i < count; i++) {
        least = entries[i] < least ? entries[i] : least;
        most = entries[i] > most ? entries[i] : most;
    }
    return count < length ? F : most - least < range ? S : G;
}

static unsigned dice(unsigned sides) {
    static uint32_t x = 2463534242u;
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    return x % sides;
}

static void one_step(struct worker *workers, uint32_t *free_able, unsigned length, unsigned range) {
    struct worker *worker = &workers[dice(WORKERS)];
    uint32_t entries[GM_LIST_LENGTH_MAX], live;
    size_t size = worker->size;
    if (worker->in_flight < 0 && dice(3) == 0) {
        size = dice(SIZES) + 1;
        if (!free_able[size])
            return;
        free_able[size]--;
        give(size);
        history[happened].size = size;
        history[happened++].free = true;
    } else if (worker->in_flight < 0) {
        size = worker->size = dice(SIZES) + 1;
        order(worker, ALLOCATE);
        history[happened].size = size;
        worker->in_flight = happened++;
        unsigned count = model(size, length, entries, &live);
        assert_int_equal(worker->reason, model_answer(entries, count, length, range));
    } else {
        if (dice(2)) {
            free_able[size]++;
        } else {
            order(worker, FAIL);
            history[worker->in_flight].void_ = true;
        }
        worker->in_flight = -1;
    }
    unsigned count = model(size, length, entries, &live);
    expect_list(size, live, count, entries);
}

TEST(calls_in_flight) {
    const unsigned lengths[] = {1, 2, 5, 10, 64};
    struct worker workers[WORKERS];
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        uint32_t free_able[SIZES + 1] = {0};
        start(lengths[l], 3);
        memset(history, 0, sizeof history);
        happened = 0;
        for (int i = 0; i < WORKERS; i++) {
            workers[i] = (struct worker){.in_flight = -1};
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (int step = 0; step < 600; step++)
            one_step(workers, free_able, lengths[l], 3);
        for (int i = 0; i < WORKERS; i++) {
            order(&workers[i], STOP);
            pthread_join(workers[i].thread, NULL);
        }
    }
}

/* ---- many threads at once: the live count at the end is exact */

static void *churn(void *arg) {
    unsigned self = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < 3000; i++) {
        struct gm_request request = request_of(0, 1 + i % 5);
        enum gm_reason reason;
        gm_active_list_allocated(&request, &reason);
        if ((i + self) % 7 == 0)
            gm_active_list_failed(&request);
        else if (i % 100)
            gm_active_list_freed(&request);
    }
    return NULL;
}

/* ---- fork: a lock that another thread holds does not block the child */

#ifndef __SANITIZE_THREAD__
TEST(locks_after_fork) {
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    start(10, 5);
    for (unsigned t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, churn, (void *)(uintptr_t)t), 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (!child) {
            gm_active_list_after_fork();
            alarm(20);
            for (size_t size = 1; size <= 6; size++) {
                take(size);
                fail_last(size);
            }
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
}
#endif

TEST(many_threads) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    uint32_t expected[6] = {0};
    start(10, 5);
    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned i = 0; i < 3000; i++)
            expected[1 + i % 5] += (i + t) % 7 != 0 && i % 100 == 0;
        assert_int_equal(pthread_create(&threads[t], NULL, churn, (void *)(uintptr_t)t), 0);
    }
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (size_t size = 1; size <= 5; size++) {
        uint32_t entries[GM_LIST_LENGTH_MAX], live;
        assert_int_equal(gm_active_list_read(0, size, entries, &live), 10);
        assert_int_equal(live, expected[size]);
        for (int i = 0; i < 10; i++)
            assert_in_range(entries[i], 1, expected[size] + THREADS);
    }
}

int main(void) {
    int failed = run_all(NULL, NULL);
    release();
    return failed;
}
