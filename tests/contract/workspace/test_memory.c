/* The memory of a workspace: growth and streams without waiting where the device has pools, captures, memory from
 * elsewhere, and every driver call failing once. */
#include "bench_workspace.h"

#include <stdio.h>

static void streams_as_started(void) {
    const char *mode = getenv("SIMCUDA_STREAMS");
    assert_int_equal(simcuda_set_streams(mode ? mode : "immediate"), 0);
    simcuda_run_all();
}

/* Growth while a kernel of an earlier loan has not run: with pools it goes on, without pools the free waits for it. */
TEST_WITH(growth_waits_only_without_pools, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    assert_int_equal(simcuda_set_streams("manual"), 0);
    struct gpumem_loan *loan = GPUMEM_WORKSPACE_BORROW(workspace, MIB);
    void *first = gpumem_loan_next(loan, MIB);
    bench_fill(first, MIB, 1);
    bench_check(first, MIB, 1);
    gpumem_loan_return(loan);
    int pending = simcuda_pending();
    uint64_t waited = waits(), calls = simcuda_calls(NULL);
    assert_true(pending >= 2);
    loan = GPUMEM_WORKSPACE_BORROW(workspace, 3 * MIB);
    assert_non_null(loan);
    assert_int_equal(simcuda_calls(NULL) - calls, 6); /* context, capture, the thread's mode twice, free, allocation */
    if (has_pools()) {
        assert_true(simcuda_pending() >= pending);
        assert_int_equal(waits(), waited);
    } else {
        assert_int_equal(simcuda_pending(), 0);
        assert_int_equal(waits(), waited + 1);
    }
    void *second = gpumem_loan_next(loan, 3 * MIB);
    bench_fill(second, 3 * MIB, 2);
    bench_check(second, 3 * MIB, 2);
    gpumem_loan_return(loan);
    streams_as_started();
    assert_int_equal(bench_differing(), 0);
    OK(gpumem_workspace_destroy(workspace));
}

/* A fixed size is allocated once, by set_size; calls afterwards neither allocate nor wait. */
TEST_WITH(a_fixed_size_never_waits, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(2 * MIB);
    uint64_t waited = waits(), allocated = allocations(), freed = frees();
    for (unsigned i = 0; i < 50; i++) {
        GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, (i + 1) * 100 * KIB);
        if (loan)
            bench_fill(gpumem_loan_next(loan, 100 * KIB), 100 * KIB, i);
    }
    assert_int_equal(waits(), waited);
    assert_int_equal(allocations() + frees(), allocated + freed);
    OK(gpumem_workspace_destroy(workspace));
}

/* Loans of one stream after the other use the same memory; the second stream waits for the first. */
TEST_WITH(a_new_stream_waits_for_the_former, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    CUstream other;
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    assert_int_equal(simcuda_set_streams("manual"), 0);
    for (unsigned turn = 0; turn < 4; turn++) {
        CUstream stream = turn % 2 ? other : bench.stream;
        uint64_t waited = waits();
        OK(gpumem_workspace_set_stream(workspace, stream));
        assert_ptr_equal(gpumem_workspace_stream(workspace), stream);
        assert_int_equal(waits(), waited);
        GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, MIB);
        void *buffer = gpumem_loan_next(loan, MIB);
        launch_in(bench.fill, stream, buffer, MIB, turn);
        launch_in(bench.check, stream, buffer, MIB, turn);
    }
    /* Each stream runs one operation in turn: without an order, one overwrites what the other checks. */
    while (simcuda_step(other) + simcuda_step(bench.stream))
        ;
    streams_as_started();
    assert_int_equal(bench_differing(), 0);
    OK(gpumem_workspace_set_stream(workspace, other));
    OK(gpumem_workspace_destroy(workspace));
    assert_int_equal(simcuda_calls("cuEventCreate"), 1);
    assert_int_equal(simcuda_calls("cuEventDestroy_v2"), 1);
    CU(cuStreamSynchronize(other));
    CU(cuStreamDestroy_v2(other));
}

