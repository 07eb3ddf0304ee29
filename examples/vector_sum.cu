// Sums scaled vectors. Two buffers last as long as the program; every round allocates a temporary and frees it again,
// the habit that makes cudaMalloc and cudaFree dominate a program's run time.
#include "check.h"

__global__ void scale(float *out, const float *in, float factor, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = in[i] * factor;
}

__global__ void add(float *sum, const float *in, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        sum[i] += in[i];
}

int main(void) {
    const int count = 1 << 18, rounds = 50;
    const size_t size = count * sizeof(float);
    float *host = (float *)malloc(size), *input, *sum;
    for (int i = 0; i < count; i++)
        host[i] = (float)(i % 100);
    CHECK(cudaMalloc(&input, size));
    CHECK(cudaMalloc(&sum, size));
    CHECK(cudaMemcpy(input, host, size, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(sum, 0, size));

    for (int round = 1; round <= rounds; round++) {
        float *scaled;
        CHECK(cudaMalloc(&scaled, size));
        scale<<<(count + 255) / 256, 256>>>(scaled, input, (float)round, count);
        CHECK(cudaGetLastError());
        add<<<(count + 255) / 256, 256>>>(sum, scaled, count);
        CHECK(cudaGetLastError());
        CHECK(cudaFree(scaled));
    }

    CHECK(cudaMemcpy(host, sum, size, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += host[i] != (float)(i % 100) * (rounds * (rounds + 1) / 2);
    CHECK(cudaFree(sum));
    CHECK(cudaFree(input));
    free(host);
    printf("vector_sum: %d rounds, %d sums, %d wrong\n", rounds, count, wrong);
    return wrong != 0;
}
