/* Runs one replay: passes each event of the trace to the library's pipeline, as the hooks would. */
#include "tools/cli/replay.h"

#include "tools/cli/read_trace.h"
#include "tools/cli/live_blocks.h"
#include "tools/cli/memory_kinds.h"
#include "tools/cli/objects.h"
#include "tools/cli/replay_device.h"

#include "shim/base/events.h"
#include "shim/base/base.h"
#include "shim/base/file.h"
#include "shim/accounts/limit.h"
#include "shim/base/options.h"
#include "shim/accounts/stats.h"
#include "shim/cache/cache.h"
#include "shim/pipeline/pipeline.h"
#include "shim/resource/registry.h"
#include "shim/driver/driver.h"
#include "shim/driver/free_sync.h"
#include "shim/placement/oom.h"
#include "shim/placement/router.h"
#include "shim/resource/managed_quota.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uthash.h>

#define TIME_BEGIN UINT64_C(1000000000) /* start of the replayed clock, because 0 means the real time */

struct site {
    uint32_t id;
    struct gm_site_keys keys;
    UT_hash_handle hh;
};

struct run {
    struct gm_replay *out;
    struct gm_reader *reader;
    struct gm_live_blocks blocks;     /* by key in the trace; .bytes = address in the replay */
    struct gm_thread_numbers threads; /* numbers of threads as policies count them */
    struct gm_thread_numbers callers; /* numbers of all threads */
    uint32_t caller;                  /* the thread of the latest event */
    struct site *sites;               /* array; NULL: the policy does not use call sites */
    struct site *by_id;               /* the same */
    uint32_t wants;
    int captures;
    bool no_memory;
};

/* ---- the library's parts */

static void *reserve(size_t bytes) { return gm_pages(bytes); }

static const struct gm_policy *set_up_policy(struct run *r, const char *text) {
    const struct gm_policy *policy = gm_policy_find(text);
    const char *colon = strchr(text, ':');
    struct gm_policy_setup setup = {
        .argument = colon ? colon + 1 : NULL,
        .list_length = (unsigned)gm_option_number(GM_OPT_LIST_LENGTH),
        .list_range = (unsigned)gm_option_number(GM_OPT_LIST_RANGE),
        .managed = gm_option_number(GM_OPT_MANAGED) == 1 ? GM_KIND_MANAGED : GM_KIND_MANAGED_POOL,
        .reserve = reserve,
        .load = gm_file_load,
        .unload = gm_file_unmap,
    };
    if (!policy) {
        snprintf(r->out->error, sizeof r->out->error, "there is no policy '%s'", text);
        return NULL;
    }
    if (gm_policy_open(policy, &setup)) {
        snprintf(r->out->error, sizeof r->out->error, "replay: --policy=%s: %s", text, setup.error);
        return NULL;
    }
    r->wants = setup.wants;
    return policy;
}

static void trim_managed_pool(void) { gm_router_trim_kind(GM_KIND_MANAGED_POOL); }

/* Builds the same resources as the library, except host memory, which depends on the machine, and growing blocks. */
static struct gm_resource *build_resources(struct run *r) {
    for (const struct gm_resource_ops *const *rows = gm_resource_rows; *rows; rows++) {
        const struct gm_resource_ops *row = *rows;
        if (!row->serves || !gm_kind_is_replayed(row->kind))
            continue;
        struct gm_resource *resource = gm_resource_build(row->serves, r->out->error, sizeof r->out->error);
        if (!resource)
            return NULL;
        gm_router_serve(row->kind, resource);
    }
    gm_events.quota_short = trim_managed_pool;
    return gm_resource_build("router", r->out->error, sizeof r->out->error);
}

/* Under every GPUMEM_FREE but async a freed block may be reused at once. */
static gm_status synchronise(const struct gm_block *block, bool *settled) {
    *settled = true;
    return GM_OK;
}

static bool set_up(struct run *r, const char *policy_text) {
    struct gm_oom_chain chain;
    char error[160];
    const struct gm_policy *policy = set_up_policy(r, policy_text);
    struct gm_resource *root = policy ? build_resources(r) : NULL;
    if (!root)
        return false;
    bool settles = gm_option_bool(GM_OPT_STRICT) || gm_option_number(GM_OPT_FREE) != GM_FREE_ASYNC;
    const struct gm_pipeline_setup setup = {.policy = policy,
                                            .root = root,
                                            .synchronise = settles ? synchronise : NULL,
                                            .program_managed = gm_managed_note,
                                            .user_named = true,
                                            .wants = r->wants};
    gm_pipeline_setup(&setup);
    if (!gm_oom_parse(gm_option_text(GM_OPT_OOM), &chain, error, sizeof error))
        gm_router_set_steps(&chain);
    gm_events.device_total = gm_device_total;
    gm_limit_bytes = gm_option_number(GM_OPT_LIMIT);
    return true;
}

