/* Some threads grow arrays by hand while others call the driver. Each growth compares the whole array. Argument: a
 * value for GPUMEM_GROW, for the build that is linked with gpumem. */
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "program.h"

enum { GROWERS = 3, OTHERS = 2, ROUNDS = 6, STEPS = 3 };
static const size_t FIRST = (2u << 20) + 4321;

static int stop;

static void check(const unsigned char *array, const size_t *ends, int steps, unsigned char base) {
    unsigned char *host = malloc(ends[steps]);
    EXPECT(host != NULL);
    MUST(cudaMemcpy(host, array, ends[steps], cudaMemcpyDeviceToHost));
    for (int step = 0; step <= steps; step++)
        for (size_t at = step ? ends[step - 1] : 0; at < ends[step]; at += 509)
            EXPECT(host[at] == base + step);
    free(host);
}

static void grow(unsigned char base) {
    unsigned char *array, *grown;
    size_t ends[STEPS + 1] = {FIRST};
    MUST(cudaMalloc((void **)&array, FIRST));
    MUST(cudaMemset(array, base, FIRST));
    MUST(cudaDeviceSynchronize());
    for (int step = 1; step <= STEPS; step++) {
        size_t size = ends[step - 1], larger = ends[step] = size + size / 2;
        MUST(cudaMalloc((void **)&grown, larger));
        MUST(cudaMemcpy(grown, array, size, cudaMemcpyDeviceToDevice));
        if (base & 1)
            MUST(cudaDeviceSynchronize());
        if (base & 2)
            usleep(500); /* other threads enter the driver meanwhile */
        MUST(cudaFree(array));
        MUST(cudaMemset(grown + size, base + step, larger - size));
        MUST(cudaDeviceSynchronize());
        array = grown;
        check(array, ends, step, base);
    }
    MUST(cudaFree(array));
}

static void *grower(void *argument) {
    for (int round = 0; round < ROUNDS; round++)
        grow((unsigned char)((intptr_t)argument * 16 + round));
    return NULL;
}

static void *other(void *argument) {
    unsigned char bytes[256];
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        void *memory;
        MUST(cudaMalloc(&memory, sizeof bytes));
        MUST(cudaMemset(memory, 7, sizeof bytes));
        MUST(cudaMemcpy(bytes, memory, sizeof bytes, cudaMemcpyDeviceToHost));
        EXPECT(all_bytes_are(bytes, 7, sizeof bytes));
        MUST(cudaFree(memory));
        usleep(100);
    }
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t growers[GROWERS], others[OTHERS];
    if (count > 1)
        setenv("GPUMEM_GROW", arguments[1], 1);
    MUST(cudaFree(NULL));
    grower((void *)1);
    for (intptr_t i = 0; i < OTHERS; i++)
        EXPECT(pthread_create(&others[i], NULL, other, NULL) == 0);
    for (intptr_t i = 0; i < GROWERS; i++)
        EXPECT(pthread_create(&growers[i], NULL, grower, (void *)(i + 2)) == 0);
    for (int i = 0; i < GROWERS; i++)
        EXPECT(pthread_join(growers[i], NULL) == 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < OTHERS; i++)
        EXPECT(pthread_join(others[i], NULL) == 0);
    printf("ok grow_threads\n");
    return 0;
}
