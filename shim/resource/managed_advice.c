/* Calls cuMemPrefetchAsync and cuMemAdvise for managed blocks (managed_advice.h). */
#include "shim/resource/managed_advice.h"

#include "shim/base/options.h"

enum { DEVICES = 64 };

/* ---- prefetch */

static CUmemLocation on_device(int device) {
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

static bool device_migrates(int device) {
    static uint8_t known[DEVICES]; /* 0: not queried yet, 1: no, 2: yes */
    if (device < 0 || device >= DEVICES)
        return false;
    uint8_t seen = __atomic_load_n(&known[device], __ATOMIC_RELAXED);
    if (!seen) {
        int concurrent = 0;
        if (gm_drv.device_get_attribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device) !=
            CUDA_SUCCESS)
            return false;
        seen = concurrent ? 2 : 1;
        __atomic_store_n(&known[device], seen, __ATOMIC_RELAXED);
    }
    return seen == 2;
}

/* cuMemPrefetchAsync has a second signature from driver 12.2 on. */
static gm_status prefetch(CUdeviceptr address, size_t bytes, int device, CUstream stream, bool per_thread) {
    __typeof__(gm_drv.mem_prefetch_v2) second = per_thread ? gm_drv.mem_prefetch_v2_ptsz : gm_drv.mem_prefetch_v2;
    __typeof__(gm_drv.mem_prefetch) first = per_thread ? gm_drv.mem_prefetch_ptsz : gm_drv.mem_prefetch;
    if (second)
        return second(address, bytes, on_device(device), 0, stream);
    return first ? (gm_status)first(address, bytes, device, stream) : GM_NOT_SUPPORTED;
}

/* Prefetches on the internal stream of the context for prefetches. */
static gm_status prefetch_internally(CUcontext context, uint64_t context_id, int device, CUdeviceptr address,
                                     size_t bytes) {
    struct gm_internal internal;
    CUstream stream;
    if (!gm_internal_of(context, context_id, device, &internal))
        return GM_NOT_SUPPORTED;
    gm_status status = gm_internal_stream(&internal, GM_INTERNAL_PREFETCH, &stream);
    return status ? status : prefetch(address, bytes, device, stream, false);
}

/* New memory of the request. */
static gm_status prefetch_new(const struct gm_request *request, CUdeviceptr address, size_t bytes) {
    if (!device_migrates(request->device))
        return GM_NOT_SUPPORTED;
    if (request->call == GM_CALL_ALLOC_ASYNC)
        return prefetch(address, bytes, request->device, (CUstream)request->stream, request->per_thread);
    return prefetch_internally((CUcontext)(uintptr_t)request->context, request->context_id, request->device, address,
                               bytes);
}

void gm_managed_advice_prefetch(const struct gm_request *request, const struct gm_piece *piece) {
    static int once;
    if (GM_LIKELY(!gm_option_bool(GM_OPT_MANAGED_PREFETCH)) || !device_migrates(request->device))
        return;
    gm_status status = prefetch_new(request, piece->address, piece->reserved);
    if (status)
        gm_log_once(&once, GM_LOG_INFO, "managed memory is not prefetched to device %d: the driver reports error %d",
                    request->device, status);
}

void gm_managed_advice_settle(const struct gm_block *block) {
    struct gm_internal internal;
    CUstream stream;
    if (!gm_internal_of((CUcontext)(uintptr_t)block->context, block->context_id, block->device, &internal) ||
        !gm_internal_stream_made(&internal, GM_INTERNAL_PREFETCH, &stream))
        return;
    CUstreamCaptureMode mode = gm_capture_relax();
    gm_drv.stream_synchronize(stream);
    gm_capture_unrelax(mode);
}

/* ---- advice */

bool gm_managed_advice_can_undo(void) { return gm_drv.mem_advise != NULL; }

/* Removes one kind of advice. Advice that the driver does not support for this memory cannot be set, so "not supported"
 * is no error: read-mostly for memory of a pool, accessed-by for the host. */
static gm_status unset(const struct gm_block *block, CUmem_advise advice, CUmemLocation location) {
    CUresult result = gm_drv.mem_advise(block->address, block->reserved, advice, location);
    return result == CUDA_ERROR_NOT_SUPPORTED ? GM_OK : (gm_status)result;
}

