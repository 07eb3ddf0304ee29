/* Many threads with one residency: each has a stream and results of its own, the inputs are shared, and the budget
 * holds a part of all. One more thread changes nothing and synchronises, another reads statistics. */
#include "shim/driver/driver.h"
#include "desk.h"
#include "shim/residency/parts.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 150, INPUTS = 8, OWN = 3, WORDS = 4096, BYTES = 4 * WORDS };

static struct gpumem_residency *residency;
static uint32_t *memory;
static uint64_t inputs[INPUTS];
static int running;

struct worker {
    unsigned number;
    CUstream stream;
    uint64_t results[OWN];
    uint32_t expected[OWN];
    unsigned refused; /* acquires for which others left no memory */
};

/* All other copies may be in use for a moment. */
static void acquire(struct worker *w, struct gpumem_use *uses, size_t count) {
    enum gpumem_status status;
    while ((status = gpumem_residency_acquire(residency, uses, count, w->stream)) == GPUMEM_OUT_OF_MEMORY)
        w->refused++;
    OK(status);
}

static void *work(void *argument) {
    struct worker *w = argument;
    CU(cuCtxPushCurrent_v2(bench.context));
    for (unsigned round = 0; round < ROUNDS; round++) {
        const unsigned own = round % OWN, input = (round * 7 + w->number) % INPUTS;
        const bool drops = round % 5 == 4, changes = round >= OWN && round % 2 && w->expected[own];
        struct gpumem_use uses[] = {{inputs[input], GPUMEM_READ, NULL},
                                    {w->results[own], changes ? GPUMEM_READ_WRITE : GPUMEM_WRITE, NULL}};
        acquire(w, uses, 2);
        const struct words in = {uses[0].address, WORDS}, out = {uses[1].address, WORDS};
        CU(combine(w->stream, out, in, changes ? out : in, round));
        w->expected[own] = 31 * (100 + input) + (changes ? w->expected[own] : 100 + input) + round;
        OK(gpumem_residency_release(residency, &uses[0], 1, w->stream, 0));
        OK(gpumem_residency_release(residency, &uses[1], 1, w->stream, drops ? GPUMEM_RELEASE_DROP : 0));
        if (drops) {
            w->expected[own] = 0;
        } else if (round % 3 == 0) {
            void *host = NULL;
            OK(gpumem_residency_sync(residency, w->results[own], &host));
            assert_int_equal(differing(host, BYTES, w->expected[own]), 0);
        }
    }
    return NULL;
}

static void *watch(void *argument) {
    CU(cuCtxPushCurrent_v2(bench.context));
    while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
        const struct gpumem_residency_stats s = stats_of(residency);
        assert_in_range(s.resident_bytes + s.pool_bytes, 0, s.peak_bytes);
        for (int i = 0; i < INPUTS; i++)
            OK(gpumem_residency_sync(residency, inputs[i], NULL));
        OK(gpumem_residency_announce(residency, inputs, INPUTS));
    }
    return argument;
}

static void threads_share(uint64_t flags, const char *policy) {
    struct worker workers[THREADS] = {{0}};
    pthread_t threads[THREADS], watcher;
    residency = residency_of(policy, 9 * BYTES, flags);
    for (uint32_t i = 0; i < INPUTS; i++) {
        for (size_t j = 0; j < WORDS; j++)
            memory[i * WORDS + j] = 100 + i;
        inputs[i] = host_object(residency, memory + i * WORDS, BYTES);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].number = i;
        CU(cuStreamCreate(&workers[i].stream, CU_STREAM_NON_BLOCKING));
        for (int j = 0; j < OWN; j++)
            workers[i].results[j] = gpu_object(residency, BYTES);
    }
    __atomic_store_n(&running, 1, __ATOMIC_RELEASE);
    assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    __atomic_store_n(&running, 0, __ATOMIC_RELEASE);
    pthread_join(watcher, NULL);
    const struct gpumem_residency_stats s = stats_of(residency);
    assert_in_range(s.hits + s.misses, 2 * THREADS * ROUNDS, UINT32_MAX);
    assert_in_range(s.peak_bytes, 1, 9 * BYTES);
    OK(gpumem_residency_destroy(residency));
    assert_int_equal(simcuda_violations(), 0);
}

