#include "tools/cli/replay_device.h"

#include "shim/driver/driver.h"
#include "tools/cli/live_blocks.h"

#include <stdlib.h>
#include <string.h>

#define GRAIN      ((uint64_t)512)
#define POOL_GRAIN ((uint64_t)2 << 20)
#define BOUNDLESS  ((uint64_t)1 << 46)
#define BASE       ((uint64_t)0x7f0000000000)
#define STEP \
    ((uint64_t)4096) /* between addresses: nothing lies behind them, so blocks need not be apart by their sizes */

enum { POOLS = 256 };

/* A context's handle is its number times this. */
#define CONTEXT_STEP ((uintptr_t)64)

struct pool {
    int device;
    bool alive;
    uint64_t used, reserved;
};

static struct {
    uint64_t total[GM_REPLAY_DEVICES], used[GM_REPLAY_DEVICES];
    int8_t device_of[65536]; /* by context; -1 = not seen */
    uint16_t current, pushed;
    bool capturing;
    struct gm_live_blocks blocks; /* by address: .site = pool + 1 or 0, .kind = device */
    struct pool pools[POOLS];
    uint64_t next, handles;
    uint64_t *idle; /* addresses to be used again */
    size_t idle_count, idle_room;
} cards;

struct gm_replay_device_counts gm_replay_device_counts;

static int device_now(void) { return cards.device_of[cards.current]; }

/* ---- room */

static bool grow(int device, uint64_t bytes) {
    if (cards.used[device] + bytes > cards.total[device])
        return false;
    cards.used[device] += bytes;
    gm_replay_device_counts.used += bytes;
    if (gm_replay_device_counts.used > gm_replay_device_counts.peak)
        gm_replay_device_counts.peak = gm_replay_device_counts.used;
    return true;
}

static void shrink(int device, uint64_t bytes) {
    cards.used[device] -= bytes;
    gm_replay_device_counts.used -= bytes;
}

static uint64_t new_address(void) {
    return cards.idle_count ? cards.idle[--cards.idle_count] : BASE + STEP * cards.next++;
}

/* An address that cannot be noted is not used again. */
static void put_address(uint64_t address) {
    if (cards.idle_count == cards.idle_room) {
        size_t more = cards.idle_room ? 2 * cards.idle_room : 1024;
        uint64_t *bigger = realloc(cards.idle, more * sizeof *bigger);
        if (!bigger)
            return;
        cards.idle = bigger;
        cards.idle_room = more;
    }
    cards.idle[cards.idle_count++] = address;
}

static uint64_t rounded(uint64_t bytes, uint64_t grain) { return (bytes + grain - 1) / grain * grain; }

static bool pool_takes(struct pool *pool, uint64_t bytes) {
    uint64_t used = pool->used + bytes;
    uint64_t more = used > pool->reserved ? rounded(used - pool->reserved, POOL_GRAIN) : 0;
    if (!grow(pool->device, more))
        return false;
    pool->reserved += more;
    pool->used = used;
    return true;
}

