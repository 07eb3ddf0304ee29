/* Regions of gpumem.h: memory that grows in place. A region is a list of extents (physical memory), mapped side by
 * side into its address range, and also into a second, read-only range once the program requested that view.
 *
 * Growing adds an extent and extends the ranges. When the addresses behind a range are taken, all extents are mapped
 * once more into a new, larger range, without a copy. Shrinking removes whole extents from the end.
 *
 * A failed step is undone completely, down to the last driver call. The state before the step is saved, and a replaced
 * range keeps its old addresses until everything is mapped in the new range. */
#include <stdlib.h>

#include "shim/base/base.h"
#include "shim/gpumem.h"
#include "shim/driver/internal_stream.h"
#include "shim/driver/program_driver.h"
#include "shim/base/error.h"
#include "shim/driver/quiesce.h"
#include "shim/driver/address_range.h"
#include "shim/region/region.h"

enum { RANGES = 2 };

static const size_t ahead_most = (size_t)64 << 20;

/* Everything that a step can change, except for the content of `extents`, which only gets longer within a step. */
struct state {
    size_t size, mapped;
    unsigned count; /* extents */
    unsigned range_count;
    struct gm_address_range ranges[RANGES]; /* the region's own range; the read-only range */
};

struct gpumem_region {
    struct gm_context context;
    struct gm_location location;
    uint64_t flags;
    unsigned room; /* capacity of `extents` */
    struct gm_extent *extents;
    struct state now;
};

/* ---- errors */

/* Stores the error text. The region's context must be current. */
static gm_status fail_step(const struct gpumem_region *region, gm_status status, const char *what, size_t size) {
    return gm_fail(status, "%s from %zu to %zu bytes on device %d%s: %s; %llu bytes free", what, region->now.size, size,
                   region->location.device, region->location.node >= 0 ? ", host memory" : "",
                   gpumem_status_name(status),
                   (unsigned long long)gm_location_free_bytes(gm_program_driver(), &region->location));
}

/* ---- context. Mapping does no work in a stream, so it is allowed while other threads capture. The driver wants this
 * thread in relaxed capture mode for that. */

gm_status gm_region_enter(const struct gpumem_region *region, bool *pushed) {
    gm_status status = gm_context_enter_again(&region->context, pushed);
    return status ? gm_fail(status, "the region's context cannot be entered: %s", gpumem_status_name(status)) : GM_OK;
}

/* ---- creation */

static size_t default_reserve(CUdevice device) {
    size_t total = 0;
    if (gm_drv.device_total_mem(&total, device) != CUDA_SUCCESS || !total)
        total = (size_t)16 << 30;
    return total;
}

static bool round_to(size_t size, size_t unit, size_t *rounded) {
    size_t over = size % unit;
    return !__builtin_add_overflow(size, over ? unit - over : 0, rounded);
}

static gm_status make(const struct gpumem_region_options *options, struct gpumem_region *region) {
    struct state *now = &region->now;
    size_t wanted;
    gm_status status = gm_location_find(gm_program_driver(), &region->location, options->flags & GPUMEM_REGION_HOST);
    status = status ? GM_NOT_SUPPORTED : gm_location_measure(gm_program_driver(), &region->location);
    if (status)
        return gm_fail(status, "device %d has no virtual memory management%s: %s", region->location.device,
                       options->flags & GPUMEM_REGION_HOST ? " of host memory" : "", gpumem_status_name(status));
    if (!round_to(options->reserve ? options->reserve : default_reserve(region->location.device),
                  region->location.granularity, &wanted))
        return gm_fail(GM_OUT_OF_MEMORY, "%zu bytes of addresses requested", options->reserve);
    status =
        gm_address_range_reserve(&now->ranges[0], options->reserve ? wanted : region->location.granularity, wanted);
    if (status)
        return gm_fail(status, "%zu bytes of addresses requested: %s", wanted, gpumem_status_name(status));
    now->range_count = 1;
    return GM_OK;
}

static gm_status read_region_options(const struct gpumem_region_options *options, struct gpumem_region_options *known) {
    const uint64_t flags = GPUMEM_REGION_HOST | GPUMEM_REGION_EXPORTABLE | GPUMEM_REGION_EXACT;
    *known = (struct gpumem_region_options){0};
    gm_status status = options ? gm_struct_read("gpumem_region_options", known, sizeof *known, options) : GM_OK;
    if (!status && known->flags & ~flags)
        status = gm_fail(GM_NOT_SUPPORTED, "region flags 0x%llx: gpumem %s knows 0x%llx",
                         (unsigned long long)known->flags, GM_VERSION, (unsigned long long)flags);
    return status;
}