TEST_WITH(many_threads_with_pageable_memory, desk_open, desk_close) {
    memory = pageable(INPUTS * BYTES, 0);
    threads_share(0, "lru");
    threads_share(0, "preprotected_lru");
    threads_share(GPUMEM_RESIDENCY_NO_LAZY_RELEASE, "clock_pro");
    free(memory);
}

TEST_WITH(many_threads_with_pinned_memory, desk_open, desk_close) {
    memory = pinned(INPUTS * BYTES, 0);
    threads_share(0, "car");
    threads_share(GPUMEM_RESIDENCY_NO_REUSE, "lru");
    threads_share(GPUMEM_RESIDENCY_NO_ON_DEMAND, "window");
    CU(cuMemFreeHost(memory));
}

/* ---- an object whose bytes are being moved: calls that need it wait for the thread that moves them */

static uint64_t moved, registered;
static int waiting, passed;

static void *acquire_moved(void *argument) {
    CU(cuCtxPushCurrent_v2(bench.context));
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    begin(residency, moved, GPUMEM_WRITE, streams[0]);
    __atomic_add_fetch(&passed, 1, __ATOMIC_SEQ_CST);
    return argument;
}

static void *drop_moved(void *argument) {
    CU(cuCtxPushCurrent_v2(bench.context));
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    end(residency, moved, streams[0], GPUMEM_RELEASE_DROP);
    __atomic_add_fetch(&passed, 1, __ATOMIC_SEQ_CST);
    return argument;
}

static void *register_moved(void *argument) {
    struct gpumem_object_options options = {
        .struct_size = sizeof options, .address = memory, .bytes = BYTES, .version = 2};
    CU(cuCtxPushCurrent_v2(bench.context));
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    OK(gpumem_residency_register(residency, &options, &registered));
    __atomic_add_fetch(&passed, 1, __ATOMIC_SEQ_CST);
    return argument;
}

static void waits_while_it_moves(void *(*call)(void *), bool used, bool gpu_only) {
    pthread_t thread;
    residency = residency_of("lru", 9 * BYTES, 0);
    moved = gpu_only ? gpu_object(residency, BYTES) : host_object(residency, memory, BYTES);
    write_words(residency, moved, BYTES, 1, streams[0]);
    OK(gpumem_residency_sync(residency, moved, NULL));
    if (used)
        begin(residency, moved, GPUMEM_READ, streams[0]);
    pthread_mutex_lock(&residency->placement);
    residency->objects[(uint32_t)moved - 1].busy = true;
    waiting = passed = 0;
    assert_int_equal(pthread_create(&thread, NULL, call, NULL), 0);
    while (!__atomic_load_n(&waiting, __ATOMIC_SEQ_CST))
        sched_yield();
    usleep(20000);
    assert_int_equal(__atomic_load_n(&passed, __ATOMIC_SEQ_CST), 0);
    pthread_mutex_lock(&residency->state);
    residency->objects[(uint32_t)moved - 1].busy = false;
    gm_condition_wake(&residency->moved);
    pthread_mutex_unlock(&residency->state);
    pthread_mutex_unlock(&residency->placement);
    pthread_join(thread, NULL);
    OK(gpumem_residency_destroy(residency));
}

TEST_WITH(calls_wait_for_an_object_that_moves, desk_open, desk_close) {
    memory = pageable(BYTES, 0);
    waits_while_it_moves(acquire_moved, false, false);
    waits_while_it_moves(drop_moved, true, true);
    waits_while_it_moves(register_moved, false, false);
    free(memory);
}

/* ---- a driver call in whose middle another thread makes a call of its own */