/* ---- call sites, from a first pass: an event may precede the definition of its site */

static void name_site(const struct gm_site *site, void *arg) {
    struct run *r = arg;
    struct site *named = &r->sites[site->index];
    named->id = site->id;
    gm_site_name(r->reader, site, &named->keys, NULL);
    HASH_ADD_INT(r->by_id, id, named);
}

static const struct gm_site_keys *keys_of(const struct run *r, uint32_t id) {
    const struct site *site = NULL;
    if (r->by_id)
        HASH_FIND_INT(r->by_id, &id, site);
    return site && site->keys.chain ? &site->keys : NULL;
}

static bool read_definitions(struct run *r, const char *trace, uint64_t total[GM_REPLAY_DEVICES]) {
    struct gm_event event;
    struct gm_device device;
    int thread;
    r->reader = gm_reader_open(trace, r->out->error, sizeof r->out->error);
    if (!r->reader)
        return false;
    while (gm_reader_next(r->reader, &event, &thread))
        ;
    for (unsigned i = 0; gm_reader_device(r->reader, i, &device); i++)
        if (device.device >= 0 && device.device < GM_REPLAY_DEVICES)
            total[device.device] = device.total;
    if (r->wants & GM_WANT_SITE) {
        r->sites = calloc(gm_reader_site_count(r->reader) + 1, sizeof *r->sites);
        if (r->sites)
            gm_reader_each_site(r->reader, name_site, r);
        r->no_memory |= !r->sites;
    }
    gm_reader_close(r->reader);
    r->reader = NULL;
    return true;
}

/* ---- events */

static void begin(struct gm_scope *scope, const struct gm_event *e) {
    struct gm_context context;
    gm_replay_device_enter(e->context, e->device, (e->flags & GM_EVENT_CAPTURING) != 0);
    gm_context_current(&context);
    gm_scope_begin(scope, (enum gm_call)e->call, e->bytes, 0);
    scope->request.context = (uint64_t)(uintptr_t)context.handle;
    scope->request.context_id = context.id;
    scope->request.context_number = context.number;
    scope->request.device = context.device;
    scope->request.stream = e->stream;
    scope->request.capturing = (e->flags & GM_EVENT_CAPTURING) != 0;
    scope->request.per_thread = (e->flags & GM_EVENT_PER_THREAD) != 0;
}

static void note_peak(struct run *r) {
    struct gm_replay_counts *counts = &r->out->counts;
    if (gm_stats->peak_reserved == counts->peak_reserved)
        return;
    counts->peak_reserved = gm_stats->peak_reserved;
    counts->live_at_reserved = gm_stats_live_on_devices(gm_stats);
}

static void failed(struct run *r, const struct gm_event *e) {
    struct gm_replay_counts *counts = &r->out->counts;
    if (e->action == GM_ACT_ALLOC_FAIL)
        return;
    if (!counts->failed++)
        r->out->first = (struct gm_replay_failure){e->time_ns, e->bytes, e->device};
    counts->failed_bytes += e->bytes;
}

/* Frees a block that no resource of the library serves. */
static gm_status free_on_device(const struct gm_scope *scope, uint64_t address) {
    gm_replay_device_free(address);
    return GM_OK;
}

static void free_block(struct run *r, const struct gm_event *e, uint64_t address, enum gm_call call) {
    struct gm_scope scope;
    struct gm_block block;
    if (!gm_registry_find(gm_registry_shared(), address, &block))
        return; /* its context was destroyed before */
    begin(&scope, e);
    scope.request.call = call;
    r->out->counts.frees += gm_pipeline_free(&scope, GM_ACT_FREE, address, free_on_device) == GM_OK;
}

static enum gm_call free_of(const struct gm_event *e) {
    return e->call == GM_CALL_FREE_ASYNC || e->call == GM_CALL_ALLOC_ASYNC || e->call == GM_CALL_ALLOC_FROM_POOL
               ? GM_CALL_FREE_ASYNC
               : GM_CALL_FREE;
}

