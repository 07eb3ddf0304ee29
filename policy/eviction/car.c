/* car: Clock with Adaptive Replacement (Bansal and Modha, FAST 2004, figure 2), with bytes for its numbers of pages.
 *
 * Two clocks hold what is on the device: T1 what was used once lately, T2 what was used again. Two lists remember what
 * they evicted: B1 and B2. A use of a remembered object of B1 raises the target p of T1, one of B2 lowers it. Line
 * numbers are the figure's. A clock is a list whose oldest object the hand points to. Hands pass pinned objects. */
#include "policy/eviction/instance.h"

enum { T1, T2, B1, B2 };

static size_t car_state_bytes(uint32_t objects, uint32_t window) { return sizeof(uint64_t); }

/* Bytes that T1 should have. */
static uint64_t *target(const struct gm_eviction *e) { return e->state; }

static void forget_oldest(struct gm_eviction *e, unsigned list) { gm_list_take(e, gm_list_oldest(e, list)); }

/* Lines 6 to 11: room in the history for an object of which nothing is remembered. */
static void trim_history(struct gm_eviction *e, uint64_t bytes) {
    const uint64_t *has = e->list_bytes, capacity = e->setup.capacity;
    while (has[T1] + has[B1] + bytes > capacity && !gm_list_empty(e, B1))
        forget_oldest(e, B1);
    while (has[T1] + has[T2] + has[B1] + has[B2] + bytes > 2 * capacity && !gm_list_empty(e, B2))
        forget_oldest(e, B2);
}

/* max(1, other / own) pages of `bytes`; own is not 0 since the object is in it. */
static uint64_t step(uint64_t bytes, uint64_t other, uint64_t own) {
    return other > own ? (uint64_t)((double)bytes * (double)other / (double)own) : bytes;
}

static void adapt(struct gm_eviction *e, const struct gm_eviction_object *object) {
    const uint64_t *has = e->list_bytes, p = *target(e);
    if (object->list == B1) { /* line 15 */
        const uint64_t more = p + step(object->bytes, has[B2], has[B1]);
        *target(e) = more < e->setup.capacity ? more : e->setup.capacity;
    } else { /* line 18 */
        const uint64_t less = step(object->bytes, has[B1], has[B2]);
        *target(e) = p > less ? p - less : 0;
    }
}

static void car_insert(struct gm_eviction *e, uint32_t object) {
    struct gm_eviction_object *o = &e->objects[object];
    const bool remembered = o->listed;
    if (remembered) {
        adapt(e, o);
        gm_list_take(e, object);
    } else {
        trim_history(e, o->bytes);
    }
    o->referenced = false;
    gm_list_push(e, remembered ? T2 : T1, object); /* lines 13, 16, 19 */
}

static void car_hit(struct gm_eviction *e, uint32_t object) { e->objects[object].referenced = true; }

static void remove_object(struct gm_eviction *e, uint32_t object, bool evicted) {
    const unsigned from = e->objects[object].list;
    gm_list_take(e, object);
    if (evicted)
        gm_list_push(e, from == T1 ? B1 : B2, object); /* lines 27, 34 */
}

/* replace(), lines 22 to 39: each turn answers, or takes the reference of one object. */
static uint32_t car_choose(struct gm_eviction *e) {
    for (;;) {
        const uint32_t once = gm_list_oldest_evictable(e, T1), again = gm_list_oldest_evictable(e, T2);
        const uint64_t least = *target(e) ? *target(e) : 1;
        const bool from_once =
            once != gm_list_head(e, T1) && (e->list_bytes[T1] >= least || again == gm_list_head(e, T2));
        const uint32_t object = from_once ? once : again;
        if (!e->objects[object].referenced)
            return object;
        e->objects[object].referenced = false;
        gm_list_take(e, object);
        gm_list_push(e, T2, object);
    }
}

const struct gm_eviction_policy gm_eviction_car = {
    .name = "car",
    .source = "Bansal and Modha, FAST 2004, figure 2",
    .state_bytes = car_state_bytes,
    .insert = car_insert,
    .hit = car_hit,
    .remove = remove_object,
    .choose = car_choose,
};
