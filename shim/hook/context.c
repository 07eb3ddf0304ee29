/* Hooks of contexts: creation, the primary context, green contexts and their end. A context's memory ends with it.
 * Free blocks are released before the context is destroyed. Live blocks leave the registry afterwards.
 *
 * The driver may give the handle of a destroyed context to a new one before the hook of the destroying call goes on.
 * Whichever of the two hooks comes first forgets the old context. The other one then changes nothing. */
#include "shim/base/file.h"
#include "shim/driver/check_order.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/internal_stream.h"
#include "shim/driver/streams.h"
#include "shim/grow/handover.h"
#include "shim/hook/hook.h"
#include "shim/resource/reach.h"

enum { DEVICES = 64 };

bool gm_hook_trim(CUdevice device) {
    struct gm_context seen;
    if (gm_context_current(&seen) && seen.device == device)
        return gm_pipeline_trim(SIZE_MAX, GM_REASON_OUT_OF_MEMORY) >= 1;
    if (!gm_context_on(device, &seen) || gm_drv.ctx_push(seen.handle) != CUDA_SUCCESS)
        return false;
    size_t released = gm_pipeline_trim(SIZE_MAX, GM_REASON_OUT_OF_MEMORY);
    gm_context_leave(true);
    return released >= 1;
}

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

/* ---- contexts that end */

/* A running call that may destroy a context. */
struct ending {
    CUcontext context;
    uint64_t id;     /* 0: it was not seen */
    uint16_t number; /* in the trace; 0: it was not seen */
    int entry;       /* in `endings`; -1: no room */
};

enum { ENDINGS = 64 };
static struct {
    CUcontext context; /* NULL: unused */
    bool replaced;     /* a new context has the handle, and the old one is forgotten */
} endings[ENDINGS];
GM_ZERO_IN_CHILD(endings);
GM_LOCK(endings_lock);

static int add_ending(CUcontext context) {
    int entry = -1;
    gm_spin_lock(&endings_lock);
    for (int i = 0; i < ENDINGS && context && entry < 0; i++)
        if (!endings[i].context)
            entry = i;
    if (entry >= 0) {
        endings[entry].context = context;
        endings[entry].replaced = false;
    }
    gm_spin_unlock(&endings_lock);
    return entry;
}

/* The lock is held. True: the context was replaced. */
static bool remove_ending(const struct ending *ending) {
    if (ending->entry < 0)
        return false;
    endings[ending->entry].context = NULL;
    return endings[ending->entry].replaced;
}

/* Removes what is known by the handle, which may be NULL. Returns the id of the context, 0 when it was not seen. The
 * lock is held. */
static uint64_t forget_handle(CUcontext context) {
    uint64_t id = 0;
    if (!context)
        return 0;
    gm_streams_context_destroyed(context);
    gm_check_order_context_destroyed(context);
    gm_context_end(context, &id);
    gm_free_sync_context_destroyed(context, id);
    return id;
}

static void forget_id(uint64_t id) {
    if (id)
        gm_pipeline_context_destroyed(id);
}

/* The driver gave this handle to a new context. NULL: which one is not known. */
static void replace_ending(CUcontext context) {
    bool replaced = false;
    gm_spin_lock(&endings_lock);
    for (int i = 0; i < ENDINGS && context; i++)
        if (endings[i].context == context && !endings[i].replaced)
            replaced = endings[i].replaced = true;
    uint64_t id = replaced ? forget_handle(context) : 0;
    gm_spin_unlock(&endings_lock);
    forget_id(id);
}

/* The context is about to be destroyed. From here on gpumem uses none of its objects. */
static struct ending begin_destroy(CUcontext context) {
    struct ending ending = {.context = context, .entry = add_ending(context)};
    struct gm_context seen;
    if (gm_context_find(context, &seen))
        ending.number = seen.number;
    gm_capture_ending(NULL, context);
    ending.id = gm_context_ending(context);
    return ending;
}

