/* Resource "async": device memory from a private stream-ordered pool instead of cuMemAlloc. It states the properties of
 * the pool; pool.c does the work. */
#include "shim/resource/pitch.h"
#include "shim/resource/pool.h"
#include "shim/resource/rows.h"

static gm_status describe_pool(int device, CUmemPoolProps *props) {
    int has_pools = 0;
    gm_status status =
        (gm_status)gm_drv.device_get_attribute(&has_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);
    if (status)
        return status;
    props->allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props->handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    props->location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device};
    return has_pools ? GM_OK : GM_NOT_SUPPORTED;
}

static struct gm_pool_family family = {.name = "async", .kind = GM_KIND_ASYNC, .describe = describe_pool};
GM_POOLS_IN_CHILD(family);

static gm_status async_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    struct gm_piece piece;
    if (!gm_pool_serves(request))
        return GM_NOT_SUPPORTED;
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    gm_status status = gm_shape_of(request, &piece);
    if (!status)
        status = gm_pool_alloc(&family, request, &piece);
    if (!status)
        gm_block_fill(block, self, request, &piece);
    return status;
}

const struct gm_resource_ops gm_resource_async = {
    .name = "async",
    .summary = "device memory from a private stream-ordered pool; allocation and free do not wait for the GPU",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_RESIDENT | GM_PROP_DEVICE_STORAGE | GM_PROP_READY_ANYWHERE |
                  GM_PROP_STREAM_ORDERED | GM_PROP_PEER | GM_PROP_OUTLIVES_CONTEXT,
    .breaks =
        "no cuIpcGetMemHandle, no dma-buf and no GPUDirect RDMA registration; open to every device that has a context, "
        "peer access or not; not served where devices cannot access each other; BUFFER_ID is that of the pool's block; "
        "freed memory stays reserved for this process until trimmed or until the program queries free memory",
    .kind = GM_KIND_ASYNC,
    .serves = "cache(async)",
    .pool = &family,
    .alloc = async_alloc,
    .free = gm_pool_free,
    .trim = gm_pool_trim,
    .lend = gm_pool_lend,
    .releasable = gm_pool_releasable,
    .held = gm_pool_held,
    .keeps = gm_pool_keeps,
    .capture = gm_pool_capture,
    .open_to = gm_pool_open_to,
};
