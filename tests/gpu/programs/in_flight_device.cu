// Kernels that are launched in other ways: cooperative, with programmatic dependence, by kernels, as graphs by kernels.
#include <cooperative_groups.h>

#include "in_flight.h"

// ---- one kernel that lingers and uses the block

static __device__ void use_block(unsigned *block, size_t words, unsigned long long *wrong) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words; i += (size_t)gridDim.x * blockDim.x) {
        if (block[i] != HELD + (unsigned)i)
            atomicAdd(wrong, 1ull);
        block[i] = WRITTEN + (unsigned)i;
    }
}

static __device__ void wait_a_while(long long cycles) {
    long long until = clock64() + cycles;
    while (clock64() < until)
        ;
}

extern "C" __global__ void together(unsigned *block, size_t words, unsigned long long *wrong, long long cycles) {
    wait_a_while(cycles);
    cooperative_groups::this_grid().sync();
    use_block(block, words, wrong);
}

static const char *prepare_together(Trial &) {
    int possible = 0;
    NEED(cudaDeviceGetAttribute(&possible, cudaDevAttrCooperativeLaunch, 0));
    return possible ? nullptr : "not on this device";
}

static void launch_together(Trial &trial) {
    void *arguments[] = {&trial.block, &trial.words, &trial.wrong[0], &trial.cycles};
    CHECK(cudaLaunchCooperativeKernel((void *)together, dim3(16), dim3(256), arguments, 0, trial.stream));
    end_on(trial, trial.stream);
}

// ---- a kernel that begins before the one in front of it ends

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
#define HAVE_DEPENDENCE 1
#endif

extern "C" __global__ void first_of_two(long long cycles) {
#ifdef HAVE_DEPENDENCE
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    wait_a_while(cycles);
}

extern "C" __global__ void second_of_two(unsigned *block, size_t words, unsigned long long *wrong) {
#ifdef HAVE_DEPENDENCE
    cudaGridDependencySynchronize();
#endif
    use_block(block, words, wrong);
}

static const char *prepare_dependent(Trial &) {
    int major = 0;
    NEED(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    return major >= 9 ? nullptr : "not on this device";
}

static void launch_dependent(Trial &trial) {
    cudaLaunchConfig_t how = {};
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    how.gridDim = dim3(16);
    how.blockDim = dim3(256);
    how.stream = trial.stream;
    first_of_two<<<1, 1, 0, trial.stream>>>(trial.cycles);
    CHECK(cudaGetLastError());
    how.attrs = &overlap;
    how.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&how, second_of_two, trial.block, trial.words, trial.wrong[0]));
    end_on(trial, trial.stream);
}

#ifdef SIM_TWINS
#include "simcuda.h"

static void use_on_host(const struct simcuda_launch *launch) {
    size_t words = *(size_t *)launch->args[1];
    unsigned *block = (unsigned *)launch->touch(*(void **)launch->args[0], words * 4, 1);
    unsigned long long *wrong = (unsigned long long *)launch->touch(*(void **)launch->args[2], 8, 1);
    for (size_t i = 0; block && wrong && i < words; i++) {
        *wrong += block[i] != HELD + (unsigned)i;
        block[i] = WRITTEN + (unsigned)i;
    }
}

static void nothing_on_host(const struct simcuda_launch *launch) { (void)launch; }

SIMCUDA_TWIN(together, "p8p8", use_on_host);
SIMCUDA_TWIN(first_of_two, "8", nothing_on_host);
SIMCUDA_TWIN(second_of_two, "p8p", use_on_host);
#endif

// ---- launched from the device: needs relocatable code

#ifdef __CUDACC_RDC__
static __global__ void child(unsigned *block, size_t words, unsigned long long *wrong, unsigned *done,
                             long long cycles) {
    wait_a_while(cycles);
    use_block(block, words, wrong);
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0)
        *(volatile unsigned *)done = 1;
}

static __global__ void parent(unsigned *block, size_t words, unsigned long long *wrong, unsigned *done,
                              long long cycles) {
    child<<<1, 1024>>>(block, words, wrong, done, cycles);
}

static __global__ void parent_that_forgets(unsigned *block, size_t words, unsigned long long *wrong, unsigned *done,
                                           long long cycles) {
    child<<<1, 1024, 0, cudaStreamFireAndForget>>>(block, words, wrong, done, cycles);
}

static const char *prepare_parent(Trial &) { return nullptr; }

static void launch_parent(Trial &trial) {
    parent<<<1, 1, 0, trial.stream>>>(trial.block, trial.words, trial.wrong[0], trial.done, trial.cycles);
    CHECK(cudaGetLastError());
}

