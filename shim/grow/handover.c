#include "shim/grow/handover.h"

#include <sched.h>

#include "shim/base/options.h"
#include "shim/resource/registry.h"
#include "shim/driver/fence.h"
#include "shim/driver/internal_stream.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/in_flight.h"
#include "shim/resource/vmm.h"

#define ANSWER_NS 100000u

struct deferred_copy {
    CUdeviceptr to, from;
    size_t size;
    CUstream stream;
    CUcontext context;
    uint64_t context_id;
    CUdevice device;
};

GM_LOCK(lock);
static struct {
    struct deferred_copy deferred; /* `from` is 0: none */
    bool busy;                     /* a thread is making the deferred copy or handing over pages */
    uint64_t newest;               /* address of the newest block of resource "vmm"; 0: none, or no fence covers it */
    uint64_t untouched;            /* the same until a thread enters the driver; then 0 */
    struct gm_fence fence;         /* recorded when the newest block was created */
    bool recorded;                 /* the fence */
    struct gm_fence of_copy;       /* recorded when a copy began */
    int fences_taken;              /* one thread at a time uses the two fences */
} now;
GM_ZERO_IN_CHILD(now);
static unsigned contexts_created;
static uint64_t handovers, handover_bytes, made_copies;

/* The lock is held. */
static void update_watch(void) { gm_watch_set(GM_WATCH_HANDOVER, now.deferred.from || now.untouched || now.busy); }

/* Also waits for the copy: the program may have synchronized before, so it need not order its next call behind it. */
static void make_copy(const struct deferred_copy *copy) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool pushed;
    gm_drv.thread_exchange_capture_mode(&mode);
    gm_status status = gm_context_enter(copy->context, &pushed);
    if (!status) {
        status = gm_drv.memcpy_async(copy->to, copy->from, copy->size, copy->stream);
        if (!status)
            status = gm_drv.stream_synchronize(copy->stream);
        gm_context_leave(pushed);
    }
    gm_drv.thread_exchange_capture_mode(&mode);
    if (status)
        gm_log(GM_LOG_ERROR, "a deferred copy of %zu bytes failed with CUresult %d", copy->size, status);
    __atomic_add_fetch(&made_copies, 1, __ATOMIC_RELAXED);
}

/* Waits while another thread is busy, then takes the deferred copy; `only_from` not 0: only a copy from that
 * address. True: the caller carries it out and calls finish_copy(). */
static bool take_deferred(struct deferred_copy *copy, uint64_t only_from) {
    for (;;) {
        gm_spin_lock(&lock);
        if (!now.busy) {
            bool found = now.deferred.from && (!only_from || now.deferred.from == only_from);
            if (found) {
                *copy = now.deferred;
                now.deferred.from = 0;
                now.busy = true;
            } else if (!only_from) {
                now.untouched = 0;
            }
            update_watch();
            gm_spin_unlock(&lock);
            return found;
        }
        gm_spin_unlock(&lock);
        sched_yield();
    }
}

static void finish_copy(void) {
    gm_spin_lock(&lock);
    now.busy = false;
    now.untouched = 0;
    update_watch();
    gm_spin_unlock(&lock);
}

void gm_handover_driver_entered(void) {
    struct deferred_copy copy;
    if (!take_deferred(&copy, 0))
        return;
    make_copy(&copy);
    finish_copy();
}

/* ---- the conditions */

static gm_status record_fence(struct gm_fence *fence, const struct gm_block *block) {
    const struct gm_context context = {(CUcontext)(uintptr_t)block->context, block->context_id, block->device};
    return gm_fence_record(fence, &context, GM_FENCE_COPIES);
}

/* Has the work that the fence covers finished? `records`: the fence is recorded first. Even an idle device needs
 * microseconds to answer, so the query is repeated for about the time of a small copy. */
static bool is_work_done(const struct gm_block *block, struct gm_fence *fence, bool records) {
    CUstreamCaptureMode mode;
    if (!gm_capture_guard_enter(&mode))
        return false;
    gm_status status = records ? record_fence(fence, block) : GM_OK;
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
    if (block->kind != GM_KIND_VMM)
        return;
    if (!__atomic_exchange_n(&now.fences_taken, 1, __ATOMIC_ACQUIRE)) {
        if (gm_capture_guard_enter(&mode)) {
            recorded = record_fence(&now.fence, block) == GM_OK;
            gm_capture_guard_leave(mode);
        }
        __atomic_store_n(&now.fences_taken, 0, __ATOMIC_RELEASE);
    }
    gm_spin_lock(&lock);
    now.newest = now.untouched = recorded ? block->address : 0;
    now.recorded = recorded;
    update_watch();
    gm_spin_unlock(&lock);
}

