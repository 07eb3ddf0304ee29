/* Resource "managed-pool": managed memory from a private pool of the driver. A free does not wait. It needs driver 13.0
 * and concurrent managed access on all devices. Each block is charged to the managed quota (managed_quota.h), and so
 * are the bytes that the pool holds beyond its blocks. */
#include "shim/resource/managed_advice.h"
#include "shim/resource/byte_counters.h"
#include "shim/resource/managed_quota.h"
#include "shim/resource/pitch.h"
#include "shim/resource/pool.h"
#include "shim/resource/rows.h"

#define NEEDED_DRIVER 13000

static gm_status all_devices_concurrent(int *count) {
    gm_status status = gm_drv.device_get_count(count);
    for (int device = 0; !status && device < *count; device++) {
        int concurrent = 0;
        status =
            (gm_status)gm_drv.device_get_attribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device);
        if (!status && !concurrent)
            status = GM_NOT_SUPPORTED;
    }
    return status;
}

static gm_status describe_pool(int device, CUmemPoolProps *props) {
    int version = 0, count = 0, has_pools = 0;
    gm_status status = gm_managed_advice_can_undo() ? (gm_status)gm_drv.driver_get_version(&version) : GM_NOT_SUPPORTED;
    if (!status && version < NEEDED_DRIVER)
        status = GM_NOT_SUPPORTED;
    if (!status)
        status = gm_drv.device_get_attribute(&has_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);
    if (!status && !has_pools)
        status = GM_NOT_SUPPORTED;
    if (!status)
        status = all_devices_concurrent(&count);
    /* No preferred location, as with cudaMallocManaged. */
    props->allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
    props->handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    props->location = (CUmemLocation){CU_MEM_LOCATION_TYPE_NONE, 0};
    return status;
}

/* Every device may use managed memory, with or without peer access. */
static uint64_t reach(int device) {
    int count = 0;
    if (gm_drv.device_get_count(&count) != CUDA_SUCCESS || count <= 0)
        return 1ull << device;
    return count >= 64 ? UINT64_MAX : (1ull << count) - 1;
}

static struct gm_pool_family family = {.name = "managed-pool",
                                       .kind = GM_KIND_MANAGED_POOL,
                                       .describe = describe_pool,
                                       .reach = reach,
                                       .served = gm_managed_advice_prefetch};
GM_POOLS_IN_CHILD(family);
static struct gm_byte_counters alive; /* live bytes by context */
GM_ZERO_IN_CHILD(alive.lock);

/* Bytes that the pools hold beyond live blocks. */
static uint64_t excess(void) {
    uint64_t reserved = gm_pool_reserved(&family), used = gm_byte_counters_total(&alive);
    return reserved > used ? reserved - used : 0;
}

static void release_pool(void) { gm_pool_release(&family, SIZE_MAX); }

static gm_status alloc_charged(const struct gm_request *request, struct gm_piece *piece) {
    gm_status status = gm_shape_of(request, piece);
    if (!status)
        status = gm_managed_charge(request->context_id, request->device, piece->reserved);
    if (status)
        return status;
    status = gm_pool_alloc(&family, request, piece);
    if (status)
        gm_managed_discharge(request->context_id, piece->reserved);
    else
        gm_byte_counters_add(&alive, request->context_id, piece->reserved, UINT64_MAX);
    return status;
}

static gm_status managed_pool_alloc(struct gm_resource *self, const struct gm_request *request,
                                    const struct gm_decision *decision, struct gm_block *block) {
    struct gm_piece piece;
    if (!gm_pool_serves(request) || !request->context_id)
        return GM_NOT_SUPPORTED;
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    gm_status status = alloc_charged(request, &piece);
    if (!status)
        gm_block_fill(block, self, request, &piece);
    return status;
}

static gm_status managed_pool_free(struct gm_resource *self, const struct gm_block *block,
                                   const struct gm_free_request *how) {
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    /* The memory stays mapped after the free, and so does the advice of the program. */
    gm_status status = GM_UNLIKELY(block->pinned_native) ? gm_managed_advice_undo(block) : GM_OK;
    if (status)
        return status;
    if (how->call == GM_CALL_FREE_ASYNC)
        gm_managed_advice_settle(block);
    status = gm_pool_free(self, block, how);
    if (!status) {
        gm_byte_counters_subtract(&alive, block->context_id, block->reserved);
        gm_managed_retain(block->context_id, block->reserved);
    }
    return status;
}

static size_t managed_pool_releasable(struct gm_resource *self, int device) {
    gm_pool_releasable(self, device);
    return 0;
}

/* The pool belongs to the device, so it stays, and so do the blocks that wait. */
static void managed_pool_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    gm_byte_counters_forget(&alive, context_id);
    gm_managed_forget(context_id);
}

static gm_status managed_pool_open(struct gm_resource *self, const char *argument, char *error, size_t error_size) {
    static struct gm_managed_maker maker = {.excess = excess, .release = release_pool};
    gm_managed_quota_add(&maker);
    return GM_OK;
}

const struct gm_resource_ops gm_resource_managed_pool = {
    .name = "managed-pool",
    .summary = "managed memory from a private pool (driver 13.0, concurrent managed access on all devices); a free "
               "does not wait",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_HOST_ACCESSIBLE | GM_PROP_READY_ANYWHERE |
                  GM_PROP_STREAM_ORDERED | GM_PROP_PEER | GM_PROP_OVERSUBSCRIBABLE | GM_PROP_HOST_STORAGE |
                  GM_PROP_DEVICE_STORAGE | GM_PROP_OUTLIVES_CONTEXT,
    .breaks =
        "no cuIpcGetMemHandle, no dma-buf and no GPUDirect RDMA registration; IS_MANAGED is true and pages migrate; no "
        "attach flags and no cuStreamAttachMemAsync; freed memory stays reserved for this process until trimmed or "
        "until the program queries free memory",
    .kind = GM_KIND_MANAGED_POOL,
    .serves = "cache(managed-pool)",
    .fallback = GM_KIND_MANAGED,
    .pool = &family,
    .open = managed_pool_open,
    .alloc = managed_pool_alloc,
    .free = managed_pool_free,
    .trim = gm_pool_trim,
    .releasable = managed_pool_releasable,
    .held = gm_pool_held,
    .keeps = gm_pool_keeps,
    .context_destroyed = managed_pool_context_destroyed,
    .capture = gm_pool_capture,
};
