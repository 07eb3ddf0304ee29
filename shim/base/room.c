/* Per-thread memory: fixed-size pieces from a list of unused ones. A piece returns to the list when its thread ends
 * (room.h). */
#include "shim/base/room.h"

#include <string.h>

#include "shim/base/real_dl.h"

enum { SLAB = 64 * 1024 };

union room {
    union room *next;
    char bytes[GM_ROOM_BYTES];
};

__thread char *gm_room __attribute__((tls_model("initial-exec")));

static gm_spin lock;
static union room *unused;
enum { LEAVING = 2 };
static const enum gm_room_part leaving[LEAVING] = {GM_ROOM_TRACE, GM_ROOM_NAMED};
static void (*callbacks[LEAVING])(void *part);

void gm_room_on_leave(enum gm_room_part part, void (*leave)(void *part)) {
    for (unsigned i = 0; i < LEAVING; i++)
        if (leaving[i] == part)
            __atomic_store_n(&callbacks[i], leave, __ATOMIC_RELEASE);
}

/* A destructor of the program may run later and take per-thread memory again. Then this function runs again. */
static void leave_room(void *ended) {
    union room *room = ended;
    gm_room = NULL;
    for (unsigned i = 0; i < LEAVING; i++) {
        void (*leave)(void *) = __atomic_load_n(&callbacks[i], __ATOMIC_ACQUIRE);
        if (leave)
            leave(room->bytes + leaving[i]);
    }
    memset(room, 0, sizeof *room);
    gm_spin_lock(&lock);
    room->next = unused;
    unused = room;
    gm_spin_unlock(&lock);
}

static void add_rooms(void) {
    union room *slab = gm_pages(SLAB);
    for (size_t i = 0; slab && i < SLAB / sizeof *slab; i++) {
        slab[i].next = unused;
        unused = &slab[i];
    }
}

char *gm_room_take(void) {
    gm_spin_lock(&lock);
    if (!unused)
        add_rooms();
    union room *room = unused;
    if (room)
        unused = room->next;
    gm_spin_unlock(&lock);
    if (!room)
        return NULL;
    room->next = NULL;
    gm_room = room->bytes;
    (void)gm_thread_at_exit(leave_room, room); /* if this fails, the memory is leaked when the thread ends */
    return gm_room;
}

void gm_room_after_fork(void) { lock.held = 0; }
