/* The memory of a residency belongs to the program: with the library preloaded, its allocations are recorded as the
 * program's own, and its copies are right. */
#include <cuda_runtime_api.h>

#include "program.h"
#include "shim/gpumem_residency.h"

enum { SIZE = 100000 };

static uint64_t object_of(struct gpumem_residency *residency, void *address) {
    struct gpumem_object_options options = {.struct_size = sizeof options,
                                            .address = address,
                                            .bytes = SIZE,
                                            .flags = address ? 0 : GPUMEM_OBJECT_GPU_ONLY};
    uint64_t object;
    MUST(gpumem_residency_register(residency, &options, &object));
    return object;
}

int main(void) {
    struct gpumem_residency_options options = {.struct_size = sizeof options, .budget = 2 * SIZE, .eviction = "lru"};
    struct gpumem_residency_stats stats = {.struct_size = sizeof stats};
    struct gpumem_residency *residency;
    void *input = NULL, *output = NULL;
    cudaStream_t stream;
    MUST(cudaHostAlloc(&input, SIZE, cudaHostAllocDefault));
    note_alloc("cuMemHostAlloc", SIZE, input);
    memset(input, 0x5a, SIZE);
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(gpumem_residency_create(&options, &residency));

    struct gpumem_use uses[] = {{object_of(residency, input), GPUMEM_READ, NULL},
                                {object_of(residency, NULL), GPUMEM_WRITE, NULL},
                                {object_of(residency, NULL), GPUMEM_WRITE, NULL}};
    MUST(gpumem_residency_acquire(residency, uses, 2, stream));
    note_alloc("cuMemAlloc", SIZE, uses[0].address);
    note_alloc("cuMemAlloc", SIZE, uses[1].address);
    MUST(cudaMemcpyAsync(uses[1].address, uses[0].address, SIZE, cudaMemcpyDeviceToDevice, stream));
    MUST(gpumem_residency_release(residency, uses, 2, stream, 0));
    MUST(gpumem_residency_acquire(residency, &uses[2], 1, stream)); /* evicts the input and takes its memory */
    EXPECT(uses[2].address == uses[0].address);
    MUST(cudaMemsetAsync(uses[2].address, 0x77, SIZE, stream));
    MUST(gpumem_residency_release(residency, &uses[2], 1, stream, 0));
    MUST(gpumem_residency_sync(residency, uses[1].object, &output));
    note_alloc("cuMemHostAlloc", SIZE, output);
    EXPECT(all_bytes_are(output, 0x5a, SIZE));
    MUST(gpumem_residency_get_stats(residency, &stats));
    EXPECT(stats.evictions == 1 && stats.written_back == 0 && stats.allocations == 2 && stats.peak_bytes == 2 * SIZE);
    EXPECT(stats.bytes_to_device == SIZE && stats.bytes_to_host == SIZE);

    MUST(gpumem_residency_destroy(residency));
    note_free("cuMemFree", uses[1].address);
    note_free("cuMemFree", uses[2].address);
    note_free("cuMemFreeHost", output);
    MUST(cudaStreamDestroy(stream));
    note_free("cuMemFreeHost", input);
    MUST(cudaFreeHost(input));
    printf("ok residency %llu\n", (unsigned long long)stats.copies);
    return 0;
}
