/* Hooks of device memory that a policy may move, of every way to free it, and of queries about memory. */
#include "shim/pipeline/fast.h"
#include "shim/grow/grow.h"
#include "shim/grow/handover.h"
#include "shim/hook/coverage.h"
#include "shim/hook/guard.h"
#include "shim/hook/kernels.h"
#include "shim/hook/hook.h"
#include "shim/resource/registry.h"
#include "shim/accounts/limit.h"
#include "shim/accounts/share.h"
#include "shim/resource/suspendable_at.h"
#include "shim/suspend/select.h"

/* An address that no memory can have, to get the driver's answer for unknown addresses. */
#define UNKNOWN_ADDRESS ((CUdeviceptr)4096)

/* A call that gpumem serves itself must fail where the driver's would: without a context, and after a fault such as an
 * illegal address, which every later call of the context returns. This is the driver's cheapest call that tells both.
 */
static inline CUresult context_error(void) {
    int least, greatest;
    return gm_drv.ctx_get_priorities(&least, &greatest);
}

static GM_RARE CUresult fault_among(CUresult error, const char *call, uintptr_t caller, uintptr_t frame) {
    bool kernel = error >= CUDA_ERROR_ILLEGAL_ADDRESS && error <= CUDA_ERROR_LAUNCH_FAILED;
    if (kernel)
        gm_guard_faulted(error, call, caller, frame);
    return kernel || error == CUDA_ERROR_ECC_UNCORRECTABLE ? error : CUDA_SUCCESS;
}
/* Only such errors: other calls may succeed all the same. */
static inline CUresult fault_of(CUresult error, const char *call, uintptr_t caller, uintptr_t frame) {
    return GM_LIKELY(!error) ? CUDA_SUCCESS : fault_among(error, call, caller, frame);
}

static GM_APART CUresult alloc(CUdeviceptr *address, size_t size, uintptr_t caller, uintptr_t frame) {
    struct gm_scope scope;
    ENTER(cuMemAlloc_v2, address, size);
    if (GM_UNLIKELY(!address || !size)) /* the driver's own error */
        LEAVE(gm_real.cuMemAlloc_v2(address, size));
    BEGIN_AT(&scope, GM_CALL_ALLOC, size, caller, frame);
    gm_status status = fault_of(context_error(), "cuMemAlloc", caller, frame);
    if (GM_UNLIKELY(status))
        gm_pipeline_made(&scope, status);
    else
        status = gm_pipeline_alloc(&scope);
    if (status == GM_OK) {
        *address = scope.block.address;
        gm_fast_begin();
        if (GM_UNLIKELY(gm_select_tags))
            gm_select_tag(scope.block.address);
        if (GM_UNLIKELY(gm_grow_mode >= GM_GROW_MOVE))
            gm_handover_created(&scope.block);
        if (GM_UNLIKELY(gm_coverage_on))
            gm_coverage_sample(scope.request.device);
    }
    LEAVE(status);
}

CUresult CUDAAPI gm_hook_cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    uint64_t reused;
    if (GM_LIKELY(address != NULL) && gm_fast_may() && !context_error() && GM_LIKELY(gm_fast_alloc(size, &reused))) {
        *address = reused;
        return CUDA_SUCCESS;
    }
    return alloc(address, size, GM_CALLER_HERE());
}

CUresult CUDAAPI gm_hook_cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                                            unsigned element_size) {
    struct gm_scope scope;
    ENTER(cuMemAllocPitch_v2, address, pitch, width, height, element_size);
    if (!address || !pitch || !width || !height)
        LEAVE(gm_real.cuMemAllocPitch_v2(address, pitch, width, height, element_size));
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

static CUresult alloc_async(struct gm_scope *scope, CUdeviceptr *address) {
    gm_status status = gm_pipeline_alloc(scope);
    if (status == GM_OK)
        *address = scope->block.address;
    return status;
}

void gm_hook_on_stream(struct gm_request *request, CUstream stream, bool per_thread) {
    request->stream = (uint64_t)(uintptr_t)stream;
    request->per_thread = per_thread;
    request->capturing = GM_UNLIKELY(gm_capture_any()) && gm_capture_on(stream, per_thread);
}

/* An allocation from the program's own pool is only recorded. */
#define RECORD_FROM_POOL(scope, address, call)                                          \
    do {                                                                                \
        CUresult result = WITHIN_LIMIT(scope, call);                                    \
        gm_pipeline_saw_alloc(scope, GM_KIND_POOL, result ? 0 : *(address), 0, result); \
        LEAVE(result);                                                                  \
    } while (0)

#define ALLOC_ASYNC(symbol, twin)                                                           \
    CUresult CUDAAPI gm_hook_##symbol(CUdeviceptr *address, size_t size, CUstream stream) { \
        struct gm_scope scope;                                                              \
        ENTER(symbol, address, size, stream);                                               \
        if (!address || !size)                                                              \
            LEAVE(gm_real.symbol(address, size, stream));                                   \
        BEGIN(&scope, GM_CALL_ALLOC_ASYNC, size);                                           \
        gm_hook_on_stream(&scope.request, stream, twin);                                    \
        if (GM_UNLIKELY(__atomic_load_n(&gm_hook_pools_set, __ATOMIC_RELAXED)) &&           \
            gm_hook_takes_from_set_pool(&scope.request))                                    \
            RECORD_FROM_POOL(&scope, address, gm_real.symbol(address, size, stream));       \
        LEAVE(alloc_async(&scope, address));                                                \
    }
