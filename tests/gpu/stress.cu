// Threads times streams, random sizes. A block's kernels write it, linger, and verify it; it is freed at once, or after
// a while, by its own thread or by another, always behind its work: memory that is handed out again before earlier work
// is done shows as a wrong word. Arguments: seconds, threads, mode, seed. The modes:
//   own     each thread has eight streams
//   legacy  all threads use the legacy default stream; seldom a thread has a stream of its own for a while
//   peers   as own; threads take turns on two devices and let the other device's kernels work on their blocks as well.
//           cudaFree waits for the owner's work only, so the other device's is waited for
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "check.h"
#include "kernels.h"
#include "settle.h"

static const size_t HELD = 24;    // blocks that a thread keeps for a while
static const size_t HANDED = 256; // blocks on their way to another thread

struct Block {
    unsigned *address;
    size_t count;
    unsigned pattern;
    int device;
};

static std::atomic<unsigned long> rounds;
static std::mutex hands_lock;
static std::vector<Block> hands; // given away: whoever takes one frees it

static bool hand_over(const Block &block) {
    std::lock_guard<std::mutex> hold(hands_lock);
    if (hands.size() >= HANDED)
        return false;
    hands.push_back(block);
    return true;
}

static bool take_over(Block *block) {
    std::lock_guard<std::mutex> hold(hands_lock);
    if (hands.empty())
        return false;
    *block = hands.back();
    hands.pop_back();
    return true;
}

#ifdef SIM_TWINS
static const unsigned SMALLER = 5; // kernels run on the host
#else
static const unsigned SMALLER = 0;
#endif

static size_t random_count(std::mt19937 &random) {
    if (random() % 200 == 0)
        return (size_t)1 << (22 - SMALLER + random() % 3); // 16 to 64 MiB
    return (size_t)256 << random() % (13 - SMALLER);       // 1 KiB to 4 MiB: sizes meet again
}

static bool legacy;

static void work(unsigned number, double seconds, int devices, unsigned seed, unsigned long long *const *wrong) {
    std::mt19937 random(number * 7919 + seed);
    int device = (int)(number % (unsigned)devices), other = (device + 1) % devices;
    std::vector<cudaStream_t> streams(legacy ? 0 : 8);
    cudaStream_t passing = nullptr;
    std::vector<Block> held;
    cudaStream_t far_stream = nullptr;
    if (devices > 1) {
        CHECK(cudaSetDevice(other));
        CHECK(cudaStreamCreateWithFlags(&far_stream, cudaStreamNonBlocking));
    }
    CHECK(cudaSetDevice(device));
    for (auto &stream : streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end) {
        cudaStream_t stream = legacy ? passing : streams[random() % 8];
        Block block = {nullptr, random_count(random), (unsigned)random(), device}, given;
        CHECK(cudaMalloc(&block.address, block.count * sizeof(unsigned)));
        fill<<<16, 256, 0, stream>>>(block.address, block.count, block.pattern);
        linger<<<1, 1, 0, stream>>>(random() % 200000);
        verify<<<16, 256, 0, stream>>>(block.address, block.count, block.pattern, wrong[device]);
        CHECK(cudaGetLastError());
        if (devices > 1 && random() % 4 == 0) {
            CHECK(cudaStreamSynchronize(stream));
            CHECK(cudaSetDevice(other));
            verify<<<16, 256, 0, far_stream>>>(block.address, block.count, block.pattern, wrong[other]);
            fill<<<16, 256, 0, far_stream>>>(block.address, block.count, ~block.pattern);
            CHECK(cudaGetLastError());
            CHECK(cudaStreamSynchronize(far_stream));
            CHECK(cudaSetDevice(device));
            verify<<<16, 256, 0, stream>>>(block.address, block.count, ~block.pattern, wrong[device]);
            fill<<<16, 256, 0, stream>>>(block.address, block.count, block.pattern);
            verify<<<16, 256, 0, stream>>>(block.address, block.count, block.pattern, wrong[device]);
            CHECK(cudaGetLastError());
        }
        unsigned fate = random() % 8;
        if (fate < 5) {
            CHECK(cudaFree(block.address));
        } else if (fate == 5 || !hand_over(block)) {
            held.push_back(block);
        }
        if (held.size() > HELD || (!held.empty() && random() % 8 == 0)) {
            size_t which = random() % held.size();
            CHECK(cudaFree(held[which].address));
            held.erase(held.begin() + (long)which);
        }
        if (random() % 4 == 0 && take_over(&given)) {
            // Freed by a thread that may have another device current.
            CHECK(cudaFree(given.address));
        }
        rounds++;
        if (random() % 64 == 0)
            CHECK(cudaStreamSynchronize(stream));
        if (passing && random() % 32 == 0) {
            CHECK(cudaStreamDestroy(passing));
            passing = nullptr;
        } else if (legacy && !passing && random() % 2048 == 0) {
            CHECK(cudaStreamCreateWithFlags(&passing, cudaStreamNonBlocking));
        }
    }
    if (passing) {
        CHECK(cudaStreamSynchronize(passing));
        CHECK(cudaStreamDestroy(passing));
    }
    for (auto &stream : streams) {
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamDestroy(stream));
    }
    for (auto &block : held) { // what was kept is as it was left
        verify<<<16, 256>>>(block.address, block.count, block.pattern, wrong[device]);
        CHECK(cudaGetLastError());
        CHECK(cudaFree(block.address));
    }
    if (far_stream)
        CHECK(cudaStreamDestroy(far_stream));
}

static void reach_each_other() {
    for (int device = 0; device < 2; device++) {
        int possible = 0;
        CHECK(cudaDeviceCanAccessPeer(&possible, device, 1 - device));
        if (!possible) {
            std::fprintf(stderr, "these GPUs cannot reach each other\n");
            std::exit(77);
        }
        CHECK(cudaSetDevice(device));
        CHECK(cudaDeviceEnablePeerAccess(1 - device, 0));
    }
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? std::atof(argv[1]) : 5;
    unsigned count = argc > 2 ? (unsigned)std::atoi(argv[2]) : 16;
    int devices = argc > 3 && std::strcmp(argv[3], "peers") == 0 ? 2 : 1;
    legacy = argc > 3 && std::strcmp(argv[3], "legacy") == 0;
    unsigned seed = argc > 4 ? (unsigned)std::strtoul(argv[4], nullptr, 10) : 1;
    unsigned long long *wrong[2] = {}, result, sum = 0;
    std::vector<std::thread> threads;

    if (devices > 1)
        reach_each_other();
    for (int device = 0; device < devices; device++) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaMalloc(&wrong[device], sizeof(**wrong)));
        CHECK(cudaMemset(wrong[device], 0, sizeof(**wrong)));
        CHECK(cudaDeviceSynchronize());
    }
    for (unsigned i = 0; i < count; i++)
        threads.emplace_back(work, i, seconds, devices, seed, wrong);
    for (auto &thread : threads)
        thread.join();
    for (auto &block : hands)
        CHECK(cudaFree(block.address));
    for (int device = 0; device < devices; device++) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(&result, wrong[device], sizeof(result), cudaMemcpyDeviceToHost));
        CHECK(cudaFree(wrong[device]));
        sum += result;
    }
    settle();
    std::fprintf(stderr, "%lu rounds\n", rounds.load());
    std::printf("ok stress %llu wrong\n", sum);
    return sum != 0;
}
