/* An ordinary program: allocate, fill, copy, check, free; several sizes, and blocks of one size repeatedly. */
#include <cuda_runtime_api.h>

#include "program.h"

int main(void) {
    static const size_t sizes[] = {1, 512, 4097, 1 << 20, (4 << 20) + 3};
    enum { SIZES = sizeof sizes / sizeof *sizes, ROUNDS = 20 };
    void *blocks[SIZES];
    for (int i = 0; i < SIZES; i++)
        blocks[i] = device_alloc(sizes[i]);
    for (int i = 0; i < SIZES; i++)
        round_trip(blocks[i], sizes[i], (unsigned char)(i + 1));
    for (int i = 0; i < SIZES; i++)
        device_free(blocks[i]);
    for (int i = 0; i < ROUNDS; i++) {
        void *block = device_alloc(1 << 20);
        EXPECT((uintptr_t)block % 256 == 0);
        round_trip(block, 1 << 20, (unsigned char)i);
        device_free(block);
    }
    MUST(cudaFree(NULL));
    MUST(cudaDeviceSynchronize());
    MUST(cudaGetLastError());
    printf("ok runtime_basic %d blocks\n", SIZES + ROUNDS);
    return 0;
}
