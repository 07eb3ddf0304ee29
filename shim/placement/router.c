/* The router chooses the resource that serves a request:
 *  1. the resource of the wanted kind, if it keeps the hard promises of the request;
 *  2. if this cannot serve (the driver lacks a function, the managed quota has no room), its fallback kind, and
 *     so on up to native memory;
 *  3. if native memory is out of memory too, the steps of GPUMEM_OOM.
 * So a policy never makes a request fail that native memory could serve. */
#include "shim/placement/router.h"

#include "shim/accounts/loans.h"
#include "shim/accounts/share.h"
#include "shim/accounts/stats.h"
#include "shim/resource/releases.h"
#ifdef GM_HAVE_CUDA
#include "shim/driver/driver.h"
#endif

enum { OWN_CALL = GM_KIND_COUNT }; /* gm_block.served: the program's own call, beside a stack of the user's */

static struct gm_resource *servers[GM_KIND_COUNT];
static uint32_t refused[GM_KIND_COUNT]; /* hard promises that a server does not keep; 0 for native, which is the
                                           program's own call */
static enum gm_kind fallbacks[GM_KIND_COUNT];
static struct gm_resource *own_call; /* native memory, where a stack of the user's serves GM_KIND_NATIVE; else NULL */
static struct gm_oom_chain chain = {.count = 1, .steps = {GM_OOM_TRIM}};

void gm_router_set_steps(const struct gm_oom_chain *steps) { chain = *steps; }

const struct gm_oom_chain *gm_router_steps(void) { return &chain; }

void gm_router_serve(enum gm_kind kind, struct gm_resource *resource) {
    const struct gm_resource *maker = resource;
    while (maker && maker->upstream)
        maker = maker->upstream;
    servers[kind] = resource;
    fallbacks[kind] = maker ? maker->ops->fallback : GM_KIND_NATIVE;
    refused[kind] = resource && (kind != GM_KIND_NATIVE || own_call)
                        ? gm_resource_unkept(resource->properties) & GM_PROMISES_HARD
                        : 0;
}

void gm_router_call_natively(struct gm_resource *native) { own_call = native; }

void gm_router_trim_kind(enum gm_kind kind) { gm_stack_trim(servers[kind], SIZE_MAX); }

struct gm_resource *gm_router_server(enum gm_kind kind) {
    return servers[kind];
}

struct gm_resource *gm_router_keeper(void) {
    struct gm_resource *cache = servers[GM_KIND_CACHE];
    return cache && cache->ops->take && cache->kind == GM_KIND_CACHE ? cache : NULL;
}

static inline bool is_refused(enum gm_kind kind, const struct gm_request *request) {
    return refused[kind] & request->promises;
}

/* GPUMEM_LIMIT leaves no room for the request on the device. */
static inline bool exceeds_limit(const struct gm_decision *decision) {
    return decision->reason == GM_REASON_OUT_OF_MEMORY;
}

static struct gm_block_record *router_take(struct gm_resource *self, const struct gm_request *request,
                                           const struct gm_decision *decision) {
    struct gm_resource *keeper = decision->kind == GM_KIND_CACHE ? gm_router_keeper() : NULL;
    bool may = keeper && !exceeds_limit(decision) && !is_refused(GM_KIND_CACHE, request);
    return may ? keeper->ops->take(keeper, request, decision) : NULL;
}

static inline gm_status allocate_from(enum gm_kind kind, const struct gm_request *request,
                                      const struct gm_decision *decision, struct gm_block *block) {
    struct gm_resource *server = servers[kind];
    if (GM_UNLIKELY(!server || is_refused(kind, request)))
        return GM_NOT_SUPPORTED;
    return gm_resource_alloc(server, request, decision, block);
}

static inline void set_served(struct gm_block *block, unsigned server, enum gm_reason reason) {
    block->served = (uint8_t)server;
    block->reason = (uint8_t)reason;
}

static bool serves_device_memory(int kind) { return servers[kind] && gm_kind_is_on_device((enum gm_kind)kind); }

/* The user's stack for native memory cannot serve such a request: the program's own call does. */
static GM_APART gm_status call_natively(const struct gm_request *request, const struct gm_decision *decision,
                                        struct gm_block *block) {
    gm_status status = gm_resource_alloc(own_call, request, decision, block);
    if (!status)
        set_served(block, OWN_CALL, is_refused(GM_KIND_NATIVE, request) ? GM_REASON_PROMISE : GM_REASON_UNSUPPORTED);
    return status;
}

/* Native memory once more, after something may have made room. */
static gm_status retry_natively(const struct gm_request *request, const struct gm_decision *decision,
                                enum gm_reason reason, struct gm_block *block) {
    gm_status status = allocate_from(GM_KIND_NATIVE, request, decision, block);
    if (status == GM_NOT_SUPPORTED && own_call)
        return call_natively(request, decision, block);
    if (!status)
        set_served(block, GM_KIND_NATIVE, reason);
    return status;
}

