/* What an address is: the answer of every pointer attribute for every kind of memory. */
#include "sim.h"
#include <string.h>

static bool on_host(const struct sim_block *b) {
    return b->kind == KIND_HOST || b->kind == KIND_REGISTERED || (b->kind == KIND_VMM && b->flags);
}

static bool managed(const struct sim_block *b) {
    return b->kind == KIND_MANAGED || (b->kind == KIND_POOL && b->host_access);
}

static bool host_reachable(const struct sim_block *b) {
    return b->kind == KIND_HOST || b->kind == KIND_REGISTERED || managed(b) || (b->kind == KIND_VMM && b->host_access);
}

static unsigned long long access_flags(const struct sim_block *b) {
    struct sim_ctx *ctx;
    if ((b->kind != KIND_VMM && b->kind != KIND_POOL) || sim_need_ctx(&ctx) != CUDA_SUCCESS)
        return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    return b->access >> ctx->device->ordinal & 1 ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                                 : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

/* The size of the value that an attribute writes. */
static size_t value_size(CUpointer_attribute attribute) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return 4;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return 1;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS: return 16;
    default: return 8;
    }
}

void sim_block_range(const struct sim_block *b, uintptr_t *start, size_t *size) {
    bool whole = b->kind == KIND_POOL && sim_opt.whole_segments;
    *start = whole ? sim_extent_va(sim_pool_extent(b)) : b->addr;
    *size = whole ? sim_pool_extent(b)->size : b->size;
}

static CUresult answer(const struct sim_block *b, CUpointer_attribute attribute, uintptr_t ptr, uint64_t *value) {
    uintptr_t start;
    size_t size;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        if (b->kind == KIND_VMM || b->kind == KIND_POOL)
            return CUDA_ERROR_INVALID_VALUE; /* such memory belongs to a device, to no context */
        *value = (uintptr_t)b->ctx;
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *value = on_host(b) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *value = ptr; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host_reachable(b))
            return CUDA_ERROR_INVALID_VALUE;
        *value = ptr;
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *value = b->sync_memops; break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: *value = b->id; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *value = managed(b); break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *value = (uint32_t)(b->device ? b->device->ordinal : 0); break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *value = b->kind == KIND_NATIVE; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        sim_block_range(b, &start, &size);
        *value = start;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        sim_block_range(b, &start, &size);
        *value = size;
        break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *value = 1; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *value = b->kind == KIND_VMM ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
        break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: *value = b->kind == KIND_NATIVE; break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *value = access_flags(b); break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *value = b->kind == KIND_POOL ? (uintptr_t)b->pool : 0; break;
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: *value = 0; break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS: return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static struct sim_block *live_at(CUdeviceptr ptr) {
    struct sim_block *b = sim_block_at(ptr);
    return b && b->state != STATE_FREED && !b->free_submitted ? b : NULL;
}

CUresult sim_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    struct sim_block *b = live_at(ptr);
    uint64_t value = 0;
    if (!data || !b)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(answer(b, attribute, ptr, &value));
    memcpy(data, &value, value_size(attribute));
    return CUDA_SUCCESS;
}

/* Unlike the single call this one succeeds for any address; what has no answer is zero. */
CUresult sim_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                    CUdeviceptr ptr) {
    struct sim_block *b = live_at(ptr);
    if (!attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numAttributes; i++) {
        uint64_t value[2] = {0};
        if (attributes[i] <= 0 || attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE || !data[i])
            return CUDA_ERROR_INVALID_VALUE;
        if (!b || answer(b, attributes[i], ptr, value) != CUDA_SUCCESS)
            value[0] = attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? (uint32_t)CU_DEVICE_INVALID : 0;
        memcpy(data[i], value, value_size(attributes[i]));
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr) {
    struct sim_block *b = live_at(ptr);
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !b || !sim_is_device(b))
        return CUDA_ERROR_INVALID_VALUE;
    if (b->kind == KIND_VMM)
        return CUDA_ERROR_NOT_SUPPORTED; /* driver 580 */
    b->sync_memops = *(const unsigned *)value != 0;
    return CUDA_SUCCESS;
}
