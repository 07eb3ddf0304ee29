/* Pools, allocation and free (pool.h). */
#include "shim/resource/pool.h"

#include "shim/base/events.h"
#include "shim/accounts/stats.h"
#include "shim/driver/fence.h"
#include "shim/driver/in_flight.h"
#include "shim/resource/releases.h"
#include "shim/resource/reach.h"

#define SELDOM    16u     /* in stream order, the size of the pool is queried once in so many allocations */
#define ANSWER_NS 100000u /* time for an idle stream to report that it is idle */

/* ---- pools of devices */

static bool driver_has_pools(void) {
    return gm_drv.mem_pool_create && gm_drv.mem_pool_destroy && gm_drv.mem_pool_set_attribute &&
           gm_drv.mem_pool_get_attribute && gm_drv.mem_pool_set_access && gm_drv.mem_pool_trim_to &&
           gm_drv.mem_alloc_from_pool_async && gm_drv.mem_free_async;
}

static gm_status set_access(CUmemoryPool pool, int device, uint64_t reach) {
    for (int peer = 0; reach; peer++, reach >>= 1) {
        if (!(reach & 1) || peer == device)
            continue;
        CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, peer}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        gm_status status = gm_drv.mem_pool_set_access(pool, &access, 1);
        if (status)
            return status;
    }
    return GM_OK;
}

static gm_status set_attributes(CUmemoryPool pool) {
    static const struct {
        CUmemPool_attribute name;
        int value;
    } rows[] = {
        {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0},
        {CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0},
        {CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 1},
    };
    cuuint64_t threshold = UINT64_MAX;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int value = rows[i].value;
        gm_status status = gm_drv.mem_pool_set_attribute(pool, rows[i].name, &value);
        if (status)
            return status;
    }
    return gm_drv.mem_pool_set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
}

static gm_status create_pool(struct gm_pool_family *family, int device, uint64_t reach, CUmemoryPool *created) {
    CUmemPoolProps props = {0};
    CUmemoryPool pool;
    gm_status status = gm_reach_all() ? family->describe(device, &props) : GM_NOT_SUPPORTED;
    if (status == GM_NOT_SUPPORTED)
        __atomic_store_n(&family->devices[device].unsupported, true, __ATOMIC_RELAXED);
    if (status)
        return status;
    status = gm_drv.mem_pool_create(&pool, &props);
    if (status)
        return status;
    status = set_attributes(pool);
    if (!status)
        status = set_access(pool, props.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? device : -1, reach);
    if (status)
        gm_drv.mem_pool_destroy(pool);
    else
        *created = pool;
    return status;
}

static CUmemoryPool pool_of(const struct gm_pool_family *family, int device) {
    return __atomic_load_n(&family->devices[device].pool, __ATOMIC_SEQ_CST);
}

/* Frees on the internal stream of allocations. It never waits for work, so the memory can be reused or released at
 * once. This disturbs no capture. */
static gm_status free_on(const struct gm_internal *internal, uint64_t address) {
    CUstream stream;
    bool pushed;
    gm_status status = gm_context_enter(internal->context, &pushed);
    if (status)
        return status;
    CUstreamCaptureMode mode = gm_capture_relax();
    status = gm_internal_stream(internal, GM_INTERNAL_ALLOC, &stream);
    if (!status)
        status = gm_drv.mem_free_async(address, stream);
    gm_capture_unrelax(mode);
    gm_context_leave(pushed);
    return status;
}

/* Memory of a pool outlives its context, so after the context was destroyed any other context of the device will do. A
 * call in another context may find one. */
static gm_status pool_free_now(const struct gm_deferred_block *deferred) {
    CUcontext context = (CUcontext)(uintptr_t)deferred->context;
    struct gm_internal internal;
    struct gm_context now;
    bool found;
    int hold = gm_context_hold(context, deferred->context_id);
    if (hold == GM_CONTEXT_DESTROYED)
        found = gm_context_current(&now) && now.device == deferred->device &&
                gm_internal_of(now.handle, now.id, now.device, &internal);
    else
        found = hold >= 0 && gm_internal_of(context, deferred->context_id, deferred->device, &internal);
    gm_status status = found ? free_on(&internal, deferred->address) : GM_FENCE_PENDING;
    if (hold >= 0)
        gm_context_let_go(hold);
    return status;
}

/* Returns the device's pool, which the first call creates. If two threads create it at once, the second destroys its
 * own. A thread stores the pool and then reads the devices with contexts; another one notes a device (reach.h) and then
 * reads the pools. So at least one of the two opens the pool to the device. */
