/* Hooks of the program's virtual memory management. A handle of device memory counts as reserved bytes, and a mapping
 * of it is a live block. A reservation, a second mapping of the same memory, and a mapping of other memory are only
 * addresses. A handle lives until its last release. The memory behind it also lives until its last unmap. Whole
 * buffers that come and go are kept for reuse (shim/cache/mapped.h), but not under GPUMEM_SUSPEND (handles.c). */
#include "shim/cache/mapped.h"
#include "shim/driver/free_sync.h"
#include "shim/hook/hook.h"
#include "shim/resource/registry.h"
#include "shim/resource/suspendable_at.h"
#include "shim/suspend/select.h"

/* The addresses of a kept buffer serve, or those that the call reserves. */
#define RESERVED(call) gm_mapped_reserve(&scope.request, address, size, alignment, wanted, flags)
MAKES(cuMemAddressReserve,
      (CUdeviceptr * address, size_t size, size_t alignment, CUdeviceptr wanted, unsigned long long flags),
      (address, size, alignment, wanted, flags), GM_CALL_VMM_RESERVE, size, GM_KIND_VMM, *address, GM_SYNC_NO, RESERVED)

/* What keeps buffers, or what moves them away, makes the call. */
#define MADE_BY(keeper, mover) (GM_UNLIKELY(gm_suspend_is_on()) ? (mover) : (keeper))

static gm_status free_address(const struct gm_scope *scope, uint64_t key) {
    return MADE_BY(gm_mapped_address_free(gm_key_value(key), scope->request.size),
                   gm_real.cuMemAddressFree(gm_key_value(key), scope->request.size));
}

CUresult CUDAAPI gm_hook_cuMemAddressFree(CUdeviceptr address, size_t size) {
    struct gm_scope scope;
    uint64_t key = gm_key(GM_SPACE_RESERVATION, address);
    ENTER(cuMemAddressFree, address, size);
    BEGIN_FREE(&scope, GM_CALL_VMM_ADDRESS_FREE, size);
    LEAVE(gm_pipeline_free(&scope, GM_ACT_UNRESERVE, key, free_address));
}

CUresult CUDAAPI gm_hook_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                                     const CUmemAllocationProp *properties, unsigned long long flags) {
    struct gm_scope scope;
    ENTER(cuMemCreate, handle, size, properties, flags);
    BEGIN(&scope, GM_CALL_VMM_CREATE, size);
    int current = scope.request.device;
    bool on_host = properties && properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    if (on_host)
        gm_free_sync_note(GM_SYNC_HOST_MEMORY);
    if (properties && !on_host)
        scope.request.device = properties->location.id;
#define CREATES                                                                                       \
    MADE_BY(gm_mapped_create(&scope.request, current, handle, size, properties, flags, &scope.known), \
            gm_real.cuMemCreate(handle, size, properties, flags))
    CUresult result =
        on_host ? WITH_TRIM(gm_real.cuMemCreate(handle, size, properties, flags)) : WITHIN_LIMIT(&scope, CREATES);
    gm_pipeline_saw_alloc(&scope, on_host ? GM_KIND_HOST : GM_KIND_VMM, result ? 0 : *handle, 0, result);
    LEAVE(result);
}

/* A handle may be retained. Only the release of its last reference is the block's free. */
CUresult CUDAAPI gm_hook_cuMemRelease(CUmemGenericAllocationHandle handle) {
    struct gm_scope scope;
    uint64_t key = gm_key(GM_SPACE_HANDLE, handle);
    struct gm_registry *registry = gm_registry_shared();
    bool kept = false;
    ENTER(cuMemRelease, handle);
    if (registry && gm_registry_refer(registry, key, false)) {
        CUresult result = MADE_BY(gm_mapped_release(handle, &kept), gm_real.cuMemRelease(handle));
        if (result != CUDA_SUCCESS)
            gm_registry_refer(registry, key, true);
        LEAVE(result);
    }
    BEGIN_FREE(&scope, GM_CALL_VMM_RELEASE, 0);
    gm_pipeline_free_begin(&scope, key);
    CUresult result = MADE_BY(gm_mapped_release(handle, &scope.kept), gm_real.cuMemRelease(handle));
    gm_pipeline_free_end(&scope, GM_ACT_FREE, key, result);
    LEAVE(result);
}

/* Natively memory that no mapping of the program serves has no handle; nor have the bytes beside a guarded block. */
static bool is_served(CUdeviceptr address) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    return gm_guard_covers(address) || (registry && gm_registry_find_range(registry, address, &block) && block.owner);
}

/* Allocators retain the handle of their own buffer in order to release it twice. Whoever retains another handle, or one
 * that the program has released, may use the memory at another address. */
CUresult CUDAAPI gm_hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    ENTER(cuMemRetainAllocationHandle, handle, address);
    if (!gm_mapped_may_retain((CUdeviceptr)(uintptr_t)address) || is_served((CUdeviceptr)(uintptr_t)address))
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    CUresult result = gm_real.cuMemRetainAllocationHandle(handle, address);
    if (result != CUDA_SUCCESS)
        LEAVE(result);
    struct gm_registry *registry = gm_registry_shared();
    if (!registry || !gm_registry_refer(registry, gm_key(GM_SPACE_HANDLE, *handle), true))
        gm_mapped_share(*handle);
    if (!gm_mapped_retained(*handle))
        gm_hook_pin((CUdeviceptr)(uintptr_t)address);
    LEAVE(result);
}

