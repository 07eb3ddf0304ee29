/* The driver interface, linked with -lcuda: names as the linker sees them (cuMemAlloc_v2 ...). */
#include <cuda.h>

#include "program.h"

int main(void) {
    enum { SIZE = 1 << 20 };
    static unsigned char host[SIZE];
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory, start;
    size_t size, available, total;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc(&memory, SIZE));
    note_alloc("cuMemAlloc", SIZE, (void *)memory);
    MUST(cuMemGetAddressRange(&start, &size, memory + SIZE / 2));
    EXPECT(start == memory && size == SIZE);
    MUST(cuMemsetD8(memory, 0x5a, SIZE));
    MUST(cuMemcpyDtoH(host, memory, SIZE));
    EXPECT(all_bytes_are(host, 0x5a, SIZE));
    MUST(cuMemGetInfo(&available, &total));
    EXPECT(available > 0 && available < total);
    note_free("cuMemFree", (void *)memory);
    MUST(cuMemFree(memory));
    MUST(cuDevicePrimaryCtxRelease(device));
    printf("ok driver_linked %d bytes\n", SIZE);
    return 0;
}
