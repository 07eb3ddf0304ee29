/* Device memory made with the driver's virtual memory management (cuMemCreate, cuMemMap): resource "vmm".
 *
 * A block is a reserved address range. Extents (handles of physical memory) are mapped into it side by side. Most
 * blocks have one extent. Under GPUMEM_GROW=move a block has its front, the part that the pages of a smaller block may
 * replace later, as extents of its own (gm_vmm_move). The pages that the handover replaces go to the page reserve
 * (vmm_reserve.h).
 *
 * cuMemUnmap does not wait for the GPU. So a free first waits for the work submitted before it, as a native cudaFree
 * does (deferred_free.h). */
#include "shim/resource/vmm.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/driver/internal_stream.h"
#include "shim/driver/transports.h"
#include "shim/resource/block.h"
#include "shim/resource/deferred_free.h"
#include "shim/resource/reach.h"
#include "shim/resource/rows.h"
#include "shim/resource/vmm_reserve.h"

enum { BLOCKS = 1024, EXTENTS = 192, SEGMENTS = 16 };

/* A slot is large, so no thread copies one to its stack. A thread that takes a slot owns it: it fills or empties the
 * slot without the lock, and nobody else finds the block until the slot is put back. */
static struct mapped {
    uint64_t address; /* 0: the slot is unused */
    bool taken;
    uint64_t reserved, context_id;
    int device;
    unsigned count, segment_count;
    size_t segments[SEGMENTS]; /* sizes of its adjacent address reservations */
    struct gm_extent extents[EXTENTS];
} * blocks;
static unsigned blocks_used; /* slots used so far; under the lock */
GM_ZERO_IN_CHILD(blocks_used);
GM_LOCK(lock);
static size_t granularities[GM_VMM_DEVICES]; /* 0: not queried yet; 1: the device has no virtual memory management */
static bool split_fronts;

void gm_vmm_split_fronts(void) { split_fronts = true; }

/* ---- live blocks */

/* The lock is held. */
static struct mapped *find_mapped(uint64_t address) {
    for (unsigned i = 0; i < blocks_used; i++)
        if (!blocks[i].taken && blocks[i].address == address)
            return &blocks[i];
    return NULL;
}

