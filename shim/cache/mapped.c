/* The calls of a program that maps its memory itself, and the maker of the memory that a cache keeps for it (mapped.h).
 */
#include "shim/cache/mapped.h"

#include "shim/base/room.h"
#include "shim/accounts/stats.h"
#include "shim/cache/cache.h"
#include "shim/cache/mapped_buffers.h"
#include "shim/cache/parts.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/in_flight.h"
#include "shim/driver/mapping.h"
#include "shim/resource/adaptor.h"
#include "shim/resource/releases.h"
#include "shim/resource/stack.h"

#define GRANULE ((size_t)2 << 20) /* least alignment of an address range */

enum { MOST_IDLE = 64, FREE_DEVIATIONS = 16, REUSES_FOR_ONE = 4 };

static struct gm_resource *cache;
static uint64_t reuses, deviations;
static int kept_properties = -1; /* code_of the kept buffers: that of the first one that came back */

/* The halves of a buffer that this thread requested and has not mapped yet. */
struct halves {
    CUdeviceptr address; /* made by the driver, 0: none */
    size_t address_size;
    CUmemGenericAllocationHandle handle; /* made by the driver, valid with handle_size */
    size_t handle_size;                  /* 0: none */
    CUcontext context;                   /* of the handle */
    uint64_t context_id;
    int device;
    int properties;         /* code_of */
    struct gm_buffer *kept; /* a kept buffer of which the thread has one half; valid with its serial */
    uint64_t serial;
};
GM_ROOM_FITS(struct halves, halves);

/* Where the kernel gives no memory for the thread, its halves are forgotten at each use. */
static struct halves *halves(void) {
    static struct halves forgotten;
    struct halves *own = gm_room_part(GM_ROOM_HALVES);
    if (GM_LIKELY(own != NULL))
        return own;
    forgotten = (struct halves){0};
    return &forgotten;
}

/* Without an event for a whole context, a fence would cost more than it saves. */
static bool is_on(void) {
    return cache && gm_drv.ctx_record_event &&
           __atomic_load_n(&deviations, __ATOMIC_RELAXED) <=
               FREE_DEVIATIONS + __atomic_load_n(&reuses, __ATOMIC_RELAXED) / REUSES_FOR_ONE;
}

static void note_deviation(void) {
    static int once;
    __atomic_add_fetch(&deviations, 1, __ATOMIC_RELAXED);
    if (!is_on())
        gm_log_once(&once, GM_LOG_INFO,
                    "mapped memory: the program's calls vary, so its buffers are not kept for reuse");
}

/* ---- one buffer; gm_buffers_lock is held, and released during calls of the driver */

static void forget_buffer(struct gm_buffer *buffer) {
    if (buffer->counted)
        gm_cache_count_released(cache->state, buffer->device, buffer->size, gm_bin_of_exact(buffer->size));
    gm_buffer_remove(buffer);
}

/* Undoes in the driver what the program has undone in its view. */
static gm_status undo(const struct gm_buffer *buffer) {
    const struct gm_extent extent = {buffer->handle, buffer->size};
    CUstreamCaptureMode mode = gm_capture_relax();
    gm_status status = buffer->mapped ? GM_OK : gm_extents_unmap(&gm_drv, buffer->address, &extent, 1);
    if (!status && buffer->withheld)
        gm_extents_release(&gm_drv, &extent, 1);
    if (!status && !buffer->mapped && !buffer->address_held)
        gm_addresses_free(&gm_drv, buffer->address, buffer->size);
    gm_capture_unrelax(mode);
    return status;
}

/* Memory that was kept, and that the cache does not count, goes back to the driver. */
static void give(int device, size_t size, enum gm_reason reason) {
    struct gm_releases releases;
    gm_releases_begin(&releases, reason);
    gm_release_note(GM_KIND_MAPPED, device, size);
    gm_stats_trimmed(size);
    gm_releases_end(&releases, false);
}

/* The buffer becomes ordinary memory of the program, and is forgotten. */
static void let_go_of(struct gm_buffer *buffer, bool was_kept) {
    buffer->busy = true;
    gm_spin_unlock(&gm_buffers_lock);
    if (was_kept)
        give(buffer->device, buffer->size, GM_REASON_REMAPPED);
    if (!buffer->mapped)
        gm_free_sync_notice();
    if (undo(buffer))
        gm_log(GM_LOG_ERROR, "mapped memory: the driver does not unmap %zu bytes", buffer->size);
    gm_spin_lock(&gm_buffers_lock);
    forget_buffer(buffer);
}

