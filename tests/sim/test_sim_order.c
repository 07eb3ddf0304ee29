/* The order of work in the simulated driver; above all, memory reused too early is caught. */
#include <stdio.h>

#include "sim_test.h"

SIM_TEST(stream_ordered_reuse_is_caught) {
    CUdeviceptr p;
    CUstream a = new_stream(), b = new_stream();
    simcuda_set_streams("manual");
    OK(cuMemAllocAsync(&p, MIB, a));
    OK(cuStreamSynchronize(a));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 1, b);
    OK(cuMemFreeAsync(p, a)); /* nothing orders this after the kernel in b */
    assert_int_equal(simcuda_step(a), 1);
    assert_int_equal(simcuda_step(b), 1);
    assert_int_equal(simcuda_violations(), 1);
    assert_int_equal(cuStreamSynchronize(b), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemAlloc(&p, 16), CUDA_ERROR_ILLEGAL_ADDRESS); /* sticky */
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuCtxSetCurrent(ctx));
    OK(cuMemAlloc(&p, 16));
}

static void touch_first_word(const struct simcuda_launch *l) {
    uint32_t *word = l->touch(*(void **)l->args[0], 4, 1);
    if (word)
        *word = *(uint32_t *)l->args[2];
}

/* Memory given back and got again behind a kernel in its stream is the kernel's until then. */
SIM_TEST(memory_is_promised_in_order) {
    CUdeviceptr first, again;
    CUstream s = new_stream();
    assert_int_equal(simcuda_register_kernel("touch_first_word", "p84", touch_first_word), 0);
    simcuda_set_streams("manual");
    OK(cuMemAllocAsync(&first, MIB, s));
    launch("touch_first_word", first, 4, 7, s);
    OK(cuMemFreeAsync(first, s));
    OK(cuMemAllocAsync(&again, MIB, s));
    assert_int_equal(again, first);
    launch("touch_first_word", again, 4, 8, s);
    OK(cuStreamSynchronize(s));
    assert_int_equal(simcuda_violations(), 0);
    OK(cuMemFreeAsync(again, s));
    OK(cuStreamSynchronize(s));
}

SIM_TEST(notes_and_patterns_catch_reuse) {
    CUdeviceptr p;
    CUstream a = new_stream(), b = new_stream();
    CUevent e;
    simcuda_set_streams("manual");
    OK(cuMemAlloc(&p, MIB));
    assert_int_equal(simcuda_declare_alloc(p, 4096, SIMCUDA_ANY_STREAM), 0);
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 1, a);
    launch(SIMCUDA_KERNEL_CHECK, p, 4096, 1, a);
    assert_int_equal(simcuda_declare_free(p), 2);
    OK(cuEventCreate(&e, 0));
    OK(cuEventRecord(e, a));
    /* In the same stream, or after an event of it, the reuse is sound. */
    assert_int_equal(simcuda_declare_alloc(p, 4096, a), 0);
    OK(cuStreamWaitEvent(b, e, 0));
    assert_int_equal(simcuda_declare_alloc(p, 4096, b), 0);
    assert_int_equal(simcuda_violations(), 0);
    CUstream c = new_stream();
    assert_int_equal(simcuda_declare_alloc(p, 4096, c), 2);
    assert_int_equal(simcuda_violations(), 2);
    /* And the data says so too: the new user's fill comes between the old user's fill and check. */
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 2, c);
    assert_int_equal(simcuda_step(a), 1);
    assert_int_equal(simcuda_step(c), 1);
    simcuda_run_all();
    assert_int_equal(simcuda_check_runs(), 1);
    assert_int_equal(simcuda_check_mismatches(), 1024);
    OK(cuMemFree(p));
}