static void remember(struct run *r, const struct gm_event *e, uint64_t address) {
    const struct gm_live_block block = {.key = gm_event_key(e), .bytes = address, .context = e->context};
    struct gm_live_block old;
    int replaced = gm_live_blocks_add(&r->blocks, &block, &old);
    r->no_memory |= replaced < 0;
    if (replaced > 0)
        free_block(r, e, old.bytes, free_of(e));
}

static void alloc_movable(struct run *r, const struct gm_event *e, int thread) {
    struct gm_scope scope;
    begin(&scope, e);
    if (r->wants) {
        scope.request.thread = gm_thread_number(&r->threads, thread);
        r->no_memory |= !scope.request.thread;
        scope.request.where = keys_of(r, e->site);
    }
    if (e->call == GM_CALL_ALLOC_PITCH) { /* the trace does not have the number and width of rows */
        scope.request.width = e->bytes;
        scope.request.height = 1;
        scope.request.element_size = 4;
    }
    if (gm_pipeline_alloc(&scope)) {
        failed(r, e);
        return;
    }
    note_peak(r);
    r->out->counts.allocs++;
    if (e->action == GM_ACT_ALLOC_FAIL) /* how long the program would have used it is unknown */
        free_block(r, e, scope.block.address, free_of(e));
    else
        remember(r, e, scope.block.address);
}

static void alloc_other(struct run *r, const struct gm_event *e) {
    struct gm_scope scope;
    uint64_t address, reserved = e->bytes + e->slack;
    if (e->action == GM_ACT_ALLOC_FAIL || !e->bytes || !gm_kind_is_on_device(e->kind) ||
        !gm_call_allocates((enum gm_call)e->call, (enum gm_kind)e->kind))
        return;
    begin(&scope, e);
    bool fits = gm_pipeline_charge(&scope, e->call == GM_CALL_ALLOC_MANAGED);
    bool got =
        fits && (gm_replay_device_alloc(reserved, &address) ||
                 (gm_pipeline_trim(SIZE_MAX, GM_REASON_OUT_OF_MEMORY) && gm_replay_device_alloc(reserved, &address)));
    gm_pipeline_saw_alloc(&scope, (enum gm_kind)e->kind, got ? address : 0, reserved, got ? GM_OK : GM_OUT_OF_MEMORY);
    if (!got) {
        failed(r, e);
        return;
    }
    note_peak(r);
    r->out->counts.allocs++;
    remember(r, e, address);
}

static void on_alloc(struct run *r, const struct gm_event *e, int thread) {
    const struct gm_request request = {.call = (enum gm_call)e->call};
    if (!gm_call_is_movable(&request))
        alloc_other(r, e);
    else if (e->bytes && (e->action == GM_ACT_ALLOC || e->context))
        alloc_movable(r, e, thread);
}

static void context_destroyed(struct run *r, const struct gm_event *e) {
    struct gm_context context;
    uint64_t id;
    if (!e->context || e->result)
        return;
    gm_replay_device_enter(e->context, e->device, false);
    gm_context_current(&context);
    gm_pipeline_context_ending(context.id, context.device);
    if (!gm_context_end(context.handle, &id))
        return;
    gm_pipeline_context_destroyed(id);
    gm_replay_device_destroy_context(e->context);
}

static void on_release(struct run *r, const struct gm_event *e) {
    struct gm_live_block block;
    if (!gm_live_blocks_take(&r->blocks, gm_event_key(e), &block))
        return;
    if (e->reason == GM_REASON_CONTEXT_GONE)
        context_destroyed(r, e);
    else
        free_block(r, e, block.bytes, free_of(e));
}

static void on_capture(struct run *r, const struct gm_event *e, int change) {
    CUstream stream = (CUstream)(uintptr_t)e->stream;
    bool per_thread = (e->flags & GM_EVENT_PER_THREAD) != 0;
    if (change < 0 && !r->captures)
        return;
    r->captures += change;
    if (change > 0)
        gm_capture_begin(stream, per_thread, CU_STREAM_CAPTURE_MODE_GLOBAL);
    else
        gm_capture_end(stream, per_thread);
    gm_pipeline_capture(change);
}

/* Makes the cache use the free lists of the event's thread. */
static void act_as_thread(struct run *r, int thread) {
    uint32_t caller = gm_thread_number(&r->callers, thread);
    if (caller == r->caller)
        return;
    gm_cache_act_as(caller - 1);
    r->caller = caller;
    r->no_memory |= !caller;
}

