/* Pages of the kernel cut into nodes. */
#include "shim/base/nodes.h"

void *gm_node_take(gm_nodes *unused, size_t size, gm_spin *lock) {
    const size_t bytes = (size_t)1 << 16;
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