SIM_TEST(legacy_stream_orders) {
    CUdeviceptr p;
    CUstream blocking, free_running = new_stream();
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    simcuda_set_streams("manual");
    OK(cuMemAlloc(&p, MIB));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 1, blocking);
    launch(SIMCUDA_KERNEL_CHECK, p, MIB, 1, NULL);
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 2, blocking);
    assert_int_equal(simcuda_step(NULL), 0); /* waits for the blocking stream */
    assert_int_equal(simcuda_step(blocking), 1);
    assert_int_equal(simcuda_step(blocking), 0); /* waits for the legacy stream */
    assert_int_equal(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
    OK(cuStreamQuery(free_running));
    OK(cuCtxSynchronize());
    assert_int_equal(simcuda_check_mismatches(), 0);
    assert_int_equal(simcuda_check_runs(), 1);
    OK(cuMemFree(p));
}

SIM_TEST(context_events) {
    CUdeviceptr p;
    CUstream a = new_stream(), b = new_stream();
    CUevent e;
    simcuda_set_streams("manual");
    OK(cuMemAlloc(&p, MIB));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 1, a);
    OK(cuCtxRecordEvent(ctx, e));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 2, b); /* later than the record */
    assert_int_equal(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    assert_int_equal(simcuda_step(a), 1);
    OK(cuEventQuery(e));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 3, a);
    OK(cuCtxRecordEvent(ctx, e));
    OK(cuCtxWaitEvent(ctx, e));
    CUstream late = new_stream();
    launch(SIMCUDA_KERNEL_CHECK, p, MIB, 3, late);
    assert_int_equal(simcuda_step(late), 0);
    simcuda_run_all();
    assert_int_equal(simcuda_check_runs(), 1);
    OK(cuEventDestroy(e));
    OK(cuMemFree(p));
}

SIM_TEST(capture_rules) {
    CUstream s = new_stream();
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstreamCaptureStatus status;
    CUgraph graph;
    CUevent e;
    CUdeviceptr p;
    OK(cuEventCreate(&e, 0));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(cuEventQuery(e), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamIsCapturing(s, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_int_equal(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_int_equal(cuMemAlloc(&p, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuThreadExchangeStreamCaptureMode(&relaxed));
    assert_int_equal(relaxed, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuMemAlloc(&p, 4096));
    OK(cuEventQuery(e));
    OK(cuThreadExchangeStreamCaptureMode(&relaxed));
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 6, s);
    OK(cuStreamEndCapture(s, &graph));
    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, s));
    launch(SIMCUDA_KERNEL_CHECK, p, 4096, 6, s);
    OK(cuStreamSynchronize(s));
    assert_int_equal(simcuda_check_mismatches(), 0);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cuCtxRecordEvent(ctx, e), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuMemFree(p));
}

/* A query of the legacy stream leaves the capture valid, work in it does not. */
SIM_TEST(captures_of_blocking_streams) {
    CUstreamCaptureStatus status;
    CUstream blocking;
    CUgraph graph;
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 4096));
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    OK(cuStreamEndCapture(blocking, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cuMemsetD8Async(p, 1, 4096, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamDestroy(blocking));
    OK(cuMemFree(p));
}

SIM_TEST(graph_memory) {
    CUstream s = new_stream();
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr p;
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&p, 4096, s));
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 3, s);
    launch(SIMCUDA_KERNEL_CHECK, p, 4096, 3, s);
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamEndCapture(s, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, s));
    OK(cuGraphLaunch(exec, s));
    OK(cuStreamSynchronize(s));
    assert_int_equal(simcuda_check_runs(), 2);
    assert_int_equal(simcuda_check_mismatches(), 0);
    assert_int_equal(simcuda_violations(), 0);
    OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(exec));
}

static void launch_programmatic(CUfunction f, CUdeviceptr p, uint32_t value, CUstream s) {
    uint64_t bytes = MIB;
    void *params[] = {&p, &bytes, &value};
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = s,
                             .attrs = &attribute,
                             .numAttrs = 1};
    OK(cuLaunchKernelEx(&config, f, params, NULL));
}