static bool may_change_pages(const struct gm_block *block) {
    return block->kind == GM_KIND_VMM && block->owner && !block->pinned_native && block->call == GM_CALL_ALLOC;
}

void gm_handover_context_created(void) { __atomic_add_fetch(&contexts_created, 1, __ATOMIC_SEQ_CST); }

static bool is_only_context(void) {
    return gm_contexts_seen() == 1 && __atomic_load_n(&contexts_created, __ATOMIC_SEQ_CST) <= 1;
}

static bool sees_all_calls(void) { return !gm_free_sync_is_noted(GM_SYNC_UNSEEN); }

/* The lock is held. */
static bool may_still_defer(CUdeviceptr to, bool whole) {
    return !now.busy && now.newest == to && (whole || now.untouched == to);
}

/* True when the copy may be deferred; fills *old. A handover replaces the whole front of the larger block. Where the
 * copy does not fill that front (*whole is false), bytes behind it would be lost that the program wrote after another
 * call into the driver, or that GPUMEM_FILL wrote. */
static bool may_defer(CUdeviceptr to, CUdeviceptr from, size_t size, struct gm_block *old, bool *whole) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_context peer;
    struct gm_block larger;
    if (!registry || gm_capture_any() || !is_only_context() || !gm_registry_find(registry, to, &larger) ||
        !gm_registry_find(registry, from, old) || !may_change_pages(&larger) || !may_change_pages(old))
        return false;
    if (larger.device != old->device || larger.context_id != old->context_id ||
        gm_context_reach(old->device, &peer, 1) || !size || size > old->size || !sees_all_calls() ||
        !gm_vmm_can_move(from, to))
        return false;
    *whole = size == old->size && old->size == old->reserved;
    if (!*whole && gm_option_number(GM_OPT_FILL))
        return false;
    gm_spin_lock(&lock);
    bool may = now.recorded && may_still_defer(to, *whole);
    gm_spin_unlock(&lock);
    if (!may || __atomic_exchange_n(&now.fences_taken, 1, __ATOMIC_ACQUIRE)) /* another thread copies or allocates */
        return false;
    bool idle = is_work_done(&larger, &now.fence, false) && is_work_done(old, &now.of_copy, true);
    __atomic_store_n(&now.fences_taken, 0, __ATOMIC_RELEASE);
    return idle;
}

bool gm_handover_copy(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    struct gm_block old;
    bool whole;
    gm_spin_lock(&lock);
    bool another = now.deferred.from || now.busy;
    gm_spin_unlock(&lock);
    if (another)
        gm_handover_driver_entered();
    if (stream == CU_STREAM_PER_THREAD || !may_defer(to, from, size, &old, &whole))
        return false;
    gm_spin_lock(&lock);
    bool defer = !now.deferred.from && may_still_defer(to, whole) && sees_all_calls();
    if (defer)
        now.deferred = (struct deferred_copy){
            to, from, size, stream, (CUcontext)(uintptr_t)old.context, old.context_id, old.device};
    update_watch();
    gm_spin_unlock(&lock);
    return defer;
}

bool gm_handover_freed(const struct gm_block *block) {
    CUstreamCaptureMode mode;
    struct deferred_copy copy;
    struct gm_fence fence = {0};
    if (!take_deferred(&copy, block->address)) {
        gm_handover_driver_entered();
        return false;
    }
    bool moved = false;
    bool pushed;
    if (!block->pinned_native && gm_context_enter(copy.context, &pushed) == GM_OK) {
        if (is_work_done(block, &fence, true) && gm_capture_guard_enter(&mode)) {
            moved = gm_vmm_move(copy.from, copy.to) == GM_OK;
            gm_capture_guard_leave(mode);
        }
        gm_fence_discard(&fence);
        gm_context_leave(pushed);
    }
    if (moved) {
        __atomic_add_fetch(&handovers, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&handover_bytes, copy.size, __ATOMIC_RELAXED);
    } else {
        make_copy(&copy);
    }
    finish_copy();
    return moved;
}

void gm_handover_counts(uint64_t *count, uint64_t *bytes, uint64_t *made) {
    *count = __atomic_load_n(&handovers, __ATOMIC_RELAXED);
    *bytes = __atomic_load_n(&handover_bytes, __ATOMIC_RELAXED);
    *made = __atomic_load_n(&made_copies, __ATOMIC_RELAXED);
}
