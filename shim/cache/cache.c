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
 *    below, and a free that is about to release memory, query fences for up to 8 us (GM_CACHE_ANSWER_NS).
 *  - One exception remains: a program that is out of memory while one of its kernels never ends waits in its
 *    allocation.
 *
 * Choice of a block. A ready block of the request's class serves first. Next comes a larger ready block, at most twice
 * as large as the class, and then what other threads freed whose fences nobody has queried yet. Live blocks of 1 MiB
 * and more that are larger than native ones waste together at most an eighth of the memory that the cache owns; where
 * that is reached, a block may be an eighth larger than the class. Last comes the upstream resource. A new block is
 * rounded up to its class as long as the sum of what is rounded up is small beside the free memory of the device. Under
 * GPUMEM_LIMIT blocks have the sizes of their requests, and no larger block is used.
 *
 * One fence covers a batch: GPUMEM_FENCE_BATCH frees or 6 MiB.
 *
 * Limits on the memory of free blocks:
 *  - For one size, GM_CACHE_ROTATION bytes may wait for their fences. Above that, the thread that freed them waits for
 *    the oldest fence when it allocates this size.
 *  - For one device, all blocks together may hold 1.25 times what native memory takes for the largest live total, plus
 *    64 MiB (limits.c); while the context is busy the free ones may hold four times as much. They never hold more than
 *    GPUMEM_CACHE_LIMIT. While the device has less free memory than 512 MiB or 3 % of its size, whichever is more, the
 *    cache holds nothing.
 *  - Above its target the cache releases the longest unused block that is large enough.
 *  - gpumem has no background thread. Memory above these limits, or unused for GPUMEM_CACHE_IDLE, is released when a
 *    later batch of frees of its context is closed and the context is idle. While the context is busy, memory is
 *    released only if it is far above the limits or was unused four times as long. A program that frees nothing more
 *    keeps its free blocks.
 *
 * Each thread works on a shard of its own, so that frequent calls share no lock. A request that finds no block in its
 * shard looks into the others. No lock is held across a driver call. */
#include <string.h>

#include "shim/base/options.h"
#include "shim/base/stats.h"
#include "shim/resource/adaptor.h"
#include "shim/resource/block.h"
#include "shim/resource/giving.h"
#include "shim/base/limit.h"
#include "shim/cache/cache.h"
#include "shim/cache/parts.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/rows.h"

#define GRANULE ((size_t)512) /* native allocations of 1 to 512 bytes lie 512 bytes apart */

/* ---- threads and shards */

unsigned gm_cache_shards = 1;
static unsigned threads_seen; /* by all caches */
static __thread unsigned thread_number __attribute__((tls_model("initial-exec")));

static GM_APART void number_thread(void) {
    thread_number = __atomic_add_fetch(&threads_seen, 1, __ATOMIC_RELAXED);
    if (thread_number > 1 && thread_number <= GM_CACHE_SHARDS)
        __atomic_add_fetch(&gm_cache_shards, 1, __ATOMIC_RELAXED);
}

static inline unsigned my_shard(void) {
    if (GM_UNLIKELY(!thread_number))
        number_thread();
    return (thread_number - 1) % GM_CACHE_SHARDS;
}

struct gm_shard *gm_cache_my_shard(struct gm_cache *state) {
    struct gm_shard *shard = &state->shards[my_shard()];
    __asm__("" : "+r"(shard)); /* compute the address once: an index is not a power of two bytes */
    return shard;
}

/* Identity of the calling thread: no two threads have the same number. */
static const void *this_thread(void) { return (const void *)(uintptr_t)thread_number; }

unsigned gm_cache_act_as(unsigned number) {
    unsigned own = thread_number;
    thread_number = number;
    return own;
}

/* ---- allocation */

