/* Instances: every call is checked here once, so that rows see only what can be. */
#include "policy/eviction/instance.h"

#include <string.h>

static size_t objects_bytes(const struct gm_eviction_setup *setup) {
    return sizeof(struct gm_eviction) +
           ((size_t)setup->objects + GM_EVICTION_LISTS) * sizeof(struct gm_eviction_object);
}

gm_status gm_eviction_open(const struct gm_eviction_setup *setup, struct gm_eviction **made) {
    const struct gm_eviction_policy *policy = setup->policy;
    if (!policy || !setup->allocate || !setup->release || !setup->objects ||
        setup->objects >= UINT32_MAX - GM_EVICTION_LISTS)
        return GM_INVALID_VALUE;
    const size_t own = objects_bytes(setup);
    const size_t memory = own + (policy->state_bytes ? policy->state_bytes(setup->objects, setup->window) : 0);
    struct gm_eviction *e = setup->allocate(memory, setup->user);
    if (!e)
        return GM_OUT_OF_MEMORY;
    memset(e, 0, memory);
    e->setup = *setup;
    e->memory = memory;
    e->state = (char *)e + own;
    for (unsigned list = 0; list < GM_EVICTION_LISTS; list++) {
        const uint32_t head = gm_list_head(e, list);
        e->objects[head].next = e->objects[head].previous = head;
    }
    if (policy->open)
        policy->open(e);
    *made = e;
    return GM_OK;
}

void gm_eviction_close(struct gm_eviction *e) {
    if (e)
        e->setup.release(e, e->memory, e->setup.user);
}

static bool is_resident(const struct gm_eviction *e, uint32_t object) {
    return object < e->setup.objects && e->objects[object].resident;
}

static gm_status insert_object(struct gm_eviction *e, uint32_t object, uint64_t bytes,
                               void (*by)(struct gm_eviction *, uint32_t)) {
    if (object >= e->setup.objects || e->objects[object].resident || !bytes)
        return GM_INVALID_VALUE;
    struct gm_eviction_object *o = &e->objects[object];
    if (o->listed) /* remembered, perhaps with another size */
        e->list_bytes[o->list] += bytes - o->bytes;
    o->bytes = bytes;
    o->resident = true;
    by(e, object);
    e->resident++;
    e->evictable++;
    e->resident_bytes += bytes;
    return GM_OK;
}

gm_status gm_eviction_insert(struct gm_eviction *e, uint32_t object, uint64_t bytes) {
    return insert_object(e, object, bytes, e->setup.policy->insert);
}

gm_status gm_eviction_insert_ahead(struct gm_eviction *e, uint32_t object, uint64_t bytes) {
    const struct gm_eviction_policy *policy = e->setup.policy;
    return insert_object(e, object, bytes, policy->insert_ahead ? policy->insert_ahead : policy->insert);
}

gm_status gm_eviction_hit(struct gm_eviction *e, uint32_t object) {
    if (!is_resident(e, object))
        return GM_INVALID_VALUE;
    e->setup.policy->hit(e, object);
    return GM_OK;
}

gm_status gm_eviction_pin(struct gm_eviction *e, uint32_t object) {
    if (!is_resident(e, object) || e->objects[object].pins == UINT32_MAX)
        return GM_INVALID_VALUE;
    if (!e->objects[object].pins++)
        e->evictable--;
    return GM_OK;
}

gm_status gm_eviction_unpin(struct gm_eviction *e, uint32_t object) {
    if (!is_resident(e, object) || !e->objects[object].pins)
        return GM_INVALID_VALUE;
    if (!--e->objects[object].pins)
        e->evictable++;
    return GM_OK;
}

gm_status gm_eviction_remove(struct gm_eviction *e, uint32_t object, bool evicted) {
    if (!is_resident(e, object) || e->objects[object].pins)
        return GM_INVALID_VALUE;
    e->objects[object].resident = false;
    e->resident--;
    e->evictable--;
    e->resident_bytes -= e->objects[object].bytes;
    e->setup.policy->remove(e, object, evicted);
    return GM_OK;
}

gm_status gm_eviction_announce(struct gm_eviction *e, const uint32_t *vector, uint32_t count) {
    if (count > e->setup.window)
        return GM_INVALID_VALUE;
    for (uint32_t i = 0; i < count; i++) {
        if (vector[i] >= e->setup.objects)
            return GM_INVALID_VALUE;
    }
    if (e->setup.policy->announce)
        e->setup.policy->announce(e, vector, count);
    return GM_OK;
}

gm_status gm_eviction_choose(struct gm_eviction *e, uint32_t *victim) {
    if (!e->evictable)
        return GM_NOT_SUPPORTED;
    *victim = e->setup.policy->choose(e);
    return GM_OK;
}

uint32_t gm_eviction_resident_objects(const struct gm_eviction *e) { return e->resident; }

uint64_t gm_eviction_resident_bytes(const struct gm_eviction *e) { return e->resident_bytes; }

void gm_list_insert(struct gm_eviction *e, unsigned list, uint32_t place, uint32_t object) {
    struct gm_eviction_object *o = &e->objects[object];
    o->next = place;
    o->previous = e->objects[place].previous;
    e->objects[o->previous].next = e->objects[place].previous = object;
    o->list = (unsigned char)list;
    o->listed = true;
    e->list_bytes[list] += o->bytes;
}

void gm_list_push(struct gm_eviction *e, unsigned list, uint32_t object) {
    gm_list_insert(e, list, gm_list_head(e, list), object);
}

void gm_list_take(struct gm_eviction *e, uint32_t object) {
    struct gm_eviction_object *o = &e->objects[object];
    if (!o->listed)
        return;
    e->objects[o->previous].next = o->next;
    e->objects[o->next].previous = o->previous;
    o->listed = false;
    e->list_bytes[o->list] -= o->bytes;
}

uint32_t gm_list_oldest_evictable(const struct gm_eviction *e, unsigned list) {
    uint32_t object = gm_list_oldest(e, list);
    while (object != gm_list_head(e, list) && !gm_evictable(e, object))
        object = e->objects[object].next;
    return object;
}

void gm_recency_insert(struct gm_eviction *e, uint32_t object) {
    gm_list_take(e, object);
    gm_list_push(e, 0, object);
}

void gm_recency_remove(struct gm_eviction *e, uint32_t object, bool evicted) { gm_list_take(e, object); }
