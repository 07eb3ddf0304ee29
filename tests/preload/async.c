/* Stream-ordered memory: blocks of two streams that are freed before the host waits, and the mixed frees that CUDA
 * allows. */
#include <cuda_runtime_api.h>

#include "program.h"

int main(void) {
    enum { SIZE = 1 << 20, ROUNDS = 10 };
    cudaStream_t streams[2];
    unsigned char *host = NULL;
    MUST(cudaMallocHost((void **)&host, 2 * SIZE));
    note_alloc("cuMemHostAlloc", 2 * SIZE, host);
    for (int s = 0; s < 2; s++)
        MUST(cudaStreamCreate(&streams[s]));
    for (int round = 0; round < ROUNDS; round++) {
        for (int s = 0; s < 2; s++) {
            void *memory = NULL;
            MUST(cudaMallocAsync(&memory, SIZE, streams[s]));
            note_alloc("cuMemAllocAsync", SIZE, memory);
            MUST(cudaMemsetAsync(memory, round * 2 + s, SIZE, streams[s]));
            MUST(cudaMemcpyAsync(host + s * SIZE, memory, SIZE, cudaMemcpyDeviceToHost, streams[s]));
            note_free("cuMemFreeAsync", memory);
            MUST(cudaFreeAsync(memory, streams[s]));
        }
        for (int s = 0; s < 2; s++) {
            MUST(cudaStreamSynchronize(streams[s]));
            EXPECT(all_bytes_are(host + s * SIZE, (unsigned char)(round * 2 + s), SIZE));
        }
    }
    void *mixed = NULL;
    MUST(cudaMallocAsync(&mixed, SIZE, streams[0]));
    note_alloc("cuMemAllocAsync", SIZE, mixed);
    MUST(cudaStreamSynchronize(streams[0]));
    device_free(mixed);
    mixed = device_alloc(SIZE);
    note_free("cuMemFreeAsync", mixed);
    MUST(cudaFreeAsync(mixed, streams[1]));
    for (int s = 0; s < 2; s++) {
        MUST(cudaStreamSynchronize(streams[s]));
        MUST(cudaStreamDestroy(streams[s]));
    }
    note_free("cuMemFreeHost", host);
    MUST(cudaFreeHost(host));
    printf("ok async %d blocks\n", 2 * ROUNDS + 2);
    return 0;
}
