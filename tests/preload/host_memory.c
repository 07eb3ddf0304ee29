/* Pinned host memory, and registered host memory of malloc. */
#include <cuda_runtime_api.h>

#include "program.h"

int main(void) {
    enum { SIZE = 1 << 18 };
    unsigned char *pinned = NULL, *mapped = NULL, *own = NULL;
    void *on_device = NULL;
    MUST(cudaMallocHost((void **)&pinned, SIZE));
    note_alloc("cuMemHostAlloc", SIZE, pinned);
    MUST(cudaHostAlloc((void **)&mapped, SIZE, cudaHostAllocMapped));
    note_alloc("cuMemHostAlloc", SIZE, mapped);
    MUST(cudaHostGetDevicePointer(&on_device, mapped, 0));
    EXPECT(posix_memalign((void **)&own, 4096, SIZE) == 0);
    MUST(cudaHostRegister(own, SIZE, cudaHostRegisterDefault));
    note_alloc("cuMemHostRegister", SIZE, own);
    void *device = device_alloc(SIZE);
    memset(pinned, 0x31, SIZE);
    MUST(cudaMemcpyAsync(device, pinned, SIZE, cudaMemcpyHostToDevice, 0));
    MUST(cudaMemcpyAsync(own, device, SIZE, cudaMemcpyDeviceToHost, 0));
    MUST(cudaMemset(on_device, 0x13, SIZE));
    MUST(cudaDeviceSynchronize());
    EXPECT(all_bytes_are(own, 0x31, SIZE));
    EXPECT(all_bytes_are(mapped, 0x13, SIZE));
    device_free(device);
    note_free("cuMemHostUnregister", own);
    MUST(cudaHostUnregister(own));
    note_free("cuMemFreeHost", mapped);
    MUST(cudaFreeHost(mapped));
    note_free("cuMemFreeHost", pinned);
    MUST(cudaFreeHost(pinned));
    free(own);
    printf("ok host_memory %d bytes\n", SIZE);
    return 0;
}
