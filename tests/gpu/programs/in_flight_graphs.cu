// Graphs that the host launches: captured kernels, a loop, a graph in a graph, graphs over two devices.
#include "in_flight.h"

static cudaGraph_t &graph_of(Trial &trial) { return (cudaGraph_t &)trial.own[0]; }
static cudaGraphExec_t &exec_of(Trial &trial) { return (cudaGraphExec_t &)trial.own[1]; }

static const char *instantiate(Trial &trial) {
    NEED(cudaGraphInstantiate(&exec_of(trial), graph_of(trial), 0));
    NEED(cudaGraphUpload(exec_of(trial), trial.stream));
    NEED(cudaStreamSynchronize(trial.stream));
    return nullptr;
}

static void launch(Trial &trial) { CHECK(cudaGraphLaunch(exec_of(trial), trial.stream)); }

static void destroy(Trial &trial) {
    CHECK(cudaGraphExecDestroy(exec_of(trial)));
    CHECK(cudaGraphDestroy(graph_of(trial)));
}

static const char *capture_work(Trial &trial) {
    NEED(cudaStreamBeginCapture(trial.stream, cudaStreamCaptureModeThreadLocal));
    work_on(trial, trial.stream);
    NEED(cudaStreamEndCapture(trial.stream, &graph_of(trial)));
    return nullptr;
}

static const char *prepare_kernels(Trial &trial) {
    const char *why = capture_work(trial);
    return why ? why : instantiate(trial);
}

static const char *prepare_child(Trial &trial) {
    CUgraph outer;
    CUgraphNode node;
    const char *why = capture_work(trial);
    if (why)
        return why;
    NEED(cuGraphCreate(&outer, 0));
    NEED(cuGraphAddChildGraphNode(&node, outer, NULL, 0, (CUgraph)graph_of(trial)));
    NEED(cudaGraphDestroy(graph_of(trial)));
    graph_of(trial) = (cudaGraph_t)outer;
    return instantiate(trial);
}

// Replayed while an earlier launch still runs: the second one is behind the first.
static void launch_twice(Trial &trial) {
    launch(trial);
    CHECK(cudaMemcpyAsync(trial.target, trial.block, trial.words * sizeof(unsigned), cudaMemcpyDeviceToDevice,
                          trial.stream));
    expect_on(trial, trial.target, WRITTEN, trial.stream);
}

#if CUDART_VERSION >= 12040 && !defined(SIM_TWINS)
// Rounds of the loop but the last do nothing but take time.
static __global__ void go_on(cudaGraphConditionalHandle loop, unsigned *left) {
    cudaGraphSetConditional(loop, --*left > 0);
}

static __global__ void set_rounds(unsigned *left, unsigned rounds) { *left = rounds; }

static const char *prepare_loop(Trial &trial) {
    cudaGraphConditionalHandle loop;
    cudaGraphNode_t first, node;
    cudaGraphNodeParams parameters = {};
    unsigned *left, rounds = 4;
    NEED(cudaMalloc(&trial.own[2], sizeof(unsigned)));
    left = (unsigned *)trial.own[2];
    NEED(cudaGraphCreate(&graph_of(trial), 0));
    NEED(cudaGraphConditionalHandleCreate(&loop, graph_of(trial), 1, cudaGraphCondAssignDefault));
    void *arguments[] = {&left, &rounds};
    cudaKernelNodeParams setting = {};
    setting.func = (void *)set_rounds;
    setting.gridDim = setting.blockDim = dim3(1);
    setting.kernelParams = arguments;
    NEED(cudaGraphAddKernelNode(&first, graph_of(trial), NULL, 0, &setting));
    parameters.type = cudaGraphNodeTypeConditional;
    parameters.conditional.handle = loop;
    parameters.conditional.type = cudaGraphCondTypeWhile;
    parameters.conditional.size = 1;
#if CUDART_VERSION >= 13000
    NEED(cudaGraphAddNode(&node, graph_of(trial), &first, NULL, 1, &parameters));
#else
    NEED(cudaGraphAddNode(&node, graph_of(trial), &first, 1, &parameters));
#endif
    cudaGraph_t body = parameters.conditional.phGraph_out[0];
    NEED(cudaStreamBeginCaptureToGraph(trial.stream, body, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal));
    linger_on(trial, trial.stream);
    expect_on(trial, trial.block, HELD, trial.stream);
    go_on<<<1, 1, 0, trial.stream>>>(loop, left);
    NEED(cudaStreamEndCapture(trial.stream, NULL));
    return instantiate(trial);
}

static void launch_loop(Trial &trial) {
    launch(trial);
    end_on(trial, trial.stream);
}

static void destroy_loop(Trial &trial) {
    destroy(trial);
    CHECK(cudaFree(trial.own[2]));
}
#else
static const char *prepare_loop(Trial &) { return "not in this CUDA"; }
static void launch_loop(Trial &) {}
static void destroy_loop(Trial &) {}
#endif

// ---- over two devices

