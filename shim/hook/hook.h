/* Everything that hooks share: the table of true functions, the macros that begin and end a hook, and calls that
 * retry after a trim.
 *
 * A hook is a function gm_hook_SYMBOL(parameters) { ENTER(...); BEGIN(...); ... LEAVE(result); }. It decodes the call,
 * passes it to the pipeline and encodes the result. It decides nothing. */
#ifndef GM_HOOK_H
#define GM_HOOK_H

#include "shim/base/base.h"
#include "shim/base/events.h"
#include "shim/pipeline/pipeline.h"
#include "shim/sites/site.h"
#include "shim/accounts/stats.h"
#include "shim/driver/driver.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/call.h"
#include "shim/driver/in_flight.h"
#include "shim/grow/handover.h"
#include "shim/pipeline/guard.h"
#include "shim/resource/guard_ranges.h"
#include "shim/suspend/suspend.h"
#include "shim/trace/writer.h"

#define GM_IF_HOOK(...) __VA_ARGS__
#define GM_IF_JUMP(...)

/* The driver's own functions of the hooked symbols. NULL where this driver has none. */
struct gm_real {
#define CALL(symbol, name, version, twin, how, ...) GM_IF_##how(__typeof__(&symbol) symbol;)
    GM_DRIVER_CALLS(CALL)
#undef CALL
};
GM_INTERNAL extern struct gm_real gm_real;

/* The hooks. Not in place of a call: a hook asks for its own caller. */
#define CALL(symbol, name, version, twin, how, ...) \
    GM_IF_##how(GM_INTERNAL __attribute__((noinline)) __typeof__(symbol) gm_hook_##symbol;)
GM_DRIVER_CALLS(CALL)
#undef CALL

/* How the program found a function. What it is linked with it needs not look up. */
enum gm_look_up { GM_BY_DLSYM, GM_BY_RESOLVER, GM_BY_AUDIT, GM_LOOK_UPS };

/* ---- begin and end of a hook: one call of the program is one event, also when the driver calls itself */
enum gm_pass {
    GM_PASS_HOOK,   /* run the hook; gm_hook_leave() at the end */
    GM_PASS_DRIVER, /* a call from inside another hook: make the driver's own call */
    GM_PASS_NONE,   /* no driver in this process */
};

/* For the coverage report: calls of each hooked symbol, and look-ups that were answered with an entry. */
GM_INTERNAL extern uint64_t gm_hook_calls[GM_CALL_ROWS];
GM_INTERNAL extern unsigned gm_look_ups[GM_LOOK_UPS];
GM_INTERNAL extern bool gm_hooks_active, gm_coverage_on;

