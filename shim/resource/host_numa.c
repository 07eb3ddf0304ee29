/* Resource "host-numa": host memory of the NUMA node nearest to the device, mapped into the device's address space by
 * the driver's virtual memory management. Nothing migrates: every access of the device crosses the bus (27 GB/s read on
 * an H200).
 *
 * The memory is pinned, so the host cannot reclaim it. All blocks together take at most half of what the machine, the
 * node and the control groups could spare without them (hostmem.h). A block is a reserved address range with one
 * mapping; its handle is released as soon as it is mapped. Unmapping does not wait for the GPU, so a free first waits
 * for all work submitted before it. */
#include "shim/resource/host_numa.h"

#include "shim/resource/block.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/deferred_free.h"
#include "shim/resource/pitch.h"
#include "shim/driver/transports.h"
#include "shim/resource/reach.h"
#include "shim/resource/rows.h"

enum { DEVICES = 64 };

static uint64_t in_flight; /* bytes requested from the driver that the machine still reports as available */
static uint64_t alive;     /* bytes of blocks not yet freed: the machine no longer reports them as available */
GM_ZERO_IN_CHILD(in_flight);
GM_ZERO_IN_CHILD(alive);

GM_LOCK(lock); /* to store the answer of a device, once: other threads copy it without the lock */
static struct device {
    int known; /* 0: not queried yet, 1: the device is served, -1: it is not */
    struct gm_location location;
} devices[DEVICES];

uint64_t gm_host_numa_alive(void) { return __atomic_load_n(&alive, __ATOMIC_RELAXED); }

/* ---- what the driver and the device support */

static gm_status query_device(int device, struct device *answer) {
    *answer = (struct device){.known = 1, .location = {.device = device}};
    gm_status status = gm_location_find(&gm_drv, &answer->location, true);
    if (status == GM_NOT_SUPPORTED) {
        answer->known = -1;
        return GM_OK;
    }
    return status ? status : gm_location_measure(&gm_drv, &answer->location);
}

/* Queries the device once and caches the answer. A failed query is not cached. */
gm_status gm_host_numa_find(int device, struct gm_location *location) {
    if (device < 0 || device >= DEVICES)
        return GM_NOT_SUPPORTED;
    struct device *cached = &devices[device], answer;
    if (__atomic_load_n(&cached->known, __ATOMIC_ACQUIRE)) {
        answer = *cached;
    } else {
        gm_status status = query_device(device, &answer);
        if (status)
            return status;
        gm_spin_lock(&lock);
        if (!cached->known) {
            cached->location = answer.location;
            __atomic_store_n(&cached->known, answer.known, __ATOMIC_RELEASE);
        }
        gm_spin_unlock(&lock);
    }
    *location = answer.location;
    return answer.known > 0 ? GM_OK : GM_NOT_SUPPORTED;
}

/* ---- what the host can spare */

static bool read_machine(int node, struct gm_hostmem *memory) { return gm_hostmem_read("", node, memory); }

static bool (*read_host)(int node, struct gm_hostmem *memory) = read_machine;

void gm_host_numa_set_reader(bool (*replacement)(int node, struct gm_hostmem *memory)) {
    read_host = replacement ? replacement : read_machine;
    for (int device = 0; device < DEVICES; device++)
        devices[device].known = 0;
}

/* Counts the request before it reads the free host memory, so that parallel requests see each other. *room: bytes that
 * may be taken, so that all blocks have half of what the host could spare without them. */
gm_status gm_host_numa_charge(int node, size_t bytes, uint64_t *room) {
    struct gm_hostmem memory;
    *room = 0;
    if (bytes > SIZE_MAX / 1024) /* no sum of these overflows */
        return GM_OUT_OF_MEMORY;
    uint64_t wanted = __atomic_add_fetch(&in_flight, bytes, __ATOMIC_SEQ_CST), taken = gm_host_numa_alive();
    uint64_t spare = read_host(node, &memory) ? gm_hostmem_takeable(&memory) : 0;
    *room = spare > taken ? (spare - taken) / 2 : 0;
    if (wanted <= *room)
        return GM_OK;
    __atomic_sub_fetch(&in_flight, bytes, __ATOMIC_SEQ_CST);
    return GM_OUT_OF_MEMORY;
}

void gm_host_numa_settle(size_t bytes, bool made) {
    if (made)
        __atomic_add_fetch(&alive, bytes, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&in_flight, bytes, __ATOMIC_SEQ_CST);
}

void gm_host_numa_give(size_t bytes) { __atomic_sub_fetch(&alive, bytes, __ATOMIC_RELAXED); }

/* ---- one block */

gm_status gm_host_numa_map(const struct gm_location *location, CUdeviceptr address, size_t bytes) {
    struct gm_extent extent;
    gm_status status = gm_extent_create(&gm_drv, location, bytes, &extent);
    if (status)
        return status;
    status = gm_extents_map(&gm_drv, address, &extent, 1);
    /* From here on the mapping alone holds the memory. */
    gm_extents_release(&gm_drv, &extent, 1);
    if (status)
        return status;
    status = gm_reach_open(location, address, bytes);
    if (status)
        (void)gm_extents_unmap(&gm_drv, address, &extent, 1);
    return status;
}

