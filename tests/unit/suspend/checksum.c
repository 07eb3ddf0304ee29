/* Prints the text of the checksum's kernel, and the checksums of pages of a file as the simulated CUDA computes them.
 *
 * usage: checksum text | checksum sums FILE KEY KEY */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/suspend/checksum_kernel.h"

#define PAGE ((size_t)2 << 20)
#define MUST(call)                                           \
    do {                                                     \
        CUresult result = (call);                            \
        if (result) {                                        \
            fprintf(stderr, "%s: %d\n", #call, (int)result); \
            exit(1);                                         \
        }                                                    \
    } while (0)

static int print_sums(const char *name, unsigned long long first_key, unsigned long long second_key) {
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr memory;
    unsigned long long *pages, *sums;
    static char contents[4 * PAGE];
    FILE *file = fopen(name, "rb");
    unsigned count = file ? (unsigned)(fread(contents, 1, sizeof contents, file) / PAGE) : 0;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc(&memory, sizeof contents));
    MUST(cuMemcpyHtoD(memory, contents, sizeof contents));
    MUST(cuMemHostAlloc((void **)&pages, count * sizeof *pages, 0));
    MUST(cuMemHostAlloc((void **)&sums, count * 2 * sizeof *sums, 0));
    for (unsigned i = 0; i < count; i++)
        pages[i] = memory + i * PAGE;
    void *arguments[] = {&pages, &sums, &first_key, &second_key};
    MUST(cuModuleLoadData(&module, gm_checksum_text));
    MUST(cuModuleGetFunction(&kernel, module, GM_CHECKSUM_KERNEL));
    MUST(cuLaunchKernel(kernel, count, 1, 1, GM_CHECKSUM_BLOCK, 1, 1, 0, NULL, arguments, NULL));
    MUST(cuCtxSynchronize());
    for (unsigned i = 0; i < count; i++)
        printf("%llu %llu\n", sums[2 * i], sums[2 * i + 1]);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 5)
        return print_sums(argv[2], strtoull(argv[3], NULL, 0), strtoull(argv[4], NULL, 0));
    fputs(gm_checksum_text, stdout);
    return 0;
}
