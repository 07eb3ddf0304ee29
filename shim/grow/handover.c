/* Pages instead of bytes. A copy from the start of one mapped block to the start of a larger one is put off. If the old
 * block's free is the next thing that happens, its pages are mapped in the new block's front; if anything else enters
 * the driver first, the copy is made before that goes on.
 *
 * It is put off only when nobody can tell: both blocks are gpumem's and mapped, of one device and its only context; no
 * peer reaches the device, nothing was exported, tagged or captured, no library in the process hands memory to network
 * cards or other processes (those get no mapped blocks at all); all work submitted before the new block was made and
 * before the copy is complete; every entry to the driver that a program can look up passes a gate, and no object is
 * linked with the driver itself.
 *
 * A block that waits on the host for the old pages (vmm.h) is one of these whose copy may only be put off while nobody
 * entered the driver since it was made; else it stays on the host. */
#include <sched.h>

#include "shim/base/options.h"
#include "shim/core/registry.h"
#include "shim/driver/fence.h"
#include "shim/grow/grow.h"
#include "shim/hook/stream_observer.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/vmm.h"

#define ANSWER_NS 100000u

int gm_trampolines_active;

struct put_off {
    CUdeviceptr to, from;
    size_t size;
    CUstream stream;
    CUcontext context;
    uint64_t context_id;
    CUdevice device;
};

static gm_spin lock;
static struct put_off waiting; /* `from` is 0: none */
static bool making;            /* some thread makes the copy, or moves the pages, at this moment */
static uint64_t newest, fresh; /* the newest mapped block; the same while nobody entered the driver since */
static struct gm_fence born;   /* recorded when `newest` was made */
static bool born_known;
static int fences_used; /* `born` and the fence of a copy belong to one thread at a time */
static unsigned contexts_made;
static uint64_t moves, moved_bytes, made_copies;

/* The lock is held. */
static void set_watch(void) {
    __atomic_store_n(&gm_trampolines_active, waiting.from || fresh || making, __ATOMIC_SEQ_CST);
}

static void make_copy(const struct put_off *copy) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool pushed;
    gm_drv.thread_exchange_capture_mode(&mode);
    gm_status status = gm_context_enter(copy->context, &pushed);
    if (!status) {
        status = (gm_status)gm_drv.memcpy_async(copy->to, copy->from, copy->size, copy->stream);
        /* The program may have waited for it already: what comes next need not be ordered behind it in any other way.
         */
        if (!status)
            status = (gm_status)gm_drv.stream_synchronize(copy->stream);
        gm_context_leave(pushed);
    }
    gm_drv.thread_exchange_capture_mode(&mode);
    if (status)
        gm_log(GM_LOG_ERROR, "a copy of %zu bytes failed with CUresult %d after it was put off", copy->size, status);
    __atomic_add_fetch(&made_copies, 1, __ATOMIC_RELAXED);
}

/* The block that is fresh no more; 0: there was none. */
static void settle(uint64_t address) {
    if (address && gm_grow_mode == GM_GROW_OVERCOMMIT)
        gm_vmm_settle(address);
}

/* Takes what waits; the taker finishes. False: nothing waits any more, and nobody is at it. */
static bool take(struct put_off *copy, uint64_t only_from) {
    for (;;) {
        gm_spin_lock(&lock);
        if (!making) {
            bool there = waiting.from && (!only_from || waiting.from == only_from);
            uint64_t stale = there || only_from ? 0 : fresh;
            if (there) {
                *copy = waiting;
                waiting.from = 0;
                making = true;
            } else if (!only_from) {
                fresh = 0;
            }
            set_watch();
            gm_spin_unlock(&lock);
            settle(stale);
            return there;
        }
        gm_spin_unlock(&lock);
        sched_yield();
    }
}

static void finish(void) {
    gm_spin_lock(&lock);
    uint64_t stale = fresh;
    making = false;
    fresh = 0;
    set_watch();
    gm_spin_unlock(&lock);
    settle(stale);
}

void gm_handover_driver_entered(void) {
    struct put_off copy;
    if (!take(&copy, 0))
        return;
    make_copy(&copy);
    finish();
}

/* ---- the condition */

/* An idle device, too, takes microseconds to say that it is: it is asked again for as long as a small copy would take.
 */
static bool idle_since(const struct gm_block *block, struct gm_fence *fence, bool record) {
    CUstreamCaptureMode mode;
    if (!gm_capture_guard_enter(&mode))
        return false;
    gm_status status = GM_OK;
    if (record)
        status = gm_fence_record(fence, (CUcontext)(uintptr_t)block->context, block->context_id, block->device);
    if (!status)
        for (uint64_t begin = gm_ticks(); (status = gm_fence_query(fence)) == GM_FENCE_PENDING;)
            if (gm_ticks_span_ns(gm_ticks() - begin) > ANSWER_NS)
                break;
    gm_capture_guard_leave(mode);
    return status == GM_OK;
}

