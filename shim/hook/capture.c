/* Stream capture and graph memory. */
#include "shim/driver/device_wait.h"
#include "shim/hook/hook.h"

static void begin(struct gm_scope *scope, CUstream stream) {
    scope->request.stream = (uint64_t)(uintptr_t)stream;
    gm_capture_begin();
    gm_pipeline_capture(+1);
}

static CUresult begun(struct gm_scope *scope, CUresult result) {
    if (result != CUDA_SUCCESS) {
        gm_capture_end();
        gm_pipeline_capture(-1);
    }
    gm_pipeline_note(scope, GM_ACT_CAPTURE_BEGIN, 0, result);
    return result;
}

#define BEGIN_CAPTURE(symbol)                                                                                \
    HOOK(symbol, CUstream stream, CUstreamCaptureMode mode) {                                                \
        struct gm_scope scope;                                                                               \
        ENTER(symbol, stream, mode);                                                                         \
        BEGIN(&scope, GM_CALL_NONE, 0);                                                                      \
        begin(&scope, stream);                                                                               \
        LEAVE(begun(&scope, gm_true.symbol(stream, mode)));                                                  \
    }
BEGIN_CAPTURE(cuStreamBeginCapture_v2)
BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz)

/* The first variant had no mode. */
#define BEGIN_CAPTURE_GLOBAL(symbol)                                                                         \
    HOOK(symbol, CUstream stream) {                                                                          \
        struct gm_scope scope;                                                                               \
        ENTER(symbol, stream);                                                                               \
        BEGIN(&scope, GM_CALL_NONE, 0);                                                                      \
        begin(&scope, stream);                                                                               \
        LEAVE(begun(&scope, gm_true.symbol(stream)));                                                        \
    }
BEGIN_CAPTURE_GLOBAL(cuStreamBeginCapture)
BEGIN_CAPTURE_GLOBAL(cuStreamBeginCapture_ptsz)

#define BEGIN_CAPTURE_TO_GRAPH(symbol)                                                                       \
    HOOK(symbol, CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, \
         size_t count, CUstreamCaptureMode mode) {                                                           \
        struct gm_scope scope;                                                                               \
        ENTER(symbol, stream, graph, dependencies, edges, count, mode);                                      \
        BEGIN(&scope, GM_CALL_NONE, 0);                                                                      \
        begin(&scope, stream);                                                                               \
        LEAVE(begun(&scope, gm_true.symbol(stream, graph, dependencies, edges, count, mode)));               \
    }
BEGIN_CAPTURE_TO_GRAPH(cuStreamBeginCaptureToGraph)
BEGIN_CAPTURE_TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz)

/* An end that reports an invalidated capture has ended it all the same; one for a stream that was not capturing, or from a
 * thread that may not end it, has not. Of any other error the stream itself is asked. */
static bool ended(CUstream stream, bool per_thread, CUresult result) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    switch (result) {
    case CUDA_SUCCESS:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: return true;
    case CUDA_ERROR_ILLEGAL_STATE:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_INVALID_HANDLE: return false;
    default:
        return (per_thread ? gm_drv.stream_is_capturing_ptsz : gm_drv.stream_is_capturing)(stream, &status) != CUDA_SUCCESS ||
               status == CU_STREAM_CAPTURE_STATUS_NONE;
    }
}

#define END_CAPTURE(symbol, per_thread)                                                                      \
    HOOK(symbol, CUstream stream, CUgraph *graph) {                                                          \
        struct gm_scope scope;                                                                               \
        ENTER(symbol, stream, graph);                                                                        \
        BEGIN(&scope, GM_CALL_NONE, 0);                                                                      \
        scope.request.stream = (uint64_t)(uintptr_t)stream;                                                  \
        CUresult result = gm_true.symbol(stream, graph);                                                     \
        if (ended(stream, per_thread, result)) {                                                             \
            gm_capture_end();                                                                                \
            gm_pipeline_capture(-1);                                                                         \
        }                                                                                                    \
        gm_pipeline_note(&scope, GM_ACT_CAPTURE_END, 0, result);                                             \
        LEAVE(result);                                                                                       \
    }
