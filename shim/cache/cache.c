/* The cache adaptor: it holds freed blocks on free lists and serves the next request of the same size class, or of a
 * somewhat smaller one, from them (MemHC 5.1: lazily released memory is overwritten). One free block is one whole
 * allocation of the upstream resource, and has the size of its class for life (gm_cache_class).
 *
 * A free block is reused only after its fence is complete: all work that was submitted before the free is done. So a
 * reused block is as safe to use as a new block from the driver.
 *
 * Waiting. The cache never makes a thread wait for more than the program's own calls would have waited for:
 *  - A free does not wait in the cache, except when it releases memory (see below). The synchronisation that cudaFree
 *    promises happened before the block came here (GPUMEM_FREE, shim/driver/free_sync.h). A block whose free
 *    synchronised is ready at once.
 *  - An allocation waits only for a fence that the same thread recorded in a free: a native free would have waited
 *    there. Otherwise the allocation calls the driver. So a kernel that waits for another thread's next kernel cannot
 *    hang.
 *  - A native free, which releases memory, waits for the whole context and lets no other thread submit work meanwhile.
 *    So the cache releases memory inside a free of the same context, when the context is idle. It releases memory of a
 *    busy context only at the limit, when the device has little free memory, far above the largest live total, for
 *    blocks that were idle very long, and after errors; the program's own cudaFree would have waited there too.
 *    gpumem_trim may wait as well, and an allocation when the driver is out of memory.
 *  - Even an idle context completes a fence only after some microseconds. So an allocation that would exceed the limits
 *    below, and a free that is about to release memory, query fences for some microseconds (gm_cache_answer_ns).
 *  - Where the driver is out of memory, free blocks of idle contexts are released, and no others if these suffice. A
 *    context that works is waited for up to 20 ms. Then a free block serves that is larger than native memory. Only if
 *    there is none the allocation waits for all work, even for a kernel that never ends. Where all memory that gpumem
 *    keeps and all free memory together are too little, nothing is released.
 *
 * Choice of a block. A ready block of the request's class serves, or one of just its native size (parts.h): first of
 * this thread, then of others. In both cases fences are queried where blocks of the class wait for them. Last comes the
 * upstream resource. Under GPUMEM_LIMIT blocks have the sizes of their requests.
 *
 * A batch is closed, and gets a fence, at GPUMEM_FENCE_BATCH frees or 12 MiB, with more than four threads at 6 MiB, and
 * when a request would exceed the target. One fence may cover the batches of many threads (timeline.h).
 *
 * Limits on the memory of free blocks:
 *  - For one size, GM_CACHE_ROTATION bytes may wait for their fences. Above that, the thread that freed them waits for
 *    the oldest fence when it allocates this size.
 *  - For one device, all blocks together have a target, above the largest live total since the last trim of everything;
 *    that of small blocks is lower (limits.c). While the context is busy small ones may hold four times as much. They
 *    never hold more than GPUMEM_CACHE_LIMIT. While the device has less memory left than 512 MiB or 3 % of its size,
 *    whichever is more, free blocks included, the cache holds nothing.
 *  - A miss at the target would exceed it, and must not release. So frees keep room for a miss, up to 48 MiB.
 *  - Above its target the cache releases the longest unused block that is large enough.
 *  - Memory above these limits, or unused for GPUMEM_CACHE_IDLE, is released when a later batch of frees of its context
 *    is closed and the context is idle. While the context is busy, memory is released only if it is far above the
 *    limits or was unused four times as long. Of a program that makes no more calls the lender (shim/start/lender.h)
 *    releases the memory.
 *
 * Each thread works on a shard of its own, so that frequent calls share no lock. A request that finds no block in its
 * shard looks into the others. No lock is held across a driver call. */
#include <string.h>

#include "shim/base/options.h"
#include "shim/accounts/stats.h"
#include "shim/resource/adaptor.h"
#include "shim/resource/block.h"
#include "shim/resource/kept.h"
#include "shim/resource/releases.h"
#include "shim/resource/registry.h"
#include "shim/accounts/limit.h"
#include "shim/cache/cache.h"
#include "shim/cache/parts.h"
#include "shim/driver/fence.h"
#include "shim/driver/transports.h"
#include "shim/resource/rows.h"

/* ---- allocation */

