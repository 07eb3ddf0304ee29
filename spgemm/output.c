#include "spgemm/output.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

/* The driver is not linked: programs start without it. */
static struct {
    bool there;
    CUresult (*reserve)(CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr hint,
                        unsigned long long flags);
    CUresult (*unreserve)(CUdeviceptr at, size_t size);
    CUresult (*create)(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                       unsigned long long flags);
    CUresult (*release)(CUmemGenericAllocationHandle handle);
    CUresult (*map)(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags);
    CUresult (*unmap)(CUdeviceptr at, size_t size);
    CUresult (*access)(CUdeviceptr at, size_t size, const CUmemAccessDesc *descriptions, size_t count);
    CUresult (*granularity)(size_t *size, const CUmemAllocationProp *prop,
                            CUmemAllocationGranularity_flags which);
} driver;

static bool find(const char *name, void *function, struct gm_spgemm_error *error) {
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult result;
    cudaError_t status = cudaGetDriverEntryPointByVersion(name, &found, 10020, cudaEnableDefault, &result);
    if (status != cudaSuccess || result != cudaDriverEntryPointSuccess || !found) {
        cudaGetLastError();
        return gm_spgemm_fail(error, "the driver has no %s, which --vector vmm needs", name);
    }
    memcpy(function, &found, sizeof found);
    return true;
}

static bool find_all(struct gm_spgemm_error *error) {
    if (!driver.there)
        driver.there = find("cuMemAddressReserve", &driver.reserve, error) &&
                       find("cuMemAddressFree", &driver.unreserve, error) &&
                       find("cuMemCreate", &driver.create, error) &&
                       find("cuMemRelease", &driver.release, error) && find("cuMemMap", &driver.map, error) &&
                       find("cuMemUnmap", &driver.unmap, error) &&
                       find("cuMemSetAccess", &driver.access, error) &&
                       find("cuMemGetAllocationGranularity", &driver.granularity, error);
    return driver.there;
}

static bool worked(CUresult status, const struct gm_output *o, const char *call,
                   struct gm_spgemm_error *error) {
    if (status == CUDA_SUCCESS)
        return true;
    if (status == CUDA_ERROR_OUT_OF_MEMORY)
        return gm_spgemm_fail(error, "out of device memory: %s, %s", o->what, call);
    return gm_spgemm_fail(error, "%s: %s: error %d", o->what, call, (int)status);
}

static CUmemAllocationProp properties(void) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    int device = 0;
    cudaGetDevice(&device);
    prop.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    return prop;
}

static size_t round_up(size_t size, size_t to) {
    return (size + to - 1) / to * to;
}

bool gm_output_reserve(struct gm_output *o, enum gm_vector vector, struct gm_memory *memory, size_t most,
                       const char *what, struct gm_spgemm_error *error) {
    size_t free_bytes, device_bytes;
    CUmemAllocationProp prop;
    CUdeviceptr at = 0;
    *o = (struct gm_output){.vector = vector, .memory = memory, .what = what};
    if (vector == GM_VECTOR_COPY)
        return true;
    if (!find_all(error) || !gm_cuda(cudaMemGetInfo(&free_bytes, &device_bytes), what, error))
        return false;
    prop = properties();
    if (!worked(driver.granularity(&o->granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), o,
                "granularity", error))
        return false;
    o->reserved = round_up(most < device_bytes ? most + !most : device_bytes, o->granularity);
    if (!worked(driver.reserve(&at, o->reserved, 0, 0, 0), o, "cuMemAddressReserve", error)) {
        *o = (struct gm_output){0};
        return false;
    }
    o->at = (void *)(uintptr_t)at;
    return true;
}

static bool note_handle(struct gm_output *o, CUmemGenericAllocationHandle handle, size_t size) {
    if (o->count == o->capacity) {
        int capacity = o->capacity ? 2 * o->capacity : 64;
        unsigned long long *handles = realloc(o->handles, (size_t)capacity * sizeof *handles);
        if (handles)
            o->handles = handles;
        size_t *sizes = handles ? realloc(o->sizes, (size_t)capacity * sizeof *sizes) : NULL;
        if (!sizes)
            return false;
        o->sizes = sizes;
        o->capacity = capacity;
    }
    o->handles[o->count] = handle;
    o->sizes[o->count++] = size;
    return true;
}

/* One handle behind those that are there; access is set for it alone, as that costs by handle. */
static bool map_more(struct gm_output *o, size_t size, struct gm_spgemm_error *error) {
    CUmemAllocationProp prop = properties();
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr end = (CUdeviceptr)(uintptr_t)o->at + o->there;
    if (size > o->reserved - o->there)
        return gm_spgemm_fail(error, "out of device memory: %s passes the %zu bytes reserved", o->what,
                              o->reserved);
    if (!gm_memory_take(o->memory, size, o->what, error))
        return false;
    if (!worked(driver.create(&handle, size, &prop, 0), o, "cuMemCreate", error))
        goto created;
    if (!worked(driver.map(end, size, 0, handle, 0), o, "cuMemMap", error))
        goto mapped;
    if (!worked(driver.access(end, size, &access, 1), o, "cuMemSetAccess", error))
        goto noted;
    if (note_handle(o, handle, size)) {
        o->there += size;
        return true;
    }
    gm_spgemm_fail(error, "out of memory");
noted:
    driver.unmap(end, size);
mapped:
    driver.release(handle);
created:
    gm_memory_give(o->memory, size);
    return false;
}

static bool copy_larger(struct gm_output *o, size_t wanted, struct gm_spgemm_error *error) {
    struct gm_block old = {o->at, o->there}, larger;
    if (wanted < 2 * o->there)
        wanted = 2 * o->there;
    if (!gm_block_make(&larger, o->memory, wanted, o->what, error))
        return false;
    if (o->size && !gm_cuda(cudaMemcpyAsync(larger.at, old.at, o->size, cudaMemcpyDeviceToDevice, NULL),
                            o->what, error)) {
        gm_block_drop(&larger, o->memory);
        return false;
    }
    gm_block_drop(&old, o->memory);
    o->at = larger.at;
    o->there = larger.size;
    return true;
}

bool gm_output_append(struct gm_output *o, size_t more, struct gm_spgemm_error *error) {
    size_t wanted = o->size + more;
    if (wanted < o->size)
        return gm_spgemm_fail(error, "out of device memory: %s of more bytes than a size holds", o->what);
    if (wanted > o->there &&
        !(o->vector == GM_VECTOR_COPY ? copy_larger(o, wanted, error)
                                      : map_more(o, round_up(wanted - o->there, o->granularity), error)))
        return false;
    o->size = wanted;
    return true;
}

void gm_output_release(struct gm_output *o) {
    if (o->vector == GM_VECTOR_COPY) {
        struct gm_block block = {o->at, o->there};
        gm_block_drop(&block, o->memory);
    } else if (o->at) {
        CUdeviceptr at = (CUdeviceptr)(uintptr_t)o->at;
        /* Unmapping waits for nothing. */
        cudaDeviceSynchronize();
        for (int i = 0; i < o->count; i++) {
            driver.unmap(at, o->sizes[i]);
            driver.release(o->handles[i]);
            gm_memory_give(o->memory, o->sizes[i]);
            at += o->sizes[i];
        }
        driver.unreserve((CUdeviceptr)(uintptr_t)o->at, o->reserved);
    }
    free(o->handles);
    free(o->sizes);
    *o = (struct gm_output){0};
}