static struct gm_driver intruded;
static CUresult (*true_host_alloc)(void **, size_t, unsigned), (*true_synchronize)(CUevent);
static CUresult (*true_copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
static void *(*intruder)(void *);
static pthread_t intruder_thread;
static bool passes_inside; /* the intruder's call returns before the driver call does */

/* The intruder's own calls come here, too. */
static void intrude(void) {
    void *(*call)(void *) = __atomic_exchange_n(&intruder, NULL, __ATOMIC_RELAXED);
    if (!call)
        return;
    waiting = passed = 0;
    assert_int_equal(pthread_create(&intruder_thread, NULL, call, NULL), 0);
    while (!__atomic_load_n(&waiting, __ATOMIC_SEQ_CST))
        sched_yield();
    for (int ms = 0; ms < (passes_inside ? 10000 : 20) && !__atomic_load_n(&passed, __ATOMIC_SEQ_CST); ms++)
        usleep(1000);
    assert_int_equal(__atomic_load_n(&passed, __ATOMIC_SEQ_CST), passes_inside);
}

static CUresult intruded_host_alloc(void **address, size_t bytes, unsigned flags) {
    intrude();
    return true_host_alloc(address, bytes, flags);
}

static CUresult intruded_synchronize(CUevent event) {
    intrude();
    return true_synchronize(event);
}

static _Thread_local bool copies_slowly;

static CUresult intruded_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    intrude();
    if (copies_slowly) {
        __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
        usleep(100000);
    }
    return true_copy(to, from, bytes, stream);
}

/* `call` runs inside the next of these driver calls. */
static void invite(void *(*call)(void *), bool passes) {
    passes_inside = passes;
    __atomic_store_n(&intruder, call, __ATOMIC_RELAXED);
}

static void open_intruded(size_t room) {
    residency = residency_of("lru", 9 * room, 0);
    intruded = *residency->driver;
    true_host_alloc = intruded.mem_host_alloc;
    true_synchronize = intruded.event_synchronize;
    intruded.mem_host_alloc = intruded_host_alloc;
    intruded.event_synchronize = intruded_synchronize;
    true_copy = intruded.memcpy_async;
    intruded.memcpy_async = intruded_copy;
    residency->driver = &intruded;
}

/* The home is allocated without the lock of the state, and its object must not change meanwhile. */
TEST_WITH(a_use_waits_for_the_home_of_a_synchronisation, desk_open, desk_close) {
    void *host = NULL;
    open_intruded(BYTES);
    moved = gpu_object(residency, BYTES);
    write_words(residency, moved, BYTES, 1, streams[0]);
    invite(acquire_moved, false);
    OK(gpumem_residency_sync(residency, moved, NULL));
    pthread_join(intruder_thread, NULL);
    end(residency, moved, streams[0], 0);
    write_words(residency, moved, BYTES, 2, streams[0]);
    OK(gpumem_residency_sync(residency, moved, &host));
    assert_int_equal(differing(host, BYTES, 2), 0);
    OK(gpumem_residency_destroy(residency));
}

/* The last unregister waits for a transfer. A register of the same memory meanwhile makes an object of its own. */
TEST_WITH(a_register_waits_for_the_end_of_the_object, desk_open, desk_close) {
    memory = pinned(BYTES, 1);
    open_intruded(BYTES);
    moved = host_object(residency, memory, BYTES);
    touch(residency, moved, streams[0]);
    invite(register_moved, false);
    OK(gpumem_residency_unregister(residency, moved));
    pthread_join(intruder_thread, NULL);
    touch(residency, registered, streams[0]);
    OK(gpumem_residency_unregister(residency, registered));
    OK(gpumem_residency_destroy(residency));
    CU(cuMemFreeHost(memory));
}

