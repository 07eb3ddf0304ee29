/* Instantiated graphs whose kernels get pointers to guarded blocks. A graph is read when it is instantiated or updated
 * as a whole; a graph of which the program changes single nodes afterwards is forgotten. */
#ifndef GM_HOOK_GUARD_GRAPHS_H
#define GM_HOOK_GUARD_GRAPHS_H

#include "shim/driver/driver.h"
#include "shim/explain/access.h"

/* The instance was made from the graph, or updated by it. */
GM_INTERNAL void gm_guard_graph_read(CUgraphExec instance, CUgraph graph);
GM_INTERNAL void gm_guard_graph_forget(CUgraphExec instance); /* NULL: all of them */
/* Before a launch at launch->site: explains pointers to freed memory, and adds the kernels' pointers to *launch. */
GM_INTERNAL void gm_guard_graph_look(CUgraphExec instance, struct gm_launch *launch);
GM_INTERNAL void gm_guard_graphs_after_fork(void);

#endif