static void not_destroyed(const struct ending *ending) {
    gm_capture_destroyed(NULL, ending->context, false);
    gm_context_stays(ending->context, ending->id);
    gm_spin_lock(&endings_lock);
    remove_ending(ending);
    gm_spin_unlock(&endings_lock);
}

static void destroyed(const struct ending *ending) {
    gm_capture_destroyed(NULL, ending->context, true);
    gm_spin_lock(&endings_lock);
    uint64_t id = remove_ending(ending) ? 0 : forget_handle(ending->context);
    gm_spin_unlock(&endings_lock);
    forget_id(id);
}

static void end_destroy(struct gm_scope *scope, const struct ending *ending, CUresult result) {
    (result == CUDA_SUCCESS ? destroyed : not_destroyed)(ending);
    scope->request.context_number = ending->number; /* another context may be current */
    gm_pipeline_note(scope, GM_ACT_CONTEXT_DESTROYED, (uint64_t)(uintptr_t)ending->context, result);
}

/* ---- contexts that are created */

static void note_created(CUcontext context) {
    replace_ending(context);
    gm_free_sync_context_made(context);
    gm_handover_context_created();
    gm_streams_context(context);
}

/* A call that creates a context. It may use the memory of the others, so nothing of them is in flight by then. */
#define MAKE(call) (gm_free_sync_context_making(), (call))

static CUresult created(struct gm_scope *scope, CUcontext *context, CUdevice device, CUresult result) {
    if (result == CUDA_SUCCESS && context) {
        note_created(*context);
        gm_hook_device_used(*context, device);
    } else {
        gm_free_sync_context_made(NULL);
    }
    gm_pipeline_note(scope, GM_ACT_CONTEXT, result || !context ? 0 : (uint64_t)(uintptr_t)*context, result);
    return result;
}

#define CREATES(symbol, parameters, arguments)                                                         \
    CUresult CUDAAPI gm_hook_##symbol(LIST parameters) {                                               \
        struct gm_scope scope;                                                                         \
        ENTER(symbol, LIST arguments);                                                                 \
        BEGIN(&scope, GM_CALL_NONE, 0);                                                                \
        LEAVE(created(&scope, context, device, MAKE(WITH_TRIM_OF(device, gm_real.symbol arguments)))); \
    }
CREATES(cuCtxCreate, (CUcontext * context, unsigned flags, CUdevice device), (context, flags, device))
CREATES(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device), (context, flags, device))
CREATES(cuCtxCreate_v3,
        (CUcontext * context, CUexecAffinityParam *affinity, int count, unsigned flags, CUdevice device),
        (context, affinity, count, flags, device))
CREATES(cuCtxCreate_v4, (CUcontext * context, CUctxCreateParams *parameters, unsigned flags, CUdevice device),
        (context, parameters, flags, device))

/* ---- contexts that are destroyed */

/* Makes the context current. False: it was not seen before, or has ended. */
static bool enter_seen(CUcontext context, struct gm_context *seen) {
    return context && gm_context_find(context, seen) && gm_drv.ctx_push(context) == CUDA_SUCCESS;
}

/* A context ends with all its memory. Blocks of the program in gpumem's pools are released as well. */
static void release_pool_blocks(CUcontext context) {
    struct gm_context seen;
    if (!enter_seen(context, &seen))
        return;
    gm_pipeline_context_ending(seen.id, seen.device);
    gm_context_leave(true);
}

static bool is_primary(CUcontext context) {
    struct gm_context seen;
    return gm_context_find(context, &seen) && gm_context_primary(seen.device) == context;
}

/* References to a primary context that were retained through an entry point of gpumem. */
static int references[DEVICES];

static void count_reference(CUdevice device, int change) {
    if (device >= 0 && device < DEVICES)
        __atomic_add_fetch(&references[device], change, __ATOMIC_RELAXED);
}

/* Releases the free blocks when this release is the last one as far as gpumem knows. Live blocks stay, because it
 * may not be the last one. */