struct gm_size_class *gm_cache_query_oldest(struct gm_shard *shard, struct gm_free_lists *lists,
                                            struct gm_size_class *class) {
    struct gm_batch *batch = gm_size_class_oldest(lists, class);
    gm_status status = GM_OK;
    size_t size = class->size;
    bool destroyed = false;
    /* The oldest batch may hold blocks of other sizes only. */
    while (class && !class->ready.count && !class->kept && !status && batch && batch->state == GM_BATCH_RECORDED &&
           gm_cache_may_query(lists) && !gm_capture_any()) {
        status = gm_cache_settle(shard, lists, batch, false, &destroyed);
        class = destroyed ? NULL : gm_size_class_of(lists, size);
        batch = class ? gm_size_class_oldest(lists, class) : NULL;
    }
    return class;
}

void gm_cache_note_answer(struct gm_size_class *class, size_t requested, uint32_t repeats, unsigned reason,
                          unsigned verdict) {
    class->requested = requested;
    class->repeats = repeats;
    class->reason = (uint8_t)reason;
    class->verdict = (uint8_t)verdict;
}

static void note_answer_for_all(struct gm_shard *shard, const struct gm_decision *decision) {
    shard->answers = true;
    shard->reason = (uint8_t)decision->reason;
    shard->verdict = (uint8_t)decision->verdict;
}

/* Takes a ready block of exactly `size` bytes from one shard. Returns its address; 0: there is none. Adds to *waiting
 * the bytes of this size that wait for their fences in the shard. `decision`: of a request for `requested` bytes, or
 * NULL.
 */
static GM_IN_PLACE uint64_t take(struct gm_shard *shard, uint64_t context_id, size_t size, size_t *waiting,
                                 size_t requested, const struct gm_decision *decision) {
    uint64_t address = 0;
    gm_spin_lock(&shard->lock);
    if (decision && decision->repeats == GM_REPEATS_ALL)
        note_answer_for_all(shard, decision);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    struct gm_size_class *class = lists && !lists->disabled ? gm_size_class_of(lists, size) : NULL;
    if (class && GM_UNLIKELY(!class->ready.count && !class->kept) && gm_size_class_pends(class))
        class = gm_cache_query_oldest(shard, lists, class);
    if (class) {
        address = gm_free_lists_take(shard, lists, class);
        if (decision)
            gm_cache_note_answer(class, requested, decision->repeats, decision->reason, decision->verdict);
        *waiting += (class->pending.count + class->kept_pending) * size;
    }
    gm_spin_unlock(&shard->lock);
    return address;
}

/* More than GM_CACHE_ROTATION bytes of this size wait: waits for their oldest fence if this thread recorded it. */
static bool wait_for_own_fence(struct gm_shard *shard, uint64_t context_id, size_t size) {
    bool waited = false, destroyed;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    struct gm_size_class *class = lists && !lists->disabled ? gm_size_class_of(lists, size) : NULL;
    struct gm_batch *batch = class ? gm_size_class_oldest(lists, class) : NULL;
    if (batch && batch->state == GM_BATCH_RECORDED && batch->thread == this_thread() && !gm_capture_any())
        waited = gm_cache_settle(shard, lists, batch, true, &destroyed) == GM_OK;
    gm_spin_unlock(&shard->lock);
    return waited;
}

struct gm_size_class *gm_cache_find_larger(struct gm_shard *shard, struct gm_free_lists *lists, size_t size,
                                           size_t most, bool query) {
    bool destroyed = false;
    struct gm_size_class *class = lists && !lists->disabled ? gm_free_lists_near(lists, size, most) : NULL;
    while (!class && query && lists && !lists->disabled && lists->first && !gm_capture_any() &&
           gm_cache_settle(shard, lists, lists->first, false, &destroyed) == GM_OK && !destroyed)
        class = gm_free_lists_near(lists, size, most);
    return class;
}

/* Takes a ready block of *size to `most` bytes and writes its size to *size. `own`: the shard is that of this thread.
 * In the driver, threads that query at the same time wait for each other. */
