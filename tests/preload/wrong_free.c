/* Wrong frees of the program: each returns the driver's own error, and nothing else is affected. */
#include <cuda_runtime_api.h>

#include "program.h"

static void wrong_free(const char *what, void *memory) {
    note("free_fail", "cuMemFree", ANY_BYTES, memory);
    cudaError_t error = cudaFree(memory);
    printf("%s %s\n", what, cudaGetErrorName(error));
    EXPECT(error != cudaSuccess);
    EXPECT(cudaGetLastError() == error);
}

int main(void) {
    enum { SIZE = 1 << 20 };
    void *twice = device_alloc(SIZE);
    void *whole = device_alloc(SIZE);
    device_free(twice);
    wrong_free("double", twice);
    wrong_free("interior", (char *)whole + 512);
    wrong_free("unknown", (void *)(uintptr_t)0x10);
    round_trip(whole, SIZE, 0x42);
    device_free(whole);
    wrong_free("double", whole);
    void *after = device_alloc(SIZE);
    round_trip(after, SIZE, 0x24);
    device_free(after);
    MUST(cudaDeviceSynchronize());
    printf("ok wrong_free\n");
    return 0;
}