CUresult CUDAAPI gm_hook_cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                                  unsigned long long flags) {
    struct gm_scope scope;
    ENTER(cuMemMap, address, size, offset, handle, flags);
    BEGIN(&scope, GM_CALL_VMM_MAP, size);
    CUresult result = WITH_TRIM(MADE_BY(gm_mapped_map(address, size, offset, handle, flags, &scope.known),
                                        gm_real.cuMemMap(address, size, offset, handle, flags)));
    gm_pipeline_saw_map(&scope, address, handle, result);
    if (GM_UNLIKELY(gm_select_tags) && result == CUDA_SUCCESS)
        gm_select_tag(address);
    LEAVE(result);
}

CUresult CUDAAPI gm_hook_cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count) {
    ENTER(cuMemSetAccess, address, size, access, count);
    for (size_t i = 0; access && i < count; i++)
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            gm_free_sync_note(GM_SYNC_HOST_MEMORY);
    LEAVE(WITH_TRIM(MADE_BY(gm_mapped_set_access(address, size, access, count),
                            gm_real.cuMemSetAccess(address, size, access, count))));
}

static bool is_pinned(CUdeviceptr address) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    return registry && gm_registry_find(registry, address, &block) && block.pinned_native;
}

/* One call may unmap several adjacent mappings. Each of them leaves the registry. */
CUresult CUDAAPI gm_hook_cuMemUnmap(CUdeviceptr address, size_t size) {
    struct gm_scope scope;
    ENTER(cuMemUnmap, address, size);
    BEGIN_FREE(&scope, GM_CALL_VMM_UNMAP, size);
    bool kept = false;
    CUresult result =
        MADE_BY(gm_mapped_unmap(address, size, is_pinned(address), &kept), gm_real.cuMemUnmap(address, size));
    if (result != CUDA_SUCCESS) {
        if (gm_trace_is_on())
            gm_pipeline_record_free(&scope);
        gm_pipeline_free_end(&scope, GM_ACT_UNMAP, address, result);
        LEAVE(result);
    }
    for (size_t done = 0; done < size;) {
        struct gm_scope part = scope;
        gm_pipeline_free_begin(&part, address + done);
        if (!part.known)
            part.request.size = size - done;
        size_t step = part.known ? part.block.size : size - done;
        bool memory = part.known && gm_block_is_memory(&part.block);
        part.kept = kept;
        gm_pipeline_free_end(&part, memory ? GM_ACT_FREE : GM_ACT_UNMAP, address + done, result);
        done += step ? step : size;
    }
    LEAVE(result);
}

static void seen_by_peers(CUmemGenericAllocationHandle handle) {
    gm_free_sync_note(GM_SYNC_PEERS);
    gm_mapped_share(handle);
}

static void seen_at_address(CUdeviceptr address) {
    gm_free_sync_note(GM_SYNC_PEERS);
    gm_hook_pin(address);
    gm_suspendable_stay(address, "bound to a multicast object");
    gm_hook_needs(address);
}

PASSES(cuMulticastBindMem,
       (CUmemGenericAllocationHandle multicast, size_t offset, CUmemGenericAllocationHandle handle,
        size_t handle_offset, size_t size, unsigned long long flags),
       (multicast, offset, handle, handle_offset, size, flags), seen_by_peers(handle), WITH_TRIM)
PASSES(cuMulticastBindMem_v2,
       (CUmemGenericAllocationHandle multicast, CUdevice device, size_t offset, CUmemGenericAllocationHandle handle,
        size_t handle_offset, size_t size, unsigned long long flags),
       (multicast, device, offset, handle, handle_offset, size, flags), seen_by_peers(handle), WITH_TRIM)
PASSES(cuMulticastBindAddr,
       (CUmemGenericAllocationHandle multicast, size_t offset, CUdeviceptr address, size_t size,
        unsigned long long flags),
       (multicast, offset, address, size, flags), seen_at_address(address), WITH_TRIM)
PASSES(cuMulticastBindAddr_v2,
       (CUmemGenericAllocationHandle multicast, CUdevice device, size_t offset, CUdeviceptr address, size_t size,
        unsigned long long flags),
       (multicast, device, offset, address, size, flags), seen_at_address(address), WITH_TRIM)
/* A process that exports its own mapped memory may export other memory next. */
static void exports(CUmemGenericAllocationHandle handle) {
    gm_guard_spare(gm_call_name(GM_CALL_VMM_EXPORT));
    gm_mapped_share(handle);
}

EXPORTS(cuMemExportToShareableHandle,
        (void *shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
         unsigned long long flags),
        (shareable, handle, type, flags), GM_CALL_VMM_EXPORT, 0, GM_SYNC_SHARED, exports(handle), MADE,
        gm_key(GM_SPACE_HANDLE, handle))
MAKES(cuMemImportFromShareableHandle,
      (CUmemGenericAllocationHandle * handle, void *shareable, CUmemAllocationHandleType type),
      (handle, shareable, type), GM_CALL_VMM_IMPORT, 0, GM_KIND_IMPORTED, *handle, GM_SYNC_SHARED, WITH_TRIM)
