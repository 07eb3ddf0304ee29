// cudaMallocAsync and cudaFreeAsync on two streams: a block may be used in its own stream's order without any wait; the
// other stream waits for an event first.
#include "check.h"

__global__ void fill(unsigned *out, unsigned value, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = value + i;
}

int main(void) {
    const int count = 1 << 16, rounds = 20;
    const size_t size = count * sizeof(unsigned);
    cudaStream_t producer, consumer;
    cudaEvent_t filled, copied;
    unsigned *host, wrong = 0;
    CHECK(cudaStreamCreate(&producer));
    CHECK(cudaStreamCreate(&consumer));
    CHECK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    CHECK(cudaMallocHost(&host, size));

    for (int round = 0; round < rounds; round++) {
        unsigned *block;
        CHECK(cudaMallocAsync(&block, size, producer));
        fill<<<(count + 255) / 256, 256, 0, producer>>>(block, (unsigned)round, count);
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(filled, producer));
        CHECK(cudaStreamWaitEvent(consumer, filled, 0));
        CHECK(cudaMemcpyAsync(host, block, size, cudaMemcpyDeviceToHost, consumer));
        CHECK(cudaEventRecord(copied, consumer));
        CHECK(cudaStreamWaitEvent(producer, copied, 0));
        CHECK(cudaFreeAsync(block, producer));
        CHECK(cudaStreamSynchronize(consumer));
        for (int i = 0; i < count; i++)
            wrong += host[i] != (unsigned)(round + i);
    }

    CHECK(cudaStreamSynchronize(producer));
    CHECK(cudaFreeHost(host));
    CHECK(cudaEventDestroy(copied));
    CHECK(cudaEventDestroy(filled));
    CHECK(cudaStreamDestroy(consumer));
    CHECK(cudaStreamDestroy(producer));
    printf("stream_ordered: %d rounds, %u wrong\n", rounds, wrong);
    return wrong != 0;
}
