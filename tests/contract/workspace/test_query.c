/* Queries of sizes, seen from a small library that uses a workspace as the header shows; data types; pointer mode. */
#include "bench_workspace.h"

#include <library_types.h>

#if __has_include(<cublas_api.h>)
#include <cublas_api.h>
#endif

/* ---- a library: its functions fill buffers of the workspace and check them */

static void work(void *buffer, size_t size, uint32_t pattern) {
    bench_fill(buffer, size, pattern);
    bench_check(buffer, size, pattern);
}

static enum gpumem_workspace_status library_large_or_small(struct gpumem_workspace *workspace, size_t large,
                                                           size_t small) {
    if (gpumem_workspace_is_query(workspace))
        return GPUMEM_WORKSPACE_SET_OPTIMAL(workspace, large);
    GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, large);
    if (loan) {
        work(gpumem_loan_next(loan, large), large, 1);
        return GPUMEM_WORKSPACE_SUCCESS;
    }
    loan = GPUMEM_WORKSPACE_BORROW(workspace, small);
    if (!loan)
        return GPUMEM_WORKSPACE_MEMORY_ERROR;
    work(gpumem_loan_next(loan, small), small, 2);
    return GPUMEM_WORKSPACE_PERF_DEGRADED;
}

static enum gpumem_workspace_status library_three_buffers(struct gpumem_workspace *workspace, size_t a, size_t b,
                                                          size_t c) {
    const size_t sizes[] = {a, b, c};
    void *buffers[3];
    if (gpumem_workspace_is_query(workspace))
        return gpumem_workspace_set_optimal(workspace, 3, sizes);
    GPUMEM_LOAN loan = gpumem_workspace_borrow(workspace, 3, sizes, buffers, GPUMEM_WORKSPACE_SITE);
    if (!loan)
        return GPUMEM_WORKSPACE_MEMORY_ERROR;
    for (unsigned i = 0; i < 3; i++)
        work(buffers[i], sizes[i], i);
    return GPUMEM_WORKSPACE_SUCCESS;
}

static enum gpumem_workspace_status library_without_memory(struct gpumem_workspace *workspace, uint64_t *launches) {
    GPUMEM_WORKSPACE_RETURN_ZERO_IF_QUERIED(workspace);
    ++*launches;
    return GPUMEM_WORKSPACE_SUCCESS;
}

/* A function that does not know of queries. */
static enum gpumem_workspace_status library_forgetful(struct gpumem_workspace *workspace) {
    GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, 100);
    if (!loan)
        return GPUMEM_WORKSPACE_MEMORY_ERROR;
    work(gpumem_loan_next(loan, 100), 100, 5);
    return GPUMEM_WORKSPACE_SUCCESS;
}

/* ---- queries */

static size_t stop(struct gpumem_workspace *workspace) {
    size_t size = 77;
    OK(gpumem_workspace_stop_query(workspace, &size));
    return size;
}

TEST_WITH(queries_match, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    size_t size = 77;
    assert_int_equal(gpumem_workspace_stop_query(workspace, &size), GPUMEM_WORKSPACE_SIZE_QUERY_MISMATCH);
    assert_int_equal(gpumem_workspace_stop_query(workspace, NULL), GPUMEM_WORKSPACE_SIZE_QUERY_MISMATCH);
    assert_int_equal(size, 77);
    assert_int_equal(gpumem_workspace_is_query(workspace), 0);
    OK(gpumem_workspace_start_query(workspace));
    assert_int_equal(gpumem_workspace_is_query(workspace), 1);
    assert_int_equal(gpumem_workspace_start_query(workspace), GPUMEM_WORKSPACE_SIZE_QUERY_MISMATCH);
    assert_int_equal(GPUMEM_WORKSPACE_SET_OPTIMAL(workspace, 100), GPUMEM_WORKSPACE_SIZE_INCREASED);
    assert_int_equal(gpumem_workspace_stop_query(workspace, NULL), GPUMEM_WORKSPACE_INVALID_POINTER);
    assert_int_equal(gpumem_workspace_is_query(workspace), 1);
    assert_int_equal(stop(workspace), 128);
    assert_int_equal(gpumem_workspace_start_query(NULL), GPUMEM_WORKSPACE_INVALID_POINTER);
    assert_int_equal(gpumem_workspace_stop_query(NULL, &size), GPUMEM_WORKSPACE_INVALID_POINTER);
    assert_int_equal(gpumem_workspace_is_query(NULL), 0);
    OK(gpumem_workspace_destroy(workspace));
}

