/* Three functions that allocate through one wrapper. Compiled as C, where the wrapper is the program's own, and as C++,
 * where it has the name of a known library. ADDED moves all lines and offsets; MORE makes load_vector allocate more.
 * usage: call_sites [BYTES]   the last request has so many bytes */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define APART __attribute__((noinline))

#ifdef ADDED
volatile int added_calls;

APART int added(int value) {
    for (int i = 0; i < value; i++)
        added_calls += i;
    return added_calls;
}
#endif

#ifdef __cplusplus
namespace rmm {
namespace mr {
template <typename T> APART T *allocate(size_t count) {
    void *memory = NULL;
    cudaMalloc(&memory, count * sizeof(T));
    return static_cast<T *>(memory);
}
} // namespace mr
} // namespace rmm
#define gpu_malloc rmm::mr::allocate<char>
#else
APART static void *gpu_malloc(size_t bytes) {
    void *memory = NULL;
    cudaMalloc(&memory, bytes);
    return memory;
}
#endif

static void *volatile kept;

APART static void load_matrix(void) { kept = gpu_malloc(1 << 20); }

APART static void load_vector(void) {
    kept = gpu_malloc(2 << 20);
#ifdef MORE
    cudaFree(kept);
    kept = gpu_malloc(3 << 20);
#endif
}

APART static void make_workspace(size_t bytes) { kept = gpu_malloc(bytes); }

/* A stack that is deeper than what is recorded. */
APART static void descend(int depth, size_t bytes) {
    if (depth > 0) {
        descend(depth - 1, bytes);
    } else {
        load_matrix();
        load_vector();
        make_workspace(bytes);
    }
    kept = NULL;
}

int main(int argc, char **argv) {
#ifdef ADDED
    added(argc);
#endif
    for (volatile int i = 0; i < 2; i++)
        descend(20 + i, 4 << 20);
    load_matrix();
    if (argc > 1)
        make_workspace(strtoull(argv[1], NULL, 0));
    puts("ok call_sites");
    return 0;
}