/* An acquire fails after another thread ended the other use with GPUMEM_RELEASE_DROP: the failure is the last use. */
TEST_WITH(an_acquire_that_fails_drops_what_others_dropped, desk_open, desk_close) {
    void *host = NULL;
    open_intruded(BYTES);
    moved = gpu_object(residency, BYTES);
    const uint64_t small = gpu_object(residency, BYTES / 2), large = gpu_object(residency, 15 * BYTES / 2);
    struct gpumem_use uses[] = {{moved, GPUMEM_READ, NULL}, {gpu_object(residency, BYTES), GPUMEM_WRITE, NULL}};
    write_words(residency, moved, BYTES, 1, streams[0]);
    begin(residency, moved, GPUMEM_READ, streams[0]);
    begin(residency, large, GPUMEM_WRITE, streams[0]);
    begin(residency, small, GPUMEM_WRITE, streams[0]);
    end(residency, small, streams[0], GPUMEM_RELEASE_DROP);
    invite(drop_moved, true); /* while the work of the small block is waited for */
    FAILS(gpumem_residency_acquire(residency, uses, 2, streams[0]), GPUMEM_OUT_OF_MEMORY, "nothing can be evicted");
    pthread_join(intruder_thread, NULL);
    FAILS(gpumem_residency_acquire(residency, uses, 1, streams[0]), GPUMEM_INVALID_VALUE, "never written");
    write_words(residency, moved, BYTES, 2, streams[0]);
    OK(gpumem_residency_sync(residency, moved, &host));
    assert_int_equal(differing(host, BYTES, 2), 0);
    end(residency, large, streams[0], 0);
    OK(gpumem_residency_destroy(residency));
}

static void *read_moved(void *argument) {
    CU(cuCtxPushCurrent_v2(bench.context));
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    touch(residency, moved, streams[1]);
    __atomic_add_fetch(&passed, 1, __ATOMIC_SEQ_CST);
    return argument;
}

/* Both pass staging memory, whose slots they share. */
TEST_WITH(a_transfer_does_not_wait_for_another_one, desk_open, desk_close) {
    enum { CHUNKS = 20 * 8 * 1024 }; /* more than there are slots */
    memory = pageable(2 * CHUNKS + BYTES, 7);
    open_intruded(CHUNKS);
    const uint64_t first = host_object(residency, memory, CHUNKS);
    moved = host_object(residency, memory + CHUNKS / 4, CHUNKS);
    touch(residency, host_object(residency, memory + CHUNKS / 2, BYTES), streams[0]); /* allocates the staging memory */
    invite(read_moved, true);
    touch(residency, first, streams[0]);
    pthread_join(intruder_thread, NULL);
    assert_int_equal(stats_of(residency).transfers_to_device, 3);
    OK(gpumem_residency_destroy(residency));
    free(memory);
}

/* An object that another acquire fills is not sent a second time. */
TEST_WITH(an_object_of_two_acquires_is_sent_once, desk_open, desk_close) {
    memory = pageable(BYTES, 7);
    open_intruded(BYTES);
    moved = host_object(residency, memory, BYTES);
    invite(read_moved, false);
    touch(residency, moved, streams[0]);
    pthread_join(intruder_thread, NULL);
    assert_int_equal(stats_of(residency).transfers_to_device, 1);
    OK(gpumem_residency_destroy(residency));
    free(memory);
}

static void *fill_slowly(void *argument) {
    CU(cuCtxPushCurrent_v2(bench.context));
    copies_slowly = true;
    touch(residency, moved, streams[1]);
    return argument;
}

/* This thread uses the object first, and then finds that another one is filling it. */
TEST_WITH(an_object_that_another_acquire_fills_is_waited_for, desk_open, desk_close) {
    memory = pageable(3 * BYTES, 7);
    open_intruded(BYTES);
    touch(residency, host_object(residency, memory + 2 * WORDS, BYTES), streams[0]); /* allocates the staging memory */
    moved = host_object(residency, memory, BYTES);
    struct gpumem_use uses[] = {{host_object(residency, memory + WORDS, BYTES), GPUMEM_READ, NULL},
                                {moved, GPUMEM_READ, NULL}};
    invite(fill_slowly, false);
    OK(gpumem_residency_acquire(residency, uses, 2, streams[0]));
    pthread_join(intruder_thread, NULL);
    assert_int_equal(stats_of(residency).transfers_to_device, 3);
    OK(gpumem_residency_release(residency, uses, 2, streams[0], 0));
    OK(gpumem_residency_destroy(residency));
    free(memory);
}

