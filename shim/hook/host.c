/* Hooks of pinned and registered host memory. It is recorded and never moved. */
#include "shim/hook/hook.h"

HOOK(cuMemAllocHost_v2, void **address, size_t size) {
    struct gm_scope scope;
    ENTER(cuMemAllocHost_v2, address, size);
    BEGIN(&scope, GM_CALL_ALLOC_HOST, size);
    gm_free_sync_note(GM_SYNC_HOST_MEMORY);
    CUresult result = WITH_TRIM(gm_real.cuMemAllocHost_v2(address, size));
    gm_pipeline_saw_alloc(&scope, GM_KIND_HOST, result ? 0 : (uint64_t)(uintptr_t)*address, 0, result);
    LEAVE(result);
}

HOOK(cuMemHostAlloc, void **address, size_t size, unsigned flags) {
    struct gm_scope scope;
    ENTER(cuMemHostAlloc, address, size, flags);
    BEGIN(&scope, GM_CALL_HOST_ALLOC, size);
    gm_free_sync_note(GM_SYNC_HOST_MEMORY);
    CUresult result = WITH_TRIM(gm_real.cuMemHostAlloc(address, size, flags));
    gm_pipeline_saw_alloc(&scope, GM_KIND_HOST, result ? 0 : (uint64_t)(uintptr_t)*address, 0, result);
    LEAVE(result);
}

#define HOST_REGISTER(symbol)                                                                 \
    HOOK(symbol, void *address, size_t size, unsigned flags) {                                \
        struct gm_scope scope;                                                                \
        ENTER(symbol, address, size, flags);                                                  \
        BEGIN(&scope, GM_CALL_HOST_REGISTER, size);                                           \
        gm_free_sync_note(GM_SYNC_HOST_MEMORY);                                               \
        CUresult result = gm_real.symbol(address, size, flags);                               \
        gm_pipeline_saw_alloc(&scope, GM_KIND_HOST, (uint64_t)(uintptr_t)address, 0, result); \
        LEAVE(result);                                                                        \
    }
HOST_REGISTER(cuMemHostRegister)
HOST_REGISTER(cuMemHostRegister_v2)

#define HOST_FREE(symbol, call)                                                    \
    static gm_status native_##symbol(const struct gm_scope *scope, uint64_t key) { \
        return (gm_status)gm_real.symbol((void *)(uintptr_t)key);                  \
    }                                                                              \
    HOOK(symbol, void *address) {                                                  \
        struct gm_scope scope;                                                     \
        uint64_t key = (uint64_t)(uintptr_t)address;                               \
        ENTER(symbol, address);                                                    \
        if (!address) /* nothing is freed */                                       \
            LEAVE(gm_real.symbol(address));                                        \
        BEGIN_FREE(&scope, call, 0);                                               \
        LEAVE(gm_pipeline_free(&scope, GM_ACT_FREE, key, native_##symbol));        \
    }
HOST_FREE(cuMemFreeHost, GM_CALL_FREE_HOST)
HOST_FREE(cuMemHostUnregister, GM_CALL_HOST_UNREGISTER)
