// Times the allocation path of an ordinary program. One line a measurement: name, repetitions a sample, nanoseconds as min, median and
// max over the samples. Run by tools/bench/overhead.py --bench alloc, natively and under each policy.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t error = (call);                                                                          \
        if (error != cudaSuccess) {                                                                          \
            std::fprintf(stderr, "alloc: %s: %s\n", #call, cudaGetErrorString(error));                       \
            std::exit(error == cudaErrorNoDevice ? 77 : 1);                                                  \
        }                                                                                                    \
    } while (0)

__global__ void touch(float *block, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        block[i] = block[i] * 2 + 1;
}

__global__ void linger(long long nanoseconds) {
    long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < nanoseconds);
}

static double now() {
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Body> static void measure(const std::string &name, int repetitions, Body body) {
    const int samples = 15;
    std::vector<double> times;
    for (int sample = -2; sample < samples; sample++) {
        CHECK(cudaDeviceSynchronize());
        double begin = now();
        body(repetitions);
        if (sample >= 0)
            times.push_back((now() - begin) / repetitions);
    }
    std::sort(times.begin(), times.end());
    std::printf("%s %d %.1f %.1f %.1f\n", name.c_str(), repetitions, times.front(), times[samples / 2], times.back());
}

static void pairs(size_t bytes, int repetitions) {
    for (int i = 0; i < repetitions; i++) {
        void *block;
        CHECK(cudaMalloc(&block, bytes));
        CHECK(cudaFree(block));
    }
}

int main() {
    float *lasting;
    CHECK(cudaMalloc(&lasting, 1 << 20));
    for (size_t bytes : {(size_t)1, (size_t)4096, (size_t)1 << 20, (size_t)32 << 20, (size_t)1 << 30})
        measure("pair:" + std::to_string(bytes), bytes > 1 << 28 ? 20 : 500, [&](int n) { pairs(bytes, n); });
    measure("async-pair:1048576", 2000, [](int n) {
        for (int i = 0; i < n; i++) {
            void *block;
            CHECK(cudaMallocAsync(&block, 1 << 20, 0));
            CHECK(cudaFreeAsync(block, 0));
        }
    });
    measure("kernel-alone", 2000, [&](int n) {
        for (int i = 0; i < n; i++)
            touch<<<1024, 256>>>(lasting, 1 << 18);
        CHECK(cudaDeviceSynchronize());
    });
    measure("malloc+kernel+free", 2000, [](int n) {
        for (int i = 0; i < n; i++) {
            float *block;
            CHECK(cudaMalloc(&block, 1 << 20));
            touch<<<1024, 256>>>(block, 1 << 18);
            CHECK(cudaFree(block));
        }
        CHECK(cudaDeviceSynchronize());
    });
    measure("mallocasync+kernel+freeasync", 2000, [](int n) {
        for (int i = 0; i < n; i++) {
            float *block;
            CHECK(cudaMallocAsync((void **)&block, 1 << 20, 0));
            touch<<<1024, 256>>>(block, 1 << 18);
            CHECK(cudaFreeAsync(block, 0));
        }
        CHECK(cudaDeviceSynchronize());
    });
    { // host time of a free while a 1 ms kernel runs; the rest of the round is not counted
        std::vector<double> times;
        for (int i = 0; i < 22; i++) {
            void *block;
            CHECK(cudaMalloc(&block, 1 << 20));
            linger<<<1, 1>>>(1000000);
            double begin = now();
            CHECK(cudaFree(block));
            if (i >= 7)
                times.push_back(now() - begin);
            CHECK(cudaDeviceSynchronize());
        }
        std::sort(times.begin(), times.end());
        std::printf("free-behind-1ms-kernel 1 %.1f %.1f %.1f\n", times.front(), times[times.size() / 2], times.back());
    }
    measure("16-threads-pair:1048576", 1600, [](int n) {
        std::vector<std::thread> threads;
        for (int t = 0; t < 16; t++)
            threads.emplace_back([n] { pairs(1 << 20, n / 16); });
        for (auto &thread : threads)
            thread.join();
    });
    return 0;
}
