/* The events of the trace: of calls, of blocks that are older than the trace, and of what is kept. */
#include "shim/base/events.h"
#include "shim/pipeline/events.h"
#include "shim/placement/router.h"
#include "shim/resource/registry.h"
#include "shim/trace/summary.h"

uint64_t gm_pipeline_timed_begin(void) {
    if (gm_stats_watched())
        GM_PUBLISH(request_due);
    return gm_ticks();
}

static inline void spend(struct gm_scope *scope) {
    scope->begin_ns = gm_ticks_to_times(scope->begin, gm_ticks(), &scope->spent_ns);
    gm_stats_count(&gm_stats_mine()->time_ns, scope->spent_ns);
    if (gm_stats_watched()) {
        gm_stats_watch_ends(scope->begin_ns + scope->spent_ns);
        gm_sample(scope->request.context, scope->request.device, GM_MOMENT_WATCHED);
    }
}

/* In a summary a block counts for the site of its allocation. True: the event is counted, or no part of a summary. */
static GM_RARE bool sum_up(uint64_t now_ns, enum gm_action action, const struct gm_block *block) {
    struct gm_event event;
    if (action != GM_ACT_ALLOC && action != GM_ACT_FREE && action != GM_ACT_RELEASE)
        return false;
    if (block->kind == GM_KIND_SPLIT && block->on_device) {
        struct gm_block device, host;
        gm_block_parts(block, &device, &host);
        return sum_up(now_ns, action, &device) && (!host.size || sum_up(now_ns, action, &host));
    }
    gm_event_fill(&event, 0, now_ns, action, (enum gm_kind)block->kind, block->device);
    event.bytes = block->size;
    event.site = __atomic_load_n(&block->site, __ATOMIC_RELAXED);
    if (gm_block_is_memory(block))
        gm_trace_sum_up(&event);
    return true;
}

static GM_IN_PLACE void fill_event(struct gm_event *event, uint64_t number, uint64_t time_ns, enum gm_action action,
                                   const struct gm_block *block, int device) {
    gm_event_fill(event, number, time_ns, action, (enum gm_kind)block->kind, device);
    event->address = gm_key_value(block->address);
    event->bytes = block->size;
    event->slack = block->reserved > block->size ? gm_saturate(block->reserved - block->size) : 0;
    event->context = block->context_number;
}

void gm_end_recorded(struct gm_scope *scope, enum gm_action action, const struct gm_block *block, gm_status status,
                     enum gm_reason reason, enum gm_kind verdict) {
    const struct gm_request *request = &scope->request;
    if (GM_LIKELY(scope->begin && !scope->begin_ns))
        spend(scope);
    if (!scope->sequence)
        return;
    bool timed = GM_LIKELY(scope->begin != 0);
    uint64_t time_ns = timed ? scope->begin_ns : gm_now_ns(), spent_ns = timed ? scope->spent_ns : 0;
    if (GM_UNLIKELY(gm_summary_on()) && sum_up(time_ns + spent_ns, action, block))
        return;
    struct gm_event otherwise, *event = gm_trace_place(scope->sequence, &otherwise);
    fill_event(event, scope->sequence, time_ns, action, block, request->device);
    event->stream = request->stream;
    event->duration_ns = gm_saturate(spent_ns);
    event->site = request->site;
    event->context = block->context_number ? block->context_number : request->context_number;
    event->call = (uint8_t)request->call;
    event->reason = (uint8_t)reason;
    event->verdict = (uint8_t)verdict;
    event->result = (uint16_t)status;
    event->hit = action == GM_ACT_ALLOC && scope->block.hit;
    event->flags = (uint8_t)(request->capturing * GM_EVENT_CAPTURING | request->per_thread * GM_EVENT_PER_THREAD |
                             scope->kept * GM_EVENT_KEPT);
    gm_trace_placed(event, &otherwise);
}