/* ---- threads that copy */

enum { LARGE = 3 << 20, LARGE_WORDS = LARGE / 4 };

static unsigned threads_now(void) {
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* A thread that is done with its residency leaves the process a moment later. */
static void threads_become(unsigned count) {
    for (int ms = 0; ms < 10000 && threads_now() != count; ms++)
        usleep(1000);
    assert_int_equal(threads_now(), count);
}

static unsigned creatable = UINT_MAX, started; /* threads of gpumem that can be created, that began to run */
static bool start_late;
static void *(*true_run)(void *);

static void *run_late(void *argument) {
    usleep(50000);
    __atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&true_run, __ATOMIC_RELAXED)(argument);
}

static bool is_of_gpumem(void) {
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    return sigismember(&blocked, SIGTERM);
}

/* gpumem finds this function first, and calls it with all signals blocked. */
GM_PUBLIC int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                             void *argument) {
    typedef int (*create_function)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    const create_function create = (create_function)dlsym(RTLD_NEXT, "pthread_create");
    const bool late = start_late && is_of_gpumem();
    if (is_of_gpumem()) {
        if (!creatable)
            return EAGAIN;
        creatable--;
    }
    if (late)
        __atomic_store_n(&true_run, run, __ATOMIC_RELAXED);
    return create(thread, attributes, late ? run_late : run, argument);
}

static struct gpumem_residency *copying_with(size_t threads) {
    struct gpumem_residency_options options = {
        .struct_size = sizeof options, .budget = 8 * LARGE, .staging = 1 << 20, .copy_threads = threads};
    struct gpumem_residency *made = NULL;
    OK(gpumem_residency_create(&options, &made));
    return made;
}

static void *change_large(void *argument) {
    struct worker *w = argument;
    CU(cuCtxPushCurrent_v2(bench.context));
    for (unsigned round = 1; round <= 5; round++) {
        struct gpumem_use uses[] = {{w->results[0], GPUMEM_READ_WRITE, NULL}, {inputs[0], GPUMEM_READ, NULL}};
        OK(gpumem_residency_acquire(residency, uses, 2, w->stream));
        const struct words own = {uses[0].address, LARGE_WORDS}, shared = {uses[1].address, LARGE_WORDS};
        CU(combine(w->stream, own, own, shared, round));
        OK(gpumem_residency_release(residency, uses, 2, w->stream, 0));
        OK(gpumem_residency_sync(residency, w->results[0], NULL));
        OK(gpumem_residency_update(residency, w->results[0], round)); /* so that the next use transfers */
    }
    return NULL;
}