static gm_status host_numa_create(const struct gm_location *location, size_t bytes, CUdeviceptr *created) {
    CUdeviceptr address;
    gm_status status = gm_addresses_reserve(&gm_drv, bytes, 0, &address);
    if (status)
        return status;
    status = gm_host_numa_map(location, address, bytes);
    if (status)
        gm_addresses_free(&gm_drv, address, bytes);
    else
        *created = address;
    return status;
}

static gm_status host_numa_free_now(const struct gm_deferred_block *deferred) {
    gm_status status = gm_drv.mem_unmap(deferred->address, deferred->size);
    if (status)
        return status;
    gm_addresses_free(&gm_drv, deferred->address, deferred->size);
    gm_host_numa_give(deferred->size);
    return GM_OK;
}

static struct gm_deferred_free deferred_frees = {.free_now = host_numa_free_now};
GM_ZERO_IN_CHILD(deferred_frees.pending);

/* ---- requests */

static gm_status shape(const struct gm_request *request, const struct gm_location *location, struct gm_piece *piece) {
    bool pushed;
    gm_status status = gm_context_enter((CUcontext)(uintptr_t)request->context, &pushed);
    if (status)
        return status;
    status = gm_shape_of(request, piece);
    gm_context_leave(pushed);
    if (status)
        return status;
    size_t over = piece->reserved % location->granularity;
    return over && __builtin_add_overflow(piece->reserved, location->granularity - over, &piece->reserved)
               ? GM_OUT_OF_MEMORY
               : GM_OK;
}

static gm_status create_charged(const struct gm_request *request, const struct gm_location *location, size_t bytes,
                                CUdeviceptr *address) {
    CUstreamCaptureMode mode;
    uint64_t room;
    gm_status status = gm_host_numa_charge(location->node, bytes, &room);
    /* Waits for deferred frees, which return host memory. A stream-ordered call must not wait. */
    if (status && request->call != GM_CALL_ALLOC_ASYNC && gm_deferred_free_drain(&deferred_frees))
        status = gm_host_numa_charge(location->node, bytes, &room);
    if (status) {
        gm_log(GM_LOG_INFO, "host memory refused for a device out of memory: %zu bytes requested, %llu may be taken",
               bytes, (unsigned long long)room);
        return status;
    }
    if (gm_capture_guard_enter(&mode)) {
        status = host_numa_create(location, bytes, address);
        gm_capture_guard_leave(mode);
    } else {
        status = GM_NOT_SUPPORTED;
    }
    gm_host_numa_settle(bytes, !status);
    return status;
}

static gm_status host_numa_alloc(struct gm_resource *self, const struct gm_request *request,
                                 const struct gm_decision *decision, struct gm_block *block) {
    struct gm_piece piece;
    struct gm_location location;
    CUdeviceptr address;

    if (!gm_request_is_uncaptured(request) || !request->context_id)
        return GM_NOT_SUPPORTED;
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    if (gm_rdma_in_process() || gm_transport_in_process())
        return GM_NOT_SUPPORTED;
    gm_deferred_free_flush(&deferred_frees);
    gm_status status = gm_host_numa_find(request->device, &location);
    if (!status)
        status = shape(request, &location, &piece);
    if (!status)
        status = create_charged(request, &location, piece.reserved, &address);
    if (status)
        return status;
    piece.address = address;
    gm_block_fill(block, self, request, &piece);
    return GM_OK;
}

/* ---- the other ops */

static size_t host_numa_trim(struct gm_resource *self, size_t bytes) {
    /* This frees no device memory, so it does not wait. */
    if (gm_driver_ready(false))
        gm_deferred_free_flush(&deferred_frees);
    return 0;
}

/* No work can use the block any more. Errors are ignored: a reset may have unmapped it already. */
static void host_numa_abandon(struct gm_resource *self, const struct gm_block *block) {
    gm_drv.mem_unmap(block->address, block->reserved);
    gm_drv.mem_address_free(block->address, block->reserved);
    gm_host_numa_give(block->reserved);
}

static void host_numa_open_block_to(struct gm_resource *self, const struct gm_block *block, int device) {
    if (device < 0 || device >= DEVICES ||
        gm_mapping_open_to(&gm_drv, block->address, block->reserved, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
        gm_log(GM_LOG_WARN, "device %d cannot reach a block of device %d in host memory", device, block->device);
}

const struct gm_resource_ops gm_resource_host_numa = {
    .name = "host-numa",
    .summary = "host memory mapped to the device, within what the host can spare",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_HOST_ACCESSIBLE | GM_PROP_RESIDENT | GM_PROP_HOST_STORAGE |
                  GM_PROP_READY_ANYWHERE | GM_PROP_STREAM_ORDERED | GM_PROP_PEER | GM_PROP_OUTLIVES_CONTEXT,
    .breaks = "every access of the device crosses the bus and nothing migrates; no cuIpcGetMemHandle, no dma-buf and "
              "no GPUDirect RDMA registration; pointer attributes name host memory; a free waits for the GPU, a free "
              "in stream order is done by a later call; each block takes whole granules of 2 MiB",
    .kind = GM_KIND_HOST_NUMA,
    .granule = (size_t)2 << 20,
    .serves = "cache(host-numa)",
    .deferred = &deferred_frees,
    .alloc = host_numa_alloc,
    .free = gm_deferred_free,
    .trim = host_numa_trim,
    .context_destroyed = gm_deferred_context_destroyed,
    .abandon = host_numa_abandon,
    .capture = gm_deferred_capture_flush,
    .open_block_to = host_numa_open_block_to,
};
