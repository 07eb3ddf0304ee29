/* Handles in slabs, found by their tokens; mappings in an array, by ascending address (suspendable_handles.h). */
#include "shim/resource/suspendable_handles.h"

#include <string.h>
#include <sys/mman.h>

enum { IN_SLAB = 64, SLABS = 4096, INDEX_BITS = 18, MAPPINGS = 4096 };
_Static_assert(IN_SLAB *SLABS == 1 << INDEX_BITS, "a token has the index of its handle");

static struct gm_handle *slabs[SLABS], *unused;
static unsigned slab_count;
static uint64_t generation;
static struct gm_handle_mapping **mappings, *unused_mappings;
static size_t mapping_count, mapping_room;
GM_LOCK(lock); /* of all this; not held during calls of the driver */
GM_ZERO_IN_CHILD(slabs);
GM_ZERO_IN_CHILD(unused);
GM_ZERO_IN_CHILD(slab_count);
GM_ZERO_IN_CHILD(mappings);
GM_ZERO_IN_CHILD(unused_mappings);
GM_ZERO_IN_CHILD(mapping_count);
GM_ZERO_IN_CHILD(mapping_room);

static struct gm_handle *handle_of(struct gm_suspendable_range *range) { return (struct gm_handle *)range; }

/* ---- pages of a range */

static gm_status open_mapping(const struct gm_handle_mapping *mapping) {
    CUmemAccessDesc list[GM_LOCATION_DEVICES];
    unsigned count = 0;
    for (int device = 0; device < GM_LOCATION_DEVICES; device++) {
        bool writes = mapping->writers >> device & 1;
        if (writes || mapping->readers >> device & 1)
            list[count++] = (CUmemAccessDesc){
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                .flags = writes ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ,
            };
    }
    return count ? gm_drv.mem_set_access(mapping->address, mapping->size, list, count) : GM_OK;
}

static gm_status map_one(const struct gm_handle_mapping *mapping) {
    gm_status status =
        gm_drv.mem_map(mapping->address, mapping->size, mapping->offset, mapping->handle->extent.handle, 0);
    if (status)
        return status;
    status = open_mapping(mapping);
    if (status && GM_TWICE(gm_drv.mem_unmap(mapping->address, mapping->size)))
        gm_log(GM_LOG_ERROR, "%zu bytes cannot be unmapped again", mapping->size);
    return status;
}

/* Maps those before `end`. After an error none of them is mapped. */
static gm_status map_until(const struct gm_handle *handle, const struct gm_handle_mapping *end) {
    for (const struct gm_handle_mapping *mapping = handle->mappings; mapping != end; mapping = mapping->next) {
        gm_status status = map_one(mapping);
        if (!status)
            continue;
        for (const struct gm_handle_mapping *done = handle->mappings; done != mapping; done = done->next)
            if (GM_TWICE(gm_drv.mem_unmap(done->address, done->size)))
                gm_log(GM_LOG_ERROR, "%zu bytes cannot be unmapped again", done->size);
        return status;
    }
    return GM_OK;
}

static gm_status create_handle(struct gm_suspendable_range *range) {
    struct gm_handle *handle = handle_of(range);
    return gm_drv.mem_create(&handle->extent.handle, range->size, &handle->properties, 0);
}

static void uncreate_handle(struct gm_suspendable_range *range) { gm_extents_release(&gm_drv, range->extents, 1); }

static gm_status map_handle(struct gm_suspendable_range *range) {
    gm_status status = map_until(handle_of(range), NULL);
    if (!status)
        gm_suspendable_set_away(range, false);
    gm_suspendable_recount(range, true);
    return status;
}

static gm_status leave_handle(struct gm_suspendable_range *range) {
    const struct gm_handle *handle = handle_of(range);
    const struct gm_handle_mapping *mapping = handle->mappings;
    gm_status status = GM_OK;
    while (mapping && !(status = GM_TWICE(gm_drv.mem_unmap(mapping->address, mapping->size))))
        mapping = mapping->next;
    if (status && !map_until(handle, mapping))
        return status;
    for (; status && mapping; mapping = mapping->next) /* the contents are copied: the rest is given up, too */
        gm_drv.mem_unmap(mapping->address, mapping->size);
    uncreate_handle(range);
    gm_suspendable_set_away(range, true);
    gm_suspendable_recount(range, true);
    return status;
}

