/* Graphs: nodes, instances, launches, and memory that lives in them. */
#include "sim_graph.h"
#include <stdlib.h>
#include <string.h>

static bool valid(CUgraph g) { return g && g->magic == GRAPH_MAGIC; }

struct CUgraph_st *sim_graph_new(void) {
    struct CUgraph_st *g = calloc(1, sizeof *g);
    g->magic = GRAPH_MAGIC;
    return g;
}

struct CUgraphNode_st *sim_graph_add(struct CUgraph_st *g, struct sim_op *op, CUgraphNodeType type,
                                     struct CUgraphNode_st *const *deps, size_t count) {
    CUgraphNode n = calloc(1, sizeof *n);
    *n = (struct CUgraphNode_st){.graph = g, .op = op, .type = type, .dep_count = (unsigned)count};
    n->deps = malloc((count + 1) * sizeof *n->deps);
    if (count)
        memcpy(n->deps, deps, count * sizeof *n->deps);
    if (g->last)
        g->last->next = n;
    else
        g->first = n;
    g->last = n;
    return n;
}

/* The bytes of an allocation node go when the last graph or instance that names them goes. */
static void node_delete(CUgraphNode n) {
    struct sim_block *b = n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? n->op->u.block : NULL;
    if (b)
        b->refs++;
    sim_op_free(n->op);
    if (b && b->refs == 2 && b->extent) {
        sim_block_untrim(b);
        b->device->graph_used -= b->reserved;
        sim_native_free(b);
    }
    sim_block_unref(b);
    if (n->child)
        sim_graph_delete(n->child);
    free(n->parameters);
    free(n->deps);
    free(n);
}

/* Allocation nodes last: what frees their blocks holds a reference too. */
void sim_graph_delete(struct CUgraph_st *g) {
    for (int allocations = 0; allocations < 2; allocations++) {
        for (struct CUgraphNode_st **link = &g->first; *link;) {
            CUgraphNode n = *link;
            if ((n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) != allocations) {
                link = &n->next;
                continue;
            }
            *link = n->next;
            node_delete(n);
        }
    }
    g->magic = 0;
    free(g);
}

struct CUgraph_st *sim_graph_clone(struct CUgraph_st *from) {
    struct CUgraph_st *g = sim_graph_new();
    for (CUgraphNode n = from->first; n; n = n->next) {
        n->copy = sim_graph_add(g, n->op ? sim_op_clone(n->op) : NULL, n->type, n->deps, n->dep_count);
        n->copy->child = n->child ? sim_graph_clone(n->child) : NULL;
    }
    for (CUgraphNode n = g->first; n; n = n->next) {
        for (unsigned i = 0; i < n->dep_count; i++)
            n->deps[i] = n->deps[i]->copy;
    }
    return g;
}

/* ---- building ---- */

