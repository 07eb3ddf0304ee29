// One thread allocates, fills, checks and frees on device 0. Meanwhile the other device copies from device 0's memory,
// with peer access in every second round, and is reset while that thread goes on.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "check.h"

static const int COUNT = 1 << 18, KEPT = 8, RESETS = 12;
static std::atomic<bool> over;
static std::atomic<long> pairs;

__global__ void fill(int *words, int count, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        words[i] = value + i;
}

__global__ void compare(const int *words, int count, int value, unsigned long long *wrong) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && words[i] != value + i)
        atomicAdd(wrong, 1ull);
}

static void work(unsigned long long *wrong) {
    int *blocks[KEPT] = {}, values[KEPT] = {};
    CHECK(cudaSetDevice(0));
    for (int round = 0; !over; round++) {
        int at = round % KEPT;
        if (blocks[at]) {
            compare<<<COUNT / 256, 256>>>(blocks[at], COUNT, values[at], wrong);
            CHECK(cudaFree(blocks[at]));
        }
        CHECK(cudaMalloc(&blocks[at], COUNT * sizeof(int)));
        fill<<<COUNT / 256, 256>>>(blocks[at], COUNT, values[at] = round);
        CHECK(cudaGetLastError());
        pairs++;
    }
    for (int *block : blocks)
        CHECK(cudaFree(block));
    CHECK(cudaDeviceSynchronize());
}

static long copied(const int *from, bool access) {
    std::vector<int> host(COUNT);
    int *here;
    long wrong = 0;
    CHECK(cudaSetDevice(1));
    if (access)
        CHECK(cudaDeviceEnablePeerAccess(0, 0));
    CHECK(cudaMalloc(&here, COUNT * sizeof(int)));
    CHECK(cudaMemcpyPeerAsync(here, 1, from, 0, COUNT * sizeof(int), 0));
    CHECK(cudaMemcpy(host.data(), here, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        wrong += host[i] != 7 + i;
    CHECK(cudaMemcpyPeerAsync(here, 1, from, 0, COUNT * sizeof(int), 0)); // the reset meets it
    return wrong;
}

int main() {
    int devices = 0, possible = 0, *source;
    long wrong = 0;
    unsigned long long *found, total;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) {
        std::fprintf(stderr, "needs two GPUs\n");
        return 77;
    }
    CHECK(cudaDeviceCanAccessPeer(&possible, 1, 0));
    CHECK(cudaMalloc(&source, COUNT * sizeof(int)));
    CHECK(cudaMalloc(&found, sizeof *found));
    CHECK(cudaMemset(found, 0, sizeof *found));
    fill<<<COUNT / 256, 256>>>(source, COUNT, 7);
    CHECK(cudaDeviceSynchronize());
    std::thread worker(work, found);
    for (int i = 0; i < RESETS; i++) {
        wrong += copied(source, possible && i % 2);
        CHECK(cudaDeviceReset());
        for (long seen = pairs; pairs < seen + 20;) // the worker goes on
            std::this_thread::yield();
    }
    over = true;
    worker.join();
    CHECK(cudaSetDevice(0));
    CHECK(cudaMemcpy(&total, found, sizeof total, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(source));
    CHECK(cudaFree(found));
    std::printf("ok peer_ends %ld wrong\n", wrong + (long)total);
    return wrong || total;
}
