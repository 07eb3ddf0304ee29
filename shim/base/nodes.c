/* Pages of the kernel cut into nodes. */
#include "shim/base/nodes.h"

#ifndef GM_NODES_BYTES /* fewer in the explorer of interleavings, whose states include them */
#define GM_NODES_BYTES 65536
#endif

void *gm_node_take(gm_nodes *unused, size_t size, gm_spin *lock) {
    const size_t bytes = GM_NODES_BYTES;
    if (!unused->first) {
        gm_spin_unlock(lock);
        char *pages = gm_pages(bytes);
        gm_spin_lock(lock);
        for (size_t at = 0; pages && at + size <= bytes; at += size)
            gm_node_give(unused, pages + at);
    }
    void *node = unused->first;
    if (node)
        unused->first = *(void **)node;
    return node;
}