static void launch_parent_that_forgets(Trial &trial) {
    parent_that_forgets<<<1, 1, 0, trial.stream>>>(trial.block, trial.words, trial.wrong[0], trial.done, trial.cycles);
    CHECK(cudaGetLastError());
}

// ---- a graph that a kernel of another graph launches. own: inner graph, its executable, outer graph, its executable

enum Manner { FORGET, TAIL, SIBLING };

static __global__ void launch_from_device(cudaGraphExec_t inner, Manner manner) {
    if (manner == FORGET)
        cudaGraphLaunch(inner, cudaStreamGraphFireAndForget);
    else if (manner == TAIL)
        cudaGraphLaunch(inner, cudaStreamGraphTailLaunch);
    else
        cudaGraphLaunch(inner, cudaStreamGraphFireAndForgetAsSibling);
}

static const char *prepare_inner(Trial &trial, Manner manner) {
    cudaGraph_t *graphs = (cudaGraph_t *)&trial.own[0], *outer = (cudaGraph_t *)&trial.own[2];
    cudaGraphExec_t *inner_exec = (cudaGraphExec_t *)&trial.own[1], *outer_exec = (cudaGraphExec_t *)&trial.own[3];
    NEED(cudaStreamBeginCapture(trial.stream, cudaStreamCaptureModeThreadLocal));
    work_on(trial, trial.stream);
    NEED(cudaStreamEndCapture(trial.stream, graphs));
    NEED(cudaGraphInstantiate(inner_exec, *graphs, cudaGraphInstantiateFlagDeviceLaunch));
    NEED(cudaGraphUpload(*inner_exec, trial.stream));
    NEED(cudaStreamBeginCapture(trial.stream, cudaStreamCaptureModeThreadLocal));
    launch_from_device<<<1, 1, 0, trial.stream>>>(*inner_exec, manner);
    NEED(cudaStreamEndCapture(trial.stream, outer));
    NEED(cudaGraphInstantiate(outer_exec, *outer, 0));
    NEED(cudaGraphUpload(*outer_exec, trial.stream));
    NEED(cudaStreamSynchronize(trial.stream));
    return nullptr;
}

static const char *prepare_forget(Trial &trial) { return prepare_inner(trial, FORGET); }
static const char *prepare_tail(Trial &trial) { return prepare_inner(trial, TAIL); }
static const char *prepare_sibling(Trial &trial) { return prepare_inner(trial, SIBLING); }

static void launch_outer(Trial &trial) { CHECK(cudaGraphLaunch((cudaGraphExec_t)trial.own[3], trial.stream)); }

static void destroy_inner(Trial &trial) {
    CHECK(cudaGraphExecDestroy((cudaGraphExec_t)trial.own[3]));
    CHECK(cudaGraphDestroy((cudaGraph_t)trial.own[2]));
    CHECK(cudaGraphExecDestroy((cudaGraphExec_t)trial.own[1]));
    CHECK(cudaGraphDestroy((cudaGraph_t)trial.own[0]));
}
#else
static const char *prepare_parent(Trial &) { return "built without relocatable device code"; }
static const char *prepare_forget(Trial &trial) { return prepare_parent(trial); }
static const char *prepare_tail(Trial &trial) { return prepare_parent(trial); }
static const char *prepare_sibling(Trial &trial) { return prepare_parent(trial); }
static void launch_parent(Trial &) {}
static void launch_parent_that_forgets(Trial &) {}
static void launch_outer(Trial &) {}
static void destroy_inner(Trial &) {}
#endif

std::vector<Kind> device_kinds() {
    return {
        {"cooperative launch", prepare_together, launch_together, nullptr, nullptr, LARGE, 1},
        {"programmatic dependent launch", prepare_dependent, launch_dependent, nullptr, nullptr, LARGE, 1},
        {"kernel launched by a kernel", prepare_parent, launch_parent, nullptr, nullptr, LARGE, 1},
        {"kernel launched by a kernel and forgotten", prepare_parent, launch_parent_that_forgets, nullptr, nullptr,
         LARGE, 1},
        {"graph launched by a kernel", prepare_forget, launch_outer, nullptr, destroy_inner, LARGE, 1},
        {"graph launched by a kernel, behind it", prepare_tail, launch_outer, nullptr, destroy_inner, LARGE, 1},
        {"graph launched by a kernel, beside it", prepare_sibling, launch_outer, nullptr, destroy_inner, LARGE, 1},
    };
}
