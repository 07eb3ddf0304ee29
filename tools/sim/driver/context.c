/* Contexts: primary and created ones, the stack of each thread, limits, peers. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

struct sim_ctx *sim_contexts;
static uint64_t last_ctx_id;

bool sim_ctx_valid(CUcontext handle) {
    for (struct sim_ctx *c = sim_contexts; c; c = c->next) {
        if (c == (struct sim_ctx *)handle)
            return true;
    }
    return false;
}

CUresult sim_need_ctx(struct sim_ctx **out) {
    struct sim_ctx *c = sim_self.top ? sim_self.stack[sim_self.top - 1] : NULL;
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!sim_ctx_valid((CUcontext)c) || c->dying)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = c;
    return CUDA_SUCCESS;
}

CUresult sim_ctx_or_current(CUcontext handle, struct sim_ctx **out) {
    if (!handle)
        return sim_need_ctx(out);
    if (!sim_ctx_valid(handle) || ((struct sim_ctx *)handle)->dying)
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = (struct sim_ctx *)handle;
    return CUDA_SUCCESS;
}

static void set_up(struct sim_ctx *c, struct sim_device *d, unsigned flags) {
    *c = (struct sim_ctx){.magic = CTX_MAGIC, .device = d, .flags = flags, .id = ++last_ctx_id};
    c->limits[CU_LIMIT_STACK_SIZE] = 1024;
    c->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7340032;
    c->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608;
    c->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    c->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    c->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    c->next = sim_contexts;
    sim_contexts = c;
    c->legacy = sim_stream_new(c, CU_STREAM_DEFAULT, 0);
    c->legacy->legacy = true;
}

static struct sim_ctx *unused; /* the next context gets the handle of the latest destroyed one */

struct sim_ctx *sim_ctx_new(struct sim_device *d, unsigned flags) {
    struct sim_ctx *c = unused;
    if (c)
        unused = c->next;
    else
        c = calloc(1, sizeof *c);
    if (c)
        set_up(c, d, flags);
    return c;
}

static void drop_block(struct sim_block *b, void *ctx) {
    if (b->ctx != ctx || b->state == STATE_FREED)
        return;
    if (b->kind == KIND_NATIVE || b->kind == KIND_MANAGED || b->kind == KIND_GRAPH)
        sim_native_free(b);
    else if (b->kind == KIND_POOL && !b->free_submitted && sim_pool_is_default(b->pool))
        sim_pool_free_now(b);
    else if (b->kind == KIND_POOL)
        b->ctx = NULL; /* a pool of the program's own making belongs to the device */
}

static void run_ready(struct sim_ctx *c) {
    int ran;
    do {
        ran = 0;
        for (struct sim_stream *s = sim_streams; s; s = s->next) {
            if (s->ctx == c)
                ran += sim_step(s);
        }
    } while (ran);
}

/* The memory of a context dies with it; a primary context's handle lives on for the next retain. */
void sim_ctx_kill(struct sim_ctx *c, bool keep) {
    c->dying = true;
    run_ready(c);
    if (c->sticky == CUDA_SUCCESS)
        c->sticky = CUDA_ERROR_CONTEXT_IS_DESTROYED; /* what still waits is dropped */
    sim_finish_ctx(c);
    for (struct sim_stream *s = sim_streams; s; s = s->next) {
        if (s->ctx == c) {
            sim_capture_stream_gone(s);
            s->destroyed = true;
            s->magic = 0;
        }
    }
    sim_blocks_each(drop_block, c);
    for (struct sim_ctx **link = &sim_contexts; *link; link = &(*link)->next) {
        if (*link == c) {
            *link = c->next;
            break;
        }
    }
    free(c->waits);
    c->waits = NULL;
    c->magic = 0;
    if (!keep) {
        c->next = unused;
        unused = c;
    }
}