/* What the table says of a row. The compiler knows the answers. */
static const struct gm_hook_facts {
    uint8_t role, meaning;
    bool twin, submits;
} gm_hook_facts[GM_CALL_ROWS] = {
#define CALL(symbol, name, version, twin, how, role, stream, meaning, ...) \
    {GM_ROLE_##role, GM_MEANING_##meaning, twin, GM_ROLE_##role == GM_ROLE_SUBMITS},
    GM_DRIVER_CALLS(CALL)
#undef CALL
};

/* Loading code may let kernels print, but promises no order of streams (guard_ranges.h). The first launch of a kernel
 * by CUDA's runtime makes such calls. */
static inline bool gm_hook_only_loads(enum gm_call_number number) {
    return number == GM_AT_cuLibraryGetKernel || number == GM_AT_cuLibraryGetModule ||
           number == GM_AT_cuLibraryLoadData || number == GM_AT_cuModuleLoadData ||
           number == GM_AT_cuModuleLoadDataEx || number == GM_AT_cuModuleLoadFatBinary;
}

/* What the row's role asks of a call while gm_watch is not zero (calls.h). A call of a resource that gpumem serves
 * decides itself. */
static GM_IN_PLACE void gm_hook_look(enum gm_call_number number) {
    enum gm_role role = (enum gm_role)gm_hook_facts[number].role;
    if (gm_hook_facts[number].submits && GM_UNLIKELY(gm_watch_has(GM_WATCH_SUSPENDS)))
        gm_submission_begin_hook();
    if (GM_UNLIKELY(gm_watch_has(GM_WATCH_HANDOVER)) &&
        gm_call_ends_handover(role, (enum gm_meaning)gm_hook_facts[number].meaning))
        gm_handover_driver_entered();
    if (gm_hook_facts[number].twin && GM_UNLIKELY(gm_watch_has(GM_WATCH_PER_THREAD)))
        gm_free_sync_per_thread();
    if (role == GM_ROLE_SUBMITS && GM_UNLIKELY(gm_in_flight_state() & GM_FLIGHT_OPEN))
        gm_free_sync_submit(false);
    if (role == GM_ROLE_NOTICES && GM_UNLIKELY(gm_in_flight_state()))
        gm_free_sync_notice();
    if (role != GM_ROLE_SUBMITS && role != GM_ROLE_BLIND && !gm_hook_only_loads(number))
        gm_guard_orders();
}

static inline enum gm_pass gm_hook_enter(enum gm_call_number number) {
    if (GM_UNLIKELY(!__atomic_load_n(&gm_hooks_active, __ATOMIC_ACQUIRE)) && !gm_hooks_ready())
        return gm_real.cuMemAlloc_v2 ? GM_PASS_DRIVER : GM_PASS_NONE;
    if (GM_UNLIKELY(gm_mine.depth > 0))
        return GM_PASS_DRIVER;
    gm_mine.depth = 1;
    gm_stats_count(&gm_stats_mine()->calls, 1);
    if (GM_UNLIKELY(gm_coverage_on))
        __atomic_add_fetch(&gm_hook_calls[number], 1, __ATOMIC_RELAXED);
    return GM_PASS_HOOK;
}

static inline void gm_hook_leave(void) {
    gm_submission_end_hook();
    gm_stats_settle();
    gm_mine.depth = 0;
}

/* (a, b) as a, b: macros that define whole hooks take parameters and arguments in brackets. */
#define LIST(...) __VA_ARGS__

/* First line of a hook, with the hook's own arguments. */
#define ENTER(symbol, ...)                                                                  \
    do {                                                                                    \
        enum gm_pass pass = gm_hook_enter(GM_AT_##symbol);                                  \
        if (GM_UNLIKELY(pass == GM_PASS_NONE))                                              \
            return CUDA_ERROR_NOT_INITIALIZED;                                              \
        if (GM_UNLIKELY(pass == GM_PASS_DRIVER || !gm_real.symbol)) {                       \
            if (pass == GM_PASS_HOOK)                                                       \
                gm_hook_leave();                                                            \
            return gm_real.symbol ? gm_real.symbol(__VA_ARGS__) : CUDA_ERROR_NOT_SUPPORTED; \
        }                                                                                   \
        gm_hook_look(GM_AT_##symbol);                                                       \
    } while (0)

#define LEAVE(result)                \
    do {                             \
        CUresult leaving = (result); \
        gm_hook_leave();             \
        return leaving;              \
    } while (0)

/* Begin a scope with the hook's call site. BEGIN also fills in the current context. BEGIN_FREE does not: a free
 * belongs to its block's context, and policies do not ask for the call site of a free. */
#define BEGIN_FREE_AT(scope, call, size, found)                              \
    do { /* the trace may begin here */                                      \
        gm_scope_begin(scope, call, size, 0);                                \
        (scope)->request.site = GM_UNLIKELY(gm_trace_is_on()) ? (found) : 0; \
    } while (0)
#define BEGIN_FREE(scope, call, size) BEGIN_FREE_AT(scope, call, size, GM_SITE_HERE())
/* Of memory: what is said of a guarded block, or of a wrong free, names the call that freed it. */
#define BEGIN_FREE_OF(scope, call, address, found)                                                           \
    do {                                                                                                     \
        gm_scope_begin(scope, call, 0, 0);                                                                   \
        bool guarded =                                                                                       \
            GM_UNLIKELY(gm_watch_has(GM_WATCH_GUARDS)) && (gm_guard_every == 1 || gm_guard_covers(address)); \
        (scope)->request.site = GM_UNLIKELY(gm_trace_is_on()) || GM_UNLIKELY(guarded) ? (found) : 0;         \
    } while (0)
#define BEGIN_AT(scope, call, size, ...)     \
    gm_scope_begin(scope, call, size, 0);    \
    gm_hook_called_from(scope, __VA_ARGS__); \
    gm_hook_context(scope)
#define BEGIN(scope, call, size) BEGIN_AT(scope, call, size, GM_CALLER_HERE())
static inline void gm_hook_called_from(struct gm_scope *scope, uintptr_t caller, uintptr_t frame) {
    scope->caller = caller;
    scope->frame = frame;
    if (GM_UNLIKELY(gm_sites_are_on()) || (gm_guard_is_on() && gm_guard_is_due()))
        scope->request.site = gm_site_find(caller, frame);
}
void gm_hook_context(struct gm_scope *scope);
/* Fills in the stream, and whether it is capturing. */
GM_INTERNAL void gm_hook_on_stream(struct gm_request *request, CUstream stream, bool per_thread);
/* Makes a call, and once more if the device is out of memory and `released` is true then. The result is that of the
 * last call. */
#define TWICE_IF(call, released)                                            \
    ({                                                                      \
        CUresult outcome = (call);                                          \
        if (GM_UNLIKELY(outcome == CUDA_ERROR_OUT_OF_MEMORY) && (released)) \
            outcome = (call);                                               \
        outcome;                                                            \
    })
/* Makes a call of a hook that can need device memory: between the two, free blocks are released. */
#define WITH_TRIM(call) TWICE_IF(call, gm_pipeline_trim(SIZE_MAX, GM_REASON_OUT_OF_MEMORY) >= 1)

/* The same for memory of a device that need not be the current one. */
#define WITH_TRIM_OF(device, call) TWICE_IF(call, gm_hook_trim(device))
bool gm_hook_trim(CUdevice device);

/* The same, within GPUMEM_LIMIT, for a call that is never moved. */
#define WITHIN_LIMIT(scope, call) \
    (gm_pipeline_charge(scope, false) ? WITH_TRIM_OF((scope)->request.device, call) : CUDA_ERROR_OUT_OF_MEMORY)

/* ---- whole hooks. A row begins with the symbol; ctags shows it as gm_hook_ and the symbol (.ctags.d). */

/* A call that is handed on. `before`: what is done first. `how`: a macro that makes the call, such as WITH_TRIM. */
#define PASSES(symbol, parameters, arguments, before, how) \
    CUresult CUDAAPI gm_hook_##symbol(LIST parameters) {   \
        ENTER(symbol, LIST arguments);                     \
        before;                                            \
        LEAVE(how(gm_real.symbol arguments));              \
    }
#define NOTHING (void)0

/* A call that lets others see memory: recorded, and frees wait from now on. `key`: of the memory in the trace. */
#define EXPORTS(symbol, parameters, arguments, gm_call, bytes, reason, before, how, key) \
    CUresult CUDAAPI gm_hook_##symbol(LIST parameters) {                                 \
        struct gm_scope scope;                                                           \
        ENTER(symbol, LIST arguments);                                                   \
        BEGIN(&scope, gm_call, bytes);                                                   \
        gm_free_sync_note(reason);                                                       \
        before;                                                                          \
        CUresult result = how(gm_real.symbol arguments);                                 \
        gm_pipeline_note(&scope, GM_ACT_EXPORT, key, result);                            \
        LEAVE(result);                                                                   \
    }

/* A call that makes memory, recorded. `made`: its address or handle. `sees`: why later frees wait, GM_SYNC_NO if they
 * do not. */
#define MAKES(symbol, parameters, arguments, gm_call, bytes, kind, made, sees, how)               \
    CUresult CUDAAPI gm_hook_##symbol(LIST parameters) {                                          \
        struct gm_scope scope;                                                                    \
        ENTER(symbol, LIST arguments);                                                            \
        BEGIN(&scope, gm_call, bytes);                                                            \
        if ((sees) != GM_SYNC_NO)                                                                 \
            gm_free_sync_note(sees);                                                              \
        CUresult result = how(gm_real.symbol arguments);                                          \
        gm_pipeline_saw_alloc(&scope, kind, result ? 0 : (uint64_t)(uintptr_t)(made), 0, result); \
        LEAVE(result);                                                                            \
    }
