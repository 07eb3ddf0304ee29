/* Two threads run one after the other, in the order of the argument. Each allocates blocks that it frees at once and
 * one block that lives to the end. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <time.h>

#include "program.h"

enum { ROUNDS = 20 };

static void *lasting[2];

__attribute__((noinline)) static void *transient_block(size_t size) {
    void *memory = NULL;
    MUST(cudaMalloc(&memory, size));
    note_alloc("cuMemAlloc", (long long)size, memory);
    return memory;
}

__attribute__((noinline)) static void *lasting_block(size_t size) {
    void *memory = NULL;
    MUST(cudaMalloc(&memory, size));
    note_alloc("cuMemAlloc", (long long)size, memory);
    return memory;
}

static void *work(void *argument) {
    size_t which = (size_t)(uintptr_t)argument;
    lasting[which] = lasting_block(10000); /* the same size in both threads, so that sizes do not distinguish them */
#pragma GCC unroll 1
    for (int i = 0; i < ROUNDS; i++) {
        void *memory = transient_block(which ? 20000 : 10000);
        round_trip(memory, 10000, (unsigned char)i);
        device_free(memory);
    }
    return NULL;
}

int main(int argc, char **argv) {
    const struct timespec pause = {.tv_nsec = 400000000};
    pthread_t thread;
    for (const char *p = argc > 1 ? argv[1] : "ab"; *p; p++) {
        EXPECT(pthread_create(&thread, NULL, work, (void *)(uintptr_t)(*p - 'a')) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
    }
    EXPECT(nanosleep(&pause, NULL) == 0);
    for (int i = 0; i < 2; i++)
        if (lasting[i])
            device_free(lasting[i]);
    printf("ok plan_order\n");
    return 0;
}
