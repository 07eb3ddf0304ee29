/* What all resources learn: contexts, captures, devices, trims and forks. They are those of the pipeline and the stacks
 * of the program. */
#include <sched.h>

#include "shim/accounts/limit.h"
#include "shim/accounts/loans.h"
#include "shim/accounts/share.h"
#include "shim/pipeline/counts.h"
#include "shim/pipeline/events.h"
#include "shim/explain/explain.h"
#include "shim/explain/freed.h"
#include "shim/pipeline/parts.h"
#include "shim/placement/router.h"
#include "shim/resource/releases.h"
#ifdef GM_HAVE_CUDA
#include "shim/driver/internal_stream.h"
#include "shim/resource/reach.h"
#endif

/* ---- stacks of the program (gpumem_resource.h), beside gm_pipeline.root. A thread that calls one counts itself in
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

/* The stack behind `*at`, which is left; NULL at first. NULL: there is none. */
static struct gm_resource *next_guest(struct guest **at) {
    struct guest *end = guests + __atomic_load_n(&guests_used, __ATOMIC_ACQUIRE);
    struct gm_resource *top = NULL;
    struct guest *guest = *at ? *at + 1 : guests;
    if (*at)
        leave_guest(*at);
    while (guest < end && !(top = enter_guest(guest)))
        guest++;
    *at = guest;
    return top;
}

static struct gm_resource *first_top(struct guest **at) { return gm_pipeline.root ? gm_pipeline.root : next_guest(at); }

#define EACH(first, top)                                                 \
    for (struct guest *at_ = NULL, *once_ = guests; once_; once_ = NULL) \
        for (struct gm_resource *top = first(&at_); top; top = next_guest(&at_))
/* The body sees `top`: of each stack of the program, or also that of the pipeline, which is the first. */
#define EACH_GUEST(top) EACH(next_guest, top)
#define EACH_TOP(top)   EACH(first_top, top)

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

