/* Per-thread memory for what is larger than a few words.
 *
 * The thread-local variables of libraries that are loaded late come out of one small reserve of the process (glibc's
 * static TLS surplus). When it is used up, dlopen fails. So gpumem has thread-local variables only for what each call
 * needs, and for a pointer to this memory. The memory is zeroed, created at the first use, and reused by later
 * threads. */
#ifndef GM_ROOM_H
#define GM_ROOM_H

#include "shim/base/base.h"

/* The parts, and the bytes that each has: multiples of 8. */
struct gm_room_parts {
    char clock[32], trace[64], sites[288], ranges[288], error[352], named[512], halves[128], samples[64], making[448],
        moment[8], tags[264];
};
enum gm_room_part {
    GM_ROOM_CLOCK = offsetof(struct gm_room_parts, clock),
    GM_ROOM_TRACE = offsetof(struct gm_room_parts, trace),
    GM_ROOM_SITES = offsetof(struct gm_room_parts, sites),
    GM_ROOM_RANGES = offsetof(struct gm_room_parts, ranges),
    GM_ROOM_ERROR = offsetof(struct gm_room_parts, error),
    GM_ROOM_NAMED = offsetof(struct gm_room_parts, named),
    GM_ROOM_HALVES = offsetof(struct gm_room_parts, halves),
    GM_ROOM_SAMPLES = offsetof(struct gm_room_parts, samples),
    GM_ROOM_MAKING = offsetof(struct gm_room_parts, making),
    GM_ROOM_MOMENT = offsetof(struct gm_room_parts, moment),
    GM_ROOM_TAGS = offsetof(struct gm_room_parts, tags),
    GM_ROOM_BYTES = sizeof(struct gm_room_parts),
};
/* Stands behind the type of what a part holds. */
#define GM_ROOM_FITS(type, part) \
    _Static_assert(sizeof(type) <= sizeof(((struct gm_room_parts *)NULL)->part), "a part of the thread's memory")

GM_INTERNAL extern __thread char *gm_room __attribute__((tls_model("initial-exec")));
GM_INTERNAL char *gm_room_take(void);

/* This thread's part. NULL: the kernel gives no memory. */
static inline void *gm_room_part(enum gm_room_part part) {
    char *room = GM_LIKELY(gm_room != NULL) ? gm_room : gm_room_take();
    return GM_LIKELY(room != NULL) ? room + part : NULL;
}
/* The same, but returns NULL when the thread has no memory yet. */
static inline void *gm_room_part_known(enum gm_room_part part) { return gm_room ? gm_room + part : NULL; }

/* Calls leave(part) in each ending thread that has per-thread memory. Only GM_ROOM_TRACE and GM_ROOM_NAMED can be
 * registered. */
GM_INTERNAL void gm_room_on_leave(enum gm_room_part part, void (*leave)(void *part));

#endif