static uint64_t take_larger(struct gm_shard *shard, uint64_t context_id, size_t *size, size_t most, bool own) {
    uint64_t address = 0;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    bool query = own || (lists && gm_cache_may_query(lists));
    struct gm_size_class *class = gm_cache_find_larger(shard, lists, *size, most, query);
    if (class) {
        *size = class->size;
        address = gm_free_lists_take(shard, lists, class);
    }
    gm_spin_unlock(&shard->lock);
    return address;
}

/* A further block would exceed the target, and the driver takes longer for a large block than an idle context takes to
 * complete a fence. So where a block that fits waits for its fence, this queries the fences for GM_CACHE_ANSWER_NS. */
static uint64_t look_for_larger(struct gm_shard *shard, uint64_t context_id, size_t *size, size_t most) {
    uint64_t begin = gm_ticks(), address;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    bool look = lists && !lists->disabled && gm_free_lists_pend_near(lists, *size, most) && gm_cache_may_look(lists);
    gm_spin_unlock(&shard->lock);
    if (!look || gm_capture_any())
        return 0;
    do
        address = take_larger(shard, context_id, size, most, true);
    while (!address && gm_ticks_span_ns(gm_ticks() - begin) < GM_CACHE_ANSWER_NS);
    gm_spin_lock(&shard->lock);
    lists = gm_free_lists_of(shard, context_id);
    if (lists)
        gm_cache_looked(lists, address != 0);
    gm_spin_unlock(&shard->lock);
    return address;
}

bool gm_cache_may_waste(const struct gm_cache *state, int device) {
    return !gm_limit_on() && !__atomic_load_n(&state->devices[device].tight, __ATOMIC_RELAXED);
}

/* Takes a ready block of exactly `size` bytes from a shard that no thread uses now, without a query. */
static uint64_t take_in_passing(struct gm_shard *shard, uint64_t context_id, size_t size) {
    uint64_t address = 0;
    if (!gm_spin_try(&shard->lock))
        return 0;
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    struct gm_size_class *class = lists && !lists->disabled ? gm_size_class_of(lists, size) : NULL;
    if (class)
        address = gm_free_lists_take(shard, lists, class);
    gm_spin_unlock(&shard->lock);
    return address;
}

/* The body sees each `shard` but that of the thread, as long as there is no address. */
#define EACH_OTHER_SHARD(shard)                                                                     \
    for (struct gm_shard *shard = state->shards; shard < state->shards + used && !address; shard++) \
        if (shard != &state->shards[mine] && gm_cache_has_some(shard, request->device))

/* The thread's own shard has no ready block of the size. Looks at the ready blocks of the other shards, at larger ones
 * of its own, and then at what the other shards have once their fences are queried. */
static GM_APART uint64_t find_elsewhere(struct gm_cache *state, const struct gm_request *request, size_t *size,
                                        size_t waiting) {
    unsigned mine = my_shard(), used = gm_cache_shards_used();
    uint64_t context_id = request->context_id, address = 0;
    size_t class = *size;
    EACH_OTHER_SHARD(shard) { address = take_in_passing(shard, context_id, class); }
    if (address)
        return address;
    bool waste = gm_cache_may_waste(state, request->device);
    size_t most = waste ? gm_cache_most(state, request->device, class) : class;
    *size = gm_cache_native(state, request->size); /* of a block that was not rounded up */
    if (gm_cache_has_some(&state->shards[mine], request->device))
        address = take_larger(&state->shards[mine], context_id, size, most, true);
    EACH_OTHER_SHARD(shard) {
        address = take(shard, context_id, class, &waiting, 0, NULL);
        *size = address ? class : *size;
    }
    EACH_OTHER_SHARD(shard) { address = take_larger(shard, context_id, size, most, false); }
    if (!address && class >= GM_CACHE_PAGE_FROM && !gm_cache_is_room_for(state, request->device, class))
        address = look_for_larger(&state->shards[mine], context_id, size, most);
    if (!address && waiting && waiting + class > GM_CACHE_ROTATION &&
        wait_for_own_fence(&state->shards[mine], context_id, class)) {
        address = take(&state->shards[mine], context_id, class, &waiting, 0, NULL);
        *size = class;
    }
    return address;
}