static bool is_cacheable(const struct gm_request *request) {
    return request->call == GM_CALL_ALLOC && request->context_id && request->size &&
           request->size <= GM_CACHE_MOST_SIZE && request->device >= 0 && request->device < GM_CACHE_DEVICES;
}

static struct gm_block_record *cache_take(struct gm_resource *self, const struct gm_request *request,
                                          const struct gm_decision *decision) {
    bool may = GM_LIKELY(is_cacheable(request)) && GM_LIKELY(!gm_rdma_was_seen());
    return may ? gm_cache_find(self, request) : NULL;
}

static gm_status alloc_uncached(struct gm_resource *self, const struct gm_request *request,
                                const struct gm_decision *decision, struct gm_block *block) {
    gm_status status = gm_adaptor_alloc(self, request, decision, block);
    if (!status)
        block->kind = (uint8_t)self->kind;
    return status;
}

/* A new block: its size and bin. */
struct shape {
    size_t size;
    unsigned bin;
};

static struct shape exact_shape(const struct gm_cache *state, size_t requested) {
    size_t native = gm_cache_native(state, requested);
    return (struct shape){native, gm_bin_of_exact(native)};
}

/* Counts what gm_cache_round counts. */
static struct shape shape_of(struct gm_cache *state, const struct gm_request *request) {
    unsigned bin = gm_cache_bin(state, request->size);
    size_t class = gm_bin_is_class(bin) ? gm_cache_class(state, request->size) : 0;
    size_t width = class ? gm_cache_width(state, bin, class) : 0;
    if (class && gm_cache_round(state, request->device, width))
        return (struct shape){class, bin};
    return exact_shape(state, request->size);
}

static gm_status alloc_upstream(struct gm_resource *self, const struct gm_request *request,
                                const struct gm_decision *decision, size_t size, struct gm_block *got) {
    struct gm_request sized = *request;
    sized.size = size;
    return gm_resource_alloc(self->upstream, &sized, decision, got);
}

/* The driver is out of memory. Releases free blocks, as few as it takes and without a wait where that is possible, and
 * tries again. *served: a free block that is larger than native memory, where otherwise the call would wait for work
 * of which nobody knows when it ends. */
static GM_RARE gm_status alloc_after_trim(struct gm_resource *self, const struct gm_request *request,
                                          const struct gm_decision *decision, size_t refused, struct gm_block *got,
                                          struct gm_block_record **served) {
    struct gm_releases releases;
    size_t size = gm_cache_native(self->state, request->size);
    gm_status status = size < refused ? alloc_upstream(self, request, decision, size, got) : GM_OUT_OF_MEMORY;
    gm_stats_oom_step();
    gm_releases_begin(&releases, GM_REASON_OUT_OF_MEMORY);
    releases.request = request;
    for (enum gm_cache_trim_step step = 0; step < GM_CACHE_TRIM_STEPS && status == GM_OUT_OF_MEMORY; step++) {
        if (step == GM_CACHE_TRIM_WAIT && !gm_capture_any() && (*served = gm_cache_find_larger(self, request)))
            status = GM_OK;
        else if (gm_cache_trim_for(self, request, size, step))
            status = alloc_upstream(self, request, decision, size, got);
    }
    gm_releases_end(&releases, false);
    return status;
}

/* The next free of this thread does upkeep. */
static void call_upkeep(struct gm_resource *self) {
    struct gm_shard *shard = gm_cache_my_shard(self);
    gm_spin_lock(&shard->lock);
    shard->most_bytes = 0;
    gm_spin_unlock(&shard->lock);
}

static GM_APART gm_status alloc_new(struct gm_resource *self, const struct gm_request *request,
                                    const struct gm_decision *decision, struct gm_block *block) {
    struct gm_cache *state = self->state;
    struct gm_block_record *served = NULL;
    struct gm_block got = {0};
    gm_cache_check_device(state, &state->devices[request->device]);
    struct shape shape = shape_of(state, request);
    /* Counted before, since several threads may find room for a last block. */
    struct gm_cache_budget budget = gm_cache_count_owned(state, request->device, shape.size);
    gm_status status = alloc_upstream(self, request, decision, shape.size, &got);
    if (GM_UNLIKELY(status))
        gm_cache_count_released(state, request->device, shape.size, shape.bin);
    if (GM_UNLIKELY(status == GM_OUT_OF_MEMORY)) {
        status = alloc_after_trim(self, request, decision, shape.size, &got, &served);
        shape = exact_shape(state, request->size);
        if (status)
            return status;
        if (served) {
            gm_kept_hand_out(served, request, block);
            return GM_OK;
        }
        budget = gm_cache_count_owned(state, request->device, shape.size);
    } else if (GM_UNLIKELY(status)) {
        return status;
    }
    if (gm_cache_excess(budget))
        call_upkeep(self);
    const struct gm_piece piece = {.address = got.address, .reserved = shape.size};
    gm_block_fill(block, self, request, &piece);
    block->bin = (uint8_t)shape.bin;
    return GM_OK;
}

