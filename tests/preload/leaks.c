/* Five blocks are left behind by two functions with names of their own. */
#include <cuda_runtime_api.h>

#include "program.h"

__attribute__((noinline)) static void forget_in_parser(void) {
    void *memory = NULL;
    MUST(cudaMalloc(&memory, 3000));
    note_alloc("cuMemAlloc", 3000, memory);
}

__attribute__((noinline)) static void forget_in_cache(void) {
    void *memory = NULL;
    MUST(cudaMalloc(&memory, 70000));
    note_alloc("cuMemAlloc", 70000, memory);
}

int main(void) {
    void *kept = device_alloc(1 << 16);
    for (int i = 0; i < 3; i++)
        forget_in_parser();
    for (int i = 0; i < 2; i++)
        forget_in_cache();
    round_trip(kept, 1 << 16, 1);
    device_free(kept);
    printf("ok leaks 5\n");
    return 0;
}
