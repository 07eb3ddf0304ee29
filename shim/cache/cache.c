/* The cache adaptor: it holds freed blocks on free lists and serves the next request of the same size, or of a somewhat
 * smaller size, from them (MemHC 5.1: lazily released memory is overwritten). One free block is one whole allocation of
 * the upstream resource.
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
 * Choice of a block. A ready block of the requested size serves first. Next comes a larger ready block, at most twice
 * as large as the request, and then what other threads freed whose fences nobody has queried yet. Live blocks of 1 MiB
 * and more that are larger than requested waste together at most an eighth of the memory that the cache owns; where
 * that is reached, a block may be an eighth larger than the request. Last comes the upstream resource. Under
 * GPUMEM_LIMIT no larger block is used.
 *
 * One fence covers a batch: GPUMEM_FENCE_BATCH frees or 6 MiB.
 *
 * Limits on the memory of free blocks:
 *  - For one size, GM_CACHE_ROTATION bytes may wait for their fences. Above that, the thread that freed them waits for
 *    the oldest fence when it allocates this size.
 *  - For one device, the free blocks may hold a quarter of the largest live total (blocks of other resources included)
 *    plus 48 MiB; while the context is busy up to four times as much; and never more than GPUMEM_CACHE_LIMIT. While
 *    the device has less free memory than 512 MiB or 3 % of its size, whichever is more, the cache holds nothing.
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
#include "shim/trace/writer.h"

#define GRANULE ((size_t)512) /* native allocations of 1 to 512 bytes lie 512 bytes apart */
/* Most freed bytes without a fence, in one shard and in all shards together. A batch is this large because threads that
 * record fences at the same time wait for each other in the driver. */
#define BATCH_BYTES     ((size_t)6 << 20)
#define ALL_BATCH_BYTES ((size_t)64 << 20)
#define LARGE           ((size_t)1 << 20)
#define SHARD_BYTES     (ALL_BATCH_BYTES / GM_CACHE_SHARDS)

static inline size_t whole(size_t unit, size_t size) { return (size + unit - 1) & ~(unit - 1); }

/* The size of a block for a request of `size` bytes. Blocks whose sizes differ only in their last page are of one size,
 * so that each may serve for the others. */
static inline size_t whole_granules(const struct gm_cache *state, size_t size) {
    return whole(size >= state->page ? state->page : state->granule, size);
}

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