/* NULL: the stack is not watched. */
static struct guest *take_guest(struct gm_resource *top) {
    for (uint32_t i = 0; i < GUESTS; i++) {
        struct gm_resource *same = top;
        if (__atomic_compare_exchange_n(&guests[i].top, &same, NULL, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            return &guests[i];
    }
    return NULL;
}

static void wait_until_left(const struct guest *guest) {
    while (guest && __atomic_load_n(&guest->busy, __ATOMIC_SEQ_CST))
        sched_yield();
}

void gm_pipeline_unwatch(struct gm_resource *top) { wait_until_left(take_guest(top)); }

/* The count and the table change together. Otherwise a thread could look for a stack that another one is about to
 * watch. */
GM_LOCK(wrapping);

void gm_pipeline_wrap(struct gm_resource *top, unsigned *users) {
    gm_spin_lock(&wrapping);
    struct guest *guest = (*users)++ ? NULL : take_guest(top);
    gm_spin_unlock(&wrapping);
    wait_until_left(guest);
}

void gm_pipeline_unwrap(struct gm_resource *top, unsigned *users) {
    gm_spin_lock(&wrapping);
    if (--*users == 0)
        gm_pipeline_watch(top);
    gm_spin_unlock(&wrapping);
}

void gm_pipeline_report(void) {
    EACH_GUEST(top)
    GM_TELL(top, report);
}

/* ---- life of contexts */

/* The block ended with its context. `kept`: gpumem keeps its memory. */
static void note_release(const struct gm_block *block, bool kept) {
    struct gm_stats *stats = gm_stats;
    gm_count_destroyed(block, kept);
    if (gm_block_is_memory(block)) {
        gm_count_one(&gm_stats_mine()->released[block->kind]);
        __atomic_add_fetch(&stats->released_bytes, block->size, __ATOMIC_RELAXED);
    }
    gm_notify_freed(block);
    if (gm_trace_is_on() && block->sequence && gm_is_recorded(block->recorded))
        gm_write_release(block, block->sequence, GM_REASON_CONTEXT_GONE);
}

static void release(const struct gm_block *block, void *arg) {
    struct gm_resource *server = block->owner ? gm_router_server(block->kind) : NULL;
    if (server && server->ops->abandon)
        server->ops->abandon(server, block);
    note_release(block, false);
}

/* Of each block anew, because a trace may begin meanwhile. */
static uint64_t number_of_release(void) { return gm_trace_is_on() ? gm_trace_sequence() : 0; }

struct ending {
    uint64_t context_id;
    const struct gm_resource *server;
};

static void free_block(const struct gm_block *seen, void *arg) {
    const struct ending *ending = arg;
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    bool kept = false;
    const struct gm_free_request how = {.call = GM_CALL_FREE, .ended = true, .kept = &kept};
    if (seen->context_id != ending->context_id || !seen->owner || seen->kind != ending->server->kind ||
        !gm_registry_take(registry, seen->address, &block))
        return;
    block.sequence = number_of_release();
    if (gm_resource_free(block.owner, &block, &how))
        gm_registry_add(registry, &block, NULL);
    else
        note_release(&block, kept);
}

void gm_pipeline_context_ending(uint64_t context_id, int device) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_releases releases;
    gm_sample(context_id, device, GM_MOMENT_ENDING);
    gm_releases_begin(&releases, GM_REASON_CONTEXT_GONE);
    for (int kind = 0; kind < GM_KIND_COUNT && registry; kind++) {
        struct gm_resource *server = gm_router_server(kind);
        if (!server || !(server->properties & GM_PROP_OUTLIVES_CONTEXT))
            continue;
        struct ending ending = {context_id, server};
        gm_registry_each(registry, free_block, &ending);
        gm_stack_trim(server, SIZE_MAX);
    }
    EACH_GUEST(top)
    if (top->properties & GM_PROP_OUTLIVES_CONTEXT)
        gm_stack_trim(top, SIZE_MAX);
    gm_releases_end(&releases, false);
}

#ifdef GM_HAVE_CUDA
struct moving {
    const struct ending *from;
    struct gm_context to;
};

static void move_block(const struct gm_block *seen, void *arg) {
    const struct moving *moving = arg;
    const struct gm_resource *server = moving->from->server;
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    if (seen->context_id != moving->from->context_id || !seen->owner || seen->kind != server->kind ||
        !gm_registry_take(registry, seen->address, &block))
        return;
    block.context = (uint64_t)(uintptr_t)moving->to.handle;
    block.context_id = moving->to.id;
    gm_registry_add(registry, &block, NULL);
    if (server->ops->moved)
        server->ops->moved(&block);
}

void gm_pipeline_context_moves(uint64_t context_id, int device) {
    struct gm_registry *registry = gm_registry_shared();
    struct moving moving;
    if (!registry || !gm_context_primary_lives(device, &moving.to))
        return;
    for (int kind = 0; kind < GM_KIND_COUNT; kind++) {
        const struct gm_resource *server = gm_router_server(kind);
        if (!server || !(server->properties & GM_PROP_OUTLIVES_CONTEXT))
            continue;
        moving.from = &(struct ending){context_id, server};
        gm_registry_each(registry, move_block, &moving);
    }
}
#endif

void gm_pipeline_empty_context(uint64_t context_id) {
    struct gm_releases releases;
    gm_releases_begin(&releases, GM_REASON_CONTEXT_GONE);
    EACH_TOP(top)
    GM_TELL(top, context_ending, context_id);
    gm_releases_end(&releases, false);
}

void gm_pipeline_context_destroyed(uint64_t context_id) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_releases releases;
    gm_releases_begin(&releases, GM_REASON_CONTEXT_GONE);
    if (registry)
        gm_registry_drop_context(registry, context_id, number_of_release, release, NULL);
    EACH_TOP(top)
    GM_TELL(top, context_destroyed, context_id);
#ifdef GM_HAVE_CUDA
    gm_internal_forget(context_id);
#endif
    gm_releases_end(&releases, false);
}

