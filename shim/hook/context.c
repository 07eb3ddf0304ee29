/* Hooks of contexts: creation, the primary context, green contexts and their end. A context's memory ends with it.
 * Free blocks are released before the context is destroyed. Live blocks leave the registry afterwards. */
#include "shim/driver/check_order.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/internal_stream.h"
#include "shim/driver/streams.h"
#include "shim/grow/handover.h"
#include "shim/hook/context.h"
#include "shim/hook/hook.h"
#include "shim/resource/reach.h"

/* Releases the free blocks of a device, which need not be the current one. */
static size_t trim_device(CUdevice device) {
    struct gm_context seen;
    CUcontext popped;
    if (!gm_context_on(device, &seen) || gm_drv.ctx_push(seen.handle) != CUDA_SUCCESS)
        return 0;
    size_t given = gm_pipeline_trim(SIZE_MAX, GM_REASON_OUT_OF_MEMORY);
    gm_drv.ctx_pop(&popped);
    return given;
}

/* WITH_TRIM for a device that is not current: a new context takes memory of its device. */
#define WITH_TRIM_OF(device, call)                                                   \
    ({                                                                               \
        CUresult outcome = (call);                                                   \
        if (GM_UNLIKELY(outcome == CUDA_ERROR_OUT_OF_MEMORY) && trim_device(device)) \
            outcome = (call);                                                        \
        outcome;                                                                     \
    })

void gm_hook_device_used(CUcontext context, CUdevice device) {
    bool pushed;
    if (GM_LIKELY(!gm_reach_note(device)) || gm_context_enter(context, &pushed))
        return;
    CUstreamCaptureMode mode = gm_capture_relax();
    gm_pipeline_open_to(device);
    gm_capture_unrelax(mode);
    gm_context_leave(pushed);
    gm_reach_opened(device);
}

/* A context was created. Its streams are known when the call came through an entry point that also observes
 * launches. */
static void note_created(CUcontext context) {
    gm_handover_context_created();
    if (gm_mine.entry_way == GM_ENTRY_SYMBOL || gm_mine.entry_way == GM_ENTRY_AUDIT) {
        gm_streams_doubt(GM_STREAMS_LINKED);
        gm_free_sync_note(GM_SYNC_LINKED);
    }
    gm_streams_context(context);
}

static CUresult created(struct gm_scope *scope, CUcontext *context, CUdevice device, CUresult result) {
    if (result == CUDA_SUCCESS && context) {
        note_created(*context);
        gm_hook_device_used(*context, device);
    }
    gm_pipeline_note(scope, GM_ACT_CONTEXT, result || !context ? 0 : (uint64_t)(uintptr_t)*context, result);
    return result;
}

HOOK(cuCtxCreate_v2, CUcontext *context, unsigned flags, CUdevice device) {
    struct gm_scope scope;
    ENTER(cuCtxCreate_v2, context, flags, device);
    BEGIN(&scope, GM_CALL_NONE, 0);
    LEAVE(created(&scope, context, device, WITH_TRIM_OF(device, gm_real.cuCtxCreate_v2(context, flags, device))));
}

HOOK(cuCtxCreate_v3, CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned flags, CUdevice device) {
    struct gm_scope scope;
    ENTER(cuCtxCreate_v3, context, affinity, count, flags, device);
    BEGIN(&scope, GM_CALL_NONE, 0);
    LEAVE(created(&scope, context, device,
                  WITH_TRIM_OF(device, gm_real.cuCtxCreate_v3(context, affinity, count, flags, device))));
}

HOOK(cuCtxCreate_v4, CUcontext *context, CUctxCreateParams *parameters, unsigned flags, CUdevice device) {
    struct gm_scope scope;
    ENTER(cuCtxCreate_v4, context, parameters, flags, device);
    BEGIN(&scope, GM_CALL_NONE, 0);
    LEAVE(created(&scope, context, device,
                  WITH_TRIM_OF(device, gm_real.cuCtxCreate_v4(context, parameters, flags, device))));
}

/* The context is about to be destroyed. From here on gpumem uses none of its objects. Returns the context's
 * generation, 0 when gpumem never saw it. */
static uint64_t begin_destroy(CUcontext context) {
    gm_capture_ending(NULL, context);
    return gm_context_ending(context);
}

static void not_destroyed(CUcontext context, uint64_t id) {
    gm_capture_destroyed(NULL, context, false);
    gm_context_stays(context, id);
}

static void destroyed(struct gm_scope *scope, CUcontext context, uint64_t id, CUresult result) {
    if (result == CUDA_SUCCESS) {
        gm_capture_destroyed(NULL, context, true);
        gm_streams_context_destroyed(context);
        if (gm_context_end(context, &id)) {
            gm_pipeline_context_destroyed(id);
            gm_free_sync_context_destroyed(id);
            gm_check_order_context_destroyed(context);
        }
    } else {
        not_destroyed(context, id);
    }
    gm_pipeline_note(scope, GM_ACT_CONTEXT_DESTROYED, (uint64_t)(uintptr_t)context, result);
}

/* A context ends with all its memory. Blocks of the program in gpumem's pools are released as well. */
static void release_pool_blocks(CUcontext context) {
    struct gm_context seen;
    CUcontext popped;
    if (!context || !gm_context_find(context, &seen) || gm_drv.ctx_push(context) != CUDA_SUCCESS)
        return;
    gm_pipeline_context_ending(seen.id, seen.device);
    gm_drv.ctx_pop(&popped);
}

static bool is_primary(CUcontext context) {
    struct gm_context seen;
    return gm_context_find(context, &seen) && gm_context_primary(seen.device) == context;
}