static CUresult push(struct sim_ctx *c) {
    if (sim_self.top == (int)(sizeof sim_self.stack / sizeof sim_self.stack[0]))
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_self.stack[sim_self.top++] = c;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_ctx *c = sim_ctx_new(d, flags);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    SIM_TRY(push(c));
    *pctx = (CUcontext)c;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
                            CUdevice dev) {
    if (numParams != 0 || paramsArray)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return sim_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult sim_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev) {
    if (ctxCreateParams && ctxCreateParams->numExecAffinityParams)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return sim_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult sim_cuCtxDestroy_v2(CUcontext ctx) {
    if (!sim_ctx_valid(ctx) || ((struct sim_ctx *)ctx)->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (sim_self.top && sim_self.stack[sim_self.top - 1] == (struct sim_ctx *)ctx)
        sim_self.top--;
    sim_ctx_kill((struct sim_ctx *)ctx, false);
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxDestroy(CUcontext ctx) { return sim_cuCtxDestroy_v2(ctx); }

CUresult sim_cuCtxAttach(CUcontext *pctx, unsigned int flags) {
    struct sim_ctx *c;
    SIM_TRY(sim_need_ctx(&c));
    if (!pctx || flags)
        return CUDA_ERROR_INVALID_VALUE;
    c->refs++;
    *pctx = (CUcontext)c;
    return CUDA_SUCCESS;
}

/* As the driver: of the current context only; a primary one stays. */
CUresult sim_cuCtxDetach(CUcontext ctx) {
    struct sim_ctx *c;
    SIM_TRY(sim_need_ctx(&c));
    if (c != (struct sim_ctx *)ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (c->refs)
        c->refs--;
    else if (!c->primary)
        return sim_cuCtxDestroy_v2(ctx);
    return CUDA_SUCCESS;
}

/* The driver follows the handle of an ended context into memory that it has given back. */
static void refuse_ended(CUcontext ctx) {
    for (const struct sim_ctx *c = unused; c; c = c->next)
        if (c == (struct sim_ctx *)ctx)
            sim_violation(NULL, "a context that has ended was made current", (uintptr_t)ctx, 0);
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext ctx) {
    struct sim_ctx *c;
    refuse_ended(ctx);
    if (!ctx || sim_ctx_or_current(ctx, &c) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_CONTEXT;
    return push(c);
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *pctx) {
    if (sim_self.top == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sim_ctx *c = sim_self.stack[--sim_self.top];
    if (pctx)
        *pctx = (CUcontext)c;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxPushCurrent(CUcontext ctx) { return sim_cuCtxPushCurrent_v2(ctx); }
CUresult sim_cuCtxPopCurrent(CUcontext *pctx) { return sim_cuCtxPopCurrent_v2(pctx); }

CUresult sim_cuCtxSetCurrent(CUcontext ctx) {
    if (ctx && !sim_ctx_valid(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (sim_self.top)
        sim_self.top--;
    return ctx ? push((struct sim_ctx *)ctx) : CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *pctx) {
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = sim_self.top ? (CUcontext)sim_self.stack[sim_self.top - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
    struct sim_ctx *c;
    SIM_TRY(sim_ctx_or_current(ctx, &c));
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = c->device->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice(CUdevice *device) { return sim_cuCtxGetDevice_v2(device, NULL); }

CUresult sim_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId) {
    struct sim_ctx *c;
    SIM_TRY(sim_ctx_or_current(ctx, &c));
    if (!ctxId)
        return CUDA_ERROR_INVALID_VALUE;
    *ctxId = c->id;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version) {
    struct sim_ctx *c;
    SIM_TRY(sim_ctx_or_current(ctx, &c));
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSynchronize_v2(CUcontext ctx) {
    struct sim_ctx *c;
    SIM_TRY(sim_ctx_or_current(ctx, &c));
    SIM_TRY(sim_capture_in_ctx(c));
    SIM_UNSAFE();
    sim_finish_ctx(c);
    return c->sticky;
}

CUresult sim_cuCtxSynchronize(void) { return sim_cuCtxSynchronize_v2(NULL); }

CUresult sim_cuCtxSetLimit(CUlimit limit, size_t value) {
    struct sim_ctx *c;
    SIM_TRY(sim_need_ctx(&c));
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    c->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetLimit(size_t *pvalue, CUlimit limit) {
    struct sim_ctx *c;
    SIM_TRY(sim_need_ctx(&c));
    if (!pvalue)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *pvalue = c->limits[limit];
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCacheConfig(CUfunc_cache *pconfig) {
    struct sim_ctx *c;
    SIM_TRY(sim_need_ctx(&c));
    *pconfig = c->cache;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCacheConfig(CUfunc_cache config) {
    struct sim_ctx *c;
    SIM_TRY(sim_need_ctx(&c));
    c->cache = config;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetSharedMemConfig(CUsharedconfig *pConfig) {
    *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetSharedMemConfig(CUsharedconfig config) { return CUDA_SUCCESS; }

CUresult sim_cuCtxResetPersistingL2Cache(void) { return CUDA_SUCCESS; }

CUresult sim_cuCtxGetFlags(unsigned int *flags) {
    struct sim_ctx *c;
    SIM_TRY(sim_need_ctx(&c));
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = c->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetFlags(unsigned int flags) {
    struct sim_ctx *c;
    SIM_TRY(sim_need_ctx(&c));
    c->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
    struct sim_ctx *c;
    SIM_TRY(sim_need_ctx(&c));
    SIM_TRY(c->sticky);
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
    struct sim_ctx *c, *peer = (struct sim_ctx *)peerContext;
    SIM_TRY(sim_need_ctx(&c));
    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ctx_valid(peerContext))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (peer->device == c->device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!sim_can_reach(c->device, peer->device))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (c->peers >> peer->device->ordinal & 1)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    c->peers |= 1u << peer->device->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext peerContext) {
    struct sim_ctx *c, *peer = (struct sim_ctx *)peerContext;
    SIM_TRY(sim_need_ctx(&c));
    if (!sim_ctx_valid(peerContext))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!(c->peers >> peer->device->ordinal & 1))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    c->peers &= ~(1u << peer->device->ordinal);
    return CUDA_SUCCESS;
}

/* ---- primary contexts ---- */

static void activate(struct sim_device *d) {
    if (!d->primary)
        d->primary = calloc(1, sizeof *d->primary);
    set_up(d->primary, d, d->primary_flags);
    d->primary->primary = true;
}

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!d->primary || !d->primary->magic)
        activate(d);
    d->primary_refs++;
    *pctx = (CUcontext)d->primary;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    if (d->primary_refs == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--d->primary_refs == 0)
        sim_ctx_kill(d->primary, true);
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    if (d->primary && d->primary->magic)
        sim_ctx_kill(d->primary, true);
    if (d->primary_refs > 0)
        activate(d);
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    d->primary_flags = flags;
    if (d->primary && d->primary->magic)
        d->primary->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRelease(CUdevice dev) { return sim_cuDevicePrimaryCtxRelease_v2(dev); }
CUresult sim_cuDevicePrimaryCtxReset(CUdevice dev) { return sim_cuDevicePrimaryCtxReset_v2(dev); }
CUresult sim_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
    return sim_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    if (flags)
        *flags = d->primary_flags;
    if (active)
        *active = d->primary && d->primary->magic;
    return CUDA_SUCCESS;
}