static void close_handle(struct gm_suspendable_range *range) {
    struct gm_handle *handle = handle_of(range);
    if (handle->window && !gm_extents_unmap(&gm_drv, handle->window, &handle->extent, 1))
        gm_addresses_free(&gm_drv, handle->window, range->size);
    range->address = handle->window = 0;
}

static gm_status open_handle(struct gm_suspendable_range *range) {
    struct gm_handle *handle = handle_of(range);
    const struct gm_location location = {.device = range->device, .node = -1};
    for (const struct gm_handle_mapping *mapping = handle->mappings; mapping; mapping = mapping->next)
        if (!mapping->offset && mapping->size == range->size && mapping->writers >> range->device & 1) {
            range->address = mapping->address;
            return GM_OK;
        }
    gm_status status = gm_addresses_reserve(&gm_drv, range->size, 0, &handle->window);
    if (status)
        return status;
    status = gm_extents_map(&gm_drv, handle->window, &handle->extent, 1);
    if (status) {
        gm_addresses_free(&gm_drv, handle->window, range->size);
        handle->window = 0;
        return status;
    }
    range->address = handle->window;
    status = gm_mapping_open(&gm_drv, &location, handle->window, range->size, false);
    if (status)
        close_handle(range);
    return status;
}

static const struct gm_suspendable_pages handle_pages = {
    .leave = leave_handle,
    .create = create_handle,
    .uncreate = uncreate_handle,
    .map = map_handle,
    .open = open_handle,
    .close = close_handle,
};

/* ---- handles. The lock is held. */

static bool add_slab(void) {
    struct gm_handle *slab = slab_count < SLABS ? gm_pages(IN_SLAB * sizeof *slab) : NULL;
    if (!slab)
        return false;
    for (unsigned i = IN_SLAB; i--;) {
        slab[i].token = slab_count * IN_SLAB + i; /* its index, until it is used */
        slab[i].next_unused = unused;
        unused = &slab[i];
    }
    slabs[slab_count++] = slab;
    return true;
}

static uint64_t index_of(uint64_t token) { return token & ((1u << INDEX_BITS) - 1); }

static uint64_t next_token(uint64_t index) {
    uint64_t number = ++generation & ((1ull << (GM_TOKEN_SHIFT - INDEX_BITS)) - 1);
    return (uint64_t)GM_TOKEN_PREFIX << GM_TOKEN_SHIFT | number << INDEX_BITS | index;
}

static struct gm_handle *find_handle(uint64_t token) {
    uint64_t index = index_of(token);
    if (!gm_is_token(token) || index / IN_SLAB >= slab_count)
        return NULL;
    struct gm_handle *handle = &slabs[index / IN_SLAB][index % IN_SLAB];
    return handle->token == token ? handle : NULL;
}

/* ---- mappings. The lock is held. */