/* References to a primary context that were retained through an entry point of gpumem. */
static int references[64];

static void count_reference(CUdevice device, int change) {
    if (device >= 0 && device < 64)
        __atomic_add_fetch(&references[device], change, __ATOMIC_RELAXED);
}

/* Releases the free blocks when this release is the last one as far as gpumem knows. Live blocks stay, because it
 * may not be the last one. */
static void release_free_blocks(CUdevice device, CUcontext context) {
    CUcontext popped;
    struct gm_context seen;
    if (device < 0 || device >= 64 || __atomic_load_n(&references[device], __ATOMIC_RELAXED) != 1 || !context ||
        !gm_context_find(context, &seen) || gm_drv.ctx_push(context) != CUDA_SUCCESS)
        return;
    gm_pipeline_trim(SIZE_MAX, GM_REASON_CONTEXT_GONE);
    gm_drv.ctx_pop(&popped);
}

HOOK(cuCtxDestroy_v2, CUcontext context) {
    struct gm_scope scope;
    ENTER(cuCtxDestroy_v2, context);
    BEGIN(&scope, GM_CALL_CTX_DESTROY, 0);
    if (!is_primary(context)) /* the driver refuses to destroy a primary context */
        release_pool_blocks(context);
    uint64_t id = begin_destroy(context);
    CUresult result = gm_real.cuCtxDestroy_v2(context);
    destroyed(&scope, context, id, result);
    LEAVE(result);
}

/* A release destroys the context only when it is the last one. */
static bool primary_is_active(CUdevice device) {
    unsigned flags;
    int active = 0;
    return gm_drv.primary_get_state(device, &flags, &active) != CUDA_SUCCESS || active;
}

HOOK(cuDevicePrimaryCtxRetain, CUcontext *context, CUdevice device) {
    ENTER(cuDevicePrimaryCtxRetain, context, device);
    bool was_active = primary_is_active(device);
    CUresult result = WITH_TRIM_OF(device, gm_real.cuDevicePrimaryCtxRetain(context, device));
    if (result == CUDA_SUCCESS && !was_active)
        note_created(*context);
    if (result == CUDA_SUCCESS) {
        gm_context_note_primary(device, *context);
        gm_hook_device_used(*context, device);
        count_reference(device, 1);
    }
    LEAVE(result);
}

static bool released_but_active(CUdevice device) {
    count_reference(device, -1);
    return primary_is_active(device);
}

#define PRIMARY_END(symbol, call, before, still_there)  \
    HOOK(symbol, CUdevice device) {                     \
        struct gm_scope scope;                          \
        ENTER(symbol, device);                          \
        BEGIN(&scope, call, 0);                         \
        CUcontext context = gm_context_primary(device); \
        before;                                         \
        uint64_t id = begin_destroy(context);           \
        CUresult result = gm_real.symbol(device);       \
        if (result != CUDA_SUCCESS || !(still_there))   \
            destroyed(&scope, context, id, result);     \
        else                                            \
            not_destroyed(context, id);                 \
        LEAVE(result);                                  \
    }
PRIMARY_END(cuDevicePrimaryCtxReset, GM_CALL_PRIMARY_RESET, release_pool_blocks(context), false)
PRIMARY_END(cuDevicePrimaryCtxReset_v2, GM_CALL_PRIMARY_RESET, release_pool_blocks(context), false)
PRIMARY_END(cuDevicePrimaryCtxRelease, GM_CALL_PRIMARY_RELEASE, release_free_blocks(device, context),
            released_but_active(device))
PRIMARY_END(cuDevicePrimaryCtxRelease_v2, GM_CALL_PRIMARY_RELEASE, release_free_blocks(device, context),
            released_but_active(device))

/* ---- green contexts: each has a part of a device's multiprocessors and a context that is destroyed with it */

HOOK(cuGreenCtxCreate, CUgreenCtx *green, CUdevResourceDesc resources, CUdevice device, unsigned flags) {
    ENTER(cuGreenCtxCreate, green, resources, device, flags);
    gm_free_sync_note(GM_SYNC_GREEN);
    gm_streams_doubt(GM_STREAMS_GREEN);
    gm_handover_context_created();
    LEAVE(WITH_TRIM_OF(device, gm_real.cuGreenCtxCreate(green, resources, device, flags)));
}

/* The context of a green context. */
static CUcontext context_of(CUgreenCtx green) {
    CUcontext context = NULL;
    return gm_drv.ctx_from_green && gm_drv.ctx_from_green(&context, green) == CUDA_SUCCESS ? context : NULL;
}

/* The context was used before and has a generation of its own. */
static bool is_own(CUcontext context, struct gm_context *seen) {
    return gm_context_find(context, seen) && context != gm_context_primary(seen->device);
}

/* Memory that was allocated in a green context may belong to the primary context and stay. So the free blocks are
 * released first, while the context can be made current. The driver decides about the program's live blocks; gpumem
 * only removes them from the registry. */
HOOK(cuGreenCtxDestroy, CUgreenCtx green) {
    struct gm_scope scope;
    struct gm_context seen;
    ENTER(cuGreenCtxDestroy, green);
    BEGIN(&scope, GM_CALL_CTX_DESTROY, 0);
    CUcontext context = context_of(green);
    bool own = is_own(context, &seen);
    if (own)
        gm_pipeline_empty_context(seen.id);
    if (!own)
        gm_capture_ending(NULL, context);
    uint64_t id = own ? begin_destroy(context) : 0;
    CUresult result = gm_real.cuGreenCtxDestroy(green);
    if (own)
        destroyed(&scope, context, id, result);
    else
        gm_capture_destroyed(NULL, context, result == CUDA_SUCCESS);
    LEAVE(result);
}