/* Takes an unused slot; NULL: there is none. The caller puts it back with the address of its block, or 0. */
static struct mapped *take_unused(void) {
    if (!__atomic_load_n(&blocks, __ATOMIC_ACQUIRE)) {
        struct mapped *pages = gm_pages(BLOCKS * sizeof *pages), *none = NULL;
        if (!pages)
            return NULL;
        if (!__atomic_compare_exchange_n(&blocks, &none, pages, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            munmap(pages, BLOCKS * sizeof *pages);
    }
    gm_spin_lock(&lock);
    struct mapped *slot = find_mapped(0);
    if (!slot && blocks_used < BLOCKS)
        slot = &blocks[blocks_used++];
    if (slot)
        slot->taken = true;
    gm_spin_unlock(&lock);
    return slot;
}

static struct mapped *take_block(uint64_t address) {
    gm_spin_lock(&lock);
    struct mapped *found = address ? find_mapped(address) : NULL;
    if (found)
        found->taken = true;
    gm_spin_unlock(&lock);
    return found;
}

static void put_back(struct mapped *slot, uint64_t address) {
    gm_spin_lock(&lock);
    slot->address = address;
    slot->taken = false;
    gm_spin_unlock(&lock);
}

/* Size of the largest block that is smaller than `size` bytes, whose pages a new block of that size may take; 0: none.
 */
static uint64_t front_for(int device, uint64_t size) {
    uint64_t front = 0;
    gm_spin_lock(&lock);
    for (unsigned i = 0; i < blocks_used; i++) { /* without a used slot another thread may be storing `blocks` */
        const struct mapped *block = &blocks[i];
        if (!block->taken && block->address && block->device == device && block->reserved < size &&
            block->reserved > front)
            front = block->reserved;
    }
    gm_spin_unlock(&lock);
    return front;
}

/* ---- create and destroy */

static struct gm_location location_of(int device) { return (struct gm_location){.device = device, .node = -1}; }

/* Queries the device once. A failed query is not remembered. */
static gm_status granularity_of(int device, size_t *granularity) {
    size_t known = __atomic_load_n(&granularities[device], __ATOMIC_RELAXED);
    if (!known) {
        struct gm_location location = location_of(device);
        gm_status status = gm_location_find(&gm_drv, &location, false);
        if (!status)
            status = gm_location_measure(&gm_drv, &location);
        if (status && status != GM_NOT_SUPPORTED)
            return GM_NOT_SUPPORTED;
        known = status ? 1 : location.granularity;
        __atomic_store_n(&granularities[device], known, __ATOMIC_RELAXED);
    }
    *granularity = known;
    return known > 1 ? GM_OK : GM_NOT_SUPPORTED;
}

gm_status gm_vmm_map(int device, uint64_t address, const struct gm_extent *extents, unsigned count) {
    struct gm_location location = location_of(device);
    size_t size = 0;
    for (unsigned i = 0; i < count; i++)
        size += extents[i].size;
    gm_status status = gm_extents_map(&gm_drv, address, extents, count);
    if (status)
        return status;
    status = gm_reach_open(&location, address, size);
    if (status)
        (void)gm_extents_unmap(&gm_drv, address, extents, count);
    return status;
}

/* Creates the extents of a new block: first `front` bytes, from the page reserve as far as it goes, then the rest. On
 * failure there are none. */
static gm_status create_extents(struct mapped *block, uint64_t front) {
    struct gm_location location = location_of(block->device);
    const uint64_t ends[2] = {front, block->reserved};
    uint64_t made = 0;
    block->count = front ? gm_vmm_reserve_take(block->device, front, block->extents) : 0;
    for (unsigned i = 0; i < block->count; i++)
        made += block->extents[i].size;
    for (unsigned i = 0; i < 2; i++) {
        if (made >= ends[i])
            continue;
        gm_status status = gm_extent_create(&gm_drv, &location, ends[i] - made, &block->extents[block->count]);
        if (status) {
            gm_extents_release(&gm_drv, block->extents, block->count);
            return status;
        }
        block->count++;
        made = ends[i];
    }
    return GM_OK;
}

static void free_addresses(const struct mapped *block) {
    uint64_t at = block->address;
    for (unsigned i = 0; i < block->segment_count; at += block->segments[i++])
        gm_addresses_free(&gm_drv, at, block->segments[i]);
}

/* Reserves addresses, creates the extents and maps them. On failure nothing stays reserved. */
static gm_status vmm_create(struct mapped *block, uint64_t front) {
    CUdeviceptr address;
    gm_status status = gm_addresses_reserve(&gm_drv, block->reserved, 0, &address);
    if (status)
        return status;
    status = create_extents(block, front);
    if (status)
        goto unreserve;
    status = gm_vmm_map(block->device, address, block->extents, block->count);
    if (status)
        goto release;
    block->address = address;
    block->segments[0] = block->reserved;
    block->segment_count = 1;
    return GM_OK;
release:
    gm_extents_release(&gm_drv, block->extents, block->count);
unreserve:
    gm_addresses_free(&gm_drv, address, block->reserved);
    return status;
}

static gm_status destroy_block(uint64_t address) {
    struct mapped *block = take_block(address);
    if (!block)
        return GM_INVALID_VALUE;
    gm_status status = gm_extents_unmap(&gm_drv, address, block->extents, block->count);
    if (status) {
        put_back(block, address);
        return status;
    }
    gm_extents_release(&gm_drv, block->extents, block->count);
    free_addresses(block);
    put_back(block, 0);
    return GM_OK;
}

/* Maps `step` more bytes behind the block, whose addresses have to be unused. */
static gm_status extend_block(struct mapped *block, uint64_t step) {
    struct gm_location location = location_of(block->device);
    struct gm_extent *extent = &block->extents[block->count];
    CUdeviceptr address, end = block->address + block->reserved;
    if (block->count == EXTENTS || block->segment_count == SEGMENTS)
        return GM_OUT_OF_MEMORY;
    gm_status status = gm_addresses_reserve(&gm_drv, step, end, &address);
    if (status)
        return status;
    status = address == end ? gm_extent_create(&gm_drv, &location, step, extent) : GM_OUT_OF_MEMORY;
    if (status)
        goto unreserve;
    status = gm_vmm_map(block->device, address, extent, 1);
    if (status)
        goto release;
    block->count++;
    block->segments[block->segment_count++] = step;
    block->reserved += step;
    return GM_OK;
release:
    gm_extents_release(&gm_drv, extent, 1);
unreserve:
    gm_addresses_free(&gm_drv, address, step);
    return status;
}

static gm_status vmm_free_now(const struct gm_deferred_block *deferred) { return destroy_block(deferred->address); }

static struct gm_deferred_free deferred_frees = {.free_now = vmm_free_now};
GM_ZERO_IN_CHILD(deferred_frees.pending);

/* ---- page handover */

/* The lock is held. True when the first extents of `larger` cover exactly the size of `old`. */
static bool can_move(const struct mapped *old, const struct mapped *larger) {
    uint64_t front = 0;
    unsigned front_count = 0;
    if (!old || !larger || old->device != larger->device || old->context_id != larger->context_id ||
        old->reserved >= larger->reserved)
        return false;
    while (front < old->reserved && front_count < larger->count)
        front += larger->extents[front_count++].size;
    return front == old->reserved && larger->count - front_count + old->count <= EXTENTS;
}

bool gm_vmm_can_move(uint64_t from, uint64_t to) {
    gm_spin_lock(&lock);
    bool can = from && to && can_move(find_mapped(from), find_mapped(to));
    gm_spin_unlock(&lock);
    return can;
}

/* Unmaps the first `front_count` extents of the block and maps `count` others in their place. On failure the block's
 * own extents are mapped again, one by one: an extent that is still mapped stays. */
static gm_status replace_front(const struct mapped *block, unsigned front_count, const struct gm_extent *extents,
                               unsigned count) {
    gm_status status = gm_extents_unmap(&gm_drv, block->address, block->extents, front_count);
    if (!status)
        status = gm_vmm_map(block->device, block->address, extents, count);
    uint64_t at = block->address;
    for (unsigned i = 0; status && i < front_count; at += block->extents[i++].size)
        if (gm_vmm_map(block->device, at, &block->extents[i], 1))
            gm_log(GM_LOG_ERROR, "%llu bytes cannot be mapped again", (unsigned long long)block->extents[i].size);
    return status;
}

/* Maps the pages of `old` in the front of `larger`. On success `merged` describes the block at the address of `larger`,
 * `old` is destroyed, and the replaced front is in the page reserve. */
static gm_status move_pages(struct mapped *old, struct mapped *larger, struct mapped *merged) {
    uint64_t front = 0;
    unsigned front_count = 0;
    while (front < old->reserved)
        front += larger->extents[front_count++].size;
    gm_status status = replace_front(larger, front_count, old->extents, old->count);
    if (status)
        return status;
    merged->reserved = larger->reserved;
    merged->context_id = larger->context_id;
    merged->device = larger->device;
    merged->count = 0;
    for (unsigned i = 0; i < old->count; i++)
        merged->extents[merged->count++] = old->extents[i];
    merged->segment_count = larger->segment_count;
    memcpy(merged->segments, larger->segments, sizeof merged->segments);
    for (unsigned i = front_count; i < larger->count; i++)
        merged->extents[merged->count++] = larger->extents[i];
    gm_vmm_reserve_keep(larger->device, larger->extents, front_count);
    if (gm_extents_unmap(&gm_drv, old->address, old->extents, old->count))
        gm_log(GM_LOG_ERROR, "%llu bytes cannot be unmapped", (unsigned long long)old->reserved);
    else
        free_addresses(old);
    return GM_OK;
}

gm_status gm_vmm_move(uint64_t from, uint64_t to) {
    struct mapped *merged = take_unused();
    gm_status status = GM_NOT_SUPPORTED;
    if (!merged)
        return status;
    gm_spin_lock(&lock);
    struct mapped *old = from ? find_mapped(from) : NULL, *larger = to ? find_mapped(to) : NULL;
    bool can = can_move(old, larger);
    if (can)
        old->taken = larger->taken = true;
    gm_spin_unlock(&lock);
    if (can) {
        status = move_pages(old, larger, merged);
        put_back(old, status ? from : 0);
        put_back(larger, status ? to : 0);
    }
    put_back(merged, status ? 0 : to);
    return status;
}

/* ---- requests */

gm_status gm_vmm_prepare(const struct gm_request *request, size_t *granularity) {
    if (!request->size || !request->context_id || request->device < 0 || request->device >= GM_VMM_DEVICES)
        return GM_NOT_SUPPORTED;
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    if (gm_rdma_in_process() || !gm_reach_all())
        return GM_NOT_SUPPORTED;
    return granularity_of(request->device, granularity);
}

/* Can the request be served? *reserved: its size in whole granules. Also finishes frees that were deferred. */
static gm_status prepare_alloc(const struct gm_request *request, uint64_t *reserved) {
    size_t granularity;
    bool may = request->call == GM_CALL_ALLOC && !gm_transport_in_process();
    gm_status status = may ? gm_vmm_prepare(request, &granularity) : GM_NOT_SUPPORTED;
    if (status)
        return status;
    gm_deferred_free_flush(&deferred_frees);
    gm_vmm_reserve_release(true);
    uint64_t over = request->size % granularity;
    return __builtin_add_overflow(request->size, over ? granularity - over : 0, reserved) ? GM_OUT_OF_MEMORY : GM_OK;
}

static gm_status vmm_alloc(struct gm_resource *self, const struct gm_request *request,
                           const struct gm_decision *decision, struct gm_block *block) {
    CUstreamCaptureMode mode;
    struct mapped *made;
    uint64_t reserved;
    gm_status status = prepare_alloc(request, &reserved);
    if (status)
        return status;
    uint64_t front = split_fronts ? front_for(request->device, reserved) : 0;
    if (!gm_capture_guard_enter(&mode))
        return GM_NOT_SUPPORTED;
    status = GM_NOT_SUPPORTED;
    if ((made = take_unused()) != NULL) {
        made->reserved = reserved;
        made->context_id = request->context_id;
        made->device = request->device;
        made->count = 0;
        status = vmm_create(made, front);
        if (!status) {
            struct gm_piece piece = {.address = made->address, .reserved = reserved};
            gm_block_fill(block, self, request, &piece);
        }
        put_back(made, status ? 0 : made->address);
    }
    gm_capture_guard_leave(mode);
    return status;
}

static gm_status vmm_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    gm_vmm_reserve_release(true);
    return gm_deferred_free_add(&deferred_frees, block, how);
}

/* Mapping does not wait for the GPU, so neither does growth. */
static gm_status vmm_grow(struct gm_resource *self, struct gm_block *block, size_t size) {
    CUstreamCaptureMode mode;
    size_t granularity;
    bool pushed;
    gm_status status = granularity_of(block->device, &granularity);
    if (!status && !gm_capture_guard_enter(&mode))
        status = GM_NOT_SUPPORTED;
    if (status)
        return status;
    struct mapped *mapped = NULL;
    status = gm_context_enter((CUcontext)(uintptr_t)block->context, &pushed);
    if (status)
        goto leave;
    mapped = take_block(block->address);
    if (!mapped)
        status = GM_INVALID_VALUE;
    else if (size > SIZE_MAX / 2)
        status = GM_OUT_OF_MEMORY;
    else if (size > mapped->reserved)
        status = extend_block(mapped, (size - mapped->reserved + granularity - 1) / granularity * granularity);
    if (!status) {
        block->size = size;
        block->reserved = mapped->reserved;
    }
    if (mapped)
        put_back(mapped, block->address);
    gm_context_leave(pushed);
leave:
    gm_capture_guard_leave(mode);
    return status;
}

static size_t vmm_trim(struct gm_resource *self, size_t bytes) {
    return gm_driver_ready(false) ? gm_deferred_free_drain(&deferred_frees) + gm_vmm_reserve_release(false) : 0;
}

static size_t vmm_releasable(struct gm_resource *self, int device) { return gm_vmm_reserve_bytes(device); }

static void vmm_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    gm_deferred_context_destroyed(self, context_id);
    gm_vmm_reserve_release(false);
}

