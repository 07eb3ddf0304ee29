/* Pairs of cudaMalloc and cudaFree through a wrapper, from several functions at the end of a deep stack.
 *
 * usage: deep_pairs COUNT DEPTH */
#include <cuda_runtime_api.h>

#include "program.h"

#define APART __attribute__((noinline))
#define STAYS __asm__ volatile("" ::: "memory") /* keeps the frame of the caller: no tail call */

APART static void *allocate(size_t bytes) {
    void *memory = NULL;
    MUST(cudaMalloc(&memory, bytes));
    STAYS;
    return memory;
}

APART static void release(void *memory) {
    MUST(cudaFree(memory));
    STAYS;
}

APART static void pair0(void) {
    release(allocate(4096));
    STAYS;
}

APART static void pair1(void) {
    release(allocate(4096));
    STAYS;
}

static void pairs(long count) {
    static void (*const places[])(void) = {pair0, pair1};
    for (long i = 0; i < count; i++)
        places[i % 2]();
}

APART void measured(long count);
void measured(long count) {
    pairs(count);
    STAYS;
}

APART static void descend(long depth, long count) {
    if (depth) {
        descend(depth - 1, count);
    } else {
        pairs(64); /* the first calls unwind the stack */
        measured(count);
    }
    STAYS;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    descend(strtol(argv[2], NULL, 10), strtol(argv[1], NULL, 10));
    printf("ok deep_pairs %s\n", argv[1]);
    return 0;
}
