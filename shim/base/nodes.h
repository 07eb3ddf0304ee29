#ifndef GM_NODES_H
#define GM_NODES_H

#include "shim/base/base.h"

/* A list of unused nodes of one size, whose first word links them. Zeroed memory is an empty list. The caller holds the
 * lock. */
typedef struct {
    void *first;
} gm_nodes;
/* The node that was given last, or a new one; NULL: the kernel has no memory. The lock is released for its call. */
GM_INTERNAL void *gm_node_take(gm_nodes *unused, size_t size, gm_spin *lock);
static inline void gm_node_give(gm_nodes *unused, void *node) {
    *(void **)node = unused->first;
    unused->first = node;
}

#endif
