/* The one way of every call: hook -> request -> policy -> resource -> registry -> counters -> trace, and back for a
 * free.
 *
 * A hook fills a scope, calls one of these, and encodes the result. All may be called from many threads; none holds a
 * lock across a driver call. Order that keeps the registry true: a block is forgotten before it is freed and remembered
 * after it was got. */
#ifndef GM_PIPELINE_H
#define GM_PIPELINE_H

#include "shim/base/stats.h"
#include "shim/core/registry.h"
#include "shim/resource/resource.h"
#include "shim/trace/writer.h"

/* One program call on its way through. */
struct gm_scope {
    struct gm_request request; /* the hook fills it (gm_scope_begin and by hand) */
    struct gm_block block;     /* allocation: what was got; free: what is given back */
    uint64_t begin;            /* clock ticks, 0 = not timed */
    uint64_t sequence;
    size_t charged; /* bytes counted against GPUMEM_LIMIT before the memory was asked for */
    bool known;     /* free: the block was in the registry and is out of it now */
};

struct gm_pipeline_setup {
    const struct gm_policy *policy;
    struct gm_resource *root; /* serves movable calls */
    bool timed;               /* measure calls even without a trace */
    /* Synchronises for a free by cuMemFree, before the block's owner gets it back; sets gm_free_request.settled. An
     * error is the free's own, and the block stays the program's. NULL: frees synchronise nothing. */
    gm_status (*synchronise)(const struct gm_block *block, bool *settled);
    bool (*grows)(const struct gm_request *request); /* such a block is to be of GM_KIND_VMM; NULL: none */
    /* A free by cuMemFree of `block`, NULL where it is unknown. True: a page handover destroyed the block already, so
     * there is nothing to free. NULL: pages never change hands. */
    bool (*handed_over)(uint64_t address, const struct gm_block *block);
    /* The program allocated (+) or freed (-) bytes of managed memory by its own call. NULL: nobody counts them. */
    void (*program_managed)(int64_t bytes);
    bool user_named; /* the user named the policy: dropped soft promises are told */
    uint32_t wants;  /* enum gm_want bits of the policy */
    /* Gives advice (enum gm_advice bits) about a new managed block; marks a block whose memory outlives it, so that its
     * free takes the advice back. NULL: advice is dropped. */
    void (*advise)(const struct gm_request *request, uint32_t advice, struct gm_block *block);
};
/* Before the first call; not thread-safe. */
void gm_pipeline_setup(const struct gm_pipeline_setup *setup);

GM_INTERNAL extern bool gm_pipeline_timed; /* calls are measured even without a trace */
GM_INTERNAL extern const struct gm_request
    gm_request_blank; /* to be copied: compilers clear so much by a slow string instruction */
/* Starts a scope: a blank request, the time. `site` is 0 without a trace. `block` is filled by whoever gets or takes
 * one. */
static inline void gm_scope_begin(struct gm_scope *scope, enum gm_call call, size_t size, uint32_t site) {
    scope->begin = GM_UNLIKELY(gm_trace_on || gm_pipeline_timed || gm_stats_watched()) ? gm_ticks() : 0;
    scope->sequence = 0;
    scope->known = false;
    scope->charged = 0;
    scope->block.reason = GM_REASON_NONE;
    scope->block.charged = 0;
    scope->request = gm_request_blank;
    scope->request.call = call;
    scope->request.size = size;
    scope->request.site = site;
}

/* Registry keys: device addresses and handles of driver objects are not the same space. */
enum gm_space { GM_SPACE_ADDRESS, GM_SPACE_RESERVATION, GM_SPACE_VMM_HANDLE, GM_SPACE_OBJECT };
uint64_t gm_key(enum gm_space space, uint64_t value);
uint64_t gm_key_value(uint64_t key);

/* Movable calls: decides, serves, records. scope->block is what the program gets. Errors: as native, or the resource's
 * own. */
gm_status gm_pipeline_alloc(struct gm_scope *scope);

/* Calls that are never moved, before the true one: counts the request's bytes on its device against GPUMEM_LIMIT, to be
 * followed by gm_pipeline_saw_alloc. False: they pass the limit, the call is to fail with out of memory. `may_exceed`:
 * counted all the same, for memory that natively may be larger than the card. */
bool gm_pipeline_charge(struct gm_scope *scope, bool may_exceed);

/* Calls that are never moved: the hook made the true call itself, with `status`. On success remembers the block `key`
 * of `kind` (freed by the program's own call) and writes the event `action`; on failure the matching *_fail event. */
void gm_pipeline_saw_alloc(struct gm_scope *scope, enum gm_kind kind, enum gm_action action, uint64_t key,
                           size_t reserved, gm_status status);

/* The program's own call, for a block that nobody here made. */
typedef gm_status gm_native_free(const struct gm_scope *scope, uint64_t key);

/* A free: takes the block out of the registry, lets whoever made it free it, and records the outcome. Who that is: the
 * block whose pages the freed one gave away, the block's owner, or `native`. A second free of memory that is only kept
 * fails as it natively would (GM_INVALID_VALUE). A failed free puts the block back. Errors: those of the owner or of
 * `native`. */
gm_status gm_pipeline_free(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_native_free *native);

/* Its first and last step, for a call that ends several blocks at once. */
static inline void gm_pipeline_free_begin(struct gm_scope *scope, uint64_t key) {
    struct gm_registry *registry = gm_registry_shared();
    scope->known = registry && gm_registry_take(registry, key, &scope->block);
    if (GM_UNLIKELY(gm_trace_on))
        scope->sequence = gm_trace_sequence();
}
void gm_pipeline_free_end(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_status status);

/* An event that is neither: export, peer, capture, context ... `key` is written as address. */
void gm_pipeline_note(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_status status);

/* The context is about to be reset with all its memory: what would outlive it is given back now. The context is
 * current. */
void gm_pipeline_context_ending(uint64_t context_id);
/* The context is about to end, and can still be entered: what is kept for it is given back. */
void gm_pipeline_empty_context(uint64_t context_id);
/* The context's memory is gone: its blocks leave the registry with a `release` event each, resources forget it. */
void gm_pipeline_context_destroyed(uint64_t context_id);
/* Another process, a network card or the driver itself may remember the block at `base` by its address. */
void gm_pipeline_pin(uint64_t base);
/* Gives memory that resources keep back to the driver, until `bytes` are free or nothing is left; returns bytes given
 * back. May wait for the GPU. For calls that the driver refused for lack of memory, and for gpumem_trim. */
size_t gm_pipeline_trim(size_t bytes);
/* True when the program freed the block at `address` before and it is only kept: a second free is the program's
 * mistake. */
bool gm_pipeline_keeps(uint64_t address);
/* Bytes of a device that trim would give back without waiting for the program's work. */
size_t gm_pipeline_releasable(int device);
void gm_pipeline_capture(int change);
/* The device has a context from now on: what is alive on other devices is opened to it, for copies between them. */
void gm_pipeline_open_to(int device);

/* The policy in force, NULL before setup. */
const struct gm_policy *gm_pipeline_policy(void);
void gm_pipeline_after_fork(void);

#endif
