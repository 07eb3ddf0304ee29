/* Kernels on memory of every kind: the sum of two arrays, checked on the host. */
#include <cuda_runtime.h>

#include "program.h"

extern "C" __global__ void add_arrays(float *sum, const float *left, const float *right, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        sum[i] = left[i] + right[i];
}

#ifdef SIM_TWINS
#include "simcuda.h"

static void add_arrays_on_host(const struct simcuda_launch *launch) {
    float **pointers[3] = {(float **)launch->args[0], (float **)launch->args[1], (float **)launch->args[2]};
    int count = *(int *)launch->args[3];
    size_t size = (size_t)count * sizeof(float);
    float *sum = (float *)launch->touch(*pointers[0], size, 1);
    const float *left = (const float *)launch->touch(*pointers[1], size, 0);
    const float *right = (const float *)launch->touch(*pointers[2], size, 0);
    for (int i = 0; sum && left && right && i < count; i++)
        sum[i] = left[i] + right[i];
}

SIMCUDA_TWIN(add_arrays, "ppp4", add_arrays_on_host);
#endif

int main() {
    enum { COUNT = 100000, ROUNDS = 4, BLOCK = 256 };
    const size_t size = COUNT * sizeof(float);
    float *host = (float *)malloc(size);
    EXPECT(host != NULL);
    for (int round = 0; round < ROUNDS; round++) {
        float *left = (float *)device_alloc(size), *right = (float *)device_alloc(size);
        float *sum = (float *)device_alloc(size);
        for (int i = 0; i < COUNT; i++)
            host[i] = (float)(i + round);
        MUST(cudaMemcpy(left, host, size, cudaMemcpyHostToDevice));
        for (int i = 0; i < COUNT; i++)
            host[i] = (float)(2 * i);
        MUST(cudaMemcpy(right, host, size, cudaMemcpyHostToDevice));
        add_arrays<<<(COUNT + BLOCK - 1) / BLOCK, BLOCK>>>(sum, left, right, COUNT);
        MUST(cudaGetLastError());
        device_free(left); /* after the kernel: the free waits, or the memory stays until the kernel is done */
        device_free(right);
        MUST(cudaMemcpy(host, sum, size, cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT; i++)
            EXPECT(host[i] == (float)(3 * i + round));
        device_free(sum);
    }
    free(host);
    printf("ok kernel %d rounds\n", ROUNDS);
    return 0;
}
