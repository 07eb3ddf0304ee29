/* Queries about addresses (size, start, attributes) where the driver's answer would differ from the native one: free
 * blocks are still allocated in the driver's view, and blocks may be larger than requested, consist of several
 * mappings, or lie in one pool. gpumem answers as natively: for the requested bytes only, and with an error for
 * freed memory.
 *
 * A query for a block's start costs one look-up. For other addresses gpumem asks the driver where their memory
 * starts, but only after there was a block of such a kind. Copies, fills and kernels that access freed memory are
 * not detected. */
#include "shim/driver/transports.h"
#include "shim/resource/registry.h"
#include "shim/resource/suspendable_at.h"
#include "shim/hook/hook.h"

/* Whether there ever was a block of a kind with one of these traits. */
static inline bool was_used(unsigned traits) {
    uint64_t bytes = 0;
#pragma GCC unroll 16
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        bytes |= gm_kind_traits((enum gm_kind)kind) & traits
                     ? __atomic_load_n(&gm_stats->peak_bytes[kind], __ATOMIC_RELAXED)
                     : 0;
    return bytes;
}

static enum gm_known known_of(const struct gm_block *block) {
    bool native = !block->owner || block->call != GM_CALL_ALLOC || gm_kind_traits(block->kind) & GM_TRAIT_OWN_RANGE;
    return native ? GM_KNOWN_TO_DRIVER : GM_KNOWN_BLOCK;
}

static bool has_many_starts(CUdeviceptr address) {
    return was_used(GM_TRAIT_POOLED | GM_TRAIT_MAPPED) || gm_suspendable_covers(address);
}

/* For addresses at which no live block starts. */
static GM_APART enum gm_known look_inside(struct gm_registry *registry, CUdeviceptr address, struct gm_block *block) {
    CUdeviceptr start;
    if (gm_drv.pointer_get_attribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) != CUDA_SUCCESS)
        return GM_KNOWN_TO_DRIVER; /* the driver reports that there is nothing */
    if (start != address && gm_registry_find(registry, start, block) && address - start < block->reserved)
        return address - start < block->size ? known_of(block) : known_of(block) ? GM_KNOWN_FREED : GM_KNOWN_TO_DRIVER;
    if (has_many_starts(address) && gm_registry_find_range(registry, address, block))
        return known_of(block);
    if (gm_guard_covers(address)) /* beside a guarded block */
        return GM_KNOWN_FREED;
    if (!gm_pipeline_is_free(start) && (start == address || !gm_pipeline_is_free(address)))
        return GM_KNOWN_TO_DRIVER;
    return start != address && gm_registry_find_range(registry, address, block) ? known_of(block) : GM_KNOWN_FREED;
}

void gm_hook_needs(CUdeviceptr address) {
    if (GM_UNLIKELY(gm_submissions_are_closed()) && gm_suspendable_covers(address))
        gm_submission_begin_hook();
}

enum gm_known gm_hook_known(CUdeviceptr address, struct gm_block *block) {
    struct gm_registry *registry = gm_registry_shared();
    gm_rdma_in_process(); /* whoever registers memory asks about it first */
    gm_hook_needs(address);
    if (!registry || !was_used(GM_TRAIT_KEPT | GM_TRAIT_MAPPED))
        return GM_KNOWN_TO_DRIVER;
    return gm_registry_find(registry, address, block) ? known_of(block) : look_inside(registry, address, block);
}

bool gm_hook_is_freed(CUdeviceptr address) {
    struct gm_block block;
    return gm_hook_known(address, &block) == GM_KNOWN_FREED;
}
