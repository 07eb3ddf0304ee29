/* Connects regions of gpumem.h with the simulated CUDA driver. */
#include "driver.h"

#include "shim/driver/driver.h"
#include "simcuda.h"

#include <stdlib.h>
#include <string.h>

static const size_t memory = (size_t)4 << 30;
static __typeof__(gm_drv.mem_set_access) set_access;

/* Fills new memory with garbage: real device memory is not zeroed for the program. */
static CUresult access_garbage(CUdeviceptr at, size_t size, const CUmemAccessDesc *list, size_t count) {
    CUresult result = set_access(at, size, list, count);
    if (result == CUDA_SUCCESS)
        memset((void *)(uintptr_t)at, 0xcd, size);
    return result;
}

static size_t allocations, fault;
static __typeof__(gm_drv.mem_create) create;
static __typeof__(gm_drv.mem_address_reserve) reserve;

void emulated_fail(size_t number) {
    allocations = 0;
    fault = number;
}

bool emulated_fails(void) { return ++allocations == fault; }

size_t emulated_allocations(void) { return allocations; }

static CUresult create_or_fail(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                               unsigned long long flags) {
    return emulated_fails() ? CUDA_ERROR_OUT_OF_MEMORY : create(handle, size, prop, flags);
}

static CUresult reserve_or_fail(CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr hint,
                                unsigned long long flags) {
    return emulated_fails() ? CUDA_ERROR_OUT_OF_MEMORY : reserve(at, size, alignment, hint, flags);
}

void emulated_driver_use(void) {
    CUcontext context;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || !gm_driver_ready(true))
        abort();
    set_access = gm_drv.mem_set_access;
    gm_drv.mem_set_access = access_garbage;
    create = gm_drv.mem_create;
    gm_drv.mem_create = create_or_fail;
    reserve = gm_drv.mem_address_reserve;
    gm_drv.mem_address_reserve = reserve_or_fail;
}

void emulated_driver_device(int device) {
    CUcontext context;
    if (cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context))
        abort();
}

size_t emulated_driver_live(void) { return simcuda_live_reservations() + simcuda_live_handles(); }

void emulated_driver_limit(size_t size) { simcuda_set_memory(size < memory ? size : memory); }
