#include "tools/cli/replay_device.h"

#include "shim/driver/driver.h"
#include "tools/cli/live_blocks.h"

#include <stdlib.h>
#include <string.h>

#define GRAIN      ((uint64_t)512)
#define POOL_GRAIN ((uint64_t)2 << 20)
#define BOUNDLESS  ((uint64_t)1 << 46)
#define BASE       ((uint64_t)0x7f0000000000)
#define STEP       ((uint64_t)4096) /* distance of addresses; blocks have no contents, so they may overlap */

enum { POOLS = 256 };

/* A context's handle is its number times CONTEXT_STEP. */
#define CONTEXT_STEP ((uintptr_t)64)

struct pool {
    int device;
    bool alive;
    uint64_t used, reserved;
};

static struct {
    uint64_t total[GM_REPLAY_DEVICES], used[GM_REPLAY_DEVICES];
    int8_t device_of[65536]; /* by context; -1 = unknown */
    uint16_t current, pushed;
    bool capturing;
    struct gm_live_blocks blocks; /* by address: .site = pool + 1 or 0, .kind = device */
    struct pool pools[POOLS];
    uint64_t next, handles;
    uint64_t *free_addresses; /* freed addresses for reuse */
    size_t free_count, free_capacity;
} devices;

struct gm_replay_device_counts gm_replay_device_counts;

static int device_now(void) { return devices.device_of[devices.current]; }

/* ---- capacity */

static bool grow(int device, uint64_t bytes) {
    if (devices.used[device] + bytes > devices.total[device])
        return false;
    devices.used[device] += bytes;
    gm_replay_device_counts.used += bytes;
    return true;
}

static void shrink(int device, uint64_t bytes) {
    devices.used[device] -= bytes;
    gm_replay_device_counts.used -= bytes;
}

static uint64_t new_address(void) {
    return devices.free_count ? devices.free_addresses[--devices.free_count] : BASE + STEP * devices.next++;
}

/* Makes an address available for reuse. Without memory for the list it is never reused. */
static void recycle_address(uint64_t address) {
    if (devices.free_count == devices.free_capacity) {
        size_t more = devices.free_capacity ? 2 * devices.free_capacity : 1024;
        uint64_t *bigger = realloc(devices.free_addresses, more * sizeof *bigger);
        if (!bigger)
            return;
        devices.free_addresses = bigger;
        devices.free_capacity = more;
    }
    devices.free_addresses[devices.free_count++] = address;
}

static uint64_t rounded(uint64_t bytes, uint64_t grain) { return (bytes + grain - 1) / grain * grain; }

static bool pool_allocate(struct pool *pool, uint64_t bytes) {
    uint64_t used = pool->used + bytes;
    uint64_t more = used > pool->reserved ? rounded(used - pool->reserved, POOL_GRAIN) : 0;
    if (!grow(pool->device, more))
        return false;
    pool->reserved += more;
    pool->used = used;
    return true;
}

