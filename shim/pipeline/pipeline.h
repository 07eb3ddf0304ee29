/* The pipeline that every call passes. An allocation: hook -> request -> policy -> resource -> registry -> counters
 * -> trace. A free takes the same steps in reverse.
 *
 * A hook fills a scope, calls one of these functions, and encodes the result. Many threads may call them at once.
 * None holds a lock during a call of the driver. One order keeps the registry correct: a block leaves the registry
 * before it is freed, and enters it after it was obtained. Otherwise a reused address would belong to two blocks. */
#ifndef GM_PIPELINE_H
#define GM_PIPELINE_H

#include "shim/accounts/stats.h"
#include "shim/resource/registry.h"
#include "shim/base/observers.h"
#include "shim/resource/resource.h"
#include "shim/trace/writer.h"

/* One call of the program while it passes the pipeline. */
struct gm_scope {
    struct gm_request request;   /* filled by the hook (gm_scope_begin and directly) */
    struct gm_block block;       /* allocation: the new block; free: the block to free */
    uintptr_t caller, frame;     /* allocation: of the hook, as gm_site_find takes them; 0: unknown */
    uint64_t begin;              /* start in clock ticks, 0 = not timed */
    uint64_t begin_ns, spent_ns; /* if timed: the start, 0 while the call runs, and then what it took */
    uint64_t sequence;           /* of the event; 0: the call is not recorded */
    size_t charged;              /* bytes counted against GPUMEM_LIMIT before the allocation */
    bool known; /* free: the block was in the registry and has been removed; mapped memory, handle: it is kept memory */
    bool kept;  /* free: gpumem keeps the block for reuse */
    struct gm_block_record *record; /* free: of gm_keeper, claimed, still in the registry; else NULL */
};

struct gm_pipeline_setup {
    const struct gm_policy *policy;
    struct gm_resource *root; /* serves movable calls */
    bool timed;               /* measure the time of calls even without a trace */
    /* Synchronises for a free by cuMemFree as GPUMEM_FREE says, before the block's owner frees it; sets
     * gm_free_request.settled. An error is the error of the free, and the block stays live. NULL: frees do not
     * synchronise. */
    gm_status (*synchronise)(const struct gm_block *block, bool *settled);
    bool (*grows)(
        const struct gm_request *request); /* the block shall be of GM_KIND_VMM because it may grow; NULL: none */
    /* Called for a free by cuMemFree. `block` is NULL where the address is unknown. True: a page handover already
     * destroyed the block, so there is nothing to free. NULL: there are no page handovers. */
    bool (*handed_over)(uint64_t address, const struct gm_block *block);
    /* The program allocated (+) or freed (-) bytes of managed memory by its own call. NULL: they are not counted. */
    void (*program_managed)(int64_t bytes);
    bool user_named; /* the user named the policy: dropped soft promises are written to the trace */
    uint32_t wants;  /* bits of enum gm_want of the policy */
    /* Applies advice (bits of enum gm_advice) to a new managed block. Marks a block whose memory outlives it, so
     * that its free withdraws the advice. NULL: advice is dropped. */
    void (*advise)(const struct gm_request *request, uint32_t advice, struct gm_block *block);
};
/* Called once before the first call of the pipeline. Not thread-safe. */
void gm_pipeline_setup(const struct gm_pipeline_setup *setup);

GM_INTERNAL extern bool gm_pipeline_timed;                   /* the time of calls is measured even without a trace */
GM_INTERNAL extern const struct gm_request gm_request_blank; /* copied into each scope, because compilers clear a struct
                                                                of this size by a slow string instruction */
/* The trace begins, or goes on after a pause (shim/trace/recorded.h): writes the live blocks that it does not hold, and
 * how much is kept. gm_trace_allocates() holds already. */
GM_INTERNAL void gm_pipeline_record_live(void);
/* Calls are observed from now on, for a trace or call sites, or not any more: before gm_trace_on is set. When it
 * returns with true, no thread is in the fast case of a call (fast.h). */
