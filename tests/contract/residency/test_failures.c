/* Every driver call of a residency's life fails once: the failed step says so, a second try succeeds, no byte is lost
 * and everything is given back. */
#include "desk.h"

enum { WORDS = 16 * 1024, BYTES = 4 * WORDS, KEPT = 3, MOST_CALLS = 2000 };

struct world {
    struct gpumem_residency *residency;
    uint32_t *staged, *direct;
    uint64_t input[2], result[KEPT], scratch;
    unsigned failures;
};

/* Tries again after a failure. A release that failed has ended its uses. */
#define TWICE(call)                                 \
    do {                                            \
        const enum gpumem_status first_ = (call);   \
        if (first_ != GPUMEM_OK) {                  \
            assert_true(*gpumem_last_error() != 0); \
            w->failures++;                          \
            OK(call);                               \
        }                                           \
    } while (0)

static void launch(struct world *w, CUstream stream, struct words out, struct words a, struct words b, uint32_t salt) {
    if (combine(stream, out, a, b, salt)) {
        w->failures++;
        CU(combine(stream, out, a, b, salt));
    }
}

static void release(struct world *w, struct gpumem_use *uses, size_t count, CUstream stream, uint64_t flags) {
    if (gpumem_residency_release(w->residency, uses, count, stream, flags)) {
        w->failures++;
        assert_int_equal(gpumem_residency_release(w->residency, uses, count, stream, flags), GPUMEM_INVALID_VALUE);
    }
}

static void create(struct world *w, uint64_t flags) {
    struct gpumem_residency_options options = {
        .struct_size = sizeof options, .budget = 3 * BYTES, .staging = 128 * KIB, .objects = 16, .flags = flags};
    struct gpumem_object_options host = {.struct_size = sizeof host, .bytes = BYTES};
    struct gpumem_object_options gpu = {.struct_size = sizeof gpu, .bytes = BYTES, .flags = GPUMEM_OBJECT_GPU_ONLY};
    TWICE(gpumem_residency_create(&options, &w->residency));
    host.address = w->staged;
    TWICE(gpumem_residency_register(w->residency, &host, &w->input[0]));
    host.address = w->direct;
    TWICE(gpumem_residency_register(w->residency, &host, &w->input[1]));
    for (int i = 0; i < KEPT; i++)
        TWICE(gpumem_residency_register(w->residency, &gpu, &w->result[i]));
    gpu.bytes = BYTES / 2;
    TWICE(gpumem_residency_register(w->residency, &gpu, &w->scratch));
}

/* result[i] = 32 input + i: with three copies in the budget, the results before are evicted. */
static void operate(struct world *w, uint32_t i) {
    CUstream stream = streams[i];
    struct gpumem_use uses[] = {{w->input[i % 2], GPUMEM_READ, NULL}, {w->result[i], GPUMEM_WRITE, NULL}};
    struct gpumem_use scratch = {w->scratch, GPUMEM_WRITE, NULL};
    TWICE(gpumem_residency_acquire(w->residency, &scratch, 1, stream));
    release(w, &scratch, 1, stream, GPUMEM_RELEASE_DROP); /* half a block, to be given back */
    TWICE(gpumem_residency_acquire(w->residency, uses, 2, stream));
    const struct words in = {uses[0].address, WORDS}, out = {uses[1].address, WORDS};
    launch(w, stream, out, in, in, i);
    release(w, uses, 2, stream, 0);
}

static void check(struct world *w, uint32_t i) {
    void *host = NULL;
    TWICE(gpumem_residency_sync(w->residency, w->result[i], &host));
    assert_int_equal(differing(host, BYTES, 32 * (5 + i % 2) + i), 0);
}

/* Also an input that the GPU changes, and drops. */
static void change(struct world *w) {
    struct gpumem_use use = {w->input[0], GPUMEM_READ_WRITE, NULL};
    TWICE(gpumem_residency_acquire(w->residency, &use, 1, streams[0]));
    const struct words words = {use.address, WORDS};
    launch(w, streams[0], words, words, words, 1);
    release(w, &use, 1, streams[0], GPUMEM_RELEASE_DROP);
    TWICE(gpumem_residency_sync(w->residency, w->input[0], NULL));
    assert_int_equal(differing(w->staged, BYTES, 32 * 5 + 1), 0);
}

