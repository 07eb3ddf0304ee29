/* Device memory made of handles that are mapped: a block is a reservation of addresses with one mapping, or several
 * where the front may later take over the pages of a smaller block (vmm.h); the pages it had there until then wait for
 * the next one (vmm_spare.h). Free waits for the work submitted before, as native cudaFree does, since unmapping does
 * not wait.
 *
 * Overcommit: growing by hand needs old and new at once. Where the device has no room for that, the new block lies on
 * the host, all of it, and only its excess over the old block is kept aside on the device. When the old block's pages
 * come, both take the host's place. If they never come, the block stays on the host: nothing is lost, and no copy spans
 * two kinds of memory. */
#include "shim/resource/vmm.h"

#include "shim/resource/block.h"
#include "shim/resource/host_numa.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/deferred_free.h"
#include "shim/driver/transports.h"
#include "shim/resource/reach.h"
#include "shim/resource/rows.h"
#include "shim/resource/vmm_reserve.h"

enum { BLOCKS = 1024, EXTENTS = 192 };

static struct mapped {
    uint64_t address; /* 0 = unused */
    bool out;         /* whoever took it fills or empties it, without the lock: too large to be copied to a stack */
    uint64_t reserved, context_id;
    int device;
    unsigned count;
    struct gm_vmm_extent extents[EXTENTS];
    struct gm_vmm_extent
        aside; /* device memory that is not mapped: the block lies on the host until it can be; size 0: none */
} * blocks;
static unsigned blocks_used; /* behind the last one that ever was; the lock is held */
static gm_spin lock;
static size_t granularities[GM_VMM_DEVICES]; /* 0 not asked, 1 the device cannot */
static bool split_fronts, overcommits;
static uint64_t overcommitted;

void gm_vmm_split_fronts(bool overcommit) {
    split_fronts = true;
    overcommits = overcommit;
}

uint64_t gm_vmm_overcommitted(void) { return __atomic_load_n(&overcommitted, __ATOMIC_RELAXED); }

/* ---- the blocks there are */

/* The lock is held. */
static struct mapped *find(uint64_t address) {
    for (unsigned i = 0; i < blocks_used; i++)
        if (!blocks[i].out && blocks[i].address == address)
            return &blocks[i];
    return NULL;
}