/* A programmatic launch begins before the kernel right before it ends, and not before anything else. */
SIM_TEST(programmatic_launches_overtake) {
    CUdeviceptr p;
    CUfunction check;
    CUevent e;
    CUstream s = new_stream();
    OK(cuModuleGetFunction(&check, module, SIMCUDA_KERNEL_CHECK));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&p, MIB));
    OK(cuMemsetD8(p, 0, MIB));
    simcuda_set_streams("manual");
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 5, s);
    launch_programmatic(check, p, 0, s);
    launch_programmatic(check, p, 5, s); /* the first kernel has ended before */
    OK(cuStreamSynchronize(s));
    assert_int_equal(simcuda_check_runs(), 2);
    assert_int_equal(simcuda_check_mismatches(), 0);
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 6, s);
    OK(cuEventRecord(e, s));
    launch_programmatic(check, p, 6, s);
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 7, s);
    OK(cuMemsetD8Async(p, 0, MIB, s));
    launch_programmatic(check, p, 0, s);
    OK(cuStreamSynchronize(s));
    assert_int_equal(simcuda_check_mismatches(), 0);
    assert_int_equal(simcuda_check_runs(), 4);
    OK(cuEventDestroy(e));
    OK(cuMemFree(p));
}

static uint64_t reserved_by_graphs(void) {
    cuuint64_t bytes;
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes));
    return bytes;
}

/* Memory of a graph that is not to run goes back to the device, until the next launch. */
SIM_TEST(graph_memory_is_trimmed) {
    CUstream s = new_stream();
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr p;
    size_t used = simcuda_used(0);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&p, 4 * MIB, s));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 3, s);
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamEndCapture(s, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    simcuda_set_streams("manual");
    for (int i = 0; i < 2; i++) {
        OK(cuGraphLaunch(exec, s));
        OK(cuDeviceGraphMemTrim(0));
        assert_int_equal(reserved_by_graphs(), 4 * MIB);
        OK(cuStreamSynchronize(s));
        OK(cuDeviceGraphMemTrim(0));
        assert_int_equal(reserved_by_graphs(), 0);
        assert_int_equal(simcuda_used(0), used);
    }
    OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(exec));
    assert_int_equal(simcuda_used(0), used);
    assert_int_equal(simcuda_violations(), 0);
}

SIM_TEST(random_order_keeps_results) {
    CUdeviceptr p[3];
    CUstream s[3];
    for (int seed = 1; seed <= 20; seed++) {
        char mode[32];
        snprintf(mode, sizeof mode, "random:%d", seed);
        assert_int_equal(simcuda_set_streams(mode), 0);
        for (int i = 0; i < 3; i++) {
            s[i] = new_stream();
            OK(cuMemAllocAsync(&p[i], 4096, s[i]));
            launch(SIMCUDA_KERNEL_FILL, p[i], 4096, (uint32_t)i, s[i]);
            launch(SIMCUDA_KERNEL_CHECK, p[i], 4096, (uint32_t)i, s[i]);
            OK(cuMemFreeAsync(p[i], s[i]));
        }
        OK(cuCtxSynchronize());
        for (int i = 0; i < 3; i++)
            OK(cuStreamDestroy(s[i]));
    }
    assert_int_equal(simcuda_check_runs(), 60);
    assert_int_equal(simcuda_check_mismatches(), 0);
    assert_int_equal(simcuda_violations(), 0);
}

SIM_TEST(value_waits) {
    CUdeviceptr flag, p;
    CUstream a = new_stream(), b = new_stream();
    OK(cuMemAlloc(&flag, 8));
    OK(cuMemAlloc(&p, 4096));
    OK(cuMemsetD8(flag, 0, 8));
    OK(cuStreamWaitValue32(a, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 5, a);
    assert_int_equal(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    OK(cuStreamWriteValue32(b, flag, 1, 0));
    OK(cuStreamSynchronize(a));
    OK(cuMemFree(flag));
    OK(cuMemFree(p));
}

int main(void) { return run_all(NULL, NULL); }
