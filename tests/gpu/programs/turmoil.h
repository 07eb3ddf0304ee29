// What the modes of turmoil share.
#ifndef GPU_TURMOIL_H
#define GPU_TURMOIL_H

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

#include "../check.h"

#ifdef SIM_TWINS
static const unsigned SMALLER = 5; // kernels run on the host
#else
static const unsigned SMALLER = 0;
#endif

struct Plan {
    double seconds;
    unsigned seed, threads;
    const char *self; // this program
    std::chrono::steady_clock::time_point end;
    bool goes_on() const { return std::chrono::steady_clock::now() < end; }
};

extern std::atomic<unsigned long> rounds;
extern std::atomic<unsigned long> broken_on_device, broken_on_host; // what a free promised natively and did not keep

// Words that kernels found changed, in memory of the current context: made; added up and freed.
void counter_make();
void counter_take();

struct Block {
    unsigned *address = nullptr;
    size_t words = 0;
    unsigned pattern = 0;
};

// A call that fails because some stream captures is tried again; any other error ends the program.
void patiently(const char *what, const std::function<cudaError_t()> &call);
#define PATIENTLY(call) patiently(#call, [&] { return call; })

size_t random_words(std::mt19937 &random);              // 1 KiB to 4 MiB, sizes meet again
Block allocate(std::mt19937 &random);                   // patiently
void release(Block &block);                             // patiently
void write_on(const Block &block, cudaStream_t stream); // the pattern, then some time
void verify_on(const Block &block, cudaStream_t stream);
void expect_on(const Block &block, unsigned long long *differing, cudaStream_t stream); // the same into another counter
void linger_on(cudaStream_t stream, long long cycles);

// Each in a thread of its own, `threads` of them, with its number and random numbers.
void in_threads(const Plan &plan, unsigned threads, const std::function<void(unsigned, std::mt19937 &)> &work);

void captures(const Plan &plan);
void contexts(const Plan &plan);
void resets(const Plan &plan);
void forks(const Plan &plan);
void exits(const Plan &plan);
void cancels(const Plan &plan);
void exceptions(const Plan &plan);
void churn(const Plan &plan);
void memory(const Plan &plan);
void lean(const Plan &plan);

#endif