/* A place for a new block, NULL: there is none. To be put back, with its address or 0. */
static struct mapped *take_place(void) {
    if (!__atomic_load_n(&blocks, __ATOMIC_ACQUIRE)) {
        struct mapped *pages = gm_pages(BLOCKS * sizeof *pages), *none = NULL;
        if (!pages)
            return NULL;
        __atomic_compare_exchange_n(&blocks, &none, pages, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    gm_spin_lock(&lock);
    struct mapped *place = find(0);
    if (!place && blocks_used < BLOCKS)
        place = &blocks[blocks_used++];
    if (place)
        place->out = true;
    gm_spin_unlock(&lock);
    return place;
}

static struct mapped *take_out(uint64_t address) {
    gm_spin_lock(&lock);
    struct mapped *found = address ? find(address) : NULL;
    if (found)
        found->out = true;
    gm_spin_unlock(&lock);
    return found;
}

static void put_back(struct mapped *place, uint64_t address) {
    gm_spin_lock(&lock);
    place->address = address;
    place->out = false;
    gm_spin_unlock(&lock);
}

/* Whoever takes it releases or maps it. */
static struct gm_vmm_extent take_aside(uint64_t address) {
    struct gm_vmm_extent aside = {0};
    gm_spin_lock(&lock);
    struct mapped *found = address ? find(address) : NULL;
    if (found) {
        aside = found->aside;
        found->aside.size = 0;
    }
    gm_spin_unlock(&lock);
    return aside;
}

/* The largest block of the device that a new one of `size` bytes may take over: its size, 0 = none. */
static uint64_t front_for(int device, uint64_t size) {
    uint64_t front = 0;
    gm_spin_lock(&lock);
    for (const struct mapped *block = blocks; block < blocks + blocks_used; block++)
        if (!block->out && block->address && block->device == device && block->reserved < size &&
            block->reserved > front && !block->extents[0].on_host)
            front = block->reserved;
    gm_spin_unlock(&lock);
    return front;
}

/* ---- making */

static CUmemAllocationProp properties_of(int device) {
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
}

static gm_status granularity_of(int device, size_t *granularity) {
    size_t known = __atomic_load_n(&granularities[device], __ATOMIC_RELAXED);
    int maps = 0;
    if (!known) {
        CUmemAllocationProp properties = properties_of(device);
        bool able =
            gm_drv.mem_address_reserve && gm_drv.mem_address_free && gm_drv.mem_create && gm_drv.mem_release &&
            gm_drv.mem_map && gm_drv.mem_unmap && gm_drv.mem_set_access && gm_drv.mem_get_allocation_granularity &&
            gm_drv.device_get_attribute(&maps, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) ==
                CUDA_SUCCESS &&
            maps;
        if (!able ||
            gm_drv.mem_get_allocation_granularity(&known, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) !=
                CUDA_SUCCESS ||
            !known)
            known = 1;
        __atomic_store_n(&granularities[device], known, __ATOMIC_RELAXED);
    }
    *granularity = known;
    return known > 1 ? GM_OK : GM_NOT_SUPPORTED;
}

/* `size` bytes of extents that lie where `one` does. */
static gm_status give_access(int device, uint64_t others, CUdeviceptr address, uint64_t size,
                             const struct gm_vmm_extent *one) {
    CUmemAccessDesc list[GM_VMM_DEVICES + 1];
    unsigned count = 0;
    if (one->on_host)
        list[count++] = (CUmemAccessDesc){{.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = one->node},
                                          CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (int i = 0; i < GM_VMM_DEVICES; i++)
        if (i == device || others >> i & 1)
            list[count++] =
                (CUmemAccessDesc){{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return (gm_status)gm_drv.mem_set_access(address, size, list, count);
}

/* Unmaps the first `count` extents at `address`; what the driver refuses twice is logged. */
static gm_status unmap_extents(CUdeviceptr address, const struct gm_vmm_extent *extents, unsigned count) {
    gm_status status = GM_OK, last;
    for (unsigned i = 0; i < count; address += extents[i++].size)
        if ((last = (gm_status)GM_TWICE(gm_drv.mem_unmap(address, extents[i].size))) != GM_OK)
            status = last;
    return status;
}

/* Maps extents of one kind side by side; on failure none is mapped. */
static gm_status map_extents(int device, CUdeviceptr address, const struct gm_vmm_extent *extents, unsigned count) {
    gm_status status = GM_OK;
    uint64_t size = 0;
    unsigned mapped = 0;
    for (; mapped < count; size += extents[mapped++].size)
        if ((status = (gm_status)gm_drv.mem_map(address + size, extents[mapped].size, 0, extents[mapped].handle, 0)) !=
            GM_OK)
            break;
    uint64_t others = gm_reach_devices();
    if (!status)
        status = give_access(device, others, address, size, extents);
    if (!status && gm_reach_devices() != others)
        status = give_access(device, gm_reach_devices(), address, size, extents);
    if (status)
        (void)unmap_extents(address, extents, mapped);
    return status;
}

/* Handles for a new block: a front, of spare pages as far as they go, and the rest. On failure there are none. */
static gm_status create(struct mapped *block, uint64_t front) {
    CUmemAllocationProp properties = properties_of(block->device);
    const uint64_t ends[2] = {front, block->reserved};
    uint64_t made = 0;
    block->count = front ? gm_vmm_reserve_take(block->device, front, block->extents) : 0;
    for (unsigned i = 0; i < block->count; i++)
        made += block->extents[i].size;
    for (unsigned i = 0; i < 2; i++) {
        struct gm_vmm_extent extent = {.size = ends[i] - made};
        if (made >= ends[i])
            continue;
        gm_status status = (gm_status)gm_drv.mem_create(&extent.handle, extent.size, &properties, 0);
        if (status) {
            gm_vmm_release(block->extents, block->count);
            return status;
        }
        block->extents[block->count++] = extent;
        made = ends[i];
    }
    return GM_OK;
}

static gm_status make(struct mapped *block, uint64_t front) {
    CUdeviceptr address;
    gm_status status = (gm_status)gm_drv.mem_address_reserve(&address, block->reserved, 0, 0, 0);
    if (status)
        return status;
    status = create(block, front);
    if (status)
        goto unreserve;
    status = map_extents(block->device, address, block->extents, block->count);
    if (status)
        goto release;
    block->address = address;
    return GM_OK;
release:
    gm_vmm_release(block->extents, block->count);
unreserve:
    (void)GM_TWICE(gm_drv.mem_address_free(address, block->reserved));
    return status;
}

static gm_status make_on_host(struct mapped *block, uint64_t front) {
    CUmemAllocationProp properties = properties_of(block->device);
    struct gm_vmm_extent *host = &block->extents[0];
    CUdeviceptr address;
    block->aside.size = block->reserved - front;
    gm_status status = (gm_status)gm_drv.mem_create(&block->aside.handle, block->aside.size, &properties, 0);
    if (status)
        return status;
    *host = (struct gm_vmm_extent){.size = block->reserved, .on_host = true};
    block->count = 1;
    status = gm_host_numa_create(block->device, block->reserved, &host->handle, &host->node);
    if (status)
        goto release_aside;
    status = (gm_status)gm_drv.mem_address_reserve(&address, block->reserved, 0, 0, 0);
    if (status)
        goto release_host;
    status = map_extents(block->device, address, host, 1);
    if (status)
        goto unreserve;
    block->address = address;
    return GM_OK;
unreserve:
    (void)GM_TWICE(gm_drv.mem_address_free(address, block->reserved));
release_host:
    gm_vmm_release(host, 1);
release_aside:
    gm_vmm_release(&block->aside, 1);
    return status;
}

bool gm_vmm_waits_on_host(uint64_t address) {
    if (!overcommits)
        return false;
    gm_spin_lock(&lock);
    const struct mapped *block = address ? find(address) : NULL;
    bool waits = block && block->aside.size;
    gm_spin_unlock(&lock);
    return waits;
}

void gm_vmm_settle(uint64_t address) {
    struct gm_vmm_extent aside = take_aside(address);
    if (aside.size)
        gm_vmm_release(&aside, 1);
}

static gm_status unmake(uint64_t address) {
    gm_vmm_settle(address);
    struct mapped *block = take_out(address);
    if (!block)
        return GM_INVALID_VALUE;
    gm_status status = unmap_extents(address, block->extents, block->count);
    if (status) {
        put_back(block, address);
        return status;
    }
    gm_vmm_release(block->extents, block->count);
    if (GM_TWICE(gm_drv.mem_address_free(address, block->reserved)))
        gm_log(GM_LOG_ERROR, "%llu bytes of addresses cannot be given back", (unsigned long long)block->reserved);
    put_back(block, 0);
    return GM_OK;
}

static gm_status free_now(const struct gm_deferred_block *deferred) { return unmake(deferred->address); }

static struct gm_deferred_free later = {.free_now = free_now};

/* ---- pages change hands */

/* The lock is held. */
static bool can_move(const struct mapped *old, const struct mapped *young) {
    uint64_t front = 0;
    unsigned fronts = 0;
    if (!old || !young || old->device != young->device || old->context_id != young->context_id ||
        old->reserved >= young->reserved || old->extents[0].on_host)
        return false;
    if (young->extents[0].on_host)
        return young->aside.size == young->reserved - old->reserved && old->count < EXTENTS;
    while (front < old->reserved && fronts < young->count)
        front += young->extents[fronts++].size;
    return front == old->reserved && young->count - fronts + old->count <= EXTENTS;
}

bool gm_vmm_can_move(uint64_t from, uint64_t to) {
    gm_spin_lock(&lock);
    bool can = from && to && can_move(find(from), find(to));
    gm_spin_unlock(&lock);
    return can;
}

/* Extents in place of the block's first ones, which stay its own on failure. */
static gm_status exchange(const struct mapped *block, unsigned firsts, const struct gm_vmm_extent *placed,
                          unsigned count) {
    gm_status status = unmap_extents(block->address, block->extents, firsts);
    if (!status)
        status = map_extents(block->device, block->address, placed, count);
    uint64_t at = block->address;
    for (unsigned i = 0; status && i < firsts;
         at += block->extents[i++].size) /* one by one: what still is mapped stays */
        if (map_extents(block->device, at, &block->extents[i], 1))
            gm_log(GM_LOG_ERROR, "%llu bytes cannot be mapped again", (unsigned long long)block->extents[i].size);
    return status;
}

/* On success `made` has what `young` had, with the pages of `old`. */
static gm_status move_pages(struct mapped *old, struct mapped *young, struct mapped *made) {
    struct gm_vmm_extent aside = young->aside;
    uint64_t front = 0;
    unsigned fronts = 0;
    while (front < old->reserved)
        front += young->extents[fronts++].size;
    made->reserved = young->reserved;
    made->context_id = young->context_id;
    made->device = young->device;
    made->count = old->count;
    made->aside.size = young->aside.size = 0;
    for (unsigned i = 0; i < old->count; i++)
        made->extents[i] = old->extents[i];
    if (aside.size)
        made->extents[made->count++] = aside;
    gm_status status = exchange(young, fronts, made->extents, made->count);
    if (status) { /* as it was: the old block still has its pages, too */
        if (aside.size)
            gm_vmm_release(&aside, 1);
        return status;
    }
    for (unsigned i = fronts; i < young->count; i++)
        made->extents[made->count++] = young->extents[i];
    gm_vmm_reserve_keep(young->device, young->extents, fronts);
    if (unmap_extents(old->address, old->extents, old->count) ||
        GM_TWICE(gm_drv.mem_address_free(old->address, old->reserved)))
        gm_log(GM_LOG_ERROR, "%llu bytes of addresses cannot be given back", (unsigned long long)old->reserved);
    return GM_OK;
}

gm_status gm_vmm_move(uint64_t from, uint64_t to) {
    struct mapped *made = take_place();
    gm_status status = GM_NOT_SUPPORTED;
    if (!made)
        return status;
    gm_spin_lock(&lock);
    struct mapped *old = from ? find(from) : NULL, *young = to ? find(to) : NULL;
    bool can = can_move(old, young);
    if (can)
        old->out = young->out = true;
    gm_spin_unlock(&lock);
    if (can) {
        status = move_pages(old, young, made);
        put_back(old, status ? from : 0);
        put_back(young, status ? to : 0);
    }
    put_back(made, status ? 0 : to);
    return status;
}

/* ---- requests */

static gm_status shape(const struct gm_request *request, uint64_t *reserved) {
    size_t granularity;
    if (request->call != GM_CALL_ALLOC || !request->size || !request->context_id || request->device < 0 ||
        request->device >= GM_VMM_DEVICES)
        return GM_NOT_SUPPORTED;
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    if (gm_rdma_in_process() || gm_transport_in_process() || !gm_reach_all())
        return GM_NOT_SUPPORTED;
    gm_deferred_free_flush(&later);
    gm_vmm_reserve_release(true);
    gm_status status = granularity_of(request->device, &granularity);
    if (status)
        return status;
    uint64_t over = request->size % granularity;
    return __builtin_add_overflow(request->size, over ? granularity - over : 0, reserved) ? GM_OUT_OF_MEMORY : GM_OK;
}

static gm_status serve(struct gm_resource *self, const struct gm_request *request, uint64_t reserved, uint64_t front,
                       gm_status (*make_so)(struct mapped *block, uint64_t front), struct gm_block *block) {
    CUstreamCaptureMode mode;
    struct mapped *made;
    if (!gm_capture_guard_enter(&mode))
        return GM_NOT_SUPPORTED;
    gm_status status = GM_NOT_SUPPORTED;
    if ((made = take_place()) != NULL) {
        made->reserved = reserved;
        made->context_id = request->context_id;
        made->device = request->device;
        made->count = 0;
        made->aside.size = 0;
        status = make_so(made, front);
        if (!status) {
            struct gm_piece piece = {.address = made->address, .reserved = reserved};
            gm_block_fill(block, self, request, &piece);
        }
        put_back(made, status ? 0 : made->address);
    }
    gm_capture_guard_leave(mode);
    return status;
}

static gm_status vmm_alloc(struct gm_resource *self, const struct gm_request *request, struct gm_block *block) {
    uint64_t reserved;
    gm_status status = shape(request, &reserved);
    if (status)
        return status;
    return serve(self, request, reserved, split_fronts ? front_for(request->device, reserved) : 0, make, block);
}

static gm_status vmm_overcommit(struct gm_resource *self, const struct gm_request *request, struct gm_block *block) {
    uint64_t reserved, front;
    gm_status status = overcommits ? shape(request, &reserved) : GM_NOT_SUPPORTED;
    if (status)
        return status;
    if (!(front = front_for(request->device, reserved)))
        return GM_NOT_SUPPORTED;
    status = serve(self, request, reserved, front, make_on_host, block);
    __atomic_add_fetch(&overcommitted, !status, __ATOMIC_RELAXED);
    return status;
}

static gm_status vmm_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    gm_vmm_reserve_release(true);
    return gm_deferred_free_add(&later, block, how);
}

static size_t vmm_trim(struct gm_resource *self, size_t bytes) {
    return gm_driver_ready(false) ? gm_deferred_free_drain(&later) + gm_vmm_reserve_release(false) : 0;
}

static size_t vmm_releasable(struct gm_resource *self, int device) { return gm_vmm_reserve_bytes(device); }

static void vmm_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    gm_deferred_free_context_destroyed(&later, context_id);
    gm_vmm_reserve_release(false);
    gm_internal_forget(context_id);
}

/* A reset may have unmapped it already, which is as good. */
static void vmm_abandon(struct gm_resource *self, const struct gm_block *block) {
    gm_vmm_settle(block->address);
    struct mapped *gone = take_out(block->address);
    if (!gone)
        return;
    uint64_t at = block->address;
    for (unsigned i = 0; i < gone->count; at += gone->extents[i++].size) {
        gm_drv.mem_unmap(at, gone->extents[i].size);
        gm_drv.mem_release(gone->extents[i].handle);
    }
    gm_drv.mem_address_free(block->address, gone->reserved);
    put_back(gone, 0);
}

static void vmm_capture(struct gm_resource *self, int change) {
    if (change < 0 && gm_driver_ready(false))
        gm_deferred_free_flush(&later);
}

static void vmm_open_block_to(struct gm_resource *self, const struct gm_block *block, int device) {
    struct gm_vmm_extent first = {0};
    uint64_t reserved = 0;
    gm_spin_lock(&lock);
    const struct mapped *found = block->address ? find(block->address) : NULL;
    if (found) {
        first = found->extents[0];
        reserved = found->reserved;
    }
    gm_spin_unlock(&lock);
    if (reserved && device >= 0 && device < GM_VMM_DEVICES && give_access(device, 0, block->address, reserved, &first))
        gm_log(GM_LOG_WARN, "device %d cannot reach a block of device %d", device, block->device);
}

static void vmm_after_fork(struct gm_resource *self) {
    gm_deferred_free_after_fork(&later);
    gm_vmm_reserve_after_fork();
    lock.held = 0;
    blocks_used = 0;
}

const struct gm_resource_ops gm_resource_vmm = {
    .name = "vmm",
    .summary = "device memory mapped by virtual memory management, in whole granules of 2 MiB",
    .properties =
        GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_RESIDENT | GM_PROP_READY_ANYWHERE | GM_PROP_STREAM_ORDERED | GM_PROP_PEER,
    .breaks = "no cuIpcGetMemHandle, no dma-buf and no GPUDirect RDMA registration; not served where devices cannot "
              "access each "
              "other; each block takes whole granules of 2 MiB; at most 1024 blocks at a time, none while a stream "
              "captures; a free waits "
              "for the GPU; under GPUMEM_GROW=move-overcommit a block that the device has no room for lies in host "
              "memory, pointer "
              "attributes say so, and device memory is what it is counted as",
    .kind = GM_KIND_VMM,
    .serves = "vmm",
    .alloc = vmm_alloc,
    .overcommit = vmm_overcommit,
    .free = vmm_free,
    .trim = vmm_trim,
    .releasable = vmm_releasable,
    .context_destroyed = vmm_context_destroyed,
    .abandon = vmm_abandon,
    .capture = vmm_capture,
    .open_block_to = vmm_open_block_to,
    .after_fork = vmm_after_fork,
};