static gm_status check_device(int device) {
    int count = 0;
    gm_status status = gm_program_driver()->device_get_count(&count);
    if (count > GM_LOCATION_DEVICES)
        count = GM_LOCATION_DEVICES;
    if (status || device < 0 || device >= count)
        return gm_fail(GM_INVALID_VALUE, "no device %d: there are %d", device, count);
    return GM_OK;
}

GM_PUBLIC enum gpumem_status gpumem_region_create(const struct gpumem_region_options *options,
                                                  struct gpumem_region **region) {
    GM_NEED(region);
    struct gpumem_region_options known;
    struct gm_context context;
    gm_status status = read_region_options(options, &known);
    if (status)
        return status;
    if ((status = gm_program_context(&context)))
        return status;
    for (int peer = 0; peer < GM_LOCATION_DEVICES && !status; peer++)
        status = known.peers >> peer & 1 ? check_device(peer) : GM_OK;
    if (status)
        return status;
    struct gpumem_region *made = calloc(1, sizeof *made);
    if (!made)
        return gm_fail(GM_OUT_OF_MEMORY, "no host memory for a region");
    made->context = context;
    made->flags = known.flags;
    made->location = (struct gm_location){
        .device = context.device,
        .peers = known.peers,
        .exportable = known.flags & GPUMEM_REGION_EXPORTABLE,
    };
    CUstreamCaptureMode mode = gm_capture_relax();
    status = make(&known, made);
    gm_capture_unrelax(mode);
    if (status)
        free(made);
    else
        *region = made;
    return status;
}

/* ---- growing */

/* Maps all extents into a new range, too. A failure leaves *range as it is. */
static gm_status map_anew(struct gpumem_region *region, bool read_only, size_t least, size_t wanted,
                          struct gm_address_range *range) {
    struct gm_address_range fresh = {.read_only = read_only};
    gm_status status = gm_address_range_reserve(&fresh, least, wanted);
    if (status)
        return status;
    status = gm_address_range_map_all(&fresh, &region->location, region->extents, region->now.count);
    if (status)
        gm_address_range_cut(&fresh, 0);
    else
        *range = fresh;
    return status;
}

static gm_status make_address_room(struct gpumem_region *region, size_t target) {
    gm_status status = GM_OK;
    for (unsigned i = 0; i < region->now.range_count && !status; i++) {
        struct gm_address_range *range = &region->now.ranges[i];
        if (range->reserved < target && gm_address_range_extend(range, target))
            status = map_anew(region, range->read_only, target, target <= SIZE_MAX / 4 ? target * 2 : target, range);
    }
    return status;
}

static gm_status grow_extent_list(struct gpumem_region *region) {
    if (region->now.count < region->room)
        return GM_OK;
    unsigned room = region->room ? region->room * 2 : 16;
    struct gm_extent *extents = realloc(region->extents, room * sizeof *extents);
    if (!extents)
        return GM_OUT_OF_MEMORY;
    region->extents = extents;
    region->room = room;
    return GM_OK;
}

/* Host memory is created only while the machine and the control groups of the process have enough to spare. */
static gm_status create_extent(const struct gm_location *location, size_t size, struct gm_extent *extent) {
    if (location->node >= 0 && gm_location_free_bytes(gm_program_driver(), location) < size)
        return GM_OUT_OF_MEMORY;
    return gm_extent_create(gm_program_driver(), location, size, extent);
}

static gm_status add_extent(struct gpumem_region *region, size_t size) {
    struct state *now = &region->now;
    struct gm_extent extent;
    gm_status status = grow_extent_list(region);
    if (!status)
        status = create_extent(&region->location, size, &extent);
    if (status)
        return status;
    unsigned mapped = 0;
    while (mapped < now->range_count && !status) {
        status = gm_address_range_map(&now->ranges[mapped], &region->location, now->mapped, &extent);
        mapped += !status;
    }
    if (status) {
        while (mapped-- > 0)
            (void)gm_address_range_unmap(&now->ranges[mapped], now->mapped, &extent);
        gm_extents_release(gm_program_driver(), &extent, 1);
        return status;
    }
    region->extents[now->count++] = extent;
    now->mapped += size;
    return GM_OK;
}

/* Bytes that a small step maps in all, so that many small steps create few handles. */
static size_t ahead_of(const struct gpumem_region *region) {
    size_t ahead = region->now.mapped / 20;
    if (region->flags & GPUMEM_REGION_EXACT)
        return 0;
    if (ahead > ahead_most)
        ahead = ahead_most;
    return ahead - ahead % region->location.granularity;
}

