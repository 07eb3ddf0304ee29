/* Hooks of copies from host memory to a device. They are used only with GPUMEM_TRACE_COPIES: the entries of the
 * calls continue here in that case only.
 *
 * A hook makes the call first and then reads the source. A copy that the driver refused is not read. The contents are
 * those at the return of the call: a program that changes pinned memory before its asynchronous copy has run sends
 * other bytes than those that were hashed. Managed memory is never read, because reading it here would move it. */
#include "shim/hook/diverted.h"

#include "shim/base/options.h"
#include "shim/hook/entry_points.h"
#include "shim/hook/contents.h"
#include "shim/hook/hook.h"
#include "shim/trace/summary.h"

struct call {
    struct gm_scope scope;
    uint64_t spent_ns;
    CUresult result;
};

/* Host memory that is not pinned is unknown to the driver. Managed memory is none of the host's. */
static bool is_host(CUdeviceptr address) {
    bool managed;
    unsigned type = gm_memory_type(&gm_drv, address, &managed);
    return !type || (type == CU_MEMORYTYPE_HOST && !managed);
}

/* ---- one copy */

struct target {
    uint64_t address; /* of an array: its handle */
    size_t span;
    bool array;
};

static void write_copy(struct call *call, const struct gm_host_rows *from, struct target to) {
    struct gm_host_copy copy = {.from = from->start,
                                .to = to.address,
                                .bytes = from->width * from->height * from->depth,
                                .span = to.span,
                                .to_array = to.array,
                                .hashed = GM_INVALID_VALUE,
                                .spent_ns = call->spent_ns};
    if (!copy.bytes)
        return;
    uint64_t begin = gm_ticks();
    bool readable = call->result == CUDA_SUCCESS && !call->scope.request.capturing && is_host(from->start);
    if (readable && gm_contents_hash(from, &copy.contents))
        copy.hashed = GM_OK;
    copy.hashing_ns = gm_ticks_span_ns(gm_ticks() - begin);
    gm_pipeline_copied(&call->scope, &copy, call->result);
}

static void write_linear(struct call *call, struct target to, uint64_t from, size_t size) {
    write_copy(call, &(struct gm_host_rows){from, size, 1, 1, size, size}, to);
}

static void to_device(struct call *call, CUdeviceptr to, const void *from, size_t size) {
    write_linear(call, (struct target){to, size, false}, (uintptr_t)from, size);
}

static void to_array(struct call *call, CUarray to, const void *from, size_t size) {
    write_linear(call, (struct target){(uintptr_t)to, size, true}, (uintptr_t)from, size);
}

/* The direction follows from the addresses. */
static void to_either(struct call *call, CUdeviceptr to, CUdeviceptr from, size_t size) {
    if (is_host(from) && !is_host(to))
        write_linear(call, (struct target){to, size, false}, from, size);
}

/* ---- rows and layers */

static void volume(struct call *call, const CUDA_MEMCPY3D *c) {
    size_t from_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes;
    size_t to_pitch = c->dstPitch ? c->dstPitch : c->WidthInBytes;
    struct gm_host_rows from = {.width = c->WidthInBytes,
                                .height = c->Height,
                                .depth = c->Depth,
                                .pitch = from_pitch,
                                .layer = from_pitch * (c->srcHeight ? c->srcHeight : c->Height)};
    size_t to_layer = to_pitch * (c->dstHeight ? c->dstHeight : c->Height);
    struct target to = {.array = c->dstMemoryType == CU_MEMORYTYPE_ARRAY};

    if (c->srcMemoryType == CU_MEMORYTYPE_HOST)
        from.start = (uintptr_t)c->srcHost;
    else if (c->srcMemoryType == CU_MEMORYTYPE_UNIFIED && is_host(c->srcDevice))
        from.start = c->srcDevice;
    else
        return;
    from.start += c->srcXInBytes + c->srcY * from.pitch + c->srcZ * from.layer;

    if (!from.width || !from.height || !from.depth || c->dstMemoryType == CU_MEMORYTYPE_HOST ||
        (c->dstMemoryType == CU_MEMORYTYPE_UNIFIED && is_host(c->dstDevice)))
        return;
    to.address =
        to.array ? (uintptr_t)c->dstArray : c->dstDevice + c->dstXInBytes + c->dstY * to_pitch + c->dstZ * to_layer;
    to.span = to.array ? 0 : (from.depth - 1) * to_layer + (from.height - 1) * to_pitch + from.width;
    write_copy(call, &from, to);
}