static CUresult allocate(uint64_t bytes, unsigned pool, CUdeviceptr *address) {
    int device = device_now();
    uint64_t size = rounded(bytes, GRAIN);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > BOUNDLESS || !(pool ? pool_allocate(&devices.pools[pool - 1], size) : grow(device, size)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct gm_live_block block = {
        .key = new_address(), .bytes = size, .site = pool, .context = devices.current, .kind = (uint8_t)device};
    struct gm_live_block old;
    if (gm_live_blocks_add(&devices.blocks, &block, &old) < 0) {
        if (pool)
            devices.pools[pool - 1].used -= size;
        else
            shrink(device, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    gm_replay_device_counts.allocs++;
    *address = block.key;
    return CUDA_SUCCESS;
}

static CUresult release(CUdeviceptr address) {
    struct gm_live_block block;
    if (!gm_live_blocks_take(&devices.blocks, address, &block))
        return CUDA_ERROR_INVALID_VALUE;
    if (block.site)
        devices.pools[block.site - 1].used -= block.bytes;
    else
        shrink(block.kind, block.bytes);
    recycle_address(address);
    gm_replay_device_counts.frees++;
    return CUDA_SUCCESS;
}

/* ---- the driver's functions */

static CUresult mem_alloc(CUdeviceptr *address, size_t bytes) { return allocate(bytes, 0, address); }

static CUresult mem_alloc_managed(CUdeviceptr *address, size_t bytes, unsigned flags) {
    return allocate(bytes, 0, address);
}

static CUresult mem_alloc_pitch(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    uint64_t row = rounded(width, GRAIN), bytes;
    if (__builtin_mul_overflow(row, height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = allocate(bytes, 0, address);
    if (!result)
        *pitch = row;
    return result;
}

static CUresult mem_alloc_async(CUdeviceptr *address, size_t bytes, CUstream stream) {
    return allocate(bytes, 0, address);
}

static CUresult mem_free(CUdeviceptr address) {
    gm_replay_device_counts.waits++;
    return release(address);
}

static CUresult mem_free_async(CUdeviceptr address, CUstream stream) { return release(address); }

static CUresult mem_get_info(size_t *free_bytes, size_t *total) {
    int device = device_now();
    *free_bytes = devices.total[device] - devices.used[device];
    *total = devices.total[device];
    return CUDA_SUCCESS;
}

static CUresult device_total_mem(size_t *total, CUdevice device) {
    *total = devices.total[device];
    return CUDA_SUCCESS;
}

static CUresult device_get_count(int *count) {
    *count = GM_REPLAY_DEVICES;
    return CUDA_SUCCESS;
}

static CUresult device_can_access_peer(int *can, CUdevice device, CUdevice peer) {
    *can = 1;
    return CUDA_SUCCESS;
}

static CUresult driver_get_version(int *version) {
    *version = 13000;
    return CUDA_SUCCESS;
}

static CUresult device_get_attribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY ||
             attribute == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS ||
             attribute == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    return CUDA_SUCCESS;
}

/* ---- pools; a handle is the pool's index plus 1 */

static struct pool *pool_of(CUmemoryPool handle) { return &devices.pools[(uintptr_t)handle - 1]; }

static CUresult mem_pool_create(CUmemoryPool *made, const CUmemPoolProps *props) {
    for (uintptr_t i = 0; i < POOLS; i++)
        if (!devices.pools[i].alive) {
            devices.pools[i] = (struct pool){.device = device_now(), .alive = true};
            *made = (CUmemoryPool)(i + 1);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult mem_pool_trim_to(CUmemoryPool handle, size_t keep) {
    struct pool *pool = pool_of(handle);
    uint64_t least = rounded(pool->used > keep ? pool->used : keep, POOL_GRAIN);
    if (pool->reserved > least) {
        shrink(pool->device, pool->reserved - least);
        pool->reserved = least;
    }
    return CUDA_SUCCESS;
}

static CUresult mem_pool_destroy(CUmemoryPool handle) {
    mem_pool_trim_to(handle, 0);
    pool_of(handle)->alive = false;
    return CUDA_SUCCESS;
}

static CUresult mem_pool_set_attribute(CUmemoryPool handle, CUmemPool_attribute name, void *value) {
    return CUDA_SUCCESS;
}

static CUresult mem_pool_get_attribute(CUmemoryPool handle, CUmemPool_attribute name, void *value) {
    if (name != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        return CUDA_ERROR_INVALID_VALUE;
    *(cuuint64_t *)value = pool_of(handle)->reserved;
    return CUDA_SUCCESS;
}

static CUresult mem_pool_set_access(CUmemoryPool handle, const CUmemAccessDesc *list, size_t count) {
    return CUDA_SUCCESS;
}

static CUresult mem_alloc_from_pool_async(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {
    return allocate(bytes, (unsigned)(uintptr_t)pool, address);
}

/* ---- contexts */

static CUresult ctx_get_current(CUcontext *context) {
    *context = (CUcontext)(devices.current * CONTEXT_STEP);
    return CUDA_SUCCESS;
}

static CUresult ctx_push(CUcontext context) {
    devices.pushed = devices.current; /* pushes do not nest */
    devices.current = (uint16_t)((uintptr_t)context / CONTEXT_STEP);
    return CUDA_SUCCESS;
}

static CUresult ctx_pop(CUcontext *context) {
    devices.current = devices.pushed;
    return CUDA_SUCCESS;
}

static CUresult ctx_get_device(CUdevice *device) {
    *device = device_now();
    return CUDA_SUCCESS;
}

static CUresult primary_get_state(CUdevice device, unsigned *flags, int *active) {
    *active = 0;
    return CUDA_SUCCESS;
}

/* ---- streams and events; all work has ended */

static CUresult wait_for_all(void) {
    gm_replay_device_counts.waits++;
    return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *stream, unsigned flags) {
    *stream = (CUstream)(uintptr_t)(STEP * ++devices.handles);
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned flags) {
    *event = (CUevent)(uintptr_t)(STEP * ++devices.handles);
    return CUDA_SUCCESS;
}

static CUresult of_stream(CUstream stream) { return CUDA_SUCCESS; }

static CUresult wait_for_stream(CUstream stream) { return wait_for_all(); }

static CUresult stream_wait_event(CUstream stream, CUevent event, unsigned flags) { return CUDA_SUCCESS; }

static CUresult stream_is_capturing(CUstream stream, CUstreamCaptureStatus *status) {
    *status = devices.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static CUresult exchange_capture_mode(CUstreamCaptureMode *mode) { return CUDA_SUCCESS; }

static CUresult of_event(CUevent event) { return CUDA_SUCCESS; }

static CUresult wait_for_event(CUevent event) { return wait_for_all(); }

static CUresult event_record(CUevent event, CUstream stream) { return CUDA_SUCCESS; }

static CUresult ctx_record_event(CUcontext context, CUevent event) { return CUDA_SUCCESS; }

static CUresult mem_advise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location) {
    return CUDA_SUCCESS;
}

static CUresult mem_prefetch_v2(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags,
                                CUstream stream) {
    return CUDA_SUCCESS;
}

static const struct gm_driver driver = {
    .ctx_get_current = ctx_get_current,
    .ctx_push = ctx_push,
    .ctx_pop = ctx_pop,
    .ctx_get_device = ctx_get_device,
    .ctx_synchronize = wait_for_all,
    .ctx_record_event = ctx_record_event,
    .primary_get_state = primary_get_state,
    .driver_get_version = driver_get_version,
    .device_get_count = device_get_count,
    .device_can_access_peer = device_can_access_peer,
    .device_get_attribute = device_get_attribute,
    .device_total_mem = device_total_mem,
    .mem_get_info = mem_get_info,
    .mem_alloc = mem_alloc,
    .mem_alloc_pitch = mem_alloc_pitch,
    .mem_alloc_managed = mem_alloc_managed,
    .mem_free = mem_free,
    .mem_alloc_async = mem_alloc_async,
    .mem_alloc_async_ptsz = mem_alloc_async,
    .mem_free_async = mem_free_async,
    .mem_free_async_ptsz = mem_free_async,
    .mem_alloc_from_pool_async = mem_alloc_from_pool_async,
    .mem_alloc_from_pool_async_ptsz = mem_alloc_from_pool_async,
    .mem_pool_create = mem_pool_create,
    .mem_pool_destroy = mem_pool_destroy,
    .mem_pool_set_attribute = mem_pool_set_attribute,
    .mem_pool_get_attribute = mem_pool_get_attribute,
    .mem_pool_set_access = mem_pool_set_access,
    .mem_pool_trim_to = mem_pool_trim_to,
    .mem_advise = mem_advise,
    .mem_prefetch_v2 = mem_prefetch_v2,
    .mem_prefetch_v2_ptsz = mem_prefetch_v2,
    .stream_create = stream_create,
    .stream_destroy = of_stream,
    .stream_query = of_stream,
    .stream_synchronize = wait_for_stream,
    .stream_wait_event = stream_wait_event,
    .stream_is_capturing = stream_is_capturing,
    .stream_is_capturing_ptsz = stream_is_capturing,
    .thread_exchange_capture_mode = exchange_capture_mode,
    .event_create = event_create,
    .event_destroy = of_event,
    .event_query = of_event,
    .event_synchronize = wait_for_event,
    .event_record = event_record,
    .event_record_ptsz = event_record,
};

/* ---- functions for the replay */

void gm_replay_device_install(const uint64_t total[GM_REPLAY_DEVICES]) {
    memset(devices.device_of, -1, sizeof devices.device_of);
    for (int i = 0; i < GM_REPLAY_DEVICES; i++)
        devices.total[i] = total[i] ? total[i] : BOUNDLESS;
    gm_driver_use(&driver);
}

void gm_replay_device_enter(uint16_t context, int device, bool capturing) {
    devices.current = context;
    devices.capturing = capturing;
    if (devices.device_of[context] < 0)
        devices.device_of[context] = (int8_t)(device >= 0 && device < GM_REPLAY_DEVICES ? device : 0);
}

void gm_replay_device_destroy_context(uint16_t context) {
    for (size_t i = 0; i < devices.blocks.size;) {
        const struct gm_live_block *block = &devices.blocks.slots[i];
        if (block->key && !block->site && block->context == context)
            release(block->key); /* another block may move into the slot, so the loop examines it again */
        else
            i++;
    }
}

bool gm_replay_device_alloc(uint64_t bytes, uint64_t *address) {
    CUdeviceptr got;
    if (allocate(bytes, 0, &got))
        return false;
    *address = got;
    return true;
}

void gm_replay_device_free(uint64_t address) { release(address); }