/* Errors are ignored: a reset of the device may have unmapped the block already. */
static void vmm_abandon(struct gm_resource *self, const struct gm_block *block) {
    struct mapped *lost = take_block(block->address);
    if (!lost)
        return;
    uint64_t at = block->address;
    for (unsigned i = 0; i < lost->count; at += lost->extents[i++].size) {
        gm_drv.mem_unmap(at, lost->extents[i].size);
        gm_drv.mem_release(lost->extents[i].handle);
    }
    at = block->address;
    for (unsigned i = 0; i < lost->segment_count; at += lost->segments[i++])
        gm_drv.mem_address_free(at, lost->segments[i]);
    put_back(lost, 0);
}

static void vmm_open_block_to(struct gm_resource *self, const struct gm_block *block, int device) {
    gm_spin_lock(&lock);
    const struct mapped *found = block->address ? find_mapped(block->address) : NULL;
    uint64_t reserved = found ? found->reserved : 0;
    gm_spin_unlock(&lock);
    if (reserved && device >= 0 && device < GM_VMM_DEVICES &&
        gm_mapping_open_to(&gm_drv, block->address, reserved, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
        gm_log(GM_LOG_WARN, "device %d cannot reach a block of device %d", device, block->device);
}

const struct gm_resource_ops gm_resource_vmm = {
    .name = "vmm",
    .summary = "device memory mapped by virtual memory management, in whole granules of 2 MiB",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_RESIDENT | GM_PROP_DEVICE_STORAGE | GM_PROP_READY_ANYWHERE |
                  GM_PROP_PEER | GM_PROP_GROWABLE,
    .breaks =
        "no cuIpcGetMemHandle, no dma-buf and no GPUDirect RDMA registration; not served where devices cannot access "
        "each other; each block takes whole granules of 2 MiB; at most 1024 blocks at a time, none while a stream "
        "captures; a free waits for the GPU",
    .kind = GM_KIND_VMM,
    .granule = (size_t)2 << 20,
    .serves = "vmm",
    .deferred = &deferred_frees,
    .alloc = vmm_alloc,
    .free = vmm_free,
    .grow = vmm_grow,
    .trim = vmm_trim,
    .releasable = vmm_releasable,
    .context_destroyed = vmm_context_destroyed,
    .abandon = vmm_abandon,
    .capture = gm_deferred_capture_flush,
    .open_block_to = vmm_open_block_to,
};