static inline uint64_t find_free(struct gm_cache *state, const struct gm_request *request,
                                 const struct gm_decision *decision, size_t *size) {
    size_t waiting = 0;
    uint64_t address = take(&state->shards[my_shard()], request->context_id, *size, &waiting, request->size, decision);
    return GM_LIKELY(address) ? address : find_elsewhere(state, request, size, waiting);
}

static bool is_cacheable(const struct gm_request *request) {
    return request->call == GM_CALL_ALLOC && request->context_id && request->size && request->size <= SIZE_MAX / 2 &&
           request->device >= 0 && request->device < GM_CACHE_DEVICES;
}

static gm_status alloc_uncached(struct gm_resource *self, const struct gm_request *request,
                                const struct gm_decision *decision, struct gm_block *block) {
    gm_status status = gm_adaptor_alloc(self, request, decision, block);
    if (!status)
        block->kind = (uint8_t)self->kind;
    return status;
}

static inline void hand_out(struct gm_resource *self, const struct gm_request *request, uint64_t address,
                            size_t reserved, bool hit, struct gm_block *block) {
    const struct gm_piece piece = {.address = address, .reserved = reserved};
    gm_block_fill(block, self, request, &piece);
    block->hit = hit;
    block->recurs = 1;
}

static GM_APART gm_status alloc_new(struct gm_resource *self, const struct gm_request *request,
                                    const struct gm_decision *decision, struct gm_block *block) {
    struct gm_cache *state = self->state;
    struct gm_request rounded = *request;
    struct gm_block got = {0};
    gm_cache_check_device(state, &state->devices[request->device]);
    size_t least = gm_cache_multiple(state->granule, request->size);
    size_t size = gm_cache_may_round(state, request->device, request->size) ? gm_cache_class(state, request->size)
                                                                            : gm_cache_native(state, request->size);
    rounded.size = size;
    gm_status status = self->upstream->ops->alloc(self->upstream, &rounded, decision, &got);
    if (status == GM_OUT_OF_MEMORY) {
        struct gm_giving giving;
        gm_stats_oom_step();
        gm_giving_begin(&giving, GM_REASON_OUT_OF_MEMORY);
        giving.request = request;
        size_t released = gm_cache_trim(self, SIZE_MAX);
        gm_giving_end(&giving, false);
        if (released || least < size) {
            rounded.size = size = least;
            status = self->upstream->ops->alloc(self->upstream, &rounded, decision, &got);
        }
    }
    if (status)
        return status;
    gm_cache_count_owned(state, request->device, request->size, size);
    hand_out(self, request, got.address, size, false, block);
    return GM_OK;
}

static gm_status cache_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    struct gm_cache *state = self->state;
    if (GM_UNLIKELY(!is_cacheable(request)))
        return alloc_uncached(self, request, decision, block);
    size_t size = gm_cache_class(state, request->size);
    uint64_t address = gm_cache_has_rdma(state) ? 0 : find_free(state, request, decision, &size);
    if (GM_UNLIKELY(!address))
        return alloc_new(self, request, decision, block);
    hand_out(self, request, address, size, true, block);
    return GM_OK;
}

uint64_t gm_cache_take(struct gm_resource *self, const struct gm_request *request) {
    struct gm_cache *state = self->state;
    unsigned mine = my_shard(), used = gm_cache_shards_used();
    uint64_t address = 0;
    size_t waiting = 0;
    gm_cache_check_device(state, &state->devices[request->device]);
    for (unsigned i = 0; i < used && !address && !gm_cache_has_rdma(state); i++) {
        struct gm_shard *shard = &state->shards[(mine + i) % used];
        if (gm_cache_has_some(shard, request->device))
            address = take(shard, request->context_id, request->size, &waiting, 0, NULL);
    }
    return address;
}

