/* Allocation: promises of each call, the policy, GPUMEM_LIMIT, the block's life. pipeline.h describes the steps. */
#include "shim/pipeline/pipeline.h"

#include "shim/accounts/limit.h"
#include "shim/base/events.h"
#include "shim/pipeline/counts.h"
#include "shim/pipeline/events.h"
#include "shim/explain/explain.h"
#include "shim/pipeline/guard.h"
#include "shim/pipeline/parts.h"
#include "shim/sites/site.h"
#include "shim/placement/router.h"
#include "shim/resource/guard_ranges.h"
#include "shim/resource/kept.h"
#include "shim/resource/rows.h"

struct gm_pipeline_setup gm_pipeline;
bool gm_pipeline_timed;
struct gm_resource *gm_keeper;
const struct gm_request gm_request_blank = {.device = -1};

void gm_pipeline_setup(const struct gm_pipeline_setup *setup) {
    gm_pipeline = *setup;
    gm_pipeline_timed = setup->timed;
    bool alone = gm_pipeline.root && gm_pipeline.root->ops == &gm_resource_router;
    gm_keeper = alone ? gm_router_keeper() : NULL;
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

/* A new block gets its record, in the state claimed. NULL: the kernel has no memory for it. */
static struct gm_block_record *record_new(struct gm_scope *scope) {
    struct gm_block *block = &scope->block, stale;
    struct gm_registry *registry = gm_registry_shared();
    block->context_number = scope->request.context_number;
    block->recorded = 0;
    if (block->reserved < block->size)
        block->reserved = block->size;
    if (!block->site && gm_sites_are_of_new() && scope->caller && !gm_block_is_reused(block))
        block->site = gm_site_find(scope->caller, scope->frame);
    stale.address = 0;
    struct gm_block_record *record = registry ? gm_registry_add_held(registry, block, &stale) : NULL;
    if (GM_UNLIKELY(stale.address))
        record_stale(&stale);
    return record;
}

/* The next life of a free block: what changes with it. */
static void renew(struct gm_scope *scope, struct gm_block_record *record) {
    struct gm_block *block = &scope->block;
    block->size = scope->request.size;
    block->site = scope->request.site;
    block->hit = 1;
    __atomic_store_n(&record->block.size, block->size, __ATOMIC_RELAXED);
    __atomic_store_n(&record->block.site, block->site, __ATOMIC_RELAXED);
    __atomic_store_n(&record->block.bits, block->bits, __ATOMIC_RELAXED);
    __atomic_store_n(&record->block.counted, block->counted, __ATOMIC_RELAXED);
    __atomic_store_n(&record->block.reason, 0, __ATOMIC_RELAXED);
}

/* The number of the event with which the block's life begins; 0: none is to be written. A trace that begins sees the
 * block live, or this thread sees the trace (shim/trace/recorded.h). The number comes after all events of the address's
 * former block. */
static uint64_t number_life(struct gm_block_record *record) {
    uint32_t word;
    if (!record)
        return gm_trace_allocates() ? gm_trace_sequence() : 0;
    while (gm_trace_allocates() && (word = gm_record_word(&record->block.recorded))) {
        uint64_t sequence = gm_trace_sequence();
        if (GM_LIKELY(gm_is_recorded(word)))
            return sequence;
    }
    return 0;
}

/* scope->block is the program's from here on: its record, claimed before, is live, and the call is counted and
 * recorded. `taken`: its memory was a free block. */
static GM_IN_PLACE void make_live(struct gm_scope *scope, struct gm_block_record *taken, enum gm_action action,
                                  enum gm_reason reason, enum gm_kind verdict) {
    struct gm_block *block = &scope->block;
    struct gm_stats_shard *counts = gm_stats_mine();
    if (taken)
        renew(scope, taken);
    struct gm_block_record *record = taken ? taken : record_new(scope);
    if (GM_LIKELY(record != NULL)) {
        gm_record_become(record, GM_BLOCK_LIVE);
        __atomic_store_n(&record->block.address, block->address, __ATOMIC_SEQ_CST); /* see number_life */
    }
    scope->sequence = number_life(record);
    if (taken) {
        gm_count_reused(counts, taken, block->address, block->size, gm_stats_defers(counts, block->device));
    } else {
        if (GM_LIKELY(gm_block_is_memory(block))) {
            gm_count_one(&counts->allocs[block->kind]);
            if (block->hit)
                gm_count_one(&counts->hits[block->kind]);
        }
        gm_count_created(block);
        if (GM_LIKELY(gm_block_is_memory(block)))
            gm_mine.newest = block->address;
    }
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

/* A free block for the request, with its claimed record; NULL: there is none. */
static struct gm_block_record *take(struct gm_scope *scope, const struct gm_decision *decision) {
    struct gm_resource *root = gm_keeper ? gm_pipeline.root : NULL;
    struct gm_block_record *record = root ? root->ops->take(root, &scope->request, decision) : NULL;
    if (record) {
        gm_record_read(record, &scope->block);
        scope->block.address = gm_record_address(record);
        scope->block.bits = scope->block.reason = 0;
    }
    return record;
}

/* A free block serves the request, unless `looked` says that there was none, or new memory does. *taken: the record of
 * the free block, else NULL. */
static gm_status serve(struct gm_scope *scope, const struct gm_decision *decision, bool looked,
                       struct gm_block_record **taken) {
    *taken = looked ? NULL : take(scope, decision);
    return *taken ? GM_OK : gm_pipeline.root->ops->alloc(gm_pipeline.root, &scope->request, decision, &scope->block);
}

/* The block of a record that was taken goes back to the keeper. After an error the block is there still, without the
 * record, and its memory was counted before. */
static gm_status put_back(struct gm_scope *scope, struct gm_block_record *taken) {
    bool kept = false;
    const struct gm_free_request how = {.call = GM_CALL_FREE, .kept = &kept, .settled = true};
    gm_status status = gm_keeper->ops->put(gm_keeper, taken, &how);
    if (!kept)
        gm_stats_uncached(scope->block.kind, scope->block.reserved);
    if (!kept && !status)
        gm_kept_reserved(&scope->block, -(int64_t)scope->block.reserved);
    scope->block.hit = 1;
    return status;
}

/* Memory that is not on the device takes nothing from the limit. Pitched memory may need more than its rows. */
static bool settle_charge(struct gm_scope *scope) {
    struct gm_block *block = &scope->block;
    if (block->kind == GM_KIND_SPLIT) {
        uncharge(scope);
        gm_limit_force(block->device, block->on_device);
        block->charged = 1;
        return true;
    }
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

static GM_APART gm_status serve_within_limit(struct gm_scope *scope, struct gm_decision *decision,
                                             struct gm_block_record **taken) {
    *taken = NULL;
    if (gm_pipeline_charge(scope, false)) {
        gm_status status = serve(scope, decision, false, taken);
        if (status)
            uncharge(scope);
        if (status || !scope->charged || settle_charge(scope))
            return status;
        status =
            *taken ? put_back(scope, *taken) : gm_resource_undo(scope->block.owner, &scope->request, &scope->block);
        *taken = NULL;
        if (status) {
            gm_limit_force(scope->request.device, scope->block.reserved - scope->charged);
            scope->block.charged = 1; /* no smaller block is possible, and the free failed */
            return GM_OK;
        }
        uncharge(scope);
        scope->block.reason = GM_REASON_NONE;
    }
    decision->reason = GM_REASON_OUT_OF_MEMORY;
    return serve(scope, decision, true, taken);
}

/* ---- the whole allocation */

bool gm_pipeline_spares;

/* No free block may serve the request, and no policy decides about it. */
static bool is_spared(const struct gm_request *request) {
    return GM_UNLIKELY(__atomic_load_n(&gm_pipeline_spares, __ATOMIC_RELAXED)) && GM_ASK(request_spared, request);
}

static bool is_movable(const struct gm_request *request) { return request->size > 0 && gm_call_is_movable(request); }

/* Decides about a movable request. */
static void decide(struct gm_request *request, struct gm_decision *decision) {
    const struct gm_policy *policy = gm_pipeline.policy;
    if (GM_UNLIKELY(gm_pipeline.wants))
        gm_request_identify(request);
    request->recorded = gm_trace_allocates();
    policy->decide(request, decision);
    if (GM_UNLIKELY(gm_pipeline.grows != NULL) && gm_pipeline.grows(request)) {
        decision->kind = GM_KIND_VMM;
        decision->reason = GM_REASON_GROWTH;
    }
}

/* What a new block needs beside its record, once it lives. `open`: the devices that had a context before it was
 * allocated. */
static void finish_placed(struct gm_scope *scope, const struct gm_decision *decision, enum gm_reason reason,
                          uint64_t open) {
    gm_count_one(&gm_stats_mine()->moved);
    gm_open_to_new(&scope->block, open);
    if (gm_block_is_displaced(&scope->block))
        gm_explain_move(&scope->request, &scope->block, decision->reason == GM_REASON_OUT_OF_MEMORY);
    if (scope->sequence && (gm_pipeline.user_named || reason == GM_REASON_OUT_OF_MEMORY || reason == GM_REASON_GROWTH))
        gm_write_drops(scope);
}

/* Serves a request that is decided. `looked`: no free block serves it. */
static GM_APART gm_status alloc_decided(struct gm_scope *scope, struct gm_decision *decision, bool looked) {
    struct gm_request *request = &scope->request;
    struct gm_block_record *taken;
    bool guards = decision->reason == GM_REASON_GUARD;
    uint64_t open = gm_devices_open();
    gm_status status =
        gm_limit_on() ? serve_within_limit(scope, decision, &taken) : serve(scope, decision, looked, &taken);
    if (GM_UNLIKELY(guards))
        gm_guard_served(!status && scope->block.reason != GM_REASON_FALLBACK);
    if (GM_UNLIKELY(status)) {
        if (decision->counted)
            gm_pipeline.policy->failed(request);
        alloc_failed(scope, decision->kind, decision->reason, decision->verdict, status);
        explain_failed(scope, decision->kind, status, decision->reason == GM_REASON_OUT_OF_MEMORY);
        return status;
    }
    scope->block.counted = decision->counted;
    if (GM_UNLIKELY(decision->advice) && gm_pipeline.advise && gm_kind_traits(scope->block.kind) & GM_TRAIT_MANAGED)
        gm_pipeline.advise(request, decision->advice, &scope->block);
    enum gm_reason reason = decision->reason;
    if (GM_UNLIKELY(scope->block.reason)) {
        reason = scope->block.reason;
        if (scope->block.kind == GM_KIND_SPLIT)
            request->stream = scope->block.on_device; /* for the event, as it has no stream (event.h) */
    }
    make_live(scope, taken, GM_ACT_ALLOC, reason, decision->verdict);
    if (gm_kind_traits(scope->block.kind) & GM_TRAIT_PLACED)
        finish_placed(scope, decision, reason, open);
    return GM_OK;
}

gm_status gm_pipeline_alloc(struct gm_scope *scope) {
    struct gm_request *request = &scope->request;
    struct gm_decision decision = {.kind = GM_KIND_NATIVE, .reason = GM_REASON_NEVER_MOVED, .verdict = GM_KIND_NATIVE};
    const struct gm_decision *reuse = gm_pipeline.policy->reuse;
    bool looked = false;
    request->promises = promises_of(request);
    if (GM_LIKELY(is_movable(request)) && !is_spared(request)) {
        if (gm_guard_is_on() && gm_guard_takes(request)) {
            decision = (struct gm_decision){.kind = GM_KIND_GUARD, .reason = GM_REASON_GUARD, .verdict = GM_KIND_GUARD};
        } else {
            struct gm_block_record *taken = NULL;
            bool early = reuse && !gm_limit_on() && !gm_pipeline.grows;
            if (early && (taken = take(scope, reuse))) {
                scope->block.counted = 0;
                make_live(scope, taken, GM_ACT_ALLOC, reuse->reason, reuse->verdict);
                return GM_OK;
            }
            decide(request, &decision);
            looked = early && decision.kind == reuse->kind;
        }
    }
    return alloc_decided(scope, &decision, looked);
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
    make_live(scope, NULL, gm_action_of(&scope->block), GM_REASON_NEVER_MOVED, kind);
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
        make_live(scope, NULL, GM_ACT_ALLOC, GM_REASON_NEVER_MOVED, scope->block.kind);
}