/* ---- the steps of GPUMEM_OOM */

static size_t trim_servers(size_t bytes, bool host) {
    size_t released = 0;
    for (int kind = 0; kind < GM_KIND_COUNT && released < bytes; kind++)
        if (host || gm_kind_is_on_device((enum gm_kind)kind))
            released += gm_stack_trim(servers[kind], bytes - released);
    return released;
}

/* A trim could make room for the request. */
static bool could_have(const struct gm_request *request) {
#ifdef GM_HAVE_CUDA
    return !gm_stats_knows(request->device) ||
           gm_device_could_have(request->size, gm_stats_live_of(gm_stats, request->device));
#else
    return true;
#endif
}

/* Other processes may have memory of the device for which this one can wait. */
static gm_status wait_for_others(const struct gm_request *request, const struct gm_decision *decision,
                                 enum gm_reason reason, struct gm_block *block) {
    struct gm_share_wait wait;
    gm_status status = GM_OUT_OF_MEMORY;
    if (!gm_share_is_on() || request->capturing || !could_have(request))
        return status;
    gm_share_begin(&wait, request->device, true);
    while (status == GM_OUT_OF_MEMORY && gm_share_next(&wait))
        status = retry_natively(request, decision, reason, block);
    gm_share_end(&wait, !status);
    return status;
}

/* Other processes may keep memory of the device. */
static gm_status ask_others(const struct gm_request *request, const struct gm_decision *decision, enum gm_reason reason,
                            struct gm_block *block) {
    gm_status status = GM_OUT_OF_MEMORY;
    if (gm_loans_ask(request->device))
        status = retry_natively(request, decision, reason, block);
    return status == GM_OUT_OF_MEMORY ? wait_for_others(request, decision, reason, block) : status;
}

static gm_status trim_and_retry(const struct gm_request *request, const struct gm_decision *decision,
                                enum gm_reason reason, struct gm_block *block) {
    if (exceeds_limit(decision) || !servers[GM_KIND_NATIVE])
        return GM_OUT_OF_MEMORY;
    if (!could_have(request))
        return ask_others(request, decision, reason, block);
    struct gm_releases releases;
    gm_releases_begin(&releases, GM_REASON_OUT_OF_MEMORY);
    releases.request = request;
    /* Host memory is left alone: its release would free nothing on the device, and the next step would take it again.
     */
    size_t released = trim_servers(SIZE_MAX, false);
    gm_releases_end(&releases, true);
    gm_status status = released ? retry_natively(request, decision, reason, block) : GM_OUT_OF_MEMORY;
    return status == GM_OUT_OF_MEMORY ? ask_others(request, decision, reason, block) : status;
}

/* Tries another kind of memory. If that cannot serve, the next step follows. */
static gm_status serve_displaced(enum gm_kind kind, const struct gm_request *request,
                                 const struct gm_decision *decision, struct gm_block *block) {
    struct gm_resource *server = servers[kind];
    if (!server || request->capturing || !gm_resource_keeps(server->properties, request) ||
        gm_resource_alloc(server, request, decision, block) != GM_OK)
        return GM_OUT_OF_MEMORY;
    set_served(block, kind, GM_REASON_OUT_OF_MEMORY);
    return GM_OK;
}

/* The device is out of memory or GPUMEM_LIMIT is reached: takes the steps of GPUMEM_OOM until one serves the request.
 * If none does, the request fails with out of memory. Another error of native memory ends the steps. */
static GM_APART gm_status serve_by_steps(const struct gm_request *request, const struct gm_decision *decision,
                                         enum gm_reason reason, struct gm_block *block) {
    gm_status status = GM_OUT_OF_MEMORY;
    for (unsigned i = 0; i < chain.count && status == GM_OUT_OF_MEMORY && chain.steps[i] != GM_OOM_FAIL; i++) {
        gm_stats_oom_step();
        switch (chain.steps[i]) {
        case GM_OOM_TRIM: status = trim_and_retry(request, decision, reason, block); break;
        case GM_OOM_SPLIT:
            if (!exceeds_limit(decision))
                status = serve_displaced(GM_KIND_SPLIT, request, decision, block);
            break;
        case GM_OOM_HOST: status = serve_displaced(GM_KIND_HOST_NUMA, request, decision, block); break;
        case GM_OOM_MANAGED: status = serve_displaced(GM_KIND_MANAGED, request, decision, block); break;
        case GM_OOM_FAIL: break;
        }
    }
    return status;
}

/* ---- requests */

/* Native memory could not serve either. */
static gm_status native_failed(const struct gm_request *request, const struct gm_decision *decision, gm_status status,
                               enum gm_reason reason, struct gm_block *block) {
    if (status == GM_NOT_SUPPORTED && own_call)
        status = call_natively(request, decision, block);
    if (status != GM_OUT_OF_MEMORY)
        return status;
    return serve_by_steps(request, decision, reason, block);
}

