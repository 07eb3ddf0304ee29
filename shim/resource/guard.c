/* Resource "guard": each block is a mapping of its own between addresses that are never mapped, so an access outside of
 * it faults. A free waits for the work submitted before it, as a native cudaFree does (deferred_free.h). Then the
 * mapping goes and its addresses stay reserved, so a later access faults, too (guard_ranges.h).
 *
 * A block ends where its mapping ends, but for the alignment of 512 bytes that native memory has and textures need. The
 * bytes between, and some before the block, hold a pattern. The free and the end of the process compare them. */
#include "shim/resource/guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/base/options.h"
#include "shim/base/stats.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/block.h"
#include "shim/resource/deferred_free.h"
#include "shim/resource/pitch.h"
#include "shim/resource/rows.h"
#include "shim/resource/vmm.h"

#define PATTERN 0xe5
enum { ALIGNMENT = 512, BEFORE = 512, DEVICES = 64, CHECKED_AT_EXIT = 4096 };

bool gm_guard_at_begin;
void (*gm_guard_damaged)(const struct gm_guard_block *block, const struct gm_guard_damage *damage);

/* ---- the pattern beside the block */

/* The bytes on one side of the block that its mapping has and that hold the pattern. */
static struct side {
    uint64_t address;
    size_t size;
} side_of(const struct gm_guard_block *block, bool before) {
    uint64_t end = block->address + block->size;
    size_t room = block->address - block->mapping;
    if (!before)
        return (struct side){end, block->mapping + block->mapped - end};
    room = room < BEFORE ? room : BEFORE;
    return (struct side){block->address - room, room};
}

/* Within the capture guard. The context is current. */
static gm_status private_stream(const struct gm_guard_block *block, CUstream *stream) {
    struct gm_internal internal;
    if (!gm_internal_of((CUcontext)(uintptr_t)block->context, block->context_id, block->device, &internal))
        return GM_NOT_SUPPORTED;
    return gm_internal_stream(&internal, GM_INTERNAL_ALLOC, stream);
}

/* Does not wait: nobody may write there, and the check comes later in the same stream. After a failure nothing is left
 * to be written. */
static gm_status write_pattern(const struct gm_guard_block *block) {
    CUstream stream;
    gm_status status = private_stream(block, &stream);
    for (int before = 0; before < 2 && !status; before++) {
        struct side side = side_of(block, before);
        if (side.size)
            status = (gm_status)gm_drv.memset_d8_async(side.address, PATTERN, side.size, stream);
        if (status && before)
            (void)gm_drv.stream_synchronize(stream);
    }
    return status;
}

/* `waits`: also for a pattern that is not written yet, because a kernel has all of the device. Otherwise that is
 * CUDA_ERROR_NOT_READY: such a kernel may never end. */
static gm_status read_side(const struct gm_guard_block *block, const struct side *side, unsigned char *bytes,
                           bool waits) {
    CUcontext context = (CUcontext)(uintptr_t)block->context;
    CUstreamCaptureMode mode;
    CUstream stream;
    bool pushed;
    int hold = gm_context_hold(context, block->context_id);
    if (hold < 0)
        return GM_INVALID_CONTEXT;
    gm_status status = GM_NOT_SUPPORTED;
    if (!gm_capture_guard_enter(&mode))
        goto let_go;
    status = gm_context_enter(context, &pushed);
    if (status)
        goto leave_guard;
    status = private_stream(block, &stream);
    if (!status && !waits)
        status = (gm_status)gm_drv.stream_query(stream);
    if (!status)
        status = (gm_status)gm_drv.memcpy_async((CUdeviceptr)(uintptr_t)bytes, side->address, side->size, stream);
    if (!status)
        status = (gm_status)gm_drv.stream_synchronize(stream);
    gm_context_leave(pushed);
leave_guard:
    gm_capture_guard_leave(mode);
let_go:
    gm_context_let_go(hold);
    return status;
}

static void compare(const struct gm_guard_block *block, const unsigned char *bytes, size_t size, bool before,
                    bool at_exit) {
    size_t first = 0, last = size;
    while (first < size && bytes[first] == PATTERN)
        first++;
    if (first == size)
        return;
    while (bytes[last - 1] == PATTERN)
        last--;
    __atomic_add_fetch(&gm_stats->guard_errors, 1, __ATOMIC_RELAXED);
    struct gm_guard_damage damage = {
        .before = before, .at_exit = at_exit, .distance = before ? size - last : first, .count = last - first};
    if (gm_guard_damaged)
        gm_guard_damaged(block, &damage);
}

/* Memory that cannot be read any more, as after a fault, is not compared. */
static void check_side(const struct gm_guard_block *block, bool before, bool at_exit) {
    struct side side = side_of(block, before);
    unsigned char few[BEFORE], *bytes = few;
    if (!side.size || (side.size > sizeof few && !(bytes = gm_pages(side.size))))
        return;
    if (!read_side(block, &side, bytes, !at_exit))
        compare(block, bytes, side.size, before, at_exit);
    if (bytes != few)
        munmap(bytes, side.size);
}

