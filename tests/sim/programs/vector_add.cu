// Ordinary program: vector addition with explicit copies, errors and attributes checked.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "simcuda.h"

#define CHECK(call)                                                                                     \
    do {                                                                                                \
        cudaError_t e_ = (call);                                                                        \
        if (e_ != cudaSuccess) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_)); \
            std::exit(1);                                                                               \
        }                                                                                               \
    } while (0)

__device__ int bias;

__global__ void add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i] + bias;
}

static int *bias_address;

static void add_twin(const simcuda_launch *l) {
    float *c = *(float **)l->args[0], *a = *(float **)l->args[1], *b = *(float **)l->args[2];
    int n = *(int *)l->args[3];
    for (int i = 0; i < n; i++)
        c[i] = a[i] + b[i] + *bias_address;
}
SIMCUDA_TWIN(_Z3addPfPKfS1_i, "ppp4", add_twin);

int main() {
    const int n = 100000;
    std::vector<float> a(n, 1.5f), b(n, 2.25f), c(n);
    float *da, *db, *dc;
    CHECK(cudaMalloc(&da, n * sizeof(float)));
    CHECK(cudaMalloc(&db, n * sizeof(float)));
    CHECK(cudaMalloc(&dc, n * sizeof(float)));
    int four = 4;
    CHECK(cudaMemcpyToSymbol(bias, &four, sizeof four));
    CHECK(cudaGetSymbolAddress((void **)&bias_address, bias));
    CHECK(cudaMemcpy(da, a.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    add<<<(n + 255) / 256, 256>>>(dc, da, db, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), dc, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        if (c[i] != 7.75f)
            return 2;
    }
    cudaPointerAttributes attr;
    CHECK(cudaPointerGetAttributes(&attr, da + 10));
    if (attr.type != cudaMemoryTypeDevice || attr.devicePointer != da + 10)
        return 3;
    CHECK(cudaFree(da));
    if (cudaFree(da) != cudaErrorInvalidValue || cudaGetLastError() != cudaErrorInvalidValue)
        return 4;
    CHECK(cudaFree(db));
    CHECK(cudaFree(dc));
    CHECK(cudaDeviceReset());
    return 0;
}
