/* The end of uses and of copies, and synchronisation with the host. */
#include "shim/residency/parts.h"

/* ---- the end of a copy */

gm_status gm_residency_end_copy(struct gpumem_residency *r, struct gm_residency_object *object, bool evicted) {
    struct gm_residency_copy *copy = object->copy;
    if (object->resident)
        (void)gm_eviction_remove(r->eviction, gm_residency_index(r, object), evicted);
    object->resident = object->on_device = object->drop = object->keep = false;
    object->copy = NULL;
    copy->evicted = evicted;
    return gm_residency_retire(r, copy);
}

/* The host's object is written to the host first. A GPU-only one loses its bytes, unless only the copy ends. */
static gm_status drop(struct gpumem_residency *r, struct gm_residency_object *object) {
    gm_status status = GM_OK;
    if (object->drop && object->gpu_only && !object->keep) {
        object->on_host = object->on_device = false;
        gm_residency_leave_home(r, object);
    } else if (object->on_device && !object->on_host) {
        status = gm_residency_to_host(r, object, &r->stats.transfer_ns);
    }
    if (status) {
        object->drop = object->keep = false;
        return status;
    }
    return gm_residency_end_copy(r, object, false);
}

gm_status gm_residency_last_use(struct gpumem_residency *r, struct gm_residency_object *object, bool ends) {
    (void)gm_eviction_unpin(r->eviction, gm_residency_index(r, object));
    return ends ? drop(r, object) : GM_OK;
}

/* ---- release */

/* Each use is one that has not ended, and is named once. */
static gm_status check_uses(struct gpumem_residency *r, const struct gpumem_use *uses, size_t count) {
    gm_status status = GM_OK;
    size_t checked = 0;
    while (checked < count && !status) {
        struct gm_residency_held *held = gm_residency_held(r, &uses[checked]);
        if (!gm_residency_find(r, uses[checked].object))
            status = GPUMEM_NOT_FOUND;
        else if (!held || held->ending)
            status = gm_fail(GM_INVALID_VALUE, "a use of object %llu was not acquired, or was released before",
                             (unsigned long long)uses[checked].object);
        else
            held->ending = true;
        checked += !status;
    }
    while (checked-- > 0)
        gm_residency_held(r, &uses[checked])->ending = false;
    return status;
}

/* Whether the release may transfer or free. */
static bool is_placement_needed(struct gpumem_residency *r, const struct gpumem_use *uses, size_t count,
                                uint64_t flags) {
    bool needed = r->flags != 0;
    for (size_t i = 0; i < count && !needed; i++) {
        const uint32_t index = (uint32_t)uses[i].object - 1;
        const struct gm_residency_object *object = index < r->object_count ? &r->objects[index] : NULL;
        const bool drops = object && (object->drop || flags & GPUMEM_RELEASE_DROP);
        const bool moves = drops && (!object->gpu_only || object->keep || flags & GPUMEM_RELEASE_KEEP);
        needed = drops && (object->busy || (moves && !object->on_host));
    }
    return needed;
}

/* `records`: the end is known by an event in the stream. */
static gm_status end_use(struct gpumem_residency *r, struct gm_residency_held *held, CUstream stream, bool records,
                         uint64_t flags) {
    struct gm_residency_object *object = &r->objects[held->object];
    const bool wrote = object->writing;
    gm_status status = records ? gm_residency_record(r, object->copy, stream, wrote) : GM_OK;
    gm_status moved = GM_OK;
    object->copy->unfenced |= !records;
    gm_residency_let_go(r, held);
    if (wrote)
        object->writing = false;
    else
        object->readers--;
    r->uses--;
    object->drop = object->drop || flags & GPUMEM_RELEASE_DROP;
    object->keep = object->keep || flags & GPUMEM_RELEASE_KEEP;
    const bool loses = object->drop && object->gpu_only && !object->keep;
    if (wrote && !loses && r->flags & GPUMEM_RESIDENCY_NO_ON_DEMAND)
        moved = gm_residency_to_host(r, object, &r->stats.transfer_ns);
    if (!gm_in_use(object)) {
        const bool ends = !moved && (object->drop || r->flags & GPUMEM_RESIDENCY_NO_REUSE);
        object->drop = object->drop && ends;
        object->keep = object->keep && object->drop;
        gm_status ended = gm_residency_last_use(r, object, ends);
        moved = moved ? moved : ended;
    }
    return status ? status : moved;
}