/* The n-th call fails. False: there are not so many calls. */
static bool life(unsigned n, uint64_t flags) {
    const size_t blocks = simcuda_live_blocks();
    struct world world = {.staged = pageable(BYTES, 5), .direct = pinned(BYTES, 6)}, *w = &world;
    bench_fail_call(n);
    create(w, flags);
    for (uint32_t i = 0; i < KEPT; i++)
        operate(w, i);
    for (uint32_t i = 0; i < KEPT; i++)
        check(w, i);
    change(w);
    for (int i = 0; i < KEPT; i++)
        if (gpumem_residency_unregister(w->residency, w->result[i]))
            assert_int_equal(gpumem_residency_unregister(w->residency, w->result[i]), GPUMEM_NOT_FOUND);
    (void)gpumem_residency_destroy(w->residency);
    const bool reached = bench_failed();
    CU(cuMemFreeHost(w->direct));
    free(w->staged);
    assert_int_equal(simcuda_live_blocks(), blocks);
    return reached;
}

static void each_call_fails_once(uint64_t flags) {
    unsigned n = 1;
    while (n < MOST_CALLS && life(n, flags))
        n++;
    assert_in_range(n, 80, MOST_CALLS - 1);
    assert_int_equal(simcuda_violations(), 0);
}

TEST_WITH(nothing_is_lost, desk_open, desk_close) { each_call_fails_once(0); }

TEST_WITH(nothing_is_lost_without_the_optimisations, desk_open, desk_close) {
    each_call_fails_once(GPUMEM_RESIDENCY_NO_REUSE);
    each_call_fails_once(GPUMEM_RESIDENCY_NO_LAZY_RELEASE);
    each_call_fails_once(GPUMEM_RESIDENCY_NO_ON_DEMAND);
}

/* The device has less memory than the budget allows: copies are evicted then, too. */
TEST_WITH(the_device_may_be_smaller_than_the_budget, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", (size_t)1 << 30, 0);
    uint64_t object[8];
    void *host;
    simcuda_set_memory(8 * MIB);
    for (uint32_t i = 0; i < 8; i++) {
        object[i] = gpu_object(r, 2 * MIB);
        write_words(r, object[i], 2 * MIB, i, streams[0]);
    }
    assert_in_range(stats_of(r).evictions, 4, 8);
    for (uint32_t i = 0; i < 8; i++) {
        OK(gpumem_residency_sync(r, object[i], &host));
        assert_int_equal(differing(host, 2 * MIB, i), 0);
    }
    const uint64_t large = gpu_object(r, 16 * MIB);
    struct gpumem_use use = {large, GPUMEM_WRITE, NULL};
    FAILS(gpumem_residency_acquire(r, &use, 1, streams[0]), GPUMEM_OUT_OF_MEMORY, "a copy of 16777216 bytes");
    touch(r, object[0], streams[0]);
    OK(gpumem_residency_destroy(r));
    simcuda_set_memory((size_t)4 << 30);
}

/* The release that failed has ended, and with it the wish to drop. */
TEST_WITH(a_copy_that_was_not_written_outlives_its_drop, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", BYTES, GPUMEM_RESIDENCY_NO_ON_DEMAND);
    uint32_t *words = pinned(BYTES, 5);
    const uint64_t object = host_object(r, words, BYTES);
    struct gpumem_use use = {object, GPUMEM_READ_WRITE, NULL};
    OK(gpumem_residency_acquire(r, &use, 1, streams[0]));
    assert_int_equal(simcuda_set_failures("cuMemcpyAsync:1:2"), 0);
    FAILS(gpumem_residency_release(r, &use, 1, streams[0], GPUMEM_RELEASE_DROP), GPUMEM_OUT_OF_MEMORY, "transferred");
    touch(r, object, streams[0]);
    assert_int_equal(stats_of(r).resident, 1);
    OK(gpumem_residency_destroy(r));
    CU(cuMemFreeHost(words));
}

int main(void) {
#undef TEST
    return run_all(NULL, NULL);
}
