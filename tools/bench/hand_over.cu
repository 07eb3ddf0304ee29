/* Two threads on per-thread streams hand a table over by a cudaFree, as code does that grew from one thread: the first
 * fills the table, frees its temporary and unlocks, the second reads the table on its stream. One line of the bench's
 * kind: nanoseconds a hand-over. */
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#define CHECK(call)                                                                              \
    do {                                                                                         \
        cudaError_t error_ = (call);                                                             \
        if (error_ != cudaSuccess) {                                                             \
            fprintf(stderr, "hand_over: %s: %s\n", #call, cudaGetErrorString(error_));           \
            exit(error_ == cudaErrorNoDevice || error_ == cudaErrorInsufficientDriver ? 77 : 1); \
        }                                                                                        \
    } while (0)

enum { COUNT = 1 << 16, ROUNDS = 2000, SAMPLES = 9 };

__global__ void fill(unsigned *table, const unsigned *scratch, unsigned value) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    table[i] = value + i + (scratch[i] & 0);
}
__global__ void check(const unsigned *table, unsigned value, unsigned *wrong) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (table[i] != value + i)
        atomicAdd(wrong, 1);
}

static std::mutex lock;
static std::condition_variable changed;
static unsigned made, read_count;

int main() {
    unsigned *table, *wrong, host = 0;
    CHECK(cudaMalloc(&table, COUNT * sizeof *table));
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    CHECK(cudaDeviceSynchronize());
    std::vector<double> times;
    const unsigned all = SAMPLES * ROUNDS;
    std::thread reader([&] {
        for (unsigned i = 1; i <= all; i++) {
            unsigned *own;
            {
                std::unique_lock<std::mutex> held(lock);
                changed.wait(held, [&] { return made == i; });
            }
            CHECK(cudaMalloc(&own, COUNT));
            check<<<COUNT / 256, 256, 0, cudaStreamPerThread>>>(table, i, wrong);
            CHECK(cudaFree(own));
            std::lock_guard<std::mutex> held(lock);
            read_count = i;
            changed.notify_one();
        }
    });
    for (unsigned sample = 0, i = 1; sample < SAMPLES; sample++) {
        auto begin = std::chrono::steady_clock::now();
        for (unsigned round = 0; round < ROUNDS; round++, i++) {
            unsigned *scratch;
            {
                std::unique_lock<std::mutex> held(lock);
                changed.wait(held, [&] { return read_count == i - 1; });
            }
            CHECK(cudaMalloc(&scratch, COUNT * sizeof *scratch));
            fill<<<COUNT / 256, 256, 0, cudaStreamPerThread>>>(table, scratch, i);
            CHECK(cudaFree(scratch));
            std::lock_guard<std::mutex> held(lock);
            made = i;
            changed.notify_one();
        }
        times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() /
                        ROUNDS);
    }
    reader.join();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&host, wrong, sizeof host, cudaMemcpyDeviceToHost));
    std::sort(times.begin(), times.end());
    printf("hand-over %d %.1f %.1f %.1f wrong=%u\n", ROUNDS, times.front(), times[SAMPLES / 2], times.back(), host);
}
