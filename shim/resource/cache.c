/* Freed native blocks kept for the next request of their size (overwriting lazily released memory, MemHC 5.1).
 *
 * A block is handed out again only when its fence is known complete: everything that was submitted before it was freed is done. So
 * a block comes back as the driver would give it, and one kept block is one native allocation, whole.
 *
 * Who waits, and for what. The cache never makes a thread wait for more than the program's own calls would have:
 *  - a free may wait for an older fence of its context, because native cudaFree would wait for all work of the context;
 *  - an allocation waits only for a fence that the same thread recorded in a free: natively it would have waited there. Else it goes
 *    to the driver. So a kernel that waits for another thread's next kernel cannot hang.
 *  - memory is given back by native frees, which wait for the whole context. They happen inside frees of the same context, in
 *    gpumem_trim, and in an allocation only when the driver is out of memory.
 * The exception that is left: a program out of memory whose running kernel never ends waits in its allocation.
 *
 * What keeps the cache small. Blocks of one size that wait for their fences: ROTATION bytes, beyond which a thread waits for the
 * oldest. All blocks of a device: the limit, and a quarter of the largest live total plus SLACK; when real free memory falls below
 * the headroom nothing is kept any more. There is no thread: blocks that were not used for GPUMEM_CACHE_IDLE are given back when a
 * batch of later frees of their context is closed, so a program that frees nothing more keeps what is there.
 *
 * Threads work on shards of their own, so that hot calls share no lock; a request that finds nothing in its own shard looks into the
 * others. No lock is held across a driver call. */
#include <string.h>

#include "shim/base/options.h"
#include "shim/base/stats.h"
#include "shim/resource/adaptor.h"
#include "shim/resource/block.h"
#include "shim/resource/lane.h"
#include "shim/resource/rdma.h"
#include "shim/resource/rows.h"
#include "shim/resource/shelf.h"

enum { SHARDS = 16, DEVICES = 64, VICTIMS = 16, FENCES = 256 };

#define MIB             ((size_t)1 << 20)
#define GRANULE         ((size_t)512)  /* what native memory occupies: allocations of 1 to 512 bytes lie 512 bytes apart */
#define LARGE           (2 * MIB)      /* from here on a block has pages of its own, which really come back */
#define BATCH_BYTES     (32 * MIB)     /* freed bytes without a fence, over all shards */
#define ROTATION        (64 * MIB)     /* bytes of one size that wait for their fences */
#define SLACK           (64 * MIB)
#define HEADROOM        (512 * MIB)    /* free memory left to what the cache does not see, or 3 % */
#define LOOK_NS         100000000ull   /* free memory and loaded libraries are looked at no more often than this */

struct device {
    uint64_t owned;  /* bytes got from upstream and not given back: live and kept */
    uint64_t peak;   /* largest live total */
    uint64_t limit;  /* bytes kept, 0 = not asked yet */
    uint64_t looked; /* ticks */
    bool tight;      /* little free memory: keep nothing */
};

struct state {
    unsigned frees;   /* one fence for so many */
    uint64_t limit, idle_ns;
    bool rdma;
    struct device devices[DEVICES];
    struct gm_shard shards[SHARDS];
};

/* ---- threads and shards */

static unsigned threads_seen; /* of all caches */
static __thread unsigned thread_number __attribute__((tls_model("initial-exec")));

static unsigned my_shard(void) {
    if (GM_UNLIKELY(!thread_number))
        thread_number = __atomic_add_fetch(&threads_seen, 1, __ATOMIC_RELAXED);
    return (thread_number - 1) % SHARDS;
}

static unsigned shards_used(void) {
    unsigned seen = __atomic_load_n(&threads_seen, __ATOMIC_RELAXED);
    return seen < SHARDS ? seen + !seen : SHARDS;
}

static const void *this_thread(void) { return &thread_number; }

/* ---- budget */

static bool has_rdma(const struct state *state) { return __atomic_load_n(&state->rdma, __ATOMIC_RELAXED); }

