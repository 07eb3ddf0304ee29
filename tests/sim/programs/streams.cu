// Ordinary program: several streams, stream-ordered memory, events, a graph made by capture, managed memory.
#include <cstdio>
#include <cstdlib>
#include "simcuda.h"

#define CHECK(call)                                                                                     \
    do {                                                                                                \
        cudaError_t e_ = (call);                                                                        \
        if (e_ != cudaSuccess) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_)); \
            std::exit(1);                                                                               \
        }                                                                                               \
    } while (0)

__global__ void scale(int *p, int n, int factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = p[i] * factor + i;
}

static void scale_twin(const simcuda_launch *l) {
    int *p = *(int **)l->args[0];
    for (int i = 0, n = *(int *)l->args[1]; i < n; i++)
        p[i] = p[i] * *(int *)l->args[2] + i;
}
SIMCUDA_TWIN(_Z5scalePiii, "p44", scale_twin);

static void count_calls(void *p) { ++*(int *)p; }

int main() {
    const int n = 4096, streams = 3;
    cudaStream_t s[streams];
    cudaEvent_t done[streams];
    int *host[streams], *dev[streams], called = 0;
    for (int k = 0; k < streams; k++) {
        CHECK(cudaStreamCreateWithFlags(&s[k], cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&done[k]));
        CHECK(cudaMallocHost((void **)&host[k], n * sizeof(int)));
    }
    for (int round = 0; round < 20; round++) {
        for (int k = 0; k < streams; k++) {
            CHECK(cudaMallocAsync((void **)&dev[k], n * sizeof(int), s[k]));
            CHECK(cudaMemsetAsync(dev[k], 0, n * sizeof(int), s[k]));
            scale<<<(n + 127) / 128, 128, 0, s[k]>>>(dev[k], n, 3);
            scale<<<(n + 127) / 128, 128, 0, s[k]>>>(dev[k], n, 3);
            CHECK(cudaMemcpyAsync(host[k], dev[k], n * sizeof(int), cudaMemcpyDeviceToHost, s[k]));
            CHECK(cudaFreeAsync(dev[k], s[k]));
            CHECK(cudaLaunchHostFunc(s[k], count_calls, &called));
            CHECK(cudaEventRecord(done[k], s[k]));
            if (k)
                CHECK(cudaStreamWaitEvent(s[k], done[k - 1], 0));
        }
        for (int k = 0; k < streams; k++) {
            CHECK(cudaEventSynchronize(done[k]));
            for (int i = 0; i < n; i++) {
                if (host[k][i] != 4 * i)
                    return 2;
            }
        }
    }
    if (called != 20 * streams)
        return 3;
    int *managed;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaMallocManaged((void **)&managed, n * sizeof(int)));
    for (int i = 0; i < n; i++)
        managed[i] = 1;
    CHECK(cudaStreamBeginCapture(s[0], cudaStreamCaptureModeGlobal));
    scale<<<n / 128, 128, 0, s[0]>>>(managed, n, 2);
    CHECK(cudaStreamEndCapture(s[0], &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; i++)
        CHECK(cudaGraphLaunch(exec, s[0]));
    CHECK(cudaStreamSynchronize(s[0]));
    for (int i = 0; i < n; i++) {
        if (managed[i] != 4 + 3 * i)
            return 4;
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(managed));
    CHECK(cudaDeviceSynchronize());
    return 0;
}
