/* Vectors against an array in host memory: random operations, elements of several sizes, and a full comparison after
 * each operation. */
#include "bench.h"

#include <stdio.h>

struct pair {
    struct gpumem_vector *vector;
    unsigned char *model;
    size_t count, element;
};

enum { MODEL_BYTES = 48 << 20 };

static void pair_open(struct pair *pair, const struct gpumem_region_options *options, size_t element) {
    *pair = (struct pair){.element = element, .model = malloc(MODEL_BYTES)};
    assert_non_null(pair->model);
    CU(gpumem_vector_create(options, element, bench.stream, &pair->vector));
}

static void pair_close(struct pair *pair) {
    CU(gpumem_vector_destroy(pair->vector));
    free(pair->model);
}

static void compare(const struct pair *pair) {
    size_t size = pair->count * pair->element;
    unsigned char *got = malloc(size + 1);
    assert_int_equal(gpumem_vector_count(pair->vector), pair->count);
    assert_true(gpumem_vector_capacity(pair->vector) >= pair->count);
    if (size) {
        CU(cuMemcpyDtoHAsync_v2(got, (CUdeviceptr)(uintptr_t)gpumem_vector_data(pair->vector), size, bench.stream));
        CU(cuStreamSynchronize(bench.stream));
        assert_memory_equal(got, pair->model, size);
    }
    free(got);
}

/* ---- the same operations on the model */

static void model_insert(struct pair *pair, size_t position, size_t count, const void *value) {
    size_t e = pair->element;
    unsigned char saved[4096];
    memcpy(saved, value, e);
    memmove(pair->model + (position + count) * e, pair->model + position * e, (pair->count - position) * e);
    for (size_t i = 0; i < count; i++)
        memcpy(pair->model + (position + i) * e, saved, e);
    pair->count += count;
}

static void model_erase(struct pair *pair, size_t first, size_t count) {
    size_t e = pair->element;
    memmove(pair->model + first * e, pair->model + (first + count) * e, (pair->count - first - count) * e);
    pair->count -= count;
}

static uint64_t seed;

static uint64_t next(void) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return seed >> 33;
}

static size_t below(size_t bound) { return bound ? next() % bound : 0; }

static const void *random_value(size_t element) {
    static unsigned char value[4096];
    for (size_t i = 0; i < element; i++)
        value[i] = (unsigned char)next();
    return value;
}

/* An element of the vector, or a value in host memory. Returns its address for the vector; *model is the same value
 * for the model. */
static const void *some_value(const struct pair *pair, const void **model) {
    if (pair->count && next() % 2) {
        size_t at = below(pair->count) * pair->element;
        *model = pair->model + at;
        return (char *)gpumem_vector_data(pair->vector) + at;
    }
    return *model = random_value(pair->element);
}

static void one_step(struct pair *pair, size_t most) {
    const void *model, *value;
    unsigned char saved[4096];
    size_t room = most - pair->count, e = pair->element, position = below(pair->count + 1), count;
    switch (next() % 10) {
    case 0:
        if (!room)
            break;
        value = some_value(pair, &model);
        CU(gpumem_vector_push_back(pair->vector, value));
        model_insert(pair, pair->count, 1, model);
        break;
    case 1:
    case 2:
        count = below(next() % 2 ? room + 1 : room / 50 + 1);
        value = some_value(pair, &model);
        CU(gpumem_vector_insert(pair->vector, position, count, value));
        model_insert(pair, position, count, model);
        break;
    case 3:
        count = below(room / 4 + 1);
        memset(saved, (int)next(), e);
        unsigned char *source = malloc(count * e + 1);
        memset(source, saved[0], count * e);
        CU(gpumem_vector_insert_from(pair->vector, position, source, count));
        free(source);
        model_insert(pair, position, count, saved);
        break;
    case 4:
    case 5:
        count = below(next() % 2 ? pair->count - position + 1 : (pair->count - position) / 40 + 1);
        CU(gpumem_vector_erase(pair->vector, position, count));
        model_erase(pair, position, count);
        break;
    case 6:
        count = below(most);
        value = next() % 2 ? some_value(pair, &model) : (model = NULL);
        CU(gpumem_vector_resize(pair->vector, count, value));
        memset(saved, 0, e);
        if (count > pair->count)
            model_insert(pair, pair->count, count - pair->count, model ? model : saved);
        pair->count = count;
        break;
    case 7:
        count = below(pair->count - position + 1);
        value = some_value(pair, &model);
        CU(gpumem_vector_fill(pair->vector, position, count, value));
        memcpy(saved, model, e);
        model_erase(pair, position, count);
        model_insert(pair, position, count, saved);
        break;
    case 8:
        if (next() % 4)
            break;
        count = below(most / 2);
        value = some_value(pair, &model);
        CU(gpumem_vector_assign(pair->vector, count, value));
        memcpy(saved, model, e);
        pair->count = 0;
        model_insert(pair, 0, count, saved);
        break;
    default:
        if (next() % 2)
            CU(gpumem_vector_shrink(pair->vector));
        else
            CU(gpumem_vector_reserve(pair->vector, below(most)));
    }
}

