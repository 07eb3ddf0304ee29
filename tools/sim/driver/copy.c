/* Copies and fills; all become pitched copies between addresses. */
#include "sim.h"
#include "sim_array.h"
#include <stdlib.h>
#include <string.h>

static size_t span(size_t width, size_t height, size_t depth, size_t pitch, size_t slice) {
    return width && height && depth ? (depth - 1) * slice + (height - 1) * pitch + width : 0;
}

/* Names the blocks at addr; an address in no block is pageable host memory. */
static CUresult name_range(struct sim_op *op, uintptr_t addr, size_t size, bool *pageable) {
    struct sim_block *b = sim_block_at(addr);
    *pageable = !b;
    if (!b)
        return CUDA_SUCCESS;
    return sim_op_range(op, addr, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_opened_memory(const struct sim_block *b) { return b->kind == KIND_POOL || b->kind == KIND_VMM; }

static bool lies_on_device(const struct sim_block *b) {
    return b->kind == KIND_NATIVE || b->kind == KIND_IPC || (b->kind == KIND_POOL && !b->host_access) ||
           (b->kind == KIND_VMM && !b->flags);
}

/* Between devices, the stream's among them, memory of pools and mappings must be open to each; plain memory is staged.
 */
static bool devices_reach(const struct sim_stream *s, const struct sim_op *op) {
    const unsigned own = 1u << s->ctx->device->ordinal;
    unsigned devices = own;
    for (unsigned i = 0; i < op->range_count; i++)
        devices |= lies_on_device(op->ranges[i].block) ? 1u << op->ranges[i].block->device->ordinal : 0;
    for (unsigned i = 0; i < op->range_count && devices != own; i++)
        if (is_opened_memory(op->ranges[i].block) && (devices & ~op->ranges[i].block->access))
            return false;
    return true;
}

CUresult sim_copy_submit(struct sim_stream *s, const struct sim_copy *c, bool wait) {
    size_t n = span(c->width, c->height, c->depth, c->spitch, c->sslice);
    bool from_pageable = false, to_pageable = false;
    if (n == 0)
        return CUDA_SUCCESS;
    if (wait && s->capture)
        SIM_UNSAFE();
    struct sim_op *op = sim_op_new(OP_COPY);
    op->u.copy = *c;
    CUresult r = name_range(op, c->src, n, &from_pageable);
    if (r == CUDA_SUCCESS)
        r = name_range(op, c->dst, span(c->width, c->height, c->depth, c->dpitch, c->dslice), &to_pageable);
    if (r == CUDA_SUCCESS && !devices_reach(s, op))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) {
        sim_op_free(op);
        return r;
    }
    if (from_pageable && !wait && !s->capture) {
        op->u.copy.staged = malloc(n);
        memcpy(op->u.copy.staged, (void *)c->src, n);
    }
    /* A copy to pageable memory returns when it is complete, also in its asynchronous form. */
    if (wait || (to_pageable && !s->capture))
        return sim_submit_and_wait(s, op);
    return sim_submit(s, op);
}

static CUresult linear(uintptr_t dst, uintptr_t src, size_t n, CUstream hStream, bool wait) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    if (n && (!dst || !src))
        return CUDA_ERROR_INVALID_VALUE;
    if (wait)
        SIM_UNSAFE();
    struct sim_copy c = {.dst = dst, .src = src, .width = n, .height = 1, .depth = 1};
    return sim_copy_submit(s, &c, wait);
}

static bool on_device(uintptr_t p) {
    struct sim_block *b = sim_block_at(p);
    return b && b->state != STATE_FREED;
}

#define DEVICE(p)                            \
    do {                                     \
        if (n && !on_device(p))              \
            return CUDA_ERROR_INVALID_VALUE; \
    } while (0)

