/* Requests that no device can serve, as a program makes them that probes for the largest block, from several threads;
 * ordinary work in between.
 *
 *   usage: refused THREADS ROUNDS */
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "program.h"

enum { MOST = 64 };

static int rounds;

static void *probe(void *unused) {
    for (int round = 0; round < rounds; round++) {
        void *memory = NULL;
        EXPECT(cudaMalloc(&memory, (size_t)1 << 46) == cudaErrorMemoryAllocation);
        EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation && !memory);
        if (round % 16)
            continue;
        MUST(cudaMalloc(&memory, 1 << 16));
        MUST(cudaFree(memory));
    }
    return unused;
}

int main(int count, char **words) {
    pthread_t threads[MOST];
    int number = count > 1 ? atoi(words[1]) : 1;
    rounds = count > 2 ? atoi(words[2]) : 1;
    EXPECT(number > 0 && number <= MOST);
    MUST(cudaFree(NULL));
    for (int i = 0; i < number; i++)
        EXPECT(pthread_create(&threads[i], NULL, probe, NULL) == 0);
    for (int i = 0; i < number; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("ok refused\n");
    return 0;
}