static void walk(const struct gpumem_region_options *options, size_t element, size_t most, unsigned steps) {
    struct pair pair;
    pair_open(&pair, options, element);
    for (unsigned i = 0; i < steps; i++) {
        one_step(&pair, most);
        compare(&pair);
    }
    pair_close(&pair);
}

TEST_WITH(behaves_as_an_array, bench_open, bench_close) {
    static const size_t elements[] = {1, 2, 4, 8, 12, 16, 100, 4096};
    seed = 42;
    for (unsigned i = 0; i < sizeof elements / sizeof *elements; i++)
        walk(NULL, elements[i], 8000, 80);
}

/* With few reserved addresses the region's base changes. Positions, and values that are elements of the vector, stay
 * right. */
TEST_WITH(behaves_as_an_array_when_its_base_changes, bench_open, bench_close) {
    struct gpumem_region_options options = {
        .struct_size = sizeof options, .reserve = 2 << 20, .flags = GPUMEM_REGION_EXACT};
    seed = 7;
    for (unsigned i = 0; i < 6; i++)
        walk(&options, 4096, 2500, 12);
}

/* Moves more than the staging region holds at a time. */
TEST_WITH(moves_more_than_the_staging_region_holds, bench_open, bench_close) {
    struct pair pair;
    const size_t count = (size_t)40 << 20;
    seed = 3;
    pair_open(&pair, NULL, 1);
    for (size_t i = 0; i < count; i++)
        pair.model[i] = (unsigned char)(i * 2654435761u >> 13);
    pair.count = count;
    CU(gpumem_vector_assign_from(pair.vector, pair.model, count));
    compare(&pair);
    for (unsigned i = 0; i < 4; i++) {
        const void *model, *value = some_value(&pair, &model);
        CU(gpumem_vector_insert(pair.vector, i * 1000, 1 + i, value));
        model_insert(&pair, i * 1000, 1 + i, model);
        compare(&pair);
        CU(gpumem_vector_erase(pair.vector, i * 10, 2));
        model_erase(&pair, i * 10, 2);
        compare(&pair);
    }
    pair_close(&pair);
}

/* The append of the thesis, but without doubling: the requested size in whole granules. */
TEST_WITH(append_maps_what_is_requested, bench_open, bench_close) {
    struct gpumem_region_options options = {.struct_size = sizeof options, .flags = GPUMEM_REGION_EXACT};
    struct gpumem_vector *vector;
    CU(gpumem_vector_create(&options, 8, bench.stream, &vector));
    size_t used = simcuda_used(0), copies = simcuda_calls("cuMemcpyAsync");
    void *base = gpumem_vector_data(vector);
    for (size_t count = MIB; count <= 8 * MIB; count += MIB) {
        CU(gpumem_vector_append(vector, MIB));
        assert_int_equal(gpumem_vector_count(vector), count);
        assert_int_equal(simcuda_used(0) - used, count * 8);
        assert_int_equal(gpumem_vector_capacity(vector), count);
    }
    assert_int_equal(simcuda_calls("cuMemcpyAsync"), copies);
    assert_ptr_equal(gpumem_vector_data(vector), base);
    CU(gpumem_vector_append(vector, 1));
    assert_int_equal(simcuda_used(0) - used, 64 * MIB + 2 * MIB);
    CU(gpumem_vector_destroy(vector));
}

