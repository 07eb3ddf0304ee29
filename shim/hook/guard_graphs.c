/* A table of instances, each with its kernels as launches (guard_graphs.h). A full table takes no more of them, and
 * nothing is said of those. */
#include "shim/hook/guard_graphs.h"

#include <sys/mman.h>

#include "shim/hook/kernels.h"

enum { INSTANCES = 512, DEPTH = 8 };

struct instance {
    CUgraphExec handle; /* NULL: unused */
    unsigned count;     /* kernels with pointers to guarded blocks */
    size_t bytes;
    struct gm_launch *kernels;
};
static struct instance instances[INSTANCES];
static unsigned used; /* places that were ever used */
static gm_spin lock;

/* ---- reading */

static bool can_read(void) {
    return gm_drv.graph_get_nodes && gm_drv.graph_node_get_type && gm_drv.graph_kernel_node_get_params;
}

static CUgraphNode *nodes_of(CUgraph graph, size_t *count) {
    CUgraphNode *nodes = NULL;
    *count = 0;
    if (gm_drv.graph_get_nodes(graph, NULL, count) || !*count)
        return NULL;
    nodes = gm_pages(*count * sizeof *nodes);
    if (nodes && gm_drv.graph_get_nodes(graph, nodes, count)) {
        munmap(nodes, *count * sizeof *nodes);
        return NULL;
    }
    return nodes;
}

static bool is_child(CUgraphNode node, CUgraph *child) {
    CUgraphNodeType type;
    return gm_drv.graph_child_get && !gm_drv.graph_node_get_type(node, &type) && type == CU_GRAPH_NODE_TYPE_GRAPH &&
           !gm_drv.graph_child_get(node, child);
}

static void read_kernel(CUgraphNode node, struct instance *made) {
    struct gm_launch *kernel = &made->kernels[made->count];
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    CUgraphNodeType type;
    if (gm_drv.graph_node_get_type(node, &type) || type != CU_GRAPH_NODE_TYPE_KERNEL ||
        gm_drv.graph_kernel_node_get_params(node, &params))
        return;
    *kernel = (struct gm_launch){.of_graph = true};
    gm_kernel_read(params.func ? params.func : (CUfunction)params.kern, params.kernelParams, params.extra, false,
                   kernel);
    made->count += kernel->count > 0;
}

/* Visits the nodes of the graph and of those in it; made->kernels NULL: only counts them. */
static size_t visit(CUgraph graph, struct instance *made, unsigned depth) {
    size_t count, sum;
    CUgraphNode *nodes = nodes_of(graph, &count);
    CUgraph child;
    if (!nodes)
        return 0;
    sum = count;
    for (size_t i = 0; i < count; i++) {
        if (depth < DEPTH && is_child(nodes[i], &child))
            sum += visit(child, made, depth + 1);
        else if (made->kernels)
            read_kernel(nodes[i], made);
    }
    munmap(nodes, count * sizeof *nodes);
    return sum;
}

/* ---- the table */

/* The lock is held. */
static struct instance *find(CUgraphExec handle) {
    for (unsigned i = 0; i < used; i++)
        if (instances[i].handle == handle)
            return &instances[i];
    return NULL;
}

static void forget_graph(unsigned at, CUgraphExec handle) {
    struct instance old = {0};
    gm_spin_lock(&lock);
    if (instances[at].handle && (!handle || instances[at].handle == handle)) {
        old = instances[at];
        instances[at] = (struct instance){0};
    }
    gm_spin_unlock(&lock);
    if (old.kernels)
        munmap(old.kernels, old.bytes);
}

void gm_guard_graph_forget(CUgraphExec handle) {
    for (unsigned i = 0; i < __atomic_load_n(&used, __ATOMIC_ACQUIRE); i++)
        forget_graph(i, handle);
}

static bool store(const struct instance *made) {
    gm_spin_lock(&lock);
    struct instance *place = find(NULL);
    if (!place && used < INSTANCES)
        place = &instances[__atomic_fetch_add(&used, 1, __ATOMIC_RELEASE)];
    if (place)
        *place = *made;
    gm_spin_unlock(&lock);
    return place != NULL;
}

void gm_guard_graph_read(CUgraphExec handle, CUgraph graph) {
    struct instance made = {.handle = handle};
    gm_guard_graph_forget(handle);
    if (!can_read())
        return;
    made.bytes = visit(graph, &made, 0) * sizeof *made.kernels;
    made.kernels = made.bytes ? gm_pages(made.bytes) : NULL;
    if (!made.kernels)
        return;
    visit(graph, &made, 0);
    if (!made.count || !store(&made))
        munmap(made.kernels, made.bytes);
}

/* ---- launches */

static bool copy_kernel(CUgraphExec handle, unsigned i, struct gm_launch *kernel) {
    gm_spin_lock(&lock);
    const struct instance *found = find(handle);
    bool has = found && i < found->count;
    if (has)
        *kernel = found->kernels[i];
    gm_spin_unlock(&lock);
    return has;
}

void gm_guard_graph_look(CUgraphExec handle, struct gm_launch *launch) {
    struct gm_launch kernel;
    for (unsigned i = 0; copy_kernel(handle, i, &kernel); i++) {
        kernel.site = launch->site;
        gm_kernel_look(&kernel);
        launch->told |= kernel.told;
        launch->more += kernel.more;
        for (unsigned at = 0; at < kernel.count; at++) {
            kernel.pointers[at].argument = 0;
            gm_launch_add_pointer(launch, &kernel.pointers[at]);
        }
    }
}

void gm_guard_graphs_after_fork(void) {
    lock.held = 0;
    used = 0;
}
