// Ordinary program, built with --default-stream per-thread: each thread's default stream is its own.
#include <cstdio>
#include <cstdlib>
#include <thread>
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

template <typename T> __global__ void fill(T *p, T value, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = value;
}

static void fill_twin(const simcuda_launch *l) {
    double *p = *(double **)l->args[0];
    for (size_t i = 0, n = *(size_t *)l->args[2]; i < n; i++)
        p[i] = *(double *)l->args[1];
}
SIMCUDA_TWIN(_Z4fillIdEvPT_S0_m, "p88", fill_twin);

static void work(int id, int *bad) {
    const size_t n = 1000;
    std::vector<double> out(n);
    for (int round = 0; round < 50; round++) {
        double *p;
        CHECK(cudaMalloc(&p, n * sizeof(double)));
        fill<double><<<4, 256>>>(p, id + round, n);
        CHECK(cudaMemcpyAsync(out.data(), p, n * sizeof(double), cudaMemcpyDeviceToHost, 0));
        CHECK(cudaStreamSynchronize(0));
        CHECK(cudaFree(p));
        for (double x : out)
            *bad += x != id + round;
    }
}

int main() {
    int bad[4] = {0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back(work, 100 * i, &bad[i]);
    for (auto &t : threads)
        t.join();
    return bad[0] + bad[1] + bad[2] + bad[3] ? 2 : 0;
}
