/* Graphs, made node by node or captured. */
#include "perform.h"

static CUresult add_copy(CUgraph graph, CUgraphNode *made, const CUgraphNode *last, size_t count,
                         const struct node *node, CUcontext context, uint32_t variant) {
    CUDA_MEMCPY3D copy = {.WidthInBytes = BYTES, .Height = 1, .Depth = 1};
    bool to_host = object_of(node->to)->made >= PINNED, from_host = object_of(node->from)->made >= PINNED;
    copy.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.dstHost = world.address[node->to];
    copy.srcHost = world.address[node->from];
    copy.dstDevice = to_host ? 0 : device_address(node->to);
    copy.srcDevice = from_host ? 0 : device_address(node->from);
    return CALL(cuGraphAddMemcpyNode, made, graph, last, count, &copy, context);
}

static CUresult add_kernel(CUgraph graph, CUgraphNode *made, const CUgraphNode *last, size_t count,
                           const struct node *node, int context, uint32_t variant) {
    CUdeviceptr to = device_address(node->to), from = device_address(node->from);
    uint32_t value = node->value;
    void *parameters[] = {&to, &from, &value};
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = world.mix[context],
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = WORDS,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = parameters};
    return CALL(cuGraphAddKernelNode_v2, made, graph, last, count, &kernel);
}

static CUresult add_node(CUgraph graph, CUgraphNode *made, const CUgraphNode *last, size_t count,
                         const struct node *node, int context, uint32_t variant) {
    CUcontext handle = world.contexts[context];
    if (node->kind == COPY)
        return add_copy(graph, made, last, count, node, handle, variant);
    if (node->kind == KERNEL)
        return add_kernel(graph, made, last, count, node, context, variant);
    if (node->kind == SET) {
        CUDA_MEMSET_NODE_PARAMS set = {
            .dst = device_address(node->to), .value = node->value, .elementSize = 4, .width = WORDS, .height = 1};
        return CALL(cuGraphAddMemsetNode, made, graph, last, count, &set, handle);
    }
    CUDA_HOST_NODE_PARAMS function = {mix_on_host, host_work(node->to, node->from, node->value)};
    return CALL(cuGraphAddHostNode, made, graph, last, count, &function);
}

static CUresult make_graph(const struct call *call) {
    uint32_t variant = call->variant;
    const struct graph *graph = &world.plan->graphs[call->graph];
    CUgraphNode nodes[NODES];
    TRY(CALL(cuGraphCreate, &world.graphs[call->graph], 0));
    for (unsigned i = 0; i < graph->count; i++)
        TRY(add_node(world.graphs[call->graph], &nodes[i], i ? &nodes[i - 1] : NULL, i ? 1 : 0, &graph->nodes[i],
                     call->context, variant));
    return CUDA_SUCCESS;
}

static CUresult launch(const struct call *call) {
    uint32_t variant = call->variant;
    struct door_stream on = stream_of(call);
    CUgraphExec *ready = &world.ready[call->graph];
    if (!*ready)
        TRY(CALL(cuGraphInstantiateWithFlags, ready, world.graphs[call->graph], 0));
    return ON(cuGraphLaunch, *ready, on.handle);
}

CUresult make_graph_call(const struct call *call) {
    uint32_t variant = call->variant;
    struct door_stream on = call->lane ? stream_of(call) : (struct door_stream){0};
    switch (call->kind) {
    case MAKE_GRAPH: return make_graph(call);
    case GRAPH_LAUNCH: return launch(call);
    case BEGIN_CAPTURE: return ON(cuStreamBeginCapture_v2, on.handle, (CUstreamCaptureMode)call->value);
    case END_CAPTURE: return ON(cuStreamEndCapture, on.handle, &world.graphs[call->graph]);
    default:
        if (world.ready[call->graph])
            TRY(CALL(cuGraphExecDestroy, world.ready[call->graph]));
        return CALL(cuGraphDestroy, world.graphs[call->graph]);
    }
}