/* The cache itself counts a buffer of which the program has nothing. */
static void let_go(struct gm_buffer *buffer) { let_go_of(buffer, gm_buffer_is_idle(buffer)); }

struct range {
    CUdeviceptr address;
    size_t size;
};

static bool overlaps(const struct gm_buffer *buffer, const struct range *range) {
    return buffer->address < range->address + range->size && range->address < buffer->address + buffer->size;
}

static bool is_in_the_way(const struct gm_buffer *buffer, const void *range) {
    return !buffer->mapped && buffer->address_held && overlaps(buffer, range);
}

static bool is_in_use(const struct gm_buffer *buffer, const void *range) {
    return buffer->mapped && overlaps(buffer, range);
}

static bool is_idle_buffer(const struct gm_buffer *buffer, const void *unused) { return gm_buffer_is_idle(buffer); }

/* Only the driver has something mapped in the range: to the program it is empty. */
static void clear_range(CUdeviceptr address, size_t size) {
    const struct range range = {address, size};
    struct gm_buffer *buffer;
    while (gm_buffers_partly_held && (buffer = gm_buffer_search(is_in_the_way, &range)) != NULL) {
        note_deviation();
        let_go(buffer);
    }
}

/* Takes the lock. Returns the bytes of the buffers; it stops when they are `most`. */
static size_t let_go_all(bool (*which)(const struct gm_buffer *, const void *), const void *argument, size_t most) {
    size_t bytes = 0;
    gm_spin_lock(&gm_buffers_lock);
    for (struct gm_buffer *buffer; bytes < most && (buffer = gm_buffer_search(which, argument)) != NULL;) {
        bytes += buffer->size;
        let_go(buffer);
    }
    gm_spin_unlock(&gm_buffers_lock);
    return bytes;
}

/* The buffers of the range were used in another way than the sequence allows. Takes the lock. */
static void let_go_in_use(CUdeviceptr address, size_t size) {
    (void)let_go_all(is_in_use, &(const struct range){address, size}, SIZE_MAX);
}

/* ---- to the cache and back */

/* The program has nothing of the buffer any more. Releases the lock. Returns whether the cache keeps the memory. */
static bool keep(struct gm_buffer *buffer) {
    bool kept = false;
    const struct gm_free_request how = {.call = GM_CALL_FREE, .kept = &kept};
    const struct gm_block block = {.address = buffer->address,
                                   .size = buffer->size,
                                   .reserved = buffer->size,
                                   .context = (uint64_t)(uintptr_t)buffer->context,
                                   .context_id = buffer->context_id,
                                   .device = (int16_t)buffer->device,
                                   .call = GM_CALL_ALLOC,
                                   .kind = GM_KIND_MAPPED};
    bool living = gm_context_life(buffer->context, buffer->context_id) >= 0;
    if (!living)
        let_go(buffer);
    gm_spin_unlock(&gm_buffers_lock);
    if (!living)
        return false;
    if (gm_resource_free(cache, &block, &how) == GM_OK)
        return kept;
    gm_spin_lock(&gm_buffers_lock);
    buffer = gm_buffer_at(block.address);
    if (buffer && gm_buffer_is_kept(buffer))
        let_go(buffer);
    gm_spin_unlock(&gm_buffers_lock);
    return false;
}

/* The program gave back the memory, and natively it would be free now. Usually the address range follows at once.
 * Where it does not, the memory must not be held for long. Returns whether it is held. */
static bool hold_idle(struct gm_buffer *buffer) {
    bool living = gm_context_life(buffer->context, buffer->context_id) >= 0;
    if (living && gm_buffers_partly_held <= MOST_IDLE && buffer->size <= gm_cache_limit(cache->state, buffer->device)) {
        gm_watch_kept();
        return true;
    }
    if (living)
        note_deviation();
    let_go_of(buffer, false);
    return false;
}

/* A kept buffer of this size whose fence is complete. The lock is held if there is one. */
static struct gm_buffer *take_kept(const struct gm_request *request, int device, size_t size) {
    struct gm_request wanted = *request;
    wanted.call = GM_CALL_ALLOC;
    wanted.size = size;
    wanted.device = device;
    if (device < 0 || device >= GM_CACHE_DEVICES || !request->context_id)
        return NULL;
    CUdeviceptr address = gm_cache_take_exact(cache, &wanted);
    if (!address)
        return NULL;
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = gm_buffer_at(address);
    if (buffer)
        *halves() = (struct halves){.kept = buffer, .serial = buffer->serial};
    else
        gm_spin_unlock(&gm_buffers_lock);
    return buffer;
}

