/* Streams: creation, waiting, callbacks, values in memory. */
#include "sim.h"
#include <string.h>

CUresult sim_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    if (!phStream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    *phStream = (CUstream)sim_stream_new(ctx, flags, priority);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamCreate(CUstream *phStream, unsigned int Flags) {
    return sim_cuStreamCreateWithPriority(phStream, Flags, 0);
}

/* Returns at once; what is queued still runs. */
CUresult sim_cuStreamDestroy_v2(CUstream hStream) {
    struct sim_stream *s;
    if (!hStream || hStream == CU_STREAM_LEGACY || hStream == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = sim_stream_get(hStream, &s);
    if (r == CUDA_ERROR_INVALID_HANDLE)
        return r;
    s = (struct sim_stream *)hStream;
    sim_capture_stream_gone(s);
    s->destroyed = true;
    s->magic = 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamDestroy(CUstream hStream) { return sim_cuStreamDestroy_v2(hStream); }

/* A query or wait of a capturing stream breaks its capture. */
static CUresult not_capturing(struct sim_stream *s) {
    if (s->capture) {
        sim_capture_invalidate(s->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    SIM_TRY(sim_capture_legacy(s));
    SIM_UNSAFE();
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamQuery(CUstream hStream) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    SIM_TRY(not_capturing(s));
    sim_run_waits(s);
    struct sim_dep d = sim_dep_stream(s);
    return sim_dep_done(&d) ? s->ctx->sticky : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuStreamSynchronize(CUstream hStream) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    SIM_TRY(not_capturing(s));
    struct sim_dep d = sim_dep_stream(s);
    struct sim_ctx *ctx = s->ctx;
    if (s->legacy) {
        struct sim_dep all = {.kind = DEP_BLOCKING, .ctx = ctx, .seq = sim_seq};
        sim_run_until(&all);
    }
    sim_run_until(&d);
    sim_sync_point(ctx);
    return ctx->sticky;
}

CUresult sim_cuStreamGetCtx(CUstream hStream, CUcontext *pctx) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = (CUcontext)s->ctx;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pctx, CUgreenCtx *pGreenCtx) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    SIM_TRY(sim_cuStreamGetCtx(hStream, pctx));
    if (pGreenCtx)
        *pGreenCtx = s->green;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    *phCtx = s->green;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetDevice(CUstream hStream, CUdevice *device) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    *device = s->ctx->device->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetFlags(CUstream hStream, unsigned int *flags) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    *flags = s->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetPriority(CUstream hStream, int *priority) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    *priority = s->priority;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetId(CUstream hStream, unsigned long long *streamId) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    *streamId = s->id;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamCopyAttributes(CUstream dst, CUstream src) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(dst, &s));
    return sim_stream_get(src, &s);
}

static CUresult host_op(CUstream hStream, struct sim_host h) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    struct sim_op *op = sim_op_new(OP_HOST);
    op->u.host = h;
    return sim_submit(s, op);
}

CUresult sim_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    return host_op(hStream, (struct sim_host){.fn = fn, .data = userData});
}

CUresult sim_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags) {
    struct sim_stream *s;
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_get(hStream, &s));
    if (s->capture)
        return not_capturing(s);
    return host_op(hStream, (struct sim_host){.callback = callback, .data = userData});
}

CUresult sim_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    struct sim_block *b = sim_block_at(dptr);
    if (!b || b->kind != KIND_MANAGED || b->addr != dptr || (length && length != b->size) || flags == 0 || flags > 4)
        return CUDA_ERROR_INVALID_VALUE;
    b->flags = flags;
    return sim_submit(s, sim_op_new(OP_EMPTY));
}

/* ---- values in memory ---- */

static CUresult value_op(CUstream hStream, enum sim_op_kind kind, CUdeviceptr addr, uint64_t value, unsigned flags,
                         bool wide) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    if (addr % (wide ? 8 : 4) || !sim_block_at(addr))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op *op = sim_op_new(kind);
    op->u.value = (struct sim_value){addr, value, flags, wide};
    if (!sim_op_range(op, addr, wide ? 8 : 4)) {
        sim_op_free(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sim_submit(s, op);
}

#define VALUE(bits, type, suffix)                                                                                 \
    CUresult sim_cuStreamWaitValue##bits##suffix(CUstream s, CUdeviceptr addr, type value, unsigned int flags) {  \
        return value_op(s, OP_WAIT_VALUE, addr, value, flags, bits == 64);                                        \
    }                                                                                                             \
    CUresult sim_cuStreamWriteValue##bits##suffix(CUstream s, CUdeviceptr addr, type value, unsigned int flags) { \
        return value_op(s, OP_WRITE, addr, value, flags, bits == 64);                                             \
    }
VALUE(32, cuuint32_t, )
VALUE(64, cuuint64_t, )
VALUE(32, cuuint32_t, _v2)
VALUE(64, cuuint64_t, _v2)

CUresult sim_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *p,
                                   unsigned int flags) {
    if (!p || flags || count == 0 || count > 256)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++, p++) {
        switch (p->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            SIM_TRY(value_op(stream, OP_WAIT_VALUE, p->waitValue.address, p->waitValue.value, p->waitValue.flags, 0));
            break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            SIM_TRY(value_op(stream, OP_WAIT_VALUE, p->waitValue.address, p->waitValue.value64, p->waitValue.flags, 1));
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            SIM_TRY(value_op(stream, OP_WRITE, p->writeValue.address, p->writeValue.value, p->writeValue.flags, 0));
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            SIM_TRY(value_op(stream, OP_WRITE, p->writeValue.address, p->writeValue.value64, p->writeValue.flags, 1));
            break;
        default: break;
        }
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *p, unsigned int flags) {
    return sim_cuStreamBatchMemOp_v2(stream, count, p, flags);
}
