/* A thread's own memory, for what is more than a few words. Thread-local variables of libraries that are loaded late
 * come out of one small reserve of the process (glibc's static TLS surplus), and dlopen fails where that is used up: so
 * they are for what each call needs, and for a pointer to this. Zeroed; made at first use, used again by later threads.
 */
#ifndef GM_ROOM_H
#define GM_ROOM_H

#include "shim/base/base.h"

/* Where the parts begin. */
enum gm_room_part {
    GM_ROOM_CLOCK = 0,
    GM_ROOM_TRACE = 32,
    GM_ROOM_SITES = 96,
    GM_ROOM_RANGES = 384,
    GM_ROOM_ERROR = 672,
    GM_ROOM_BYTES = 1024,
};

GM_INTERNAL extern __thread char *gm_room __attribute__((tls_model("initial-exec")));
GM_INTERNAL char *gm_room_take(void);

/* This thread's part; NULL: the kernel gives no memory. */
static inline void *gm_room_part(enum gm_room_part part) {
    char *room = GM_LIKELY(gm_room != NULL) ? gm_room : gm_room_take();
    return GM_LIKELY(room != NULL) ? room + part : NULL;
}
/* The same; NULL, too, while the thread has none. */
static inline void *gm_room_part_known(enum gm_room_part part) { return gm_room ? gm_room + part : NULL; }

/* Calls leave(part) in each thread that ends and had a room. For one part only. */
GM_INTERNAL void gm_room_on_leave(enum gm_room_part part, void (*leave)(void *part));
GM_INTERNAL void gm_room_after_fork(void);

#endif