static gm_status add_extents(struct gpumem_region *region, size_t target) {
    struct state *now = &region->now;
    gm_status status = GM_OK;
    while (now->mapped < target && !status) {
        size_t need = target - now->mapped, room = SIZE_MAX, ahead = ahead_of(region);
        for (unsigned i = 0; i < now->range_count; i++) {
            size_t here = gm_address_range_room(&now->ranges[i], now->mapped);
            room = here < room ? here : room;
        }
        need = need < room ? need : room;
        ahead = ahead < room ? ahead : room;
        status = add_extent(region, ahead > need ? ahead : need);
        if (status == GM_OUT_OF_MEMORY && ahead > need)
            status = add_extent(region, need);
    }
    return status;
}

static bool any_base_changed(const struct state *before, const struct state *now) {
    for (unsigned i = 0; i < before->range_count; i++)
        if (before->ranges[i].base != now->ranges[i].base)
            return true;
    return false;
}

static void undo(struct gpumem_region *region, const struct state *before) {
    struct state *now = &region->now;
    while (now->count > before->count) {
        const struct gm_extent *extent = &region->extents[--now->count];
        now->mapped -= extent->size;
        for (unsigned i = 0; i < now->range_count; i++)
            (void)gm_address_range_unmap(&now->ranges[i], now->mapped, extent);
        gm_extents_release(gm_program_driver(), extent, 1);
    }
    for (unsigned i = 0; i < before->range_count; i++) {
        if (before->ranges[i].base != now->ranges[i].base)
            gm_address_range_drop(&now->ranges[i], region->extents, before->count);
        else
            gm_address_range_cut(&now->ranges[i], before->ranges[i].segment_count);
    }
    region->now = *before;
}

static gm_status grow_region(struct gpumem_region *region, size_t target) {
    struct state before = region->now;
    gm_status status = make_address_room(region, target);
    if (!status)
        status = add_extents(region, target);
    if (!status && any_base_changed(&before, &region->now))
        status = gm_quiesce(&region->context, region->location.peers);
    if (status) {
        undo(region, &before);
        return status;
    }
    for (unsigned i = 0; i < before.range_count; i++)
        if (before.ranges[i].base != region->now.ranges[i].base)
            gm_address_range_drop(&before.ranges[i], region->extents, before.count);
    return GM_OK;
}

GM_PUBLIC enum gpumem_status gpumem_region_grow(struct gpumem_region *region, size_t size) {
    GM_NEED(region);
    size_t target;
    bool pushed;
    if (size <= region->now.mapped) {
        region->now.size = size > region->now.size ? size : region->now.size;
        return GPUMEM_OK;
    }
    gm_status status = gm_region_enter(region, &pushed);
    if (status)
        return status;
    CUstreamCaptureMode mode = gm_capture_relax();
    status = round_to(size, region->location.granularity, &target) ? grow_region(region, target) : GM_OUT_OF_MEMORY;
    if (status)
        fail_step(region, status, "growing", size);
    else
        region->now.size = size;
    gm_capture_unrelax(mode);
    gm_context_leave(pushed);
    return status;
}

/* ---- shrinking and destruction */

static gm_status unmap_last(struct gpumem_region *region) {
    struct state *now = &region->now;
    const struct gm_extent *extent = &region->extents[now->count - 1];
    size_t offset = now->mapped - extent->size;
    for (unsigned i = now->range_count; i-- > 0;) {
        gm_status status = gm_address_range_unmap(&now->ranges[i], offset, extent);
        if (status) {
            while (++i < now->range_count)
                (void)gm_address_range_map(&now->ranges[i], &region->location, offset, extent);
            return status;
        }
    }
    now->count--;
    now->mapped = offset;
    gm_extents_release(gm_program_driver(), extent, 1);
    return GM_OK;
}

