/* Device memory that a policy may move, and every way to free it. */
#include "shim/hook/grow.h"
#include "shim/hook/hook.h"
#include "shim/core/registry.h"
#include "shim/resource/budget.h"
#include "shim/resource/managed.h"

static bool is_capturing(CUstream stream, bool per_thread) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (GM_LIKELY(!gm_capture_any()))
        return false;
    CUresult result = (per_thread ? gm_drv.stream_is_capturing_ptsz : gm_drv.stream_is_capturing)(stream, &status);
    return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

HOOK(cuMemAlloc_v2, CUdeviceptr *address, size_t size) {
    struct gm_scope scope;
    if (!address || !size) /* the driver's own answer */
        return gm_true.cuMemAlloc_v2 ? gm_true.cuMemAlloc_v2(address, size) : CUDA_ERROR_NOT_INITIALIZED;
    ENTER(cuMemAlloc_v2, address, size);
    BEGIN(&scope, GM_CALL_ALLOC, size);
    gm_status status = gm_pipeline_alloc(&scope);
    if (status == GM_OK) {
        *address = scope.block.address;
        if (GM_UNLIKELY(gm_grow_mode != GM_GROW_OFF))
            gm_move_born(&scope.block);
        if (GM_UNLIKELY(gm_coverage_on))
            gm_coverage_sample(scope.request.device);
    }
    LEAVE(status);
}

HOOK(cuMemAllocPitch_v2, CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element_size) {
    struct gm_scope scope;
    ENTER(cuMemAllocPitch_v2, address, pitch, width, height, element_size);
    if (!address || !pitch || !width || !height)
        LEAVE(gm_true.cuMemAllocPitch_v2(address, pitch, width, height, element_size));
    BEGIN(&scope, GM_CALL_ALLOC_PITCH, width * height);
    scope.request.width = width;
    scope.request.height = height;
    scope.request.element_size = element_size;
    gm_status status = gm_pipeline_alloc(&scope);
    if (status == GM_OK) {
        *address = scope.block.address;
        *pitch = scope.block.pitch;
    }
    LEAVE(status);
}

static CUresult alloc_async(struct gm_scope *scope, CUdeviceptr *address, CUstream stream, bool per_thread) {
    scope->request.stream = (uint64_t)(uintptr_t)stream;
    scope->request.per_thread = per_thread;
    scope->request.capturing = is_capturing(stream, per_thread);
    gm_status status = gm_pipeline_alloc(scope);
    if (status == GM_OK)
        *address = scope->block.address;
    return status;
}

#define ALLOC_ASYNC(symbol, twin)                                                                            \
    HOOK(symbol, CUdeviceptr *address, size_t size, CUstream stream) {                                       \
        struct gm_scope scope;                                                                               \
        ENTER(symbol, address, size, stream);                                                                \
        if (!address || !size)                                                                               \
            LEAVE(gm_true.symbol(address, size, stream));                                                    \
        BEGIN(&scope, GM_CALL_ALLOC_ASYNC, size);                                                            \
        LEAVE(alloc_async(&scope, address, stream, twin));                                                   \
    }
ALLOC_ASYNC(cuMemAllocAsync, false)
ALLOC_ASYNC(cuMemAllocAsync_ptsz, true)

/* ---- never moved: the program's intent, only recorded */

#define ALLOC_FROM_POOL(symbol, twin)                                                                        \
    HOOK(symbol, CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream) {                    \
        struct gm_scope scope;                                                                               \
        ENTER(symbol, address, size, pool, stream);                                                          \
        BEGIN(&scope, GM_CALL_ALLOC_FROM_POOL, size);                                                        \
        scope.request.stream = (uint64_t)(uintptr_t)stream;                                                  \
        scope.request.per_thread = twin;                                                                     \
        scope.request.capturing = is_capturing(stream, twin);                                                \
        CUresult result = WITHIN_LIMIT(&scope, gm_true.symbol(address, size, pool, stream));                            \
        gm_pipeline_saw_alloc(&scope, GM_KIND_POOL, GM_ACT_ALLOC, result ? 0 : *address, 0, result);         \
        LEAVE(result);                                                                                       \
    }
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync, false)
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, true)

