/* Device memory by the driver's calls, noted for the trace's check. */
#ifndef DRIVER_MEMORY_H
#define DRIVER_MEMORY_H

#include <cuda.h>

#include "program.h"

static CUdeviceptr get(size_t size) {
    CUdeviceptr address;
    MUST(cuMemAlloc(&address, size));
    note_alloc("cuMemAlloc", (long long)size, (void *)(uintptr_t)address);
    return address;
}

static void give(CUdeviceptr address) {
    note_free("cuMemFree", (void *)(uintptr_t)address);
    MUST(cuMemFree(address));
}

#endif
