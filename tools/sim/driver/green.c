/* Green contexts: a part of the device's multiprocessors, with a CUcontext and streams of its own. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

#define GREEN_MAGIC 0x47524e31u
struct CUgreenCtx_st {
    unsigned magic;
    struct sim_ctx *ctx;
    CUdevResource resource;
};
struct CUdevResourceDesc_st {
    CUdevResource resource;
};

static bool valid(CUgreenCtx g) { return g && g->magic == GREEN_MAGIC; }

static CUdevResource whole_device(void) {
    CUdevResource r;
    memset(&r, 0, sizeof r);
    r.type = CU_DEV_RESOURCE_TYPE_SM;
    r.sm.smCount = 132;
    r.sm.minSmPartitionSize = 8;
    r.sm.smCoscheduledAlignment = 8;
    return r;
}

CUresult sim_cuDeviceGetDevResource(CUdevice dev, CUdevResource *result, CUdevResourceType type) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    if (!result || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *result = whole_device();
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevResource(CUcontext hCtx, CUdevResource *result, CUdevResourceType type) {
    struct sim_ctx *c;
    SIM_TRY(sim_ctx_or_current(hCtx, &c));
    return sim_cuDeviceGetDevResource(c->device->ordinal, result, type);
}

CUresult sim_cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input,
                                         CUdevResource *remaining, unsigned int useFlags, unsigned int minCount) {
    (void)useFlags;
    if (!nbGroups || !input || input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    unsigned size = SIM_ROUND(minCount ? minCount : 8, 8u), room = input->sm.smCount / size;
    unsigned n = !result || *nbGroups > room ? room : *nbGroups;
    for (unsigned i = 0; result && i < n; i++) {
        result[i] = *input;
        result[i].sm.smCount = size;
    }
    if (remaining) {
        *remaining = *input;
        remaining->sm.smCount = input->sm.smCount - n * size;
    }
    *nbGroups = n;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int count) {
    if (!phDesc || !resources || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUdevResourceDesc_st *d = calloc(1, sizeof *d);
    d->resource = resources[0];
    for (unsigned i = 1; i < count; i++)
        d->resource.sm.smCount += resources[i].sm.smCount;
    *phDesc = d;
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    if (!phCtx || !desc || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    if (!d->primary || !d->primary->magic)
        return CUDA_ERROR_INVALID_DEVICE;
    CUgreenCtx g = calloc(1, sizeof *g);
    *g = (struct CUgreenCtx_st){.magic = GREEN_MAGIC, .ctx = sim_ctx_new(d, 0), .resource = desc->resource};
    g->ctx->parent = d->primary;
    *phCtx = g;
    return CUDA_SUCCESS;
}

/* Memory belongs to the primary context. */
static void keep_block(struct sim_block *b, void *ctx) {
    struct sim_ctx *green = ctx;
    if (b->ctx == green)
        b->ctx = green->parent;
}

CUresult sim_cuGreenCtxDestroy(CUgreenCtx g) {
    if (!valid(g))
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_blocks_each(keep_block, g->ctx);
    sim_ctx_kill(g->ctx, false);
    g->magic = 0;
    free(g);
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx g) {
    if (!valid(g) || !pContext)
        return CUDA_ERROR_INVALID_VALUE;
    *pContext = (CUcontext)g->ctx;
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxGetDevResource(CUgreenCtx g, CUdevResource *result, CUdevResourceType type) {
    if (!valid(g) || !result || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    *result = g->resource;
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxGetId(CUgreenCtx g, unsigned long long *id) {
    if (!valid(g) || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = g->ctx->id;
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx g, unsigned int flags, int priority) {
    if (!valid(g) || !phStream || !(flags & CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_stream *s = sim_stream_new(g->ctx, flags, priority);
    s->green = g;
    *phStream = (CUstream)s;
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxRecordEvent(CUgreenCtx g, CUevent e) {
    return valid(g) ? sim_cuCtxRecordEvent((CUcontext)g->ctx, e) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuGreenCtxWaitEvent(CUgreenCtx g, CUevent e) {
    return valid(g) ? sim_cuCtxWaitEvent((CUcontext)g->ctx, e) : CUDA_ERROR_INVALID_CONTEXT;
}
