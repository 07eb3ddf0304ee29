/* Two functions with names of their own leak five blocks. */
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

/* Unknown to the compiler, which would unroll the loop: a call site is a whole stack, so each copy of the call would
 * have its own. */
static volatile int in_parser = 3, in_cache = 2;

int main(void) {
    void *kept = device_alloc(1 << 16);
    for (int i = 0; i < in_parser; i++)
        forget_in_parser();
    for (int i = 0; i < in_cache; i++)
        forget_in_cache();
    round_trip(kept, 1 << 16, 1);
    device_free(kept);
    printf("ok leaks 5\n");
    return 0;
}