/* Of the first mapping that ends behind the address. */
static size_t position_of(CUdeviceptr address) {
    size_t low = 0, high = mapping_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (mappings[middle]->address + mappings[middle]->size <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct gm_handle_mapping *mapping_at(CUdeviceptr address) {
    size_t at = position_of(address);
    return at < mapping_count && mappings[at]->address <= address ? mappings[at] : NULL;
}

static bool make_room(void) {
    size_t room = mapping_room ? 2 * mapping_room : MAPPINGS;
    if (mapping_count < mapping_room)
        return true;
    struct gm_handle_mapping **larger = gm_pages(room * sizeof *larger);
    if (!larger)
        return false;
    if (mappings) {
        memcpy(larger, mappings, mapping_count * sizeof *larger);
        munmap(mappings, mapping_room * sizeof *mappings);
    }
    mappings = larger;
    mapping_room = room;
    return true;
}

static struct gm_handle_mapping *take_mapping(void) {
    if (!unused_mappings) {
        struct gm_handle_mapping *more = gm_pages(IN_SLAB * sizeof *more);
        for (unsigned i = 0; more && i < IN_SLAB; i++) {
            more[i].next = unused_mappings;
            unused_mappings = &more[i];
        }
    }
    struct gm_handle_mapping *taken = unused_mappings;
    if (taken)
        unused_mappings = taken->next;
    return taken;
}

static void give_mapping(struct gm_handle_mapping *mapping) {
    *mapping = (struct gm_handle_mapping){.next = unused_mappings};
    unused_mappings = mapping;
}

static void take_out(size_t at) {
    struct gm_handle_mapping *mapping = mappings[at], **link = &mapping->handle->mappings;
    memmove(&mappings[at], &mappings[at + 1], (--mapping_count - at) * sizeof *mappings);
    while (*link != mapping)
        link = &(*link)->next;
    *link = mapping->next;
    give_mapping(mapping);
}

/* ---- handles of the program */

static const char *reason_to_stay(const CUmemAllocationProp *properties) {
    return properties->allocFlags.compressionType ? "compressible"
           : properties->allocFlags.usage         ? "for sparse arrays"
                                                  : NULL;
}

struct gm_handle *gm_handle_new(CUmemGenericAllocationHandle driver, size_t size,
                                const CUmemAllocationProp *properties) {
    gm_spin_lock(&lock);
    struct gm_handle *handle = unused || add_slab() ? unused : NULL;
    if (handle) {
        unused = handle->next_unused;
        *handle = (struct gm_handle){
            .range = {.pages = &handle_pages,
                      .size = size,
                      .device = properties->location.id,
                      .stays = reason_to_stay(properties),
                      .count = 1,
                      .extents = &handle->extent},
            .extent = {.handle = driver, .size = size},
            .properties = *properties,
            .token = next_token(index_of(handle->token)),
            .references = 1,
        };
    }
    gm_spin_unlock(&lock);
    if (handle)
        gm_suspendable_join(&handle->range);
    return handle;
}

struct gm_handle *gm_handle_begin(uint64_t token) {
    gm_spin_lock(&lock);
    struct gm_handle *handle = find_handle(token);
    if (handle)
        handle->calls++;
    gm_spin_unlock(&lock);
    return handle;
}

static void forget(struct gm_handle *handle, uint64_t token) {
    gm_suspendable_part(&handle->range);
    gm_suspendable_set_away(&handle->range, false);
    gm_suspendable_drop_backing(&handle->range);
    gm_spin_lock(&lock);
    *handle = (struct gm_handle){.token = index_of(token), .next_unused = unused};
    unused = handle;
    gm_spin_unlock(&lock);
}

gm_status gm_handle_end(struct gm_handle *handle) {
    gm_spin_lock(&lock);
    bool last = !--handle->calls && !handle->references && !handle->mappings;
    uint64_t token = handle->token;
    if (last)
        handle->token = 0;
    gm_spin_unlock(&lock);
    if (!last)
        return GM_OK;
    gm_status status = handle->range.away ? GM_OK : GM_TWICE(gm_drv.mem_release(handle->extent.handle));
    if (!status) {
        forget(handle, token);
        return GM_OK;
    }
    gm_spin_lock(&lock);
    handle->token = token;
    handle->references = 1;
    gm_spin_unlock(&lock);
    return status;
}

bool gm_handle_refer(struct gm_handle *handle, bool more) {
    gm_spin_lock(&lock);
    bool has = handle->references != 0;
    if (has)
        handle->references += more ? 1 : -1;
    gm_spin_unlock(&lock);
    return has;
}

struct gm_handle *gm_handle_retain_at(CUdeviceptr address) {
    gm_spin_lock(&lock);
    const struct gm_handle_mapping *mapping = mapping_at(address);
    struct gm_handle *handle = mapping ? mapping->handle : NULL;
    if (handle) {
        handle->calls++;
        handle->references++;
    }
    gm_spin_unlock(&lock);
    return handle;
}

/* ---- mappings of the program */

struct gm_handle_mapping *gm_handle_will_map(struct gm_handle *handle, CUdeviceptr address, size_t size,
                                             size_t offset) {
    gm_spin_lock(&lock);
    struct gm_handle_mapping *mapping = take_mapping();
    if (mapping)
        *mapping = (struct gm_handle_mapping){.handle = handle, .address = address, .size = size, .offset = offset};
    gm_spin_unlock(&lock);
    return mapping;
}

bool gm_handle_mapped(struct gm_handle_mapping *mapping) {
    gm_spin_lock(&lock);
    bool kept = make_room();
    if (kept) {
        size_t at = position_of(mapping->address);
        memmove(&mappings[at + 1], &mappings[at], (mapping_count++ - at) * sizeof *mappings);
        mappings[at] = mapping;
        mapping->next = mapping->handle->mappings;
        mapping->handle->mappings = mapping;
    } else {
        give_mapping(mapping);
    }
    gm_spin_unlock(&lock);
    return kept;
}

void gm_handle_not_mapped(struct gm_handle_mapping *mapping) {
    gm_spin_lock(&lock);
    give_mapping(mapping);
    gm_spin_unlock(&lock);
}

static void set_access(struct gm_handle_mapping *mapping, const CUmemAccessDesc *access) {
    uint64_t bit =
        access->location.id >= 0 && access->location.id < GM_LOCATION_DEVICES ? 1ull << access->location.id : 0;
    if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !bit) {
        mapping->handle->range.stays = "accessible to others than devices";
        return;
    }
    mapping->readers =
        access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? mapping->readers | bit : mapping->readers & ~bit;
    mapping->writers =
        access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? mapping->writers | bit : mapping->writers & ~bit;
}

void gm_handles_opened(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count) {
    gm_spin_lock(&lock);
    for (size_t at = position_of(address); at < mapping_count && mappings[at]->address < address + size; at++) {
        bool whole = mappings[at]->address >= address && mappings[at]->address + mappings[at]->size <= address + size;
        for (size_t i = 0; whole && i < count; i++)
            set_access(mappings[at], &access[i]);
        if (!whole)
            mappings[at]->handle->range.stays = "accessible in part";
    }
    gm_spin_unlock(&lock);
}

void gm_handles_unmapped(CUdeviceptr address, size_t size) {
    for (struct gm_handle *handle;;) {
        gm_spin_lock(&lock);
        size_t at = position_of(address);
        handle = at < mapping_count && mappings[at]->address < address + size ? mappings[at]->handle : NULL;
        if (handle) {
            handle->calls++;
            take_out(at);
        }
        gm_spin_unlock(&lock);
        if (!handle)
            return;
        if (gm_handle_end(handle))
            gm_log(GM_LOG_ERROR, "a handle of %zu bytes cannot be released", handle->range.size);
    }
}

enum gm_handles_there gm_handles_in(CUdeviceptr address, size_t size) {
    CUdeviceptr filled = address;
    bool away = false, present = false;
    gm_spin_lock(&lock);
    for (size_t at = position_of(address); at < mapping_count && mappings[at]->address < address + size; at++) {
        const struct gm_handle_mapping *mapping = mappings[at];
        bool gone = mapping->handle->range.away;
        away |= gone;
        present |= !gone || mapping->address != filled;
        filled = mapping->address + mapping->size;
    }
    gm_spin_unlock(&lock);
    return !away ? GM_HANDLES_PRESENT : present || filled != address + size ? GM_HANDLES_MIXED : GM_HANDLES_AWAY;
}

bool gm_handles_access(CUdeviceptr address, const CUmemLocation *location, unsigned long long *flags) {
    gm_spin_lock(&lock);
    const struct gm_handle_mapping *mapping = mapping_at(address);
    bool away = mapping && mapping->handle->range.away;
    if (away) {
        bool device =
            location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 && location->id < GM_LOCATION_DEVICES;
        *flags = device && mapping->writers >> location->id & 1   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                 : device && mapping->readers >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                                  : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
    gm_spin_unlock(&lock);
    return away;
}

struct gm_suspendable_range *gm_handles_range_at(CUdeviceptr address) {
    gm_spin_lock(&lock);
    const struct gm_handle_mapping *mapping = mapping_at(address);
    struct gm_suspendable_range *range = mapping && mapping->address == address ? &mapping->handle->range : NULL;
    gm_spin_unlock(&lock);
    return range;
}

bool gm_handles_cover(CUdeviceptr address) {
    if (!__atomic_load_n(&mapping_count, __ATOMIC_RELAXED))
        return false;
    gm_spin_lock(&lock);
    bool covers = mapping_at(address) != NULL;
    gm_spin_unlock(&lock);
    return covers;
}

void gm_handles_stay(CUdeviceptr address, const char *why) {
    gm_spin_lock(&lock);
    const struct gm_handle_mapping *mapping = mapping_at(address);
    if (mapping)
        mapping->handle->range.stays = why;
    gm_spin_unlock(&lock);
}