#define END(copy, end)                                                                                                \
    .end##XInBytes = (copy)->end##XInBytes, .end##Y = (copy)->end##Y, .end##Host = (copy)->end##Host,                 \
    .end##MemoryType = (copy)->end##MemoryType, .end##Device = (copy)->end##Device, .end##Array = (copy)->end##Array, \
    .end##Pitch = (copy)->end##Pitch
#define LAYERS(copy, end) .end##Z = (copy)->end##Z, .end##Height = (copy)->end##Height

static void rows_2d(struct call *call, const CUDA_MEMCPY2D *c) {
    if (c)
        volume(call, &(CUDA_MEMCPY3D){END(c, src), END(c, dst), .WidthInBytes = c->WidthInBytes, .Height = c->Height,
                                      .Depth = 1});
}

static void rows_3d(struct call *call, const CUDA_MEMCPY3D *c) {
    if (c)
        volume(call, c);
}

static void rows_3d_peer(struct call *call, const CUDA_MEMCPY3D_PEER *c) {
    if (c)
        volume(call, &(CUDA_MEMCPY3D){END(c, src), LAYERS(c, src), END(c, dst), LAYERS(c, dst),
                                      .WidthInBytes = c->WidthInBytes, .Height = c->Height, .Depth = c->Depth});
}

/* ---- several copies by one call; a refused call may have passed anything */

static void batch(struct call *call, const CUdeviceptr *to, const CUdeviceptr *from, const size_t *sizes,
                  size_t count) {
    for (size_t i = 0; i < count && call->result == CUDA_SUCCESS; i++)
        to_either(call, to[i], from[i], sizes[i]);
}

/* Elements are bytes where both operands are pointers. Copies to arrays are not recorded: the size of their elements is
 * not known here. */
