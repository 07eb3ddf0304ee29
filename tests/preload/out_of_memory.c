/* A request that no device can serve, then ordinary work: the program gets CUDA's own error, and the later work
 * succeeds. */
#include <cuda_runtime_api.h>

#include "program.h"

int main(void) {
    const size_t huge = (size_t)1 << 48;
    void *memory = (void *)(uintptr_t)0x1234;
    cudaError_t error = cudaMalloc(&memory, huge);
    note("fail", "cuMemAlloc", (long long)huge, NULL);
    printf("huge %s\n", cudaGetErrorName(error));
    EXPECT(error == cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
    MUST(cudaGetLastError());
    memory = device_alloc(1 << 20);
    round_trip(memory, 1 << 20, 0x55);
    device_free(memory);
    printf("ok out_of_memory\n");
    return 0;
}