static CUresult take(uint64_t bytes, unsigned pool, CUdeviceptr *address) {
    int device = device_now();
    uint64_t size = rounded(bytes, GRAIN);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > BOUNDLESS || !(pool ? pool_takes(&cards.pools[pool - 1], size) : grow(device, size)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct gm_live_block block = {
        .key = new_address(), .bytes = size, .site = pool, .context = cards.current, .kind = (uint8_t)device};
    struct gm_live_block old;
    if (gm_live_blocks_add(&cards.blocks, &block, &old) < 0) {
        if (pool)
            cards.pools[pool - 1].used -= size;
        else
            shrink(device, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    gm_replay_device_counts.allocs++;
    *address = block.key;
    return CUDA_SUCCESS;
}

static CUresult give(CUdeviceptr address) {
    struct gm_live_block block;
    if (!gm_live_blocks_take(&cards.blocks, address, &block))
        return CUDA_ERROR_INVALID_VALUE;
    if (block.site)
        cards.pools[block.site - 1].used -= block.bytes;
    else
        shrink(block.kind, block.bytes);
    put_address(address);
    gm_replay_device_counts.frees++;
    return CUDA_SUCCESS;
}

/* ---- the driver's functions */

static CUresult mem_alloc(CUdeviceptr *address, size_t bytes) { return take(bytes, 0, address); }

static CUresult mem_alloc_managed(CUdeviceptr *address, size_t bytes, unsigned flags) {
    return take(bytes, 0, address);
}

static CUresult mem_alloc_pitch(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    uint64_t row = rounded(width, GRAIN), bytes;
    if (__builtin_mul_overflow(row, height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = take(bytes, 0, address);
    if (!result)
        *pitch = row;
    return result;
}

static CUresult mem_alloc_async(CUdeviceptr *address, size_t bytes, CUstream stream) { return take(bytes, 0, address); }

static CUresult mem_free(CUdeviceptr address) {
    gm_replay_device_counts.waits++;
    return give(address);
}

static CUresult mem_free_async(CUdeviceptr address, CUstream stream) { return give(address); }

static CUresult mem_get_info(size_t *free_bytes, size_t *total) {
    int device = device_now();
    *free_bytes = cards.total[device] - cards.used[device];
    *total = cards.total[device];
    return CUDA_SUCCESS;
}

static CUresult device_total_mem(size_t *total, CUdevice device) {
    *total = cards.total[device];
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

/* ---- pools; a handle is the pool's place from 1 */

static struct pool *pool_of(CUmemoryPool handle) { return &cards.pools[(uintptr_t)handle - 1]; }

static CUresult mem_pool_create(CUmemoryPool *made, const CUmemPoolProps *props) {
    for (uintptr_t i = 0; i < POOLS; i++)
        if (!cards.pools[i].alive) {
            cards.pools[i] = (struct pool){.device = device_now(), .alive = true};
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
    return take(bytes, (unsigned)(uintptr_t)pool, address);
}

/* ---- contexts */

static CUresult ctx_get_current(CUcontext *context) {
    *context = (CUcontext)(cards.current * CONTEXT_STEP);
    return CUDA_SUCCESS;
}

static CUresult ctx_push(CUcontext context) {
    cards.pushed = cards.current; /* nobody pushes twice */
    cards.current = (uint16_t)((uintptr_t)context / CONTEXT_STEP);
    return CUDA_SUCCESS;
}

static CUresult ctx_pop(CUcontext *context) {
    cards.current = cards.pushed;
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

/* ---- streams and events: all work is done */

static CUresult wait_for_all(void) {
    gm_replay_device_counts.waits++;
    return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *stream, unsigned flags) {
    *stream = (CUstream)(uintptr_t)(STEP * ++cards.handles);
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned flags) {
    *event = (CUevent)(uintptr_t)(STEP * ++cards.handles);
    return CUDA_SUCCESS;
}

static CUresult of_stream(CUstream stream) { return CUDA_SUCCESS; }

static CUresult wait_for_stream(CUstream stream) { return wait_for_all(); }

static CUresult stream_wait_event(CUstream stream, CUevent event, unsigned flags) { return CUDA_SUCCESS; }

static CUresult stream_is_capturing(CUstream stream, CUstreamCaptureStatus *status) {
    *status = cards.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
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

/* ---- what a replay does */

void gm_replay_device_install(const uint64_t total[GM_REPLAY_DEVICES]) {
    memset(cards.device_of, -1, sizeof cards.device_of);
    for (int i = 0; i < GM_REPLAY_DEVICES; i++)
        cards.total[i] = total[i] ? total[i] : BOUNDLESS;
    gm_driver_use(&driver);
}

void gm_replay_device_enter(uint16_t context, int device, bool capturing) {
    cards.current = context;
    cards.capturing = capturing;
    if (cards.device_of[context] < 0)
        cards.device_of[context] = (int8_t)(device >= 0 && device < GM_REPLAY_DEVICES ? device : 0);
}

void gm_replay_device_destroy_context(uint16_t context) {
    for (size_t i = 0; i < cards.blocks.size;) {
        const struct gm_live_block *block = &cards.blocks.slots[i];
        if (block->key && !block->site && block->context == context)
            give(block->key); /* others may move into the slot: it is looked at again */
        else
            i++;
    }
}

bool gm_replay_device_alloc(uint64_t bytes, uint64_t *address) {
    CUdeviceptr got;
    if (take(bytes, 0, &got))
        return false;
    *address = got;
    return true;
}

void gm_replay_device_free(uint64_t address) { give(address); }