HOOK(cuMemAllocManaged, CUdeviceptr *address, size_t size, unsigned flags) {
    struct gm_scope scope;
    ENTER(cuMemAllocManaged, address, size, flags);
    BEGIN(&scope, GM_CALL_ALLOC_MANAGED, size);
    gm_pipeline_charge(&scope, true);
    CUresult result = WITH_TRIM(gm_true.cuMemAllocManaged(address, size, flags));
    if (result == CUDA_SUCCESS)
        gm_managed_note((int64_t)size);
    gm_pipeline_saw_alloc(&scope, GM_KIND_MANAGED, GM_ACT_ALLOC, result ? 0 : *address, 0, result);
    LEAVE(result);
}

/* ---- frees: the owner of the block decides how, never the call */

static inline void freed(struct gm_scope *scope, uint64_t key, CUresult result) {
    if (result == CUDA_SUCCESS && scope->known && !scope->block.owner && scope->block.call == GM_CALL_ALLOC_MANAGED)
        gm_managed_note(-(int64_t)scope->block.size);
    gm_pipeline_free_end(scope, GM_ACT_FREE, key, result);
}

/* A block that is freed and kept lives for the driver, but a second free gets the answer it natively would. */
static bool freed_before(const struct gm_scope *scope, CUdeviceptr address) {
    return GM_UNLIKELY(!scope->known) && gm_pipeline_keeps(address);
}

/* The block's pages went to the block it was copied to. */
static GM_APART bool gave_pages(const struct gm_scope *scope, CUdeviceptr address) {
    gm_grow_freed(address);
    if (gm_grow_mode < GM_GROW_MOVE)
        return false;
    if (scope->known && scope->block.kind == GM_KIND_VMM && scope->block.owner)
        return gm_move_freed(&scope->block);
    gm_gate_entered();
    return false;
}

HOOK(cuMemFree_v2, CUdeviceptr address) {
    struct gm_scope scope;
    if (!address)
        return gm_true.cuMemFree_v2 ? gm_true.cuMemFree_v2(address) : CUDA_ERROR_NOT_INITIALIZED;
    ENTER(cuMemFree_v2, address);
    BEGIN_FREE(&scope, GM_CALL_FREE, 0);
    gm_pipeline_free_begin(&scope, address);
    bool moved = GM_UNLIKELY(gm_grow_mode != GM_GROW_OFF) && gave_pages(&scope, address);
    CUresult result = moved                            ? CUDA_SUCCESS
                      : scope.known && scope.block.owner ? (CUresult)gm_pipeline_owner_free(&scope, false)
                      : freed_before(&scope, address)    ? CUDA_ERROR_INVALID_VALUE
                                                         : gm_true.cuMemFree_v2(address);
    freed(&scope, address, result);
    LEAVE(result);
}

#define FREE_ASYNC(symbol, twin)                                                                             \
    HOOK(symbol, CUdeviceptr address, CUstream stream) {                                                     \
        struct gm_scope scope;                                                                               \
        ENTER(symbol, address, stream);                                                                      \
        BEGIN_FREE(&scope, GM_CALL_FREE_ASYNC, 0);                                                                \
        scope.request.stream = (uint64_t)(uintptr_t)stream;                                                  \
        scope.request.per_thread = twin;                                                                     \
        scope.request.capturing = is_capturing(stream, twin);                                                \
        gm_pipeline_free_begin(&scope, address);                                                             \
        CUresult result = scope.known && scope.block.owner ? (CUresult)gm_pipeline_owner_free(&scope, twin)  \
                          : freed_before(&scope, address)  ? CUDA_ERROR_INVALID_VALUE                        \
                                                           : gm_true.symbol(address, stream);                \
        freed(&scope, address, result);                                                                      \
        LEAVE(result);                                                                                       \
    }
FREE_ASYNC(cuMemFreeAsync, false)
FREE_ASYNC(cuMemFreeAsync_ptsz, true)

/* ---- questions: answered by the driver, which tells the truth about whatever backs the block, except that kept memory is free
 * memory to the program, and that a kept block may be up to 511 bytes larger than the one it serves now */