void gm_write_release(const struct gm_block *block, uint64_t number, enum gm_reason reason) {
    struct gm_scope scope = {
        .request = {.call = (enum gm_call)block->call, .device = block->device, .site = block->site},
        .sequence = number};
    gm_end_call(&scope, GM_ACT_RELEASE, block, GM_OK, reason, (enum gm_kind)block->kind);
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
    note.spent_ns = 0;
    note.sequence = gm_trace_sequence();
    gm_end_call(&note, GM_ACT_DROP, &what, GM_OK, what.reason ? what.reason : GM_REASON_POLICY, what.kind);
}

void gm_pipeline_note(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_status status) {
    struct gm_block what = {.address = key, .size = scope->request.size};
    scope->sequence = gm_trace_is_on() ? gm_trace_sequence() : 0;
    gm_end_call(scope, action, &what, status, GM_REASON_NONE, GM_KIND_NATIVE);
}

void gm_pipeline_copied(struct gm_scope *scope, const struct gm_host_copy *copy, gm_status status) {
    struct gm_block source = {.address = copy->from, .size = copy->contents};
    struct gm_block target = {.address = copy->to,
                              .size = copy->bytes,
                              .reserved = copy->span,
                              .kind = copy->to_array ? GM_KIND_ARRAY : GM_KIND_NATIVE};
    if (!gm_trace_allocates())
        return;
    scope->begin_ns = scope->begin ? gm_ticks_to_ns(scope->begin) : 0;
    scope->spent_ns = copy->hashing_ns;
    scope->sequence = gm_trace_sequence();
    gm_end_call(scope, GM_ACT_COPY_SOURCE, &source, copy->hashed, GM_REASON_NONE, GM_KIND_NATIVE);
    scope->spent_ns = copy->spent_ns;
    scope->sequence = gm_trace_sequence();
    gm_end_call(scope, GM_ACT_COPY, &target, status, GM_REASON_NONE, GM_KIND_NATIVE);
}

/* ---- blocks that are older than the trace, or than the end of its pause */

enum gm_action gm_action_of(const struct gm_block *block) {
    unsigned traits = gm_call_traits((enum gm_call)block->call);
    return traits & GM_CALL_RESERVES                             ? GM_ACT_RESERVE
           : traits & GM_CALL_MAPS && !gm_block_is_memory(block) ? GM_ACT_MAP
                                                                 : GM_ACT_ALLOC;
}

void gm_write_live(const struct gm_block *block) {
    struct gm_event event;
    fill_event(&event, block->sequence, gm_now_ns(), gm_action_of(block), block, block->device);
    event.stream = block->stream;
    event.site = block->site;
    event.call = block->call;
    event.reason = block->reason;
    event.flags = GM_EVENT_LIVE;
    gm_trace_event(&event);
}

void gm_write_live_now(struct gm_block *block) {
    block->sequence = gm_trace_sequence();
    gm_write_live(block);
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

uint64_t gm_number_missed_event(const struct gm_block *block) {
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
        if (in)
            gm_trace_amount(GM_ACT_KEPT, (enum gm_kind)kind, -1, in > out ? in - out : 0, GM_REASON_NONE);
    }
}

/* Handles first, because the memory of a mapping is that of its handle. Threads in the fast case, which takes no lock
 * of the registry, either saw that calls are observed, or are done when gm_pipeline_observe returns. */
void gm_pipeline_record_live(void) {
    struct gm_registry *registry = gm_registry_shared();
    gm_pipeline_observe(true);
    if (registry) {
        gm_registry_record_all(registry, true, gm_write_live);
        gm_registry_record_all(registry, false, gm_write_live);
    }
    write_kept_bytes();
}

bool gm_pipeline_is_live(const struct gm_event *event) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    uint64_t key = gm_key(gm_call_space((enum gm_call)event->call), event->address);
    return registry && gm_registry_find(registry, key, &block) && block.size == event->bytes &&
           block.kind == event->kind && block.site == event->site;
}