// A kernel of one device, then work of the other.
static const char *capture_two(Trial &trial, bool here_first) {
    cudaEvent_t forth, back;
    NEED(cudaEventCreateWithFlags(&forth, cudaEventDisableTiming));
    NEED(cudaSetDevice(1));
    NEED(cudaEventCreateWithFlags(&back, cudaEventDisableTiming));
    NEED(cudaSetDevice(0));
    NEED(cudaStreamBeginCapture(trial.stream, cudaStreamCaptureModeThreadLocal));
    if (here_first)
        work_on(trial, trial.stream);
    NEED(cudaEventRecord(forth, trial.stream));
    NEED(cudaSetDevice(1));
    NEED(cudaStreamWaitEvent(trial.far, forth, 0));
    linger_on(trial, trial.far);
    NEED(cudaEventRecord(back, trial.far));
    NEED(cudaSetDevice(0));
    NEED(cudaStreamWaitEvent(trial.stream, back, 0));
    if (!here_first)
        work_on(trial, trial.stream);
    NEED(cudaStreamEndCapture(trial.stream, &graph_of(trial)));
    NEED(cudaEventDestroy(forth));
    NEED(cudaEventDestroy(back));
    return nullptr;
}

static const char *prepare_far_last(Trial &trial) {
    const char *why = capture_two(trial, true);
    return why ? why : instantiate(trial);
}

static const char *prepare_far_first(Trial &trial) {
    const char *why = capture_two(trial, false);
    return why ? why : instantiate(trial);
}

// The copy is a node of the other device.
static const char *prepare_far_copy(Trial &trial) {
    cudaEvent_t forth, back;
    NEED(cudaEventCreateWithFlags(&forth, cudaEventDisableTiming));
    NEED(cudaSetDevice(1));
    NEED(cudaEventCreateWithFlags(&back, cudaEventDisableTiming));
    NEED(cudaSetDevice(0));
    NEED(cudaStreamBeginCapture(trial.stream, cudaStreamCaptureModeThreadLocal));
    NEED(cudaEventRecord(forth, trial.stream));
    NEED(cudaSetDevice(1));
    NEED(cudaStreamWaitEvent(trial.far, forth, 0));
    linger_on(trial, trial.far);
    const char *why =
        error_text(cudaMemcpyPeerAsync(trial.far_target, 1, trial.block, 0, trial.words * sizeof(unsigned), trial.far));
    if (why) { // without peer access
        cudaGraph_t none;
        CHECK(cudaSetDevice(0));
        cudaStreamEndCapture(trial.stream, &none);
        cudaGetLastError();
        return why;
    }
    end_on(trial, trial.far);
    NEED(cudaEventRecord(back, trial.far));
    NEED(cudaSetDevice(0));
    NEED(cudaStreamWaitEvent(trial.stream, back, 0));
    NEED(cudaStreamEndCapture(trial.stream, &graph_of(trial)));
    NEED(cudaEventDestroy(forth));
    NEED(cudaEventDestroy(back));
    return instantiate(trial);
}

static void far_holds(Trial &trial) {
    CHECK(cudaSetDevice(1));
    expect_on(trial, trial.far_target, HELD, trial.far);
    CHECK(cudaStreamSynchronize(trial.far));
    CHECK(cudaSetDevice(0));
}

// The other device's stream copies within the memory of this one.
static const char *prepare_far_within(Trial &trial) {
    const char *why;
    NEED(cudaSetDevice(1));
    NEED(cudaStreamBeginCapture(trial.far, cudaStreamCaptureModeThreadLocal));
    linger_on(trial, trial.far);
    why = error_text(
        cudaMemcpyAsync(trial.target, trial.block, trial.words * sizeof(unsigned), cudaMemcpyDefault, trial.far));
    NEED(cudaStreamEndCapture(trial.far, &graph_of(trial)));
    if (!why)
        why = error_text(cudaGraphInstantiate(&exec_of(trial), graph_of(trial), 0));
    NEED(cudaSetDevice(0));
    return why;
}

static void target_holds(Trial &trial) { expect_on(trial, trial.target, HELD, trial.stream); }

static void launch_far(Trial &trial) {
    CHECK(cudaSetDevice(1));
    CHECK(cudaGraphLaunch(exec_of(trial), trial.far));
    CHECK(cudaSetDevice(0));
}

static void launch_far_to_end(Trial &trial) {
    launch_far(trial);
    CHECK(cudaSetDevice(1));
    end_on(trial, trial.far);
    CHECK(cudaSetDevice(0));
}

std::vector<Kind> graph_kinds() {
    return {
        {"graph of kernels", prepare_kernels, launch, nullptr, destroy, LARGE, 1},
        {"graph and a copy behind it", prepare_kernels, launch_twice, nullptr, destroy, LARGE, 1},
        {"graph with a loop", prepare_loop, launch_loop, nullptr, destroy_loop, LARGE, 1},
        {"graph in a graph", prepare_child, launch, nullptr, destroy, LARGE, 1},
        {"graph of two GPUs, this one first", prepare_far_last, launch, nullptr, destroy, LARGE, 2},
        {"graph of two GPUs, the other first", prepare_far_first, launch, nullptr, destroy, LARGE, 2},
        {"graph of two GPUs, the other copies", prepare_far_copy, launch, far_holds, destroy, LARGE, 2},
        {"graph of the other GPU, copies here", prepare_far_within, launch_far_to_end, target_holds, destroy, LARGE, 2},
        {"graph of two GPUs, launched by the other", prepare_far_first, launch_far, nullptr, destroy, LARGE, 2},
    };
}
