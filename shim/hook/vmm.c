/* Hooks of the program's virtual memory management. It is recorded and never moved. A handle counts as memory; a
 * reservation and a mapping count as address space. A handle lives until its last release. The memory behind it also
 * lives until its last unmap, which the driver shows only by its free memory, so the trace has both. */
#include "shim/driver/free_sync.h"
#include "shim/hook/advice.h"
#include "shim/hook/hook.h"

HOOK(cuMemAddressReserve, CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wanted,
     unsigned long long flags) {
    struct gm_scope scope;
    ENTER(cuMemAddressReserve, address, size, alignment, wanted, flags);
    BEGIN(&scope, GM_CALL_VMM_RESERVE, size);
    CUresult result = gm_real.cuMemAddressReserve(address, size, alignment, wanted, flags);
    gm_pipeline_saw_alloc(&scope, GM_KIND_VMM, GM_ACT_RESERVE, result ? 0 : gm_key(GM_SPACE_RESERVATION, *address), 0,
                          result);
    LEAVE(result);
}

static gm_status native_address_free(const struct gm_scope *scope, uint64_t key) {
    return (gm_status)gm_real.cuMemAddressFree(gm_key_value(key), scope->request.size);
}

HOOK(cuMemAddressFree, CUdeviceptr address, size_t size) {
    struct gm_scope scope;
    uint64_t key = gm_key(GM_SPACE_RESERVATION, address);
    ENTER(cuMemAddressFree, address, size);
    BEGIN_FREE(&scope, GM_CALL_VMM_ADDRESS_FREE, size);
    LEAVE(gm_pipeline_free(&scope, GM_ACT_UNRESERVE, key, native_address_free));
}

HOOK(cuMemCreate, CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
     unsigned long long flags) {
    struct gm_scope scope;
    ENTER(cuMemCreate, handle, size, properties, flags);
    BEGIN(&scope, GM_CALL_VMM_CREATE, size);
    bool on_host = properties && properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    if (on_host)
        gm_free_sync_note(GM_SYNC_HOST_MEMORY);
    if (properties && !on_host)
        scope.request.device = properties->location.id;
    CUresult result = on_host ? WITH_TRIM(gm_real.cuMemCreate(handle, size, properties, flags))
                              : WITHIN_LIMIT(&scope, gm_real.cuMemCreate(handle, size, properties, flags));
    gm_pipeline_saw_alloc(&scope, on_host ? GM_KIND_HOST : GM_KIND_VMM, GM_ACT_ALLOC,
                          result ? 0 : gm_key(GM_SPACE_VMM_HANDLE, *handle), 0, result);
    LEAVE(result);
}

static gm_status native_release(const struct gm_scope *scope, uint64_t key) {
    return (gm_status)gm_real.cuMemRelease(gm_key_value(key));
}

/* A handle may be held several times (retain, import). Only the release that ends the recorded hold is the block's
 * free. */
HOOK(cuMemRelease, CUmemGenericAllocationHandle handle) {
    struct gm_scope scope;
    uint64_t key = gm_key(GM_SPACE_VMM_HANDLE, handle);
    ENTER(cuMemRelease, handle);
    BEGIN_FREE(&scope, GM_CALL_VMM_RELEASE, 0);
    LEAVE(gm_pipeline_free(&scope, GM_ACT_FREE, key, native_release));
}

HOOK(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *handle, void *address) {
    ENTER(cuMemRetainAllocationHandle, handle, address);
    gm_hook_pin((CUdeviceptr)(uintptr_t)address);
    LEAVE(gm_real.cuMemRetainAllocationHandle(handle, address));
}

HOOK(cuMemMap, CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
     unsigned long long flags) {
    struct gm_scope scope;
    ENTER(cuMemMap, address, size, offset, handle, flags);
    BEGIN(&scope, GM_CALL_VMM_MAP, size);
    CUresult result = gm_real.cuMemMap(address, size, offset, handle, flags);
    gm_pipeline_saw_alloc(&scope, GM_KIND_VMM, GM_ACT_MAP, address, 0, result);
    LEAVE(result);
}

/* One call may unmap several adjacent mappings. Each of them leaves the registry. */
HOOK(cuMemUnmap, CUdeviceptr address, size_t size) {
    struct gm_scope scope;
    ENTER(cuMemUnmap, address, size);
    BEGIN_FREE(&scope, GM_CALL_VMM_UNMAP, size);
    gm_free_sync_unmap();
    CUresult result = gm_real.cuMemUnmap(address, size);
    if (result != CUDA_SUCCESS) {
        gm_pipeline_free_end(&scope, GM_ACT_UNMAP, address, result);
        LEAVE(result);
    }
    for (size_t done = 0; done < size;) {
        struct gm_scope part = scope;
        gm_pipeline_free_begin(&part, address + done);
        if (!part.known)
            part.request.size = size - done;
        size_t step = part.known ? part.block.size : size - done;
        gm_pipeline_free_end(&part, GM_ACT_UNMAP, address + done, result);
        done += step ? step : size;
    }
    LEAVE(result);
}

HOOK(cuMemExportToShareableHandle, void *shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
     unsigned long long flags) {
    struct gm_scope scope;
    ENTER(cuMemExportToShareableHandle, shareable, handle, type, flags);
    BEGIN(&scope, GM_CALL_VMM_EXPORT, 0);
    gm_free_sync_note(GM_SYNC_SHARED);
    CUresult result = gm_real.cuMemExportToShareableHandle(shareable, handle, type, flags);
    gm_pipeline_note(&scope, GM_ACT_EXPORT, gm_key(GM_SPACE_VMM_HANDLE, handle), result);
    LEAVE(result);
}

HOOK(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle *handle, void *shareable,
     CUmemAllocationHandleType type) {
    struct gm_scope scope;
    ENTER(cuMemImportFromShareableHandle, handle, shareable, type);
    BEGIN(&scope, GM_CALL_VMM_IMPORT, 0);
    gm_free_sync_note(GM_SYNC_SHARED);
    CUresult result = gm_real.cuMemImportFromShareableHandle(handle, shareable, type);
    gm_pipeline_saw_alloc(&scope, GM_KIND_IMPORTED, GM_ACT_ALLOC, result ? 0 : gm_key(GM_SPACE_VMM_HANDLE, *handle), 0,
                          result);
    LEAVE(result);
}