void gm_cache_count_own(struct gm_resource *self, int device, int64_t change) {
    if (change > 0)
        gm_cache_count_owned(self->state, device, (size_t)change, (size_t)change);
    else
        gm_cache_count_released(self->state, device, (size_t)-change);
}

/* ---- free */

static inline bool can_fence(void) { return GM_LIKELY(gm_drv.ctx_record_event != NULL) || gm_fence_supported(); }

gm_status gm_cache_record_fence(struct gm_resource *self, struct gm_shard *shard, struct gm_free_lists *lists,
                                const struct gm_block *block, const struct gm_free_request *how) {
    struct gm_batch *batch = NULL;
    bool destroyed, own = false;
    gm_status status = gm_cache_record(shard, lists, this_thread(), &batch, &destroyed);
    if (!destroyed && lists->disabled)
        own = gm_free_lists_withdraw(shard, lists, block->address);
    bool more = !destroyed && (lists->disabled || gm_cache_untidy(self->state, lists, batch));
    gm_spin_unlock(&shard->lock);
    if (!more)
        return GM_OK;
    status = own ? gm_cache_free_upstream(self, block, how) : GM_OK;
    gm_cache_tidy(self, shard, block->context_id, batch);
    return status;
}

/* Frees a block upstream instead of adding it to the free lists. The caller holds the shard's lock; the function
 * releases it. */
static GM_APART gm_status free_natively(struct gm_resource *self, struct gm_shard *shard, const struct gm_block *block,
                                        const struct gm_free_request *how) {
    const struct gm_free_lists *lists = gm_free_lists_of(shard, block->context_id);
    bool pending_release = lists && lists->pending_release.count;
    gm_spin_unlock(&shard->lock);
    gm_status status = gm_cache_free_upstream(self, block, how);
    if (pending_release)
        gm_cache_drain(self, shard, block->context_id);
    return status;
}

/* Adds a block that no earlier work can use any more, so it needs no fence. Free lists are tidied when a batch is
 * closed. So after every `frees` such blocks a batch is closed all the same, even an empty one. Without
 * cuCtxRecordEvent a fence would be an event in each of the program's streams, and cuStreamQuery would report these
 * streams as busy. Such drivers have no free in order either: the free has waited for the context, and tidying needs no
 * fence. The caller holds the shard's lock; the function releases it. */
static GM_APART gm_status put_settled(struct gm_resource *self, struct gm_shard *shard, struct gm_free_lists *lists,
                                      const struct gm_block *block, const struct gm_free_request *how) {
    const struct gm_cache *state = self->state;
    if (!gm_free_lists_put_ready(shard, lists, block->address, block->reserved))
        return free_natively(self, shard, block, how);
    bool tidy = ++lists->settled % state->frees == 0 && !gm_capture_any();
    bool fence = tidy && GM_LIKELY(gm_drv.ctx_record_event != NULL) && (lists->open || gm_batch_open(lists));
    if (fence)
        return gm_cache_record_fence(self, shard, lists, block, how);
    tidy = tidy && gm_cache_untidy(state, lists, NULL);
    gm_spin_unlock(&shard->lock);
    if (tidy)
        gm_cache_tidy(self, shard, block->context_id, NULL);
    return GM_OK;
}

