/* The events of the trace: of calls, of blocks that are older than the trace, and of what is kept. */
#include "shim/pipeline/parts.h"
#include "shim/placement/router.h"
#include "shim/resource/registry.h"
#include "shim/trace/summary.h"

uint64_t gm_pipeline_timed_begin(void) {
    if (gm_stats_watched() && gm_stats_requested)
        gm_stats_requested();
    return gm_ticks();
}

uint64_t gm_spend_timed(uint64_t begin) {
    uint64_t now = gm_ticks(), spent_ns = gm_ticks_span_ns(now - begin);
    struct gm_stats_shard *shard = gm_stats_mine();
    gm_stats_count(&shard->time_ns, spent_ns);
    if (gm_stats_watched())
        gm_stats_watch_ends(gm_ticks_to_ns(now));
    return spent_ns;
}

bool gm_sum_up_event(uint64_t begin, enum gm_action action, const struct gm_block *block, uint64_t spent_ns) {
    bool ends = action == GM_ACT_FREE || action == GM_ACT_RELEASE;
    size_t bytes = block->size;
    if (action != GM_ACT_ALLOC && !ends)
        return false;
    const struct gm_event event = {.time_ns = gm_ticks_to_ns(begin) + spent_ns,
                                   .bytes = bytes,
                                   .site = __atomic_load_n(&block->site, __ATOMIC_RELAXED),
                                   .device = (int8_t)block->device,
                                   .action = (uint8_t)action,
                                   .kind = block->kind};
    if (gm_block_is_memory(block))
        gm_trace_sum_up(&event);
    return true;
}

void gm_write_event(const struct gm_scope *scope, enum gm_action action, const struct gm_block *block, gm_status status,
                    enum gm_reason reason, enum gm_kind verdict, uint64_t spent_ns) {
    const struct gm_request *request = &scope->request;
    if (GM_UNLIKELY(gm_summary_on()) && gm_sum_up_event(scope->begin, action, block, spent_ns))
        return;
    uint64_t number = scope->sequence ? scope->sequence : gm_trace_sequence();
    struct gm_event otherwise, *event = gm_trace_place(number, &otherwise);
    *event = (struct gm_event){
        .seq = number,
        .time_ns = scope->begin ? gm_ticks_to_ns(scope->begin) : gm_now_ns(),
        .address = gm_key_value(block->address),
        .bytes = block->size,
        .stream = request->stream,
        .slack = block->reserved > block->size ? gm_saturate(block->reserved - block->size) : 0,
        .duration_ns = gm_saturate(spent_ns),
        .site = request->site,
        .context = block->context_number ? block->context_number : request->context_number,
        .device = (int8_t)request->device,
        .call = (uint8_t)request->call,
        .action = (uint8_t)action,
        .kind = block->kind,
        .reason = (uint8_t)reason,
        .verdict = (uint8_t)verdict,
        .result = (uint16_t)status,
        .hit = action == GM_ACT_ALLOC && scope->block.hit,
        .flags = (uint8_t)((request->capturing ? GM_EVENT_CAPTURING : 0) |
                           (request->per_thread ? GM_EVENT_PER_THREAD : 0) | (scope->kept ? GM_EVENT_KEPT : 0)),
    };
    gm_trace_placed(event, &otherwise);
}

void gm_write_drops(struct gm_scope *scope) {
    const struct gm_resource *server = gm_router_server(scope->block.kind);
    uint32_t dropped = server ? gm_resource_drops(server->properties, &scope->request) : 0;
    if (!dropped)
        return;
    struct gm_block what = scope->block;
    struct gm_scope note = *scope;
    what.size = dropped;
    what.reserved = 0;
    note.sequence = 0;
    gm_write_event(&note, GM_ACT_DROP, &what, GM_OK, what.reason ? what.reason : GM_REASON_POLICY, what.kind, 0);
}

void gm_pipeline_note(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_status status) {
    uint64_t spent_ns = gm_spend(scope);
    if (!gm_trace_is_on())
        return;
    struct gm_block what = {.address = key, .size = scope->request.size};
    gm_write_event(scope, action, &what, status, GM_REASON_NONE, GM_KIND_NATIVE, spent_ns);
}

void gm_pipeline_copied(struct gm_scope *scope, const struct gm_host_copy *copy, gm_status status) {
    struct gm_block source = {.address = copy->from, .size = copy->contents};
    struct gm_block target = {.address = copy->to,
                              .size = copy->bytes,
                              .reserved = copy->span,
                              .kind = copy->to_array ? GM_KIND_ARRAY : GM_KIND_NATIVE};
    if (!gm_trace_allocates())
        return;
    gm_write_event(scope, GM_ACT_COPY_SOURCE, &source, copy->hashed, GM_REASON_NONE, GM_KIND_NATIVE, copy->hashing_ns);
    gm_write_event(scope, GM_ACT_COPY, &target, status, GM_REASON_NONE, GM_KIND_NATIVE, copy->spent_ns);
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

void gm_write_live(const struct gm_block *block) {
    struct gm_event event = {
        .seq = block->sequence,
        .time_ns = gm_now_ns(),
        .address = gm_key_value(block->address),
        .bytes = (uint64_t)block->size,
        .stream = block->stream,
        .slack = block->reserved > block->size ? gm_saturate(block->reserved - block->size) : 0,
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

void gm_write_live_now(struct gm_block *block) {
    block->sequence = gm_trace_sequence();
    gm_write_live(block);
}

void gm_number_free(struct gm_scope *scope, uint32_t recorded) {
    struct gm_stats_shard *shard = gm_stats_mine();
    gm_stats_count(&shard->frees_begun, 1);
    scope->sequence = gm_trace_sequence();
    if (GM_UNLIKELY(scope->known && !gm_is_recorded(recorded))) { /* the next trace does not hold the block */
        scope->sequence = 0;
        gm_stats_count(&shard->frees_written, 1);
    }
}

void gm_pipeline_record_free(struct gm_scope *scope) {
    struct gm_block *block = &scope->block;
    bool recorded = scope->known ? gm_is_recorded(block->recorded) : gm_trace_allocates();
    if (!recorded && !gm_trace_allocates())
        return;
    if (GM_UNLIKELY(!recorded && scope->known)) {
        block->recorded = gm_recorded_after(block->recorded);
        gm_write_live_now(block);
    }
    gm_number_free(scope, block->recorded);
}

/* The written ones are read first, of all threads: a free that begins and ends between the reads must not make up for
 * one that another thread has not written. */
bool gm_pipeline_wrote_frees(void) {
    uint64_t begun = 0, written = 0;
    for (unsigned i = 0; i < GM_STATS_SHARDS; i++)
        written += __atomic_load_n(&gm_stats->shards[i].frees_written, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < GM_STATS_SHARDS; i++)
        begun += __atomic_load_n(&gm_stats->shards[i].frees_begun, __ATOMIC_RELAXED);
    return begun == written;
}

uint64_t gm_number_late_event(const struct gm_block *block) {
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

/* Handles first, because the memory of a mapping is that of its handle. Threads in the fast case, which takes no lock of
 * the registry, either saw that calls are observed, or are done when gm_pipeline_observe returns. */
void gm_pipeline_record_live(void) {
    struct gm_registry *registry = gm_registry_shared();
    gm_pipeline_observe(true);
    if (registry) {
        gm_registry_record_all(registry, true, gm_write_live);
        gm_registry_record_all(registry, false, gm_write_live);
    }
    write_kept_bytes();
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