/* 255 sizes cannot overflow in the macros; the calls take any number. */
TEST_WITH(the_sum_of_many_sizes_does_not_overflow, bench_open, close_workspace) {
    static size_t sizes[1025];
    struct gpumem_workspace *workspace = workspace_of(0);
    for (int i = 0; i < 1025; i++)
        sizes[i] = SIZE_MAX / 1024; /* modulo 2^64, the rounded sizes sum up to 2^54 */
    OK(gpumem_workspace_start_query(workspace));
    assert_int_equal(gpumem_workspace_set_optimal(workspace, 1025, sizes), GPUMEM_WORKSPACE_SIZE_INCREASED);
    assert_true(stop(workspace) >= SIZE_MAX / 256);
    OK(gpumem_workspace_destroy(workspace));
}

TEST_WITH(the_running_maximum_is_kept, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    OK(gpumem_workspace_start_query(workspace));
    assert_int_equal(GPUMEM_WORKSPACE_SET_OPTIMAL(workspace, 0), GPUMEM_WORKSPACE_SIZE_UNCHANGED);
    assert_int_equal(GPUMEM_WORKSPACE_SET_OPTIMAL(workspace, 65), GPUMEM_WORKSPACE_SIZE_INCREASED);
    assert_int_equal(GPUMEM_WORKSPACE_SET_OPTIMAL(workspace, 128), GPUMEM_WORKSPACE_SIZE_UNCHANGED);
    assert_int_equal(GPUMEM_WORKSPACE_SET_OPTIMAL(workspace, 64, 1), GPUMEM_WORKSPACE_SIZE_UNCHANGED);
    assert_int_equal(GPUMEM_WORKSPACE_SET_OPTIMAL(workspace, 65, 1), GPUMEM_WORKSPACE_SIZE_INCREASED);
    assert_int_equal(gpumem_workspace_set_optimal(workspace, 2, (size_t[]){1, 1}), GPUMEM_WORKSPACE_SIZE_UNCHANGED);
    assert_int_equal(stop(workspace), 192);
    OK(gpumem_workspace_start_query(workspace)); /* each query begins anew */
    assert_int_equal(stop(workspace), 0);
    assert_int_equal(GPUMEM_WORKSPACE_SET_OPTIMAL(workspace, 64), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_int_equal(gpumem_workspace_set_optimal(workspace, 1, NULL), GPUMEM_WORKSPACE_INVALID_POINTER);
    assert_int_equal(gpumem_workspace_set_optimal_bytes(NULL, 1), GPUMEM_WORKSPACE_INVALID_POINTER);
    OK(gpumem_workspace_destroy(workspace));
}

/* No function succeeds, and the driver is not called. */
TEST_WITH(a_queried_call_does_nothing, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    uint64_t launches = 0, calls;
    OK(gpumem_workspace_start_query(workspace));
    calls = simcuda_calls(NULL);
    assert_int_equal(library_large_or_small(workspace, 3 * MIB, 5), GPUMEM_WORKSPACE_SIZE_INCREASED);
    assert_int_equal(library_large_or_small(workspace, 2 * MIB, 5), GPUMEM_WORKSPACE_SIZE_UNCHANGED);
    assert_int_equal(library_three_buffers(workspace, MIB, MIB, MIB + 1), GPUMEM_WORKSPACE_SIZE_INCREASED);
    assert_int_equal(library_without_memory(workspace, &launches), GPUMEM_WORKSPACE_SIZE_UNCHANGED);
    assert_int_equal(library_forgetful(workspace), GPUMEM_WORKSPACE_MEMORY_ERROR);
    assert_non_null(strstr(gpumem_last_error(), "query"));
    assert_int_equal(simcuda_calls(NULL), calls);
    assert_int_equal(launches, 0);
    assert_int_equal(stop(workspace), 3 * MIB + 64);
    assert_int_equal(size_of(workspace), MIB);
    OK(library_without_memory(workspace, &launches));
    assert_int_equal(launches, 1);
    OK(gpumem_workspace_destroy(workspace));
}

static uint32_t seed = 1;
static size_t random_size(void) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % (4 * MIB) + 4;
}