void gm_handover_created(const struct gm_block *block) {
    CUstreamCaptureMode mode;
    bool recorded = false;
    if (gm_grow_mode < GM_GROW_MOVE || block->kind != GM_KIND_VMM)
        return;
    if (!__atomic_exchange_n(&fences_used, 1, __ATOMIC_ACQUIRE)) {
        if (gm_capture_guard_enter(&mode)) {
            recorded =
                gm_fence_record(&born, (CUcontext)(uintptr_t)block->context, block->context_id, block->device) == GM_OK;
            gm_capture_guard_leave(mode);
        }
        __atomic_store_n(&fences_used, 0, __ATOMIC_RELEASE);
    }
    gm_spin_lock(&lock);
    newest = fresh = recorded ? block->address : 0;
    born_known = recorded;
    set_watch();
    gm_spin_unlock(&lock);
    if (!recorded)
        settle(block->address);
}

void gm_handover_address_queried(void) {
    gm_spin_lock(&lock);
    uint64_t address = fresh;
    gm_spin_unlock(&lock);
    if (address && gm_vmm_waits_on_host(address))
        gm_handover_driver_entered();
}

static bool ours(const struct gm_block *block) {
    return block->kind == GM_KIND_VMM && block->owner && !block->pinned_native && block->call == GM_CALL_ALLOC;
}

/* An object that is linked with the driver reaches it past every gate. Told once for each: what was linked stays so. */
static bool passed_by(void) {
    static bool linked;
    if (gm_observer_linked())
        __atomic_store_n(&linked, true, __ATOMIC_RELAXED);
    return __atomic_load_n(&linked, __ATOMIC_RELAXED);
}

void gm_handover_context_made(void) { __atomic_add_fetch(&contexts_made, 1, __ATOMIC_SEQ_CST); }

static bool is_only_context(void) {
    return gm_contexts_seen() == 1 && __atomic_load_n(&contexts_made, __ATOMIC_SEQ_CST) <= 1;
}

/* *whole: it may wait also when the block is fresh no more. */
static bool may_wait(CUdeviceptr to, CUdeviceptr from, size_t size, struct gm_block *old, bool *whole) {
    static struct gm_fence now;
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block young;
    if (!registry || gm_capture_any() || !is_only_context() || !gm_registry_find(registry, to, &young) ||
        !gm_registry_find(registry, from, old) || !ours(&young) || !ours(old))
        return false;
    if (young.device != old->device || young.context_id != old->context_id || gm_peers_of(old->device) || !size ||
        size > old->size || passed_by() || !gm_trampolines_hold() || !gm_vmm_can_move(from, to))
        return false;
    /* Else what the program, or GPUMEM_FILL, wrote behind the copied bytes would be lost with the front. */
    *whole = size == old->size && old->size == old->reserved && !gm_vmm_waits_on_host(to);
    gm_spin_lock(&lock);
    bool known = born_known && newest == to && !making && (*whole || (fresh == to && !gm_option_number(GM_OPT_FILL)));
    gm_spin_unlock(&lock);
    if (!known)
        return false;
    if (__atomic_exchange_n(&fences_used, 1, __ATOMIC_ACQUIRE)) /* another thread copies or allocates, too: not alone */
        return false;
    bool idle = idle_since(&young, &born, false) && idle_since(old, &now, true);
    __atomic_store_n(&fences_used, 0, __ATOMIC_RELEASE);
    return idle;
}

bool gm_handover_copy(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    struct gm_block old;
    bool whole;
    gm_spin_lock(&lock);
    bool busy = waiting.from || making;
    gm_spin_unlock(&lock);
    if (busy)
        gm_handover_driver_entered();
    if (stream == CU_STREAM_PER_THREAD || !may_wait(to, from, size, &old, &whole))
        return false;
    gm_spin_lock(&lock);
    bool put = !making && !waiting.from && newest == to && (whole || fresh == to) && gm_trampolines_hold();
    if (put)
        waiting =
            (struct put_off){to, from, size, stream, (CUcontext)(uintptr_t)old.context, old.context_id, old.device};
    set_watch();
    gm_spin_unlock(&lock);
    return put;
}

bool gm_handover_freed(const struct gm_block *block) {
    CUstreamCaptureMode mode;
    struct put_off copy;
    struct gm_fence fence = {0};
    if (!take(&copy, block->address)) {
        gm_handover_driver_entered();
        return false;
    }
    bool moved = false;
    bool pushed;
    if (!block->pinned_native && gm_context_enter(copy.context, &pushed) == GM_OK) {
        if (idle_since(block, &fence, true) && gm_capture_guard_enter(&mode)) {
            moved = gm_vmm_move(copy.from, copy.to) == GM_OK;
            gm_capture_guard_leave(mode);
        }
        gm_fence_discard(&fence);
        gm_context_leave(pushed);
    }
    if (moved) {
        __atomic_add_fetch(&moves, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&moved_bytes, copy.size, __ATOMIC_RELAXED);
    } else {
        make_copy(&copy);
    }
    finish();
    return moved;
}

void gm_handover_counts(uint64_t *count, uint64_t *bytes, uint64_t *made) {
    *count = __atomic_load_n(&moves, __ATOMIC_RELAXED);
    *bytes = __atomic_load_n(&moved_bytes, __ATOMIC_RELAXED);
    *made = __atomic_load_n(&made_copies, __ATOMIC_RELAXED);
}

void gm_handover_after_fork(void) {
    lock.held = fences_used = 0;
    making = false;
    waiting.from = newest = fresh = 0;
    born = (struct gm_fence){0};
    born_known = false;
    gm_trampolines_active = 0;
}