/* The wanted kind failed with `status`: tries its fallbacks, then the steps of GPUMEM_OOM. */
static GM_APART gm_status serve_by_next(const struct gm_request *request, const struct gm_decision *decision,
                                        gm_status status, struct gm_block *block) {
    enum gm_reason reason = GM_REASON_NONE;
    enum gm_kind kind = decision->kind;
    while (status != GM_OK && kind != GM_KIND_NATIVE) {
        if (is_refused(kind, request))
            reason = GM_REASON_PROMISE;
        else if (reason == GM_REASON_NONE)
            reason = status == GM_NOT_SUPPORTED ? GM_REASON_UNSUPPORTED : GM_REASON_FALLBACK;
        kind = fallbacks[kind];
        status = allocate_from(kind, request, decision, block);
    }
    if (status)
        return native_failed(request, decision, status, reason, block);
    set_served(block, kind, reason);
    return GM_OK;
}

/* The wanted kind; its keeper had no block for router_take. */
static gm_status allocate_new(const struct gm_request *request, const struct gm_decision *decision,
                              struct gm_block *block) {
    struct gm_resource *keeper = decision->kind == GM_KIND_CACHE ? gm_router_keeper() : NULL;
    return keeper && !is_refused(GM_KIND_CACHE, request) ? keeper->ops->alloc(keeper, request, decision, block)
                                                         : allocate_from(decision->kind, request, decision, block);
}

static gm_status router_alloc(struct gm_resource *self, const struct gm_request *request,
                              const struct gm_decision *decision, struct gm_block *block) {
    if (GM_UNLIKELY(exceeds_limit(decision)))
        return serve_by_steps(request, decision, GM_REASON_NONE, block);
    gm_status status = allocate_new(request, decision, block);
    if (GM_UNLIKELY(status))
        return serve_by_next(request, decision, status, block);
    set_served(block, decision->kind, GM_REASON_NONE);
    return GM_OK;
}

/* The owner of a block is its server, so a block reaches this function only through an adaptor around the router. */
static gm_status router_free(struct gm_resource *self, const struct gm_block *block,
                             const struct gm_free_request *how) {
    struct gm_resource *server = block->served == OWN_CALL ? own_call : servers[block->served];
    return server ? gm_resource_free(server, block, how) : GM_INVALID_VALUE;
}

/* One stack of the user's may serve two kinds. */
static bool serves_before(int kind) {
    for (int before = 0; before < kind; before++)
        if (servers[before] == servers[kind])
            return true;
    return false;
}

static size_t router_trim(struct gm_resource *self, size_t bytes) { return trim_servers(bytes, true); }

static size_t router_lend(struct gm_resource *self, size_t bytes) {
    size_t released = 0;
    for (int kind = 0; kind < GM_KIND_COUNT && released < bytes; kind++)
        if (serves_device_memory(kind) && !serves_before(kind))
            released += gm_stack_lend(servers[kind], bytes - released);
    return released;
}

static size_t router_releasable(struct gm_resource *self, int device) {
    size_t bytes = 0;
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        if (serves_device_memory(kind) && !serves_before(kind))
            bytes += gm_stack_releasable(servers[kind], device);
    return bytes;
}

static bool router_keeps(struct gm_resource *self, uint64_t address) {
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        if (gm_stack_keeps(servers[kind], address))
            return true;
    return false;
}

#define EACH_SERVER(...)                             \
    for (int kind = 0; kind < GM_KIND_COUNT; kind++) \
    GM_TELL(servers[kind], __VA_ARGS__)

static void router_after_fork(struct gm_resource *self) { EACH_SERVER(after_fork); }

static void router_held(struct gm_resource *self, int device, uint64_t bytes[GM_REASON_COUNT]) {
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        if (serves_device_memory(kind) && !serves_before(kind))
            GM_TELL(servers[kind], held, device, bytes);
}

static void router_context_ending(struct gm_resource *self, uint64_t context_id) {
    EACH_SERVER(context_ending, context_id);
}

static void router_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    EACH_SERVER(context_destroyed, context_id);
}

static void router_capture(struct gm_resource *self, int change) { EACH_SERVER(capture, change); }

static void router_open_to(struct gm_resource *self, int device) { EACH_SERVER(open_to, device); }

const struct gm_resource_ops gm_resource_router = {
    .name = "router",
    .summary = "the kind of memory that the policy chose for each request",
    .properties = ~0u,
    .breaks = "",
    .kind = GM_KIND_NATIVE,
    .alloc = router_alloc,
    .free = router_free,
    .take = router_take,
    .trim = router_trim,
    .lend = router_lend,
    .releasable = router_releasable,
    .held = router_held,
    .keeps = router_keeps,
    .after_fork = router_after_fork,
    .context_ending = router_context_ending,
    .context_destroyed = router_context_destroyed,
    .capture = router_capture,
    .open_to = router_open_to,
};
