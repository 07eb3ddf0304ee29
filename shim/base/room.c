/* Per-thread memory: fixed-size pieces from a list of unused ones. A piece returns to the list when its thread ends
 * (room.h). */
#include "shim/base/room.h"

#include <string.h>

#include "shim/base/nodes.h"
#include "shim/base/real_dl.h"

__thread char *gm_room __attribute__((tls_model("initial-exec")));

GM_LOCK(lock);
static gm_nodes unused;
enum { LEAVING = 2 };
static const enum gm_room_part leaving[LEAVING] = {GM_ROOM_TRACE, GM_ROOM_NAMED};
static void (*callbacks[LEAVING])(void *part);

void gm_room_on_leave(enum gm_room_part part, void (*leave)(void *part)) {
    for (unsigned i = 0; i < LEAVING; i++)
        if (leaving[i] == part)
            __atomic_store_n(&callbacks[i], leave, __ATOMIC_RELEASE);
}

/* A destructor of the program may run later and take per-thread memory again. Then this function runs again. */
static void leave_room(void *room) {
    gm_room = NULL;
    for (unsigned i = 0; i < LEAVING; i++) {
        void (*leave)(void *) = __atomic_load_n(&callbacks[i], __ATOMIC_ACQUIRE);
        if (leave)
            leave((char *)room + leaving[i]);
    }
    memset(room, 0, GM_ROOM_BYTES);
    gm_spin_lock(&lock);
    gm_node_give(&unused, room);
    gm_spin_unlock(&lock);
}

char *gm_room_take(void) {
    gm_spin_lock(&lock);
    char *room = gm_node_take(&unused, GM_ROOM_BYTES, &lock);
    gm_spin_unlock(&lock);
    if (!room)
        return NULL;
    *(void **)room = NULL;
    gm_room = room;
    (void)gm_thread_at_exit(leave_room, room); /* if this fails, the memory is leaked when the thread ends */
    return gm_room;
}
