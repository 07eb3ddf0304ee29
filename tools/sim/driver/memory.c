/* Native, managed and pinned memory: allocation, free, ranges. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static CUresult alloc(CUdeviceptr *dptr, size_t size, int window, unsigned flags) {
    struct sim_ctx *ctx;
    struct sim_block *b;
    SIM_TRY(sim_need_ctx(&ctx));
    if (!dptr || size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    SIM_TRY(sim_native_alloc(ctx, size, window, &b));
    b->flags = flags;
    *dptr = b->addr;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) { return alloc(dptr, bytesize, 0, 0); }

CUresult sim_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                unsigned int ElementSizeBytes) {
    if (!pPitch || (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t pitch = SIM_ROUND(WidthInBytes, SIM_GRAIN), size;
    if (__builtin_mul_overflow(pitch, Height, &size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    SIM_TRY(alloc(dptr, size, 0, 0));
    *pPitch = pitch;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return alloc(dptr, bytesize, 1, flags);
}

/* cuMemFree waits for the work of the block's context (or, by option, of every context on its device) first. */
static void wait_before_free(struct sim_block *b) {
    if (!b->ctx) /* it is gone, and its work with it */
        return;
    if (sim_opt.free_locks) {
        struct sim_ctx *ctx = b->ctx;
        while (ctx->freeing)
            sim_wait_change();
        ctx->freeing = &sim_self;
        sim_finish_ctx(ctx);
        ctx->freeing = NULL;
        sim_notify();
        return;
    }
    if (!sim_opt.free_waits_for_device) {
        sim_finish_ctx(b->ctx);
        return;
    }
    for (struct sim_ctx *c = sim_contexts; c; c = c->next) {
        if (c->device == b->device)
            sim_finish_ctx(c);
    }
}

CUresult sim_cuMemFree_v2(CUdeviceptr dptr) {
    struct sim_ctx *ctx;
    if (dptr == 0)
        return CUDA_SUCCESS;
    SIM_TRY(sim_need_ctx(&ctx));
    struct sim_block *b = sim_block_at(dptr);
    if (!b || b->addr != dptr || b->free_submitted || b->state == STATE_FREED)
        return CUDA_ERROR_INVALID_VALUE;
    if (b->kind != KIND_NATIVE && b->kind != KIND_MANAGED && b->kind != KIND_POOL)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    b->refs++;
    wait_before_free(b);
    CUresult sticky = b->ctx ? b->ctx->sticky : CUDA_SUCCESS;
    bool ours = b->state != STATE_FREED && !b->free_submitted;
    if (ours && b->kind == KIND_POOL)
        sim_pool_free_now(b);
    else if (ours)
        sim_native_free(b);
    sim_block_unref(b);
    return ours ? sticky : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemGetInfo_v2(size_t *free, size_t *total) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    if (free)
        *free = sim_free_bytes(ctx->device);
    if (total)
        *total = sim_opt.memory;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    struct sim_block *b = sim_block_at(dptr);
    bool found = b && b->state != STATE_FREED && !b->free_submitted;
    uintptr_t start = 0;
    size_t size = 0;
    if (found)
        sim_block_range(b, &start, &size);
    if (pbase)
        *pbase = start;
    if (psize)
        *psize = size;
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ---- pinned host memory ---- */

CUresult sim_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    if (!pp || bytesize == 0 || (Flags & ~7u))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    size_t mapped = SIM_ROUND(bytesize, 4096);
    void *p = bytesize > ((size_t)1 << 40)
                  ? MAP_FAILED
                  : mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_block *b = sim_block_new((uintptr_t)p, bytesize, KIND_HOST, ctx->device);
    b->ctx = ctx;
    b->flags = Flags | CU_MEMHOSTALLOC_DEVICEMAP;
    b->reserved = mapped;
    *pp = p;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocHost_v2(void **pp, size_t bytesize) { return sim_cuMemHostAlloc(pp, bytesize, 0); }

CUresult sim_cuMemFreeHost(void *p) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    struct sim_block *b = sim_block_at((uintptr_t)p);
    if (!b || b->addr != (uintptr_t)p || b->kind != KIND_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    b->refs++;
    sim_finish_ctx(ctx);
    size_t mapped = b->reserved;
    bool ours = b->state == STATE_LIVE;
    if (ours) {
        sim_block_gone(b);
        munmap(p, mapped);
    }
    sim_block_unref(b);
    return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    if (!p || bytesize == 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    if (sim_block_overlap((uintptr_t)p, bytesize))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    struct sim_block *b = sim_block_new((uintptr_t)p, bytesize, KIND_REGISTERED, ctx->device);
    b->ctx = ctx;
    b->flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags) {
    return sim_cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult sim_cuMemHostUnregister(void *p) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    struct sim_block *b = sim_block_at((uintptr_t)p);
    if (!b || b->addr != (uintptr_t)p || b->kind != KIND_REGISTERED)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    SIM_UNSAFE();
    sim_finish_ctx(ctx);
    sim_block_gone(b);
    return CUDA_SUCCESS;
}

static CUresult host_block(void *p, struct sim_block **out) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    struct sim_block *b = sim_block_at((uintptr_t)p);
    if (!b || (b->kind != KIND_HOST && b->kind != KIND_REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    *out = b;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags) {
    struct sim_block *b;
    SIM_TRY(host_block(p, &b));
    if (!pdptr || Flags)
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetFlags(unsigned int *pFlags, void *p) {
    struct sim_block *b;
    SIM_TRY(host_block(p, &b));
    if (!pFlags)
        return CUDA_ERROR_INVALID_VALUE;
    *pFlags = b->flags;
    return CUDA_SUCCESS;
}