void gm_pipeline_pin(uint64_t base) {
    struct gm_registry *registry = gm_registry_shared();
    if (registry)
        gm_registry_mark(registry, base);
}

size_t gm_pipeline_trim(size_t bytes, enum gm_reason reason) {
    struct gm_releases releases;
    gm_releases_begin(&releases, reason);
    size_t given = gm_stack_trim(gm_pipeline.root, bytes);
    EACH_GUEST(top)
    given += given < bytes ? gm_stack_trim(top, bytes - given) : 0;
    gm_releases_end(&releases, false);
#ifdef GM_HAVE_CUDA
    struct gm_context context;
    if (reason == GM_REASON_OUT_OF_MEMORY && gm_context_current(&context) &&
        (gm_loans_ask(context.device) || (!given && gm_share_ask(context.device))))
        given++; /* others released some */
#endif
    return given;
}

size_t gm_pipeline_lend(size_t bytes, enum gm_reason reason) {
    struct gm_releases releases;
    gm_releases_begin(&releases, reason);
    size_t given = gm_stack_lend(gm_pipeline.root, bytes);
    EACH_GUEST(top)
    given += given < bytes ? gm_stack_lend(top, bytes - given) : 0;
    gm_releases_end(&releases, false);
    return given;
}

bool gm_pipeline_is_free(uint64_t address) {
    struct gm_registry *registry = gm_registry_shared();
    bool kept = registry && gm_registry_holds(registry, address, NULL);
    EACH_TOP(top)
    kept = kept || gm_stack_keeps(top, address);
    return kept;
}

size_t gm_pipeline_releasable(int device) {
    size_t bytes = 0;
    EACH_TOP(top)
    bytes += gm_kind_is_on_device(top->kind) ? gm_stack_releasable(top, device) : 0;
    return bytes;
}

void gm_pipeline_held(int device, uint64_t bytes[GM_REASON_COUNT]) {
    EACH_TOP(top)
    if (gm_kind_is_on_device(top->kind))
        GM_TELL(top, held, device, bytes);
}

void gm_pipeline_capture(int change) {
    EACH_TOP(top)
    GM_TELL(top, capture, change);
}

static void open_block(const struct gm_block *block, void *device) {
    struct gm_resource *server = block->owner ? gm_router_server(block->kind) : NULL;
    int to = *(const int *)device;
    if (server && server->ops->open_block_to && block->device != to)
        server->ops->open_block_to(server, block, to);
}

void gm_pipeline_open_to(int device) {
    struct gm_registry *registry = gm_registry_shared();
    EACH_TOP(top)
    GM_TELL(top, open_to, device);
    if (registry)
        gm_registry_each_record(registry, open_block, &device);
}

#ifdef GM_HAVE_CUDA
uint64_t gm_devices_open(void) { return gm_reach_devices(); }

void gm_open_to_new(const struct gm_block *block, uint64_t before) {
    uint64_t new = gm_reach_devices() & ~before;
    if (GM_LIKELY(!new))
        return;
    CUstreamCaptureMode mode = gm_capture_relax();
    for (int device = 0; new; device++, new >>= 1)
        if (new & 1)
            open_block(block, &device);
    gm_capture_unrelax(mode);
}
#else
uint64_t gm_devices_open(void) { return 0; }
void gm_open_to_new(const struct gm_block *block, uint64_t before) {}
#endif

void gm_pipeline_after_fork(void) {
    struct gm_registry *registry = gm_registry_shared();
    gm_numbers_after_fork();
    if (registry)
        gm_registry_after_fork(registry);
    gm_freed_after_fork();
    if (gm_pipeline.policy && gm_pipeline.policy->after_fork)
        gm_pipeline.policy->after_fork();
    for (uint32_t i = 0; i < guests_used; i++)
        guests[i].busy = 0;
    EACH_TOP(top)
    GM_TELL(top, after_fork);
    gm_limit_after_fork();
}
