/* Contexts come and go; their memory goes with them. */
#include "shim/hook/hook.h"

static CUresult created(struct gm_scope *scope, CUcontext *context, CUresult result) {
    gm_pipeline_note(scope, GM_ACT_CONTEXT, result || !context ? 0 : (uint64_t)(uintptr_t)*context, result);
    return result;
}

HOOK(cuCtxCreate_v2, CUcontext *context, unsigned flags, CUdevice device) {
    struct gm_scope scope;
    ENTER(cuCtxCreate_v2, context, flags, device);
    BEGIN(&scope, GM_CALL_NONE, 0);
    LEAVE(created(&scope, context, gm_true.cuCtxCreate_v2(context, flags, device)));
}

HOOK(cuCtxCreate_v3, CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned flags, CUdevice device) {
    struct gm_scope scope;
    ENTER(cuCtxCreate_v3, context, affinity, count, flags, device);
    BEGIN(&scope, GM_CALL_NONE, 0);
    LEAVE(created(&scope, context, gm_true.cuCtxCreate_v3(context, affinity, count, flags, device)));
}

HOOK(cuCtxCreate_v4, CUcontext *context, CUctxCreateParams *parameters, unsigned flags, CUdevice device) {
    struct gm_scope scope;
    ENTER(cuCtxCreate_v4, context, parameters, flags, device);
    BEGIN(&scope, GM_CALL_NONE, 0);
    LEAVE(created(&scope, context, gm_true.cuCtxCreate_v4(context, parameters, flags, device)));
}

static void gone(struct gm_scope *scope, CUcontext context, CUresult result) {
    uint64_t id;
    if (result == CUDA_SUCCESS && gm_context_end(context, &id))
        gm_pipeline_context_gone(id);
    gm_pipeline_note(scope, GM_ACT_CONTEXT_GONE, (uint64_t)(uintptr_t)context, result);
}

/* A context ends with all its memory, also what our pools hold for the program. */
static void empty_pools(CUcontext context) {
    struct gm_context seen;
    CUcontext popped;
    if (!context || !gm_context_find(context, &seen) || gm_drv.ctx_push(context) != CUDA_SUCCESS)
        return;
    gm_pipeline_context_ending(seen.id);
    gm_drv.ctx_pop(&popped);
}

static bool is_primary(CUcontext context) {
    struct gm_context seen;
    return gm_context_find(context, &seen) && gm_context_primary(seen.device) == context;
}

/* Holds of a primary context that came through a watched door. */
static int holds[64];

static void count_hold(CUdevice device, int change) {
    if (device >= 0 && device < 64)
        __atomic_add_fetch(&holds[device], change, __ATOMIC_RELAXED);
}

/* This release is the last one as far as is known: what is only kept goes back. Blocks of the program stay, in case it is not. */
static void give_kept_back(CUdevice device, CUcontext context) {
    CUcontext popped;
    struct gm_context seen;
    if (device < 0 || device >= 64 || __atomic_load_n(&holds[device], __ATOMIC_RELAXED) != 1 || !context ||
        !gm_context_find(context, &seen) || gm_drv.ctx_push(context) != CUDA_SUCCESS)
        return;
    gm_pipeline_trim(SIZE_MAX);
    gm_drv.ctx_pop(&popped);
}

HOOK(cuCtxDestroy_v2, CUcontext context) {
    struct gm_scope scope;
    ENTER(cuCtxDestroy_v2, context);
    BEGIN(&scope, GM_CALL_CTX_DESTROY, 0);
    if (!is_primary(context)) /* of which the driver refuses it */
        empty_pools(context);
    CUresult result = gm_true.cuCtxDestroy_v2(context);
    gone(&scope, context, result);
    LEAVE(result);
}

HOOK(cuDevicePrimaryCtxRetain, CUcontext *context, CUdevice device) {
    ENTER(cuDevicePrimaryCtxRetain, context, device);
    CUresult result = gm_true.cuDevicePrimaryCtxRetain(context, device);
    if (result == CUDA_SUCCESS) {
        gm_context_note_primary(device, *context);
        count_hold(device, 1);
    }
    LEAVE(result);
}

/* A release ends the context only when it was the last one. */
static bool primary_is_active(CUdevice device) {
    unsigned flags;
    int active = 0;
    return gm_drv.primary_get_state(device, &flags, &active) != CUDA_SUCCESS || active;
}

static bool released_but_active(CUdevice device) {
    count_hold(device, -1);
    return primary_is_active(device);
}

#define PRIMARY_END(symbol, call, before, still_there)                                                       \
    HOOK(symbol, CUdevice device) {                                                                          \
        struct gm_scope scope;                                                                               \
        ENTER(symbol, device);                                                                               \
        BEGIN(&scope, call, 0);                                                                              \
        CUcontext context = gm_context_primary(device);                                                      \
        before;                                                                                              \
        CUresult result = gm_true.symbol(device);                                                            \
        if (result != CUDA_SUCCESS || !(still_there))                                                        \
            gone(&scope, context, result);                                                                   \
        LEAVE(result);                                                                                       \
    }
PRIMARY_END(cuDevicePrimaryCtxReset, GM_CALL_PRIMARY_RESET, empty_pools(context), false)
PRIMARY_END(cuDevicePrimaryCtxReset_v2, GM_CALL_PRIMARY_RESET, empty_pools(context), false)
PRIMARY_END(cuDevicePrimaryCtxRelease, GM_CALL_PRIMARY_RELEASE, give_kept_back(device, context), released_but_active(device))
PRIMARY_END(cuDevicePrimaryCtxRelease_v2, GM_CALL_PRIMARY_RELEASE, give_kept_back(device, context), released_but_active(device))