/* The kept buffer of which this thread has one half. The lock is held if there is one. */
static struct gm_buffer *half_taken(size_t size) {
    if (!halves()->kept)
        return NULL;
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = halves()->kept;
    if (buffer->serial == halves()->serial && !buffer->busy && buffer->size == size && !buffer->mapped)
        return buffer;
    gm_spin_unlock(&gm_buffers_lock);
    return NULL;
}

/* The kept buffer of which this thread has just the other half, which is the address or the handle; else a kept one of
 * which it has nothing, unless the other half came from the driver. The lock is held if there is one. */
static struct gm_buffer *half_of(const struct gm_request *request, int device, size_t size, bool address_held,
                                 bool other_is_native) {
    struct gm_buffer *buffer = half_taken(size);
    if (buffer && buffer->address_held == address_held && !buffer->holds == address_held)
        return buffer;
    if (buffer)
        gm_spin_unlock(&gm_buffers_lock);
    return !other_is_native && is_on() ? take_kept(request, device, size) : NULL;
}

/* ---- reservation of addresses */

static bool reserve_kept(const struct gm_request *request, CUdeviceptr *address, size_t size) {
    /* If the handle that this thread has came from the driver, the addresses must do so, too. */
    struct gm_buffer *buffer = half_of(request, request->device, size, false, halves()->handle_size == size);
    if (!buffer)
        return false;
    gm_buffer_change(buffer, buffer->holds, true, false);
    *address = buffer->address;
    gm_spin_unlock(&gm_buffers_lock);
    return true;
}

CUresult gm_mapped_reserve(const struct gm_request *request, CUdeviceptr *address, size_t size, size_t alignment,
                           CUdeviceptr wanted, unsigned long long flags) {
    bool ordinary = cache && address && !wanted && !flags && alignment <= GRANULE && !(alignment & (alignment - 1));
    if (ordinary && reserve_kept(request, address, size))
        return CUDA_SUCCESS;
    CUresult result = gm_drv.mem_address_reserve(address, size, alignment, wanted, flags);
    if (ordinary && result == CUDA_SUCCESS) {
        halves()->address = *address;
        halves()->address_size = size;
    }
    return result;
}

