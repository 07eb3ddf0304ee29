/* A program whose memory all comes through wrappers of its own, as a C++ library of layers has them: a template, a
 * class that owns a block, a factory. Two places forget a block: the embedding, in the main thread, and the cache of
 * keys, in a std::thread. */
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

namespace nn {

__attribute__((noinline)) void *raw(std::size_t bytes) {
    void *block = nullptr;
    if (cudaMalloc(&block, bytes) != cudaSuccess)
        std::exit(2);
    return block;
}

template <typename T> __attribute__((noinline)) T *allocate_tensor(std::size_t count) {
    T *block = static_cast<T *>(raw(count * sizeof(T)));
    cudaMemset(block, 0, count * sizeof(T)); /* no tail call */
    return block;
}

class tensor {
  public:
    __attribute__((noinline)) explicit tensor(std::size_t count)
        : data(allocate_tensor<float>(count)), bytes(count * 4) {}
    __attribute__((noinline)) void resize(std::size_t count) {
        cudaFree(data);
        data = allocate_tensor<float>(count);
        bytes = count * 4;
    }
    ~tensor() { cudaFree(data); }
    float *data;
    std::size_t bytes;
};

__attribute__((noinline)) std::size_t dense(std::size_t n) {
    tensor weights(n * n), bias(n);
    return weights.bytes + bias.bytes;
}

__attribute__((noinline)) std::size_t convolution(std::size_t n) {
    tensor kernel(9 * n), image(n * n);
    image.resize(2 * n * n);
    return kernel.bytes + image.bytes;
}

__attribute__((noinline)) std::size_t embedding(const std::string &name, std::size_t n) {
    auto *table = new tensor(n * 64); /* forgotten */
    return table->bytes + name.size();
}

__attribute__((noinline)) std::size_t attention(std::size_t n) {
    tensor queries(n * n);
    int *keys = allocate_tensor<int>(n * 16); /* forgotten */
    return queries.bytes + (keys != nullptr);
}

} // namespace nn

int main() {
    std::size_t sum = 0;
    for (int step = 0; step < 4; step++)
        sum += nn::dense(256) + nn::convolution(128);
    sum += nn::embedding("words", 1024);
    std::vector<std::function<std::size_t()>> work{[] { return nn::attention(512); }};
    std::thread worker([&] { sum += std::invoke(work.front()); });
    worker.join();
    std::printf("ok wrapped %zu\n", sum);
    return 0;
}