static gm_status obtain_pool(struct gm_pool_family *family, int device, CUmemoryPool *pool) {
    *pool = pool_of(family, device);
    if (GM_LIKELY(*pool != NULL))
        return GM_OK;
    if (__atomic_load_n(&family->devices[device].unsupported, __ATOMIC_RELAXED))
        return GM_NOT_SUPPORTED;
    uint64_t open = gm_reach_devices(), reach = family->reach ? family->reach(device) : 0;
    CUmemoryPool created;
    gm_status status = create_pool(family, device, reach | open, &created);
    if (status)
        return status;
    gm_spin_lock(&family->lock);
    *pool = family->devices[device].pool;
    if (!*pool) {
        family->devices[device].frees.free_now = pool_free_now; /* before the first block */
        gm_watch_kept();
        __atomic_store_n(&family->devices[device].pool, created, __ATOMIC_SEQ_CST);
    }
    gm_spin_unlock(&family->lock);
    if (*pool) {
        gm_drv.mem_pool_destroy(created);
        return GM_OK;
    }
    *pool = created;
    GM_PUBLISH(much_kept, device);
    uint64_t since = gm_reach_devices() & ~open;
    if (since && set_access(created, device, since))
        gm_log(GM_LOG_WARN, "%s: other devices cannot reach the pool of device %d", family->name, device);
    return GM_OK;
}

/* ---- size */

static uint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute) {
    cuuint64_t bytes = 0;
    return gm_drv.mem_pool_get_attribute(pool, attribute, &bytes) == CUDA_SUCCESS ? bytes : 0;
}

static uint64_t reserved_of(CUmemoryPool pool) { return pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); }

/* Counts what the pool of the device has taken. */
static void count_size(struct gm_pool_family *family, int device) {
    CUmemoryPool pool = pool_of(family, device);
    gm_pool_resized(family->kind, device, pool ? reserved_of(pool) : 0, &family->devices[device].counted);
}

/* ---- allocation */

bool gm_pool_serves(const struct gm_request *request) {
    return gm_request_is_uncaptured(request) && request->device >= 0 && request->device < GM_POOL_DEVICES;
}

/* True for a stream of another context: its allocation would be on the device of that context. */
static bool stream_is_foreign(const struct gm_request *request) {
    CUcontext owner = NULL;
    if (request->stream <= (uint64_t)(uintptr_t)CU_STREAM_PER_THREAD || !gm_drv.stream_get_ctx)
        return false;
    return gm_drv.stream_get_ctx((CUstream)request->stream, &owner) != CUDA_SUCCESS ||
           (uint64_t)(uintptr_t)owner != request->context;
}

static gm_status alloc_in_order(CUmemoryPool pool, const struct gm_request *request, size_t bytes,
                                CUdeviceptr *address) {
    __typeof__(gm_drv.mem_alloc_from_pool_async) alloc =
        request->per_thread ? gm_drv.mem_alloc_from_pool_async_ptsz : gm_drv.mem_alloc_from_pool_async;
    if (!alloc || stream_is_foreign(request))
        return GM_NOT_SUPPORTED;
    return alloc(address, bytes, pool, (CUstream)request->stream);
}

static gm_status alloc_ready(CUmemoryPool pool, const struct gm_internal *internal, size_t bytes,
                             CUdeviceptr *address) {
    CUstream stream;
    CUdeviceptr got;
    gm_status status = gm_internal_stream(internal, GM_INTERNAL_ALLOC, &stream);
    if (!status)
        status = gm_drv.mem_alloc_from_pool_async(&got, bytes, pool, stream);
    if (status)
        return status;
    /* Without event following and internal dependencies the pool returns only memory whose free is complete, and the
     * stream never waits. But the driver promises the memory only in the order of this stream. So the stream is
     * queried, and waited for if it is busy, which was never observed. */
    status = gm_drv.stream_query(stream);
    if (status == GM_FENCE_PENDING)
        status = gm_drv.stream_synchronize(stream);
    if (status)
        gm_drv.mem_free_async(got, stream);
    else
        *address = got;
    return status;
}

/* Waits for the frees in flight, so that their memory can be reused or released. */
static void wait_for_frees(struct gm_pool_family *family, const struct gm_internal *internal) {
    CUstream stream;
    gm_deferred_free_drain(&family->devices[internal->device].frees);
    if (gm_internal_stream_made(internal, GM_INTERNAL_ALLOC, &stream))
        gm_drv.stream_synchronize(stream);
}