CUresult gm_mapped_address_free(CUdeviceptr address, size_t size) {
    if (!cache)
        return gm_drv.mem_address_free(address, size);
    if (halves()->address == address)
        halves()->address = 0;
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = gm_buffer_at(address);
    if (buffer && gm_buffer_is_kept(buffer)) {
        gm_spin_unlock(&gm_buffers_lock);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (buffer && !buffer->mapped && buffer->address_held && buffer->size == size) {
        int device = buffer->device;
        bool idle = gm_buffer_is_idle(buffer);
        gm_buffer_change(buffer, buffer->holds, false, false);
        if (!idle)
            gm_spin_unlock(&gm_buffers_lock);
        else if (!keep(buffer))
            give(device, size, GM_REASON_CACHE_LIMIT);
        return CUDA_SUCCESS;
    }
    clear_range(address, size);
    gm_spin_unlock(&gm_buffers_lock);
    return gm_drv.mem_address_free(address, size);
}

/* ---- handles */

/* Properties that differ between programs. A handle that can be exported is ordinary until it is. */
static int code_of(const CUmemAllocationProp *properties) {
    return (int)properties->requestedHandleTypes << 1 | !!properties->allocFlags.gpuDirectRDMACapable;
}

static bool is_ordinary(const CUmemAllocationProp *properties, int device) {
    const unsigned types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
    return properties && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           !(properties->requestedHandleTypes & ~types) && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           properties->location.id == device && !properties->win32HandleMetaData &&
           !properties->allocFlags.compressionType && !properties->allocFlags.usage;
}

/* Kept buffers differ in their size only, so that any of one size serves. */
static bool has_kept_properties(const struct gm_buffer *buffer) {
    int unknown = -1;
    return __atomic_compare_exchange_n(&kept_properties, &unknown, buffer->properties, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED) ||
           unknown == buffer->properties;
}

static bool create_kept(const struct gm_request *request, int device, CUmemGenericAllocationHandle *handle,
                        size_t size) {
    struct gm_buffer *buffer =
        half_of(request, device, size, true, halves()->address && halves()->address_size == size);
    if (!buffer)
        return false;
    gm_buffer_change(buffer, 1, buffer->address_held, false);
    buffer->withheld = false;
    *handle = buffer->handle;
    gm_spin_unlock(&gm_buffers_lock);
    return true;
}

CUresult gm_mapped_create(const struct gm_request *request, int device, CUmemGenericAllocationHandle *handle,
                          size_t size, const CUmemAllocationProp *properties, unsigned long long flags, bool *reused) {
    CUcontext context = (CUcontext)(uintptr_t)request->context;
    bool ordinary = cache && handle && size && !flags && device >= 0 && device < GM_CACHE_DEVICES &&
                    is_ordinary(properties, device) && gm_context_is_alone(context, request->context_id, device) &&
                    gm_cache_limit(cache->state, device);
    *reused = ordinary && code_of(properties) == __atomic_load_n(&kept_properties, __ATOMIC_RELAXED) &&
              create_kept(request, device, handle, size);
    if (*reused)
        return CUDA_SUCCESS;
    CUresult result = gm_drv.mem_create(handle, size, properties, flags);
    halves()->handle_size = 0;
    if (ordinary && result == CUDA_SUCCESS) {
        halves()->handle = *handle;
        halves()->handle_size = size;
        halves()->context = context;
        halves()->context_id = request->context_id;
        halves()->device = device;
        halves()->properties = code_of(properties);
    }
    return result;
}

CUresult gm_mapped_release(CUmemGenericAllocationHandle handle, bool *kept) {
    *kept = false;
    if (!cache)
        return gm_drv.mem_release(handle);
    if (halves()->handle_size && halves()->handle == handle)
        halves()->handle_size = 0;
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = gm_buffer_of(handle);
    if (buffer && !buffer->holds) {
        gm_spin_unlock(&gm_buffers_lock);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (buffer && buffer->holds == 1 && !buffer->withheld) {
        buffer->withheld = true;
        gm_buffer_change(buffer, 0, buffer->address_held, buffer->mapped);
        if (gm_buffer_is_kept(buffer)) {
            *kept = keep(buffer);
            return CUDA_SUCCESS;
        }
        *kept = gm_buffer_is_idle(buffer) && hold_idle(buffer);
        gm_spin_unlock(&gm_buffers_lock);
        return CUDA_SUCCESS;
    }
    if (buffer) /* the driver counts further references */
        gm_buffer_change(buffer, buffer->holds - 1, buffer->address_held, buffer->mapped);
    gm_spin_unlock(&gm_buffers_lock);
    return gm_drv.mem_release(handle);
}

static bool is_empty_at(const struct gm_buffer *buffer, const void *address) {
    const struct range at = {*(const CUdeviceptr *)address, 1};
    return !buffer->mapped && overlaps(buffer, &at);
}

bool gm_mapped_may_retain(CUdeviceptr address) {
    if (!cache)
        return true;
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = gm_buffer_at(address);
    bool may = buffer ? buffer->mapped : !gm_buffer_search(is_empty_at, &address);
    gm_spin_unlock(&gm_buffers_lock);
    return may;
}

bool gm_mapped_retained(CUmemGenericAllocationHandle handle) {
    if (!cache)
        return false;
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = gm_buffer_of(handle);
    if (buffer)
        gm_buffer_change(buffer, buffer->holds + 1, buffer->address_held, buffer->mapped);
    gm_spin_unlock(&gm_buffers_lock);
    return buffer != NULL;
}

void gm_mapped_share(CUmemGenericAllocationHandle handle) {
    if (!cache)
        return;
    if (halves()->handle_size && halves()->handle == handle)
        halves()->handle_size = 0;
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = gm_buffer_of(handle);
    if (buffer && !gm_buffer_is_kept(buffer))
        let_go(buffer);
    gm_spin_unlock(&gm_buffers_lock);
}

/* ---- mappings */

/* The driver mapped the memory. From now on the buffer is followed, if both halves are this thread's latest. */
static void follow(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle) {
    const struct gm_buffer buffer = {.address = address,
                                     .handle = handle,
                                     .size = size,
                                     .context = halves()->context,
                                     .context_id = halves()->context_id,
                                     .device = halves()->device,
                                     .properties = halves()->properties,
                                     .holds = 1,
                                     .address_held = true,
                                     .mapped = true};
    if (halves()->handle_size != size || halves()->handle != handle || halves()->address != address ||
        halves()->address_size != size || !is_on())
        return;
    *halves() = (struct halves){0};
    gm_spin_lock(&gm_buffers_lock);
    gm_buffer_add(&buffer);
    gm_spin_unlock(&gm_buffers_lock);
}

/* Prepares a mapping that no buffer can serve. The lock is held. Returns CUDA_SUCCESS if the driver shall be called. */
static CUresult prepare_map(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle) {
    struct gm_buffer *buffer = gm_buffer_of(handle);
    if (buffer && !buffer->holds)
        return CUDA_ERROR_INVALID_VALUE;
    if (buffer) {
        if (!buffer->mapped)
            note_deviation();
        let_go(buffer);
    }
    clear_range(address, size);
    return CUDA_SUCCESS;
}

CUresult gm_mapped_map(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                       unsigned long long flags, bool *reused) {
    *reused = false;
    if (!cache)
        return gm_drv.mem_map(address, size, offset, handle, flags);
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = gm_buffer_of(handle);
    *reused = buffer && buffer->address == address && buffer->size == size && !offset && !flags && !buffer->mapped &&
              buffer->holds && buffer->address_held;
    if (*reused) {
        gm_buffer_change(buffer, buffer->holds, true, true);
        halves()->kept = NULL;
        __atomic_add_fetch(&reuses, 1, __ATOMIC_RELAXED);
        gm_spin_unlock(&gm_buffers_lock);
        return CUDA_SUCCESS;
    }
    CUresult result = prepare_map(address, size, handle);
    gm_spin_unlock(&gm_buffers_lock);
    if (result == CUDA_SUCCESS)
        result = gm_drv.mem_map(address, size, offset, handle, flags);
    if (result == CUDA_SUCCESS && !offset && !flags)
        follow(address, size, handle);
    return result;
}

/* The devices that get read and write access; 0: another kind of access, too. */
static uint64_t devices_of(const CUmemAccessDesc *access, size_t count) {
    uint64_t devices = 0;
    for (size_t i = 0; access && i < count; i++) {
        const CUmemLocation *location = &access[i].location;
        if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id < 0 || location->id >= GM_CACHE_DEVICES ||
            access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return 0;
        devices |= 1ull << location->id;
    }
    return devices;
}

static bool has_own(const struct gm_buffer *buffer, uint64_t devices) { return devices >> buffer->device & 1; }

static void note_access(CUdeviceptr address, size_t size, uint64_t devices) {
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = gm_buffer_at(address);
    if (buffer && buffer->mapped && buffer->size == size) {
        buffer->accessible |= devices;
        buffer->opened |= devices;
        if (!buffer->counted && has_own(buffer, devices)) {
            gm_cache_count_owned(cache->state, buffer->device, size);
            buffer->counted = true;
        }
    }
    gm_spin_unlock(&gm_buffers_lock);
}

/* Access of other devices stays, too: the fence of a kept buffer covers their work (shim/driver/fence.h). */
CUresult gm_mapped_set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count) {
    if (!cache)
        return gm_drv.mem_set_access(address, size, access, count);
    uint64_t devices = devices_of(access, count);
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = gm_buffer_at(address);
    bool expected = buffer && buffer->mapped && buffer->size == size && devices;
    bool done = expected && !(devices & ~buffer->accessible), empty = buffer && gm_buffer_is_kept(buffer);
    if (done)
        buffer->opened |= devices;
    else if (!expected && !empty)
        clear_range(address, size);
    gm_spin_unlock(&gm_buffers_lock);
    if (done || empty)
        return done ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    CUresult result = gm_drv.mem_set_access(address, size, access, count);
    if (result == CUDA_SUCCESS && expected) {
        note_access(address, size, devices);
    } else if (result == CUDA_SUCCESS) {
        let_go_in_use(address, size);
    }
    return result;
}

static bool may_keep(const struct gm_buffer *buffer, bool pinned) {
    return is_on() && has_own(buffer, buffer->opened) && !pinned && has_kept_properties(buffer) &&
           gm_context_is_alone(buffer->context, buffer->context_id, buffer->device);
}

CUresult gm_mapped_unmap(CUdeviceptr address, size_t size, bool pinned, bool *kept) {
    *kept = false;
    if (!cache)
        return gm_drv.mem_unmap(address, size);
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = gm_buffer_at(address);
    bool empty = buffer && gm_buffer_is_kept(buffer);
    bool stays = buffer && buffer->mapped && buffer->size == size && may_keep(buffer, pinned);
    if (stays) {
        buffer->opened = 0;
        gm_buffer_change(buffer, buffer->holds, true, false);
        *kept = gm_buffer_is_idle(buffer) && hold_idle(buffer);
    } else if (!empty) {
        clear_range(address, size);
    }
    gm_spin_unlock(&gm_buffers_lock);
    if (stays || empty)
        return stays ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    CUresult result = gm_drv.mem_unmap(address, size);
    if (result == CUDA_SUCCESS)
        let_go_in_use(address, size);
    return result;
}

/* ---- the maker, which only frees: the program's own calls make the memory */

static gm_status mapped_alloc(struct gm_resource *self, const struct gm_request *request,
                              const struct gm_decision *decision, struct gm_block *block) {
    return GM_NOT_SUPPORTED;
}

/* A cache counted the buffer out before. */
static gm_status free_buffer(CUdeviceptr address) {
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = gm_buffer_at(address);
    if (buffer)
        buffer->busy = true;
    gm_spin_unlock(&gm_buffers_lock);
    if (!buffer)
        return GM_OK;
    gm_status status = undo(buffer);
    gm_spin_lock(&gm_buffers_lock);
    if (status)
        buffer->busy = false;
    else
        gm_buffer_remove(buffer);
    gm_spin_unlock(&gm_buffers_lock);
    return status;
}

/* As a native unmap, it waits for nothing but the work that a free of gpumem left in flight. */
static gm_status mapped_free(struct gm_resource *self, const struct gm_block *block,
                             const struct gm_free_request *how) {
    if (!how->idle)
        gm_free_sync_notice();
    return free_buffer(block->address);
}

static size_t mapped_trim(struct gm_resource *self, size_t bytes) { return let_go_all(is_idle_buffer, NULL, bytes); }

struct idle_bytes {
    int device;
    size_t bytes;
};

static bool add_idle(const struct gm_buffer *buffer, const void *argument) {
    struct idle_bytes *sum = (struct idle_bytes *)(uintptr_t)argument;
    if (gm_buffer_is_idle(buffer) && buffer->device == sum->device)
        sum->bytes += buffer->size;
    return false;
}

static size_t mapped_releasable(struct gm_resource *self, int device) {
    struct idle_bytes sum = {.device = device};
    gm_spin_lock(&gm_buffers_lock);
    if (gm_buffers_partly_held)
        gm_buffer_search(add_idle, &sum);
    gm_spin_unlock(&gm_buffers_lock);
    return sum.bytes;
}

static bool mapped_keeps(struct gm_resource *self, uint64_t address) {
    gm_spin_lock(&gm_buffers_lock);
    struct gm_buffer *buffer = gm_buffer_at(address);
    bool keeps = buffer && !buffer->mapped;
    gm_spin_unlock(&gm_buffers_lock);
    return keeps;
}

static bool ended_with_it(const struct gm_buffer *buffer, const void *context_id) {
    return buffer->context_id == *(const uint64_t *)context_id &&
           (gm_buffer_is_kept(buffer) || gm_buffer_is_idle(buffer));
}

/* Mapped memory outlives its context. */
static void mapped_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    (void)let_go_all(ended_with_it, &context_id, SIZE_MAX);
}

static void mapped_after_fork(struct gm_resource *self) {
    gm_buffers_after_fork();
    *halves() = (struct halves){0};
}

static const struct gm_resource_ops maker = {
    .name = "mapped",
    .summary = "buffers that the program mapped itself",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_RESIDENT | GM_PROP_DEVICE_STORAGE | GM_PROP_READY_ANYWHERE |
                  GM_PROP_OUTLIVES_CONTEXT,
    .breaks = "",
    .kind = GM_KIND_MAPPED,
    .granule = GRANULE,
    .alloc = mapped_alloc,
    .free = mapped_free,
    .trim = mapped_trim,
    .releasable = mapped_releasable,
    .keeps = mapped_keeps,
    .context_destroyed = mapped_context_destroyed,
    .after_fork = mapped_after_fork,
};

struct gm_resource *gm_mapped_start(void) {
    char error[160];
    struct gm_resource *given = gm_stack_of(&maker);
    cache = given ? gm_stack_build("cache($1)", &given, 1, error, sizeof error) : NULL;
    return cache;
}
