/* Which object leaves the device when memory is short.
 *
 * One row for each policy. `lru` and `preprotected_lru` are algorithms 1 and 2 of memhc (5.4); `random`, `mru`, `car`
 * and `clock_pro` are those that the paper compares with (6.4), `car` after Bansal and Modha (CAR: Clock with Adaptive
 * Replacement, FAST 2004, figure 2) and `clock_pro` after Jiang, Chen and Zhang (CLOCK-Pro, USENIX 2005, section 4).
 * `window` is ours: Belady's rule within the announced vector.
 *
 * Objects are numbers below setup.objects that the caller gives and keeps: an object that comes back has the number it
 * had before, which is how `car` and `clock_pro` know what they evicted. Bytes may differ from object to object.
 *
 * The caller keeps the memory; an instance only orders it. Per object: insert, hit at each later use, pin while in use,
 * remove. While a new object does not fit: choose a victim, write it back and free it, remove it with evicted = true.
 * An instance has no lock: the caller serialises. All its memory is one block, taken at open. Every call ends after a
 * bounded number of steps: hit is constant, the others grow with the objects on the device and remembered, choose also
 * with the pinned ones.
 *
 * Each call gives GM_INVALID_VALUE, and changes nothing, for an object that is out of range. */
#ifndef GM_EVICTION_H
#define GM_EVICTION_H

#include "policy/policy.h"

struct gm_eviction;

struct gm_eviction_policy {
    const char *name;
    const char *source; /* paper and section */
    /* Memory of the row beside the list of objects; NULL: none. */
    size_t (*state_bytes)(uint32_t objects, uint32_t window);
    void (*open)(struct gm_eviction *eviction); /* may be NULL */
    void (*insert)(struct gm_eviction *eviction, uint32_t object);
    /* As insert, ahead of the use; NULL: as insert. */
    void (*insert_ahead)(struct gm_eviction *eviction, uint32_t object);
    void (*hit)(struct gm_eviction *eviction, uint32_t object);
    void (*remove)(struct gm_eviction *eviction, uint32_t object, bool evicted);
    void (*announce)(struct gm_eviction *eviction, const uint32_t *vector, uint32_t count); /* may be NULL */
    /* Called only while some resident object is not pinned; answers such a one. */
    uint32_t (*choose)(struct gm_eviction *eviction);
};

/* All rows, ended by NULL. */
extern const struct gm_eviction_policy *const gm_eviction_policies[];

/* NULL: no row has that name. */
const struct gm_eviction_policy *gm_eviction_find(const char *name);

struct gm_eviction_setup {
    const struct gm_eviction_policy *policy;
    uint32_t objects;                            /* different objects there may ever be, below UINT32_MAX - 4 */
    uint32_t window;                             /* longest vector that is announced */
    uint64_t capacity;                           /* bytes that fit on the device: `car` and `clock_pro` divide them */
    uint64_t seed;                               /* of `random` */
    void *(*allocate)(size_t bytes, void *user); /* any content; NULL from it: no memory */
    void (*release)(void *memory, size_t bytes, void *user);
    void *user;
};

/* Written to *made only on success. GM_INVALID_VALUE: no policy or allocator, or no or too many objects;
 * GM_OUT_OF_MEMORY: the allocator has none. */
gm_status gm_eviction_open(const struct gm_eviction_setup *setup, struct gm_eviction **made);

/* Gives the memory back. NULL is allowed. */
void gm_eviction_close(struct gm_eviction *eviction);

/* The object is on the device now, by a use that missed it. GM_INVALID_VALUE: it is there already, or bytes is 0. */
gm_status gm_eviction_insert(struct gm_eviction *eviction, uint32_t object, uint64_t bytes);

/* The object is on the device now, ahead of a use, which will be a hit. Otherwise as gm_eviction_insert(). */
gm_status gm_eviction_insert_ahead(struct gm_eviction *eviction, uint32_t object, uint64_t bytes);

/* A use found the object. GM_INVALID_VALUE: it is not on the device. */
gm_status gm_eviction_hit(struct gm_eviction *eviction, uint32_t object);

/* A pinned object is never chosen. Pins nest. GM_INVALID_VALUE: not on the device, or unpinned more often than pinned.
 */
gm_status gm_eviction_pin(struct gm_eviction *eviction, uint32_t object);
gm_status gm_eviction_unpin(struct gm_eviction *eviction, uint32_t object);

/* The object has left the device: evicted, or (false) ended by the program, which leaves no memory of it.
 * GM_INVALID_VALUE: it is not there, or it is pinned. */
gm_status gm_eviction_remove(struct gm_eviction *eviction, uint32_t object, bool evicted);

/* The next uses in their order; they replace what was announced before. Nothing moves. Policies that do not look ahead
 * ignore it. GM_INVALID_VALUE: more than setup.window, or an object out of range. */
gm_status gm_eviction_announce(struct gm_eviction *eviction, const uint32_t *vector, uint32_t count);

/* The object to evict next; it stays until it is removed. Another call may choose another one. GM_NOT_SUPPORTED:
 * nothing on the device can be evicted. */
gm_status gm_eviction_choose(struct gm_eviction *eviction, uint32_t *victim);

/* What is on the device. */
uint32_t gm_eviction_resident_objects(const struct gm_eviction *eviction);
uint64_t gm_eviction_resident_bytes(const struct gm_eviction *eviction);

#endif
