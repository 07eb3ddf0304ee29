/* Managed memory: advice and prefetch are remembered by page, not acted on. Pages of a pool keep what was advised when
 * a block on them is freed and another one gets them: they stay mapped. */
#include "sim.h"
#include <stdlib.h>

#define PAGE ((uintptr_t)4096)

/* Locations by number: 0 none, 1 the host, 2 + n device n. */
struct sim_advice {
    uint8_t read_mostly, preferred, prefetched;
    uint16_t accessed_by; /* bits of locations */
};

struct pages {
    struct sim_advice *first;
    size_t count;
};

static CUresult managed_at(CUdeviceptr p, size_t count, struct sim_block **out) {
    struct sim_block *b = sim_block_at(p);
    bool managed = b && (b->kind == KIND_MANAGED || (b->kind == KIND_POOL && b->host_access && !b->free_submitted));
    if (!managed || count == 0 || p + count > b->addr + b->size)
        return CUDA_ERROR_INVALID_VALUE;
    *out = b;
    return CUDA_SUCCESS;
}

/* The pages of a range; none where nothing was ever advised and `make` is false. */
static struct pages pages_of(struct sim_block *b, CUdeviceptr p, size_t count, bool make) {
    bool pooled = b->kind == KIND_POOL;
    struct sim_advice **table = pooled ? &sim_pool_extent(b)->advice : &b->advice;
    uintptr_t base = (pooled ? sim_extent_va(sim_pool_extent(b)) : b->addr) / PAGE * PAGE;
    uintptr_t end = pooled ? base + sim_pool_extent(b)->size : b->addr + b->size;
    if (!*table && make)
        *table = calloc((end - base + PAGE - 1) / PAGE, sizeof **table);
    if (!*table)
        return (struct pages){NULL, 0};
    size_t first = (p - base) / PAGE;
    return (struct pages){*table + first, (p + count - base + PAGE - 1) / PAGE - first};
}

static bool location_number(CUmemLocation l, uint8_t *number) {
    if (l.type == CU_MEM_LOCATION_TYPE_DEVICE && (l.id < 0 || l.id >= sim_opt.devices))
        return false;
    *number = l.type == CU_MEM_LOCATION_TYPE_DEVICE ? (uint8_t)(l.id + 2) : 1;
    return true;
}

CUresult sim_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
    struct sim_ctx *ctx;
    struct sim_block *b;
    uint8_t where;
    SIM_TRY(sim_need_ctx(&ctx));
    SIM_TRY(managed_at(devPtr, count, &b));
    if (!location_number(location, &where))
        return CUDA_ERROR_INVALID_DEVICE;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    if (b->kind == KIND_POOL && (advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY))
        return CUDA_ERROR_NOT_SUPPORTED; /* as driver 580 says of a managed pool's memory */
    struct pages pages = pages_of(b, devPtr, count, true);
    for (size_t i = 0; i < pages.count; i++) {
        struct sim_advice *page = &pages.first[i];
        if (advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY)
            page->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        else if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
            page->preferred = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ? where : 0;
        else if (advice == CU_MEM_ADVISE_SET_ACCESSED_BY)
            page->accessed_by |= (uint16_t)(1u << where);
        else
            page->accessed_by &= (uint16_t) ~(1u << where);
    }
    return CUDA_SUCCESS;
}

static CUmemLocation as_location(CUdevice device) {
    return (CUmemLocation){.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                           .id = device == CU_DEVICE_CPU ? 0 : device};
}

CUresult sim_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
    return sim_cuMemAdvise_v2(devPtr, count, advice, as_location(device));
}

CUresult sim_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                                   CUstream hStream) {
    struct sim_stream *s;
    struct sim_block *b;
    uint8_t where;
    SIM_TRY(sim_stream_get(hStream, &s));
    SIM_TRY(managed_at(devPtr, count, &b));
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!location_number(location, &where))
        return CUDA_ERROR_INVALID_DEVICE;
    struct pages pages = pages_of(b, devPtr, count, true);
    for (size_t i = 0; i < pages.count; i++)
        pages.first[i].prefetched = where;
    struct sim_op *op = sim_op_new(OP_EMPTY);
    sim_op_range(op, devPtr, count);
    return sim_submit(s, op);
}

CUresult sim_cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
    return sim_cuMemPrefetchAsync_v2(devPtr, count, as_location(dstDevice), 0, hStream);
}

/* What all pages of a range have in common: a location that differs is none. */
static struct sim_advice in_common(struct pages pages) {
    struct sim_advice common = {0};
    for (size_t i = 0; i < pages.count; i++) {
        const struct sim_advice *page = &pages.first[i];
        if (i == 0)
            common = *page;
        common.read_mostly &= page->read_mostly;
        common.accessed_by &= page->accessed_by;
        common.preferred = common.preferred == page->preferred ? common.preferred : 0;
        common.prefetched = common.prefetched == page->prefetched ? common.prefetched : 0;
    }
    return common;
}

static int device_of(uint8_t location) {
    return location == 0 ? CU_DEVICE_INVALID : location == 1 ? CU_DEVICE_CPU : location - 2;
}

static int type_of(uint8_t location) {
    return location == 0   ? CU_MEM_LOCATION_TYPE_INVALID
           : location == 1 ? CU_MEM_LOCATION_TYPE_HOST
                           : CU_MEM_LOCATION_TYPE_DEVICE;
}

CUresult sim_cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr,
                                    size_t count) {
    struct sim_block *b;
    int *out = data;
    SIM_TRY(managed_at(devPtr, count, &b));
    if (!data || dataSize < sizeof(int) || dataSize % sizeof(int))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_advice common = in_common(pages_of(b, devPtr, count, false));
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: *out = common.read_mostly; break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: *out = device_of(common.preferred); break;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        for (size_t i = 0, d = 1; i < dataSize / sizeof(int); i++) {
            while (d < 16 && !(common.accessed_by >> d & 1))
                d++;
            out[i] = d < 16 ? device_of((uint8_t)d++) : CU_DEVICE_INVALID;
        }
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: *out = device_of(common.prefetched); break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: *out = type_of(common.preferred); break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: *out = type_of(common.prefetched); break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                     size_t numAttributes, CUdeviceptr devPtr, size_t count) {
    for (size_t i = 0; i < numAttributes; i++)
        SIM_TRY(sim_cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count));
    return CUDA_SUCCESS;
}