static gm_status cache_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    return GM_LIKELY(is_cacheable(request)) ? alloc_new(self, request, decision, block)
                                            : alloc_uncached(self, request, decision, block);
}

uint64_t gm_cache_take_exact(struct gm_resource *self, const struct gm_request *request) {
    struct gm_cache *state = self->state;
    gm_cache_check_device(state, &state->devices[request->device]);
    struct gm_block_record *record = gm_rdma_was_seen() ? NULL : gm_cache_find_exact(self, request);
    if (!record)
        return 0;
    struct gm_block block;
    gm_kept_hand_out(record, request, &block);
    return block.address;
}

/* ---- free */

static inline bool can_fence(void) { return GM_LIKELY(gm_drv.ctx_record_event != NULL) || gm_fence_supported(); }

/* Only such blocks are kept. */
static bool is_cached(const struct gm_block *block) {
    return block->call == GM_CALL_ALLOC && block->device >= 0 && block->device < GM_CACHE_DEVICES && block->context_id;
}

static gm_status cache_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    return GM_LIKELY(is_cached(block)) ? gm_cache_free_upstream(self, block, how) : gm_adaptor_free(self, block, how);
}

/* Frees the block of a record upstream. */
static gm_status free_record(struct gm_resource *self, struct gm_block_record *record,
                             const struct gm_free_request *how) {
    struct gm_block block;
    gm_record_read(record, &block);
    block.address = gm_record_address(record);
    gm_registry_remove(gm_registry_shared(), record);
    return cache_free(self, &block, how);
}

static inline void note_kept(const struct gm_free_request *how, bool kept) {
    if (how->kept)
        *how->kept = kept;
}

/* A batch of fewer bytes needs no fence for them, whatever the other shards hold. */
static size_t bytes_without_fence(void) {
    size_t batch = gm_cache_batch_bytes();
    return gm_cache_shards_used() * batch <= GM_CACHE_ALL_BATCH_BYTES ? batch : gm_cache_shard_bytes();
}

/* What a put leaves to do without the lock. */
struct rest {
    bool natively; /* free the block upstream, */
    bool drain;    /* free the blocks that are releasing, */
    bool upkeep;   /* or gm_cache_upkeep, */
    bool fenced;   /* after this batch: */
    struct gm_closed closed;
};

/* A batch is full, or blocks that need no fence make as many: records the fence of the open batch. On an error the
 * block is freed upstream at once, and this free reports the upstream's error, as a native free would. The caller holds
 * the shard's lock (gm_cache_record). */
static GM_APART void record_fence(struct gm_resource *self, struct gm_shard *shard, struct gm_free_lists *lists,
                                  struct gm_block_record *record, struct rest *rest) {
    bool destroyed;
    shard->most_bytes = bytes_without_fence(); /* of the next batch */
    gm_cache_record(shard, lists, gm_cache_this_thread(), &rest->closed, &destroyed);
    rest->fenced = true;
    if (!destroyed && lists->disabled)
        rest->natively = gm_free_lists_withdraw(lists, record);
    rest->upkeep = !destroyed && (lists->disabled || gm_cache_needs_upkeep(self->state, lists, &rest->closed));
}

/* Adds a block that no earlier work can use any more, so it needs no fence. Upkeep of free lists happens when a batch
 * is closed. So after as many such blocks or bytes the open batch is closed, if it has blocks, and there is upkeep all
 * the same. Without cuCtxRecordEvent a fence would be an event in each of the program's streams, and cuStreamQuery
 * would report these streams as busy. Such drivers have no free in order either: the free has waited for the context,
 * and upkeep needs no fence. The caller holds the shard's lock. */