GM_PUBLIC enum gpumem_status gpumem_residency_release(struct gpumem_residency *r, const struct gpumem_use *uses,
                                                      size_t count, struct CUstream_st *stream, uint64_t flags) {
    GM_NEED_AS(r, "residency");
    GM_NEED_ARRAY(uses, count);
    struct gm_residency_call call;
    if (flags & ~(uint64_t)(GPUMEM_RELEASE_DROP | GPUMEM_RELEASE_KEEP))
        return gm_fail(GM_NOT_SUPPORTED, "release flags 0x%llx: gpumem %s knows 0x3", (unsigned long long)flags,
                       GM_VERSION);
    if (flags == GPUMEM_RELEASE_KEEP)
        return gm_fail(GM_INVALID_VALUE, "GPUMEM_RELEASE_KEEP is given without GPUMEM_RELEASE_DROP");
    gm_status status = gm_residency_enter(r, &call, false);
    if (status)
        return status;
    if (is_placement_needed(r, uses, count, flags))
        gm_residency_begin_placing(r, &call);
    status = gm_residency_check_stream(stream);
    if (!status)
        status = check_uses(r, uses, count);
    if (!status) {
        for (size_t i = 0; i < count; i++) {
            gm_status ended = end_use(r, gm_residency_held(r, &uses[i]), stream, true, flags);
            status = status ? status : ended;
        }
        gm_condition_wake(&r->released);
    }
    gm_residency_leave(r, &call);
    return status;
}

GM_PUBLIC void gpumem_residency_abandon_uses(struct gpumem_residency *r, const struct gpumem_use *uses, size_t count,
                                             struct CUstream_st *stream) {
    struct gm_residency_call call;
    if (!r || (!uses && count))
        return;
    gm_status status = gm_residency_enter(r, &call, false);
    if (!status) {
        const bool records = !gm_residency_check_stream(stream);
        if (is_placement_needed(r, uses, count, 0))
            gm_residency_begin_placing(r, &call);
        for (size_t i = 0; i < count; i++) {
            struct gm_residency_held *held = gm_residency_held(r, &uses[i]);
            gm_status ended = held ? end_use(r, held, stream, records, 0) : GM_OK;
            status = status ? status : ended;
        }
        gm_condition_wake(&r->released);
        gm_residency_leave(r, &call);
    }
    if (status)
        gm_log(GM_LOG_WARN, "the end of uses of a residency: %s", gpumem_last_error());
}

/* ---- synchronisation */

/* Other threads can place while this one waits for the transfer. */
static gm_status synchronise(struct gpumem_residency *r, struct gm_residency_call *call,
                             struct gm_residency_object *object, void **host) {
    const unsigned long long number = gm_residency_number(r, object);
    gm_status status = GM_OK;
    if (object->writing)
        return gm_fail(GM_INVALID_VALUE, "object %llu is in use for writing", number);
    if (!object->on_host && !object->on_device)
        return gm_fail(GM_INVALID_VALUE, "GPU-only object %llu was never written", number);
    if (!object->on_host)
        status = gm_residency_to_host(r, object, &r->stats.transfer_ns);
    if (status)
        return status;
    void *address = object->parts[0].address ? object->parts[0].address : object->home->address;
    gm_residency_end_placing(r, call);
    status = gm_residency_wait_host(r, object);
    if (!status && host)
        *host = address;
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_residency_sync(struct gpumem_residency *r, uint64_t number, void **host) {
    GM_NEED_AS(r, "residency");
    struct gm_residency_call call;
    gm_status status = gm_residency_enter(r, &call, true);
    if (status)
        return status;
    struct gm_residency_object *object = gm_residency_find(r, number);
    for (; object && object->busy; object = gm_residency_find(r, number))
        gm_residency_await_move(r, &call);
    status = object ? synchronise(r, &call, object, host) : GPUMEM_NOT_FOUND;
    gm_residency_leave(r, &call);
    return status;
}