ALLOC_ASYNC(cuMemAllocAsync, false)
ALLOC_ASYNC(cuMemAllocAsync_ptsz, true)

/* ---- never moved: the program states its intent; only recorded */

#define ALLOC_FROM_POOL(symbol, twin)                                                                          \
    CUresult CUDAAPI gm_hook_##symbol(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream) { \
        struct gm_scope scope;                                                                                 \
        ENTER(symbol, address, size, pool, stream);                                                            \
        BEGIN(&scope, GM_CALL_ALLOC_FROM_POOL, size);                                                          \
        gm_hook_on_stream(&scope.request, stream, twin);                                                       \
        RECORD_FROM_POOL(&scope, address, gm_real.symbol(address, size, pool, stream));                        \
    }
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync, false)
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, true)

CUresult CUDAAPI gm_hook_cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags) {
    struct gm_scope scope;
    ENTER(cuMemAllocManaged, address, size, flags);
    BEGIN(&scope, GM_CALL_ALLOC_MANAGED, size);
    gm_free_sync_note(GM_SYNC_HOST_MEMORY);
    gm_pipeline_charge(&scope, true);
    CUresult result = WITH_TRIM(gm_real.cuMemAllocManaged(address, size, flags));
    gm_pipeline_saw_alloc(&scope, GM_KIND_MANAGED, result ? 0 : *address, 0, result);
    LEAVE(result);
}

/* ---- frees */

static gm_status native_free(const struct gm_scope *scope, uint64_t key) { return gm_real.cuMemFree_v2(key); }

static GM_APART CUresult give_back(CUdeviceptr address, uintptr_t caller, uintptr_t frame) {
    struct gm_scope scope;
    ENTER(cuMemFree_v2, address);
    if (GM_UNLIKELY(!address))
        LEAVE(gm_real.cuMemFree_v2(address));
    CUresult error = context_error();
    if (error == CUDA_ERROR_INVALID_CONTEXT && /* not every driver refuses a free without a context */
        gm_real.cuMemFree_v2(UNKNOWN_ADDRESS) == CUDA_ERROR_INVALID_CONTEXT)
        LEAVE(error);
    if (GM_UNLIKELY(fault_of(error, "cuMemFree", caller, frame)))
        LEAVE(error);
    BEGIN_FREE_OF(&scope, GM_CALL_FREE, address, gm_site_find(caller, frame));
    gm_status status = gm_pipeline_free(&scope, GM_ACT_FREE, address, native_free);
    if (GM_UNLIKELY(status))
        fault_of(status, "cuMemFree", caller, frame);
    else if (GM_UNLIKELY(gm_watch_has(GM_WATCH_GUARDS)) && scope.block.kind == GM_KIND_GUARD)
        gm_launches_ended(NULL, true); /* such a free waits */
    LEAVE(status);
}

CUresult CUDAAPI gm_hook_cuMemFree_v2(CUdeviceptr address) {
    enum gm_free_fast fast;
    if (gm_fast_may() && GM_LIKELY(fast = gm_free_sync_fast_now()) && !context_error() &&
        GM_LIKELY(gm_fast_free(address, fast)))
        return CUDA_SUCCESS;
    return give_back(address, GM_CALLER_HERE());
}

#define FREE_ASYNC(symbol, twin)                                                   \
    static gm_status native_##symbol(const struct gm_scope *scope, uint64_t key) { \
        return gm_real.symbol(key, (CUstream)(uintptr_t)scope->request.stream);    \
    }                                                                              \
    CUresult CUDAAPI gm_hook_##symbol(CUdeviceptr address, CUstream stream) {      \
        struct gm_scope scope;                                                     \
        ENTER(symbol, address, stream);                                            \
        BEGIN_FREE_OF(&scope, GM_CALL_FREE_ASYNC, address, GM_SITE_HERE());        \
        gm_hook_on_stream(&scope.request, stream, twin);                           \
        if (GM_UNLIKELY(gm_watch_has(GM_WATCH_GUARDS)))                            \
            gm_guard_frees_in_order(address, stream, scope.request.site);          \
        LEAVE(gm_pipeline_free(&scope, GM_ACT_FREE, address, native_##symbol));    \
    }
FREE_ASYNC(cuMemFreeAsync, false)
FREE_ASYNC(cuMemFreeAsync_ptsz, true)

/* ---- queries: the driver answers them, with two exceptions: free blocks count as free memory, and a block may be
 * larger than requested (freed.c) */

CUresult CUDAAPI gm_hook_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    struct gm_context context;
    size_t free_now, total;
    ENTER(cuMemGetInfo_v2, free_bytes, total_bytes);
    bool known = gm_context_current(&context);
    /* Comes before the driver's call, because it may release memory. */
    size_t releasable = known ? gm_pipeline_releasable(context.device) : 0;
    CUresult result = gm_real.cuMemGetInfo_v2(free_bytes, total_bytes);
    int64_t more = known ? (int64_t)releasable + gm_share_room(context.device) : 0;
    if (result != CUDA_SUCCESS || !known || (!more && !gm_limit_on()) ||
        gm_real.cuMemGetInfo_v2(&free_now, &total) != CUDA_SUCCESS)
        LEAVE(result);
    int64_t seen = (int64_t)free_now + more;
    free_now = seen < 0 ? 0 : (size_t)seen < total ? (size_t)seen : total;
    gm_limit_view(context.device, &free_now, &total);
    if (free_bytes)
        *free_bytes = free_now;
    if (total_bytes)
        *total_bytes = total;
    LEAVE(result);
}