static uint64_t limit_of(struct state *state, int device) {
    struct device *at = &state->devices[device];
    uint64_t limit = __atomic_load_n(&at->limit, __ATOMIC_RELAXED);
    size_t total = 0;
    if (GM_LIKELY(limit))
        return limit;
    if (state->limit)
        limit = state->limit;
    else if (gm_drv.device_total_mem && gm_drv.device_total_mem(&total, device) == CUDA_SUCCESS)
        limit = total / 4;
    __atomic_store_n(&at->limit, limit, __ATOMIC_RELAXED);
    return limit;
}

static uint64_t kept_bytes(const struct state *state) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < shards_used(); i++)
        bytes += __atomic_load_n(&state->shards[i].bytes, __ATOMIC_RELAXED);
    return bytes;
}

/* Slow path of an allocation whose context is current: is there room for a cache, does something register memory with a card? */
static void look_around(struct state *state, struct device *device) {
    uint64_t now = gm_ticks(), looked = __atomic_load_n(&device->looked, __ATOMIC_RELAXED);
    size_t free_bytes, total;
    if (looked && gm_ticks_span_ns(now - looked) < LOOK_NS)
        return;
    if (!__atomic_compare_exchange_n(&device->looked, &looked, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return; /* another thread does */
    if (gm_drv.mem_get_info && gm_drv.mem_get_info(&free_bytes, &total) == CUDA_SUCCESS) {
        bool tight = free_bytes < (total / 32 > HEADROOM ? total / 32 : HEADROOM);
        __atomic_store_n(&device->tight, tight, __ATOMIC_RELAXED);
    }
    if (!has_rdma(state) && gm_rdma_in_process()) {
        __atomic_store_n(&state->rdma, true, __ATOMIC_RELAXED);
        gm_log(GM_LOG_INFO, "cache: memory may be registered with a network card here, nothing is kept");
    }
}

static void count_owned(struct state *state, int device, size_t size) {
    struct device *at = &state->devices[device];
    uint64_t owned = __atomic_add_fetch(&at->owned, size, __ATOMIC_RELAXED), kept = kept_bytes(state);
    uint64_t live = owned > kept ? owned - kept : 0, peak = __atomic_load_n(&at->peak, __ATOMIC_RELAXED);
    while (live > peak && !__atomic_compare_exchange_n(&at->peak, &peak, live, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void count_gone(struct state *state, int device, size_t size) {
    __atomic_sub_fetch(&state->devices[device].owned, size, __ATOMIC_RELAXED);
}

/* Bytes beyond what a device may hold in all. */
static size_t excess(const struct state *state, int device) {
    const struct device *at = &state->devices[device];
    uint64_t owned = __atomic_load_n(&at->owned, __ATOMIC_RELAXED);
    uint64_t allowed = __atomic_load_n(&at->peak, __ATOMIC_RELAXED);
    allowed += allowed / 4 + SLACK;
    return owned > allowed ? owned - allowed : 0;
}

/* ---- giving back */

static gm_status free_upstream(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    gm_status status = gm_adaptor_free(self, block, how);
    if (!status && block->device >= 0 && block->device < DEVICES)
        count_gone(self->state, block->device, block->reserved);
    return status;
}

/* Frees what a shelf condemned; its context is made current. What cannot be freed now stays condemned. */
static size_t drain(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id) {
    static const struct gm_free_request how = {.call = GM_CALL_FREE};
    struct gm_kept victims[VICTIMS];
    CUstreamCaptureMode mode;
    size_t given = 0;
    bool pushed, failed = false;
    while (!failed) {
        gm_spin_lock(&shard->lock);
        struct gm_shelf *shelf = gm_shelf_of(shard, context_id);
        unsigned count = shelf ? gm_shelf_pop_condemned(shard, shelf, victims, VICTIMS) : 0;
        struct gm_block block = {.call = GM_CALL_ALLOC, .kind = GM_KIND_CACHE, .context_id = context_id};
        if (count) {
            block.context = shelf->context;
            block.device = (int16_t)shelf->device;
        }
        gm_spin_unlock(&shard->lock);
        if (!count)
            break;
        failed = !gm_capture_guard_enter(&mode);
        bool inside = !failed;
        if (inside && gm_lane_enter((CUcontext)(uintptr_t)block.context, &pushed))
            failed = true, pushed = false;
        unsigned freed = 0;
        for (; freed < count && !failed; freed += !failed) {
            block.address = victims[freed].address;
            block.size = block.reserved = victims[freed].size;
            failed = free_upstream(self, &block, &how) != GM_OK;
            given += failed ? 0 : block.reserved;
        }
        if (inside) {
            gm_lane_leave(pushed);
            gm_capture_guard_leave(mode);
        }
        gm_spin_lock(&shard->lock);
        shelf = gm_shelf_of(shard, context_id);
        for (; shelf && freed < count; freed++)
            gm_shelf_condemn(shard, shelf, victims[freed].address, victims[freed].size);
        gm_spin_unlock(&shard->lock);
    }
    gm_stats_trimmed(given);
    return given;
}

/* ---- fences; the shard's lock is held before and after, and let go in between */

/* The driver cannot be relied on for this context any more: what is kept goes back natively with the next frees. */
static void step_aside(struct gm_shelf *shelf, gm_status status) {
    if (!shelf->aside)
        gm_log(GM_LOG_INFO, "cache: error %d from a fence, nothing is kept for this context any more", status);
    shelf->aside = true;
    gm_shelf_condemn_all(shelf);
}

/* Asks, or waits, whether a recorded batch is complete. *gone: the context went meanwhile and the shelf with it. */
static gm_status settle(struct gm_shard *shard, struct gm_shelf *shelf, struct gm_batch *batch, bool wait, bool *gone) {
    CUstreamCaptureMode mode;
    gm_status status = GM_FENCE_PENDING;
    gm_shelf_hold(shelf, batch);
    gm_spin_unlock(&shard->lock);
    if (wait) {
        status = gm_fence_wait(&batch->fence);
    } else if (gm_capture_guard_enter(&mode)) {
        status = gm_fence_query(&batch->fence);
        gm_capture_guard_leave(mode);
    }
    if (gm_is_capture_error(status))
        status = GM_FENCE_PENDING;
    gm_spin_lock(&shard->lock);
    if (!status)
        gm_shelf_complete(shelf, batch);
    else if (status != GM_FENCE_PENDING)
        step_aside(shelf, status);
    *gone = !gm_shelf_release(shard, shelf, batch);
    return status;
}

/* Closes the open batch and records its fence. GM_FENCE_PENDING: a capture runs, the batch stays open. */
static gm_status record(struct gm_shard *shard, struct gm_shelf *shelf, const void *thread, struct gm_batch **recorded, bool *gone) {
    struct gm_batch *batch = gm_shelf_close(shelf);
    CUcontext context = (CUcontext)(uintptr_t)shelf->context;
    uint64_t id = shelf->context_id;
    int device = shelf->device;
    CUstreamCaptureMode mode;
    gm_status status = GM_FENCE_PENDING;
    gm_shelf_hold(shelf, batch);
    gm_spin_unlock(&shard->lock);
    if (gm_capture_guard_enter(&mode)) {
        status = gm_fence_record(&batch->fence, context, id, device);
        gm_capture_guard_leave(mode);
    }
    if (gm_is_capture_error(status))
        status = GM_FENCE_PENDING;
    gm_spin_lock(&shard->lock);
    *gone = !gm_shelf_release(shard, shelf, batch);
    if (*gone)
        return status;
    batch->thread = thread;
    if (status == GM_FENCE_PENDING)
        gm_shelf_reopen(shelf, batch);
    else
        gm_shelf_recorded(shelf, batch);
    if (shelf->aside || (status && status != GM_FENCE_PENDING))
        step_aside(shelf, status);
    *recorded = batch;
    return status;
}

/* ---- allocation */

/* Looks into one shard; *waiting counts the bytes of this size that wait for their fences there. */
static bool take(struct gm_shard *shard, uint64_t context_id, size_t size, uint64_t *address, size_t *waiting) {
    bool found = false, gone;
    gm_spin_lock(&shard->lock);
    struct gm_shelf *shelf = gm_shelf_of(shard, context_id);
    struct gm_size_class *class = shelf && !shelf->aside ? gm_shelf_class(shelf, size) : NULL;
    if (class && !class->ready.first && class->pending.first && class->pending.first->batch->state == GM_BATCH_RECORDED &&
        !gm_capture_any()) {
        settle(shard, shelf, class->pending.first->batch, false, &gone);
        class = gone ? NULL : gm_shelf_class(shelf, size);
    }
    if (class) {
        found = gm_shelf_take(shard, shelf, class, address);
        *waiting += class->pending.count * size;
    }
    gm_spin_unlock(&shard->lock);
    return found;
}

/* The budget of this size is used up: waits for its oldest fence when this thread recorded it. */
static bool wait_for_own(struct gm_shard *shard, uint64_t context_id, size_t size) {
    bool waited = false, gone;
    gm_spin_lock(&shard->lock);
    struct gm_shelf *shelf = gm_shelf_of(shard, context_id);
    struct gm_size_class *class = shelf && !shelf->aside ? gm_shelf_class(shelf, size) : NULL;
    struct gm_batch *batch = class && class->pending.first ? class->pending.first->batch : NULL;
    if (batch && batch->state == GM_BATCH_RECORDED && batch->thread == this_thread() && !gm_capture_any())
        waited = settle(shard, shelf, batch, true, &gone) == GM_OK;
    gm_spin_unlock(&shard->lock);
    return waited;
}

static bool find_kept(struct state *state, const struct gm_request *request, size_t size, uint64_t *address) {
    unsigned mine = my_shard(), used = shards_used();
    size_t waiting = 0;
    if (GM_LIKELY(take(&state->shards[mine], request->context_id, size, address, &waiting)))
        return true;
    for (unsigned i = 0; i < used; i++)
        if (i != mine && __atomic_load_n(&state->shards[i].bytes, __ATOMIC_RELAXED) &&
            take(&state->shards[i], request->context_id, size, address, &waiting))
            return true;
    return waiting && waiting + size > ROTATION && wait_for_own(&state->shards[mine], request->context_id, size) &&
           take(&state->shards[mine], request->context_id, size, address, &waiting);
}

static bool has_shape(const struct gm_request *request) {
    return request->call == GM_CALL_ALLOC && request->context_id && request->size &&
           request->size <= SIZE_MAX / 2 && request->device >= 0 && request->device < DEVICES;
}

static size_t cache_trim(struct gm_resource *self, size_t bytes);

static gm_status cache_alloc(struct gm_resource *self, const struct gm_request *request, struct gm_block *block) {
    struct state *state = self->state;
    struct gm_piece piece = {0};
    if (!has_shape(request)) {
        gm_status status = gm_adaptor_alloc(self, request, block);
        if (!status)
            block->kind = GM_KIND_CACHE;
        return status;
    }
    piece.reserved = (request->size + GRANULE - 1) & ~(GRANULE - 1);
    bool hit = !has_rdma(state) && find_kept(state, request, piece.reserved, &piece.address);
    if (!hit) {
        struct gm_request rounded = *request;
        struct gm_block got = {0};
        rounded.size = piece.reserved;
        look_around(state, &state->devices[request->device]);
        gm_status status = self->upstream->row->alloc(self->upstream, &rounded, &got);
        if (status == GM_OUT_OF_MEMORY)
            gm_stats_oom_step();
        if (status == GM_OUT_OF_MEMORY && cache_trim(self, SIZE_MAX))
            status = self->upstream->row->alloc(self->upstream, &rounded, &got);
        if (status)
            return status;
        piece.address = got.address;
        count_owned(state, request->device, piece.reserved);
    }
    gm_block_fill(block, self, request, &piece);
    block->kind = GM_KIND_CACHE;
    block->hit = hit;
    return GM_OK;
}

/* ---- free */

/* Room in the shard's share of the limit, made by giving back what was unused longest. The lock is held, and let go to free. */
static bool make_room(struct gm_resource *self, struct gm_shard *shard, struct gm_shelf **shelf, size_t size) {
    struct state *state = self->state;
    uint64_t limit = limit_of(state, (*shelf)->device), id = (*shelf)->context_id;
    if (GM_LIKELY((shard->bytes + size) * shards_used() <= limit))
        return true;
    uint64_t share = limit / shards_used();
    if (size > share || !gm_shelf_condemn_ready(*shelf, shard->bytes + size - share))
        return false;
    gm_spin_unlock(&shard->lock);
    drain(self, shard, id);
    gm_spin_lock(&shard->lock);
    *shelf = gm_shelf_of(shard, id);
    return *shelf && shard->bytes + size <= share;
}

static bool sweep_is_due(const struct state *state, const struct gm_shelf *shelf, uint64_t now) {
    return state->idle_ns && now > shelf->swept && gm_ticks_span_ns(now - shelf->swept) > state->idle_ns / 4;
}

/* Is there anything for tidy to do? */
static bool untidy(const struct state *state, const struct gm_shelf *shelf, const struct gm_batch *latest) {
    return shelf->first != latest || shelf->condemned || shelf->bytes > ROTATION || excess(state, shelf->device) ||
           sweep_is_due(state, shelf, latest->stamp);
}

/* What a closed batch is a good moment for, one of its context's frees being under way: older fences, bounds, idle blocks. */
static void tidy(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id, struct gm_batch *latest, size_t size) {
    struct state *state = self->state;
    uint64_t now = gm_ticks();
    bool gone = false, sweep = false;
    gm_spin_lock(&shard->lock);
    struct gm_shelf *shelf = gm_shelf_of(shard, context_id);
    if (shelf && shelf->first && shelf->first != latest)
        settle(shard, shelf, shelf->first, false, &gone);
    if (shelf && !gone) {
        struct gm_size_class *class = gm_shelf_class(shelf, size);
        if (class && class->pending.count > 1 && class->pending.count * size > ROTATION &&
            class->pending.first->batch->state == GM_BATCH_RECORDED)
            settle(shard, shelf, class->pending.first->batch, true, &gone);
    }
    if (shelf && !gone) {
        size_t over = excess(state, shelf->device);
        if (over)
            gm_shelf_condemn_ready(shelf, over);
        sweep = sweep_is_due(state, shelf, now);
        if (sweep)
            shelf->swept = now;
    }
    gm_spin_unlock(&shard->lock);
    drain(self, shard, context_id);
    for (unsigned i = 0; sweep && i < shards_used(); i++) {
        gm_spin_lock(&state->shards[i].lock);
        shelf = gm_shelf_of(&state->shards[i], context_id);
        if (shelf)
            gm_shelf_condemn_idle(shelf, now, state->idle_ns);
        gm_spin_unlock(&state->shards[i].lock);
        drain(self, &state->shards[i], context_id);
    }
}

/* Records the fence of the batch that `block` completed. An error is this free's own: natively it would have had it. */
static gm_status fence_off(struct gm_resource *self, struct gm_shard *shard, struct gm_shelf *shelf, const struct gm_block *block,
                           const struct gm_free_request *how) {
    struct gm_batch *batch = NULL;
    bool gone, own = false;
    gm_status status = record(shard, shelf, this_thread(), &batch, &gone);
    if (!status && !gone && how->strict && batch->state == GM_BATCH_RECORDED)
        status = settle(shard, shelf, batch, true, &gone);
    if (!gone && shelf->aside)
        own = gm_shelf_withdraw(shard, shelf, block->address);
    bool more = !gone && (shelf->aside || untidy(self->state, shelf, batch));
    gm_spin_unlock(&shard->lock);
    if (!more)
        return GM_OK;
    status = own ? free_upstream(self, block, how) : GM_OK;
    tidy(self, shard, block->context_id, batch, block->reserved);
    return status;
}

static gm_status cache_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    struct state *state = self->state;
    if (block->call != GM_CALL_ALLOC || block->device < 0 || block->device >= DEVICES || !block->context_id)
        return gm_adaptor_free(self, block, how);
    if (how->call != GM_CALL_FREE || block->pinned_native || has_rdma(state) || !gm_fence_supported())
        return free_upstream(self, block, how);

    struct gm_shard *shard = &state->shards[my_shard()];
    gm_spin_lock(&shard->lock);
    struct gm_shelf *shelf = gm_shelf_make(shard, block->context, block->context_id, block->device);
    bool tight = __atomic_load_n(&state->devices[block->device].tight, __ATOMIC_RELAXED);
    if (shelf && GM_UNLIKELY(tight))
        gm_shelf_condemn_ready(shelf, SIZE_MAX);
    struct gm_batch *batch = NULL;
    if (shelf && !shelf->aside && !tight && make_room(self, shard, &shelf, block->reserved))
        batch = gm_shelf_put(shard, shelf, block->address, block->reserved);
    if (!batch) {
        bool condemned = shelf && shelf->condemned;
        gm_spin_unlock(&shard->lock);
        gm_status status = free_upstream(self, block, how);
        if (condemned)
            drain(self, shard, block->context_id);
        return status;
    }
    bool full = (batch->count >= state->frees && shelf->recorded_count < FENCES) || batch->bytes * shards_used() >= BATCH_BYTES;
    if (GM_LIKELY(!full && !how->strict) || gm_capture_any()) {
        gm_spin_unlock(&shard->lock);
        return GM_OK;
    }
    return fence_off(self, shard, shelf, block, how);
}

/* ---- the rest of its life */

/* Shelves of a device (-1: any), a few at a time from *from on. */
static unsigned list_shelves(struct gm_shard *shard, int device, uint64_t *ids, unsigned room, unsigned from) {
    unsigned count = 0, seen = 0;
    gm_spin_lock(&shard->lock);
    for (struct gm_shelf *shelf = shard->shelves; shelf && count < room; shelf = shelf->next)
        if ((device < 0 || shelf->device == device) && !shelf->gone && shelf->bytes && seen++ >= from)
            ids[count++] = shelf->context_id;
    gm_spin_unlock(&shard->lock);
    return count;
}

/* Gives one shelf's blocks back: the ready ones, or (`pending`) all after waiting for their fences. */
static size_t trim_shelf(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id, size_t bytes, bool pending) {
    bool gone = false;
    gm_spin_lock(&shard->lock);
    struct gm_shelf *shelf = gm_shelf_of(shard, context_id);
    for (unsigned i = 0; shelf && pending && shelf->first && !gone && i < 4 * FENCES; i++)
        if (settle(shard, shelf, shelf->first, true, &gone))
            break;
    if (shelf && !gone && pending && gm_shelf_condemn_ready(shelf, bytes) < bytes)
        gm_shelf_condemn_all(shelf);
    else if (shelf && !gone)
        gm_shelf_condemn_ready(shelf, bytes);
    gm_spin_unlock(&shard->lock);
    return drain(self, shard, context_id);
}

static size_t cache_trim(struct gm_resource *self, size_t bytes) {
    struct state *state = self->state;
    struct gm_context context;
    uint64_t ids[32];
    size_t given = 0;
    if (gm_capture_any())
        return gm_adaptor_trim(self, bytes);
    int device = gm_drv.ctx_get_current && gm_context_current(&context) ? context.device : -1;
    for (int pending = 0; pending < 2; pending++)
        for (unsigned i = 0; i < SHARDS && given < bytes; i++) {
            unsigned count = list_shelves(&state->shards[i], device, ids, 32, 0);
            for (unsigned j = 0; j < count && given < bytes; j++)
                given += trim_shelf(self, &state->shards[i], ids[j], bytes - given, pending);
        }
    return given < bytes ? given + gm_adaptor_trim(self, bytes - given) : given;
}

/* Free memory that is only kept: what is complete and has pages of its own. Asks about all fences of the current context first, so
 * that a program that looks after a free sees it. */
static size_t cache_releasable(struct gm_resource *self, int device) {
    struct state *state = self->state;
    struct gm_context context;
    size_t bytes = gm_adaptor_releasable(self, device);
    bool known = gm_context_current(&context), gone;
    for (unsigned i = 0; i < SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        if (!__atomic_load_n(&shard->bytes, __ATOMIC_RELAXED))
            continue;
        gm_spin_lock(&shard->lock);
        struct gm_shelf *shelf = known && !gm_capture_any() ? gm_shelf_of(shard, context.id) : NULL;
        struct gm_batch *batch;
        gone = false;
        if (shelf && !shelf->aside && shelf->open)
            record(shard, shelf, NULL, &batch, &gone);
        for (unsigned asked = shelf && !gone ? shelf->recorded_count : 0; asked && !gone && shelf->first; asked--)
            if (settle(shard, shelf, shelf->first, false, &gone))
                break;
        for (shelf = shard->shelves; shelf; shelf = shelf->next)
            if (shelf->device == device && !shelf->gone)
                bytes += gm_shelf_ready_from(shelf, LARGE);
        gm_spin_unlock(&shard->lock);
    }
    return bytes;
}

static bool cache_keeps(struct gm_resource *self, uint64_t address) {
    struct state *state = self->state;
    bool found = gm_adaptor_keeps(self, address);
    for (unsigned i = 0; i < SHARDS && !found; i++) {
        gm_spin_lock(&state->shards[i].lock);
        for (const struct gm_shelf *shelf = state->shards[i].shelves; shelf && !found; shelf = shelf->next)
            found = !shelf->gone && gm_shelf_holds(shelf, address);
        gm_spin_unlock(&state->shards[i].lock);
    }
    return found;
}

static void cache_context_gone(struct gm_resource *self, uint64_t context_id) {
    struct state *state = self->state;
    for (unsigned i = 0; i < SHARDS; i++) {
        gm_spin_lock(&state->shards[i].lock);
        gm_shard_forget(&state->shards[i], context_id);
        gm_spin_unlock(&state->shards[i].lock);
    }
    gm_lane_forget(context_id);
    gm_adaptor_context_gone(self, context_id);
}

/* The parent's blocks are not the child's, and locks may be held by threads that stayed behind. */
static void cache_after_fork(struct gm_resource *self) {
    struct state *state = self->state;
    memset(state->shards, 0, sizeof state->shards);
    memset(state->devices, 0, sizeof state->devices);
    gm_adaptor_after_fork(self);
}

static const struct gm_option argument_row = {
    .type = GM_OPTION_COUNT, .name = "cache", .initial = "16", .low = 1, .high = 1024, .help = "frees for each fence"};

static gm_status cache_open(struct gm_resource *self, const char *argument, char *error, size_t error_size) {
    struct state *state = self->state;
    uint64_t frees = gm_option_number(GM_OPT_FENCE_BATCH);
    if (argument && gm_option_parse(&argument_row, argument, &frees, error, error_size))
        return GM_INVALID_VALUE;
    state->frees = (unsigned)frees;
    state->limit = gm_option_number(GM_OPT_CACHE_LIMIT);
    state->idle_ns = gm_option_number(GM_OPT_CACHE_IDLE);
    return GM_OK;
}

const struct gm_resource_row gm_resource_cache = {
    .name = "cache",
    .summary = "freed blocks of the wrapped resource, kept and reused once everything submitted before the free is done",
    .properties = ~0u,
    .breaks = "a free does not wait for earlier work, and an error of that work shows at a later call; freed memory stays with this "
              "process until it is reused, unused for a while, trimmed or wanted elsewhere in the process; out of memory while a kernel "
              "runs that never ends, an allocation waits for that kernel",
    .adaptor = true,
    .arguments = "FREES",
    .state_size = sizeof(struct state),
    .open = cache_open,
    .alloc = cache_alloc,
    .free = cache_free,
    .trim = cache_trim,
    .releasable = cache_releasable,
    .keeps = cache_keeps,
    .context_gone = cache_context_gone,
    .capture = gm_adaptor_capture,
    .peer_enabled = gm_adaptor_peer_enabled,
    .after_fork = cache_after_fork,
};
