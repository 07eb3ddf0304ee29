/* What a program sees of NVIDIA's runtime on a driver that refuses: only names of errors, so that two runs
 * can be compared byte by byte. Links with any runtime from CUDA 11.8 on, shared or static. */
#include <cuda_runtime_api.h>

#include <stdio.h>

static void show(const char *call, cudaError_t error) { printf("%s %s\n", call, cudaGetErrorName(error)); }

static cudaError_t entry_point(const char *name, unsigned int version, void **function) {
#if CUDART_VERSION >= 12050
    enum cudaDriverEntryPointQueryResult status;
    return cudaGetDriverEntryPointByVersion(name, function, version, cudaEnableDefault, &status);
#elif CUDART_VERSION >= 12000
    enum cudaDriverEntryPointQueryResult status;
    return cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &status);
#else
    return cudaGetDriverEntryPoint(name, function, cudaEnableDefault);
#endif
}

int main(void) {
    int count = -1;
    void *memory = NULL;
    void *function = NULL;
    show("cudaGetDeviceCount", cudaGetDeviceCount(&count));
    show("cudaMalloc", cudaMalloc(&memory, 1 << 20));
    show("cudaFree", cudaFree(memory));
    show("cudaMallocAsync", cudaMallocAsync(&memory, 1 << 20, 0));
    show("cudaMallocManaged", cudaMallocManaged(&memory, 1 << 20, cudaMemAttachGlobal));
    show("cudaMallocHost", cudaMallocHost(&memory, 1 << 20));
    show("cudaGetDriverEntryPoint(cuMemAlloc)", entry_point("cuMemAlloc", 3020, &function));
    show("cudaGetDriverEntryPoint(cuGetProcAddress)", entry_point("cuGetProcAddress", 11030, &function));
    show("cudaGetDriverEntryPoint(unknown)", entry_point("cuNoSuchFunction", 12000, &function));
    show("cudaGetLastError", cudaGetLastError());
    return 0;
}