#define MADE(call)              (call)
#define MADE_WITHIN_LIMIT(call) WITHIN_LIMIT(&scope, call)

/* A recorded call that ends what has this address or handle. `null_is_free`: for NULL it succeeds and frees nothing. */
#define FREES(symbol, type, gm_call, null_is_free)                                 \
    static gm_status native_##symbol(const struct gm_scope *scope, uint64_t key) { \
        return (gm_status)gm_real.symbol((type)(uintptr_t)gm_key_value(key));      \
    }                                                                              \
    CUresult CUDAAPI gm_hook_##symbol(type freed) {                                \
        struct gm_scope scope;                                                     \
        uint64_t key = gm_key(gm_call_space(gm_call), (uint64_t)(uintptr_t)freed); \
        ENTER(symbol, freed);                                                      \
        if ((null_is_free) && !freed)                                              \
            LEAVE(gm_real.symbol(freed));                                          \
        BEGIN_FREE_OF(&scope, gm_call, key, GM_SITE_HERE());                       \
        LEAVE(gm_pipeline_free(&scope, GM_ACT_FREE, key, native_##symbol));        \
    }

/* ---- what a hook needs of another one's file */

/* The block that contains `address` is identified by its address outside of gpumem (exported, tagged, advised). Its
 * memory must not become another block (advice.c). */
void gm_hook_pin(CUdeviceptr address);
/* Records a capture that ended without cuStreamEndCapture; as the event capture_lost says (capture.c). */
void gm_hook_capture_lost(const struct gm_capture *capture);
/* Called when a device has a context. On return, live blocks of other devices are accessible to the device (context.c).
 */
void gm_hook_device_used(CUcontext context, CUdevice device);
/* Bit d: the program set the current pool of device d (pool.c). */
GM_INTERNAL extern uint64_t gm_hook_pools_set;
/* True when this cuMemAllocAsync allocates from such a pool. Call only while a bit is set. */
bool gm_hook_takes_from_set_pool(const struct gm_request *request);

/* Decides whether the driver or gpumem answers a query about an address (freed.c). */
enum gm_known {
    GM_KNOWN_TO_DRIVER, /* the driver's answer is right */
    GM_KNOWN_BLOCK,     /* *block contains the address; its size is the requested one, its memory may be larger */
    /* The driver knows the address but natively would not: the program freed that memory, or requested less of it. */
    GM_KNOWN_FREED,
};
enum gm_known gm_hook_known(CUdeviceptr address, struct gm_block *block);
bool gm_hook_is_freed(CUdeviceptr address);
/* The driver knows nothing of memory that is away (GPUMEM_SUSPEND): the hook waits until it is back, as a call that
 * submits work. */
void gm_hook_needs(CUdeviceptr address);

#endif
