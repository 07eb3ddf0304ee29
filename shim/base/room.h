/* Per-thread memory for what is larger than a few words.
 *
 * The thread-local variables of libraries that are loaded late come out of one small reserve of the process (glibc's
 * static TLS surplus). When it is used up, dlopen fails. So gpumem has thread-local variables only for what each call
 * needs, and for a pointer to this memory. The memory is zeroed, created at the first use, and reused by later
 * threads. */
#ifndef GM_ROOM_H
#define GM_ROOM_H

#include "shim/base/base.h"

/* Offsets of the parts. */
enum gm_room_part {
    GM_ROOM_CLOCK = 0,
    GM_ROOM_TRACE = 32,
    GM_ROOM_SITES = 96,
    GM_ROOM_RANGES = 384,
    GM_ROOM_ERROR = 672,
    GM_ROOM_NAMED = 1024,
    GM_ROOM_HALVES = 1536,
    GM_ROOM_SAMPLES = 1664,
    GM_ROOM_MAKING = 1728,
    GM_ROOM_BYTES = 2176,
};

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
