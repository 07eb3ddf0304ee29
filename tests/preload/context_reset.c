/* The device is reset under a live block; what is allocated afterwards works and is another block. */
#include <cuda_runtime_api.h>

#include "program.h"

int main(void) {
    enum { SIZE = 1 << 20, ROUNDS = 3 };
    for (int round = 0; round < ROUNDS; round++) {
        void *freed = device_alloc(SIZE);
        void *lost = device_alloc(SIZE);
        round_trip(freed, SIZE, 1);
        round_trip(lost, SIZE, 2);
        device_free(freed);
        note("gone", "cuMemAlloc", SIZE, lost);
        MUST(cudaDeviceReset());
    }
    void *after = device_alloc(SIZE);
    round_trip(after, SIZE, 3);
    device_free(after);
    printf("ok context_reset %d\n", ROUNDS);
    return 0;
}