static void release_free_blocks(CUdevice device, CUcontext context) {
    struct gm_context seen;
    if (device < 0 || device >= DEVICES || __atomic_load_n(&references[device], __ATOMIC_RELAXED) != 1 ||
        !enter_seen(context, &seen))
        return;
    gm_pipeline_empty_context(seen.id);
    gm_pipeline_trim(SIZE_MAX, GM_REASON_CONTEXT_GONE);
    gm_context_leave(true);
}

/* True unless the call that has just been made ended the context, which was current. Its handle must not be used then:
 * the driver would follow it into memory that it has given back. But a current context is safe even if it has ended,
 * where the thread's stack has it twice. */
static bool outlived(CUcontext context) {
    size_t free, total;
    return gm_context_handle() == context && gm_drv.mem_get_info(&free, &total) != CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static bool attached; /* some context has a reference more, or had one */
PASSES(cuCtxAttach, (CUcontext * context, unsigned flags), (context, flags),
       __atomic_store_n(&attached, true, __ATOMIC_RELAXED), MADE)

/* A context ends with its last reference; a primary context stays. */
CUresult CUDAAPI gm_hook_cuCtxDetach(CUcontext context) {
    struct gm_scope scope;
    ENTER(cuCtxDetach, context);
    BEGIN(&scope, GM_CALL_CTX_DESTROY, 0);
    if (!__atomic_load_n(&attached, __ATOMIC_RELAXED) && gm_context_handle() == context && !is_primary(context))
        release_pool_blocks(context);
    struct ending ending = begin_destroy(context);
    CUresult result = gm_real.cuCtxDetach(context);
    if (result != CUDA_SUCCESS || outlived(context))
        not_destroyed(&ending);
    else
        end_destroy(&scope, &ending, result);
    LEAVE(result);
}

/* ---- the primary context of a device. Hooks that retain, release or reset it run one at a time, so that each knows
 * whether its call created or destroyed the context. */

static gm_spin primary_locks[DEVICES];
GM_ZERO_IN_CHILD(primary_locks);

/* A reset may wait for the GPU for long, and its thread may be cancelled. So the wait is bounded, and who has waited
 * too long goes on and unlocks, too. */
static void lock_primary(CUdevice device) {
    enum { NAP_NS = 50000, MOST_NAPS = 20000 }; /* 1 s and more */
    bool locked = device < 0 || device >= DEVICES;
    for (int naps = 0; !locked && naps < MOST_NAPS; naps++)
        if (!(locked = gm_spin_try(&primary_locks[device])))
            gm_sleep(NAP_NS);
}

static void unlock_primary(CUdevice device) {
    if (device >= 0 && device < DEVICES)
        gm_spin_unlock(&primary_locks[device]);
}

/* A release destroys the context only when it is the last one. */
static bool primary_is_active(CUdevice device) {
    unsigned flags;
    int active = 0;
    return gm_drv.primary_get_state(device, &flags, &active) != CUDA_SUCCESS || active;
}

CUresult CUDAAPI gm_hook_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    ENTER(cuDevicePrimaryCtxRetain, context, device);
    lock_primary(device);
    bool was_active = primary_is_active(device);
    if (!was_active)
        gm_free_sync_context_making();
    CUresult result = WITH_TRIM_OF(device, gm_real.cuDevicePrimaryCtxRetain(context, device));
    if (result == CUDA_SUCCESS && !was_active)
        note_created(*context);
    else if (!was_active)
        gm_free_sync_context_made(NULL);
    if (result == CUDA_SUCCESS) {
        gm_context_note_primary(device, *context);
        gm_hook_device_used(*context, device);
        count_reference(device, 1);
    }
    unlock_primary(device);
    LEAVE(result);
}

static bool released_but_active(CUdevice device) {
    count_reference(device, -1);
    return primary_is_active(device);
}

/* A call that ends a context. `of`: its argument, `device` that of a primary context, else -1. `before`: what is done
 * first. `lives`: a call that succeeded may leave the context. */