CUresult sim_cuGraphCreate(CUgraph *phGraph, unsigned int flags) {
    if (!phGraph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *phGraph = sim_graph_new();
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphDestroy(CUgraph g) {
    if (!valid(g))
        return CUDA_ERROR_INVALID_VALUE;
    sim_graph_delete(g);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphClone(CUgraph *phGraphClone, CUgraph original) {
    if (!phGraphClone || !valid(original))
        return CUDA_ERROR_INVALID_VALUE;
    *phGraphClone = sim_graph_clone(original);
    return CUDA_SUCCESS;
}

static CUresult add(CUgraphNode *out, CUgraph g, struct sim_op *op, CUgraphNodeType type, const CUgraphNode *deps,
                    size_t count) {
    if (!out || !valid(g) || (count && !deps)) {
        sim_op_free(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = sim_graph_add(g, op, type, deps, count);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n) {
    return add(out, g, NULL, CU_GRAPH_NODE_TYPE_EMPTY, deps, n);
}

CUresult sim_cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                     const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
    CUresult r;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUfunction f = p->func ? p->func : (CUfunction)p->kern;
    if (!sim_function_valid(f))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op *op = sim_launch_op(f, (unsigned[]){p->gridDimX, p->gridDimY, p->gridDimZ},
                                      (unsigned[]){p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes,
                                      p->kernelParams, p->extra, &r);
    return op ? add(out, g, op, CU_GRAPH_NODE_TYPE_KERNEL, deps, n) : r;
}

CUresult sim_cuGraphAddKernelNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                  const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS_v2 v2 = {.func = p->func,
                                     .gridDimX = p->gridDimX,
                                     .gridDimY = p->gridDimY,
                                     .gridDimZ = p->gridDimZ,
                                     .blockDimX = p->blockDimX,
                                     .blockDimY = p->blockDimY,
                                     .blockDimZ = p->blockDimZ,
                                     .sharedMemBytes = p->sharedMemBytes,
                                     .kernelParams = p->kernelParams,
                                     .extra = p->extra};
    return sim_cuGraphAddKernelNode_v2(out, g, deps, n, &v2);
}

static bool name_known(struct sim_op *op, uintptr_t addr, size_t size) {
    return !sim_block_at(addr) || sim_op_range(op, addr, size);
}

CUresult sim_cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                  const CUDA_MEMCPY3D *p, CUcontext ctx) {
    if (!p || p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return p ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    struct sim_op *op = sim_op_new(OP_COPY);
    struct sim_copy *c = &op->u.copy;
    *c = (struct sim_copy){.width = p->WidthInBytes, .height = p->Height, .depth = p->Depth};
    c->spitch = p->srcPitch ? p->srcPitch : c->width;
    c->dpitch = p->dstPitch ? p->dstPitch : c->width;
    c->sslice = c->spitch * (p->srcHeight ? p->srcHeight : c->height);
    c->dslice = c->dpitch * (p->dstHeight ? p->dstHeight : c->height);
    c->src = (p->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)p->srcHost : (uintptr_t)p->srcDevice) +
             p->srcZ * c->sslice + p->srcY * c->spitch + p->srcXInBytes;
    c->dst = (p->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)p->dstHost : (uintptr_t)p->dstDevice) +
             p->dstZ * c->dslice + p->dstY * c->dpitch + p->dstXInBytes;
    size_t from = (c->depth - 1) * c->sslice + (c->height - 1) * c->spitch + c->width;
    size_t to = (c->depth - 1) * c->dslice + (c->height - 1) * c->dpitch + c->width;
    if (!c->width || !c->height || !c->depth || !name_known(op, c->src, from) || !name_known(op, c->dst, to)) {
        sim_op_free(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return add(out, g, op, CU_GRAPH_NODE_TYPE_MEMCPY, deps, n);
}

CUresult sim_cuGraphAddMemsetNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                  const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx) {
    if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->width || !p->height)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op *op = sim_op_new(OP_SET);
    op->u.set = (struct sim_set){p->dst, p->pitch, p->width, p->height, p->value, p->elementSize};
    if (!sim_op_range(op, p->dst, (p->height - 1) * p->pitch + p->width * p->elementSize)) {
        sim_op_free(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return add(out, g, op, CU_GRAPH_NODE_TYPE_MEMSET, deps, n);
}

CUresult sim_cuGraphAddHostNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                const CUDA_HOST_NODE_PARAMS *p) {
    if (!p || !p->fn)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op *op = sim_op_new(OP_HOST);
    op->u.host = (struct sim_host){.fn = p->fn, .data = p->userData};
    return add(out, g, op, CU_GRAPH_NODE_TYPE_HOST, deps, n);
}

CUresult sim_cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n, CUevent e) {
    if (!sim_event_valid(e))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op *op = sim_op_new(OP_EVENT);
    op->u.event = e;
    e->refs++;
    return add(out, g, op, CU_GRAPH_NODE_TYPE_EVENT_RECORD, deps, n);
}

CUresult sim_cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n, CUgraph child) {
    if (!valid(child))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(add(out, g, NULL, CU_GRAPH_NODE_TYPE_GRAPH, deps, n));
    (*out)->child = sim_graph_clone(child);
    return CUDA_SUCCESS;
}

/* ---- memory nodes: the address is fixed when the node is made ---- */

static CUresult alloc_op(struct sim_ctx *ctx, size_t bytes, struct sim_op **out) {
    struct sim_block *b;
    SIM_TRY(sim_native_alloc(ctx, bytes, 0, &b));
    b->kind = KIND_GRAPH;
    b->state = STATE_PENDING;
    b->device->graph_used += b->reserved;
    if (b->device->graph_used > b->device->graph_high)
        b->device->graph_high = b->device->graph_used;
    *out = sim_op_new(OP_ALLOC);
    (*out)->u.block = b;
    b->refs++;
    return CUDA_SUCCESS;
}

CUresult sim_graph_alloc(CUdeviceptr *dptr, size_t bytes, struct sim_stream *s) {
    struct sim_op *op;
    if (s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    SIM_TRY(alloc_op(s->ctx, bytes, &op));
    *dptr = op->u.block->addr;
    return sim_capture_add(s, op);
}

CUresult sim_graph_free(struct sim_block *b, struct sim_stream *s) {
    if (b->kind != KIND_GRAPH) {
        sim_capture_invalidate(s->capture); /* a pool block of outside cannot be freed by a graph */
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_op *op = sim_op_new(OP_FREE);
    op->u.block = b;
    b->refs++;
    return sim_submit(s, op);
}

CUresult sim_cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                    CUDA_MEM_ALLOC_NODE_PARAMS *p) {
    struct sim_ctx *ctx;
    struct sim_op *op;
    SIM_TRY(sim_need_ctx(&ctx));
    if (!p || p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(alloc_op(ctx, p->bytesize, &op));
    p->dptr = op->u.block->addr;
    return add(out, g, op, CU_GRAPH_NODE_TYPE_MEM_ALLOC, deps, n);
}

CUresult sim_cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n, CUdeviceptr dptr) {
    struct sim_block *b = sim_block_at(dptr);
    if (!b || b->kind != KIND_GRAPH || b->addr != dptr)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op *op = sim_op_new(OP_FREE);
    op->u.block = b;
    b->refs++;
    return add(out, g, op, CU_GRAPH_NODE_TYPE_MEM_FREE, deps, n);
}

static void trim_block(struct sim_block *b, void *device) {
    bool whole = b->kind == KIND_GRAPH && b->device == device && b->reserved == b->extent->size;
    if (!whole || b->trimmed || b->state != STATE_PENDING || sim_block_queued(b))
        return;
    b->trimmed = true;
    b->device->used -= b->reserved;
    sim_card_tell(b->device);
    b->device->graph_used -= b->reserved;
}

/* What a graph uses that runs or is to run stays; small blocks do, too. */
CUresult sim_cuDeviceGraphMemTrim(CUdevice device) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(device, &d));
    sim_blocks_each(trim_block, d);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(device, &d));
    if (!value || (unsigned)attr > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    bool high = attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    *(cuuint64_t *)value = high ? d->graph_high : d->graph_used;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(device, &d));
    if (!value || *(cuuint64_t *)value != 0 ||
        (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
        return CUDA_ERROR_INVALID_VALUE;
    d->graph_high = d->graph_used;
    return CUDA_SUCCESS;
}

/* ---- looking at graphs ---- */

CUresult sim_cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *numNodes) {
    size_t n = 0;
    if (!valid(g) || !numNodes)
        return CUDA_ERROR_INVALID_VALUE;
    for (CUgraphNode x = g->first; x; x = x->next, n++) {
        if (nodes && n < *numNodes)
            nodes[n] = x;
    }
    if (!nodes || n < *numNodes)
        *numNodes = n;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *p) {
    if (!node || !p || node->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_launch *l = &node->op->u.launch;
    if (!node->parameters)
        node->parameters = calloc(l->count + 1, sizeof *node->parameters);
    for (unsigned i = 0; i < l->count; i++)
        node->parameters[i] = l->args + l->offsets[i];
    *p = (CUDA_KERNEL_NODE_PARAMS_v2){.func = l->function,
                                      .gridDimX = l->grid[0],
                                      .gridDimY = l->grid[1],
                                      .gridDimZ = l->grid[2],
                                      .blockDimX = l->block[0],
                                      .blockDimY = l->block[1],
                                      .blockDimZ = l->block[2],
                                      .sharedMemBytes = l->shared,
                                      .kernelParams = node->parameters};
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child) {
    if (!node || !child || node->type != CU_GRAPH_NODE_TYPE_GRAPH)
        return CUDA_ERROR_INVALID_VALUE;
    *child = node->child;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetRootNodes(CUgraph g, CUgraphNode *nodes, size_t *count) {
    size_t n = 0;
    if (!valid(g) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (CUgraphNode x = g->first; x; x = x->next) {
        if (x->dep_count)
            continue;
        if (nodes && n < *count)
            nodes[n] = x;
        n++;
    }
    if (!nodes || n < *count)
        *count = n;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
    if (!node || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *count) {
    if (!node || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; deps && i < *count && i < node->dep_count; i++)
        deps[i] = node->deps[i];
    *count = node->dep_count;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out) {
    if (!node || !out || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    memset(out, 0, sizeof *out);
    out->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    out->poolProps.location =
        (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = node->op->u.block->device->ordinal};
    out->bytesize = node->op->u.block->size;
    out->dptr = node->op->u.block->addr;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *dptr_out) {
    if (!node || !dptr_out || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE)
        return CUDA_ERROR_INVALID_VALUE;
    *dptr_out = node->op->u.block->addr;
    return CUDA_SUCCESS;
}
