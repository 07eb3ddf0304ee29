/* Instances of graphs: a launch submits the nodes, each after those it depends on, to one stream. */
#include "sim_graph.h"
#include <stdlib.h>
#include <string.h>

#define EXEC_MAGIC 0x47455831u

static bool valid(CUgraphExec x) { return x && x->magic == EXEC_MAGIC; }

static CUresult instantiate(CUgraphExec *out, CUgraph g, unsigned long long flags) {
    if (!out || !g || g->magic != GRAPH_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec x = calloc(1, sizeof *x);
    *x = (struct CUgraphExec_st){.magic = EXEC_MAGIC, .graph = sim_graph_clone(g), .flags = flags};
    *out = x;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags) {
    return instantiate(out, g, flags);
}

CUresult sim_cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = instantiate(out, g, p->flags);
    p->hErrNode_out = NULL;
    p->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return r;
}

CUresult sim_cuGraphInstantiate_v2(CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log, size_t size) {
    if (error)
        *error = NULL;
    if (log && size)
        *log = 0;
    return instantiate(out, g, 0);
}

CUresult sim_cuGraphInstantiate(CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log, size_t size) {
    return sim_cuGraphInstantiate_v2(out, g, error, log, size);
}

CUresult sim_cuGraphExecDestroy(CUgraphExec x) {
    if (!valid(x))
        return CUDA_ERROR_INVALID_VALUE;
    sim_graph_delete(x->graph);
    x->magic = 0;
    free(x);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecGetFlags(CUgraphExec x, cuuint64_t *flags) {
    if (!valid(x) || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = x->flags;
    return CUDA_SUCCESS;
}

static bool same_shape(CUgraph a, CUgraph b) {
    CUgraphNode x = a->first, y = b->first;
    for (; x && y && x->type == y->type && x->dep_count == y->dep_count; x = x->next, y = y->next)
        ;
    return !x && !y;
}

CUresult sim_cuGraphExecUpdate_v2(CUgraphExec x, CUgraph g, CUgraphExecUpdateResultInfo *info) {
    if (!valid(x) || !g || !info)
        return CUDA_ERROR_INVALID_VALUE;
    memset(info, 0, sizeof *info);
    info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (!same_shape(x->graph, g)) {
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    struct CUgraph_st *fresh = sim_graph_clone(g);
    sim_graph_delete(x->graph);
    x->graph = fresh;
    return CUDA_SUCCESS;
}

/* A node names addresses. Mapped memory may have been unmapped since, and other memory mapped there. */
static struct sim_op *clone_now(const struct sim_op *from) {
    struct sim_op *op = sim_op_clone(from);
    for (unsigned i = 0; i < op->range_count; i++) {
        struct sim_range *r = &op->ranges[i];
        struct sim_block *now = r->block->kind == KIND_VMM ? sim_block_at(r->addr) : NULL;
        if (!now || now->kind != KIND_VMM || r->size > now->size - (r->addr - now->addr))
            continue;
        now->refs++;
        sim_block_unref(r->block);
        r->block = now;
    }
    return op;
}

/* Nodes with all dependencies submitted follow; a graph has no cycles, so that each round makes progress. */
static CUresult submit_all(struct CUgraph_st *g, struct sim_stream *s) {
    bool left, progress;
    for (CUgraphNode n = g->first; n; n = n->next)
        n->copy = NULL;
    do {
        left = progress = false;
        for (CUgraphNode n = g->first; n; n = n->next) {
            bool ready = !n->copy;
            for (unsigned i = 0; i < n->dep_count; i++)
                ready &= n->deps[i]->copy != NULL;
            left |= !n->copy;
            if (!ready)
                continue;
            n->copy = n;
            progress = true;
            if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
                sim_block_untrim(n->op->u.block);
            if (n->child)
                SIM_TRY(submit_all(n->child, s));
            if (n->op)
                SIM_TRY(sim_submit(s, clone_now(n->op)));
        }
    } while (left && progress);
    return left ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Memory that was trimmed comes back. */
static bool has_room(struct CUgraph_st *g) {
    uint64_t bytes = 0;
    struct sim_device *device = NULL;
    for (CUgraphNode n = g->first; n; n = n->next) {
        const struct sim_block *b = n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? n->op->u.block : NULL;
        if (n->child && !has_room(n->child))
            return false;
        if (!b || !b->trimmed)
            continue;
        device = b->device;
        bytes += b->reserved;
    }
    return !bytes || sim_has_room(device, bytes);
}

static bool blocks_unfreed(struct CUgraph_st *g) {
    for (CUgraphNode n = g->first; n; n = n->next) {
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && n->op->u.block->state == STATE_LIVE)
            return true;
    }
    return false;
}

CUresult sim_cuGraphLaunch(CUgraphExec x, CUstream hStream) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    if (!valid(x))
        return CUDA_ERROR_INVALID_VALUE;
    bool auto_free = x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    if (!auto_free && blocks_unfreed(x->graph))
        return CUDA_ERROR_INVALID_VALUE;
    if (!has_room(x->graph))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return submit_all(x->graph, s);
}

CUresult sim_cuGraphUpload(CUgraphExec x, CUstream hStream) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    return valid(x) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
