// Threads times streams, random sizes, every block freed at once after its kernels were submitted: memory that is handed out again
// before earlier work is done shows as a wrong byte. Arguments: seconds, threads.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "check.h"

__global__ void fill(unsigned *block, size_t count, unsigned pattern) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        block[i] = pattern + (unsigned)i;
}

__global__ void linger(long long cycles) {
    long long until = clock64() + cycles;
    while (clock64() < until)
        ;
}

__global__ void verify(const unsigned *block, size_t count, unsigned pattern, unsigned long long *wrong) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        if (block[i] != pattern + (unsigned)i)
            atomicAdd(wrong, 1ull);
}

static std::atomic<unsigned long> rounds;

static void work(unsigned number, double seconds, unsigned long long *wrong) {
    std::mt19937 random(number * 7919 + 1);
    std::vector<cudaStream_t> streams(8);
    for (auto &stream : streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end) {
        cudaStream_t stream = streams[random() % 8];
        size_t count = (size_t)256 << random() % 13; // 1 KiB to 4 MiB: sizes meet again
        unsigned pattern = (unsigned)random(), *block;
        CHECK(cudaMalloc(&block, count * sizeof(*block)));
        fill<<<16, 256, 0, stream>>>(block, count, pattern);
        linger<<<1, 1, 0, stream>>>(random() % 200000);
        verify<<<16, 256, 0, stream>>>(block, count, pattern, wrong);
        CHECK(cudaGetLastError());
        CHECK(cudaFree(block));
        rounds++;
        if (random() % 64 == 0)
            CHECK(cudaStreamSynchronize(stream));
    }
    for (auto &stream : streams) {
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamDestroy(stream));
    }
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? std::atof(argv[1]) : 5;
    unsigned count = argc > 2 ? std::atoi(argv[2]) : 16;
    unsigned long long *wrong, result;
    std::vector<std::thread> threads;

    CHECK(cudaMalloc(&wrong, sizeof(*wrong)));
    CHECK(cudaMemset(wrong, 0, sizeof(*wrong)));
    CHECK(cudaDeviceSynchronize());
    for (unsigned i = 0; i < count; i++)
        threads.emplace_back(work, i, seconds, wrong);
    for (auto &thread : threads)
        thread.join();
    CHECK(cudaMemcpy(&result, wrong, sizeof(result), cudaMemcpyDeviceToHost));
    std::fprintf(stderr, "%lu rounds\n", rounds.load());
    std::printf("ok stress %llu wrong\n", result);
    return result != 0;
}
