/* Frees blocks in stream order while work on them is in flight. The work still finds the block unchanged. Argument:
 * "ordered" for blocks of cuMemAllocAsync, "plain" for blocks of cuMemAlloc. Prints how many frees waited. */
#include <cuda.h>
#include <stdbool.h>

#include "program.h"
#include "simcuda.h"

enum { BYTES = 1 << 20, ROUNDS = 8 };

static void launch(CUfunction kernel, CUdeviceptr address, uint32_t pattern, CUstream stream) {
    uint64_t bytes = BYTES;
    void *arguments[] = {&address, &bytes, &pattern};
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

int main(int count, char **words) {
    bool ordered = count > 1 && strcmp(words[1], "ordered") == 0;
    CUstream stream;
    CUmodule module;
    CUfunction fill, verify;
    int waited = 0;
    start_driver();
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuModuleLoadData(&module, "kernels of the simulated driver"));
    MUST(cuModuleGetFunction(&fill, module, SIMCUDA_KERNEL_FILL));
    MUST(cuModuleGetFunction(&verify, module, SIMCUDA_KERNEL_CHECK));
    simcuda_set_streams("manual");
    for (uint32_t round = 0; round < ROUNDS; round++) {
        CUdeviceptr block;
        MUST(ordered ? cuMemAllocAsync(&block, BYTES, stream) : cuMemAlloc(&block, BYTES));
        note_alloc(ordered ? "cuMemAllocAsync" : "cuMemAlloc", BYTES, (void *)(uintptr_t)block);
        launch(fill, block, round + 1, stream);
        launch(verify, block, round + 1, stream);
        uint64_t before = simcuda_check_runs();
        note_free("cuMemFreeAsync", (void *)(uintptr_t)block);
        MUST(cuMemFreeAsync(block, stream));
        waited += simcuda_check_runs() != before;
    }
    simcuda_run_all();
    MUST(cuStreamSynchronize(stream));
    EXPECT(simcuda_check_runs() == ROUNDS);
    EXPECT(simcuda_check_mismatches() == 0 && simcuda_violations() == 0);
    printf("ok free_async %d of %d frees waited\n", waited, ROUNDS);
    return 0;
}
