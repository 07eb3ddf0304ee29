/* Eight threads, each with its own blocks: allocate, fill, check, free. */
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "program.h"

enum { THREADS = 8, ROUNDS = 12 };

static void *work(void *argument) {
    int number = (int)(intptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = (size_t)(number + 1) * 4096 + (size_t)round;
        void *memory = device_alloc(size);
        round_trip(memory, size, (unsigned char)(number * ROUNDS + round));
        device_free(memory);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("ok threads %d\n", THREADS * ROUNDS);
    return 0;
}