static void on_event(struct run *r, const struct gm_event *e, int thread) {
    struct gm_live_block block;
    gm_replay_time = TIME_BEGIN + e->time_ns;
    act_as_thread(r, thread);
    switch ((enum gm_action)e->action) {
    case GM_ACT_ALLOC:
    case GM_ACT_ALLOC_FAIL: on_alloc(r, e, thread); break;
    case GM_ACT_FREE:
        if (gm_live_blocks_take(&r->blocks, gm_event_key(e), &block))
            free_block(r, e, block.bytes, free_of(e));
        break;
    case GM_ACT_RELEASE: on_release(r, e); break;
    case GM_ACT_EXPORT:
        if (gm_live_blocks_take(&r->blocks, gm_event_key(e), &block)) {
            gm_pipeline_pin(block.bytes);
            gm_live_blocks_add(&r->blocks, &block, &(struct gm_live_block){0});
        }
        break;
    case GM_ACT_CAPTURE_BEGIN:
        if (!e->result)
            on_capture(r, e, +1);
        break;
    case GM_ACT_CAPTURE_END: on_capture(r, e, -1); break;
    case GM_ACT_CONTEXT_DESTROYED: context_destroyed(r, e); break;
    default: break;
    }
}

/* ---- the result */

static void sum_up(struct run *r, const struct gm_policy *policy) {
    struct gm_replay *out = r->out;
    struct gm_replay_counts *counts = &out->counts;
    for (int s = 0; s < GM_STATS_SHARDS; s++) {
        const struct gm_stats_shard *shard = &gm_stats->shards[s];
        for (int kind = 0; kind < GM_KIND_COUNT; kind++) {
            out->allocs[kind] += shard->allocs[kind];
            out->hits[kind] += shard->hits[kind];
            counts->hits += shard->hits[kind];
        }
        counts->moved += shard->moved;
        counts->given_back += shard->trimmed_bytes;
    }
    memcpy(out->peak, gm_stats->peak_bytes, sizeof out->peak);
    counts->peak_live = gm_stats->peak_total;
    counts->peak_reserved = gm_stats->peak_reserved;
    counts->waits = gm_replay_device_counts.waits;
    counts->driver_allocs = gm_replay_device_counts.allocs;
    counts->driver_frees = gm_replay_device_counts.frees;
    if (!policy->ended || !policy->ended(out->policy_line, sizeof out->policy_line))
        out->policy_line[0] = '\0';
}

void gm_replay_here(const char *trace, const char *policy, uint64_t device_bytes, struct gm_replay *out) {
    struct run r = {.out = out};
    uint64_t total[GM_REPLAY_DEVICES] = {0};
    struct gm_event event;
    int thread;
    gm_replay_time = TIME_BEGIN;
    if (!set_up(&r, policy) || !read_definitions(&r, trace, total))
        return;
    for (int i = 0; device_bytes && i < GM_REPLAY_DEVICES; i++)
        total[i] = device_bytes;
    gm_replay_device_install(total);
    r.reader = gm_reader_open(trace, out->error, sizeof out->error);
    while (r.reader && !r.no_memory && gm_reader_next(r.reader, &event, &thread))
        on_event(&r, &event, thread);
    if (r.no_memory)
        snprintf(out->error, sizeof out->error, "%s: out of memory", trace);
    else if (r.reader)
        sum_up(&r, gm_pipeline_policy());
    out->damaged = r.reader ? gm_reader_damaged(r.reader) : 0;
    gm_replay_time = 0;
}

/* ---- one process for each replay */

static bool read_all(int fd, void *out, size_t size) {
    for (char *at = out; size;) {
        ssize_t got = read(fd, at, size);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        at += got > 0 ? got : 0;
        size -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

static bool write_all(int fd, const void *from, size_t size) {
    for (const char *at = from; size;) {
        ssize_t put = write(fd, at, size);
        if (put < 0 && errno != EINTR)
            return false;
        at += put > 0 ? put : 0;
        size -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

void gm_replay_policy(const char *trace, const char *policy, uint64_t device_bytes, struct gm_replay *out) {
    int ends[2];
    *out = (struct gm_replay){0};
    fflush(NULL);
    pid_t child = pipe(ends) ? -1 : fork();
    if (child < 0) {
        snprintf(out->error, sizeof out->error, "no process for the replay: %s", strerror(errno));
        return;
    }
    if (!child) {
        close(ends[0]);
        gm_replay_here(trace, policy, device_bytes, out);
        _exit(!write_all(ends[1], out, sizeof *out));
    }
    close(ends[1]);
    bool done = read_all(ends[0], out, sizeof *out);
    close(ends[0]);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    if (!done)
        snprintf(out->error, sizeof out->error, "%s: the replay under %s ended early", trace, policy);
}
