/* Resource "split": blocks that the device cannot hold as a whole. The first part lies in its memory: as much as it has
 * free, less a headroom. The rest lies in host memory, as a block of "host-numa" does and within the same bound. Both
 * are mapped side by side, so that the program sees one range of addresses.
 *
 * A device without free memory serves no block here: it would be host memory, which "host-numa" reuses. Unmapping does
 * not wait for the GPU, so a free first waits for all work submitted before it. */
#include "shim/accounts/limit.h"
#include "shim/resource/block.h"
#include "shim/resource/deferred_free.h"
#include "shim/resource/host_numa.h"
#include "shim/driver/transports.h"
#include "shim/resource/rows.h"
#include "shim/resource/vmm.h"

struct parts {
    struct gm_location host;
    size_t bytes, on_device; /* of both parts; of the first one */
};

/* ---- one block */

static gm_status map_device_part(int device, CUdeviceptr address, size_t bytes) {
    const struct gm_location location = {.device = device, .node = -1};
    struct gm_extent extent;
    gm_status status = gm_extent_create(&gm_drv, &location, bytes, &extent);
    if (status)
        return status;
    status = gm_vmm_map(device, address, &extent, 1);
    gm_extents_release(&gm_drv, &extent, 1); /* from here on the mapping alone holds the memory */
    return status;
}

static gm_status split_create(const struct parts *parts, CUdeviceptr *created) {
    const struct gm_extent first = {.size = parts->on_device};
    size_t rest = parts->bytes - parts->on_device;
    CUdeviceptr address;
    gm_status status = gm_addresses_reserve(&gm_drv, parts->bytes, 0, &address);
    if (status)
        return status;
    status = map_device_part(parts->host.device, address, parts->on_device);
    if (status)
        goto unreserve;
    status = rest ? gm_host_numa_map(&parts->host, address + parts->on_device, rest) : GM_OK;
    if (status)
        goto unmap;
    *created = address;
    return GM_OK;

unmap:
    (void)gm_extents_unmap(&gm_drv, address, &first, 1);
unreserve:
    gm_addresses_free(&gm_drv, address, parts->bytes);
    return status;
}

static gm_status split_free_now(const struct gm_deferred_block *deferred) {
    gm_status status = gm_drv.mem_unmap(deferred->address, deferred->size);
    if (status)
        return status;
    gm_addresses_free(&gm_drv, deferred->address, deferred->size);
    gm_host_numa_give(deferred->size - deferred->on_device);
    return GM_OK;
}

static struct gm_deferred_free deferred_frees = {.free_now = split_free_now};
GM_ZERO_IN_CHILD(deferred_frees.pending);

/* ---- requests */

/* Both parts are whole granules of both kinds of memory; granularities are powers of two. */
static gm_status shape(const struct gm_request *request, struct parts *parts) {
    size_t granularity, unused = 0, total = 0;
    gm_status status = gm_vmm_prepare(request, &granularity);
    if (!status)
        status = gm_host_numa_find(request->device, &parts->host);
    if (status)
        return status;
    if (granularity < parts->host.granularity)
        granularity = parts->host.granularity;
    if (__builtin_add_overflow(request->size, granularity - 1, &parts->bytes))
        return GM_OUT_OF_MEMORY;
    parts->bytes -= parts->bytes % granularity;
    if (!gm_drv.mem_get_info || (status = gm_drv.mem_get_info(&unused, &total)) != GM_OK)
        return status ? status : GM_NOT_SUPPORTED;
    size_t headroom = gm_device_headroom(total), spare = unused > headroom ? unused - headroom : 0;
    parts->on_device = spare < parts->bytes ? spare - spare % granularity : parts->bytes;
    return parts->on_device ? GM_OK : GM_OUT_OF_MEMORY;
}

static gm_status create_charged(const struct parts *parts, CUdeviceptr *address) {
    CUstreamCaptureMode mode;
    uint64_t room;
    size_t rest = parts->bytes - parts->on_device;
    gm_status status = gm_host_numa_charge(parts->host.node, rest, &room);
    if (status && gm_deferred_free_drain(&deferred_frees)) /* which returns host memory */
        status = gm_host_numa_charge(parts->host.node, rest, &room);
    if (status) {
        gm_log(GM_LOG_INFO, "host memory refused for the rest of a block: %zu bytes requested, %llu may be taken", rest,
               (unsigned long long)room);
        return status;
    }
    status = GM_NOT_SUPPORTED;
    if (gm_capture_guard_enter(&mode)) {
        status = split_create(parts, address);
        gm_capture_guard_leave(mode);
    }
    gm_host_numa_settle(rest, !status);
    return status;
}

static gm_status split_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    struct parts parts;
    CUdeviceptr address;
    if (request->call != GM_CALL_ALLOC || !gm_request_is_uncaptured(request) || gm_transport_in_process())
        return GM_NOT_SUPPORTED;
    if (gm_driver_ready(true))
        gm_deferred_free_flush(&deferred_frees);
    gm_status status = shape(request, &parts);
    if (!status)
        status = create_charged(&parts, &address);
    if (status)
        return status;
    gm_block_fill(block, self, request, &(struct gm_piece){.address = address, .reserved = parts.bytes});
    block->on_device = parts.on_device;
    return GM_OK;
}

/* ---- the other ops */

static size_t split_trim(struct gm_resource *self, size_t bytes) {
    return gm_driver_ready(false) ? gm_deferred_free_drain(&deferred_frees) : 0;
}

/* No work can use the block any more. Errors are ignored: a reset may have unmapped it already. */
static void split_abandon(struct gm_resource *self, const struct gm_block *block) {
    gm_drv.mem_unmap(block->address, block->reserved);
    gm_drv.mem_address_free(block->address, block->reserved);
    gm_host_numa_give(block->reserved - block->on_device);
}

static void split_open_block_to(struct gm_resource *self, const struct gm_block *block, int device) {
    if (device < 0 || device >= GM_LOCATION_DEVICES ||
        gm_mapping_open_to(&gm_drv, block->address, block->reserved, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
        gm_log(GM_LOG_WARN, "device %d cannot reach a block that is split between device %d and the host", device,
               block->device);
}

const struct gm_resource_ops gm_resource_split = {
    .name = "split",
    .summary = "device memory as far as the device has it free, and host memory for the rest, behind one range",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_RESIDENT | GM_PROP_DEVICE_STORAGE | GM_PROP_HOST_STORAGE |
                  GM_PROP_READY_ANYWHERE | GM_PROP_PEER | GM_PROP_OUTLIVES_CONTEXT,
    .breaks = "every access to the rest of a block crosses the bus and nothing migrates; no cuIpcGetMemHandle, no "
              "dma-buf and no GPUDirect RDMA registration; not served where devices cannot access each other; pointer "
              "attributes differ between the parts; each block takes whole granules of 2 MiB; none while a stream "
              "captures; a free waits for the GPU",
    .kind = GM_KIND_SPLIT,
    .granule = (size_t)2 << 20,
    .serves = "split",
    .deferred = &deferred_frees,
    .alloc = split_alloc,
    .free = gm_deferred_free,
    .trim = split_trim,
    .context_destroyed = gm_deferred_context_destroyed,
    .abandon = split_abandon,
    .capture = gm_deferred_capture_flush,
    .open_block_to = split_open_block_to,
};