#define ENDS(symbol, type, of, device, gm_call, ended, before, lives) \
    CUresult CUDAAPI gm_hook_##symbol(type of) {                      \
        struct gm_scope scope;                                        \
        ENTER(symbol, of);                                            \
        BEGIN(&scope, gm_call, 0);                                    \
        lock_primary(device);                                         \
        CUcontext context = ended;                                    \
        before;                                                       \
        struct ending ending = begin_destroy(context);                \
        CUresult result = gm_real.symbol(of);                         \
        if (result != CUDA_SUCCESS || !(lives))                       \
            end_destroy(&scope, &ending, result);                     \
        else                                                          \
            not_destroyed(&ending);                                   \
        unlock_primary(device);                                       \
        LEAVE(result);                                                \
    }
/* The driver refuses to destroy a primary context. */
#define DESTROYS(symbol)                                     \
    ENDS(symbol, CUcontext, of, -1, GM_CALL_CTX_DESTROY, of, \
         is_primary(context) ? (void)0 : release_pool_blocks(context), false)
DESTROYS(cuCtxDestroy)
DESTROYS(cuCtxDestroy_v2)
#define ENDS_PRIMARY(symbol, gm_call, before, lives) \
    ENDS(symbol, CUdevice, device, device, gm_call, gm_context_primary(device), before, lives)
ENDS_PRIMARY(cuDevicePrimaryCtxReset, GM_CALL_PRIMARY_RESET, release_pool_blocks(context), false)
ENDS_PRIMARY(cuDevicePrimaryCtxReset_v2, GM_CALL_PRIMARY_RESET, release_pool_blocks(context), false)
ENDS_PRIMARY(cuDevicePrimaryCtxRelease, GM_CALL_PRIMARY_RELEASE, release_free_blocks(device, context),
             released_but_active(device))
ENDS_PRIMARY(cuDevicePrimaryCtxRelease_v2, GM_CALL_PRIMARY_RELEASE, release_free_blocks(device, context),
             released_but_active(device))

/* ---- green contexts: each has a part of a device's multiprocessors and a context that is destroyed with it */

/* The context of a green context. */
static CUcontext context_of_green(CUgreenCtx green) {
    CUcontext context = NULL;
    return gm_drv.ctx_from_green && gm_drv.ctx_from_green(&context, green) == CUDA_SUCCESS ? context : NULL;
}

CUresult CUDAAPI gm_hook_cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc resources, CUdevice device,
                                          unsigned flags) {
    ENTER(cuGreenCtxCreate, green, resources, device, flags);
    gm_free_sync_note(GM_SYNC_GREEN);
    gm_streams_doubt(GM_STREAMS_GREEN);
    gm_handover_context_created();
    CUresult result = WITH_TRIM_OF(device, gm_real.cuGreenCtxCreate(green, resources, device, flags));
    if (result == CUDA_SUCCESS)
        replace_ending(context_of_green(*green));
    LEAVE(result);
}

/* The context was used before and has a generation of its own. */
static bool is_own_context(CUcontext context, struct gm_context *seen) {
    return gm_context_find(context, seen) && context != gm_context_primary(seen->device);
}

/* Memory that was allocated in a green context belongs to the primary context and stays (measured with driver 580). So
 * live blocks of gpumem's mappings move there. The free blocks are released first, while the context can be made
 * current. Native blocks leave the registry, and the driver frees them. */
CUresult CUDAAPI gm_hook_cuGreenCtxDestroy(CUgreenCtx green) {
    struct gm_scope scope;
    struct gm_context seen;
    ENTER(cuGreenCtxDestroy, green);
    BEGIN(&scope, GM_CALL_CTX_DESTROY, 0);
    CUcontext context = context_of_green(green);
    bool own = is_own_context(context, &seen);
    if (own) {
        gm_pipeline_context_moves(seen.id, seen.device);
        gm_pipeline_empty_context(seen.id);
    } else {
        gm_capture_ending(NULL, context);
    }
    struct ending ending = own ? begin_destroy(context) : (struct ending){0};
    CUresult result = gm_real.cuGreenCtxDestroy(green);
    if (own)
        end_destroy(&scope, &ending, result);
    else
        gm_capture_destroyed(NULL, context, result == CUDA_SUCCESS);
    LEAVE(result);
}
