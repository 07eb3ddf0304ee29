/* Resource "guard": each block is a mapping of its own between addresses that are never mapped, so an access outside of
 * it faults. A free waits for the work submitted before it, as a native cudaFree does (deferred_free.h). Then the
 * mapping goes, with those of other freed blocks (guard_closing.h), and its addresses stay reserved, so a later access
 * faults, too (guard_ranges.h).
 *
 * A block ends where its mapping ends, but for its alignment, or starts where that starts (guard.h). The bytes of the
 * mapping beside it hold a pattern (guard_pattern.h), which is compared after the free and at the end of the process.
 * The memory serves later blocks at other addresses (guard_memory.h). */
#include "shim/resource/guard.h"

#include <stdlib.h>

#include "shim/base/options.h"
#include "shim/accounts/stats.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/block.h"
#include "shim/resource/deferred_free.h"
#include "shim/resource/guard_closing.h"
#include "shim/resource/guard_memory.h"
#include "shim/resource/guard_pattern.h"
#include "shim/resource/pitch.h"
#include "shim/resource/reach.h"
#include "shim/resource/rows.h"
#include "shim/resource/vmm.h"

enum { DEVICES = 64, CHECKED_AT_EXIT = 4096, ALIGNMENT = 512 };

enum gm_guard_side gm_guard_side;
unsigned gm_guard_alignment = ALIGNMENT;

/* ---- the end of the process */

static void check_one(const struct gm_guard_block *block, void *left) {
    if (*(unsigned *)left) {
        --*(unsigned *)left;
        gm_guard_pattern_check(block, GM_GUARD_AT_EXIT);
    }
}

/* Runs while the driver still works: the driver's own handlers were registered before. */
static void check_live(void) {
    unsigned left = CHECKED_AT_EXIT;
    int depth = gm_mine.depth;
    gm_mine.depth = 1;
    gm_guard_closer_end();
    (void)gm_guard_close_all(GM_GUARD_AT_LAST);
    gm_guard_each(check_one, &left);
    gm_mine.depth = (__typeof__(gm_mine.depth))depth;
}

static void check_at_exit(void) {
    static bool registered;
    if (!__atomic_load_n(&registered, __ATOMIC_RELAXED) && !__atomic_exchange_n(&registered, true, __ATOMIC_RELAXED))
        atexit(check_live);
}

/* ---- blocks */

static uint64_t reserve(size_t bytes) {
    CUdeviceptr address;
    return gm_addresses_reserve(&gm_drv, bytes, 0, &address) ? 0 : address;
}

static gm_status make_memory(struct gm_guard_memory *memory) {
    struct gm_location location = {.device = memory->device, .node = -1};
    gm_status status = gm_extent_create(&gm_drv, &location, memory->extent.size, &memory->extent);
    if (status)
        return status;
    status = gm_guard_memory_open(memory);
    if (status)
        gm_guard_memory_release(memory, false);
    return status;
}

static bool take_kept(struct gm_guard_memory *memory) {
    const struct gm_guard_memory wanted = *memory;
    while (gm_guard_memory_take(&wanted, memory)) {
        if (memory->reach == gm_reach_devices())
            return true;
        gm_guard_memory_release(memory, true); /* another device has a context since then */
    }
    *memory = wanted;
    return false;
}

/* Kept memory, or new. Where there is none, or no address, freed blocks make room. */
static gm_status find_memory(struct gm_guard_memory *memory, bool reusable, bool *reused) {
    *reused = reusable && take_kept(memory);
    gm_status status = *reused ? GM_OK : make_memory(memory);
    if (!status)
        return status;
    (void)gm_guard_close_all(GM_GUARD_REUSE);
    *reused = reusable && take_kept(memory);
    if (*reused)
        return GM_OK;
    (void)gm_guard_memory_release_all();
    return make_memory(memory);
}

static bool is_created(uint64_t stream) { return stream > (uintptr_t)CU_STREAM_PER_THREAD; }

/* A block in the order of a stream that the program created. What is done to memory in default streams may order
 * others. */
static void note_stream(const struct gm_request *request, struct gm_guard_block *block) {
    if (request->call != GM_CALL_ALLOC_ASYNC)
        return;
    if (!gm_guard_order_now())
        __atomic_store_n(&gm_guard_order, 1, __ATOMIC_RELAXED);
    block->in_order = is_created(request->stream);
    if (!block->in_order)
        gm_guard_orders();
    block->stream = request->stream;
    block->order = gm_guard_order_now();
}

static uint64_t random_bits(void) {
    static uint64_t drawn;
    uint64_t bits = gm_ticks() + __atomic_add_fetch(&drawn, 0x9e3779b97f4a7c15ull, __ATOMIC_RELAXED);
    bits = (bits ^ bits >> 31) * 0xbf58476d1ce4e5b9ull;
    return bits ^ bits >> 29;
}