/* The runtime calls it for the properties of a device. */
CUresult CUDAAPI gm_hook_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    ENTER(cuDeviceTotalMem_v2, bytes, device);
    CUresult result = gm_real.cuDeviceTotalMem_v2(bytes, device);
    if (result == CUDA_SUCCESS && bytes)
        gm_limit_view(device, NULL, bytes);
    LEAVE(result);
}

CUresult CUDAAPI gm_hook_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
    struct gm_block block;
    ENTER(cuMemGetAddressRange_v2, base, size, address);
    enum gm_known known = gm_hook_known(address, &block);
    if (known == GM_KNOWN_FREED) {
        if (base)
            *base = 0;
        if (size)
            *size = 0;
        LEAVE(CUDA_ERROR_NOT_FOUND);
    }
    /* It may consist of several mappings, or of none now. */
    bool mapped = known == GM_KNOWN_BLOCK && (block.kind == GM_KIND_VMM || gm_suspendable_covers(block.address));
    CUresult result = mapped ? CUDA_SUCCESS : gm_real.cuMemGetAddressRange_v2(base, size, address);
    if (result == CUDA_SUCCESS && known == GM_KNOWN_BLOCK && base)
        *base = block.address;
    if (result == CUDA_SUCCESS && known == GM_KNOWN_BLOCK && size)
        *size = block.size;
    LEAVE(result);
}

/* Whether the memory can be exported, or be used by another device. */
static void note_question(const char *call, CUpointer_attribute attribute) {
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS || attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE ||
        attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE)
        gm_guard_spare(call);
}

/* The driver knows no context of mapped memory. */
static bool is_asked_for_context(CUpointer_attribute attribute, enum gm_known known, const struct gm_block *block) {
    return attribute == CU_POINTER_ATTRIBUTE_CONTEXT && known == GM_KNOWN_BLOCK &&
           (block->kind == GM_KIND_GUARD || gm_suspendable_covers(block->address));
}

static void correct_answer(void *data, CUpointer_attribute attribute, CUdeviceptr address, enum gm_known known,
                           const struct gm_block *block) {
    if (is_asked_for_context(attribute, known, block))
        *(uint64_t *)data = block->context;
    else if (known == GM_KNOWN_BLOCK && attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        *(uint64_t *)data = block->address;
    else if (known == GM_KNOWN_BLOCK && attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        *(size_t *)data = block->size;
    else if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS) {
        gm_free_sync_note(GM_SYNC_SHARED);
        gm_hook_pin(address);
    } else if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID || attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
        gm_hook_pin(address); /* the id of memory is never that of another block */
}

CUresult CUDAAPI gm_hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
    struct gm_block block;
    ENTER(cuPointerGetAttribute, data, attribute, address);
    enum gm_known known = gm_hook_known(address, &block);
    if (known == GM_KNOWN_FREED)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    note_question("cuPointerGetAttribute", attribute);
    CUresult result = data && is_asked_for_context(attribute, known, &block)
                          ? CUDA_SUCCESS
                          : gm_real.cuPointerGetAttribute(data, attribute, address);
    if (result == CUDA_SUCCESS)
        correct_answer(data, attribute, address, known, &block);
    LEAVE(result);
}

CUresult CUDAAPI gm_hook_cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data,
                                                CUdeviceptr address) {
    struct gm_block block;
    ENTER(cuPointerGetAttributes, count, attributes, data, address);
    enum gm_known known = gm_hook_known(address, &block);
    if (known == GM_KNOWN_FREED)
        LEAVE(gm_real.cuPointerGetAttributes(count, attributes, data, UNKNOWN_ADDRESS));
    CUresult result = gm_real.cuPointerGetAttributes(count, attributes, data, address);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++) {
        note_question("cuPointerGetAttributes", attributes[i]);
        correct_answer(data[i], attributes[i], address, known, &block);
    }
    LEAVE(result);
}

CUresult CUDAAPI gm_hook_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address) {
    ENTER(cuPointerSetAttribute, value, attribute, address);
    if (gm_hook_is_freed(address))
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    gm_guard_spare("cuPointerSetAttribute");
    CUresult result = gm_real.cuPointerSetAttribute(value, attribute, address);
    gm_hook_pin(address);
    LEAVE(gm_guard_shared(result, "cuPointerSetAttribute", address, GM_CALLER_HERE()));
}
