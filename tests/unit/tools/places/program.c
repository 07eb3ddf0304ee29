/* Asks for memory in three ways; test_symbols.py finds the marked lines. */
#include <cuda_runtime.h>

static inline __attribute__((always_inline)) int inlined_helper(int size) {
    return typed_malloc(size) + 1; /* in inlined_helper */
}

static __attribute__((noinline)) int load_frame(int size) { return cudaMalloc(size) + 1; /* in load_frame */ }

int main(void) {
    int sum = load_frame(1);
    sum += inlined_helper(2);
    sum += typed_malloc(3); /* in main */
    return sum == 0;
}
