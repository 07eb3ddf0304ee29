/* Hooks of cuMemAdvise and cuMemPrefetch. Advice stays with the memory after the program freed the block, so the
 * memory of an advised block must not be reused for another block: its free is native. */
#include "shim/resource/registry.h"
#include "shim/hook/hook.h"

/* Marks the block that starts at `base` when it contains the whole range. False: there is no such block. */
static bool pinned_whole(struct gm_registry *registry, CUdeviceptr base, CUdeviceptr address, size_t size) {
    struct gm_block block;
    if (!gm_registry_find(registry, base, &block) || address - block.address >= block.reserved ||
        size > block.reserved - (address - block.address))
        return false;
    gm_registry_mark(registry, base);
    return true;
}

struct marked_range {
    struct gm_registry *registry;
    CUdeviceptr address;
    size_t size;
};

static void pin_touched(const struct gm_block *block, void *arg) {
    const struct marked_range *range = arg;
    if (block->owner && block->address < range->address + range->size &&
        range->address < block->address + block->reserved)
        gm_registry_mark(range->registry, block->address);
}

/* Marks all blocks of a range. The start of the memory in the driver's view may be the start of a pool, and a range
 * may cover several blocks. */
static void pin_range(CUdeviceptr address, size_t size) {
    struct gm_registry *registry = gm_registry_shared();
    struct marked_range range = {registry, address, size};
    CUdeviceptr base;
    if (!registry || pinned_whole(registry, address, address, size))
        return;
    if (gm_real.cuMemGetAddressRange_v2 && gm_real.cuMemGetAddressRange_v2(&base, NULL, address) == CUDA_SUCCESS &&
        pinned_whole(registry, base, address, size))
        return;
    gm_registry_each(registry, pin_touched, &range);
}

void gm_hook_pin(CUdeviceptr address) { pin_range(address, 1); }

static CUresult advised(CUdeviceptr address, size_t size, CUresult result) {
    if (result == CUDA_SUCCESS)
        pin_range(address, size);
    return result;
}

/* Advice about freed memory would stay with the block that reuses the memory. */
#define ADVISED(call)        advised(address, size, gm_hook_is_freed(address) ? CUDA_ERROR_INVALID_VALUE : WITH_TRIM(call))
#define ADVISES(symbol, ...) PASSES(symbol, __VA_ARGS__, NOTHING, ADVISED)
ADVISES(cuMemAdvise, (CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device),
        (address, size, advice, device))
ADVISES(cuMemAdvise_v2, (CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location),
        (address, size, advice, location))

#define PREFETCHES(symbol)                                                                \
    ADVISES(symbol, (CUdeviceptr address, size_t size, CUdevice device, CUstream stream), \
            (address, size, device, stream))
PREFETCHES(cuMemPrefetchAsync)
PREFETCHES(cuMemPrefetchAsync_ptsz)

#define PREFETCHES_V2(symbol)                                                                                    \
    ADVISES(symbol, (CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags, CUstream stream), \
            (address, size, location, flags, stream))
PREFETCHES_V2(cuMemPrefetchAsync_v2)
PREFETCHES_V2(cuMemPrefetchAsync_v2_ptsz)
