/* Allocates and frees blocks of a few sizes on several streams. Each block is filled with its own pattern and
 * checked before its free, so memory that two blocks share is noticed. SIMCUDA_STREAMS selects the order in which
 * the streams run. */
#include <cuda.h>

#include "simcuda.h"
#include "tests/preload/program.h"

enum { STREAMS = 3, HELD = 12, STEPS = 400 };

static CUfunction fill, check;
static CUstream streams[STREAMS];

static void launch(CUfunction kernel, CUstream stream, CUdeviceptr address, size_t size, unsigned pattern) {
    uint64_t bytes = size / 4 * 4;
    void *arguments[] = {&address, &bytes, &pattern};
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

int main(void) {
    static const size_t sizes[] = {4096, 65536, 65536 + 512, 300000};
    struct {
        CUdeviceptr address;
        size_t size;
        unsigned pattern;
        int by_async, stream;
    } held[HELD] = {0};
    CUcontext context;
    CUmodule module;
    unsigned random = 4711;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, "kernels of the simulated driver"));
    MUST(cuModuleGetFunction(&fill, module, SIMCUDA_KERNEL_FILL));
    MUST(cuModuleGetFunction(&check, module, SIMCUDA_KERNEL_CHECK));
    for (int i = 0; i < STREAMS; i++)
        MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (unsigned step = 0; step < STEPS + HELD; step++) {
        random = random * 1664525u + 1013904223u;
        int i = step < STEPS ? (int)(random >> 16) % HELD : (int)(step - STEPS);
        if (held[i].address) {
            launch(check, streams[held[i].stream], held[i].address, held[i].size, held[i].pattern);
            if (held[i].by_async)
                MUST(cuMemFreeAsync(held[i].address, streams[held[i].stream]));
            else
                MUST(cuMemFree(held[i].address));
            held[i].address = 0;
        } else if (step < STEPS) {
            held[i].stream = (int)(random >> 8) % STREAMS;
            held[i].size = sizes[(random >> 20) % 4];
            held[i].by_async = (random >> 24) % 3 == 0;
            held[i].pattern = 0x70000000u + step;
            if (held[i].by_async)
                MUST(cuMemAllocAsync(&held[i].address, held[i].size, streams[held[i].stream]));
            else
                MUST(cuMemAlloc(&held[i].address, held[i].size));
            launch(fill, streams[held[i].stream], held[i].address, held[i].size, held[i].pattern);
        }
    }
    MUST(cuCtxSynchronize());
    EXPECT(simcuda_check_runs() > STEPS / 4);
    if (simcuda_violations() || simcuda_check_mismatches())
        fail(simcuda_last_violation(), __LINE__, (int)simcuda_check_mismatches());
    printf("ok patterns %llu\n", (unsigned long long)simcuda_check_runs());
    return 0;
}
