/* The begin of uses: objects are found or placed, filled, and the stream is ordered behind what they depend on.
 *
 * First all objects of the call are marked as in use, so that none of them is evicted for another one. Then those that
 * are not on the device are placed, in their order, as policy/eviction/ expects it: hit or insert. */
#include "shim/residency/parts.h"

/* ---- uses of one call */

static bool reads(const struct gpumem_use *use) { return use->access & GPUMEM_READ; }
static bool writes(const struct gpumem_use *use) { return use->access & GPUMEM_WRITE; }

/* An object that was found before. */
static struct gm_residency_object *object_of(struct gpumem_residency *r, const struct gpumem_use *use) {
    return &r->objects[(uint32_t)use->object - 1];
}

static gm_status check_use(struct gpumem_residency *r, const struct gpumem_use *use) {
    const unsigned long long number = use->object;
    const struct gm_residency_object *object = gm_residency_find(r, use->object);
    if (!object)
        return GPUMEM_NOT_FOUND;
    if (!use->access || use->access & ~(uint64_t)GPUMEM_READ_WRITE)
        return gm_fail(GM_INVALID_VALUE, "object %llu: access %llu is none of enum gpumem_access", number,
                       (unsigned long long)use->access);
    if (object->writing)
        return gm_fail(GM_INVALID_VALUE, "object %llu is in use for writing", number);
    if (writes(use) && object->readers)
        return gm_fail(GM_INVALID_VALUE, "object %llu is to be written and is in use", number);
    if (reads(use) && !object->on_host && !object->on_device)
        return gm_fail(GM_INVALID_VALUE, "GPU-only object %llu is to be read and was never written", number);
    return GM_OK;
}

static void begin_use(struct gpumem_residency *r, const struct gpumem_use *use) {
    struct gm_residency_object *object = object_of(r, use);
    if (!gm_in_use(object) && object->resident)
        (void)gm_eviction_pin(r->eviction, gm_residency_index(r, object));
    if (writes(use))
        object->writing = true;
    else
        object->readers++;
    r->uses++;
}

/* A release by another thread meanwhile may have dropped an object whose last use ends here. */
static void undo_uses(struct gpumem_residency *r, const struct gpumem_use *uses, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct gm_residency_object *object = object_of(r, &uses[i]);
        if (object->writing)
            object->writing = false;
        else
            object->readers--;
        r->uses--;
        if (!gm_in_use(object) && object->resident)
            (void)gm_residency_last_use(r, object, object->drop);
    }
    gm_condition_wake(&r->released);
}

/* Bytes of the objects together, each counted once. */
static size_t add_bytes(struct gpumem_residency *r, struct gm_residency_object *object, size_t bytes) {
    if (object->named == r->acquires)
        return bytes;
    object->named = r->acquires;
    return __builtin_add_overflow(bytes, object->bytes, &bytes) ? SIZE_MAX : bytes;
}

/* All or none. */
static gm_status begin_uses(struct gpumem_residency *r, const struct gpumem_use *uses, size_t count) {
    gm_status status = GM_OK;
    size_t begun = 0, bytes = 0;
    r->acquires++;
    while (begun < count && !(status = check_use(r, &uses[begun]))) {
        bytes = add_bytes(r, object_of(r, &uses[begun]), bytes);
        begin_use(r, &uses[begun++]);
    }
    if (!status && bytes > r->budget)
        status = gm_fail(GM_INVALID_VALUE, "%zu objects of %zu bytes are together larger than the budget of %zu bytes",
                         count, bytes, r->budget);
    else if (!status && !gm_residency_reserve_uses(r))
        status = gm_fail(GM_OUT_OF_MEMORY, "no host memory for %zu uses", r->uses);
    if (status)
        undo_uses(r, uses, begun);
    return status;
}

/* ---- placement */

/* A victim that cannot be written back stays on the device. */
static gm_status evict(struct gpumem_residency *r, uint32_t index) {
    struct gm_residency_object *victim = &r->objects[index];
    const bool changed = victim->on_device && !victim->on_host;
    (void)gm_eviction_remove(r->eviction, index, true);
    victim->resident = false;
    gm_status status = changed ? gm_residency_to_host(r, victim, &r->stats.evict_ns) : GM_OK;
    if (status) {
        (void)gm_eviction_insert(r->eviction, index, victim->bytes);
        victim->resident = true;
        return status;
    }
    r->stats.evictions++;
    r->stats.written_back += changed;
    return gm_residency_end_copy(r, victim, true);
}

/* A victim whose host memory was unmapped is kept out of the search, until the search ends. */
static gm_status evict_or_pass(struct gpumem_residency *r, uint32_t index, unsigned *stuck) {
    gm_status status = evict(r, index);
    if (status != GPUMEM_NOT_FOUND)
        return status;
    r->objects[index].stuck = true;
    (void)gm_eviction_pin(r->eviction, index);
    ++*stuck;
    return GM_OK;
}