static gm_status unset_all(const struct gm_block *block) {
    const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    int count = 0;
    gm_status status = gm_drv.device_get_count(&count);
    if (!status)
        status = unset(block, CU_MEM_ADVISE_UNSET_READ_MOSTLY, on_device(block->device));
    if (!status)
        status = unset(block, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, on_device(block->device));
    for (int device = 0; !status && device < count; device++)
        status = unset(block, CU_MEM_ADVISE_UNSET_ACCESSED_BY, on_device(device));
    if (status)
        return status;
    status = unset(block, CU_MEM_ADVISE_UNSET_ACCESSED_BY, host);
    return status == GM_INVALID_VALUE || status == CUDA_ERROR_INVALID_DEVICE ? GM_OK : status;
}

gm_status gm_managed_advice_undo(const struct gm_block *block) {
    CUstreamCaptureMode saved;
    bool pushed;
    gm_status status = gm_context_enter((CUcontext)(uintptr_t)block->context, &pushed);
    if (status)
        return status;
    CUstreamCaptureMode mode = gm_capture_relax();
    status = unset_all(block);
    gm_capture_unrelax(mode);
    /* The location of the pages is no promise. So a capture or a refusal leaves them where they are. */
    if (!status && device_migrates(block->device) && gm_capture_guard_enter(&saved)) {
        prefetch_internally((CUcontext)(uintptr_t)block->context, block->context_id, block->device, block->address,
                            block->reserved);
        gm_capture_guard_leave(saved);
    }
    gm_context_leave(pushed);
    return status;
}

/* The first signature of cuMemAdvise has no host location; device number -1 means the host. */
static gm_status advise(const struct gm_block *block, CUmem_advise advice, CUmemLocation location) {
    if (gm_drv.mem_advise)
        return gm_drv.mem_advise(block->address, block->reserved, advice, location);
    CUdevice device = location.type == CU_MEM_LOCATION_TYPE_HOST ? CU_DEVICE_CPU : (CUdevice)location.id;
    return gm_drv.mem_advise_first ? (gm_status)gm_drv.mem_advise_first(block->address, block->reserved, advice, device)
                                   : GM_NOT_SUPPORTED;
}

static gm_status advise_all(uint32_t advice, const struct gm_block *block) {
    const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST}, device = on_device(block->device);
    const struct {
        uint32_t bit;
        CUmem_advise advice;
        CUmemLocation location;
    } rows[] = {
        {GM_ADVICE_READ_MOSTLY, CU_MEM_ADVISE_SET_READ_MOSTLY, device},
        {GM_ADVICE_PREFER_DEVICE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device},
        {GM_ADVICE_PREFER_HOST, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host},
        {GM_ADVICE_ACCESSED_BY, CU_MEM_ADVISE_SET_ACCESSED_BY, device},
    };
    gm_status first = GM_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gm_status status = advice & rows[i].bit ? advise(block, rows[i].advice, rows[i].location) : GM_OK;
        first = first ? first : status;
    }
    return first;
}

void gm_managed_advice_advise(const struct gm_request *request, uint32_t advice, struct gm_block *block) {
    static int once;
    CUstreamCaptureMode mode;
    /* A prefetch leaves nothing to undo. */
    bool pushed, reused = block->kind == GM_KIND_MANAGED_POOL && advice & ~(uint32_t)GM_ADVICE_PREFETCH;
    if ((reused && !gm_managed_advice_can_undo()) || gm_context_enter((CUcontext)(uintptr_t)block->context, &pushed))
        return;
    if (gm_capture_guard_enter(&mode)) {
        block->pinned_native |= reused;
        gm_status status = advise_all(advice, block);
        gm_status prefetched =
            advice & GM_ADVICE_PREFETCH ? prefetch_new(request, block->address, block->reserved) : GM_OK;
        gm_capture_guard_leave(mode);
        if (status || prefetched)
            gm_log_once(&once, GM_LOG_INFO,
                        "the advice of a rule is not given to managed memory: the driver reports error %d",
                        status ? status : prefetched);
    }
    gm_context_leave(pushed);
}