static void check_pattern(const struct gm_guard_block *block, bool at_exit) {
    check_side(block, false, at_exit);
    check_side(block, true, at_exit);
}

static void check_one(const struct gm_guard_block *block, void *left) {
    if (*(unsigned *)left) {
        --*(unsigned *)left;
        check_pattern(block, true);
    }
}

/* Runs while the driver still works: the driver's own handlers were registered before. */
static void check_live(void) {
    unsigned left = CHECKED_AT_EXIT;
    int depth = gm_mine.depth;
    gm_mine.depth = 1;
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

/* Maps new memory at block->mapping. On failure nothing is mapped. */
static gm_status map_block(struct gm_guard_block *block) {
    struct gm_location location = {.device = block->device, .node = -1};
    struct gm_extent extent;
    gm_status status = gm_extent_create(&gm_drv, &location, block->mapped, &extent);
    if (status)
        return status;
    status = gm_vmm_map(block->device, block->mapping, &extent, 1);
    gm_extents_release(&gm_drv, &extent, 1); /* the mapping holds the memory */
    if (status)
        return status;
    status = write_pattern(block);
    if (status)
        (void)gm_extents_unmap(&gm_drv, block->mapping, &extent, 1);
    return status;
}

static gm_status create_block(const struct gm_request *request, size_t size, size_t mapped,
                              struct gm_guard_block *block) {
    uint64_t mapping = gm_guard_range_take(mapped);
    if (!mapping)
        return GM_NOT_SUPPORTED;
    size_t before = gm_guard_at_begin ? 0 : mapped - (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *block = (struct gm_guard_block){.address = mapping + before,
                                     .size = size,
                                     .mapping = mapping,
                                     .mapped = mapped,
                                     .context = request->context,
                                     .context_id = request->context_id,
                                     .allocated_at = request->site,
                                     .device = (int16_t)request->device};
    gm_status status = map_block(block);
    if (status)
        gm_guard_range_release(mapping);
    else
        gm_guard_range_live(block);
    return status;
}

static gm_status unmap_block(const struct gm_guard_block *block) {
    struct gm_extent extent = {.size = block->mapped};
    gm_status status = gm_extents_unmap(&gm_drv, block->mapping, &extent, 1);
    if (!status)
        gm_guard_range_release(block->mapping);
    return status;
}

static gm_status free_now(const struct gm_deferred_block *deferred) {
    struct gm_guard_block block;
    if (!gm_guard_at(deferred->address, &block) || block.released)
        return GM_INVALID_VALUE;
    check_pattern(&block, false);
    return unmap_block(&block);
}

static struct gm_deferred_free deferred_frees = {.free_now = free_now};

void gm_guard_settle(void) { gm_deferred_free_flush(&deferred_frees); }

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
    gm_status status = prepare(request, &piece, &mapped);
    if (status)
        return status;
    if (!gm_capture_guard_enter(&mode))
        return GM_NOT_SUPPORTED;
    status = create_block(request, piece.reserved, mapped, &made);
    gm_capture_guard_leave(mode);
    if (status)
        return status;
    check_at_exit();
    piece.address = made.address;
    piece.reserved = piece.pitch ? made.mapping + mapped - made.address : mapped; /* rows fill all of it (fill.c) */
    gm_block_fill(block, self, request, &piece);
    return GM_OK;
}

static gm_status guard_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    if (!gm_guard_range_freed(block->address, how->site))
        return GM_INVALID_VALUE;
    gm_status status = gm_deferred_free_add(&deferred_frees, block, how);
    if (status)
        gm_guard_range_revive(block->address);
    return status;
}

static size_t guard_trim(struct gm_resource *self, size_t bytes) {
    return gm_driver_ready(false) ? gm_deferred_free_drain(&deferred_frees) : 0;
}

static bool guard_keeps(struct gm_resource *self, uint64_t address) {
    struct gm_guard_block block;
    return gm_guard_covers(address) && gm_guard_at(address, &block) && block.state == GM_GUARD_FREED;
}

static void guard_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    gm_deferred_free_context_destroyed(&deferred_frees, context_id);
    gm_internal_forget(context_id);
}

/* Errors are ignored: a reset of the device may have unmapped the block already. */
static void guard_abandon(struct gm_resource *self, const struct gm_block *block) {
    struct gm_guard_block lost;
    if (!gm_guard_at(block->address, &lost) || lost.released)
        return;
    gm_drv.mem_unmap(lost.mapping, lost.mapped);
    gm_guard_range_release(lost.mapping);
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
    .keeps = guard_keeps,
    .context_destroyed = guard_context_destroyed,
    .abandon = guard_abandon,
    .capture = guard_capture,
    .open_block_to = guard_open_block_to,
    .after_fork = guard_after_fork,
};
