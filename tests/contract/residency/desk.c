/* The common setup of the residency tests (desk.h). */
#include "desk.h"

#include <pthread.h>
#include <string.h>

CUstream streams[STREAMS];
static CUfunction combiner;

static void fill(uint32_t *words, size_t bytes, uint32_t word) {
    for (size_t i = 0; i < bytes / 4; i++)
        words[i] = word;
}

void combine_here(uint32_t *out, size_t out_count, const uint32_t *a, size_t a_count, const uint32_t *b, size_t b_count,
                  uint32_t salt) {
    for (size_t i = 0; i < out_count; i++)
        out[i] = 31 * a[i % a_count] + b[i % b_count] + salt;
}

static void run_combine(const struct simcuda_launch *launch) {
    void **args = launch->args;
    const uint64_t *const counts[] = {args[3], args[4], args[5]};
    combine_here(*(uint32_t **)args[0], *counts[0], *(uint32_t **)args[1], *counts[1], *(uint32_t **)args[2],
                 *counts[2], *(uint32_t *)args[6]);
}

CUresult combine(CUstream stream, struct words out, struct words a, struct words b, uint32_t salt) {
    void *arguments[] = {&out.address, &a.address, &b.address, &out.count, &a.count, &b.count, &salt};
    return cuLaunchKernel(combiner, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

/* Uses begun and not ended, for end(). */
static struct {
    struct gpumem_residency *residency;
    struct gpumem_use use;
} held[64];
static unsigned held_count;
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;

int desk_open(void **state) {
    CUmodule module;
    bench_open(state);
    assert_int_equal(simcuda_register_kernel("test_combine", "ppp8884", run_combine), 0);
    CU(cuModuleLoadData(&module, "kernels of the test"));
    CU(cuModuleGetFunction(&combiner, module, "test_combine"));
    for (int i = 0; i < STREAMS; i++)
        CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    return 0;
}

int desk_close(void **state) {
    held_count = 0;
    return bench_close(state);
}

struct gpumem_residency *residency_of(const char *eviction, size_t budget, uint64_t flags) {
    struct gpumem_residency_options options = {.struct_size = sizeof options,
                                               .budget = budget,
                                               .eviction = eviction,
                                               .staging = 128 * KIB,
                                               .objects = 64,
                                               .window = 32,
                                               .flags = flags};
    struct gpumem_residency *made = NULL;
    OK(gpumem_residency_create(&options, &made));
    return made;
}

uint64_t host_object(struct gpumem_residency *residency, void *address, size_t bytes) {
    struct gpumem_object_options options = {.struct_size = sizeof options, .address = address, .bytes = bytes};
    uint64_t object = 0;
    OK(gpumem_residency_register(residency, &options, &object));
    return object;
}

uint64_t gpu_object(struct gpumem_residency *residency, size_t bytes) {
    struct gpumem_object_options options = {
        .struct_size = sizeof options, .bytes = bytes, .flags = GPUMEM_OBJECT_GPU_ONLY};
    uint64_t object = 0;
    OK(gpumem_residency_register(residency, &options, &object));
    return object;
}

struct gpumem_residency_stats stats_of(struct gpumem_residency *residency) {
    struct gpumem_residency_stats stats = {.struct_size = sizeof stats};
    OK(gpumem_residency_get_stats(residency, &stats));
    return stats;
}

void *begin(struct gpumem_residency *residency, uint64_t object, uint64_t access, CUstream stream) {
    struct gpumem_use use = {.object = object, .access = access};
    OK(gpumem_residency_acquire(residency, &use, 1, stream));
    pthread_mutex_lock(&held_lock);
    assert_true(held_count < sizeof held / sizeof *held);
    held[held_count].residency = residency;
    held[held_count++].use = use;
    pthread_mutex_unlock(&held_lock);
    return use.address;
}

struct gpumem_use begun(struct gpumem_residency *residency, uint64_t object) {
    struct gpumem_use use = {.object = object};
    pthread_mutex_lock(&held_lock);
    for (unsigned i = held_count; i-- > 0 && !use.number;) {
        if (held[i].residency != residency || held[i].use.object != object)
            continue;
        use = held[i].use;
        memmove(&held[i], &held[i + 1], (--held_count - i) * sizeof *held);
    }
    pthread_mutex_unlock(&held_lock);
    return use;
}

void end(struct gpumem_residency *residency, uint64_t object, CUstream stream, uint64_t flags) {
    struct gpumem_use use = begun(residency, object);
    OK(gpumem_residency_release(residency, &use, 1, stream, flags));
}

void touch(struct gpumem_residency *residency, uint64_t object, CUstream stream) {
    begin(residency, object, GPUMEM_READ, stream);
    end(residency, object, stream, 0);
}

void write_words(struct gpumem_residency *residency, uint64_t object, size_t bytes, uint32_t word, CUstream stream) {
    void *address = begin(residency, object, GPUMEM_WRITE, stream);
    uint64_t count = bytes;
    void *arguments[] = {&address, &count, &word};
    CU(cuLaunchKernel(bench.fill, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    end(residency, object, stream, 0);
}

uint32_t *pageable(size_t bytes, uint32_t word) {
    uint32_t *words = malloc(bytes);
    assert_non_null(words);
    fill(words, bytes, word);
    return words;
}

uint32_t *pinned(size_t bytes, uint32_t word) {
    void *words = NULL;
    CU(cuMemHostAlloc(&words, bytes, 0));
    fill(words, bytes, word);
    return words;
}

size_t differing(const uint32_t *words, size_t bytes, uint32_t word) {
    size_t count = 0;
    for (size_t i = 0; i < bytes / 4; i++)
        count += words[i] != word;
    return count;
}