static gm_status shrink(struct gpumem_region *region, size_t size) {
    struct state *now = &region->now;
    gm_status status = GM_OK;
    if (!now->count || now->mapped - region->extents[now->count - 1].size < size)
        return GM_OK;
    status = gm_quiesce(&region->context, region->location.peers);
    while (!status && now->count && now->mapped - region->extents[now->count - 1].size >= size)
        status = unmap_last(region);
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_region_shrink(struct gpumem_region *region, size_t size) {
    GM_NEED(region);
    bool pushed;
    if (size > region->now.size)
        size = region->now.size;
    gm_status status = gm_region_enter(region, &pushed);
    if (status)
        return status;
    CUstreamCaptureMode mode = gm_capture_relax();
    status = shrink(region, size);
    if (status)
        fail_step(region, status, "shrinking", size);
    if (!status || region->now.size > region->now.mapped)
        region->now.size = size;
    gm_capture_unrelax(mode);
    gm_context_leave(pushed);
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_region_destroy(struct gpumem_region *region) {
    bool pushed = false;
    if (!region)
        return GPUMEM_OK;
    gm_status status = gm_region_enter(region, &pushed);
    if (!status)
        status = gm_quiesce(&region->context, region->location.peers);
    if (status == GM_STREAM_CAPTURE) {
        gm_context_leave(pushed);
        return gm_fail(status, "a region of %zu bytes cannot be destroyed while a stream is captured",
                       region->now.size);
    }
    CUstreamCaptureMode mode = gm_capture_relax();
    struct state *now = &region->now;
    for (unsigned i = 0; i < now->range_count; i++)
        gm_address_range_drop(&now->ranges[i], region->extents, now->count);
    gm_extents_release(gm_program_driver(), region->extents, now->count);
    gm_capture_unrelax(mode);
    gm_context_leave(pushed);
    if (status)
        gm_fail(status, "work before the destruction of a region failed: %s", gpumem_status_name(status));
    free(region->extents);
    free(region);
    return status;
}

/* ---- views */

static gm_status show(const struct gpumem_region *region, const struct gm_address_range *range,
                      struct gpumem_view *view) {
    struct gpumem_view shown = {
        .base = (void *)(uintptr_t)range->base,
        .size = region->now.size,
        .mapped = region->now.mapped,
        .capacity = range->reserved,
        .handles = region->now.count,
    };
    return gm_struct_write("gpumem_view", view, &shown, sizeof shown);
}

GM_PUBLIC enum gpumem_status gpumem_region_view(const struct gpumem_region *region, struct gpumem_view *view) {
    GM_NEED(region);
    return show(region, &region->now.ranges[0], view);
}

static gm_status add_alias(struct gpumem_region *region) {
    size_t reserved = region->now.ranges[0].reserved;
    /* The region's own range may have several segments, and no mapping crosses their border. The second range is one
     * segment, so it can hold all mappings. */
    gm_status status = map_anew(region, true, reserved, reserved, &region->now.ranges[region->now.range_count]);
    region->now.range_count += !status;
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_region_view_read_only(struct gpumem_region *region, struct gpumem_view *view) {
    GM_NEED(region);
    bool pushed;
    if (region->now.range_count < RANGES) {
        gm_status status = gm_region_enter(region, &pushed);
        if (status)
            return status;
        CUstreamCaptureMode mode = gm_capture_relax();
        status = add_alias(region);
        gm_capture_unrelax(mode);
        gm_context_leave(pushed);
        if (status)
            return gm_fail(status, "a read-only view of %zu bytes failed: %s", region->now.size,
                           gpumem_status_name(status));
    }
    return show(region, &region->now.ranges[1], view);
}

/* ---- sharing */

static gm_status allow(struct gpumem_region *region, int peer) {
    struct state *now = &region->now;
    for (unsigned r = 0; r < now->range_count; r++) {
        size_t offset = 0;
        for (unsigned i = 0; i < now->count; i++) {
            gm_status status = gm_mapping_open_to(
                gm_program_driver(), now->ranges[r].base + offset, region->extents[i].size, peer,
                now->ranges[r].read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
            if (status)
                return status;
            offset += region->extents[i].size;
        }
    }
    region->location.peers |= 1ull << peer;
    return GM_OK;
}

GM_PUBLIC enum gpumem_status gpumem_region_allow(struct gpumem_region *region, int peer) {
    GM_NEED(region);
    bool pushed;
    gm_status status = check_device(peer);
    if (!status)
        status = gm_region_enter(region, &pushed);
    if (status)
        return status;
    CUstreamCaptureMode mode = gm_capture_relax();
    status = allow(region, peer);
    gm_capture_unrelax(mode);
    gm_context_leave(pushed);
    return status ? gm_fail(status, "device %d cannot access a region of device %d: %s", peer, region->location.device,
                            gpumem_status_name(status))
                  : GM_OK;
}

GM_PUBLIC enum gpumem_status gpumem_region_export(const struct gpumem_region *region, size_t index, int *descriptor,
                                                  size_t *size) {
    GM_NEED(region);
    GM_NEED(descriptor);
    GM_NEED(size);
    if (!region->location.exportable || !gm_program_driver()->mem_export)
        return gm_fail(GM_NOT_SUPPORTED, "the region was not created with GPUMEM_REGION_EXPORTABLE");
    if (index >= region->now.count)
        return gm_fail(GM_INVALID_VALUE, "no handle %zu: the region has %u", index, region->now.count);
    int made = -1;
    gm_status status = gm_program_driver()->mem_export(&made, region->extents[index].handle,
                                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (status)
        return gm_fail(status, "a handle of %zu bytes cannot be exported: %s", region->extents[index].size,
                       gpumem_status_name(status));
    *descriptor = made;
    *size = region->extents[index].size;
    return GPUMEM_OK;
}