GM_INTERNAL void gm_pipeline_observe(bool observes);
/* The same for good, because of GM_OBSERVED_BLOCKS. */
GM_INTERNAL void gm_pipeline_observe_blocks(void);
/* Requests may be spared (the event request_spared): no free block serves them, but the server of GM_KIND_NATIVE. */
GM_INTERNAL extern bool gm_pipeline_spares;
/* The event of each free that has begun is written. Threads without a shard of their own are not seen. */
GM_INTERNAL bool gm_pipeline_wrote_frees(void);
/* Starts a scope with an empty request and the time. `site` is 0 without a trace. An allocation or free fills
 * `block`. */
static inline void gm_scope_begin_at(struct gm_scope *scope, enum gm_call call, size_t size, uint32_t site,
                                     uint64_t begin) {
    scope->begin = begin;
    scope->begin_ns = 0;
    scope->sequence = 0;
    scope->known = scope->kept = false;
    scope->record = NULL;
    scope->charged = 0;
    scope->caller = 0;
    scope->block.reason = GM_REASON_NONE;
    scope->block.charged = 0;
    scope->request = gm_request_blank;
    scope->request.call = call;
    scope->request.size = size;
    scope->request.site = site;
}
/* The time in ticks. A request that the trace begin or end is served first. */
GM_INTERNAL uint64_t gm_pipeline_timed_begin(void);
static inline void gm_scope_begin(struct gm_scope *scope, enum gm_call call, size_t size, uint32_t site) {
    bool timed = GM_UNLIKELY(gm_trace_is_on() || gm_pipeline_timed || gm_stats_watched());
    gm_scope_begin_at(scope, call, size, site, timed ? gm_pipeline_timed_begin() : 0);
}

/* Whether the block that this event of an allocation describes is still alive. */
bool gm_pipeline_is_live(const struct gm_event *event);

/* A movable call: asks the policy, allocates and records. scope->block is what the program gets. Errors: those of
 * the native call or of the resource. */
gm_status gm_pipeline_alloc(struct gm_scope *scope);

/* Before the true call of an allocation that is never moved: counts the request's bytes on its device against
 * GPUMEM_LIMIT. gm_pipeline_saw_alloc must follow. False: the limit has no room, and the hook must return out of
 * memory. `may_exceed`: the bytes are counted in any case, for memory that may natively exceed the device. */
bool gm_pipeline_charge(struct gm_scope *scope, bool may_exceed);

/* After the true call of an allocation that is never moved; `status` is its result. Success: enters the block of
 * `kind` into the registry and writes its event. `made` is its address or handle. The program's own call will free it.
 * Failure: writes the matching *_fail event. */
void gm_pipeline_saw_alloc(struct gm_scope *scope, enum gm_kind kind, uint64_t made, size_t reserved, gm_status status);

/* The same for cuMemMap. Memory of a handle that the registry has becomes a live block (GM_KIND_MAPPED), as far as
 * it is not mapped yet. A mapping of other memory is address space. */
void gm_pipeline_saw_map(struct gm_scope *scope, uint64_t address, uint64_t handle, gm_status status);

/* A resource of the program (gpumem_resource.h) allocated scope->block, or failed with `status`. Its free is
 * gm_pipeline_free_begin, the free by the block's owner, and gm_pipeline_free_end. */
void gm_pipeline_made(struct gm_scope *scope, gm_status status);
/* The stack of the program learns of contexts, captures, devices, forks and trims, as pipeline.root does, until
 * gm_pipeline_unwatch. False: 1024 stacks are watched already. */
bool gm_pipeline_watch(struct gm_resource *top);
void gm_pipeline_unwatch(struct gm_resource *top);
/* One more (wrap) or one fewer (unwrap) stack of the program wraps this one; *users counts them. It is watched only
 * while none does: a stack hands on what it learns. */
GM_INTERNAL void gm_pipeline_wrap(struct gm_resource *top, unsigned *users);
GM_INTERNAL void gm_pipeline_unwrap(struct gm_resource *top, unsigned *users);
/* The watched stacks write to the log what they counted. */
void gm_pipeline_report(void);

