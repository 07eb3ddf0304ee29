/* Launches of many kernels in turn, with 5 to 20 arguments of which every second is a pointer, after pairs of
 * allocation and free. measured() is what counts (tests/unit/counted_work.py).
 *
 * usage: launches ROUNDS PAIRS */
#include <cuda.h>

#include "program.h"
#include "simcuda.h"

enum { KERNELS = 150, ARGUMENTS = 20 };

static CUfunction kernels[KERNELS];

static void nothing(const struct simcuda_launch *launch) {}

static void describe(unsigned kernel, char *name, char *parameters) {
    unsigned count = 5 + kernel % (ARGUMENTS - 4);
    sprintf(name, "kernel_%u", kernel);
    for (unsigned i = 0; i < count; i++)
        parameters[i] = "q84q"[i % 4];
    parameters[count] = '\0';
}

__attribute__((noinline)) void measured(int rounds, void **arguments);
void measured(int rounds, void **arguments) {
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < KERNELS; i++)
            MUST(cuLaunchKernel(kernels[i], 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
}

int main(int count, char **words) {
    char name[32], parameters[ARGUMENTS + 1];
    uint64_t values[ARGUMENTS];
    void *arguments[ARGUMENTS];
    CUdeviceptr block;
    CUmodule module;
    EXPECT(count == 3);
    start_driver();
    MUST(cuModuleLoadData(&module, ""));
    for (unsigned i = 0; i < KERNELS; i++) {
        describe(i, name, parameters);
        simcuda_register_kernel(name, parameters, nothing);
        MUST(cuModuleGetFunction(&kernels[i], module, name));
    }
    for (int i = atoi(words[2]); i > 0; i--) {
        MUST(cuMemAlloc(&block, 4096));
        MUST(cuMemFree(block));
    }
    do
        MUST(cuMemAlloc(&block, 4096));
    while ((block + 4096) % (2 << 20) == 0); /* a guarded one ends where its mapping ends */
    for (unsigned i = 0; i < ARGUMENTS; i++) {
        values[i] = i % 4 == 0 || i % 4 == 3 ? block : i;
        arguments[i] = &values[i];
    }
    measured(1, arguments);
    measured(atoi(words[1]), arguments);
    return 0;
}
