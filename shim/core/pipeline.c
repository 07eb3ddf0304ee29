/* The pipeline: promises of each call, counters, events, GPUMEM_LIMIT, and the life of contexts. pipeline.h
 * describes the steps. */
#include "shim/core/pipeline.h"

#include <sched.h>

#include "shim/core/explain.h"
#include "shim/core/freed.h"
#include "shim/core/site.h"
#include "shim/cache/cache.h"
#include "shim/base/limit.h"
#include "shim/placement/router.h"
#include "shim/resource/giving.h"
#include "shim/resource/rows.h"
#include "shim/trace/summary.h"

enum { RESERVATION = 62, VMM_HANDLE = 63 }; /* tag bits of registry keys; no address uses them */

static struct gm_pipeline_setup pipeline;
bool gm_pipeline_timed;
const struct gm_request gm_request_blank = {.device = -1};

bool gm_pipeline_short;
static struct gm_resource *keeper; /* serves the short path */

/* ---- stacks of the program (gpumem_resource.h), beside pipeline.root. A thread that calls one counts itself in
 * `busy`, so that the stack is not discarded meanwhile. */

enum { GUESTS = 1024 };
static struct guest {
    struct gm_resource *top;
    uint32_t busy;
} guests[GUESTS];
static uint32_t guests_used;

static struct gm_resource *enter_guest(struct guest *guest) {
    __atomic_add_fetch(&guest->busy, 1, __ATOMIC_SEQ_CST);
    struct gm_resource *top = __atomic_load_n(&guest->top, __ATOMIC_SEQ_CST);
    if (!top)
        __atomic_sub_fetch(&guest->busy, 1, __ATOMIC_SEQ_CST);
    return top;
}

static void leave_guest(struct guest *guest) { __atomic_sub_fetch(&guest->busy, 1, __ATOMIC_SEQ_CST); }

/* The body sees `top`. */
#define EACH_GUEST(top)                                                                                              \
    for (struct guest *guest_ = guests; guest_ < guests + __atomic_load_n(&guests_used, __ATOMIC_ACQUIRE); guest_++) \
        for (struct gm_resource *top = enter_guest(guest_); top; leave_guest(guest_), top = NULL)

