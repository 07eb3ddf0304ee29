/* What regions of gpumem.h ask of a driver: one context, and virtual memory that is reserved without access
 * and mapped by giving it. */
#include "driver.h"

#include "shim/driver/driver.h"

#include <string.h>
#include <sys/mman.h>

static const size_t granularity = (size_t)2 << 20;
static const size_t memory = (size_t)4 << 30;
static size_t live; /* ranges and handles */
static size_t used, most = (size_t)4 << 30;

static CUresult current(CUcontext *context) {
    *context = (CUcontext)&live;
    return CUDA_SUCCESS;
}
static CUresult device_of_context(CUdevice *device) {
    *device = 0;
    return CUDA_SUCCESS;
}
static CUresult synchronize(void) {
    return CUDA_SUCCESS;
}
static CUresult exchange(CUstreamCaptureMode *mode) {
    *mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return CUDA_SUCCESS;
}
static CUresult attribute(int *value, CUdevice_attribute which, CUdevice device) {
    (void)device;
    *value = which == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    return CUDA_SUCCESS;
}
static CUresult total(size_t *size, CUdevice device) {
    (void)device;
    *size = memory;
    return CUDA_SUCCESS;
}
static CUresult info(size_t *unused, size_t *size) {
    *unused = *size = memory;
    return CUDA_SUCCESS;
}
static CUresult granule(size_t *size, const CUmemAllocationProp *properties,
                        CUmemAllocationGranularity_flags which) {
    (void)properties;
    (void)which;
    *size = granularity;
    return CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr hint,
                        unsigned long long flags) {
    void *range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    (void)alignment;
    (void)hint;
    (void)flags;
    if (range == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *at = (CUdeviceptr)(uintptr_t)range;
    live++;
    return CUDA_SUCCESS;
}
static CUresult unreserve(CUdeviceptr at, size_t size) {
    live--;
    return munmap((void *)(uintptr_t)at, size) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
                       const CUmemAllocationProp *properties, unsigned long long flags) {
    (void)properties;
    (void)flags;
    if (!size || size % granularity)
        return CUDA_ERROR_INVALID_VALUE;
    if (size > most - used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = size;
    used += size;
    live++;
    return CUDA_SUCCESS;
}
static CUresult let_go(CUmemGenericAllocationHandle handle) {
    used -= handle;
    live--;
    return CUDA_SUCCESS;
}
static CUresult map(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags) {
    (void)at;
    (void)flags;
    return handle == size && !offset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
static CUresult unmap(CUdeviceptr at, size_t size) {
    void *range = mmap((void *)(uintptr_t)at, size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return range == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
static CUresult access(CUdeviceptr at, size_t size, const CUmemAccessDesc *list, size_t count) {
    void *range = (void *)(uintptr_t)at;
    (void)list;
    (void)count;
    if (mprotect(range, size, PROT_READ | PROT_WRITE))
        return CUDA_ERROR_INVALID_VALUE;
    memset(range, 0xcd, size);
    return CUDA_SUCCESS;
}

void emulated_driver_use(void) {
    static const struct gm_driver table = {
        .ctx_get_current = current,
        .ctx_get_device = device_of_context,
        .ctx_synchronize = synchronize,
        .thread_exchange_capture_mode = exchange,
        .device_get_attribute = attribute,
        .device_total_mem = total,
        .mem_get_info = info,
        .mem_get_allocation_granularity = granule,
        .mem_address_reserve = reserve,
        .mem_address_free = unreserve,
        .mem_create = create,
        .mem_release = let_go,
        .mem_map = map,
        .mem_unmap = unmap,
        .mem_set_access = access,
    };
    gm_driver_use(&table);
}

size_t emulated_driver_live(void) {
    return live;
}

void emulated_driver_limit(size_t size) {
    most = size < memory ? size : memory;
}
