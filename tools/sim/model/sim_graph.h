/* Graphs and captures of the simulated driver. A node keeps the operation that a launch submits a copy of. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "sim.h"

#define GRAPH_MAGIC 0x47525031u
struct CUgraphNode_st {
    struct CUgraph_st *graph;
    struct sim_op *op; /* owned; NULL: event wait and empty nodes */
    CUgraphNodeType type;
    struct CUgraphNode_st **deps;
    unsigned dep_count;
    struct CUgraph_st *child;
    void **parameters; /* kernel: addresses of its parameters, for a caller that reads them; NULL: nobody did */
    struct CUgraphNode_st *copy; /* scratch of cloning */
    struct CUgraphNode_st *next;
};
struct CUgraph_st {
    unsigned magic;
    struct CUgraphNode_st *first, *last;
};
struct CUgraphExec_st {
    unsigned magic;
    struct CUgraph_st *graph; /* own clone */
    unsigned long long flags;
};
struct sim_capture {
    uint64_t id;
    CUstreamCaptureMode mode;
    struct CUgraph_st *graph;
    bool own_graph, invalid;
    unsigned thread;
    struct sim_capture *next;
};
struct CUgraph_st *sim_graph_new(void);
void sim_graph_delete(struct CUgraph_st *g);
struct CUgraph_st *sim_graph_clone(struct CUgraph_st *g);
/* Takes ownership of op. */
struct CUgraphNode_st *sim_graph_add(struct CUgraph_st *g, struct sim_op *op, CUgraphNodeType type,
                                     struct CUgraphNode_st *const *deps, size_t count);
CUresult sim_graph_alloc(CUdeviceptr *dptr, size_t bytes, struct sim_stream *s);
CUresult sim_graph_free(struct sim_block *b, struct sim_stream *s);
struct sim_op *sim_launch_op(CUfunction f, const unsigned grid[3], const unsigned block[3], unsigned shared,
                             void **kernelParams, void **extra, CUresult *result);

#endif