HOOK(cuMemGetInfo_v2, size_t *free_bytes, size_t *total_bytes) {
    struct gm_context context;
    size_t free_now, total, kept;
    ENTER(cuMemGetInfo_v2, free_bytes, total_bytes);
    CUresult result = gm_true.cuMemGetInfo_v2(free_bytes, total_bytes);
    if (result != CUDA_SUCCESS || !gm_context_current(&context))
        LEAVE(result);
    kept = gm_pipeline_releasable(context.device);
    if ((!kept && !gm_budget_on()) || gm_true.cuMemGetInfo_v2(&free_now, &total) != CUDA_SUCCESS)
        LEAVE(result);
    free_now = kept < total - free_now ? free_now + kept : total;
    gm_budget_view(context.device, &free_now, &total);
    if (free_bytes)
        *free_bytes = free_now;
    if (total_bytes)
        *total_bytes = total;
    LEAVE(result);
}

/* The runtime asks it for the properties of a device. */
HOOK(cuDeviceTotalMem_v2, size_t *bytes, CUdevice device) {
    ENTER(cuDeviceTotalMem_v2, bytes, device);
    CUresult result = gm_true.cuDeviceTotalMem_v2(bytes, device);
    if (result == CUDA_SUCCESS && bytes)
        gm_budget_view(device, NULL, bytes);
    LEAVE(result);
}

static bool is_rounded(const struct gm_block *block) {
    return block->kind == GM_KIND_CACHE || block->kind == GM_KIND_MANAGED_POOL ||
           block->kind == GM_KIND_HOST_NUMA || block->kind == GM_KIND_VMM;
}

/* The size asked for, where a kept block or whole granules of host memory serve it; `size` as the driver says elsewhere. */
static size_t size_asked(uint64_t base, size_t size) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    if (!registry || !gm_registry_find(registry, base, &block) || block.call != GM_CALL_ALLOC || block.size > size)
        return size;
    return is_rounded(&block) ? block.size : size;
}

/* A block of several mappings is one to the program. */
static bool is_mapped_block(CUdeviceptr address, struct gm_block *block) {
    struct gm_registry *registry = gm_registry_shared();
    return gm_grow_mode >= GM_GROW_VMM && registry && gm_registry_find_range(registry, address, block) && block->owner &&
           block->kind == GM_KIND_VMM;
}

HOOK(cuMemGetAddressRange_v2, CUdeviceptr *base, size_t *size, CUdeviceptr address) {
    struct gm_block block;
    CUdeviceptr start;
    ENTER(cuMemGetAddressRange_v2, base, size, address);
    if (GM_UNLIKELY(is_mapped_block(address, &block))) {
        if (base)
            *base = block.address;
        if (size)
            *size = block.size;
        LEAVE(CUDA_SUCCESS);
    }
    CUresult result = gm_true.cuMemGetAddressRange_v2(base, size, address);
    if (result == CUDA_SUCCESS && size && (base || gm_true.cuMemGetAddressRange_v2(&start, NULL, address) == CUDA_SUCCESS))
        *size = size_asked(base ? *base : start, *size);
    LEAVE(result);
}

static void answered(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
    struct gm_block block;
    CUdeviceptr base;
    if ((attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) &&
        is_mapped_block(address, &block))
        *(uint64_t *)data = attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ? block.size : block.address;
    else if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
        gm_hook_pin(address);
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE && gm_true.cuMemGetAddressRange_v2 &&
             gm_true.cuMemGetAddressRange_v2(&base, NULL, address) == CUDA_SUCCESS)
        *(size_t *)data = size_asked(base, *(size_t *)data);
}

HOOK(cuPointerGetAttribute, void *data, CUpointer_attribute attribute, CUdeviceptr address) {
    ENTER(cuPointerGetAttribute, data, attribute, address);
    CUresult result = gm_true.cuPointerGetAttribute(data, attribute, address);
    if (result == CUDA_SUCCESS)
        answered(data, attribute, address);
    LEAVE(result);
}

HOOK(cuPointerGetAttributes, unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address) {
    ENTER(cuPointerGetAttributes, count, attributes, data, address);
    CUresult result = gm_true.cuPointerGetAttributes(count, attributes, data, address);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++)
        answered(data[i], attributes[i], address);
    LEAVE(result);
}

HOOK(cuPointerSetAttribute, const void *value, CUpointer_attribute attribute, CUdeviceptr address) {
    ENTER(cuPointerSetAttribute, value, attribute, address);
    CUresult result = gm_true.cuPointerSetAttribute(value, attribute, address);
    gm_hook_pin(address);
    LEAVE(result);
}