static CUstream begin_capture(void) {
    CU(cuStreamBeginCapture_v2(bench.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    return bench.stream;
}

static void end_capture(CUstream stream) {
    CUgraph graph;
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphDestroy(graph));
}

/* Memory allocated by a capturing stream would belong to the graph. */
TEST_WITH(captures_are_left_alone, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0), *elsewhere, *none = NULL;
    struct gpumem_workspace_options options = {.struct_size = sizeof options};
    CUstream other;
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    options.stream = other;
    OK(gpumem_workspace_create(&options, &elsewhere));
    options.stream = bench.stream;
    CUstream stream = begin_capture();
    GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, MIB);
    assert_non_null(loan);
    bench_fill(gpumem_loan_next(loan, MIB), MIB, 3);
    gpumem_loan_end(&loan);
    loan = GPUMEM_WORKSPACE_BORROW(workspace, MIB + 1);
    assert_null(loan);
    assert_non_null(strstr(gpumem_last_error(), "captured"));
    assert_int_equal(gpumem_workspace_set_size(workspace, 64), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_int_equal(gpumem_workspace_destroy(workspace), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_int_equal(gpumem_workspace_create(&options, &none), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_int_equal(gpumem_workspace_set_stream(workspace, other), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_int_equal(gpumem_workspace_set_stream(elsewhere, bench.stream), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    end_capture(stream);
    OK(gpumem_workspace_destroy(elsewhere));
    CU(cuStreamSynchronize(other));
    CU(cuStreamDestroy_v2(other));
    assert_int_equal(size_of(workspace), MIB);
    loan = GPUMEM_WORKSPACE_BORROW(workspace, MIB + 1);
    assert_non_null(loan);
    gpumem_loan_end(&loan);
    OK(gpumem_workspace_destroy(workspace));
}

/* The driver refuses work in the legacy stream then, and ends the capture. */
TEST_WITH(the_legacy_stream_waits_for_captures, bench_open, close_workspace) {
    struct gpumem_workspace *workspace;
    CUstream blocking;
    CUgraph graph;
    OK(gpumem_workspace_create(NULL, &workspace));
    CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CU(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_null(gpumem_workspace_borrow_bytes(workspace, 2 * MIB, NULL));
    assert_int_equal(gpumem_workspace_set_stream(workspace, bench.stream), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_int_equal(gpumem_workspace_destroy(workspace), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    CU(cuStreamEndCapture(blocking, &graph));
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy_v2(blocking));
    assert_int_equal(size_of(workspace), MIB);
    OK(gpumem_workspace_destroy(workspace));
}

/* A capture of another stream is not invalidated by growth, nor by a change of stream. */
TEST_WITH(captures_of_others_go_on, bench_open, close_workspace) {
    CUstream other, third;
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    struct gpumem_workspace_options options = {.struct_size = sizeof options, .stream = other};
    struct gpumem_workspace *workspace;
    OK(gpumem_workspace_create(&options, &workspace));
    CUstream stream = begin_capture();
    gpumem_loan_return(GPUMEM_WORKSPACE_BORROW(workspace, 2 * MIB));
    assert_int_equal(size_of(workspace), 2 * MIB);
    OK(gpumem_workspace_set_stream(workspace, third));
    end_capture(stream);
    OK(gpumem_workspace_destroy(workspace));
    CU(cuStreamSynchronize(third));
    CU(cuStreamDestroy_v2(third));
    CU(cuStreamDestroy_v2(other));
}

/* More than the device has: what was there is there again, and a smaller loan succeeds. */
TEST_WITH(a_device_too_small, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    gpumem_loan_return(GPUMEM_WORKSPACE_BORROW(workspace, 3 * MIB));
    GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, (size_t)1 << 40);
    assert_null(loan);
    assert_non_null(strstr(gpumem_last_error(), "GPUMEM_OUT_OF_MEMORY"));
    assert_int_equal(size_of(workspace), 3 * MIB);
    uint64_t calls = simcuda_calls(NULL);
    loan = GPUMEM_WORKSPACE_BORROW(workspace, 3 * MIB);
    assert_non_null(loan);
    assert_int_equal(simcuda_calls(NULL), calls);
    gpumem_loan_end(&loan);
    assert_int_equal(gpumem_workspace_set_size(workspace, (size_t)1 << 40), GPUMEM_WORKSPACE_MEMORY_ERROR);
    assert_int_equal(size_of(workspace), 0);
    assert_int_equal(gpumem_workspace_is_managed(workspace), 0);
    loan = GPUMEM_WORKSPACE_BORROW(workspace, 1);
    assert_null(loan);
    OK(gpumem_workspace_set_size(workspace, 64));
    OK(gpumem_workspace_destroy(workspace));
    struct gpumem_workspace_options options = {.struct_size = sizeof options, .size = (size_t)1 << 40};
    assert_int_equal(gpumem_workspace_create(&options, &workspace), GPUMEM_WORKSPACE_MEMORY_ERROR);
}

/* ---- memory from elsewhere */

struct source {
    size_t live, calls, refuse_above;
    CUstream stream;
};

static void *source_allocate(size_t size, struct CUstream_st *stream, void *user) {
    struct source *source = user;
    CUdeviceptr address = 0;
    source->calls++;
    source->stream = stream;
    if (size > source->refuse_above || cuMemAlloc_v2(&address, size))
        return NULL;
    source->live += size;
    return (void *)(uintptr_t)address;
}

static void source_release(void *address, size_t size, struct CUstream_st *stream, void *user) {
    struct source *source = user;
    assert_ptr_equal(stream, source->stream);
    source->live -= size;
    CU(cuMemFree_v2((CUdeviceptr)(uintptr_t)address));
}

TEST_WITH(memory_from_elsewhere, bench_open, close_workspace) {
    struct source source = {.refuse_above = 2 * MIB};
    struct gpumem_workspace_options options = {.struct_size = sizeof options,
                                               .stream = bench.stream,
                                               .allocate = source_allocate,
                                               .release = source_release,
                                               .user = &source};
    struct gpumem_workspace *workspace;
    OK(gpumem_workspace_create(&options, &workspace));
    assert_int_equal(source.live, MIB);
    assert_ptr_equal(source.stream, bench.stream);
    gpumem_loan_return(GPUMEM_WORKSPACE_BORROW(workspace, 2 * MIB));
    assert_int_equal(source.live, 2 * MIB);
    assert_null(GPUMEM_WORKSPACE_BORROW(workspace, 3 * MIB));
    assert_int_equal(source.live, 2 * MIB);
    assert_int_equal(source.calls, 4); /* the first, the larger, the refused, the larger again */
    OK(gpumem_workspace_set_size(workspace, 0));
    assert_int_equal(source.live, 0);
    OK(gpumem_workspace_destroy(workspace));
}

/* ---- failures: bench_close() finds what is leaked */

/* What a handle does in its life. Steps that fail leave a workspace that still works. */
static void life(struct gpumem_workspace **made, CUstream other) {
    struct gpumem_workspace_options options = {.struct_size = sizeof options, .stream = bench.stream};
    if (gpumem_workspace_create(&options, made))
        return;
    gpumem_loan_return(GPUMEM_WORKSPACE_BORROW(*made, 3 * MIB));
    (void)gpumem_workspace_set_stream(*made, other);
    (void)gpumem_workspace_set_size(*made, 5 * MIB);
    (void)gpumem_workspace_set_size(*made, 0);
    GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(*made, 64);
    (void)gpumem_workspace_destroy(*made); /* refused while the loan may be alive */
    if (!loan)
        *made = NULL;
}

static void check_state(struct gpumem_workspace *workspace) {
    if (!workspace)
        return;
    OK(gpumem_workspace_set_size(workspace, 2 * MIB));
    GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, 2 * MIB);
    assert_non_null(loan);
    gpumem_loan_end(&loan);
    OK(gpumem_workspace_destroy(workspace));
}

TEST_WITH(every_call_fails_once, bench_open, close_workspace) {
    CUstream other;
    bool reached = true;
    unsigned n = 0;
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (n = 1; reached; n++) {
        struct gpumem_workspace *workspace = NULL;
        bench_fail_call(n);
        life(&workspace, other);
        reached = bench_failed();
        check_state(workspace);
    }
    assert_true(n > 10);
    CU(cuStreamSynchronize(bench.stream));
    CU(cuStreamSynchronize(other));
    CU(cuStreamDestroy_v2(other));
}

/* The caller's own memory is lent, never freed and never grown, until the workspace takes memory of its own again. */
TEST_WITH(memory_of_the_caller, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    CUdeviceptr own;
    CU(cuMemAlloc_v2(&own, MIB));
    char *address = (char *)(uintptr_t)own;
    OK(gpumem_workspace_set(workspace, address, MIB + 63));
    assert_int_equal(size_of(workspace), MIB);
    assert_int_equal(gpumem_workspace_is_managed(workspace), 0);
    const uint64_t freed = frees();
    struct gpumem_loan *loan = gpumem_workspace_borrow_bytes(workspace, MIB, NULL);
    assert_ptr_equal(loan->address, address);
    assert_int_equal(gpumem_workspace_set(workspace, NULL, 0), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    gpumem_loan_return(loan);
    assert_null(gpumem_workspace_borrow_bytes(workspace, MIB + 1, NULL));
    assert_int_equal(gpumem_workspace_set(workspace, address + 8, 64), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_int_equal(gpumem_workspace_set(workspace, NULL, 64), GPUMEM_WORKSPACE_INVALID_POINTER);
    assert_int_equal(gpumem_workspace_set(NULL, address, 64), GPUMEM_WORKSPACE_INVALID_POINTER);
    assert_int_equal(size_of(workspace), MIB);
    OK(gpumem_workspace_set_size(workspace, 4 * KIB));
    assert_int_equal(frees(), freed);
    loan = gpumem_workspace_borrow_bytes(workspace, 4 * KIB, NULL);
    assert_ptr_not_equal(loan->address, address);
    gpumem_loan_return(loan);
    OK(gpumem_workspace_set(workspace, address, MIB));
    OK(gpumem_workspace_destroy(workspace));
    CU(cuMemFree_v2(own)); /* it was not freed before */
}

TEST_WITH(memory_of_a_resource, bench_open, close_workspace) {
    static const char *const texts[] = {"async", "native", "vmm"};
    for (int i = has_pools() ? 0 : 2; i < 3; i++) { /* the former two allocate in stream order */
        struct gpumem_workspace_options options = {.struct_size = sizeof options, .stream = bench.stream, .size = MIB};
        struct gpumem_resource_info info = {.struct_size = sizeof info};
        struct gpumem_resource *resource;
        struct gpumem_workspace *workspace;
        assert_int_equal(gpumem_resource_create(texts[i], &resource), GPUMEM_OK);
        gpumem_workspace_use_resource(&options, resource);
        OK(gpumem_workspace_create(&options, &workspace));
        assert_int_equal(gpumem_resource_get_info(resource, &info), GPUMEM_OK);
        assert_int_equal(info.live_bytes, MIB);
        OK(gpumem_workspace_destroy(workspace));
        assert_int_equal(gpumem_resource_get_info(resource, &info), GPUMEM_OK);
        assert_int_equal(info.live_count + info.mismatches, 0);
        CU(cuCtxSynchronize());
        assert_int_equal(gpumem_resource_destroy(resource), GPUMEM_OK);
    }
}

int main(void) { return run_all(NULL, NULL); }
