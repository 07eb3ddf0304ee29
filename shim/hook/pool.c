/* Hooks of the program's own stream-ordered pools. Their memory is recorded and never moved. A pool that the program
 * sets as a device's current pool is such a pool as well: cuMemAllocAsync allocates from it. */
#include "shim/driver/free_sync.h"
#include "shim/driver/program_pools.h"
#include "shim/hook/hook.h"

enum { DEVICES = 64 };

uint64_t gm_hook_pools_set;
static CUmemoryPool current[DEVICES]; /* the pool that the program set; NULL: the device's default pool */

static void set_current(CUdevice device, CUmemoryPool pool) {
    if (device < 0 || device >= DEVICES)
        return;
    __atomic_store_n(&current[device], pool, __ATOMIC_RELAXED);
    if (pool)
        __atomic_or_fetch(&gm_hook_pools_set, 1ull << device, __ATOMIC_RELEASE);
    else
        __atomic_and_fetch(&gm_hook_pools_set, ~(1ull << device), __ATOMIC_RELEASE);
}

static void note_current(CUdevice device, CUmemoryPool pool) {
    CUmemoryPool initial;
    bool is_default = gm_drv.device_get_default_mem_pool &&
                      gm_drv.device_get_default_mem_pool(&initial, device) == CUDA_SUCCESS && initial == pool;
    set_current(device, is_default ? NULL : pool);
}

/* The device of the stream counts, which need not be the current one. An unknown device counts as set, because the
 * driver's own call is always right. */
bool gm_hook_takes_from_set_pool(const struct gm_request *request) {
    CUdevice device = request->device;
    CUcontext owner = NULL;
    struct gm_context seen;
    if (request->stream > (uint64_t)(uintptr_t)CU_STREAM_PER_THREAD && gm_drv.stream_get_ctx &&
        gm_drv.stream_get_ctx((CUstream)request->stream, &owner) == CUDA_SUCCESS &&
        (uint64_t)(uintptr_t)owner != request->context)
        device = gm_context_find(owner, &seen) ? seen.device : -1;
    return device < 0 || device >= DEVICES || __atomic_load_n(&gm_hook_pools_set, __ATOMIC_ACQUIRE) >> device & 1;
}

CUresult CUDAAPI gm_hook_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    ENTER(cuDeviceSetMemPool, device, pool);
    CUresult result = gm_real.cuDeviceSetMemPool(device, pool);
    if (result == CUDA_SUCCESS)
        note_current(device, pool);
    LEAVE(result);
}

CUresult CUDAAPI gm_hook_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
    ENTER(cuMemSetMemPool, location, type, pool);
    CUresult result = gm_real.cuMemSetMemPool(location, type, pool);
    if (result == CUDA_SUCCESS && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
        type == CU_MEM_ALLOCATION_TYPE_PINNED)
        note_current(location->id, pool);
    LEAVE(result);
}

/* The host sees the memory of pools that are not of device memory. */
static bool is_of_host(CUmemLocationType location, CUmemAllocationType type) {
    return location != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED;
}

static enum gm_sync_reason reason_of(const CUmemPoolProps *pool) {
    return pool && is_of_host(pool->location.type, pool->allocType) ? GM_SYNC_HOST_MEMORY : GM_SYNC_NO;
}

static CUresult made(const CUmemoryPool *pool, const CUmemPoolProps *properties, CUresult result) {
    if (result == CUDA_SUCCESS && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        gm_program_pool_made(*pool, properties->location.id);
    return result;
}

#define MADE_POOL(call) made(pool, properties, WITH_TRIM_OF(properties ? properties->location.id : -1, call))
MAKES(cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *properties), (pool, properties), GM_CALL_POOL_CREATE,
      0, GM_KIND_POOL, *pool, reason_of(properties), MADE_POOL)

static gm_status native_destroy(const struct gm_scope *scope, uint64_t key) {
    CUmemoryPool pool = (CUmemoryPool)(uintptr_t)gm_key_value(key);
    int device = gm_program_pool_ending(pool);
    CUresult result = gm_real.cuMemPoolDestroy(pool);
    if (result != CUDA_SUCCESS && device >= 0)
        gm_program_pool_made(pool, device);
    return result;
}

CUresult CUDAAPI gm_hook_cuMemPoolDestroy(CUmemoryPool pool) {
    struct gm_scope scope;
    uint64_t key = gm_key(GM_SPACE_OBJECT, (uint64_t)(uintptr_t)pool);
    ENTER(cuMemPoolDestroy, pool);
    BEGIN_FREE(&scope, GM_CALL_POOL_DESTROY, 0);
    CUresult result = (CUresult)gm_pipeline_free(&scope, GM_ACT_UNRESERVE, key, native_destroy);
    for (CUdevice device = 0; result == CUDA_SUCCESS && device < DEVICES; device++)
        if (__atomic_load_n(&current[device], __ATOMIC_RELAXED) == pool) /* the driver uses the default pool again */
            set_current(device, NULL);
    LEAVE(result);
}

CUresult CUDAAPI gm_hook_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    struct gm_scope scope;
    ENTER(cuMemPoolTrimTo, pool, keep);
    BEGIN(&scope, GM_CALL_POOL_CREATE, keep);
    CUresult result = gm_real.cuMemPoolTrimTo(pool, keep);
    gm_pipeline_note(&scope, GM_ACT_TRIM, gm_key(GM_SPACE_OBJECT, (uint64_t)(uintptr_t)pool), result);
    LEAVE(result);
}

EXPORTS(cuMemPoolExportPointer, (CUmemPoolPtrExportData * data, CUdeviceptr address), (data, address),
        GM_CALL_POOL_IMPORT_POINTER, 0, GM_SYNC_SHARED, NOTHING, MADE, address)
MAKES(cuMemPoolImportPointer, (CUdeviceptr * address, CUmemoryPool pool, CUmemPoolPtrExportData *data),
      (address, pool, data), GM_CALL_POOL_IMPORT_POINTER, 0, GM_KIND_IMPORTED, *address, GM_SYNC_SHARED, WITH_TRIM)

static void note_pool(const CUmemLocation *location, CUmemAllocationType type) {
    if (location && is_of_host(location->type, type))
        gm_free_sync_note(GM_SYNC_HOST_MEMORY);
}

#define POOL_OF(symbol)                                                                                               \
    PASSES(symbol, (CUmemoryPool * pool, CUmemLocation * location, CUmemAllocationType type), (pool, location, type), \
           note_pool(location, type), MADE)
POOL_OF(cuMemGetDefaultMemPool)
POOL_OF(cuMemGetMemPool)
