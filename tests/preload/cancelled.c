/* Threads that are cancelled while they use CUDA end at their own cancellation points, as without gpumem. They leave
 * nothing behind that blocks other threads. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <time.h>

#include "program.h"

enum { THREADS = 6, ROUNDS = 5, DEPTH = 8 };

static __thread int inside; /* a call of CUDA */
static int cut_off;         /* threads that ended there */

static void ends(void *unused) { __atomic_fetch_add(&cut_off, inside, __ATOMIC_RELAXED); }

__attribute__((noinline)) static void *get(size_t size, int depth) {
    void *memory = NULL;
    if (depth) {
        memory = get(size, depth - 1);
    } else {
        inside = 1;
        MUST(cudaMalloc(&memory, size));
        inside = 0;
    }
    __asm__ volatile("" ::: "memory");
    return memory;
}

static void *work(void *argument) {
    void *kept[DEPTH] = {NULL};
    size_t number = (size_t)(uintptr_t)argument;
    pthread_cleanup_push(ends, NULL);
    for (unsigned round = 0;; round++) {
        unsigned at = round % DEPTH;
        inside = 1;
        if (kept[at])
            MUST(cudaFree(kept[at]));
        kept[at] = NULL;
        inside = 0;
        pthread_testcancel();
        kept[at] = get(1000 * number + 4096 * (round % 50), (int)(round % 37)); /* always new call sites */
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void) {
    alarm(60);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            EXPECT(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
        nanosleep(&(struct timespec){0, 3000000 * (round + 1)}, NULL);
        for (int i = 0; i < THREADS; i++) {
            void *result = NULL;
            EXPECT(pthread_cancel(threads[i]) == 0);
            EXPECT(pthread_join(threads[i], &result) == 0 && result == PTHREAD_CANCELED);
            void *memory = NULL;
            MUST(cudaMalloc(&memory, 12345));
            MUST(cudaFree(memory));
        }
    }
    printf("ok cancelled, %d inside a call\n", cut_off);
    return 0;
}