static gm_status cache_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    struct gm_cache *state = self->state;
    if (GM_UNLIKELY(block->call != GM_CALL_ALLOC || block->device < 0 || block->device >= GM_CACHE_DEVICES ||
                    !block->context_id))
        return gm_adaptor_free(self, block, how);
    if (GM_UNLIKELY(how->call != GM_CALL_FREE || block->pinned_native || gm_cache_has_rdma(state) || !can_fence()))
        return gm_cache_free_upstream(self, block, how);

    struct gm_shard *shard = gm_cache_my_shard(state);
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, block->context_id);
    if (GM_UNLIKELY(!gm_cache_accepts(lists, block->reserved)))
        lists = gm_cache_make_room(self, shard, block);
    if (GM_UNLIKELY(how->settled) && lists)
        return put_settled(self, shard, lists, block, how);
    struct gm_batch *batch = GM_LIKELY(lists) ? gm_free_lists_put(shard, lists, block->address, block->reserved) : NULL;
    if (GM_UNLIKELY(!batch))
        return free_natively(self, shard, block, how);
    if (GM_LIKELY(!gm_cache_is_full(state, lists, batch)) || gm_capture_any()) {
        gm_spin_unlock(&shard->lock);
        return GM_OK;
    }
    return gm_cache_record_fence(self, shard, lists, block, how);
}

/* ---- the other ops */

static bool cache_keeps(struct gm_resource *self, uint64_t address) {
    struct gm_cache *state = self->state;
    bool found = gm_adaptor_keeps(self, address);
    for (unsigned i = 0; i < GM_CACHE_SHARDS && !found; i++) {
        gm_spin_lock(&state->shards[i].lock);
        found = gm_shard_holds(&state->shards[i], address);
        gm_spin_unlock(&state->shards[i].lock);
    }
    return found;
}

static void cache_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    struct gm_cache *state = self->state;
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        gm_spin_lock(&state->shards[i].lock);
        gm_shard_forget(&state->shards[i], context_id);
        gm_spin_unlock(&state->shards[i].lock);
    }
    gm_internal_forget(context_id);
    gm_adaptor_context_destroyed(self, context_id);
}

static void set_up_shards(struct gm_resource *self) {
    struct gm_cache *state = self->state;
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        shard->kind = self->kind;
        shard->entries_only = state->entries_only;
        shard->recent_context = &gm_context_none;
        shard->most = state->frees - 1;
        gm_shard_renumber(shard);
    }
}

/* The child of a fork does not own the parent's blocks. Threads that exist only in the parent may hold locks. */
static void cache_after_fork(struct gm_resource *self) {
    struct gm_cache *state = self->state;
    memset(state->shards, 0, sizeof state->shards);
    memset(state->devices, 0, sizeof state->devices);
    set_up_shards(self);
    gm_cache_renew_plain(self);
    gm_adaptor_after_fork(self);
}

static const struct gm_option argument_row = {
    .type = GM_OPTION_COUNT, .name = "cache", .initial = "16", .low = 1, .high = 1024, .help = "frees for each fence"};

static gm_status cache_open(struct gm_resource *self, const char *argument, char *error, size_t error_size) {
    struct gm_cache *state = self->state;
    uint64_t frees = gm_option_number(GM_OPT_FENCE_BATCH);
    if (argument && gm_option_parse(&argument_row, argument, &frees, error, error_size))
        return GM_INVALID_VALUE;
    state->frees = (unsigned)frees;
    state->granule = self->granule > GRANULE ? self->granule : GRANULE;
    state->rounds = !gm_limit_on();
    state->page = self->upstream->ops->page && state->rounds ? self->upstream->ops->page : state->granule;
    state->limit = gm_option_number(GM_OPT_CACHE_LIMIT);
    state->idle_ns = gm_option_number(GM_OPT_CACHE_IDLE);
    if (self->alignment == GM_ALIGNMENT_ANY) /* a free block has the alignment of its first request */
        self->alignment = 4;
    if (self->kind == GM_KIND_NATIVE)
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
    .trim = gm_cache_trim,
    .releasable = gm_cache_releasable,
    .held = gm_cache_held,
    .keeps = cache_keeps,
    .context_ending = gm_cache_empty,
    .context_destroyed = cache_context_destroyed,
    .capture = gm_adaptor_capture,
    .open_to = gm_adaptor_open_to,
    .report = gm_adaptor_report,
    .after_fork = cache_after_fork,
};