static void end_stuck(struct gpumem_residency *r) {
    for (uint32_t i = 0; i < r->object_count; i++)
        if (r->objects[i].stuck) {
            r->objects[i].stuck = false;
            (void)gm_eviction_unpin(r->eviction, i);
        }
}

/* Memory for an object: from the free pool, from the driver within the budget, else after the free pool was given back
 * and copies were evicted. *stuck: number of victims that could not be. */
static gm_status search_memory(struct gpumem_residency *r, const struct gm_residency_object *object,
                               struct gm_residency_copy **copy, unsigned *stuck) {
    for (;;) {
        uint32_t victim;
        gm_status status = GM_OUT_OF_MEMORY;
        if ((*copy = gm_residency_reuse(r, object->bytes)))
            return GM_OK;
        const bool fits = r->allocated <= r->budget && object->bytes <= r->budget - r->allocated;
        if (fits)
            status = gm_residency_allocate(r, object->bytes, copy);
        if (status != GM_OUT_OF_MEMORY)
            return status;
        if (r->pool_count)
            status = gm_residency_give_back(r);
        else if (!gm_eviction_choose(r->eviction, &victim))
            status = evict_or_pass(r, victim, stuck);
        else if (*stuck)
            return GPUMEM_NOT_FOUND; /* with the text of the victim */
        else if (!fits)
            return gm_fail(
                GM_OUT_OF_MEMORY,
                "no room for object %llu of %zu bytes: %zu of %zu bytes of the budget are in use and nothing "
                "can be evicted",
                (unsigned long long)gm_residency_number(r, object), object->bytes, r->allocated, r->budget);
        if (status)
            return status;
    }
}

static gm_status find_memory(struct gpumem_residency *r, const struct gm_residency_object *object,
                             struct gm_residency_copy **copy) {
    unsigned stuck = 0;
    gm_status status = search_memory(r, object, copy, &stuck);
    if (stuck)
        end_stuck(r);
    return status;
}

static gm_status place(struct gpumem_residency *r, struct gm_residency_object *object, bool ahead) {
    const uint32_t index = gm_residency_index(r, object);
    gm_status status = find_memory(r, object, &object->copy);
    if (status)
        return status;
    r->stats.misses++;
    if (ahead)
        (void)gm_eviction_insert_ahead(r->eviction, index, object->bytes);
    else
        (void)gm_eviction_insert(r->eviction, index, object->bytes);
    (void)gm_eviction_pin(r->eviction, index);
    object->resident = true;
    return GM_OK;
}

static gm_status place_all(struct gpumem_residency *r, const struct gpumem_use *uses, size_t count) {
    gm_status status = GM_OK;
    for (size_t i = 0; i < count && !status; i++) {
        struct gm_residency_object *object = object_of(r, &uses[i]);
        if (!object->resident) {
            status = place(r, object, false);
        } else {
            r->stats.hits++;
            (void)gm_eviction_hit(r->eviction, gm_residency_index(r, object));
        }
    }
    return status;
}

/* Another thread may fill an object that both read, or has done so. */
static gm_status fill_all(struct gpumem_residency *r, const struct gpumem_use *uses, size_t count) {
    gm_status status = GM_OK;
    for (size_t i = 0; i < count && !status; i++) {
        struct gm_residency_object *object = object_of(r, &uses[i]);
        while (reads(&uses[i]) && !object->on_device && object->busy)
            gm_condition_wait(&r->moved, &r->state);
        if (reads(&uses[i]) && !object->on_device)
            status = gm_residency_to_device(r, object);
    }
    return status;
}

/* ---- the call */

/* Whether some object has to be placed. Unknown ones are reported later. */
static bool is_placement_needed(struct gpumem_residency *r, const struct gpumem_use *uses, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t index = (uint32_t)uses[i].object - 1;
        const struct gm_residency_object *object = index < r->object_count ? &r->objects[index] : NULL;
        if (object && !object->resident)
            return true;
    }
    return false;
}

static bool is_moving(struct gpumem_residency *r, const struct gpumem_use *uses, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t index = (uint32_t)uses[i].object - 1;
        if (index < r->object_count && r->objects[index].busy)
            return true;
    }
    return false;
}

/* No object is busy, and `placement` is held where it is needed. */
static void make_ready(struct gpumem_residency *r, struct gm_residency_call *call, const struct gpumem_use *uses,
                       size_t count) {
    for (;;) {
        if (!call->places && is_placement_needed(r, uses, count))
            gm_residency_begin_placing(r, call);
        if (!is_moving(r, uses, count))
            return;
        gm_residency_await_move(r, call);
    }
}

static gm_status order_all(struct gpumem_residency *r, const struct gpumem_use *uses, size_t count, CUstream stream) {
    gm_status status = GM_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = gm_residency_order(r, object_of(r, &uses[i])->copy, stream, writes(&uses[i]));
    return status;
}