/* The program's own call, for a block that no resource of gpumem owns. */
typedef gm_status gm_native_free(const struct gm_scope *scope, uint64_t key);

/* A free: removes the block from the registry, lets the right side free it, and records the result. That side is the
 * page handover if the block took part in one, else the block's owner, else `native`. A second free of a block that
 * is now a free block fails as it does natively (GM_INVALID_VALUE). After a failed free the block is in the registry
 * again. Errors: those of the owner or of `native`. */
gm_status gm_pipeline_free(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_native_free *native);

/* Numbers the event of the free, if there will be one. */
GM_INTERNAL void gm_pipeline_record_free(struct gm_scope *scope);
/* The first and the last step of gm_pipeline_free, for a call that frees several blocks at once. */
void gm_pipeline_free_begin(struct gm_scope *scope, uint64_t key);
void gm_pipeline_free_end(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_status status);

/* Writes an event that is neither an allocation nor a free: export, peer access, capture, context ... `key` is
 * written as the address. */
void gm_pipeline_note(struct gm_scope *scope, enum gm_action action, uint64_t key, gm_status status);

/* A copy from host memory to a device. */
struct gm_host_copy {
    uint64_t from, to; /* addresses; `to` of an array: its handle */
    size_t bytes;
    size_t span; /* bytes from the first to the last one written, gaps between rows included */
    bool to_array;
    uint64_t contents;   /* hash of the bytes ... */
    gm_status hashed;    /* ... if this is GM_OK */
    uint64_t hashing_ns; /* time spent to compute it */
    uint64_t spent_ns;   /* time of the call */
};
/* Writes the two events of a copy, after the true call; `status` is its result. */
void gm_pipeline_copied(struct gm_scope *scope, const struct gm_host_copy *copy, gm_status status);

/* The context is about to be reset with all its memory. Releases the memory that would outlive the context. The
 * context is current. */
void gm_pipeline_context_ending(uint64_t context_id, int device);
/* A green context of the device is about to be destroyed: live blocks that outlive their context belong to the primary
 * one from now on. */
void gm_pipeline_context_moves(uint64_t context_id, int device);
/* The context is about to be destroyed and can still be made current. Releases its free blocks. */
void gm_pipeline_empty_context(uint64_t context_id);
/* The context was destroyed with its memory. Its blocks leave the registry with a `release` event each, and the
 * resources drop what they know of the context. */
void gm_pipeline_context_destroyed(uint64_t context_id);
/* Another process, a network card or the driver may identify the block at `base` by its address. Its memory must not
 * become another block. */
void gm_pipeline_pin(uint64_t base);
/* Releases free blocks until `bytes` are released or no free block remains. Returns the bytes released. May wait for
 * the GPU. Used by calls that the driver refused for lack of memory, and by gpumem_trim; the trace says for which
 * reason. With GM_REASON_OUT_OF_MEMORY other processes are asked, too (shim/accounts/loans.h). */
size_t gm_pipeline_trim(size_t bytes, enum gm_reason reason);
/* Releases free blocks of all contexts, from any thread, as far as this needs no wait. Returns the bytes released. */
size_t gm_pipeline_lend(size_t bytes, enum gm_reason reason);
/* True when `address` is a free block: the program freed it before, so a second free is the program's mistake. */
bool gm_pipeline_is_free(uint64_t address);
/* Bytes of a device that a trim would release without waiting for the program's work. */
size_t gm_pipeline_releasable(int device);
void gm_pipeline_capture(int change);
/* The device now has a context. Live blocks of other devices become accessible to it, for copies between devices. */
void gm_pipeline_open_to(int device);

/* Adds the bytes that gpumem holds on a device and cannot give back now, by reason (enum gm_reason). */
void gm_pipeline_held(int device, uint64_t bytes[GM_REASON_COUNT]);
/* The policy in force, NULL before setup. */
const struct gm_policy *gm_pipeline_policy(void);
void gm_pipeline_after_fork(void);

#endif