/* Bytes of the mapping before the block. */
static size_t place_in(size_t mapped, size_t size, bool natural) {
    uint64_t random = gm_guard_side == GM_GUARD_AT_ANY ? random_bits() : 0;
    size_t alignment = natural ? ALIGNMENT : gm_guard_alignment;
    if (gm_guard_side == GM_GUARD_AT_BEGIN || random & 1)
        return 0;
    for (random >>= 1; random & 1 && alignment < ALIGNMENT; random >>= 1)
        alignment *= 2;
    return mapped - (size + alignment - 1) / alignment * alignment;
}

static gm_status create_block(const struct gm_request *request, size_t size, size_t mapped,
                              struct gm_guard_block *block, bool *reused) {
    bool reusable = request->call == GM_CALL_ALLOC;
    struct gm_guard_memory memory = {
        .extent = {.size = mapped},
        .device = request->device,
        .before = place_in(mapped, size, request->alignment || request->call == GM_CALL_ALLOC_PITCH),
        .size = size};
    const struct gm_guard_memory wanted = memory;
    gm_status status = find_memory(&memory, reusable, reused);
    if (status)
        return status;
    *block = (struct gm_guard_block){.address = memory.mapping + wanted.before,
                                     .size = size,
                                     .mapping = memory.mapping,
                                     .mapped = mapped,
                                     .memory = memory.extent.handle,
                                     .context = request->context,
                                     .context_id = request->context_id,
                                     .allocated_at = request->site,
                                     .device = (int16_t)request->device,
                                     .reusable = reusable};
    note_stream(request, block);
    block->whole = true;
    if (!gm_guard_memory_has_pattern(&memory, &wanted))
        status = gm_guard_pattern_write(block);
    else
        block->whole = memory.whole;
    if (status)
        gm_guard_memory_release(&memory, *reused);
    else
        gm_guard_range_live(block);
    return status;
}

static gm_status free_now(const struct gm_deferred_block *deferred) {
    struct gm_guard_block block;
    if (!gm_guard_at(deferred->address, &block) || block.released)
        return GM_INVALID_VALUE;
    if (!deferred->kept || !block.reusable || !gm_guard_closing_add(&block))
        return gm_guard_close(&block);
    *deferred->kept = true; /* it is counted by the free, and as whole mappings */
    return GM_OK;
}

static struct gm_deferred_free deferred_frees = {.free_now = free_now};

void gm_guard_settle(void) {
    gm_deferred_free_flush(&deferred_frees);
    (void)gm_guard_close_all(GM_GUARD_REUSE);
}

void gm_guard_settle_later(void) {
    gm_deferred_free_flush(&deferred_frees);
    gm_guard_close_later();
}

/* ---- requests */

static gm_status guard_open(struct gm_resource *self, const char *argument, char *error, size_t error_size) {
    gm_guard_ranges_setup(gm_option_number(GM_OPT_GUARD_RANGE), reserve);
    return GM_OK;
}

/* Size of the block and of its mapping. */
static gm_status prepare(const struct gm_request *request, struct gm_piece *piece, size_t *mapped) {
    size_t granularity;
    if (!gm_request_is_device(request) || request->capturing)
        return GM_NOT_SUPPORTED;
    gm_status status = gm_vmm_prepare(request, &granularity);
    if (!status && (GM_GUARD_GRANULE % granularity || request->device >= DEVICES))
        status = GM_NOT_SUPPORTED;
    if (status)
        return status;
    gm_deferred_free_flush(&deferred_frees);
    status = gm_shape_of(request, piece);
    if (status)
        return status;
    if (piece->reserved > SIZE_MAX - GM_GUARD_GRANULE)
        return GM_OUT_OF_MEMORY;
    *mapped = (piece->reserved + GM_GUARD_GRANULE - 1) / GM_GUARD_GRANULE * GM_GUARD_GRANULE;
    return GM_OK;
}

static gm_status guard_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    struct gm_guard_block made;
    struct gm_piece piece;
    CUstreamCaptureMode mode;
    size_t mapped;
    bool reused;
    gm_status status = prepare(request, &piece, &mapped);
    if (status)
        return status;
    if (!gm_capture_guard_enter(&mode))
        return GM_NOT_SUPPORTED;
    status = create_block(request, piece.reserved, mapped, &made, &reused);
    gm_capture_guard_leave(mode);
    if (status)
        return status;
    check_at_exit();
    __atomic_add_fetch(&gm_stats->guard_uncompared, 1, __ATOMIC_RELAXED);
    piece.address = made.address;
    piece.reserved = piece.pitch ? made.size : mapped; /* rows fill all of it (fill.c) */
    gm_block_fill(block, self, request, &piece);
    block->hit = reused;
    return GM_OK;
}

