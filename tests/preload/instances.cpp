/* A program with few call sites, whose memory comes through a template of two types. One place forgets its blocks. */
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime_api.h>

namespace nn {

__attribute__((noinline)) void *raw(std::size_t bytes) {
    void *block = nullptr;
    if (cudaMalloc(&block, bytes) != cudaSuccess)
        std::exit(2);
    return block;
}

template <typename T> __attribute__((noinline)) T *allocate(std::size_t count) {
    T *block = static_cast<T *>(raw(count * sizeof(T)));
    cudaMemset(block, 0, count * sizeof(T)); /* no tail call */
    return block;
}

__attribute__((noinline)) void layer() { cudaFree(allocate<float>(1 << 18)); }

__attribute__((noinline)) void attention() { cudaFree(allocate<float>(1 << 16)); }

__attribute__((noinline)) void validate(int step) {
    double *metrics = allocate<double>(1000);
    if (step % 3)
        cudaFree(metrics); /* else forgotten */
}

} // namespace nn

int main() {
    for (int step = 0; step < 30; step++) {
        nn::layer();
        nn::attention();
        nn::validate(step);
    }
    std::puts("ok");
    return 0;
}
