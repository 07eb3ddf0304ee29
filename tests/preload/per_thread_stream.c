/* Compiled for per-thread default streams: every call is the _ptsz or _ptds twin. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "program.h"

enum { THREADS = 4, SIZE = 50000, ROUNDS = 5 };

static void *work(void *argument) {
    static _Thread_local unsigned char host[SIZE];
    unsigned char value = (unsigned char)(intptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        void *memory = NULL;
        MUST(cudaMallocAsync(&memory, SIZE, 0));
        note_alloc("cuMemAllocAsync", SIZE, memory);
        MUST(cudaMemsetAsync(memory, value + round, SIZE, 0));
        MUST(cudaMemcpyAsync(host, memory, SIZE, cudaMemcpyDeviceToHost, 0));
        note_free("cuMemFreeAsync", memory);
        MUST(cudaFreeAsync(memory, 0));
        MUST(cudaStreamSynchronize(0));
        EXPECT(all_bytes_are(host, (unsigned char)(value + round), SIZE));
        memory = device_alloc(SIZE);
        round_trip(memory, SIZE, value);
        device_free(memory);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, work, (void *)(i * 16)) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("ok per_thread_stream %d\n", THREADS * ROUNDS);
    return 0;
}
