/* CUDA arrays and mipmapped arrays. */
#include "sim_array.h"
#include <stdlib.h>
#include <string.h>

#define ARRAY_MAGIC 0x41525931u
#define MAX_LEVELS  32

struct CUmipmappedArray_st {
    unsigned levels;
    struct sim_block *block;
    CUarray level[MAX_LEVELS];
    size_t bytes;
};

bool sim_array_valid(CUarray a) { return a && a->magic == ARRAY_MAGIC; }

static size_t element_size(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    size_t size = 0;
    switch (d->Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: size = 1; break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: size = 2; break;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: size = 4; break;
    default: break;
    }
    bool channels = d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4;
    return channels ? size * d->NumChannels : 0;
}

static CUresult shape(const CUDA_ARRAY3D_DESCRIPTOR *d, CUarray a) {
    size_t element = element_size(d);
    if (!element || !d->Width)
        return CUDA_ERROR_INVALID_VALUE;
    size_t height = d->Height ? d->Height : 1, depth = d->Depth ? d->Depth : 1;
    a->magic = ARRAY_MAGIC;
    a->desc = *d;
    a->pitch = d->Height ? SIM_ROUND(d->Width * element, 32) : d->Width * element;
    a->slice = a->pitch * height;
    a->bytes = a->slice * depth;
    return CUDA_SUCCESS;
}

CUresult sim_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *desc) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    if (!pHandle || !desc)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    CUarray a = calloc(1, sizeof *a);
    CUresult r = shape(desc, a);
    if (r == CUDA_SUCCESS)
        r = sim_native_alloc(ctx, a->bytes, 0, &a->block);
    if (r != CUDA_SUCCESS) {
        free(a);
        return r;
    }
    a->addr = a->block->addr;
    *pHandle = a;
    return CUDA_SUCCESS;
}

CUresult sim_cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *d) {
    if (!d)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR full = {
        .Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
    return sim_cuArray3DCreate_v2(pHandle, &full);
}

CUresult sim_cuArrayDestroy(CUarray a) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    if (!sim_array_valid(a) || a->level)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_finish_ctx(ctx);
    sim_native_free(a->block);
    a->magic = 0;
    free(a);
    return CUDA_SUCCESS;
}

CUresult sim_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray a) {
    if (!out || !sim_array_valid(a))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = a->desc;
    return CUDA_SUCCESS;
}

CUresult sim_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *out, CUarray a) {
    if (!out || !sim_array_valid(a))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (CUDA_ARRAY_DESCRIPTOR){a->desc.Width, a->desc.Height, a->desc.Format, a->desc.NumChannels};
    return CUDA_SUCCESS;
}

CUresult sim_cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray a, CUdevice device) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(device, &d));
    if (!out || !sim_array_valid(a))
        return CUDA_ERROR_INVALID_VALUE;
    memset(out, 0, sizeof *out);
    out->size = SIM_ROUND(a->bytes, SIM_GRAIN);
    out->alignment = SIM_GRAIN;
    return CUDA_SUCCESS;
}

static size_t halved(size_t n, unsigned level) { return n == 0 ? 0 : (n >> level) ? n >> level : 1; }

CUresult sim_cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *desc,
                                    unsigned int numMipmapLevels) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    if (!pHandle || !desc || !element_size(desc) || numMipmapLevels == 0 || numMipmapLevels > MAX_LEVELS)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    CUmipmappedArray m = calloc(1, sizeof *m);
    m->levels = numMipmapLevels;
    for (unsigned i = 0; i < numMipmapLevels; i++) {
        CUDA_ARRAY3D_DESCRIPTOR d = *desc;
        d.Width = halved(d.Width, i);
        d.Height = halved(d.Height, i);
        d.Depth = halved(d.Depth, i);
        m->level[i] = calloc(1, sizeof *m->level[i]);
        shape(&d, m->level[i]);
        m->level[i]->level = true;
        m->level[i]->addr = m->bytes;
        m->bytes += SIM_ROUND(m->level[i]->bytes, SIM_GRAIN);
    }
    CUresult r = sim_native_alloc(ctx, m->bytes, 0, &m->block);
    for (unsigned i = 0; i < numMipmapLevels; i++) {
        if (r == CUDA_SUCCESS)
            m->level[i]->addr += m->block->addr;
        else
            free(m->level[i]);
    }
    if (r != CUDA_SUCCESS)
        free(m);
    else
        *pHandle = m;
    return r;
}

CUresult sim_cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray m, unsigned int level) {
    if (!pLevelArray || !m || level >= m->levels)
        return CUDA_ERROR_INVALID_VALUE;
    *pLevelArray = m->level[level];
    return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayDestroy(CUmipmappedArray m) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_finish_ctx(ctx);
    sim_native_free(m->block);
    for (unsigned i = 0; i < m->levels; i++) {
        m->level[i]->magic = 0;
        free(m->level[i]);
    }
    free(m);
    return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUmipmappedArray m,
                                                   CUdevice device) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(device, &d));
    if (!out || !m)
        return CUDA_ERROR_INVALID_VALUE;
    memset(out, 0, sizeof *out);
    out->size = m->bytes;
    out->alignment = SIM_GRAIN;
    return CUDA_SUCCESS;
}
