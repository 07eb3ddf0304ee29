/* Shared code of `loading`: one block by the driver interface alone, which calls no function of the dynamic linker. */
#include <cuda.h>

#include "program.h"

static inline void use_memory(size_t size) {
    CUdevice device;
    CUdeviceptr memory = 0;
    unsigned char *back = malloc(size);
    start_driver();
    MUST(cuDeviceGet(&device, 0));
    for (int round = 0; round < 5; round++) {
        MUST(cuMemAlloc(&memory, size));
        note_alloc("cuMemAlloc", (long long)size, (void *)(uintptr_t)memory);
        MUST(cuMemsetD8(memory, 0x5a, size));
        MUST(cuMemcpyDtoH(back, memory, size));
        EXPECT(all_bytes_are(back, 0x5a, size));
        note_free("cuMemFree", (void *)(uintptr_t)memory);
        MUST(cuMemFree(memory));
    }
    MUST(cuDevicePrimaryCtxRelease(device));
    free(back);
}
