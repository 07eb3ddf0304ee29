/* Allocates and frees repeatedly in several threads (default: four): churn ROUNDS [THREADS]. churn 0 runs until
 * standard input ends. */
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "program.h"

static int over;
static pthread_barrier_t all_there;

static void *work(void *rounds) {
    pthread_barrier_wait(&all_there);
    for (intptr_t i = 0; rounds ? i < (intptr_t)rounds : !__atomic_load_n(&over, __ATOMIC_RELAXED); i++) {
        void *memory = NULL;
        MUST(cudaMalloc(&memory, (size_t)(i % 7 + 1) * 1000));
        MUST(cudaFree(memory));
    }
    return NULL;
}

int main(int count, char **argument) {
    enum { MOST = 1000 };
    pthread_t threads[MOST];
    char byte;
    int wanted = count > 2 ? atoi(argument[2]) : 4;
    EXPECT(count > 1 && wanted > 0 && wanted <= MOST);
    EXPECT(pthread_barrier_init(&all_there, NULL, (unsigned)wanted) == 0);
    for (int i = 0; i < wanted; i++)
        EXPECT(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)(atol(argument[1]) / wanted)) == 0);
    if (!atol(argument[1]))
        EXPECT(read(STDIN_FILENO, &byte, 1) == 0);
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < wanted; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("ok churn\n");
    return 0;
}