/* Numbers that differ show a piece that was copied to the wrong place, or not at all. */
static void copied_by(size_t copy_threads) {
    struct worker workers[THREADS] = {{0}};
    pthread_t threads[THREADS];
    residency = copying_with(copy_threads);
    inputs[0] = host_object(residency, memory, LARGE);
    for (uint32_t i = 0; i < (THREADS + 1) * LARGE_WORDS; i++)
        memory[i] = i;
    for (unsigned i = 0; i < THREADS; i++) {
        CU(cuStreamCreate(&workers[i].stream, CU_STREAM_NON_BLOCKING));
        workers[i].results[0] = host_object(residency, memory + (i + 1) * LARGE_WORDS, LARGE);
        assert_int_equal(pthread_create(&threads[i], NULL, change_large, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < (THREADS + 1) * LARGE_WORDS; i++) {
        uint32_t word = i;
        for (unsigned round = 1; i >= LARGE_WORDS && round <= 5; round++)
            word = 31 * word + i % LARGE_WORDS + round;
        if (memory[i] != word)
            fail_msg("%zu threads: word %u is %u, not %u", copy_threads, i, memory[i], word);
    }
}

TEST_WITH(large_transfers_are_copied_by_threads, desk_open, desk_close) {
    const unsigned before = threads_now();
    memory = pageable((THREADS + 1) * LARGE, 0);
    copied_by(1);
    assert_int_equal(threads_now(), before);
    OK(gpumem_residency_destroy(residency));
    copied_by(4);
    assert_int_equal(threads_now(), before + 3);
    OK(gpumem_residency_destroy(residency));
    threads_become(before);
    free(memory);
}

TEST_WITH(transfers_are_copied_without_threads_that_cannot_be_made, desk_open, desk_close) {
    const unsigned before = threads_now();
    memory = pageable((THREADS + 1) * LARGE, 0);
    for (unsigned made = 0; made < 3; made++) {
        creatable = made;
        copied_by(4);
        assert_int_equal(threads_now(), before + made);
        OK(gpumem_residency_destroy(residency));
        threads_become(before);
    }
    creatable = UINT_MAX;
    free(memory);
}

/* They read the residency when they begin. */
TEST_WITH(destruction_waits_for_threads_that_start_late, desk_open, desk_close) {
    const unsigned before = threads_now();
    memory = pageable(LARGE, 0);
    residency = copying_with(4);
    started = 0;
    start_late = true;
    touch(residency, host_object(residency, memory, LARGE), streams[0]);
    OK(gpumem_residency_destroy(residency));
    assert_int_equal(__atomic_load_n(&started, __ATOMIC_SEQ_CST), 3);
    start_late = false;
    threads_become(before);
    free(memory);
}

TEST_WITH(small_transfers_make_no_threads, desk_open, desk_close) {
    const unsigned before = threads_now();
    memory = pageable(BYTES, 0);
    residency = copying_with(4);
    touch(residency, host_object(residency, memory, BYTES), streams[0]);
    assert_int_equal(threads_now(), before);
    OK(gpumem_residency_destroy(residency));
    free(memory);
}

/* A call of the driver fails in the middle of a transfer that threads copy: nothing is lost, and nothing is left open.
 */
static void fails_in_the_middle(const char *name) {
    const unsigned before = threads_now();
    unsigned failed = 0;
    residency = copying_with(4);
    const uint64_t object = host_object(residency, memory, LARGE);
    struct gpumem_use use = {object, GPUMEM_READ_WRITE, NULL};
    for (unsigned at = 1; at < 30; at++) {
        char script[64];
        for (uint32_t i = 0; i < LARGE_WORDS; i++)
            memory[i] = i + at;
        OK(gpumem_residency_update(residency, object, at));
        snprintf(script, sizeof script, "%s:%u", name, at);
        assert_int_equal(simcuda_set_failures(script), 0);
        enum gpumem_status status = gpumem_residency_acquire(residency, &use, 1, streams[0]);
        failed += status != GPUMEM_OK;
        assert_int_equal(simcuda_set_failures(NULL), 0);
        if (status)
            OK(gpumem_residency_acquire(residency, &use, 1, streams[0]));
        const struct words all = {use.address, LARGE_WORDS};
        CU(combine(streams[0], all, all, all, 1));
        OK(gpumem_residency_release(residency, &use, 1, streams[0], 0));
        assert_int_equal(simcuda_set_failures(script), 0);
        status = gpumem_residency_sync(residency, object, NULL);
        failed += status != GPUMEM_OK;
        assert_int_equal(simcuda_set_failures(NULL), 0);
        if (status)
            OK(gpumem_residency_sync(residency, object, NULL));
        for (uint32_t i = 0; i < LARGE_WORDS; i++)
            if (memory[i] != 32 * (i + at) + 1)
                fail_msg("%s: word %u is %u", script, i, memory[i]);
    }
    assert_in_range(failed, 20, 60);
    OK(gpumem_residency_destroy(residency));
    threads_become(before);
}

TEST_WITH(failures_while_threads_copy, desk_open, desk_close) {
    memory = pageable(LARGE, 0);
    fails_in_the_middle("cuMemcpyAsync");
    fails_in_the_middle("cuEventSynchronize");
    fails_in_the_middle("cuEventRecord");
    free(memory);
}

/* The driver's objects ended with the context; the threads and the host memory are the residency's. */
TEST_WITH(threads_end_after_the_context, desk_open, desk_close) {
    const unsigned before = threads_now();
    CUcontext context;
    memory = pageable(2 * LARGE, 0);
    CU(cuCtxCreate_v2(&context, 0, 0));
    residency = copying_with(4);
    CUstream stream;
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const uint64_t host = host_object(residency, memory, LARGE),
                   dropped = host_object(residency, memory + LARGE_WORDS, LARGE);
    touch(residency, host, stream);
    begin(residency, dropped, GPUMEM_READ, stream);
    end(residency, dropped, stream, GPUMEM_RELEASE_DROP);
    assert_int_equal(threads_now(), before + 3);
    uint64_t id;
    gm_context_end(context, &id); /* as the preloaded library sees it */
    CU(cuCtxDestroy_v2(context));
    assert_int_not_equal(gpumem_residency_destroy(residency), GPUMEM_OK);
    threads_become(before);
    free(memory);
}

/* A child of fork() has none of the threads, and must not wait for them. */
TEST_WITH(a_child_can_destroy, desk_open, desk_close) {
    const unsigned before = threads_now();
    int status = -1;
    memory = pageable(LARGE, 0);
    residency = copying_with(4);
    touch(residency, host_object(residency, memory, LARGE), streams[0]);
    const pid_t child = fork();
    if (!child) {
        alarm(20);
        (void)gpumem_residency_destroy(residency);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    OK(gpumem_residency_destroy(residency));
    threads_become(before);
    free(memory);
}

/* ---- waiting for room */

enum { WAITERS = 4, WAITS = 200 };

static struct gpumem_residency *crowded;
static uint64_t crowd[WAITERS][2];

/* Both objects at once, or none: with room for three, two such threads cannot run beside each other. */
static void *use_two(void *number) {
    for (int i = 0; i < WAITS; i++) {
        const uint64_t *own = crowd[(uintptr_t)number];
        struct gpumem_use uses[] = {{own[0], GPUMEM_WRITE, NULL}, {own[1], GPUMEM_WRITE, NULL}};
        if (gpumem_residency_acquire(crowded, uses, 2, streams[(uintptr_t)number % STREAMS]))
            return "acquire";
        if (i % 16 == 0)
            sched_yield();
        if (gpumem_residency_release(crowded, uses, 2, streams[(uintptr_t)number % STREAMS], 0))
            return "release";
    }
    return NULL;
}

TEST_WITH(threads_wait_for_room, desk_open, desk_close) {
    pthread_t threads[WAITERS];
    crowded = residency_of("lru", 3 * 4 * KIB, GPUMEM_RESIDENCY_WAIT);
    for (uintptr_t i = 0; i < WAITERS; i++)
        for (int o = 0; o < 2; o++)
            crowd[i][o] = gpu_object(crowded, 4 * KIB);
    for (uintptr_t i = 0; i < WAITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_two, (void *)i), 0);
    for (uintptr_t i = 0; i < WAITERS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_true(stats_of(crowded).evictions > 0);
    OK(gpumem_residency_destroy(crowded));
    /* Without the flag the second user is told at once. */
    crowded = residency_of("lru", 3 * 4 * KIB, 0);
    struct gpumem_use one[] = {{gpu_object(crowded, 8 * KIB), GPUMEM_WRITE, NULL}},
                      other[] = {{gpu_object(crowded, 8 * KIB), GPUMEM_WRITE, NULL}};
    OK(gpumem_residency_acquire(crowded, one, 1, streams[0]));
    FAILS(gpumem_residency_acquire(crowded, other, 1, streams[0]), GPUMEM_OUT_OF_MEMORY, "nothing can be evicted");
    OK(gpumem_residency_release(crowded, one, 1, streams[0], 0));
    OK(gpumem_residency_destroy(crowded));
}

int main(void) {
#undef TEST
    return run_all(NULL, NULL);
}
