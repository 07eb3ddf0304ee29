/* Managed memory from a private pool of the driver, CUDA 13: no wait at the free, at the price of device-wide requirements
 * (field guide, trap 18). */
#include "shim/resource/ledger.h"
#include "shim/resource/managed.h"
#include "shim/resource/pool.h"
#include "shim/resource/rows.h"

#define NEEDED_DRIVER 13000

static gm_status all_devices_concurrent(int *count) {
    gm_status status = (gm_status)gm_drv.device_get_count(count);
    for (int device = 0; !status && device < *count; device++) {
        int concurrent = 0;
        status = (gm_status)gm_drv.device_get_attribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device);
        if (!status && !concurrent)
            status = GM_NOT_SUPPORTED;
    }
    return status;
}

static gm_status describe(int device, CUmemPoolProps *props) {
    int version = 0, count = 0, has_pools = 0;
    gm_status status = (gm_status)gm_drv.driver_get_version(&version);
    if (!status && version < NEEDED_DRIVER)
        status = GM_NOT_SUPPORTED;
    if (!status)
        status = (gm_status)gm_drv.device_get_attribute(&has_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);
    if (!status && !has_pools)
        status = GM_NOT_SUPPORTED;
    if (!status)
        status = all_devices_concurrent(&count);
    /* As cudaMallocManaged: no preferred place. */
    props->allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
    props->handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    props->location = (CUmemLocation){CU_MEM_LOCATION_TYPE_NONE, 0};
    return status;
}

/* Managed memory is for every device, whether peer access was enabled or not. */
static uint64_t reach(int device) {
    int count = 0;
    if (gm_drv.device_get_count(&count) != CUDA_SUCCESS || count <= 0)
        return 1ull << device;
    return count >= 64 ? UINT64_MAX : (1ull << count) - 1;
}

static struct gm_pool_family family = {.name = "managed-pool", .describe = describe, .reach = reach};
static struct gm_ledger alive; /* bytes of blocks that are with the program, by context */

uint64_t gm_managed_pool_excess(void) {
    uint64_t reserved = gm_pool_reserved(&family), used = gm_ledger_total(&alive);
    return reserved > used ? reserved - used : 0;
}

void gm_managed_pool_give_back(void) { gm_pool_trim(&family, SIZE_MAX); }

static gm_status managed_pool_alloc(struct gm_resource *self, const struct gm_request *request, struct gm_block *block) {
    struct gm_piece piece;
    if (!gm_pool_serves(request) || !request->context_id)
        return GM_NOT_SUPPORTED;
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    bool pushed;
    gm_status status = gm_lane_enter((CUcontext)(uintptr_t)request->context, &pushed);
    if (status)
        return status;
    status = gm_managed_charge(request->context_id, request->device, request->size);
    gm_lane_leave(pushed);
    if (status)
        return status;
    status = gm_pool_alloc(&family, request, &piece);
    if (status) {
        gm_managed_discharge(request->context_id, request->size);
        return status;
    }
    /* Rows padded by the pitch: known only now, and covered by the headroom. */
    if (piece.reserved > request->size)
        gm_managed_note_more(request->context_id, piece.reserved - request->size);
    gm_ledger_add(&alive, request->context_id, piece.reserved, UINT64_MAX);
    gm_block_fill(block, self, request, &piece);
    return GM_OK;
}

static gm_status managed_pool_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    gm_status status = gm_pool_free(&family, block, how);
    if (!status) {
        gm_ledger_subtract(&alive, block->context_id, block->reserved);
        gm_managed_retain(block->context_id, block->reserved);
    }
    return status;
}
