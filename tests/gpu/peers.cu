// Two GPUs write into each other's blocks, allocated before and after access was enabled, over rounds of allocation and
// free.
#include <cstdio>
#include <vector>

#include "check.h"

__global__ void add(int *to, const int *from, int count, int what) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        to[i] = from[i] + what;
}

int main() {
    const int count = 1 << 20, bytes = count * 4;
    int possible = 0, *early[2], *late[2];
    long wrong = 0;
    std::vector<int> host(count);

    CHECK(cudaDeviceCanAccessPeer(&possible, 0, 1));
    if (!possible) {
        std::fprintf(stderr, "these GPUs cannot reach each other\n");
        return 77;
    }
    for (int device = 0; device < 2; device++) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaMalloc(&early[device], bytes));
        CHECK(cudaMemset(early[device], 0, bytes));
        CHECK(cudaDeviceSynchronize());
    }
    for (int device = 0; device < 2; device++) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaDeviceEnablePeerAccess(1 - device, 0));
    }
    for (int round = 0; round < 20; round++) {
        for (int device = 0; device < 2; device++) {
            CHECK(cudaSetDevice(device));
            CHECK(cudaMalloc(&late[device], bytes));
        }
        for (int device = 0; device < 2; device++) { // device writes the other's new block from the other's old one
            CHECK(cudaSetDevice(device));
            add<<<count / 256, 256>>>(late[1 - device], early[1 - device], count, round + device);
            CHECK(cudaGetLastError());
        }
        for (int device = 0; device < 2; device++) {
            CHECK(cudaSetDevice(device));
            CHECK(cudaDeviceSynchronize());
        }
        for (int device = 0; device < 2; device++) {
            CHECK(cudaSetDevice(device));
            CHECK(cudaMemcpy(host.data(), late[device], bytes, cudaMemcpyDeviceToHost));
            for (int i = 0; i < count; i++)
                wrong += host[i] != round + 1 - device;
            CHECK(cudaFree(late[device]));
        }
    }
    for (int device = 0; device < 2; device++) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaFree(early[device]));
    }
    std::printf("ok peers %ld wrong\n", wrong);
    return wrong != 0;
}