bool gm_pipeline_watch(struct gm_resource *top) {
    for (uint32_t i = 0; i < GUESTS; i++) {
        struct gm_resource *none = NULL;
        if (!__atomic_compare_exchange_n(&guests[i].top, &none, top, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            continue;
        uint32_t used = __atomic_load_n(&guests_used, __ATOMIC_RELAXED);
        while (used <= i &&
               !__atomic_compare_exchange_n(&guests_used, &used, i + 1, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            ;
        return true;
    }
    return false;
}

void gm_pipeline_unwatch(struct gm_resource *top) {
    for (uint32_t i = 0; i < GUESTS; i++) {
        struct gm_resource *same = top;
        if (!__atomic_compare_exchange_n(&guests[i].top, &same, NULL, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            continue;
        while (__atomic_load_n(&guests[i].busy, __ATOMIC_SEQ_CST))
            sched_yield();
        return;
    }
}

void gm_pipeline_report(void) {
    EACH_GUEST(top)
    if (top->ops->report)
        top->ops->report(top);
}

void gm_pipeline_setup(const struct gm_pipeline_setup *setup) {
    pipeline = *setup;
    gm_pipeline_timed = setup->timed;
}

const struct gm_policy *gm_pipeline_policy(void) { return pipeline.policy; }

uint64_t gm_key(enum gm_space space, uint64_t value) {
    switch (space) {
    case GM_SPACE_RESERVATION: return value ^ 1ull << RESERVATION;
    case GM_SPACE_VMM_HANDLE: return value ^ 1ull << VMM_HANDLE;
    case GM_SPACE_OBJECT: return value ^ 3ull << RESERVATION;
    default: return value;
    }
}

uint64_t gm_key_value(uint64_t key) {
    uint64_t tag = key >> RESERVATION;
    return tag == 1 || tag == 2 || tag == 3 ? key ^ tag << RESERVATION : key;
}

/* ---- promises of each call to its caller */

static uint32_t promises_of(const struct gm_request *request) {
    const uint32_t anywhere =
        GM_PROMISE_READY_ANYWHERE | GM_PROMISE_DEVICE_ACCESS | GM_PROMISE_IPC | GM_PROMISE_PEER | GM_PROMISE_RDMA;
    switch (request->call) {
    case GM_CALL_ALLOC:
    case GM_CALL_ALLOC_PITCH: return anywhere;
    case GM_CALL_ALLOC_ASYNC:
        return GM_PROMISE_STREAM_ORDER | GM_PROMISE_DEVICE_ACCESS | (request->capturing ? GM_PROMISE_CAPTURE : 0);
    case GM_CALL_ALLOC_MANAGED:
        return GM_PROMISE_READY_ANYWHERE | GM_PROMISE_DEVICE_ACCESS | GM_PROMISE_HOST_ACCESS | GM_PROMISE_MANAGED;
    default: return GM_PROMISE_DEVICE_ACCESS;
    }
}

/* ---- counters and events */

/* A block for which the device, or GPUMEM_LIMIT, had no room. */
static inline bool is_elsewhere(const struct gm_block *block) {
    return GM_UNLIKELY(block->reason == GM_REASON_OUT_OF_MEMORY);
}

static GM_RARE void count_elsewhere(const struct gm_block *block) {
    struct gm_stats_elsewhere *elsewhere = &gm_stats->elsewhere[block->kind];
    uint64_t none = 0;
    if (!__atomic_load_n(&elsewhere->since_ns, __ATOMIC_RELAXED))
        __atomic_compare_exchange_n(&elsewhere->since_ns, &none, gm_now_ns(), false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    gm_stats_raise(&elsewhere->peak, __atomic_add_fetch(&elsewhere->live, block->size, __ATOMIC_RELAXED));
}

static inline bool is_program_managed(const struct gm_block *block) {
    return block->call == GM_CALL_ALLOC_MANAGED && pipeline.program_managed;
}

void (*gm_pipeline_sample)(int device, bool soon);
uint64_t gm_pipeline_sample_from = UINT64_MAX;

static GM_RARE void sample(uint64_t context, int device, bool soon) {
    void (*take)(int device, bool soon) = __atomic_load_n(&gm_pipeline_sample, __ATOMIC_ACQUIRE);
    if (take && context)
        take(device, soon);
}

/* The pool counts its memory as a whole. */
static inline bool is_in_pool(const struct gm_block *block) { return gm_kind_traits(block->kind) & GM_TRAIT_POOLED; }

/* ---- device memory of the program's virtual memory management: its bytes are reserved from the creation of the handle
 * on, and live while they are mapped. What gpumem keeps of it counts as kept memory of kind mapped: from the event that
 * took the program's last hold on the memory until the creation of the handle that reuses it. */

static GM_RARE void count_handle_created(const struct gm_block *block) {
    if (block->hit)
        gm_stats_give(GM_KIND_MAPPED, block->device, block->size);
    gm_stats_take((enum gm_kind)block->kind, block->device, block->size);
}

static GM_RARE void count_handle_destroyed(const struct gm_block *block, bool kept) {
    size_t unmapped = block->size - block->pitch;
    gm_stats_give((enum gm_kind)block->kind, block->device, unmapped);
    if (kept)
        gm_stats_take(GM_KIND_MAPPED, block->device, unmapped);
    if (block->charged)
        gm_limit_give(block->device, unmapped);
}

/* The mapping is gone. True: its handle still holds the memory. */
static bool returned_to_handle(const struct gm_block *mapping) {
    struct gm_block handle;
    return gm_registry_map(gm_registry_shared(), gm_key(GM_SPACE_VMM_HANDLE, mapping->stream), -(int64_t)mapping->size,
                           &handle);
}

static inline bool is_reused(const struct gm_block *block) { return block->hit && block->call != GM_CALL_VMM_MAP; }

static GM_IN_PLACE void count_created(const struct gm_block *block) {
    struct gm_stats *stats = gm_stats;
    struct gm_stats_shard *mine = gm_stats_mine();
    if (GM_UNLIKELY(mine->late_reserved))
        gm_stats_settle_late(mine);

    if (GM_UNLIKELY(!gm_block_is_memory(block))) {
        if (gm_block_is_handle(block))
            count_handle_created(block);
        return;
    }
    if (is_elsewhere(block))
        count_elsewhere(block);
    if (GM_UNLIKELY(is_program_managed(block)))
        pipeline.program_managed((int64_t)block->size);
    gm_stats_raise(&stats->peak_bytes[block->kind],
                   __atomic_add_fetch(&stats->live_bytes[block->kind], block->size, __ATOMIC_RELAXED));
    if (gm_kind_is_on_device(block->kind))
        gm_stats_raise(&stats->peak_total, gm_stats_live_on_devices(stats));
    if (block->reserved > block->size && gm_kind_is_on_device(block->kind))
        __atomic_add_fetch(&stats->slack_bytes[block->kind], block->reserved - block->size, __ATOMIC_RELAXED);
    if (is_reused(block))
        return;
    if (!is_in_pool(block))
        gm_stats_take(block->kind, block->device, block->reserved);
    if (GM_UNLIKELY(__atomic_load_n(&stats->peak_reserved, __ATOMIC_RELAXED) >=
                    __atomic_load_n(&gm_pipeline_sample_from, __ATOMIC_RELAXED)))
        sample(block->context, block->device, false);
}

/* `kept`: gpumem keeps the block for reuse. */
static inline void count_destroyed(const struct gm_block *block, bool kept) {
    struct gm_stats *stats = gm_stats;

    if (GM_UNLIKELY(!gm_block_is_memory(block))) {
        if (gm_block_is_handle(block))
            count_handle_destroyed(block, kept);
        return;
    }
    if (is_elsewhere(block))
        __atomic_sub_fetch(&stats->elsewhere[block->kind].live, block->size, __ATOMIC_RELAXED);
    if (GM_UNLIKELY(is_program_managed(block)))
        pipeline.program_managed(-(int64_t)block->size);
    __atomic_sub_fetch(&stats->live_bytes[block->kind], block->size, __ATOMIC_RELAXED);
    bool held = GM_UNLIKELY(block->call == GM_CALL_VMM_MAP) && returned_to_handle(block);
    if (GM_UNLIKELY(block->charged) && !held)
        gm_limit_give(block->device, block->reserved);
    if (block->reserved > block->size && gm_kind_is_on_device(block->kind))
        __atomic_sub_fetch(&stats->slack_bytes[block->kind], block->reserved - block->size, __ATOMIC_RELAXED);
    if (!kept && !is_in_pool(block))
        gm_stats_give(block->kind, block->device, block->reserved);
    if (held)
        gm_stats_take(GM_KIND_VMM, block->device, block->size);
}

/* A counter of the thread's own shard. */
static void bump(uint64_t *counter) { gm_stats_count(counter, 1); }

static uint32_t saturate(uint64_t value) { return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value; }

/* In a summary a block counts for the site of its allocation. True: the event is counted, or no part of a summary. */
static GM_RARE bool sum_up(uint64_t begin, enum gm_action action, const struct gm_block *block, uint64_t spent_ns) {
    bool ends = action == GM_ACT_FREE || action == GM_ACT_RELEASE;
    size_t bytes = block->size;
    if (action != GM_ACT_ALLOC && !ends)
        return false;
    const struct gm_event event = {.time_ns = gm_ticks_to_ns(begin) + spent_ns,
                                   .bytes = bytes,
                                   .site = block->site,
                                   .device = (int8_t)block->device,
                                   .action = (uint8_t)action,
                                   .kind = block->kind};
    if (gm_block_is_memory(block))
        gm_trace_sum_up(&event);
    return true;
}

static GM_APART void write_event(const struct gm_scope *scope, enum gm_action action, const struct gm_block *block,
                                 gm_status status, enum gm_reason reason, enum gm_kind verdict, uint64_t spent_ns) {
    const struct gm_request *request = &scope->request;
    if (GM_UNLIKELY(gm_summary_on()) && sum_up(scope->begin, action, block, spent_ns))
        return;
    uint64_t number = scope->sequence ? scope->sequence : gm_trace_sequence();
    struct gm_event otherwise, *event = gm_trace_place(number, &otherwise);
    *event = (struct gm_event){
        .seq = number,
        .time_ns = scope->begin ? gm_ticks_to_ns(scope->begin) : gm_now_ns(),
        .address = gm_key_value(block->address),
        .bytes = block->size,
        .stream = request->stream,
        .slack = block->reserved > block->size ? saturate(block->reserved - block->size) : 0,
        .duration_ns = saturate(spent_ns),
        .site = request->site,
        .context = block->context_number ? block->context_number : request->context_number,
        .device = (int8_t)request->device,
        .call = (uint8_t)request->call,
        .action = (uint8_t)action,
        .kind = block->kind,
        .reason = (uint8_t)reason,
        .verdict = (uint8_t)verdict,
        .result = (uint16_t)status,
        .hit = action == GM_ACT_ALLOC && block->hit,
        .flags = (uint8_t)((request->capturing ? GM_EVENT_CAPTURING : 0) |
                           (request->per_thread ? GM_EVENT_PER_THREAD : 0) | (scope->kept ? GM_EVENT_KEPT : 0)),
    };
    gm_trace_placed(event, &otherwise);
}

/* ---- blocks that are older than the trace, or than the end of its pause */

/* The call that ends the block's life decides, as readers do, whether it is memory or address space. */
static enum gm_action action_of(const struct gm_block *block) {
    switch (block->call) {
    case GM_CALL_VMM_RESERVE:
    case GM_CALL_POOL_CREATE: return GM_ACT_RESERVE;
    case GM_CALL_VMM_MAP: return block->kind == GM_KIND_MAPPED ? GM_ACT_ALLOC : GM_ACT_MAP;
    default: return GM_ACT_ALLOC;
    }
}

static void write_live(const struct gm_block *block) {
    struct gm_event event = {
        .seq = block->sequence,
        .time_ns = gm_now_ns(),
        .address = gm_key_value(block->address),
        .bytes = (uint64_t)block->size,
        .stream = block->stream,
        .slack = block->reserved > block->size ? saturate(block->reserved - block->size) : 0,
        .site = block->site,
        .context = block->context_number,
        .device = (int8_t)block->device,
        .call = block->call,
        .action = (uint8_t)action_of(block),
        .kind = block->kind,
        .reason = block->reason,
        .verdict = block->kind,
        .flags = GM_EVENT_LIVE,
    };
    gm_trace_event(&event);
}

static GM_RARE void write_live_now(struct gm_block *block) {
    block->sequence = gm_trace_sequence();
    write_live(block);
}

void gm_pipeline_record_free(struct gm_scope *scope) {
    struct gm_block *block = &scope->block;
    struct gm_stats_shard *shard = gm_stats_mine();
    bool recorded = scope->known ? gm_is_recorded(block->recorded) : gm_trace_allocates();
    if (!recorded && !gm_trace_allocates())
        return;
    if (GM_UNLIKELY(!recorded && scope->known)) {
        block->recorded = gm_recorded_after(block->recorded);
        write_live_now(block);
    }
    gm_stats_count(&shard->frees_begun, 1);
    scope->sequence = gm_trace_sequence();
    if (GM_UNLIKELY(scope->known && !gm_is_recorded(block->recorded))) { /* the next trace does not hold the block */
        scope->sequence = 0;
        gm_stats_count(&shard->frees_written, 1);
    }
}

/* The event of a free follows the free, which may take long, but its number is taken before. Whoever reads this count
 * and ends the trace finds the event in the thread's chunk. */
static inline void count_written(struct gm_stats_shard *shard) {
    __atomic_thread_fence(__ATOMIC_RELEASE);
    gm_stats_count(&shard->frees_written, 1);
}

bool gm_pipeline_wrote_frees(void) {
    struct gm_stats_shard total = gm_stats_total(gm_stats);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return total.frees_begun == total.frees_written;
}

/* A block was added to the registry while the trace, or the next one, began. Returns the number of its event; 0:
 * another thread wrote it. */
static GM_RARE uint64_t record_late(const struct gm_block *block) {
    struct gm_registry *registry = gm_registry_shared();
    uint32_t word;
    while (registry && gm_trace_allocates() && (word = gm_registry_record(registry, block->address))) {
        uint64_t sequence = gm_trace_sequence();
        if (gm_is_recorded(word))
            return sequence;
    }
    return 0;
}

static void write_kept_bytes(void) {
    struct gm_stats_shard total = gm_stats_total(gm_stats);
    for (int kind = 0; kind < GM_KIND_COUNT; kind++) {
        uint64_t in = total.cached_in[kind], out = total.cached_out[kind];
        struct gm_event event = {
            .seq = gm_trace_sequence(),
            .time_ns = gm_now_ns(),
            .bytes = in > out ? in - out : 0,
            .device = -1,
            .action = GM_ACT_KEPT,
            .kind = (uint8_t)kind,
            .verdict = (uint8_t)kind,
        };
        if (in)
            gm_trace_event(&event);
    }
}

uint64_t gm_pipeline_timed_begin(void) {
    if (gm_stats_watched() && gm_stats_requested)
        gm_stats_requested();
    return gm_ticks();
}

static GM_APART uint64_t spend_timed(uint64_t begin) {
    uint64_t now = gm_ticks(), spent_ns = gm_ticks_span_ns(now - begin);
    struct gm_stats_shard *shard = gm_stats_mine();
    gm_stats_count(&shard->time_ns, spent_ns);
    if (gm_stats_watched())
        gm_stats_watch_ends(gm_ticks_to_ns(now));
    return spent_ns;
}

/* Ends the time measurement of the scope. Returns nanoseconds. */
static inline uint64_t spend(const struct gm_scope *scope) {
    return GM_UNLIKELY(scope->begin) ? spend_timed(scope->begin) : 0;
}

/* ---- allocation */

static GM_APART void notify_policy(const struct gm_block *block) {
    struct gm_request request = gm_request_blank;
    request.call = block->call;
    request.size = block->size;
    request.device = block->device;
    request.context_id = block->context_id;
    pipeline.policy->freed(&request);
}

static inline void notify_freed(const struct gm_block *block) {
    if (block->counted && pipeline.policy->freed)
        notify_policy(block);
}

/* The registry had a record at the address of a new block. The free of the old block bypassed every entry point. */
static GM_RARE void record_stale(const struct gm_block *stale) {
    struct gm_scope scope = {.begin = gm_trace_is_on() ? gm_ticks() : 0};
    if (gm_block_is_memory(stale))
        bump(&gm_stats_mine()->released[stale->kind]);
    count_destroyed(stale, false);
    notify_freed(stale);
    if (!gm_trace_is_on())
        return;
    scope.sequence = gm_trace_sequence();
    if (!gm_is_recorded(stale->recorded))
        return;
    scope.request.call = stale->call;
    scope.request.device = stale->device;
    scope.request.site = stale->site;
    write_event(&scope, GM_ACT_RELEASE, stale, GM_OK, GM_REASON_NONE, stale->kind, 0);
}

static GM_IN_PLACE void remember(struct gm_scope *scope, enum gm_action action, enum gm_reason reason,
                                 enum gm_kind verdict) {
    const struct gm_request *request = &scope->request;
    struct gm_block *block = &scope->block, stale;
    struct gm_stats_shard *shard = gm_stats_mine();
    struct gm_registry *registry = gm_registry_shared();

    block->context_number = request->context_number;
    if (block->reserved < block->size)
        block->reserved = block->size;
    stale.address = 0;
    bool records = gm_trace_allocates(); /* after the block was obtained: see shim/trace/recorded.h */
    block->recorded = records ? gm_recorded_after(0) : 0;
    if (registry)
        gm_registry_add(registry, block, &stale);
    if (GM_UNLIKELY(stale.address))
        record_stale(&stale);
    if (records) /* after all events of the address's former block, also after the end of its context */
        scope->sequence = gm_trace_sequence();
    if (gm_trace_allocates() && GM_UNLIKELY(!gm_is_recorded(block->recorded))) {
        scope->sequence = record_late(block);
        records = scope->sequence != 0;
    }
    if (GM_LIKELY(gm_block_is_memory(block))) {
        bump(&shard->allocs[block->kind]);
        if (block->hit)
            bump(&shard->hits[block->kind]);
    }
    count_created(block);
    if (GM_LIKELY(gm_block_is_memory(block)))
        gm_mine.newest = block->address;
    uint64_t spent_ns = spend(scope);
    if (records)
        write_event(scope, action, block, GM_OK, reason, verdict, spent_ns);
}

static GM_RARE void alloc_failed(struct gm_scope *scope, enum gm_kind kind, enum gm_reason reason, enum gm_kind verdict,
                                 gm_status status) {
    struct gm_block nothing = {.size = scope->request.size, .kind = (uint8_t)kind};
    /* A runtime without a context creates one and calls again. The failed first call requested no memory. */
    if (status == GM_INVALID_CONTEXT && !scope->request.context)
        return;
    bump(&gm_stats_mine()->failed_allocs);
    uint64_t spent_ns = spend(scope);
    if (gm_trace_allocates())
        write_event(scope, GM_ACT_ALLOC_FAIL, &nothing, status, reason, verdict, spent_ns);
}

/* Not for the program's own stacks, which report to their caller. */
static GM_RARE void explain_failed(const struct gm_request *request, enum gm_kind kind, gm_status status,
                                   bool beyond_limit) {
    bool memory = gm_call_allocates(request->call, GM_KIND_NATIVE) && request->call != GM_CALL_POOL_CREATE;
    if (status != GM_OUT_OF_MEMORY || !memory || request->call == GM_CALL_VMM_RESERVE ||
        request->call == GM_CALL_VMM_MAP)
        return;
    if (gm_kind_is_on_device(kind))
        sample(request->context, request->device, true);
    gm_explain_failure(request, kind, beyond_limit);
}

/* Writes an event for the soft promises that the block's memory does not keep. It explains a later error of the
 * driver. */
static void write_drops(struct gm_scope *scope) {
    const struct gm_resource *server = gm_router_server(scope->block.kind);
    uint32_t dropped = server ? gm_resource_drops(server->properties, &scope->request) : 0;
    if (!dropped)
        return;
    struct gm_block what = scope->block;
    struct gm_scope note = *scope;
    what.size = dropped;
    what.reserved = 0;
    note.sequence = 0;
    write_event(&note, GM_ACT_DROP, &what, GM_OK, what.reason ? what.reason : GM_REASON_POLICY, what.kind, 0);
}

/* The event does not say in which space its address lies. */
bool gm_pipeline_is_live(const struct gm_event *event) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    for (int space = GM_SPACE_ADDRESS; registry && space <= GM_SPACE_OBJECT; space++)
        if (gm_registry_find(registry, gm_key((enum gm_space)space, event->address), &block) &&
            block.size == event->bytes && block.kind == event->kind && block.site == event->site)
            return true;
    return false;
}

/* ---- GPUMEM_LIMIT */

static bool is_limited(const struct gm_request *request) { return !request->capturing && request->device >= 0; }

bool gm_pipeline_charge(struct gm_scope *scope, bool may_exceed) {
    const struct gm_request *request = &scope->request;
    if (GM_LIKELY(!gm_limit_on()) || !is_limited(request))
        return true;
    if (may_exceed)
        gm_limit_force(request->device, request->size);
    else if (!gm_limit_take(request->device, request->size))
        return false;
    scope->charged = request->size;
    return true;
}

static void uncharge(struct gm_scope *scope) {
    if (GM_UNLIKELY(scope->charged))
        gm_limit_give(scope->request.device, scope->charged);
    scope->charged = 0;
}

static gm_status serve(struct gm_scope *scope, const struct gm_decision *decision) {
    return pipeline.root->ops->alloc(pipeline.root, &scope->request, decision, &scope->block);
}

/* Memory that is not on the device takes nothing from the limit. Pitched memory may need more than its rows. */
static bool settle_charge(struct gm_scope *scope) {
    struct gm_block *block = &scope->block;
    if (!gm_kind_is_on_device(block->kind) || block->reason == GM_REASON_OUT_OF_MEMORY) {
        uncharge(scope);
        return true;
    }
    size_t more = block->reserved > scope->charged ? block->reserved - scope->charged : 0;
    if (more && !gm_limit_take(block->device, more))
        return false;
    block->charged = 1;
    return true;
}

static GM_APART gm_status serve_within_limit(struct gm_scope *scope, struct gm_decision *decision) {
    const struct gm_request *request = &scope->request;
    if (gm_pipeline_charge(scope, false)) {
        gm_status status = serve(scope, decision);
        if (status)
            uncharge(scope);
        if (status || !scope->charged || settle_charge(scope))
            return status;
        struct gm_free_request how = {.call = GM_CALL_FREE};
        if (request->call == GM_CALL_ALLOC_ASYNC)
            how = (struct gm_free_request){GM_CALL_FREE_ASYNC, request->stream, request->per_thread, false};
        if (scope->block.owner->ops->free(scope->block.owner, &scope->block, &how)) {
            gm_limit_force(request->device, scope->block.reserved - scope->charged);
            scope->block.charged = 1; /* no smaller block is possible, and the free failed */
            return GM_OK;
        }
        uncharge(scope);
        scope->block.reason = GM_REASON_NONE;
    }
    decision->reason = GM_REASON_OUT_OF_MEMORY;
    return serve(scope, decision);
}

/* ---- members of a request that only some policies need */

static uint64_t objects;
static uint32_t threads;
static __thread __attribute__((tls_model("initial-exec"))) uint32_t thread_number;

/* Numbers the request. A request without a context fails and appears in no trace; it comes again after the runtime
 * created a context. A replay sets thread and number itself. */
static GM_APART void identify(struct gm_request *request) {
    if (!request->context)
        return;
    request->object = __atomic_add_fetch(&objects, 1, __ATOMIC_RELAXED);
    if (request->thread)
        return;
    if (!thread_number)
        thread_number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    request->thread = thread_number;
    request->where = gm_site_keys(request->site);
}

#ifdef GM_HAVE_CUDA
/* ---- allocation from a kept block whose record stays in place */

/* The event of a call that took the short path. `decision` is that of an allocation. The caller owns `block`. */
static GM_IN_PLACE void write_short(const struct gm_block *block, const struct gm_decision *decision, uint64_t sequence,
                                    uint64_t begin, uint32_t site) {
    enum gm_action action = decision ? GM_ACT_ALLOC : GM_ACT_FREE;
    size_t size = block->size;
    uint64_t now = gm_ticks(), spent_ns, time_ns = gm_ticks_to_times(begin ? begin : now, now, &spent_ns);
    gm_stats_count(&gm_mine.counts->time_ns, spent_ns);
    if (GM_UNLIKELY(gm_summary_on()) && sum_up(begin, action, block, spent_ns))
        return;
    struct gm_event otherwise, *event = gm_trace_place(sequence, &otherwise);
    *event = (struct gm_event){
        .seq = sequence,
        .time_ns = time_ns,
        .address = block->address,
        .bytes = size,
        .slack = saturate(block->reserved - size),
        .duration_ns = saturate(spent_ns),
        .site = site,
        .context = block->context_number,
        .device = (int8_t)block->device,
        .call = decision ? GM_CALL_ALLOC : GM_CALL_FREE,
        .action = (uint8_t)action,
        .kind = block->kind,
        .reason = (uint8_t)(decision ? decision->reason : GM_REASON_NONE),
        .verdict = (uint8_t)(decision ? decision->verdict : (enum gm_kind)block->kind),
        .hit = decision != NULL,
        .flags = decision ? 0 : GM_EVENT_KEPT,
    };
    gm_trace_placed(event, &otherwise);
}

/* The number of the event; 0: none is to be written. */
static GM_IN_PLACE uint64_t record_reused(struct gm_registered *record) {
    uint32_t word;
    while (gm_trace_allocates() && (word = gm_record_word(&record->block.recorded))) {
        uint64_t sequence = gm_trace_sequence();
        if (GM_LIKELY(gm_is_recorded(word)))
            return sequence;
    }
    return 0;
}

/* Where call sites are known: the record gets that of its new block. */
static GM_APART void write_reused(struct gm_registered *record, const struct gm_decision *decision, uint64_t begin,
                                  uint32_t site) {
    __atomic_store_n(&record->block.site, site, __ATOMIC_RELAXED);
    __atomic_store_n(&record->block.hit, 1, __ATOMIC_RELAXED);
    uint64_t sequence = record_reused(record);
    if (!sequence)
        return;
    write_short(&record->block, decision, sequence, begin, site);
}

static GM_RARE void count_reused(size_t size, size_t reserved) {
    const struct gm_block block = {
        .size = size, .reserved = reserved, .call = GM_CALL_ALLOC, .kind = (uint8_t)GM_KIND_CACHE, .hit = 1};
    count_created(&block);
}

static inline void note_reused(struct gm_stats_shard *shard, uint64_t address) {
    bump(&shard->allocs[GM_KIND_CACHE]);
    bump(&shard->hits[GM_KIND_CACHE]);
    gm_mine.newest = address;
}

/* A kept block serves a request. The thread has a shard of counters. */
static inline uint64_t end_reuse(struct gm_registered *record, size_t size, const struct gm_decision *decision,
                                 uint64_t begin, uint32_t site) {
    struct gm_stats_shard *shard = gm_mine.counts;
    uint64_t address = gm_registered_word(record), reserved = record->block.reserved;
    note_reused(shard, address);
    if (GM_UNLIKELY(gm_sites_are_on()))
        write_reused(record, decision, begin, site);
    if (!gm_stats_took_late(shard, size, reserved)) {
        gm_stats_uncached(GM_KIND_CACHE, reserved);
        count_reused(size, reserved);
    }
    return address;
}

/* The policy wants a block of the cache, and the short path serves such requests. */
static bool reuse_decided(struct gm_scope *scope, const struct gm_decision *decision) {
    const struct gm_request *request = &scope->request;
    if (decision->kind != GM_KIND_CACHE || request->call != GM_CALL_ALLOC || !gm_pipeline_is_short() ||
        GM_UNLIKELY(!gm_mine.counts))
        return false;
    struct gm_registered *record = gm_cache_serve(keeper, request, decision, pipeline.policy->freed != NULL);
    if (!record)
        return false;
    scope->block.address = end_reuse(record, request->size, decision, scope->begin, request->site);
    return true;
}
#endif

gm_status gm_pipeline_alloc(struct gm_scope *scope) {
    struct gm_request *request = &scope->request;
    struct gm_decision decision = {GM_KIND_NATIVE, GM_REASON_NEVER_MOVED, GM_KIND_NATIVE};
    const struct gm_policy *policy = pipeline.policy;
    bool movable = request->size > 0 && gm_call_is_movable(request);

    request->promises = promises_of(request);
    if (movable) {
        if (GM_UNLIKELY(pipeline.wants))
            identify(request);
        policy->decide(request, &decision);
    }
#ifdef GM_HAVE_CUDA
    if (reuse_decided(scope, &decision))
        return GM_OK;
#endif
    if (GM_UNLIKELY(pipeline.grows != NULL) && movable && pipeline.grows(request)) {
        decision.kind = GM_KIND_VMM;
        decision.reason = GM_REASON_GROWTH;
    }
    gm_status status = gm_limit_on() ? serve_within_limit(scope, &decision) : serve(scope, &decision);
    if (status != GM_OK) {
        if (movable && policy->failed)
            policy->failed(request);
        alloc_failed(scope, decision.kind, decision.reason, decision.verdict, status);
        explain_failed(request, decision.kind, status, decision.reason == GM_REASON_OUT_OF_MEMORY);
        return status;
    }
    scope->block.counted = movable;
    if (GM_UNLIKELY(decision.advice) && pipeline.advise && gm_kind_traits(scope->block.kind) & GM_TRAIT_MANAGED)
        pipeline.advise(request, decision.advice, &scope->block);
    enum gm_reason reason = scope->block.reason ? scope->block.reason : decision.reason;
    remember(scope, GM_ACT_ALLOC, reason, decision.verdict);
    if (gm_kind_traits(scope->block.kind) & GM_TRAIT_PLACED) {
        bump(&gm_stats_mine()->moved);
        if (is_elsewhere(&scope->block))
            gm_explain_move(request, (enum gm_kind)scope->block.kind, decision.reason == GM_REASON_OUT_OF_MEMORY);
        if (scope->sequence && (pipeline.user_named || reason == GM_REASON_OUT_OF_MEMORY || reason == GM_REASON_GROWTH))
            write_drops(scope);
    }
    return GM_OK;
}

void gm_pipeline_saw_alloc(struct gm_scope *scope, enum gm_kind kind, enum gm_action action, uint64_t key,
                           size_t reserved, gm_status status) {
    if (status != GM_OK) {
        bool beyond_limit = gm_limit_on() && !scope->charged && is_limited(&scope->request);
        uncharge(scope);
        alloc_failed(scope, kind, GM_REASON_NEVER_MOVED, kind, status);
        explain_failed(&scope->request, kind, status, beyond_limit);
        return;
    }
    const struct gm_request *request = &scope->request;
    scope->block = (struct gm_block){
        .address = key,
        .size = request->size,
        .reserved = reserved,
        .context = request->context,
        .context_id = request->context_id,
        .stream = request->stream,
        .site = request->site,
        .device = (int16_t)request->device,
        .call = (uint8_t)request->call,
        .kind = (uint8_t)kind,
        .charged = scope->charged != 0,
        .hit = scope->known,
    };
    remember(scope, action, GM_REASON_NEVER_MOVED, kind);
}

void gm_pipeline_saw_map(struct gm_scope *scope, uint64_t address, uint64_t handle, gm_status status) {
    struct gm_block holder;
    struct gm_registry *registry = gm_registry_shared();
    size_t size = scope->request.size;
    if (status || !registry ||
        !gm_registry_map(registry, gm_key(GM_SPACE_VMM_HANDLE, handle), (int64_t)size, &holder)) {
        gm_pipeline_saw_alloc(scope, GM_KIND_VMM, GM_ACT_MAP, address, 0, status);
        return;
    }
    gm_stats_give((enum gm_kind)holder.kind, holder.device, size);
    scope->request.stream = handle;
    scope->request.device = holder.device;
    scope->charged = holder.charged ? size : 0;
    gm_pipeline_saw_alloc(scope, GM_KIND_MAPPED, GM_ACT_ALLOC, address, 0, GM_OK);
}

void gm_pipeline_made(struct gm_scope *scope, gm_status status) {
    if (status)
        alloc_failed(scope, scope->block.kind, GM_REASON_NEVER_MOVED, scope->block.kind, status);
    else
        remember(scope, GM_ACT_ALLOC, GM_REASON_NEVER_MOVED, scope->block.kind);
}

/* ---- free */

static inline gm_status free_by_owner(struct gm_scope *scope) {
    struct gm_free_request how = {
        .call = scope->request.call,
        .stream = scope->request.stream,
        .per_thread = scope->request.per_thread,
    };
    /* A native free synchronises by itself. */
    if (GM_LIKELY(how.call == GM_CALL_FREE) && pipeline.synchronise && scope->block.kind != GM_KIND_NATIVE &&
        scope->block.call != GM_CALL_ALLOC_ASYNC) {
        gm_status status = pipeline.synchronise(&scope->block, &how.settled);
        if (GM_UNLIKELY(status))
            return status;
    }
    return scope->block.owner->ops->free(scope->block.owner, &scope->block, &how);
}

static bool is_device_free(enum gm_call call) { return call == GM_CALL_FREE || call == GM_CALL_FREE_ASYNC; }

gm_status gm_pipeline_free(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_native_free *native) {
    gm_status status;
    gm_pipeline_free_begin(scope, key);
    if (GM_UNLIKELY(pipeline.handed_over != NULL) && scope->request.call == GM_CALL_FREE &&
        pipeline.handed_over(key, scope->known ? &scope->block : NULL))
        status = GM_OK;
    else if (GM_LIKELY(scope->known && scope->block.owner))
        status = free_by_owner(scope);
    else if (!scope->known && is_device_free(scope->request.call) && gm_pipeline_is_free(key))
        status = GM_INVALID_VALUE;
    else
        status = native(scope, key);
    gm_pipeline_free_end(scope, action, key, status);
    return status;
}

static GM_APART void failed_or_unknown(struct gm_scope *scope, uint64_t key, gm_status status) {
    struct gm_stats_shard *shard = gm_stats_mine();
    struct gm_block previous;
    if (!scope->known) {
        scope->block = (struct gm_block){.address = key, .device = (int16_t)scope->request.device};
        bump(&shard->unknown_frees);
    }
    if (status == GM_OK)
        return;
    bump(&shard->failed_frees);
    if (GM_UNLIKELY(gm_sites_are_on()) && !scope->known && status == GM_INVALID_VALUE &&
        is_device_free(scope->request.call))
        gm_explain_wrong_free(&scope->request, key);
    if (!scope->known)
        return;
    gm_registry_add(gm_registry_shared(), &scope->block, &previous);
    if (GM_UNLIKELY(gm_trace_allocates()) && !gm_is_recorded(scope->block.recorded)) {
        scope->block.sequence = record_late(&scope->block);
        if (scope->block.sequence)
            write_live(&scope->block);
    }
}

void gm_pipeline_free_end(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_status status) {
    struct gm_stats_shard *shard = gm_stats_mine();
    struct gm_block *block = &scope->block;

    if (GM_UNLIKELY(!scope->known || status != GM_OK)) {
        failed_or_unknown(scope, key, status);
        if (status != GM_OK)
            action = GM_ACT_FREE_FAIL;
    } else {
        if (GM_LIKELY(gm_block_is_memory(block)))
            bump(&shard->frees[block->kind]);
        if (gm_mine.newest == block->address) {
            bump(&shard->temporary);
            gm_mine.newest = 0; /* the next block at this address may belong to another thread */
        }
        scope->kept |= shard->cached_in[block->kind] != scope->cached_in;
        count_destroyed(block, scope->kept);
        notify_freed(block);
        if (GM_UNLIKELY(gm_sites_are_on()))
            gm_freed_note(block, scope->request.site);
    }
    uint64_t spent_ns = spend(scope);
    if (scope->sequence) {
        if (scope->known)
            scope->request.device = block->device;
        write_event(scope, action, block, status, GM_REASON_NONE, block->kind, spent_ns);
        count_written(shard);
    }
}

#ifdef GM_HAVE_CUDA
/* ---- the short path */

static void stop_keeping(void) {
    __atomic_store_n(&gm_pipeline_short, false, __ATOMIC_RELAXED);
    gm_cache_stop_keeping(keeper);
}

void gm_pipeline_shorten(void) {
    struct gm_resource *cache = gm_router_server(GM_KIND_CACHE);
    struct gm_registry *registry = gm_registry_shared();
    bool may = pipeline.root && pipeline.root->ops == &gm_resource_router && !gm_pipeline_timed && !gm_limit_on() &&
               !pipeline.wants && !pipeline.grows && !pipeline.handed_over;
    if (!may || !registry || !gm_cache_may_keep(cache, !gm_trace_is_on() && !gm_sites_are_on()))
        return;
    keeper = cache;
    gm_pipeline_short = gm_registry_keep_records(registry, stop_keeping);
}

/* The free of a record that stays in place, under a trace or where call sites are known. */
struct noted_free {
    uint64_t begin;
    uint32_t recorded; /* the word that said that the trace holds the block; 0: the free is not recorded */
};

static GM_APART void write_kept(const struct gm_block *block, uint64_t sequence, const struct noted_free *noted,
                                uint32_t site) {
    gm_freed_note(block, site);
    if (!sequence)
        return;
    if (GM_LIKELY(gm_is_recorded(noted->recorded)))
        write_short(block, NULL, sequence, noted->begin, site);
    count_written(gm_mine.counts);
}

static inline void note_kept(struct gm_stats_shard *shard, uint64_t address) {
    bump(&shard->frees[GM_KIND_CACHE]);
    if (gm_mine.newest == address) {
        bump(&shard->temporary);
        gm_mine.newest = 0;
    }
}

bool gm_pipeline_reuse_ready(size_t size, uint64_t *address) {
    uint64_t reused;
    if (GM_UNLIKELY(!gm_cache_reuse_ready(size, &reused)))
        return false;
    struct gm_stats_shard *shard = gm_mine.counts;
    bump(&shard->entries[gm_mine.entry_way]);
    note_reused(shard, reused);
    *address = reused;
    return true;
}

bool gm_pipeline_keep_plainly(uint64_t address) {
    if (GM_UNLIKELY(!gm_cache_keep_plainly(address)))
        return false;
    struct gm_stats_shard *shard = gm_mine.counts;
    bump(&shard->entries[gm_mine.entry_way]);
    note_kept(shard, address);
    return true;
}

uint64_t gm_pipeline_reuse(size_t size, uintptr_t caller, uintptr_t frame) {
    struct gm_stats_shard *shard = gm_mine.counts;
    uint64_t begin = GM_UNLIKELY(gm_trace_is_on()) ? gm_ticks() : 0;
    struct gm_decision decision;
    struct gm_registered *record = shard ? gm_cache_reuse(keeper, size, &decision) : NULL;
    if (!record)
        return 0;
    uint32_t site = GM_UNLIKELY(gm_sites_are_on()) ? gm_site_find(caller, frame) : 0;
    return end_reuse(record, size, &decision, begin, site);
}

/* The free failed: the program still has the block, and its record is gone. */
static GM_RARE void keep_failed(const struct gm_block *block, uint64_t sequence, uint64_t begin, uint32_t site,
                                gm_status status) {
    struct gm_scope scope;
    gm_scope_begin_at(&scope, GM_CALL_FREE, 0, site, begin);
    scope.sequence = sequence;
    scope.block = *block;
    scope.known = true;
    gm_pipeline_free_end(&scope, GM_ACT_FREE, block->address, status);
}

/* The free of a claimed record is recorded, and the block itself before it. */
static GM_RARE uint32_t record_older(struct gm_registered *record, uint64_t address) {
    uint32_t word = gm_record_word(&record->block.recorded);
    if (!word)
        return __atomic_load_n(&record->block.recorded, __ATOMIC_ACQUIRE);
    struct gm_block block;
    gm_registered_copy(record, address, &block);
    write_live_now(&block);
    return word;
}

/* Returns the word that says that the trace holds the block; it does not hold the record's next block. 0: the free is
 * not recorded. */
static GM_IN_PLACE uint32_t record_claimed(struct gm_registered *record, uint64_t address) {
    uint32_t word = __atomic_load_n(&record->block.recorded, __ATOMIC_ACQUIRE);
    if (GM_UNLIKELY(!gm_is_recorded(word))) {
        bool older = gm_trace_allocates();
        word = older ? record_older(record, address) : __atomic_load_n(&record->block.recorded, __ATOMIC_ACQUIRE);
        if (!older && !gm_is_recorded(word)) /* a walk may have come and gone since the first look */
            return 0;
    }
    __atomic_store_n(&record->block.recorded, gm_unrecorded_after(word), __ATOMIC_RELEASE);
    gm_stats_count(&gm_mine.counts->frees_begun, 1);
    return word;
}

static GM_APART uint64_t note_free(struct noted_free *noted, struct gm_registered *record, uint64_t address) {
    gm_mine.plain = NULL;
    *noted = (struct noted_free){0};
    if (!gm_trace_is_on())
        return 0;
    noted->begin = gm_ticks();
    noted->recorded = record_claimed(record, address);
    return noted->recorded;
}

static GM_RARE void free_otherwise(const struct noted_free *noted, struct gm_stats_shard *shard,
                                   struct gm_registered *record) {
    if (!noted->recorded)
        return;
    __atomic_store_n(&record->block.recorded, noted->recorded, __ATOMIC_RELEASE);
    count_written(shard);
}

static GM_RARE void free_failed(const struct noted_free *noted, struct gm_block *block, uint64_t sequence,
                                gm_status status) {
    if (noted && noted->recorded)
        block->recorded = noted->recorded;
    keep_failed(block, sequence, noted ? noted->begin : 0, 0, status);
}

/* Call sites are known before a trace begins. Whether they are is checked after the record was claimed: see
 * shim/trace/recorded.h. */
bool gm_pipeline_keep(uint64_t address, gm_status *status, uintptr_t caller, uintptr_t frame) {
    struct gm_stats_shard *shard = gm_mine.counts;
    struct gm_registered *record = shard ? gm_cache_claim(gm_registry_shared(), address) : NULL;
    struct noted_free noted;
    struct gm_block block;
    if (GM_UNLIKELY(!record))
        return false;
    size_t size = record->block.size, reserved = record->block.reserved;
    bool counted = record->block.counted && pipeline.policy->freed, notes = gm_sites_are_on();
    uint64_t sequence = GM_UNLIKELY(notes) ? note_free(&noted, record, address) : 0;
    if (GM_UNLIKELY(counted || notes))
        gm_registered_copy(record, address, &block);
    if (GM_UNLIKELY(!gm_cache_keep(keeper, record, &block, &sequence, status))) {
        if (notes)
            free_otherwise(&noted, shard, record);
        gm_registered_revive(record, address);
        return false;
    }
    if (GM_UNLIKELY(*status)) {
        free_failed(notes ? &noted : NULL, &block, sequence, *status);
        return true;
    }
    note_kept(shard, address);
    gm_stats_freed_late(shard, size, reserved);
    gm_stats_bound_late(shard);
    if (GM_UNLIKELY(counted))
        notify_policy(&block);
    if (GM_UNLIKELY(notes))
        write_kept(&block, sequence, &noted, sequence ? gm_site_find(caller, frame) : 0);
    return true;
}
#endif

void gm_pipeline_plain_again(void) {
#ifdef GM_HAVE_CUDA
    if (keeper && !gm_trace_is_on() && !gm_sites_are_on())
        gm_cache_set_plain(keeper, true);
#endif
}

void gm_pipeline_no_plain(void) {
#ifdef GM_HAVE_CUDA
    if (keeper)
        gm_cache_set_plain(keeper, false);
#endif
}

/* Handles first, because the memory of a mapping is that of its handle. Threads that allocate from kept blocks without
 * the registry's lock either saw that the trace is on, or were done when the cache's locks were passed. */
void gm_pipeline_record_live(void) {
    struct gm_registry *registry = gm_registry_shared();
    gm_pipeline_no_plain(); /* passes the locks */
    if (registry) {
        gm_registry_record_all(registry, true, write_live);
        gm_registry_record_all(registry, false, write_live);
    }
    write_kept_bytes();
}

void gm_pipeline_note(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_status status) {
    uint64_t spent_ns = spend(scope);
    if (!gm_trace_is_on())
        return;
    struct gm_block what = {.address = key, .size = scope->request.size};
    write_event(scope, action, &what, status, GM_REASON_NONE, GM_KIND_NATIVE, spent_ns);
}

void gm_pipeline_copied(struct gm_scope *scope, const struct gm_host_copy *copy, gm_status status) {
    struct gm_block source = {.address = copy->from, .size = copy->contents};
    struct gm_block target = {.address = copy->to,
                              .size = copy->bytes,
                              .reserved = copy->span,
                              .kind = copy->to_array ? GM_KIND_ARRAY : GM_KIND_NATIVE};
    if (!gm_trace_allocates())
        return;
    write_event(scope, GM_ACT_COPY_SOURCE, &source, copy->hashed, GM_REASON_NONE, GM_KIND_NATIVE, copy->hashing_ns);
    write_event(scope, GM_ACT_COPY, &target, status, GM_REASON_NONE, GM_KIND_NATIVE, copy->spent_ns);
}

/* ---- life of contexts */

static void release(const struct gm_block *block, void *arg) {
    struct gm_scope scope = {.begin = gm_trace_is_on() ? gm_ticks() : 0, .sequence = block->sequence};
    struct gm_stats *stats = gm_stats;

    struct gm_resource *server = block->owner ? gm_router_server(block->kind) : NULL;
    if (server && server->ops->abandon)
        server->ops->abandon(server, block);
    count_destroyed(block, false);
    if (gm_block_is_memory(block)) {
        bump(&gm_stats_mine()->released[block->kind]);
        __atomic_add_fetch(&stats->released_bytes, block->size, __ATOMIC_RELAXED);
    }
    notify_freed(block);
    if (!gm_trace_is_on() || !scope.sequence || !gm_is_recorded(block->recorded))
        return;
    scope.request.call = block->call;
    scope.request.device = block->device;
    scope.request.site = block->site;
    write_event(&scope, GM_ACT_RELEASE, block, GM_OK, GM_REASON_CONTEXT_GONE, block->kind, 0);
}

struct ending {
    uint64_t context_id;
    const struct gm_resource *server;
};

static void free_block(const struct gm_block *block, void *arg) {
    static const struct gm_free_request how = {.call = GM_CALL_FREE};
    const struct ending *ending = arg;
    if (block->context_id == ending->context_id && block->owner && block->kind == ending->server->kind)
        block->owner->ops->free(block->owner, block, &how);
}

void gm_pipeline_context_ending(uint64_t context_id, int device) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_giving giving;
    sample(context_id, device, true);
    gm_giving_begin(&giving, GM_REASON_CONTEXT_GONE);
    for (int kind = 0; kind < GM_KIND_COUNT && registry; kind++) {
        struct gm_resource *server = gm_router_server(kind);
        if (!server || !(server->properties & GM_PROP_OUTLIVES_CONTEXT))
            continue;
        struct ending ending = {context_id, server};
        gm_registry_each(registry, free_block, &ending);
        if (server->ops->trim)
            server->ops->trim(server, SIZE_MAX);
    }
    EACH_GUEST(top)
    if (top->properties & GM_PROP_OUTLIVES_CONTEXT && top->ops->trim)
        top->ops->trim(top, SIZE_MAX);
    gm_giving_end(&giving, false);
}

void gm_pipeline_empty_context(uint64_t context_id) {
    struct gm_giving giving;
    gm_giving_begin(&giving, GM_REASON_CONTEXT_GONE);
    if (pipeline.root && pipeline.root->ops->context_ending)
        pipeline.root->ops->context_ending(pipeline.root, context_id);
    EACH_GUEST(top)
    if (top->ops->context_ending)
        top->ops->context_ending(top, context_id);
    gm_giving_end(&giving, false);
}

/* Of each block anew, because a trace may begin meanwhile. */
static uint64_t number_of_release(void) { return gm_trace_is_on() ? gm_trace_sequence() : 0; }

void gm_pipeline_context_destroyed(uint64_t context_id) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_giving giving;
    gm_giving_begin(&giving, GM_REASON_CONTEXT_GONE);
    if (registry)
        gm_registry_drop_context(registry, context_id, number_of_release, release, NULL);
    if (pipeline.root && pipeline.root->ops->context_destroyed)
        pipeline.root->ops->context_destroyed(pipeline.root, context_id);
    EACH_GUEST(top)
    if (top->ops->context_destroyed)
        top->ops->context_destroyed(top, context_id);
    gm_giving_end(&giving, false);
}

void gm_pipeline_pin(uint64_t base) {
    struct gm_registry *registry = gm_registry_shared();
    if (registry)
        gm_registry_mark(registry, base);
}

size_t gm_pipeline_trim(size_t bytes, enum gm_reason reason) {
    struct gm_giving giving;
    gm_giving_begin(&giving, reason);
    size_t given = pipeline.root && pipeline.root->ops->trim ? pipeline.root->ops->trim(pipeline.root, bytes) : 0;
    EACH_GUEST(top)
    if (given < bytes && top->ops->trim)
        given += top->ops->trim(top, bytes - given);
    gm_giving_end(&giving, false);
    return given;
}

bool gm_pipeline_is_free(uint64_t address) {
    bool kept = (keeper && gm_registry_keeps(gm_registry_shared(), address)) ||
                (pipeline.root && pipeline.root->ops->keeps && pipeline.root->ops->keeps(pipeline.root, address));
    EACH_GUEST(top)
    kept = kept || (top->ops->keeps && top->ops->keeps(top, address));
    return kept;
}

size_t gm_pipeline_releasable(int device) {
    struct gm_resource *root = pipeline.root;
    size_t bytes = root && root->ops->releasable ? root->ops->releasable(root, device) : 0;
    EACH_GUEST(top)
    bytes += top->ops->releasable ? top->ops->releasable(top, device) : 0;
    return bytes;
}

void gm_pipeline_held(int device, uint64_t bytes[GM_REASON_COUNT]) {
    if (pipeline.root && pipeline.root->ops->held)
        pipeline.root->ops->held(pipeline.root, device, bytes);
    EACH_GUEST(top)
    if (top->ops->held)
        top->ops->held(top, device, bytes);
}

void gm_pipeline_capture(int change) {
    if (pipeline.root && pipeline.root->ops->capture)
        pipeline.root->ops->capture(pipeline.root, change);
    EACH_GUEST(top)
    if (top->ops->capture)
        top->ops->capture(top, change);
}

static void open_block(const struct gm_block *block, void *device) {
    struct gm_resource *server = block->owner ? gm_router_server(block->kind) : NULL;
    if (server && server->ops->open_block_to && block->device != *(const int *)device)
        server->ops->open_block_to(server, block, *(const int *)device);
}

void gm_pipeline_open_to(int device) {
    struct gm_registry *registry = gm_registry_shared();
    if (pipeline.root && pipeline.root->ops->open_to)
        pipeline.root->ops->open_to(pipeline.root, device);
    EACH_GUEST(top)
    if (top->ops->open_to)
        top->ops->open_to(top, device);
    if (registry)
        gm_registry_each(registry, open_block, &device);
}

void gm_pipeline_after_fork(void) {
    struct gm_registry *registry = gm_registry_shared();
    /* The child counts from zero, as its trace does. */
    objects = 0;
    threads = thread_number = 0;
    if (registry)
        gm_registry_after_fork(registry);
    gm_freed_after_fork();
    gm_explain_after_fork();
    if (pipeline.policy && pipeline.policy->after_fork)
        pipeline.policy->after_fork();
    if (pipeline.root && pipeline.root->ops->after_fork)
        pipeline.root->ops->after_fork(pipeline.root);
    for (uint32_t i = 0; i < guests_used; i++)
        guests[i].busy = 0;
    EACH_GUEST(top)
    if (top->ops->after_fork)
        top->ops->after_fork(top);
    gm_limit_after_fork();
}
