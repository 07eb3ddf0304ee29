// Managed memory: host and device work on one pointer, with no copy written down.
#include "check.h"

__global__ void square(double *values, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] *= values[i];
}

int main(void) {
    const int count = 1 << 16;
    double *values;
    CHECK(cudaMallocManaged(&values, count * sizeof(double)));
    for (int i = 0; i < count; i++)
        values[i] = i;
    square<<<(count + 255) / 256, 256>>>(values, count);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    int wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += values[i] != (double)i * i;
    CHECK(cudaFree(values));
    printf("managed: %d squares, %d wrong\n", count, wrong);
    return wrong != 0;
}