static void batch_3d(struct call *call, const CUDA_MEMCPY3D_BATCH_OP *rows, size_t count) {
    for (size_t i = 0; i < count && call->result == CUDA_SUCCESS; i++) {
        const CUmemcpy3DOperand *from = &rows[i].src, *to = &rows[i].dst;
        if (from->type != CU_MEMCPY_OPERAND_TYPE_POINTER || to->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
            continue;
        volume(call, &(CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                      .srcDevice = from->op.ptr.ptr,
                                      .srcPitch = from->op.ptr.rowLength,
                                      .srcHeight = from->op.ptr.layerHeight,
                                      .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                      .dstDevice = to->op.ptr.ptr,
                                      .dstPitch = to->op.ptr.rowLength,
                                      .dstHeight = to->op.ptr.layerHeight,
                                      .WidthInBytes = rows[i].extent.width,
                                      .Height = rows[i].extent.height,
                                      .Depth = rows[i].extent.depth});
    }
}

/* ---- the calls */

/* The driver calls itself inside some calls, and gpumem calls it inside a hook. */
static bool is_of_program(void) { return gm_mine.depth == 0 && gm_trace_allocates(); }

static void returned(struct call *call, CUresult result, CUstream stream, bool twin) {
    call->spent_ns = gm_ticks_span_ns(gm_ticks() - call->scope.begin);
    call->result = result;
    gm_mine.depth = 1;
    gm_hook_context(&call->scope);
    gm_hook_on_stream(&call->scope.request, stream, twin);
}

static CUresult recorded(const struct call *call) {
    gm_mine.depth = 0;
    return call->result;
}

/* COPY(symbol, per-thread twin, parameters, arguments, stream, how to record) */
#define BOTH(COPY, symbol, suffix, ...) COPY(symbol, false, __VA_ARGS__) COPY(symbol##suffix, true, __VA_ARGS__)
#define COPIES(COPY)                                                                                                  \
    BOTH(COPY, cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void *from, size_t size), (to, from, size), NULL,       \
         to_device(&call, to, from, size))                                                                            \
    BOTH(COPY, cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr to, const void *from, size_t size, CUstream stream),         \
         (to, from, size, stream), stream, to_device(&call, to, from, size))                                          \
    BOTH(COPY, cuMemcpyHtoA_v2, _ptds, (CUarray to, size_t offset, const void *from, size_t size),                    \
         (to, offset, from, size), NULL, to_array(&call, to, from, size))                                             \
    BOTH(COPY, cuMemcpyHtoAAsync_v2, _ptsz,                                                                           \
         (CUarray to, size_t offset, const void *from, size_t size, CUstream stream),                                 \
         (to, offset, from, size, stream), stream, to_array(&call, to, from, size))                                   \
    BOTH(COPY, cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size), NULL,              \
         to_either(&call, to, from, size))                                                                            \
    BOTH(COPY, cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),                \
         (to, from, size, stream), stream, to_either(&call, to, from, size))                                          \
    BOTH(COPY, cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *copy), (copy), NULL, rows_2d(&call, copy))                 \
    BOTH(COPY, cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *copy), (copy), NULL, rows_2d(&call, copy))        \
    BOTH(COPY, cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream), stream,       \
         rows_2d(&call, copy))                                                                                        \
    BOTH(COPY, cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *copy), (copy), NULL, rows_3d(&call, copy))                 \
    BOTH(COPY, cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *copy, CUstream stream), (copy, stream), stream,       \
         rows_3d(&call, copy))                                                                                        \
    BOTH(COPY, cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER *copy), (copy), NULL, rows_3d_peer(&call, copy))      \
    BOTH(COPY, cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream), (copy, stream), stream, \
         rows_3d_peer(&call, copy))                                                                                   \
    BOTH(COPY, cuMemcpyBatchAsync, _ptsz,                                                                             \
         (CUdeviceptr * to, CUdeviceptr * from, size_t * sizes, size_t count, CUmemcpyAttributes * attributes,        \
          size_t * indices, size_t attribute_count, size_t * failed, CUstream stream),                                \
         (to, from, sizes, count, attributes, indices, attribute_count, failed, stream), stream,                      \
         batch(&call, to, from, sizes, count))                                                                        \
    BOTH(COPY, cuMemcpyBatchAsync_v2, _ptsz,                                                                          \
         (CUdeviceptr * to, CUdeviceptr * from, size_t * sizes, size_t count, CUmemcpyAttributes * attributes,        \
          size_t * indices, size_t attribute_count, CUstream stream),                                                 \
         (to, from, sizes, count, attributes, indices, attribute_count, stream), stream,                              \
         batch(&call, to, from, sizes, count))                                                                        \
    BOTH(COPY, cuMemcpy3DBatchAsync, _ptsz,                                                                           \
         (size_t count, CUDA_MEMCPY3D_BATCH_OP * rows, size_t * failed, unsigned long long flags, CUstream stream),   \
         (count, rows, failed, flags, stream), stream, batch_3d(&call, rows, count))                                  \
    BOTH(COPY, cuMemcpy3DBatchAsync_v2, _ptsz,                                                                        \
         (size_t count, CUDA_MEMCPY3D_BATCH_OP * rows, unsigned long long flags, CUstream stream),                    \
         (count, rows, flags, stream), stream, batch_3d(&call, rows, count))

#define COPY(symbol, twin, parameters, arguments, stream_of, record)                        \
    static CUresult(CUDAAPI *next_##symbol) parameters;                                     \
    static CUresult CUDAAPI copy_##symbol parameters {                                      \
        struct call call;                                                                   \
        __typeof__(next_##symbol) next = __atomic_load_n(&next_##symbol, __ATOMIC_RELAXED); \
        if (!is_of_program())                                                               \
            return PASSED_WITH_TRIM(next arguments);                                        \
        gm_scope_begin(&call.scope, GM_CALL_NONE, 0, GM_SITE_HERE());                       \
        returned(&call, PASSED_WITH_TRIM(next arguments), stream_of, twin);                 \
        record;                                                                             \
        return recorded(&call);                                                             \
    }
COPIES(COPY)
#undef COPY

/* ---- life */

void gm_host_copies_start(void) {
    if (!gm_option_bool(GM_OPT_TRACE_COPIES))
        return;
    if (!gm_trace_is_on())
        gm_log(GM_LOG_WARN, "GPUMEM_TRACE_COPIES: copies are recorded in the trace, so set GPUMEM_TRACE, too");
    if (!gm_trace_is_on() || gm_summary_on())
        return;
#define COPY(symbol, ...) gm_call_divert(GM_AT_##symbol, (void *)copy_##symbol, (void **)&next_##symbol);
    COPIES(COPY)
#undef COPY
}