static inline struct gm_shard *my_shard_of(struct gm_cache *state) {
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

/* No block of this size is ready, but some wait for their fences: queries the oldest fence. Returns the class; NULL
 * when the context was destroyed or the class was dropped meanwhile. */
static GM_APART struct gm_size_class *query_oldest(struct gm_shard *shard, struct gm_free_lists *lists,
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

/* Notes for find_size() how long a policy's answer for this size holds. */
static void note_answer(struct gm_size_class *class, size_t requested, uint32_t repeats, unsigned reason,
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

static bool plain; /* the short path has a plain part */

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
        class = query_oldest(shard, lists, class);
    if (class) {
        address = gm_free_lists_take(shard, lists, class);
        if (decision)
            note_answer(class, requested, decision->repeats, decision->reason, decision->verdict);
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

/* A class of ready blocks of `size` to `most` bytes. While there is none, and `query`, queries the recorded fences,
 * oldest first, for which it releases the lock. Without this, a program that requests a new size each time would get
 * every block from the driver. */
static struct gm_size_class *find_larger(struct gm_shard *shard, struct gm_free_lists *lists, size_t size, size_t most,
                                         bool query) {
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
    struct gm_size_class *class = find_larger(shard, lists, *size, most, query);
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

/* False where the device has little free memory or GPUMEM_LIMIT is set: a block must not be larger than requested. */
static bool may_waste(const struct gm_cache *state, int device) {
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
    EACH_OTHER_SHARD(shard) { address = take_in_passing(shard, context_id, *size); }
    bool waste = !address && may_waste(state, request->device);
    size_t most = waste ? gm_cache_most(state, request->device, *size) : 0;
    if (waste && gm_cache_has_some(&state->shards[mine], request->device))
        address = take_larger(&state->shards[mine], context_id, size, most, true);
    EACH_OTHER_SHARD(shard) { address = take(shard, context_id, *size, &waiting, 0, NULL); }
    EACH_OTHER_SHARD(shard) { address = waste ? take_larger(shard, context_id, size, most, false) : 0; }
    if (!address && *size >= LARGE && !gm_cache_is_room_for(state, request->device, *size))
        address = look_for_larger(&state->shards[mine], context_id, size, waste ? most : *size);
    if (!address && waiting && waiting + *size > GM_CACHE_ROTATION &&
        wait_for_own_fence(&state->shards[mine], context_id, *size))
        address = take(&state->shards[mine], context_id, *size, &waiting, 0, NULL);
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
                                    const struct gm_decision *decision, size_t size, struct gm_block *block) {
    struct gm_cache *state = self->state;
    struct gm_request rounded = *request;
    struct gm_block got = {0};
    size_t least = whole(state->granule, request->size);
    rounded.size = size;
    gm_cache_check_device(state, &state->devices[request->device]);
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
    gm_cache_count_owned(state, request->device, size);
    hand_out(self, request, got.address, size, false, block);
    return GM_OK;
}

static gm_status cache_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    struct gm_cache *state = self->state;
    if (GM_UNLIKELY(!is_cacheable(request)))
        return alloc_uncached(self, request, decision, block);
    size_t size = whole_granules(state, request->size);
    uint64_t address = gm_cache_has_rdma(state) ? 0 : find_free(state, request, decision, &size);
    if (GM_UNLIKELY(!address))
        return alloc_new(self, request, decision, size, block);
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
        gm_cache_count_owned(self->state, device, (size_t)change);
    else
        gm_cache_count_released(self->state, device, (size_t)-change);
}

/* ---- free */

static inline bool can_fence(void) { return GM_LIKELY(gm_drv.ctx_record_event != NULL) || gm_fence_supported(); }

/* `block` filled its batch: records the fence of the batch. On an error the block is freed upstream at once, and this
 * free reports the upstream's error, as a native free would. The caller holds the shard's lock; the function releases
 * it. */
static GM_APART gm_status record_fence(struct gm_resource *self, struct gm_shard *shard, struct gm_free_lists *lists,
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
        return record_fence(self, shard, lists, block, how);
    tidy = tidy && gm_cache_untidy(state, lists, NULL);
    gm_spin_unlock(&shard->lock);
    if (tidy)
        gm_cache_tidy(self, shard, block->context_id, NULL);
    return GM_OK;
}

static inline bool is_full(const struct gm_cache *state, const struct gm_free_lists *lists,
                           const struct gm_batch *batch) {
    if (GM_LIKELY(batch->count < state->frees && batch->bytes < SHARD_BYTES))
        return false;
    return (batch->count >= state->frees && lists->recorded_count < GM_CACHE_FENCES) || batch->bytes >= BATCH_BYTES ||
           (batch->bytes >= SHARD_BYTES && gm_cache_unfenced(state) >= ALL_BATCH_BYTES);
}

static gm_status cache_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    struct gm_cache *state = self->state;
    if (GM_UNLIKELY(block->call != GM_CALL_ALLOC || block->device < 0 || block->device >= GM_CACHE_DEVICES ||
                    !block->context_id))
        return gm_adaptor_free(self, block, how);
    if (GM_UNLIKELY(how->call != GM_CALL_FREE || block->pinned_native || gm_cache_has_rdma(state) || !can_fence()))
        return gm_cache_free_upstream(self, block, how);

    struct gm_shard *shard = my_shard_of(state);
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = gm_free_lists_of(shard, block->context_id);
    if (GM_UNLIKELY(!gm_cache_accepts(lists, block->reserved)))
        lists = gm_cache_make_room(self, shard, block);
    if (GM_UNLIKELY(how->settled) && lists)
        return put_settled(self, shard, lists, block, how);
    struct gm_batch *batch = GM_LIKELY(lists) ? gm_free_lists_put(shard, lists, block->address, block->reserved) : NULL;
    if (GM_UNLIKELY(!batch))
        return free_natively(self, shard, block, how);
    if (GM_LIKELY(!is_full(state, lists, batch)) || gm_capture_any()) {
        gm_spin_unlock(&shard->lock);
        return GM_OK;
    }
    return record_fence(self, shard, lists, block, how);
}

/* ---- the short path */

bool gm_cache_may_keep(const struct gm_resource *resource, bool with_plain) {
    plain = with_plain;
    return resource && resource->ops == &gm_resource_cache && gm_drv.ctx_record_event;
}

static inline struct gm_shard *own_shard(const struct gm_resource *self) {
    if (GM_UNLIKELY(!gm_mine.shard))
        gm_mine.shard = my_shard_of(self->state);
    if (__atomic_load_n(&plain, __ATOMIC_RELAXED))
        gm_mine.plain = gm_mine.shard;
    return gm_mine.shard;
}

static bool is_for_all(uint32_t repeats) { return repeats > GM_REPEATS_ALL / 2; }

/* Takes the answer out of the class. */
static uint32_t take_answer(struct gm_size_class *class) {
    uint32_t repeats = class->repeats;
    if (!is_for_all(repeats))
        class->repeats = 0;
    return repeats;
}

static void give_back(const struct gm_recent_size *recent) {
    if (recent->repeats && !is_for_all(recent->repeats)) {
        recent->class->requested = recent->requested;
        recent->class->repeats = recent->repeats;
    }
}

/* The plain part compares with the context's id, so it finds nothing while this bit is set. */
#define NOT_PLAIN (UINT64_C(1) << 63)
static inline uint64_t key_of_context(uint64_t context_id) {
    return GM_LIKELY(__atomic_load_n(&plain, __ATOMIC_RELAXED)) ? context_id : context_id | NOT_PLAIN;
}

/* Finds the class for requests of this size and notes it. NULL: there is none, or the policy has to decide. */
static struct gm_recent_size *find_size(const struct gm_cache *state, struct gm_shard *shard, uint64_t context_id,
                                        size_t requested) {
    struct gm_recent_size *recent = &shard->recent_sizes[gm_recent_slot(requested)];
    if (recent->requested == requested && recent->context_id == key_of_context(context_id) && recent->repeats)
        return recent;
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    struct gm_size_class *class =
        lists && !shard->entries_only ? gm_size_class_of(lists, whole_granules(state, requested)) : NULL;
    if (class && GM_UNLIKELY(!class->repeats) && shard->answers)
        note_answer(class, requested, GM_REPEATS_ALL, shard->reason, shard->verdict);
    if (!class || !(is_for_all(class->repeats) || (class->repeats && class->requested == requested)))
        return NULL;
    uint32_t repeats = take_answer(class);
    give_back(recent);
    *recent = (struct gm_recent_size){requested, key_of_context(context_id), class, repeats};
    return recent;
}

/* The newest ready record of the class serves the request. The caller holds the lock. */
static inline struct gm_registered *make_live(struct gm_shard *shard, struct gm_size_class *class, size_t size) {
    struct gm_registered *record = gm_free_lists_take_kept(class->lists, class);
    uint64_t address = gm_registered_word(record) & ~GM_REGISTERED_KEPT;
    __atomic_store_n(&record->block.size, size, __ATOMIC_RELAXED);
    __atomic_store_n(&shard->recent_records[gm_recent_slot(address)], record, __ATOMIC_RELAXED);
    gm_registered_revive(record, address);
    return record;
}

bool gm_cache_reuse_ready(size_t size, uint64_t *address) {
    if (GM_UNLIKELY(!gm_mine.plain))
        return false;
    uint64_t context_id = gm_context_same_id(__atomic_load_n(&gm_mine.plain->recent_context, __ATOMIC_RELAXED));
    struct gm_shard *shard = gm_mine.plain; /* read again: kept across the driver's call it would cost more */
    if (GM_UNLIKELY(!gm_spin_try(&shard->lock)))
        return false;
    struct gm_recent_size *recent = &shard->recent_sizes[gm_recent_slot(size)];
    __asm__("" : "+r"(recent)); /* compute the address once */
    bool serves = GM_LIKELY(recent->requested == size && recent->context_id == context_id && recent->repeats) &&
                  GM_LIKELY(recent->class->kept != NULL) &&
                  GM_LIKELY(gm_stats_took_late(gm_mine.counts, size, recent->class->size));
    if (GM_LIKELY(serves)) {
        recent->repeats--;
        *address = gm_registered_word(make_live(shard, recent->class, size));
    }
    gm_spin_unlock(&shard->lock);
    return serves;
}

/* True when a shard other than `mine` may have a block of exactly the requested size, which comes first. */
static bool others_have_some(const struct gm_cache *state, const struct gm_shard *mine, int device) {
    for (unsigned i = 0, used = gm_cache_shards_used(); i < used; i++)
        if (&state->shards[i] != mine && gm_cache_has_some(&state->shards[i], device))
            return true;
    return false;
}

/* The class of a larger block, if find_elsewhere would choose one of this shard, and as a record. The caller holds the
 * lock; the function may release it for a time. */
static struct gm_size_class *find_larger_kept(const struct gm_cache *state, struct gm_shard *shard, uint64_t context_id,
                                              size_t size) {
    struct gm_free_lists *lists = shard->entries_only ? NULL : gm_free_lists_of(shard, context_id);
    if (!lists || !may_waste(state, lists->device) || others_have_some(state, shard, lists->device))
        return NULL;
    size_t whole = whole_granules(state, size);
    struct gm_size_class *class =
        find_larger(shard, lists, whole, gm_cache_most(state, lists->device, whole), gm_cache_may_query(lists));
    return class && class->kept && !shard->entries_only ? class : NULL;
}

/* The policy wants to know of the block's free, so that takes no plain part (put_plainly). */
static void mark_counted(struct gm_registered *record) {
    __atomic_store_n(&record->block.counted, 1, __ATOMIC_RELAXED);
    record->of_shard = 0;
}

struct gm_registered *gm_cache_serve(struct gm_resource *self, const struct gm_request *request,
                                     const struct gm_decision *decision, bool counted) {
    struct gm_cache *state = self->state;
    struct gm_shard *shard = own_shard(self);
    struct gm_registered *record = NULL;
    size_t whole = whole_granules(state, request->size);
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = shard->entries_only ? NULL : gm_free_lists_of(shard, request->context_id);
    struct gm_size_class *class = lists && !lists->disabled ? gm_size_class_of(lists, whole) : NULL;
    if (class && !gm_size_class_is_ready(class) && gm_size_class_pends(class))
        class = query_oldest(shard, lists, class); /* releases the lock for a time */
    if (class)
        note_answer(class, request->size, decision->repeats, decision->reason, decision->verdict);
    if (!class || !gm_size_class_is_ready(class))
        class = find_larger_kept(state, shard, request->context_id, request->size);
    if (class && class->kept && !shard->entries_only) {
        if (counted)
            mark_counted(class->kept);
        record = make_live(shard, class, request->size);
    }
    gm_spin_unlock(&shard->lock);
    return record;
}

/* A context that was destroyed has no free lists, so no block of it is found. */
struct gm_registered *gm_cache_reuse(struct gm_resource *self, size_t size, struct gm_decision *decision) {
    struct gm_shard *shard = own_shard(self);
    struct gm_registered *record = NULL;
    const struct gm_context *context;
    uint64_t context_id = gm_context_current_id(&context);
    __atomic_store_n(&shard->recent_context, context, __ATOMIC_RELAXED);
    gm_spin_lock(&shard->lock);
    struct gm_recent_size *recent = find_size(self->state, shard, context_id, size);
    struct gm_size_class *class = recent ? recent->class : NULL;
    if (class && !gm_size_class_is_ready(class) && gm_size_class_pends(class)) {
        query_oldest(shard, class->lists, class); /* releases the lock for a time */
        recent = find_size(self->state, shard, context_id, size);
        class = recent ? recent->class : NULL;
    }
    if (class && class->kept) {
        recent->repeats--;
        decision->reason = (enum gm_reason) class->reason;
        decision->verdict = (enum gm_kind) class->verdict;
    } else if (shard->answers && !(class && class->ready.count)) {
        class = find_larger_kept(self->state, shard, context_id, size);
        decision->reason = (enum gm_reason)shard->reason;
        decision->verdict = (enum gm_kind)shard->verdict;
    }
    if (class && class->kept)
        record = make_live(shard, class, size);
    gm_spin_unlock(&shard->lock);
    return record;
}

/* A batch of fewer bytes needs no fence for them, whatever the other shards hold. */
static size_t plain_bytes(void) {
    return gm_cache_shards_used() * BATCH_BYTES <= ALL_BATCH_BYTES ? BATCH_BYTES : SHARD_BYTES;
}

/* The class of a claimed record in this shard. NULL: there is none. */
static struct gm_size_class *class_of_record(struct gm_shard *shard, struct gm_registered *record) {
    if (shard->entries_only) /* the record may be in the index by range */
        return NULL;
    if (record->of_shard == shard->number)
        return record->of_size;
    struct gm_free_lists *lists = gm_free_lists_of(shard, record->block.context_id);
    record->of_size = lists && !lists->disabled ? gm_size_class_of(lists, record->block.reserved) : NULL;
    record->of_shard = record->of_size ? shard->number : 0;
    return record->of_size;
}

/* Puts a claimed record whose class is known on the open batch, unless this needs a fence or more room. The caller
 * holds the lock. A record that a policy counts, or that must not be kept, is of no shard (registry.c). */
static inline bool put_plainly(struct gm_shard *shard, struct gm_registered *record) {
    size_t size = record->block.size, reserved = record->block.reserved;
    if (GM_UNLIKELY(record->of_shard != shard->number))
        return false;
    struct gm_free_lists *lists = record->of_size->lists;
    struct gm_batch *batch = lists->open;
    if (GM_UNLIKELY(!batch || batch->count >= shard->most || batch->bytes + reserved >= shard->most_bytes) ||
        GM_UNLIKELY(!gm_cache_has_room(lists, reserved)))
        return false;
    gm_free_lists_keep(shard, lists, batch, record);
    gm_stats_freed_late(gm_mine.counts, size, reserved);
    return true;
}

/* NULL: the shard did not make this block live lately, or the block is not live. */
static inline struct gm_registered *claim_recent(const struct gm_shard *shard, uint64_t address) {
    struct gm_registered *record = __atomic_load_n(&shard->recent_records[gm_recent_slot(address)], __ATOMIC_RELAXED);
    return GM_LIKELY(record && gm_registered_word(record) == address) && GM_LIKELY(gm_registered_claim(record, address))
               ? record
               : NULL;
}

struct gm_registered *gm_cache_claim(struct gm_registry *registry, uint64_t address) {
    struct gm_registered *record = gm_mine.shard ? claim_recent(gm_mine.shard, address) : NULL;
    return record ? record : gm_registry_claim(registry, address);
}

bool gm_cache_keep_plainly(uint64_t address) {
    struct gm_shard *shard = gm_mine.plain;
    struct gm_registered *record = GM_LIKELY(shard != NULL) ? claim_recent(shard, address) : NULL;
    if (GM_UNLIKELY(!record))
        return false;
    if (GM_LIKELY(gm_spin_try(&shard->lock))) {
        bool kept = put_plainly(shard, record);
        gm_spin_unlock(&shard->lock);
        if (GM_LIKELY(kept))
            return true;
    }
    gm_registered_revive(record, address);
    return false;
}

/* The batch of the record is full. `block` is a copy of its block. */
static GM_APART gm_status record_kept(struct gm_resource *self, struct gm_shard *shard, struct gm_free_lists *lists,
                                      const struct gm_registered *record, struct gm_block *block) {
    static const struct gm_free_request how = {.call = GM_CALL_FREE};
    gm_registered_copy(record, gm_registered_address(record), block);
    return record_fence(self, shard, lists, block, &how);
}

bool gm_cache_keep(struct gm_resource *self, struct gm_registered *record, struct gm_block *block, uint64_t *sequence,
                   gm_status *status) {
    struct gm_cache *state = self->state;
    const struct gm_block *freed = &record->block;
    if (freed->owner != self || !freed->recurs)
        return false;
    struct gm_shard *shard = own_shard(self);
    gm_spin_lock(&shard->lock);
    struct gm_size_class *class = class_of_record(shard, record);
    struct gm_free_lists *lists = class ? class->lists : NULL;
    shard->most_bytes = plain_bytes();
    bool may = lists && gm_cache_has_room(lists, freed->reserved);
    struct gm_batch *batch = may ? lists->open ? lists->open : gm_batch_open(lists) : NULL;
    if (!batch) {
        gm_spin_unlock(&shard->lock);
        return false;
    }
    *sequence = GM_UNLIKELY(*sequence) ? gm_trace_sequence() : 0;
    __atomic_store_n(&record->block.counted, 0, __ATOMIC_RELAXED);
    gm_free_lists_keep(shard, lists, batch, record);
    *status = GM_OK;
    if (GM_UNLIKELY(is_full(state, lists, batch)) && !gm_capture_any())
        *status = record_kept(self, shard, lists, record, block);
    else
        gm_spin_unlock(&shard->lock);
    return true;
}

void gm_cache_keep_entries_only(struct gm_cache *state) {
    state->entries_only = true;
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        gm_spin_lock(&shard->lock);
        shard->entries_only = true;
        gm_shard_renumber(shard);
        for (struct gm_free_lists *lists = shard->lists; lists; lists = lists->next)
            gm_free_lists_turn_records(lists);
        gm_spin_unlock(&shard->lock);
    }
}

/* A thread that is in the plain part holds its shard's lock for the part that counts. Others note sizes with the new
 * key as soon as `plain` has changed, so both keys may be in a shard. */
void gm_cache_set_plain(struct gm_resource *self, bool with_plain) {
    struct gm_cache *state = self->state;
    __atomic_store_n(&plain, with_plain, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        gm_spin_lock(&shard->lock);
        shard->most = with_plain ? state->frees - 1 : 0;
        for (unsigned k = 0; k < sizeof shard->recent_sizes / sizeof *shard->recent_sizes; k++) {
            uint64_t *key = &shard->recent_sizes[k].context_id;
            *key = with_plain ? *key & ~NOT_PLAIN : *key | NOT_PLAIN;
        }
        gm_spin_unlock(&shard->lock);
    }
}

void gm_cache_stop_keeping(struct gm_resource *self) { gm_cache_keep_entries_only(self->state); }

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
    gm_cache_set_plain(self, plain);
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
    state->page = self->upstream->ops->page && !gm_limit_on() ? self->upstream->ops->page : SIZE_MAX;
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
