/* clock_pro: CLOCK-Pro (Jiang, Chen and Zhang, USENIX 2005, section 4), with bytes for its numbers of pages.
 *
 * One clock holds hot objects, cold ones, and cold ones that were evicted within their test period. A cold object that
 * is used again in its test period becomes hot. The target of the cold objects grows by an object that is used in its
 * test period, on the device or evicted, and shrinks by one whose test period ends without a use. The hot objects get
 * the rest of the capacity. The target starts at 0, which is our choice.
 *
 * hand_cold looks for the victim, hand_hot turns hot objects cold and ends the test periods that it passes, hand_test
 * ends test periods while more than the capacity is remembered. The clock's head is just behind hand_hot. hand_cold
 * passes pinned objects. Where the cold objects are all pinned, hand_hot provides more. */
#include "policy/eviction/instance.h"

struct state {
    uint64_t cold_target, hot_bytes;
    uint32_t hand_hot, hand_cold, hand_test; /* the list's head counts as a place to skip */
};

static size_t clock_pro_state_bytes(uint32_t objects, uint32_t window) { return sizeof(struct state); }

static struct state *state_of(const struct gm_eviction *e) { return e->state; }

static void clock_pro_open(struct gm_eviction *e) {
    const uint32_t head = gm_list_head(e, 0);
    *state_of(e) = (struct state){.hand_hot = head, .hand_cold = head, .hand_test = head};
}

static bool is_object(const struct gm_eviction *e, uint32_t place) { return place != gm_list_head(e, 0); }

static uint32_t after(const struct gm_eviction *e, uint32_t place) { return e->objects[place].next; }

/* Out of the clock; hands that point to it go on. */
static void unlink_object(struct gm_eviction *e, uint32_t object) {
    struct state *s = state_of(e);
    uint32_t *hands[] = {&s->hand_hot, &s->hand_cold, &s->hand_test};
    for (unsigned i = 0; i < 3; i++) {
        if (*hands[i] == object)
            *hands[i] = after(e, object);
    }
    gm_list_take(e, object);
}

static void move_to_head(struct gm_eviction *e, uint32_t object) {
    unlink_object(e, object);
    gm_list_insert(e, 0, state_of(e)->hand_hot, object);
}

/* An object that was used in its test period asks for more room for cold ones, another one for less. Both kinds keep
 * room for an object of this size. */
static void adapt(struct gm_eviction *e, uint64_t bytes, bool used) {
    uint64_t *target = &state_of(e)->cold_target;
    if (used && *target + 2 * bytes <= e->setup.capacity)
        *target += bytes;
    else if (!used && *target >= 2 * bytes)
        *target -= bytes;
}

/* The test period is over: an evicted object is forgotten. */
static void end_test(struct gm_eviction *e, uint32_t object) {
    struct gm_eviction_object *o = &e->objects[object];
    o->in_test = false;
    adapt(e, o->bytes, o->referenced);
    if (!o->resident)
        unlink_object(e, object);
}

static void set_hot(struct gm_eviction *e, uint32_t object, bool hot) {
    struct state *s = state_of(e);
    struct gm_eviction_object *o = &e->objects[object];
    s->hot_bytes += hot ? o->bytes : -o->bytes;
    o->hot = hot;
    o->in_test = o->referenced = false;
}

/* One step of hand_hot. */
static void run_hot(struct gm_eviction *e) {
    struct state *s = state_of(e);
    const uint32_t object = s->hand_hot;
    s->hand_hot = after(e, object);
    if (!is_object(e, object))
        return;
    struct gm_eviction_object *o = &e->objects[object];
    if (o->hot && o->referenced)
        o->referenced = false;
    else if (o->hot)
        set_hot(e, object, false);
    else if (o->in_test)
        end_test(e, object);
}

/* One step of hand_test. */
static void run_test(struct gm_eviction *e) {
    struct state *s = state_of(e);
    const uint32_t object = s->hand_test;
    s->hand_test = after(e, object);
    if (is_object(e, object) && !e->objects[object].hot && e->objects[object].in_test)
        end_test(e, object);
}

/* Turns hot objects cold until they take their share only: two rounds at most, one of them to clear references. */
static void balance(struct gm_eviction *e) {
    struct state *s = state_of(e);
    while (s->hot_bytes && s->hot_bytes > e->setup.capacity - s->cold_target)
        run_hot(e);
}

static void clock_pro_insert(struct gm_eviction *e, uint32_t object) {
    struct state *s = state_of(e);
    struct gm_eviction_object *o = &e->objects[object];
    const bool comes_back = o->listed;
    if (comes_back) {
        adapt(e, o->bytes, true);
        unlink_object(e, object);
    }
    o->hot = o->referenced = false;
    o->in_test = true;
    gm_list_insert(e, 0, s->hand_hot, object);
    if (comes_back) {
        set_hot(e, object, true);
        balance(e);
    }
}

static void clock_pro_hit(struct gm_eviction *e, uint32_t object) { e->objects[object].referenced = true; }

static void remove_object(struct gm_eviction *e, uint32_t object, bool evicted) {
    struct gm_eviction_object *o = &e->objects[object];
    o->referenced = false;
    if (o->hot)
        set_hot(e, object, false);
    if (!evicted || !o->in_test) {
        o->in_test = false;
        unlink_object(e, object);
        return;
    }
    while (e->list_bytes[0] - e->resident_bytes > e->setup.capacity)
        run_test(e);
}

/* A cold object that was used: hot if it was in its test period, else the test period begins. */
static void keep_used(struct gm_eviction *e, uint32_t object) {
    struct gm_eviction_object *o = &e->objects[object];
    const bool proved = o->in_test;
    o->referenced = false;
    o->in_test = true;
    move_to_head(e, object);
    if (proved) {
        adapt(e, o->bytes, true);
        set_hot(e, object, true);
        balance(e);
    }
}

static bool has_cold_victim(const struct gm_eviction *e) {
    uint32_t object = gm_list_oldest(e, 0);
    while (is_object(e, object) && !(gm_evictable(e, object) && !e->objects[object].hot))
        object = after(e, object);
    return is_object(e, object);
}

static uint32_t clock_pro_choose(struct gm_eviction *e) {
    struct state *s = state_of(e);
    for (;;) {
        while (!has_cold_victim(e))
            run_hot(e);
        const uint32_t object = s->hand_cold;
        if (!is_object(e, object) || !gm_evictable(e, object) || e->objects[object].hot)
            s->hand_cold = after(e, object);
        else if (e->objects[object].referenced)
            keep_used(e, object);
        else
            return object;
    }
}

const struct gm_eviction_policy gm_eviction_clock_pro = {
    .name = "clock_pro",
    .source = "Jiang, Chen and Zhang, USENIX 2005, section 4",
    .state_bytes = clock_pro_state_bytes,
    .open = clock_pro_open,
    .insert = clock_pro_insert,
    .hit = clock_pro_hit,
    .remove = remove_object,
    .choose = clock_pro_choose,
};
