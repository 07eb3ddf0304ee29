/* Allocation and free: promises of each call, the policy, GPUMEM_LIMIT. pipeline.h describes the steps. */
#include "shim/pipeline/pipeline.h"

#include "shim/accounts/limit.h"
#include "shim/pipeline/counts.h"
#include "shim/explain/explain.h"
#include "shim/explain/freed.h"
#include "shim/pipeline/guard.h"
#include "shim/pipeline/parts.h"
#include "shim/sites/site.h"
#include "shim/placement/router.h"
#include "shim/resource/guard_ranges.h"

struct gm_pipeline_setup gm_pipeline;
bool gm_pipeline_timed;
const struct gm_request gm_request_blank = {.device = -1};

void gm_pipeline_setup(const struct gm_pipeline_setup *setup) {
    gm_pipeline = *setup;
    gm_pipeline_timed = setup->timed;
    gm_direct_setup();
}

const struct gm_policy *gm_pipeline_policy(void) { return gm_pipeline.policy; }

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

/* ---- allocation */

void gm_notify_policy(const struct gm_block *block) {
    struct gm_request request = gm_request_blank;
    request.call = block->call;
    request.size = block->size;
    request.device = block->device;
    request.context_id = block->context_id;
    gm_pipeline.policy->freed(&request);
}

/* The registry had a record at the address of a new block. The free of the old block bypassed every entry point. */
static GM_RARE void record_stale(const struct gm_block *stale) {
    if (gm_block_is_memory(stale))
        gm_count_one(&gm_stats_mine()->released[stale->kind]);
    gm_count_destroyed(stale, false);
    gm_notify_freed(stale);
    if (!gm_trace_is_on())
        return;
    uint64_t number = gm_trace_sequence();
    if (gm_is_recorded(stale->recorded))
        gm_write_release(stale, number, GM_REASON_NONE);
}

static GM_IN_PLACE void remember_block(struct gm_scope *scope, enum gm_action action, enum gm_reason reason,
                                       enum gm_kind verdict) {
    const struct gm_request *request = &scope->request;
    struct gm_block *block = &scope->block, stale;
    struct gm_stats_shard *shard = gm_stats_mine();
    struct gm_registry *registry = gm_registry_shared();

    block->context_number = request->context_number;
    if (block->reserved < block->size)
        block->reserved = block->size;
    stale.address = 0;
    if (!block->site && gm_sites_are_of_new() && scope->caller && !gm_block_is_reused(block))
        block->site = gm_site_find(scope->caller, scope->frame);
    bool records = gm_trace_allocates(); /* after the block was obtained: see shim/trace/recorded.h */
    block->recorded = records ? gm_recorded_after(0) : 0;
    if (registry)
        gm_registry_add(registry, block, &stale);
    if (GM_UNLIKELY(stale.address))
        record_stale(&stale);
    if (records) /* after all events of the address's former block, also after the end of its context */
        scope->sequence = gm_trace_sequence();
    if (gm_trace_allocates() && GM_UNLIKELY(!gm_is_recorded(block->recorded)))
        scope->sequence = gm_number_missed_event(block);
    if (GM_LIKELY(gm_block_is_memory(block))) {
        gm_count_one(&shard->allocs[block->kind]);
        if (block->hit)
            gm_count_one(&shard->hits[block->kind]);
    }
    gm_count_created(block);
    if (GM_LIKELY(gm_block_is_memory(block)))
        gm_mine.newest = block->address;
    gm_end_call(scope, action, block, GM_OK, reason, verdict);
}

static GM_RARE void alloc_failed(struct gm_scope *scope, enum gm_kind kind, enum gm_reason reason, enum gm_kind verdict,
                                 gm_status status) {
    struct gm_block nothing = {.size = scope->request.size, .kind = (uint8_t)kind};
    /* A runtime without a context creates one and calls again. The failed first call requested no memory. */
    if (status == GM_INVALID_CONTEXT && !scope->request.context)
        return;
    gm_count_one(&gm_stats_mine()->failed_allocs);
    scope->sequence = gm_trace_allocates() ? gm_trace_sequence() : 0;
    gm_end_call(scope, GM_ACT_ALLOC_FAIL, &nothing, status, reason, verdict);
}

