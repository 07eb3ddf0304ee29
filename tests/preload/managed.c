/* Managed memory that the program requests itself: the host reads and writes it directly. */
#include <cuda_runtime_api.h>

#include "program.h"

int main(void) {
    enum { SIZE = 1 << 20 };
    unsigned char *memory = NULL;
    MUST(cudaMallocManaged((void **)&memory, SIZE, cudaMemAttachGlobal));
    note_alloc("cuMemAllocManaged", SIZE, memory);
    memset(memory, 0x11, SIZE);
    MUST(cudaMemset(memory, 0x22, SIZE / 2));
    MUST(cudaDeviceSynchronize());
    EXPECT(all_bytes_are(memory, 0x22, SIZE / 2));
    EXPECT(all_bytes_are(memory + SIZE / 2, 0x11, SIZE / 2));
    struct cudaPointerAttributes attributes;
    MUST(cudaPointerGetAttributes(&attributes, memory));
    EXPECT(attributes.type == cudaMemoryTypeManaged);
    note_free("cuMemFree", memory);
    MUST(cudaFree(memory));
    printf("ok managed %d bytes\n", SIZE);
    return 0;
}