static gm_status guard_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    if (!gm_guard_range_freed(block->address, how->site, how->ended))
        return GM_INVALID_VALUE;
    if (how->call == GM_CALL_FREE_ASYNC && !is_created(how->stream))
        gm_guard_orders();
    gm_status status = gm_deferred_free_add(&deferred_frees, block, how);
    if (status)
        gm_guard_range_revive(block->address);
    return status;
}

static size_t guard_trim(struct gm_resource *self, size_t bytes) {
    if (!gm_driver_ready(false))
        return 0;
    size_t released = gm_deferred_free_drain(&deferred_frees) + gm_guard_close_all(GM_GUARD_RELEASE);
    released += gm_guard_memory_release_all();
    gm_guard_pattern_trim();
    return released;
}

static size_t guard_releasable(struct gm_resource *self, int device) {
    (void)gm_guard_close_all(GM_GUARD_REUSE); /* while another thread closes a block it is counted nowhere */
    return gm_guard_memory_bytes(device) + gm_guard_waiting_bytes(device);
}

static bool guard_keeps(struct gm_resource *self, uint64_t address) {
    struct gm_guard_block block;
    return gm_guard_covers(address) && gm_guard_at(address, &block) && block.state == GM_GUARD_FREED;
}

static void check_of_context(const struct gm_guard_block *block, void *context_id) {
    if (block->context_id == *(uint64_t *)context_id)
        gm_guard_pattern_check(block, GM_GUARD_AT_CONTEXT_END);
}

/* Afterwards no pattern of the context can be read. */
static void guard_context_ending(struct gm_resource *self, uint64_t context_id) {
    if (!gm_driver_ready(false) || !gm_guard_arenas())
        return;
    gm_guard_settle();
    gm_guard_each(check_of_context, &context_id);
}

static void guard_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    gm_deferred_free_context_destroyed(&deferred_frees, context_id);
    gm_guard_pattern_forget(context_id);
}

/* Errors are ignored: a reset of the device may have unmapped the block already. */
static void guard_abandon(struct gm_resource *self, const struct gm_block *block) {
    struct gm_guard_block lost;
    if (!gm_guard_at(block->address, &lost) || lost.released)
        return;
    gm_drv.mem_unmap(lost.mapping, lost.mapped);
    gm_drv.mem_release(lost.memory);
    gm_guard_range_release(lost.mapping);
}

static void guard_moved(const struct gm_block *block) {
    gm_guard_range_moved(block->address, block->context, block->context_id);
}

static void guard_capture(struct gm_resource *self, int change) {
    if (change < 0 && gm_driver_ready(false))
        gm_deferred_free_flush(&deferred_frees);
}

static void guard_open_block_to(struct gm_resource *self, const struct gm_block *block, int device) {
    struct gm_guard_block found;
    if (gm_guard_at(block->address, &found) && !found.released && device >= 0 && device < DEVICES &&
        gm_mapping_open_to(&gm_drv, found.mapping, found.mapped, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
        gm_log(GM_LOG_WARN, "device %d cannot reach a block of device %d", device, block->device);
}

static void guard_after_fork(struct gm_resource *self) {
    gm_deferred_free_after_fork(&deferred_frees);
    gm_guard_closing_after_fork();
    gm_guard_memory_after_fork();
    gm_guard_pattern_after_fork();
    gm_guard_ranges_after_fork();
}

const struct gm_resource_ops gm_resource_guard = {
    .name = "guard",
    .summary = "device memory between addresses that are never mapped, so that accesses outside a block, and after its "
               "free, fault",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_RESIDENT | GM_PROP_DEVICE_STORAGE | GM_PROP_READY_ANYWHERE |
                  GM_PROP_PEER | GM_PROP_STREAM_ORDERED | GM_PROP_OUTLIVES_CONTEXT,
    .breaks =
        "no cuIpcGetMemHandle, no dma-buf and no GPUDirect RDMA registration; not served where devices cannot "
        "access each other, nor while a stream captures; each block takes whole granules of 2 MiB; a free waits for "
        "the GPU",
    .kind = GM_KIND_GUARD,
    .granule = GM_GUARD_GRANULE,
    .alignment = 9,
    .serves = "guard",
    .open = guard_open,
    .alloc = guard_alloc,
    .free = guard_free,
    .trim = guard_trim,
    .releasable = guard_releasable,
    .keeps = guard_keeps,
    .context_ending = guard_context_ending,
    .context_destroyed = guard_context_destroyed,
    .abandon = guard_abandon,
    .moved = guard_moved,
    .capture = guard_capture,
    .open_block_to = guard_open_block_to,
    .after_fork = guard_after_fork,
};
