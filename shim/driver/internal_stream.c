/* The table of internal streams, one slot for each context (internal_stream.h). */
#include "shim/driver/internal_stream.h"

#include "shim/driver/event.h"
#include "shim/driver/streams.h"

/* `id` and `context` change with the slot's own lock held, inside of that of the table. */
struct gm_internal_slot {
    gm_spin lock;
    uint64_t id; /* 0 = unused */
    CUcontext context;
    CUstream streams[GM_INTERNAL_USES];
};

static struct gm_internal_slot slots[GM_INTERNAL_CONTEXTS];
GM_ZERO_IN_CHILD(slots);
GM_LOCK(table_lock); /* held to claim and to forget a slot */

static struct gm_internal_slot *find_slot(uint64_t id) {
    for (unsigned i = 0; i < GM_INTERNAL_CONTEXTS; i++) {
        struct gm_internal_slot *slot = &slots[(id + i) % GM_INTERNAL_CONTEXTS];
        if (__atomic_load_n(&slot->id, __ATOMIC_ACQUIRE) == id)
            return slot;
    }
    return NULL;
}

static struct gm_internal_slot *claim_slot(CUcontext context, uint64_t id) {
    gm_spin_lock(&table_lock);
    struct gm_internal_slot *slot = find_slot(id), *vacant = NULL;
    for (unsigned i = 0; !slot && !vacant && i < GM_INTERNAL_CONTEXTS; i++)
        if (!slots[(id + i) % GM_INTERNAL_CONTEXTS].id)
            vacant = &slots[(id + i) % GM_INTERNAL_CONTEXTS];
    if (vacant) {
        gm_spin_lock(&vacant->lock);
        vacant->context = context;
        __atomic_store_n(&vacant->id, id, __ATOMIC_RELEASE);
        gm_spin_unlock(&vacant->lock);
    }
    gm_spin_unlock(&table_lock);
    return slot ? slot : vacant;
}

bool gm_internal_of(CUcontext context, uint64_t context_id, int device, struct gm_internal *internal) {
    struct gm_internal_slot *slot = context_id ? find_slot(context_id) : NULL;
    if (!slot && context_id)
        slot = claim_slot(context, context_id);
    *internal = (struct gm_internal){slot, context, context_id, device};
    return slot != NULL;
}

void gm_internal_forget(uint64_t context_id) {
    gm_spin_lock(&table_lock);
    struct gm_internal_slot *slot = find_slot(context_id);
    if (slot) {
        gm_spin_lock(&slot->lock);
        for (unsigned i = 0; i < GM_INTERNAL_USES; i++)
            __atomic_store_n(&slot->streams[i], NULL, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->id, 0, __ATOMIC_RELEASE);
        gm_spin_unlock(&slot->lock);
    }
    gm_spin_unlock(&table_lock);
}

gm_status gm_context_enter(CUcontext context, bool *pushed) {
    CUcontext current = NULL;
    *pushed = false;
    if (gm_drv.ctx_get_current(&current) == CUDA_SUCCESS && current == context)
        return GM_OK;
    gm_status status = gm_drv.ctx_push(context);
    *pushed = status == GM_OK;
    return status;
}

void gm_context_leave(bool pushed) {
    CUcontext popped;
    if (pushed)
        gm_drv.ctx_pop(&popped);
}

gm_status gm_context_enter_again(const struct gm_context *context, bool *pushed) {
    *pushed = false;
    if (context->id && gm_context_life(context->handle, context->id) == GM_CONTEXT_DESTROYED)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return gm_context_enter(context->handle, pushed);
}

gm_status gm_context_enter_held(CUcontext context, uint64_t context_id, struct gm_context_held *held) {
    held->hold = gm_context_hold(context, context_id);
    if (held->hold < 0)
        return held->hold == GM_CONTEXT_DESTROYED ? CUDA_ERROR_CONTEXT_IS_DESTROYED : GM_FENCE_PENDING;
    gm_status status = gm_context_enter(context, &held->pushed);
    if (status)
        gm_context_let_go(held->hold);
    return status;
}

void gm_context_leave_held(const struct gm_context_held *held) {
    gm_context_leave(held->pushed);
    gm_context_let_go(held->hold);
}

/* Reads without the lock. Ids are never reused, so the stream belongs to the set when the slot had the set's id before
 * and after the read. */
bool gm_internal_stream_made(const struct gm_internal *internal, enum gm_internal_use use, CUstream *stream) {
    struct gm_internal_slot *slot = internal->slot;
    if (__atomic_load_n(&slot->id, __ATOMIC_ACQUIRE) != internal->id)
        return false;
    CUstream seen = __atomic_load_n(&slot->streams[use], __ATOMIC_ACQUIRE);
    if (!seen || __atomic_load_n(&slot->id, __ATOMIC_RELAXED) != internal->id)
        return false;
    *stream = seen;
    return true;
}

gm_status gm_internal_stream(const struct gm_internal *internal, enum gm_internal_use use, CUstream *stream) {
    struct gm_internal_slot *slot = internal->slot;
    CUstream made = NULL, seen = NULL;

    if (!gm_internal_stream_made(internal, use, &seen)) {
        gm_status status = gm_drv.stream_create(&made, CU_STREAM_NON_BLOCKING);
        if (status)
            return status;
        gm_streams_made(made); /* a fence has to cover its work, too */
        gm_spin_lock(&slot->lock);
        if (slot->id == internal->id) {
            seen = slot->streams[use];
            if (!seen)
                __atomic_store_n(&slot->streams[use], made, __ATOMIC_RELEASE);
        }
        gm_spin_unlock(&slot->lock);
        if (seen) {
            gm_streams_ending(made);
            gm_drv.stream_destroy(made);
        } else {
            seen = made;
        }
    }
    *stream = seen;
    return GM_OK;
}

gm_status gm_internal_stream_ask(CUstream stream, uint64_t patience_ns) {
    gm_status status;
    for (uint64_t begin = gm_ticks(); (status = (gm_status)gm_drv.stream_query(stream)) == CUDA_ERROR_NOT_READY;)
        if (gm_ticks_span_ns(gm_ticks() - begin) > patience_ns)
            break;
    return status;
}
