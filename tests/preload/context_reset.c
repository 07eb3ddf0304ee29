/* The device is reset while a block is live. Memory that is allocated afterwards works and is a new block. Argument
 * `alone`, when no other process uses the device: a reset releases all memory, so later rounds hold no more than the
 * first. */
#include <cuda_runtime_api.h>

#include "program.h"

int main(int argc, char **argv) {
    enum { SIZE = 1 << 20, ROUNDS = 3 };
    size_t used_first = 0;
    for (int round = 0; round < ROUNDS; round++) {
        void *freed = device_alloc(SIZE);
        void *lost = device_alloc(SIZE);
        round_trip(freed, SIZE, 1);
        round_trip(lost, SIZE, 2);
        size_t unused, total;
        MUST(cudaMemGetInfo(&unused, &total));
        if (round == 0)
            used_first = total - unused;
        EXPECT(argc < 2 || total - unused <= used_first);
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
