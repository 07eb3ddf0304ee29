/* What every hook begins and ends with, and what all hooks share. */
#ifndef GM_HOOK_H
#define GM_HOOK_H

#include "shim/base/base.h"
#include "shim/core/pipeline.h"
#include "shim/core/site.h"
#include "shim/base/stats.h"
#include "shim/driver/driver.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/streams.h"
#include "shim/grow/trampolines.h"
#include "shim/hook/rows.h"
#include "shim/trace/writer.h"

enum gm_row {
#define ROW(symbol, name, version, twin) GM_ROW_##symbol,
    GM_HOOK_ROWS(ROW)
#undef ROW
        GM_ROW_COUNT
};

/* True functions of the hooked symbols; NULL where this driver has none. */
struct gm_real {
#define ROW(symbol, name, version, twin) __typeof__(&symbol) symbol;
    GM_HOOK_ROWS(ROW)
#undef ROW
};
GM_INTERNAL extern struct gm_real gm_real;

enum gm_entry_way { GM_ENTRY_SYMBOL, GM_ENTRY_DLSYM, GM_ENTRY_RESOLVER, GM_ENTRY_AUDIT, GM_ENTRY_WAYS };

/* Makes hooks work: finds the driver's functions and starts the process's pipeline. False while no driver is loaded, in
 * the middle of the start, and when gpumem stepped aside. */
bool gm_hooks_ready(void);

/* ---- what every hook begins and ends with: one program call is one event, however deep it goes */
enum gm_pass {
    GM_PASS_HOOK,   /* go on; gm_hook_leave() at the end */
    GM_PASS_DRIVER, /* a call from inside another hook: the true function as it is */
    GM_PASS_NONE,   /* no driver in this process */
};

/* Calls of each hooked symbol (coverage report). */
extern uint64_t gm_row_calls[GM_ROW_COUNT];
GM_INTERNAL extern bool gm_hooks_active, gm_coverage_on;
GM_INTERNAL extern __thread int gm_entry_way, gm_depth __attribute__((tls_model("initial-exec")));

/* A hooked call enters the driver while gm_trampolines_active is set. */
GM_INTERNAL void gm_hook_entered(enum gm_row row);

/* Is it the variant for programs built with per-thread default streams? Known when compiling. */
static inline bool gm_row_is_twin(enum gm_row row) {
    switch (row) {
#define ROW(symbol, name, version, twin) \
    case GM_ROW_##symbol: return twin;
        GM_HOOK_ROWS(ROW)
#undef ROW
    default: return false;
    }
}

static inline enum gm_pass gm_hook_enter(enum gm_row row) {
    if (GM_UNLIKELY(!__atomic_load_n(&gm_hooks_active, __ATOMIC_ACQUIRE)) && !gm_hooks_ready())
        return gm_real.cuMemAlloc_v2 ? GM_PASS_DRIVER : GM_PASS_NONE;
    if (GM_UNLIKELY(gm_depth > 0))
        return GM_PASS_DRIVER;
    if (GM_UNLIKELY(__atomic_load_n(&gm_trampolines_active, __ATOMIC_RELAXED)))
        gm_hook_entered(row);
    if (gm_row_is_twin(row) && GM_UNLIKELY(!gm_streams_per_thread))
        gm_free_sync_per_thread();
    gm_depth = 1;
    uint64_t *calls = &gm_stats_mine()->entries[gm_entry_way];
    __atomic_store_n(calls, *calls + 1, __ATOMIC_RELAXED);
    if (GM_UNLIKELY(gm_coverage_on))
        __atomic_add_fetch(&gm_row_calls[row], 1, __ATOMIC_RELAXED);
    return GM_PASS_HOOK;
}

static inline void gm_hook_leave(void) {
    gm_stats_settle();
    gm_depth = 0;
}

/* Defines a hook: HOOK(symbol, parameters) { ... } */
#define HOOK(symbol, ...)                                       \
    GM_INTERNAL CUresult CUDAAPI gm_hook_##symbol(__VA_ARGS__); \
    __attribute__((noinline)) CUresult CUDAAPI gm_hook_##symbol(__VA_ARGS__)

/* First line of a hook; the arguments are its own. */
#define ENTER(symbol, ...)                                                                  \
    do {                                                                                    \
        enum gm_pass pass = gm_hook_enter(GM_ROW_##symbol);                                 \
        if (GM_UNLIKELY(pass == GM_PASS_NONE))                                              \
            return CUDA_ERROR_NOT_INITIALIZED;                                              \
        if (GM_UNLIKELY(pass == GM_PASS_DRIVER || !gm_real.symbol)) {                       \
            if (pass == GM_PASS_HOOK)                                                       \
                gm_hook_leave();                                                            \
            return gm_real.symbol ? gm_real.symbol(__VA_ARGS__) : CUDA_ERROR_NOT_SUPPORTED; \
        }                                                                                   \
    } while (0)

#define LEAVE(result)                \
    do {                             \
        CUresult leaving = (result); \
        gm_hook_leave();             \
        return leaving;              \
    } while (0)

/* Begins a scope with the hook's call site; BEGIN also with the current context. A free belongs to its block's context,
 * and a policy does not ask where it came from. */
#define BEGIN_FREE(scope, call, size) gm_scope_begin(scope, call, size, GM_UNLIKELY(gm_trace_on) ? GM_SITE_HERE() : 0)
#define BEGIN(scope, call, size)                                                      \
    gm_scope_begin(scope, call, size, GM_UNLIKELY(gm_sites_on) ? GM_SITE_HERE() : 0); \
    gm_hook_context(scope)
void gm_hook_context(struct gm_scope *scope);
/* Makes a call that needs device memory; when the driver has none left, what resources keep is given back and the call
 * made once more. Fails as the call does. */
#define WITH_TRIM(call)                                                                          \
    ({                                                                                           \
        CUresult outcome = (call);                                                               \
        if (GM_UNLIKELY(outcome == CUDA_ERROR_OUT_OF_MEMORY) && gm_pipeline_trim(SIZE_MAX) >= 1) \
            outcome = (call);                                                                    \
        outcome;                                                                                 \
    })

/* The same for a call that is never moved, within GPUMEM_LIMIT. */
#define WITHIN_LIMIT(scope, call) (gm_pipeline_charge(scope, false) ? WITH_TRIM(call) : CUDA_ERROR_OUT_OF_MEMORY)

#endif
