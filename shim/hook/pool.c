/* The program's own stream-ordered pools: recorded, never moved. */
#include "shim/driver/device_wait.h"
#include "shim/hook/hook.h"

HOOK(cuMemPoolCreate, CUmemoryPool *pool, const CUmemPoolProps *properties) {
    struct gm_scope scope;
    ENTER(cuMemPoolCreate, pool, properties);
    BEGIN(&scope, GM_CALL_POOL_CREATE, 0);
    CUresult result = WITH_TRIM(gm_true.cuMemPoolCreate(pool, properties));
    gm_pipeline_saw_alloc(&scope, GM_KIND_POOL, GM_ACT_RESERVE,
                          result ? 0 : gm_key(GM_SPACE_OBJECT, (uint64_t)(uintptr_t)*pool), 0, result);
    LEAVE(result);
}

HOOK(cuMemPoolDestroy, CUmemoryPool pool) {
    struct gm_scope scope;
    uint64_t key = gm_key(GM_SPACE_OBJECT, (uint64_t)(uintptr_t)pool);
    ENTER(cuMemPoolDestroy, pool);
    BEGIN_FREE(&scope, GM_CALL_POOL_DESTROY, 0);
    gm_pipeline_free_begin(&scope, key);
    CUresult result = gm_true.cuMemPoolDestroy(pool);
    gm_pipeline_free_end(&scope, GM_ACT_UNRESERVE, key, result);
    LEAVE(result);
}

HOOK(cuMemPoolTrimTo, CUmemoryPool pool, size_t keep) {
    struct gm_scope scope;
    ENTER(cuMemPoolTrimTo, pool, keep);
    BEGIN(&scope, GM_CALL_POOL_CREATE, keep);
    CUresult result = gm_true.cuMemPoolTrimTo(pool, keep);
    gm_pipeline_note(&scope, GM_ACT_TRIM, gm_key(GM_SPACE_OBJECT, (uint64_t)(uintptr_t)pool), result);
    LEAVE(result);
}

HOOK(cuMemPoolExportPointer, CUmemPoolPtrExportData *data, CUdeviceptr address) {
    struct gm_scope scope;
    ENTER(cuMemPoolExportPointer, data, address);
    BEGIN(&scope, GM_CALL_POOL_IMPORT_POINTER, 0);
    gm_device_wait_refuse(GM_ENEMY_SHARED);
    CUresult result = gm_true.cuMemPoolExportPointer(data, address);
    gm_pipeline_note(&scope, GM_ACT_EXPORT, address, result);
    LEAVE(result);
}

HOOK(cuMemPoolImportPointer, CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data) {
    struct gm_scope scope;
    ENTER(cuMemPoolImportPointer, address, pool, data);
    BEGIN(&scope, GM_CALL_POOL_IMPORT_POINTER, 0);
    gm_device_wait_refuse(GM_ENEMY_SHARED);
    CUresult result = gm_true.cuMemPoolImportPointer(address, pool, data);
    gm_pipeline_saw_alloc(&scope, GM_KIND_IMPORTED, GM_ACT_ALLOC, result ? 0 : *address, 0, result);
    LEAVE(result);
}