static gm_status alloc_once(CUmemoryPool pool, const struct gm_internal *internal, const struct gm_request *request,
                            size_t bytes, CUdeviceptr *address) {
    return request->call == GM_CALL_ALLOC_ASYNC ? alloc_in_order(pool, request, bytes, address)
                                                : alloc_ready(pool, internal, bytes, address);
}

/* The device has no memory for more pages: releases what the pool does not use. */
static GM_RARE void trim_for_lack(struct gm_pool_family *family, const struct gm_internal *internal,
                                  CUmemoryPool pool) {
    struct gm_releases releases;
    count_size(family, internal->device); /* for the account that is taken before */
    gm_releases_begin(&releases, GM_REASON_OUT_OF_MEMORY);
    uint64_t before = reserved_of(pool);
    wait_for_frees(family, internal);
    gm_drv.mem_pool_trim_to(pool, 0);
    uint64_t after = reserved_of(pool);
    gm_stats_trimmed(before > after ? before - after : 0);
    count_size(family, internal->device);
    gm_releases_end(&releases, false);
}

static gm_status alloc_guarded(struct gm_pool_family *family, const struct gm_internal *internal,
                               const struct gm_request *request, struct gm_piece *piece) {
    CUmemoryPool pool;
    CUdeviceptr address = 0;

    gm_status status = obtain_pool(family, internal->device, &pool);
    if (status)
        return status;
    status = alloc_once(pool, internal, request, piece->reserved, &address);
    if (status == GM_OUT_OF_MEMORY) {
        trim_for_lack(family, internal, pool);
        status = alloc_once(pool, internal, request, piece->reserved, &address);
    }
    piece->address = address;
    /* An allocation in stream order is as cheap as the question for the size of its pool. */
    if (request->call != GM_CALL_ALLOC_ASYNC || status ||
        __atomic_fetch_add(&family->devices[internal->device].in_order, 1, __ATOMIC_RELAXED) % SELDOM == 0)
        count_size(family, internal->device);
    if (!status && family->served)
        family->served(request, piece);
    return status;
}

gm_status gm_pool_alloc(struct gm_pool_family *family, const struct gm_request *request, struct gm_piece *piece) {
    CUstreamCaptureMode mode;
    struct gm_internal internal;

    if (!driver_has_pools() ||
        !gm_internal_of((CUcontext)(uintptr_t)request->context, request->context_id, request->device, &internal))
        return GM_NOT_SUPPORTED;
    gm_deferred_free_flush(&family->devices[request->device].frees);
    if (!gm_capture_guard_enter(&mode))
        return GM_NOT_SUPPORTED;
    gm_status status = alloc_guarded(family, &internal, request, piece);
    gm_capture_guard_leave(mode);
    return status;
}

/* ---- free */

static gm_status free_in_order(uint64_t address, const struct gm_free_request *how) {
    __typeof__(gm_drv.mem_free_async) release = how->per_thread ? gm_drv.mem_free_async_ptsz : gm_drv.mem_free_async;
    return release ? (gm_status)release(address, (CUstream)how->stream) : GM_NOT_SUPPORTED;
}

gm_status gm_pool_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    if (how->call == GM_CALL_FREE_ASYNC)
        return free_in_order(block->address, how);
    if (how->call != GM_CALL_FREE || block->device < 0 || block->device >= GM_POOL_DEVICES)
        return GM_INVALID_VALUE;
    struct gm_deferred_block deferred = gm_deferred_block_of(block);
    if (how->idle)
        return pool_free_now(&deferred);
    return gm_deferred_free_later(&self->ops->pool->devices[block->device].frees, block);
}

void gm_pool_capture(struct gm_resource *self, int change) {
    for (int device = 0; change < 0 && device < GM_POOL_DEVICES; device++)
        gm_deferred_free_flush(&self->ops->pool->devices[device].frees);
}

/* ---- unused memory, contexts and devices */

static uint64_t unused_in(CUmemoryPool pool, uint64_t reserved) {
    uint64_t used = pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    return reserved > used ? reserved - used : 0;
}

void gm_pool_held(struct gm_resource *self, int device, uint64_t bytes[GM_REASON_COUNT]) {
    CUmemoryPool pool = device >= 0 && device < GM_POOL_DEVICES ? pool_of(self->ops->pool, device) : NULL;
    bytes[GM_REASON_PARTLY_USED] += pool ? unused_in(pool, reserved_of(pool)) : 0;
}