static enum gpumem_workspace_status random_call(struct gpumem_workspace *workspace, unsigned kind) {
    uint64_t launches = 0;
    size_t a = random_size(), b = random_size(), c = random_size();
    return kind == 0   ? library_large_or_small(workspace, a, 64)
           : kind == 1 ? library_three_buffers(workspace, a, b, c)
                       : library_without_memory(workspace, &launches);
}

/* The answer of a query is the least size with which no call of the same arguments degrades. */
TEST_WITH(the_answer_suffices, bench_open, close_workspace) {
    enum { CALLS = 12, ROUNDS = 20 };
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        struct gpumem_workspace *workspace = workspace_of(0);
        OK(gpumem_workspace_start_query(workspace));
        seed = round;
        for (unsigned i = 0; i < CALLS; i++)
            assert_int_not_equal(random_call(workspace, i % 3), GPUMEM_WORKSPACE_SUCCESS);
        size_t answer = stop(workspace);
        OK(gpumem_workspace_set_size(workspace, answer));
        uint64_t changes = allocations() + frees(), waited = waits();
        seed = round;
        for (unsigned i = 0; i < CALLS; i++)
            OK(random_call(workspace, i % 3));
        assert_int_equal(allocations() + frees(), changes);
        assert_int_equal(waits(), waited);
        assert_int_equal(size_of(workspace), answer);
        OK(gpumem_workspace_set_size(workspace, answer - 64));
        seed = round;
        unsigned poor = 0;
        for (unsigned i = 0; i < CALLS; i++)
            poor += random_call(workspace, i % 3) != GPUMEM_WORKSPACE_SUCCESS;
        assert_true(poor >= 1);
        OK(gpumem_workspace_destroy(workspace));
    }
    assert_int_equal(bench_differing(), 0);
}

TEST_WITH(less_memory_means_a_slower_algorithm_or_none, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(MIB);
    OK(library_large_or_small(workspace, MIB, 64));
    assert_int_equal(library_large_or_small(workspace, MIB + 1, 64), GPUMEM_WORKSPACE_PERF_DEGRADED);
    assert_int_equal(library_large_or_small(workspace, MIB + 1, MIB + 1), GPUMEM_WORKSPACE_MEMORY_ERROR);
    assert_int_equal(library_three_buffers(workspace, MIB, 1, 1), GPUMEM_WORKSPACE_MEMORY_ERROR);
    assert_int_equal(bench_differing(), 0);
    OK(gpumem_workspace_destroy(workspace));
}

/* ---- statuses, data types, pointer mode */

TEST_WITH(statuses_have_names_and_numbers_of_their_own, bench_open, close_workspace) {
    for (int number = GPUMEM_WORKSPACE_SIZE_INCREASED; number <= GPUMEM_WORKSPACE_PERF_DEGRADED; number++) {
        assert_true(number > GPUMEM_UNKNOWN);
        assert_non_null(
            strstr(gpumem_workspace_status_name((enum gpumem_workspace_status)number), "GPUMEM_WORKSPACE_"));
    }
    assert_string_equal(gpumem_workspace_status_name(GPUMEM_WORKSPACE_SUCCESS), "GPUMEM_WORKSPACE_SUCCESS");
    assert_string_equal(gpumem_workspace_status_name((enum gpumem_workspace_status)7), "unknown status");
}

