// Kernels by which a program checks its own memory, and what they are on the simulated CUDA.
#ifndef GPU_KERNELS_H
#define GPU_KERNELS_H

#include <cstddef>

extern "C" __global__ void fill(unsigned *block, size_t count, unsigned pattern) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        block[i] = pattern + (unsigned)i;
}

extern "C" __global__ void linger(long long cycles) {
    long long until = clock64() + cycles;
    while (clock64() < until)
        ;
}

extern "C" __global__ void verify(const unsigned *block, size_t count, unsigned pattern, unsigned long long *wrong) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        if (block[i] != pattern + (unsigned)i)
            atomicAdd(wrong, 1ull);
}

#ifdef SIM_TWINS
#include "simcuda.h"

static void fill_on_host(const struct simcuda_launch *launch) {
    size_t count = *(size_t *)launch->args[1];
    unsigned *block = (unsigned *)launch->touch(*(void **)launch->args[0], count * 4, 1);
    unsigned pattern = *(unsigned *)launch->args[2];
    for (size_t i = 0; block && i < count; i++)
        block[i] = pattern + (unsigned)i;
}

static void linger_on_host(const struct simcuda_launch *launch) { (void)launch; }

static void verify_on_host(const struct simcuda_launch *launch) {
    size_t count = *(size_t *)launch->args[1];
    const unsigned *block = (const unsigned *)launch->touch(*(void **)launch->args[0], count * 4, 0);
    unsigned pattern = *(unsigned *)launch->args[2];
    unsigned long long *wrong = (unsigned long long *)launch->touch(*(void **)launch->args[3], 8, 1);
    unsigned long long found = 0;
    for (size_t i = 0; block && i < count; i++)
        found += block[i] != pattern + (unsigned)i;
    if (wrong && found)
        __atomic_fetch_add(wrong, found, __ATOMIC_RELAXED);
}

SIMCUDA_TWIN(fill, "p84", fill_on_host);
SIMCUDA_TWIN(linger, "8", linger_on_host);
SIMCUDA_TWIN(verify, "p84p", verify_on_host);
#endif

#endif