TEST_WITH(copies_and_swaps, bench_open, bench_close) {
    struct pair one, other;
    seed = 11;
    pair_open(&one, NULL, 4);
    pair_open(&other, NULL, 4);
    for (unsigned i = 0; i < 20; i++) {
        one_step(&one, 3000);
        one_step(&other, 3000);
    }
    gpumem_vector_swap(one.vector, other.vector);
    struct pair swapped = {one.vector, other.model, other.count, 4};
    compare(&swapped);
    CU(gpumem_vector_copy(other.vector, one.vector));
    swapped.vector = other.vector;
    compare(&swapped);
    struct gpumem_vector *wide;
    CU(gpumem_vector_create(NULL, 8, bench.stream, &wide));
    assert_int_equal(gpumem_vector_copy(wide, one.vector), GPUMEM_INVALID_VALUE);
    CU(gpumem_vector_destroy(wide));
    pair_close(&one);
    pair_close(&other);
}

TEST_WITH(refuses_what_is_out_of_range, bench_open, bench_close) {
    struct gpumem_vector *vector = NULL;
    uint64_t value = 5;
    assert_int_equal(gpumem_vector_create(NULL, 0, bench.stream, &vector), GPUMEM_INVALID_VALUE);
    CU(gpumem_vector_create(NULL, 8, bench.stream, &vector));
    CU(gpumem_vector_resize(vector, 10, &value));
    assert_int_equal(gpumem_vector_insert(vector, 11, 1, &value), GPUMEM_INVALID_VALUE);
    assert_int_equal(gpumem_vector_insert(vector, 11, 0, &value), GPUMEM_INVALID_VALUE);
    assert_int_equal(gpumem_vector_erase(vector, 5, 6), GPUMEM_INVALID_VALUE);
    assert_int_equal(gpumem_vector_erase(vector, 5, SIZE_MAX), GPUMEM_INVALID_VALUE);
    assert_int_equal(gpumem_vector_fill(vector, 10, 1, &value), GPUMEM_INVALID_VALUE);
    assert_int_equal(gpumem_vector_push_back(vector, (char *)gpumem_vector_data(vector) + 3), GPUMEM_INVALID_VALUE);
    assert_int_equal(gpumem_vector_append(vector, SIZE_MAX), GPUMEM_OUT_OF_MEMORY);
    assert_int_equal(gpumem_vector_reserve(vector, SIZE_MAX / 4), GPUMEM_OUT_OF_MEMORY);
    assert_int_equal(gpumem_vector_count(vector), 10);
    CU(gpumem_vector_destroy(vector));
}

/* A growing insert that fails leaves the elements as they were. */
TEST_WITH(failing_inserts_lose_nothing, bench_open, bench_close) {
    for (unsigned n = 1;; n++) {
        struct gpumem_region_options options = {
            .struct_size = sizeof options, .reserve = 2 << 20, .flags = GPUMEM_REGION_EXACT};
        struct pair pair;
        seed = n;
        pair_open(&pair, &options, 4096);
        CU(gpumem_vector_resize(pair.vector, 500, random_value(4096)));
        pair.count = 500;
        CU(cuStreamSynchronize(bench.stream));
        CU(cuMemcpyDtoH_v2(pair.model, (CUdeviceptr)(uintptr_t)gpumem_vector_data(pair.vector), 500 * 4096));
        bench_fail_call(n);
        int status = gpumem_vector_insert(pair.vector, 490, 100, gpumem_vector_data(pair.vector));
        bool reached = bench_failed();
        if (status)
            assert_int_equal(gpumem_vector_count(pair.vector), 500);
        else
            model_insert(&pair, 490, 100, pair.model);
        /* Behind the position a move may have begun, so only the elements before it are compared. */
        size_t count = pair.count;
        pair.count = status ? 490 : count;
        CU(gpumem_vector_resize(pair.vector, pair.count, NULL));
        compare(&pair);
        pair_close(&pair);
        if (!reached)
            break;
        assert_true(n < 200);
    }
}

int main(void) { return run_all(NULL, NULL); }