CUresult sim_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n) { return linear(dst, src, n, NULL, true); }
CUresult sim_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) {
    return linear(dst, src, n, s, false);
}
CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n) {
    DEVICE(dst);
    return linear(dst, (uintptr_t)src, n, NULL, true);
}
CUresult sim_cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n) {
    DEVICE(src);
    return linear((uintptr_t)dst, src, n, NULL, true);
}
CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream s) {
    DEVICE(dst);
    return linear(dst, (uintptr_t)src, n, s, false);
}
CUresult sim_cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream s) {
    DEVICE(src);
    return linear((uintptr_t)dst, src, n, s, false);
}
/* Device to device: the synchronous form is ordered by its stream but does not wait. */
CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n) {
    DEVICE(dst);
    DEVICE(src);
    return linear(dst, src, n, NULL, false);
}
CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) {
    DEVICE(dst);
    DEVICE(src);
    return linear(dst, src, n, s, false);
}
CUresult sim_cuMemcpyPeer(CUdeviceptr dst, CUcontext dctx, CUdeviceptr src, CUcontext sctx, size_t n) {
    if (!sim_ctx_valid(dctx) || !sim_ctx_valid(sctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    return sim_cuMemcpyDtoD_v2(dst, src, n);
}
CUresult sim_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dctx, CUdeviceptr src, CUcontext sctx, size_t n, CUstream s) {
    if (!sim_ctx_valid(dctx) || !sim_ctx_valid(sctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    return sim_cuMemcpyDtoDAsync_v2(dst, src, n, s);
}

CUresult sim_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                   CUmemcpyAttributes *attrs, size_t *attrIdxs, size_t numAttrs, CUstream s) {
    (void)attrIdxs;
    if (!dsts || !srcs || !sizes || count == 0 || numAttrs == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        SIM_TRY(linear(dsts[i], srcs[i], sizes[i], s, false));
    return CUDA_SUCCESS;
}

CUresult sim_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                CUmemcpyAttributes *attrs, size_t *attrIdxs, size_t numAttrs, size_t *failIdx,
                                CUstream s) {
    CUresult r = sim_cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrIdxs, numAttrs, s);
    if (r != CUDA_SUCCESS && failIdx)
        *failIdx = SIZE_MAX;
    return r;
}

/* ---- two and three dimensions ---- */

struct side {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    size_t x, y, z, pitch, height;
};

static CUresult locate(const struct side *e, uintptr_t *addr, size_t *pitch, size_t *slice) {
    if (e->type == CU_MEMORYTYPE_ARRAY) {
        if (!sim_array_valid(e->array))
            return CUDA_ERROR_INVALID_HANDLE;
        *pitch = e->array->pitch;
        *slice = e->array->slice;
        *addr = e->array->addr + e->z * *slice + e->y * *pitch + e->x;
        return CUDA_SUCCESS;
    }
    *pitch = e->pitch;
    *slice = e->pitch * e->height;
    uintptr_t base = e->type == CU_MEMORYTYPE_HOST ? (uintptr_t)e->host : (uintptr_t)e->device;
    *addr = base + e->z * *slice + e->y * *pitch + e->x;
    if (e->type == CU_MEMORYTYPE_DEVICE && !on_device(base))
        return CUDA_ERROR_INVALID_VALUE;
    return base ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult pitched(const struct side *dst, const struct side *src, size_t w, size_t h, size_t d, CUstream stream,
                        bool wait) {
    struct sim_stream *s;
    struct sim_copy c = {.width = w, .height = h, .depth = d};
    SIM_TRY(sim_stream_get(stream, &s));
    if (w == 0 || h == 0 || d == 0)
        return CUDA_SUCCESS;
    if (wait)
        SIM_UNSAFE();
    SIM_TRY(locate(dst, &c.dst, &c.dpitch, &c.dslice));
    SIM_TRY(locate(src, &c.src, &c.spitch, &c.sslice));
    if ((h > 1 || d > 1) && ((c.dpitch && c.dpitch < w) || (c.spitch && c.spitch < w)))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_copy_submit(s, &c, wait);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream stream, bool wait) {
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    struct side src = {p->srcMemoryType,
                       p->srcHost,
                       p->srcDevice,
                       p->srcArray,
                       p->srcXInBytes,
                       p->srcY,
                       0,
                       p->srcPitch ? p->srcPitch : p->WidthInBytes,
                       0};
    struct side dst = {p->dstMemoryType,
                       p->dstHost,
                       p->dstDevice,
                       p->dstArray,
                       p->dstXInBytes,
                       p->dstY,
                       0,
                       p->dstPitch ? p->dstPitch : p->WidthInBytes,
                       0};
    return pitched(&dst, &src, p->WidthInBytes, p->Height, 1, stream, wait);
}

CUresult sim_cuMemcpy2D_v2(const CUDA_MEMCPY2D *p) { return copy_2d(p, NULL, true); }
CUresult sim_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p) { return copy_2d(p, NULL, true); }
CUresult sim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream s) { return copy_2d(p, s, false); }

#define SIDE_3D(p, end)                                                                                           \
    {                                                                                                             \
        (p)->end##MemoryType, (p)->end##Host, (p)->end##Device, (p)->end##Array, (p)->end##XInBytes, (p)->end##Y, \
            (p)->end##Z, (p)->end##Pitch ? (p)->end##Pitch : (p)->WidthInBytes,                                   \
            (p)->end##Height ? (p)->end##Height : (p)->Height                                                     \
    }

static CUresult copy_3d(const CUDA_MEMCPY3D *p, CUstream stream, bool wait) {
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    struct side src = SIDE_3D(p, src), dst = SIDE_3D(p, dst);
    return pitched(&dst, &src, p->WidthInBytes, p->Height, p->Depth, stream, wait);
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream stream, bool wait) {
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    struct side src = SIDE_3D(p, src), dst = SIDE_3D(p, dst);
    return pitched(&dst, &src, p->WidthInBytes, p->Height, p->Depth, stream, wait);
}