/* Not for the program's own stacks, which report to their caller. */
static GM_RARE void explain_failed(struct gm_scope *scope, enum gm_kind kind, gm_status status, bool exceeds_limit) {
    struct gm_request *request = &scope->request;
    if (status != GM_OUT_OF_MEMORY || gm_call_traits(request->call) & (GM_CALL_RESERVES | GM_CALL_MAPS))
        return;
    if (!request->site && gm_sites_are_of_new() && scope->caller)
        request->site = gm_site_find(scope->caller, scope->frame);
    if (gm_kind_is_on_device(kind))
        gm_sample(request->context, request->device, GM_MOMENT_FAILED);
    gm_explain_failure(request, kind, exceeds_limit);
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
    return gm_pipeline.root->ops->alloc(gm_pipeline.root, &scope->request, decision, &scope->block);
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
            how = (struct gm_free_request){
                .call = GM_CALL_FREE_ASYNC, .stream = request->stream, .per_thread = request->per_thread};
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

void gm_numbers_after_fork(void) {
    objects = 0;
    threads = thread_number = 0;
}

static bool is_movable(const struct gm_request *request) { return request->size > 0 && gm_call_is_movable(request); }

/* Decides about a request, or finds a free block for it. *counted: the policy has decided, and wants to know of the
 * free. */
static GM_APART struct gm_block_record *decide_request(struct gm_request *request, struct gm_decision *decision,
                                                       bool *counted) {
    const struct gm_policy *policy = gm_pipeline.policy;
    request->promises = promises_of(request);
    *decision = (struct gm_decision){GM_KIND_NATIVE, GM_REASON_NEVER_MOVED, GM_KIND_NATIVE, 0};
    *counted = false;
    if (!is_movable(request))
        return NULL;
    if (gm_guard_is_on() && gm_guard_takes(request)) {
        *decision = (struct gm_decision){GM_KIND_GUARD, GM_REASON_GUARD, GM_KIND_GUARD, 0};
        return NULL;
    }
    struct gm_block_record *record = policy->reuse ? gm_direct_take(request) : NULL;
    if (record) {
        *decision = *policy->reuse;
        return record;
    }
    if (GM_UNLIKELY(gm_pipeline.wants))
        identify(request);
    policy->decide(request, decision);
    *counted = policy->freed != NULL;
    return decision->kind == GM_KIND_CACHE && !policy->reuse ? gm_direct_take(request) : NULL;
}

/* No free block serves the request. */
static GM_APART gm_status alloc_decided(struct gm_scope *scope, struct gm_decision *decision, bool counted) {
    struct gm_request *request = &scope->request;
    const struct gm_policy *policy = gm_pipeline.policy;
    bool guards = decision->reason == GM_REASON_GUARD;
    if (GM_UNLIKELY(gm_pipeline.grows != NULL) && is_movable(request) && !guards && gm_pipeline.grows(request)) {
        decision->kind = GM_KIND_VMM;
        decision->reason = GM_REASON_GROWTH;
    }
    uint64_t open = gm_devices_open();
    gm_status status = gm_limit_on() ? serve_within_limit(scope, decision) : serve(scope, decision);
    if (GM_UNLIKELY(guards))
        gm_guard_served(!status && scope->block.reason != GM_REASON_FALLBACK);
    if (status != GM_OK) {
        if (is_movable(request) && !guards && policy->failed)
            policy->failed(request);
        alloc_failed(scope, decision->kind, decision->reason, decision->verdict, status);
        explain_failed(scope, decision->kind, status, decision->reason == GM_REASON_OUT_OF_MEMORY);
        return status;
    }
    scope->block.counted = counted;
    scope->block.direct &= gm_direct && scope->block.owner == gm_direct && !counted;
    if (GM_UNLIKELY(decision->advice) && gm_pipeline.advise && gm_kind_traits(scope->block.kind) & GM_TRAIT_MANAGED)
        gm_pipeline.advise(request, decision->advice, &scope->block);
    enum gm_reason reason = scope->block.reason ? scope->block.reason : decision->reason;
    remember_block(scope, GM_ACT_ALLOC, reason, decision->verdict);
    if (gm_kind_traits(scope->block.kind) & GM_TRAIT_PLACED) {
        gm_count_one(&gm_stats_mine()->moved);
        gm_open_to_new(&scope->block, open);
        if (gm_block_is_displaced(&scope->block))
            gm_explain_move(request, (enum gm_kind)scope->block.kind, decision->reason == GM_REASON_OUT_OF_MEMORY);
        if (scope->sequence &&
            (gm_pipeline.user_named || reason == GM_REASON_OUT_OF_MEMORY || reason == GM_REASON_GROWTH))
            gm_write_drops(scope);
    }
    return GM_OK;
}

gm_status gm_pipeline_alloc(struct gm_scope *scope) {
    struct gm_decision decision;
    bool counted = false;
    const struct gm_decision *how = gm_guard_is_on() ? NULL : gm_pipeline.policy->reuse;
    struct gm_block_record *record = how ? gm_direct_take_newest(&scope->request) : NULL;
    if (GM_UNLIKELY(!record)) {
        record = decide_request(&scope->request, &decision, &counted);
        how = &decision;
    }
    if (GM_UNLIKELY(!record))
        return alloc_decided(scope, &decision, counted);
    gm_direct_reuse(scope, record, how, counted);
    return GM_OK;
}

void gm_pipeline_saw_alloc(struct gm_scope *scope, enum gm_kind kind, uint64_t made, size_t reserved,
                           gm_status status) {
    if (status != GM_OK) {
        bool exceeds_limit = gm_limit_on() && !scope->charged && is_limited(&scope->request);
        uncharge(scope);
        alloc_failed(scope, kind, GM_REASON_NEVER_MOVED, kind, status);
        explain_failed(scope, kind, status, exceeds_limit);
        return;
    }
    const struct gm_request *request = &scope->request;
    scope->block = (struct gm_block){
        .address = gm_key(gm_call_space(request->call), made),
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
    remember_block(scope, gm_action_of(&scope->block), GM_REASON_NEVER_MOVED, kind);
}

void gm_pipeline_saw_map(struct gm_scope *scope, uint64_t address, uint64_t handle, gm_status status) {
    struct gm_block holder;
    struct gm_registry *registry = gm_registry_shared();
    size_t size = scope->request.size;
    if (status || !registry || !gm_registry_map(registry, gm_key(GM_SPACE_HANDLE, handle), (int64_t)size, &holder)) {
        gm_pipeline_saw_alloc(scope, GM_KIND_VMM, address, 0, status);
        return;
    }
    gm_stats_give((enum gm_kind)holder.kind, holder.device, size);
    scope->request.stream = handle;
    scope->request.device = holder.device;
    scope->charged = holder.charged ? size : 0;
    gm_pipeline_saw_alloc(scope, GM_KIND_MAPPED, address, 0, GM_OK);
}

void gm_pipeline_made(struct gm_scope *scope, gm_status status) {
    if (status)
        alloc_failed(scope, scope->block.kind, GM_REASON_NEVER_MOVED, scope->block.kind, status);
    else
        remember_block(scope, GM_ACT_ALLOC, GM_REASON_NEVER_MOVED, scope->block.kind);
}

/* ---- free */

static gm_status free_by_owner(struct gm_scope *scope) {
    struct gm_free_request how;
    gm_status status = gm_begin_owners_free(scope, &how);
    return GM_UNLIKELY(status) ? status : scope->block.owner->ops->free(scope->block.owner, &scope->block, &how);
}

static bool is_device_free(enum gm_call call) { return call == GM_CALL_FREE || call == GM_CALL_FREE_ASYNC; }

/* A free of a block that gm_direct does not serve. */
static GM_APART gm_status free_other(struct gm_scope *scope, uint64_t key, gm_native_free *native) {
    gm_pipeline_free_begin(scope, key);
    if (GM_UNLIKELY(gm_pipeline.handed_over != NULL) && scope->request.call == GM_CALL_FREE &&
        gm_pipeline.handed_over(key, scope->known ? &scope->block : NULL))
        return GM_OK;
    if (GM_LIKELY(scope->known && scope->block.owner))
        return free_by_owner(scope);
    if (!scope->known && is_device_free(scope->request.call) && gm_pipeline_is_free(key))
        return GM_INVALID_VALUE;
    return native(scope, key);
}

/* A wrong free: of a block that another call frees, or of none, which takes call sites to tell. */
static GM_RARE void refused(const struct gm_scope *scope, uint64_t key) {
    bool of_device = is_device_free(scope->request.call);
    bool explains = gm_guard_covers(key) || gm_sites_are_on() || (scope->known && gm_guard_is_on());
    if (!explains || (!of_device && scope->request.call != GM_CALL_FREE_HOST))
        return;
    if (gm_guard_is_on() || gm_guard_covers(key))
        __atomic_add_fetch(&gm_stats->guard_errors, 1, __ATOMIC_RELAXED);
    if (scope->known)
        gm_explain_wrong_call(&scope->request, &scope->block);
    else
        gm_explain_wrong_free(&scope->request, key);
}

static GM_APART void failed_or_unknown(struct gm_scope *scope, uint64_t key, gm_status status) {
    struct gm_stats_shard *shard = gm_stats_mine();
    struct gm_block previous;
    if (!scope->known) {
        scope->block = (struct gm_block){.address = key, .device = (int16_t)scope->request.device};
        gm_count_one(&shard->unknown_frees);
    }
    if (status == GM_OK)
        return;
    gm_count_one(&shard->failed_frees);
    if (status == GM_INVALID_VALUE)
        refused(scope, key);
    if (!scope->known)
        return;
    gm_registry_add(gm_registry_shared(), &scope->block, &previous);
    if (GM_UNLIKELY(gm_trace_allocates()) && !gm_is_recorded(scope->block.recorded)) {
        scope->block.sequence = gm_number_missed_event(&scope->block);
        if (scope->block.sequence)
            gm_write_live(&scope->block);
    }
}

/* A thread without a shard of its own defers nothing, any other one frees of its device. */
static GM_IN_PLACE void count_freed(struct gm_scope *scope) {
    struct gm_stats_shard *counts = gm_stats_mine();
    const struct gm_block *block = &scope->block;
    bool by_cache = scope->record && scope->kept;
    if (by_cache && GM_LIKELY(counts == gm_mine.counts) && gm_stats_defers(counts, block->device)) {
        gm_count_kept(counts, block->address, block->size, block->reserved);
        gm_stats_bound_deferred(counts);
        return;
    }
    if (GM_LIKELY(gm_block_is_memory(block)))
        gm_count_one(&counts->frees[block->kind]);
    if (gm_mine.newest == block->address) {
        gm_count_one(&counts->temporary);
        gm_mine.newest = 0;
    }
    if (by_cache)
        gm_stats_cached(GM_KIND_CACHE, block->reserved);
    gm_count_destroyed(block, scope->kept);
}

static GM_IN_PLACE void end_free(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_status status) {
    struct gm_block *block = &scope->block;

    if (GM_UNLIKELY(!scope->known || status != GM_OK)) {
        failed_or_unknown(scope, key, status);
        if (status != GM_OK)
            action = GM_ACT_FREE_FAIL;
    } else {
        count_freed(scope);
        gm_notify_freed(block);
        if (GM_UNLIKELY(gm_sites_are_on() || block->kind == GM_KIND_GUARD))
            gm_freed_note(block, scope->request.site);
    }
    if (gm_guard_is_on())
        gm_guard_look();
    if (scope->known)
        scope->request.device = block->device;
    gm_end_call(scope, action, block, status, GM_REASON_NONE, block->kind);
    if (scope->sequence)
        gm_count_written_free(gm_stats_mine());
}

void gm_pipeline_free_end(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_status status) {
    end_free(scope, action, key, status);
}

gm_status gm_pipeline_free(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_native_free *native) {
    bool direct = GM_LIKELY(gm_direct_claim(scope, key));
    gm_status status = direct ? gm_direct_free(scope) : free_other(scope, key, native);
    end_free(scope, action, key, status);
    return status;
}