TEST_WITH(data_types_have_their_actual_size, bench_open, close_workspace) {
#define ROW(type, of) \
    { type, sizeof(of) * 8 }
    static const struct {
        int type;
        size_t bits;
    } rows[] = {
        ROW(CUDA_R_64F, double),
        ROW(CUDA_C_64F, double[2]),
        ROW(CUDA_R_32F, float),
        ROW(CUDA_C_32F, float[2]),
        ROW(CUDA_R_16F, uint16_t),
        ROW(CUDA_C_16F, uint16_t[2]),
        ROW(CUDA_R_16BF, uint16_t),
        ROW(CUDA_C_16BF, uint16_t[2]),
        ROW(CUDA_R_8I, int8_t),
        ROW(CUDA_C_8I, int8_t[2]),
        ROW(CUDA_R_8U, uint8_t),
        ROW(CUDA_C_8U, uint8_t[2]),
        ROW(CUDA_R_16I, int16_t),
        ROW(CUDA_C_16I, int16_t[2]),
        ROW(CUDA_R_16U, uint16_t),
        ROW(CUDA_C_16U, uint16_t[2]),
        ROW(CUDA_R_32I, int32_t),
        ROW(CUDA_C_32I, int32_t[2]),
        ROW(CUDA_R_32U, uint32_t),
        ROW(CUDA_C_32U, uint32_t[2]),
        ROW(CUDA_R_64I, int64_t),
        ROW(CUDA_C_64I, int64_t[2]),
        ROW(CUDA_R_64U, uint64_t),
        ROW(CUDA_C_64U, uint64_t[2]),
        {CUDA_R_4I, 4},
        {CUDA_C_4I, 8},
        {CUDA_R_4U, 4},
        {CUDA_C_4U, 8},
        {28, 8}, /* CUDA_R_8F_E4M3 and so on: older toolkits lack the names */
        {29, 8},
        {30, 8},
        {31, 6},
        {32, 6},
        {33, 4},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(gpumem_workspace_bits_of_datatype(rows[i].type), rows[i].bits);
        assert_int_equal(gpumem_workspace_sizeof_datatype(rows[i].type), rows[i].bits / 8);
    }
    assert_int_equal(sizeof rows / sizeof *rows, 34);
    assert_int_equal(gpumem_workspace_sizeof_datatype(-1), 0);
    assert_int_equal(gpumem_workspace_sizeof_datatype(34), 0);
#ifdef CUBLAS_VER_MAJOR
    assert_int_equal(gpumem_workspace_sizeof_compute_type(CUBLAS_COMPUTE_16F), 2);
    assert_int_equal(gpumem_workspace_sizeof_compute_type(CUBLAS_COMPUTE_32F), sizeof(float));
    assert_int_equal(gpumem_workspace_sizeof_compute_type(CUBLAS_COMPUTE_32F_FAST_TF32), sizeof(float));
    assert_int_equal(gpumem_workspace_sizeof_compute_type(CUBLAS_COMPUTE_64F_PEDANTIC), sizeof(double));
    assert_int_equal(gpumem_workspace_sizeof_compute_type(CUBLAS_COMPUTE_32I), sizeof(int32_t));
#endif
    assert_int_equal(gpumem_workspace_sizeof_compute_type(0), 0);
}

static enum gpumem_pointer_mode mode_inside(struct gpumem_workspace *workspace, enum gpumem_pointer_mode mode,
                                            enum gpumem_pointer_mode *former) {
    GPUMEM_SAVED_POINTER_MODE saved = gpumem_workspace_push_pointer_mode(workspace, mode);
    *former = saved.mode;
    return gpumem_workspace_pointer_mode(workspace);
}

TEST_WITH(the_pointer_mode_is_restored, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    enum gpumem_pointer_mode former;
    assert_int_equal(gpumem_workspace_pointer_mode(workspace), GPUMEM_POINTER_MODE_HOST);
    gpumem_workspace_set_pointer_mode(workspace, GPUMEM_POINTER_MODE_DEVICE);
    assert_int_equal(mode_inside(workspace, GPUMEM_POINTER_MODE_HOST, &former), GPUMEM_POINTER_MODE_HOST);
    assert_int_equal(former, GPUMEM_POINTER_MODE_DEVICE);
    assert_int_equal(gpumem_workspace_pointer_mode(workspace), GPUMEM_POINTER_MODE_DEVICE);
    assert_int_equal(gpumem_workspace_set_pointer_mode(workspace, (enum gpumem_pointer_mode)77),
                     GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_int_equal(gpumem_workspace_pointer_mode(workspace), GPUMEM_POINTER_MODE_DEVICE);
    assert_int_equal(gpumem_workspace_set_pointer_mode(NULL, GPUMEM_POINTER_MODE_HOST),
                     GPUMEM_WORKSPACE_INVALID_POINTER);
    assert_int_equal(gpumem_workspace_pointer_mode(NULL), GPUMEM_POINTER_MODE_HOST);
    assert_null(gpumem_workspace_stream(NULL));
    OK(gpumem_workspace_destroy(workspace));
}

int main(void) { return run_all(NULL, NULL); }
