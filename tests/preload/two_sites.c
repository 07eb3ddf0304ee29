/* Two places that allocate different sizes: each must appear as one call site. */
#include <cuda_runtime_api.h>

#include "program.h"

enum { ROUNDS = 5 };

__attribute__((noinline)) static void *first_place(void) {
    void *memory = NULL;
    MUST(cudaMalloc(&memory, 10000));
    note_alloc("cuMemAlloc", 10000, memory);
    return memory;
}

__attribute__((noinline)) static void *second_place(void) {
    void *memory = NULL;
    MUST(cudaMalloc(&memory, 20000));
    note_alloc("cuMemAlloc", 20000, memory);
    return memory;
}

int main(void) {
    /* Not unrolled: a call site is a whole stack, so each copy of the call would have its own. */
#pragma GCC unroll 1
    for (int i = 0; i < ROUNDS; i++) {
        void *first = first_place();
        void *second = second_place();
        round_trip(first, 10000, 1);
        round_trip(second, 20000, 2);
        device_free(second);
        device_free(first);
    }
    printf("ok two_sites %d\n", 2 * ROUNDS);
    return 0;
}