static void put_settled(struct gm_resource *self, struct gm_shard *shard, struct gm_free_lists *lists,
                        struct gm_block_record *record, struct rest *rest) {
    gm_free_lists_put_ready(lists, record);
    if (GM_LIKELY(lists->settled <= shard->most && lists->settled_bytes < shard->most_bytes) || gm_capture_any())
        return;
    lists->settled = 0;
    lists->settled_bytes = 0;
    shard->most_bytes = bytes_without_fence();
    if (gm_free_lists_has_open(lists) && GM_LIKELY(gm_drv.ctx_record_event != NULL))
        record_fence(self, shard, lists, record, rest);
    else
        rest->upkeep = gm_cache_needs_upkeep(self->state, lists, NULL);
}

static GM_APART gm_status finish_put(struct gm_resource *self, struct gm_shard *shard, uint64_t context_id,
                                     struct gm_block_record *record, const struct gm_free_request *how,
                                     const struct rest *rest) {
    gm_status status = GM_OK;
    note_kept(how, !rest->natively);
    if (rest->natively)
        status = free_record(self, record, how);
    if (rest->drain)
        gm_cache_drain(self, shard, context_id);
    if (rest->upkeep)
        gm_cache_upkeep(self, shard, context_id, rest->fenced ? &rest->closed : NULL);
    return status;
}

static gm_status cache_put(struct gm_resource *self, struct gm_block_record *record,
                           const struct gm_free_request *how) {
    struct gm_cache *state = self->state;
    struct gm_block *block = &record->block;
    uint64_t context_id = block->context_id;
    struct rest rest = {.natively = false};
    if (GM_UNLIKELY(!is_cached(block) || how->call != GM_CALL_FREE || block->pinned_native || gm_rdma_was_seen() ||
                    !can_fence()))
        return free_record(self, record, how);
    unsigned bin = gm_bin_is_class(block->bin) ? block->bin : gm_bin_of_exact(block->reserved);
    if (GM_UNLIKELY(bin != block->bin)) /* the block comes from elsewhere */
        block->bin = (uint8_t)bin;
    struct gm_shard *shard = gm_cache_my_shard(self);
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    if (GM_UNLIKELY(!gm_cache_accepts(lists, block->reserved)))
        lists = gm_cache_make_room(self, shard, block);
    struct gm_batch *batch = GM_LIKELY(lists != NULL) ? gm_batch_open(lists) : NULL;
    if (GM_UNLIKELY(!batch)) {
        rest.natively = true;
        lists = gm_free_lists_of(shard, context_id);
        rest.drain = lists && lists->releasing_count;
    } else if (how->settled) {
        put_settled(self, shard, lists, record, &rest);
    } else {
        gm_free_lists_put(shard, lists, batch, record);
        if (GM_UNLIKELY(!shard->most_bytes || gm_cache_is_full(state, lists, batch)) && !gm_capture_any())
            record_fence(self, shard, lists, record, &rest);
    }
    gm_spin_unlock(&shard->lock);
    if (GM_UNLIKELY(rest.natively || rest.upkeep))
        return finish_put(self, shard, context_id, record, how, &rest);
    note_kept(how, true);
    return GM_OK;
}

/* ---- the other ops */

/* The block's context was destroyed, and the upstream resource knows whether its memory was. */
static void cache_abandon(struct gm_resource *self, const struct gm_block *block) {
    if (self->upstream->ops->abandon)
        self->upstream->ops->abandon(self->upstream, block);
    if (is_cached(block))
        gm_cache_count_released(self->state, block->device, block->reserved, block->bin);
}

static void cache_open_block_to(struct gm_resource *self, const struct gm_block *block, int device) {
    if (self->upstream->ops->open_block_to)
        self->upstream->ops->open_block_to(self->upstream, block, device);
}

static bool cache_keeps(struct gm_resource *self, uint64_t address) {
    return gm_registry_holds(gm_registry_shared(), address, self);
}

static void cache_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    struct gm_cache *state = self->state;
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        gm_spin_lock(&state->shards[i].lock);
        gm_shard_forget(&state->shards[i], context_id);
        gm_spin_unlock(&state->shards[i].lock);
    }
}