CUresult sim_cuMemcpy3D_v2(const CUDA_MEMCPY3D *p) { return copy_3d(p, NULL, true); }
CUresult sim_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream s) { return copy_3d(p, s, false); }
CUresult sim_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p) { return copy_3d_peer(p, NULL, true); }
CUresult sim_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream s) { return copy_3d_peer(p, s, false); }

/* Elements are bytes: operands are pointers only. */
static bool end_of_batch(const CUmemcpy3DOperand *o, const CUextent3D *extent, struct side *end) {
    *end = (struct side){.type = CU_MEMORYTYPE_UNIFIED,
                         .device = o->op.ptr.ptr,
                         .pitch = o->op.ptr.rowLength ? o->op.ptr.rowLength : extent->width,
                         .height = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : extent->height};
    return o->type == CU_MEMCPY_OPERAND_TYPE_POINTER;
}

CUresult sim_cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream s) {
    if (!count || !ops || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        const CUextent3D *e = &ops[i].extent;
        struct side src, dst;
        if (!end_of_batch(&ops[i].src, e, &src) || !end_of_batch(&ops[i].dst, e, &dst))
            return CUDA_ERROR_NOT_SUPPORTED;
        SIM_TRY(pitched(&dst, &src, e->width, e->height, e->depth, s, false));
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed, unsigned long long flags,
                                  CUstream s) {
    CUresult r = sim_cuMemcpy3DBatchAsync_v2(count, ops, flags, s);
    if (r != CUDA_SUCCESS && failed)
        *failed = SIZE_MAX;
    return r;
}

static CUresult array_linear(CUarray array, size_t offset, uintptr_t other, size_t n, bool to_array, CUstream stream,
                             bool wait) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(stream, &s));
    if (!sim_array_valid(array))
        return CUDA_ERROR_INVALID_HANDLE;
    if (offset + n > array->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    uintptr_t a = array->addr + offset;
    return linear(to_array ? a : other, to_array ? other : a, n, stream, wait);
}

CUresult sim_cuMemcpyDtoA_v2(CUarray a, size_t off, CUdeviceptr src, size_t n) {
    return array_linear(a, off, src, n, true, NULL, false);
}
CUresult sim_cuMemcpyAtoD_v2(CUdeviceptr dst, CUarray a, size_t off, size_t n) {
    return array_linear(a, off, dst, n, false, NULL, false);
}
CUresult sim_cuMemcpyHtoA_v2(CUarray a, size_t off, const void *src, size_t n) {
    return array_linear(a, off, (uintptr_t)src, n, true, NULL, true);
}
CUresult sim_cuMemcpyAtoH_v2(void *dst, CUarray a, size_t off, size_t n) {
    return array_linear(a, off, (uintptr_t)dst, n, false, NULL, true);
}
CUresult sim_cuMemcpyHtoAAsync_v2(CUarray a, size_t off, const void *src, size_t n, CUstream s) {
    return array_linear(a, off, (uintptr_t)src, n, true, s, false);
}
CUresult sim_cuMemcpyAtoHAsync_v2(void *dst, CUarray a, size_t off, size_t n, CUstream s) {
    return array_linear(a, off, (uintptr_t)dst, n, false, s, false);
}
CUresult sim_cuMemcpyAtoA_v2(CUarray dst, size_t doff, CUarray src, size_t soff, size_t n) {
    if (!sim_array_valid(src) || soff + n > src->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    return array_linear(dst, doff, src->addr + soff, n, true, NULL, false);
}

/* ---- fills ---- */

static CUresult fill(CUdeviceptr dst, size_t pitch, unsigned value, unsigned element, size_t width, size_t height,
                     CUstream stream) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(stream, &s));
    size_t n = span(width * element, height, 1, pitch, 0);
    if (n == 0)
        return CUDA_SUCCESS;
    if (dst % element || !on_device(dst) || (height > 1 && pitch < width * element))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op *op = sim_op_new(OP_SET);
    op->u.set = (struct sim_set){dst, pitch, width, height, value, element};
    if (!sim_op_range(op, dst, n)) {
        sim_op_free(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sim_submit(s, op);
}

#define FILL(bits, type)                                                                                               \
    CUresult sim_cuMemsetD##bits##_v2(CUdeviceptr d, type v, size_t n) { return fill(d, 0, v, bits / 8, n, 1, NULL); } \
    CUresult sim_cuMemsetD##bits##Async(CUdeviceptr d, type v, size_t n, CUstream s) {                                 \
        return fill(d, 0, v, bits / 8, n, 1, s);                                                                       \
    }                                                                                                                  \
    CUresult sim_cuMemsetD2D##bits##_v2(CUdeviceptr d, size_t pitch, type v, size_t w, size_t h) {                     \
        return fill(d, pitch, v, bits / 8, w, h, NULL);                                                                \
    }                                                                                                                  \
    CUresult sim_cuMemsetD2D##bits##Async(CUdeviceptr d, size_t pitch, type v, size_t w, size_t h, CUstream s) {       \
        return fill(d, pitch, v, bits / 8, w, h, s);                                                                   \
    }
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned int)
