/* Launches on a device that is full of freed memory (starved.c), in ways that matter for the trim between two calls:
 * while a stream captures, where no trim helps, and beside work that must not be waited for; and memory of a device
 * that is not the current one. On the simulated driver, whose memory is cut to the bytes in use before the call.
 * Argument: the case; "kept": freed memory stays as free blocks. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>

#include "cases.h"
#include "simcuda.h"

enum { MIB = 1 << 20, BLOCKS = 8, NEED = 4 * MIB, MEMORY = 1 << 30 };

static CUfunction kernel;
static CUstream stream;
static unsigned runs;
static bool kept;

static void count_run(const struct simcuda_launch *launch) { runs += *(unsigned *)launch->args[0]; }

static CUresult launch(CUstream into) {
    unsigned one = 1;
    void *arguments[] = {&one};
    return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, into, arguments, NULL);
}

/* From now on the current device has nothing left. */
static void fill(int device) {
    CUdeviceptr blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&blocks[i], 2 * MIB));
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemFree_v2(blocks[i]));
    MUST(cuCtxSynchronize());
    size_t used = simcuda_used(device), freed = (size_t)BLOCKS * 2 * MIB;
    EXPECT(!kept || used >= freed);
    simcuda_set_memory(kept ? used : used + freed);
}

/* And a launch takes `need` bytes. */
static void starve(size_t need) {
    char script[64];
    fill(0);
    snprintf(script, sizeof script, "cuLaunchKernel*:%zu", need);
    EXPECT(simcuda_set_needs(script) == 0);
}

static void feed(void) {
    simcuda_set_needs("");
    simcuda_set_memory(MEMORY);
}

static void capture_launch(CUstreamCaptureMode mode) {
    CUgraph graph;
    CUgraphExec instance;
    starve(NEED);
    MUST(cuStreamBeginCapture_v2(stream, mode));
    MUST(launch(stream));
    MUST(launch(stream));
    MUST(cuStreamEndCapture(stream, &graph));
    feed();
    MUST(cuGraphInstantiateWithFlags(&instance, graph, 0));
    MUST(cuGraphLaunch(instance, NULL));
    MUST(cuCtxSynchronize());
    EXPECT(runs == 2);
    MUST(cuGraphExecDestroy(instance));
    MUST(cuGraphDestroy(graph));
}
CASE(captured_globally) { capture_launch(CU_STREAM_CAPTURE_MODE_GLOBAL); }
CASE(captured_by_thread) { capture_launch(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL); }
CASE(captured_relaxed) { capture_launch(CU_STREAM_CAPTURE_MODE_RELAXED); }

/* Another stream captures meanwhile. */
CASE(beside_a_capture) {
    CUgraph graph;
    starve(NEED);
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(launch(CU_STREAM_PER_THREAD));
    MUST(cuStreamEndCapture(stream, &graph));
    feed();
    MUST(cuGraphDestroy(graph));
    MUST(cuCtxSynchronize());
    EXPECT(runs == 1);
}

/* The program gets the error of its call, and a capture goes on. */
CASE(hopeless) {
    CUgraph graph;
    starve((size_t)MEMORY * 2);
    EXPECT(launch(NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    feed();
    starve((size_t)MEMORY * 2);
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT(launch(stream) == CUDA_ERROR_OUT_OF_MEMORY);
    simcuda_set_needs("");
    MUST(launch(stream));
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphDestroy(graph));
    feed();
    EXPECT(runs == 0);
}

/* Once everything is released, a launch that fails waits for nothing. */
CASE(nothing_left) {
    starve(NEED);
    simcuda_set_memory(simcuda_used(0));
    bool released = launch(NULL) == CUDA_SUCCESS;
    EXPECT(released || !kept);
    MUST(cuCtxSynchronize());
    feed();
    EXPECT(simcuda_set_streams("manual") == 0);
    MUST(launch(stream));
    EXPECT(simcuda_pending() == 1);
    simcuda_set_memory(simcuda_used(0));
    EXPECT(simcuda_set_needs("cuLaunchKernel*:4194304") == 0);
    EXPECT(launch(stream) == CUDA_ERROR_OUT_OF_MEMORY && simcuda_pending() == 1);
    feed();
    EXPECT(simcuda_set_streams("immediate") == 0);
    MUST(cuCtxSynchronize());
    EXPECT(runs == 1u + released);
}

/* A default stream of each thread, used for the first time by the launch that is made twice. */
static void *launch_own(void *context) {
    MUST(cuCtxSetCurrent(context));
    MUST(cuLaunchKernel_ptsz(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&(unsigned){1}}, NULL));
    MUST(cuStreamSynchronize_ptsz(NULL));
    return context;
}

CASE(by_threads) {
    CUcontext context;
    pthread_t threads[8];
    MUST(cuCtxGetCurrent(&context));
    for (int i = 0; i < 8; i++) {
        starve(NEED);
        EXPECT(pthread_create(&threads[i], NULL, launch_own, context) == 0);
        EXPECT(pthread_join(threads[i], NULL) == 0);
        feed();
    }
    EXPECT(runs == 8);
}

/* The memory is of the device that the call names. */
CASE(of_another_device) {
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    CUmemGenericAllocationHandle handle;
    CUcontext first, second;
    MUST(cuCtxGetCurrent(&first));
    MUST(cuDevicePrimaryCtxRetain(&second, 1));
    MUST(cuCtxSetCurrent(second));
    fill(1);
    MUST(cuCtxSetCurrent(first));
    MUST(cuMemCreate(&handle, NEED, &properties, 0));
    MUST(cuMemRelease(handle));
    feed();
}

int main(int count, char **words) {
    CUmodule module;
    const struct program_case *row = case_named(count > 1 ? words[1] : NULL);
    kept = count > 2;
    start_driver();
    simcuda_set_memory(MEMORY);
    EXPECT(simcuda_register_kernel("kernel", "4", count_run) == 0);
    MUST(cuModuleLoadData(&module, "kernels of the simulated driver"));
    MUST(cuModuleGetFunction(&kernel, module, "kernel"));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    row->run();
    printf("ok starved_launch %s\n", row->name);
    return 0;
}
