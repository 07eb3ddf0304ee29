/* The driver interface, linked with -lcuda: names as the linker sees them (cuMemAlloc_v2 ...). */
#include <cuda.h>

#include "program.h"

int main(void) {
    enum { SIZE = 1 << 20 };
    static unsigned char host[SIZE];
    CUdevice device;
    CUdeviceptr memory, start;
    size_t size, available, total;
    start_driver();
    MUST(cuDeviceGet(&device, 0));
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
