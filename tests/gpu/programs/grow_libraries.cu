// Arrays grown by hand between kernels, cuBLAS calls, streams and graphs, the results compared with what a host says.
// Under GPUMEM_GROW=move this is where a copy that was put off too long would show.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "../check.h"

static int wrong;

#define EXPECT(condition)                                                \
    do {                                                                 \
        if (!(condition)) {                                              \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            wrong++;                                                     \
        }                                                                \
    } while (0)

__global__ void fill(float *data, size_t first, size_t count) {
    for (size_t i = first + blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        data[i] = (float)(i % 1000) - 499.5f;
}

__global__ void differing(const float *data, size_t count, unsigned *number) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        if (data[i] != (float)(i % 1000) - 499.5f)
            atomicAdd(number, 1u);
}

static float *larger(float *old, size_t from, size_t to, bool wait) {
    float *made;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMalloc(&made, to * sizeof(float)));
    if (from)
        CHECK(cudaMemcpy(made, old, from * sizeof(float), cudaMemcpyDeviceToDevice));
    if (wait)
        CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(old));
    return made;
}

int main() {
    const size_t first = 3000000, last = 200000000;
    cublasHandle_t handle;
    cudaStream_t stream;
    unsigned *number, found = 0;
    if (cudaFree(nullptr) != cudaSuccess)
        return 77;
    if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
        return 1;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&number, sizeof *number));
    CHECK(cudaMemset(number, 0, sizeof *number));
    float *data = nullptr, *twin = nullptr;
    size_t count = 0;
    int step = 0;
    for (size_t next = first; next < last; next = next * 3 / 2, step++) {
        data = larger(data, count, next, step % 2);
        fill<<<512, 256>>>(data, count, next);
        twin = larger(twin, count, next, true);
        // A stream that nothing orders behind the copy but the wait.
        fill<<<512, 256, 0, stream>>>(twin, count, next);
        differing<<<512, 256, 0, stream>>>(twin, next, number);
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaDeviceSynchronize());
        count = next;
        float distance = 1, minus = -1;
        if (step % 3 == 0) { // twin -= data, through the library
            EXPECT(cublasSaxpy(handle, (int)count, &minus, data, 1, twin, 1) == CUBLAS_STATUS_SUCCESS);
            EXPECT(cublasSasum(handle, (int)count, twin, 1, &distance) == CUBLAS_STATUS_SUCCESS && distance == 0);
            fill<<<512, 256>>>(twin, 0, count);
        }
    }
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    differing<<<512, 256, 0, stream>>>(data, count, number);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&found, number, sizeof found, cudaMemcpyDeviceToHost));
    EXPECT(found == 0);
    CHECK(cudaFree(data));
    CHECK(cudaFree(twin));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    cublasDestroy(handle);
    std::printf("%s grow %d steps, %zu elements\n", wrong ? "wrong" : "ok", step, count);
    return wrong != 0;
}