END_CAPTURE(cuStreamEndCapture, false)
END_CAPTURE(cuStreamEndCapture_ptsz, true)

/* ---- memory nodes: the address is fixed when the node is made; the memory exists while graphs run. Only told: a graph may be
 * launched any number of times, so these blocks are not counted as live. */

static void note_node(struct gm_scope *scope, enum gm_call call, enum gm_action action, uint64_t address, size_t size, CUresult result) {
    scope->request.call = call;
    scope->request.size = size;
    gm_pipeline_note(scope, result ? (action == GM_ACT_MAP ? GM_ACT_ALLOC_FAIL : GM_ACT_FREE_FAIL) : action, address, result);
}

HOOK(cuGraphAddMemAllocNode, CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
     CUDA_MEM_ALLOC_NODE_PARAMS *parameters) {
    struct gm_scope scope;
    ENTER(cuGraphAddMemAllocNode, node, graph, dependencies, count, parameters);
    BEGIN(&scope, GM_CALL_GRAPH_ALLOC, 0);
    CUresult result = gm_true.cuGraphAddMemAllocNode(node, graph, dependencies, count, parameters);
    note_node(&scope, GM_CALL_GRAPH_ALLOC, GM_ACT_MAP, result ? 0 : parameters->dptr, parameters ? parameters->bytesize : 0, result);
    LEAVE(result);
}

HOOK(cuGraphAddMemFreeNode, CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUdeviceptr address) {
    struct gm_scope scope;
    ENTER(cuGraphAddMemFreeNode, node, graph, dependencies, count, address);
    BEGIN(&scope, GM_CALL_GRAPH_FREE, 0);
    CUresult result = gm_true.cuGraphAddMemFreeNode(node, graph, dependencies, count, address);
    note_node(&scope, GM_CALL_GRAPH_FREE, GM_ACT_UNMAP, address, 0, result);
    LEAVE(result);
}

/* As the calls of waits.c. */
static void refuse_waits(const CUgraphNodeParams *parameters) {
    if (!parameters)
        return;
    if (parameters->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
        gm_device_wait_refuse(GM_ENEMY_VALUES);
    else if (parameters->type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT)
        gm_device_wait_refuse(GM_ENEMY_SEMAPHORES);
    else if (parameters->type == CU_GRAPH_NODE_TYPE_HOST)
        gm_device_wait_refuse(GM_ENEMY_HOST);
}

static CUresult generic_node(struct gm_scope *scope, const CUgraphNodeParams *parameters, CUresult result) {
    if (parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        note_node(scope, GM_CALL_GRAPH_ALLOC, GM_ACT_MAP, result ? 0 : parameters->alloc.dptr, parameters->alloc.bytesize, result);
    else if (parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        note_node(scope, GM_CALL_GRAPH_FREE, GM_ACT_UNMAP, parameters->free.dptr, 0, result);
    return result;
}

HOOK(cuGraphAddNode, CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUgraphNodeParams *parameters) {
    struct gm_scope scope;
    ENTER(cuGraphAddNode, node, graph, dependencies, count, parameters);
    BEGIN(&scope, GM_CALL_GRAPH_ALLOC, 0);
    refuse_waits(parameters);
    LEAVE(generic_node(&scope, parameters, gm_true.cuGraphAddNode(node, graph, dependencies, count, parameters)));
}

HOOK(cuGraphAddNode_v2, CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
     CUgraphNodeParams *parameters) {
    struct gm_scope scope;
    ENTER(cuGraphAddNode_v2, node, graph, dependencies, edges, count, parameters);
    BEGIN(&scope, GM_CALL_GRAPH_ALLOC, 0);
    refuse_waits(parameters);
    LEAVE(generic_node(&scope, parameters, gm_true.cuGraphAddNode_v2(node, graph, dependencies, edges, count, parameters)));
}