uint64_t gm_pool_reserved(struct gm_pool_family *family) {
    uint64_t bytes = 0;
    for (int device = 0; device < GM_POOL_DEVICES; device++) {
        CUmemoryPool pool = pool_of(family, device);
        if (pool)
            bytes += reserved_of(pool);
    }
    return bytes;
}

size_t gm_pool_release(struct gm_pool_family *family, size_t bytes) {
    struct gm_context context;
    struct gm_internal internal;
    size_t released = 0;

    if (!gm_driver_ready(false) || !gm_context_current(&context) || context.device < 0 ||
        context.device >= GM_POOL_DEVICES)
        return 0;
    CUmemoryPool pool = pool_of(family, context.device);
    if (!pool || !gm_internal_of(context.handle, context.id, context.device, &internal))
        return 0;
    CUstreamCaptureMode mode = gm_capture_relax();
    wait_for_frees(family, &internal);
    uint64_t before = reserved_of(pool);
    if (gm_drv.mem_pool_trim_to(pool, before > bytes ? before - bytes : 0) == CUDA_SUCCESS) {
        uint64_t after = reserved_of(pool);
        released = before > after ? before - after : 0;
    }
    count_size(family, context.device);
    gm_capture_unrelax(mode);
    gm_stats_trimmed(released);
    return released;
}

size_t gm_pool_lend(struct gm_resource *self, size_t bytes) {
    struct gm_pool_family *family = self->ops->pool;
    size_t released = 0;
    for (int device = 0; device < GM_POOL_DEVICES && released < bytes; device++) {
        CUmemoryPool pool = pool_of(family, device);
        uint64_t before = pool ? reserved_of(pool) : 0, wanted = bytes - released;
        if (!before || gm_drv.mem_pool_trim_to(pool, before > wanted ? before - wanted : 0) != CUDA_SUCCESS)
            continue;
        uint64_t after = reserved_of(pool);
        released += before > after ? before - after : 0;
        count_size(family, device);
    }
    gm_stats_trimmed(released);
    return released;
}

size_t gm_pool_trim(struct gm_resource *self, size_t bytes) { return gm_pool_release(self->ops->pool, bytes); }

size_t gm_pool_releasable(struct gm_resource *self, int device) {
    struct gm_pool_family *family = self->ops->pool;
    struct gm_context context;
    struct gm_internal internal;
    CUstreamCaptureMode mode;
    CUstream stream;

    if (device < 0 || device >= GM_POOL_DEVICES || !gm_context_current(&context) || context.device != device)
        return 0;
    CUmemoryPool pool = pool_of(family, device);
    if (!pool || !gm_internal_of(context.handle, context.id, device, &internal))
        return 0;
    gm_deferred_free_flush(&family->devices[device].frees);
    if (!gm_capture_guard_enter(&mode))
        return 0;
    uint64_t reserved = reserved_of(pool);
    /* A managed pool releases only memory whose free a synchronisation has seen: a query is not enough. */
    if (gm_internal_stream_made(&internal, GM_INTERNAL_ALLOC, &stream) && !gm_internal_stream_ask(stream, ANSWER_NS) &&
        !gm_drv.stream_synchronize(stream)) {
        uint64_t before = reserved;
        struct gm_releases releases;
        gm_releases_begin(&releases, GM_REASON_TRIM_CALL);
        gm_drv.mem_pool_trim_to(pool, 0);
        reserved = reserved_of(pool);
        gm_stats_trimmed(before > reserved ? before - reserved : 0);
        count_size(family, device);
        gm_releases_end(&releases, false);
    }
    uint64_t unused = unused_in(pool, reserved);
    gm_capture_guard_leave(mode);
    return unused;
}

bool gm_pool_keeps(struct gm_resource *self, uint64_t address) {
    CUmemoryPool holder = NULL;
    bool held = false, queried = false;
    for (int device = 0; device < GM_POOL_DEVICES && !held; device++) {
        CUmemoryPool pool = pool_of(self->ops->pool, device);
        if (pool && !queried &&
            gm_drv.pointer_get_attribute(&holder, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address) != CUDA_SUCCESS)
            return false;
        queried |= pool != NULL;
        held = pool && pool == holder;
    }
    return held;
}

void gm_pool_open_to(struct gm_resource *self, int device) {
    const struct gm_pool_family *family = self->ops->pool;
    for (int owner = 0; owner < GM_POOL_DEVICES; owner++) {
        CUmemoryPool pool = pool_of(family, owner);
        if (pool && set_access(pool, owner, 1ull << device))
            gm_log(GM_LOG_WARN, "%s: device %d cannot reach the pool of device %d", family->name, device, owner);
    }
}