void gm_cache_pass(struct gm_resource *self) {
    struct gm_cache *state = self->state;
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        gm_spin_lock(&state->shards[i].lock);
        gm_spin_unlock(&state->shards[i].lock);
    }
}

static void set_up_shards(struct gm_resource *self) {
    struct gm_cache *state = self->state;
    state->timelines = (struct gm_fence_timelines){.reach = self->upstream->kind == GM_KIND_NATIVE ? GM_FENCE_ACCESS
                                                                                                   : GM_FENCE_COPIES};
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        shard->cache = state;
        shard->owner = self;
        shard->kind = self->kind;
        shard->most = state->frees - 1;
        shard->most_bytes = gm_cache_shard_bytes();
    }
}

/* The child of a fork does not own the parent's blocks. Threads that exist only in the parent may hold locks. */
static void cache_after_fork(struct gm_resource *self) {
    struct gm_cache *state = self->state;
    memset(state->shards, 0, sizeof state->shards);
    memset(state->devices, 0, sizeof state->devices);
    set_up_shards(self);
}

static const struct gm_option argument_row = {
    .type = GM_OPTION_COUNT, .name = "cache", .initial = "16", .low = 1, .high = 1024, .help = "frees for each fence"};

static uint8_t bin_of_small(const struct gm_cache *state, size_t size) {
    size_t native = gm_cache_native(state, size), class = gm_cache_class(state, size);
    bool has_class = state->rounds && native <= GM_CACHE_SHARES;
    return (uint8_t)(has_class ? GM_BIN_CLASSES + gm_bin_step(class / GM_CACHE_GRANULE) : gm_bin_of_exact(native));
}

static gm_status cache_open(struct gm_resource *self, const char *argument, char *error, size_t error_size) {
    struct gm_cache *state = self->state;
    uint64_t frees = gm_option_number(GM_OPT_FENCE_BATCH);
    if (argument && gm_option_parse(&argument_row, argument, &frees, error, error_size))
        return GM_INVALID_VALUE;
    state->frees = (unsigned)frees;
    state->granule = self->granule > GM_CACHE_GRANULE ? self->granule : GM_CACHE_GRANULE;
    state->rounds = !gm_limit_on();
    state->page = self->upstream->ops->page;
    if (!state->rounds || (!state->page && state->granule > GM_CACHE_GRANULE))
        state->page = state->granule;
    for (size_t i = 0; i < sizeof state->bins; i++)
        state->bins[i] = bin_of_small(state, (i + 1) * GM_CACHE_GRANULE);
    state->limit = gm_option_number(GM_OPT_CACHE_LIMIT);
    state->idle_ns = gm_option_number(GM_OPT_CACHE_IDLE);
    if (self->alignment == GM_ALIGNMENT_ANY) /* a free block has the alignment of its first request */
        self->alignment = 4;
    if (self->kind == GM_KIND_NATIVE || self->kind == GM_KIND_SUSPENDABLE) /* which serves in its place */
        self->kind = GM_KIND_CACHE;
    set_up_shards(self);
    return GM_OK;
}

const struct gm_resource_ops gm_resource_cache = {
    .name = "cache",
    .summary = "reuses freed blocks of the wrapped resource once all work submitted before the free is done",
    .properties = ~(uint32_t)GM_PROP_GROWABLE,
    .needs = GM_PROP_DEVICE_ACCESSIBLE,
    .breaks = "an error of earlier work may show at a later call than the free; freed memory stays with this "
              "process until it is reused, idle for GPUMEM_CACHE_IDLE, trimmed or needed elsewhere in the process; an "
              "allocation that finds no memory waits for running kernels, even for one that never ends",
    .adaptor = true,
    .kind = GM_KIND_CACHE,
    .serves = "cache(native)",
    .arguments = "FREES",
    .state_size = sizeof(struct gm_cache),
    .open = cache_open,
    .alloc = cache_alloc,
    .free = cache_free,
    .take = cache_take,
    .put = cache_put,
    .trim = gm_cache_trim,
    .lend = gm_cache_lend,
    .releasable = gm_cache_releasable,
    .held = gm_cache_held,
    .keeps = cache_keeps,
    .context_ending = gm_cache_empty,
    .abandon = cache_abandon,
    .context_destroyed = cache_context_destroyed,
    .open_block_to = cache_open_block_to,
    .after_fork = cache_after_fork,
};