static void hand_out(struct gpumem_residency *r, struct gpumem_use *uses, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct gm_residency_object *object = object_of(r, &uses[i]);
        uses[i].address = (void *)(uintptr_t)object->copy->address;
        uses[i].number = gm_residency_hold(r, object);
        if (writes(&uses[i])) {
            object->on_device = true;
            object->on_host = false;
        }
    }
}

/* Other threads can place while this one fills. After a failure it places again, for a copy that ends. */
static gm_status use_all(struct gpumem_residency *r, struct gm_residency_call *call, const struct gpumem_use *uses,
                         size_t count, CUstream stream) {
    gm_status status = place_all(r, uses, count);
    if (!status && call->places)
        gm_residency_end_placing(r, call);
    if (!status)
        status = fill_all(r, uses, count);
    if (!status)
        status = order_all(r, uses, count, stream);
    if (status && !call->places)
        gm_residency_begin_placing(r, call);
    return status;
}

static gm_status acquire(struct gpumem_residency *r, struct gm_residency_call *call, struct gpumem_use *uses,
                         size_t count, CUstream stream) {
    make_ready(r, call, uses, count);
    gm_status status = begin_uses(r, uses, count);
    if (status)
        return status;
    status = use_all(r, call, uses, count, stream);
    if (status)
        undo_uses(r, uses, count);
    else
        hand_out(r, uses, count);
    return status;
}

/* Some use may end meanwhile, without `placement`. False: nothing is in use, so waiting would not help. */
static bool await_release(struct gpumem_residency *r, struct gm_residency_call *call) {
    if (!(r->flags & GPUMEM_RESIDENCY_WAIT) || !r->uses)
        return false;
    if (call->places)
        gm_residency_end_placing(r, call);
    gm_condition_wait(&r->released, &r->state);
    return true;
}

GM_PUBLIC enum gpumem_status gpumem_residency_acquire(struct gpumem_residency *r, struct gpumem_use *uses, size_t count,
                                                      struct CUstream_st *stream) {
    GM_NEED_AS(r, "residency");
    GM_NEED_ARRAY(uses, count);
    struct gm_residency_call call;
    gm_status status = gm_residency_enter(r, &call, false);
    if (status)
        return status;
    status = gm_residency_check_stream(stream);
    if (!status) {
        do
            status = acquire(r, &call, uses, count, stream);
        while (status == GM_OUT_OF_MEMORY && await_release(r, &call));
    }
    gm_residency_leave(r, &call);
    return status;
}

/* ---- prefetch: a use for reading that no stream waits for */

static bool is_to_be_moved(const struct gm_residency_object *object) {
    return object->on_host && !object->on_device && !object->busy && !gm_in_use(object);
}

static gm_status prefetch(struct gpumem_residency *r, struct gm_residency_call *call, uint64_t number) {
    const struct gpumem_use use = {.object = number, .access = GPUMEM_READ};
    const struct gm_residency_object *object = gm_residency_find(r, number);
    if (!object)
        return GPUMEM_NOT_FOUND;
    if (!is_to_be_moved(object))
        return GM_OK;
    if (!call->places) {
        gm_residency_begin_placing(r, call);
        return prefetch(r, call, number);
    }
    gm_status status = begin_uses(r, &use, 1);
    if (status)
        return status;
    status = object->resident ? GM_OK : place(r, &r->objects[(uint32_t)number - 1], true);
    if (!status)
        status = fill_all(r, &use, 1);
    undo_uses(r, &use, 1);
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_residency_prefetch(struct gpumem_residency *r, const uint64_t *objects,
                                                       size_t count, size_t *started) {
    GM_NEED_AS(r, "residency");
    GM_NEED_ARRAY(objects, count);
    struct gm_residency_call call;
    size_t done = 0;
    gm_status status = gm_residency_enter(r, &call, false);
    if (status)
        return status;
    while (done < count && !(status = prefetch(r, &call, objects[done])))
        done++;
    gm_residency_leave(r, &call);
    if (started)
        *started = done;
    return status == GM_OUT_OF_MEMORY ? GPUMEM_OK : status;
}

GM_PUBLIC enum gpumem_status gpumem_residency_parts(struct gpumem_residency *r, uint64_t number, void **addresses,
                                                    size_t count) {
    GM_NEED_AS(r, "residency");
    GM_NEED_ARRAY(addresses, count);
    gm_status status = GM_OK;
    pthread_mutex_lock(&r->state);
    const struct gm_residency_object *object = gm_residency_find(r, number);
    if (!object)
        status = GPUMEM_NOT_FOUND;
    else if (!gm_in_use(object) || !object->resident)
        status = gm_fail(GM_INVALID_VALUE, "object %llu is not in use and has no address", (unsigned long long)number);
    else if (count > object->part_count)
        status = gm_fail(GM_INVALID_VALUE, "object %llu has %zu parts, not %zu", (unsigned long long)number,
                         object->part_count, count);
    for (size_t i = 0, offset = 0; !status && i < count; offset += object->parts[i++].bytes)
        addresses[i] = (void *)(uintptr_t)(object->copy->address + offset);
    pthread_mutex_unlock(&r->state);
    return status;
}
