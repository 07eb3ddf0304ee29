/* Hooks of stream capture and of graph memory nodes. A capture is counted from its begin to its end, because frees
 * must not do certain things meanwhile. */
#include "shim/driver/free_sync.h"
#include "shim/hook/arguments.h"
#include "shim/hook/hook.h"

static uint64_t begin_capture(struct gm_scope *scope, CUstream stream, bool per_thread, CUstreamCaptureMode mode) {
    scope->request.stream = (uint64_t)(uintptr_t)stream;
    scope->request.per_thread = per_thread;
    uint64_t serial = gm_capture_begin(stream, per_thread, mode);
    gm_pipeline_capture(+1);
    return serial;
}

static CUresult begun(struct gm_scope *scope, uint64_t serial, CUresult result) {
    gm_capture_begun(serial, result == CUDA_SUCCESS);
    if (result != CUDA_SUCCESS)
        gm_pipeline_capture(-1);
    gm_pipeline_note(scope, GM_ACT_CAPTURE_BEGIN, 0, result);
    return result;
}

void gm_hook_capture_lost(const struct gm_capture *capture) {
    struct gm_scope scope;
    gm_scope_begin(&scope, GM_CALL_NONE, 0, 0);
    scope.request.stream = (uint64_t)(uintptr_t)capture->stream;
    scope.request.per_thread = capture->per_thread;
    gm_pipeline_note(&scope, GM_ACT_CAPTURE_END, 0, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

#define BEGINS(symbol, twin, mode, parameters, arguments)            \
    CUresult CUDAAPI gm_hook_##symbol(LIST parameters) {             \
        struct gm_scope scope;                                       \
        ENTER(symbol, LIST arguments);                               \
        BEGIN(&scope, GM_CALL_NONE, 0);                              \
        uint64_t serial = begin_capture(&scope, stream, twin, mode); \
        LEAVE(begun(&scope, serial, gm_real.symbol arguments));      \
    }
#define BEGINS_CAPTURE(symbol, ...)    \
    BEGINS(symbol, false, __VA_ARGS__) \
    BEGINS(symbol##_ptsz, true, __VA_ARGS__)
/* The first variant of the function has no mode. */
BEGINS_CAPTURE(cuStreamBeginCapture, CU_STREAM_CAPTURE_MODE_GLOBAL, (CUstream stream), (stream))
BEGINS_CAPTURE(cuStreamBeginCapture_v2, mode, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
BEGINS_CAPTURE(cuStreamBeginCaptureToGraph, mode,
               (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
                size_t count, CUstreamCaptureMode mode),
               (stream, graph, dependencies, edges, count, mode))

/* Whether the capture has ended. A call that reports an invalidated capture has ended it. A call for a stream that
 * was not capturing, or from a thread that may not end the capture, has not. After any other error the stream's
 * state decides. */
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
        return (per_thread ? gm_drv.stream_is_capturing_ptsz : gm_drv.stream_is_capturing)(stream, &status) !=
                   CUDA_SUCCESS ||
               status == CU_STREAM_CAPTURE_STATUS_NONE;
    }
}

/* The end is recorded before anything that waits for it: the trace then shows no block reused inside the capture. */
#define END_CAPTURE(symbol, twin)                                        \
    CUresult CUDAAPI gm_hook_##symbol(CUstream stream, CUgraph *graph) { \
        struct gm_scope scope;                                           \
        ENTER(symbol, stream, graph);                                    \
        BEGIN(&scope, GM_CALL_NONE, 0);                                  \
        scope.request.stream = (uint64_t)(uintptr_t)stream;              \
        scope.request.per_thread = twin;                                 \
        CUresult result = gm_real.symbol(stream, graph);                 \
        bool over = ended(stream, twin, result);                         \
        gm_pipeline_note(&scope, GM_ACT_CAPTURE_END, 0, result);         \
        if (over) {                                                      \
            gm_capture_end(stream, twin);                                \
            gm_pipeline_capture(-1);                                     \
        }                                                                \
        LEAVE(result);                                                   \
    }
END_CAPTURE(cuStreamEndCapture, false)
END_CAPTURE(cuStreamEndCapture_ptsz, true)

/* ---- memory nodes: the address is fixed when the node is created, and the memory exists while graphs run. They are
 * only recorded: a graph may be launched any number of times, so these blocks do not count as live. */

static void note_node(struct gm_scope *scope, enum gm_call call, enum gm_action action, uint64_t address, size_t size,
                      CUresult result) {
    scope->request.call = call;
    scope->request.size = size;
    gm_pipeline_note(scope, result ? (action == GM_ACT_MAP ? GM_ACT_ALLOC_FAIL : GM_ACT_FREE_FAIL) : action, address,
                     result);
}

CUresult CUDAAPI gm_hook_cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *parameters) {
    struct gm_scope scope;
    ENTER(cuGraphAddMemAllocNode, node, graph, dependencies, count, parameters);
    BEGIN(&scope, GM_CALL_GRAPH_ALLOC, 0);
    CUresult result = WITH_TRIM_OF(parameters ? parameters->poolProps.location.id : -1,
                                   gm_real.cuGraphAddMemAllocNode(node, graph, dependencies, count, parameters));
    note_node(&scope, GM_CALL_GRAPH_ALLOC, GM_ACT_MAP, result ? 0 : parameters->dptr,
              parameters ? parameters->bytesize : 0, result);
    LEAVE(result);
}

CUresult CUDAAPI gm_hook_cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                               size_t count, CUdeviceptr address) {
    struct gm_scope scope;
    ENTER(cuGraphAddMemFreeNode, node, graph, dependencies, count, address);
    BEGIN(&scope, GM_CALL_GRAPH_FREE, 0);
    CUresult result = WITH_TRIM(gm_real.cuGraphAddMemFreeNode(node, graph, dependencies, count, address));
    note_node(&scope, GM_CALL_GRAPH_FREE, GM_ACT_UNMAP, address, 0, result);
    LEAVE(result);
}

static void note_reason(const CUgraphNodeParams *parameters) {
    enum gm_sync_reason reason = gm_node_reason(parameters);
    if (reason != GM_SYNC_NO)
        gm_free_sync_note(reason);
}

static CUresult generic_node(struct gm_scope *scope, const CUgraphNodeParams *parameters, CUresult result) {
    if (parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        note_node(scope, GM_CALL_GRAPH_ALLOC, GM_ACT_MAP, result ? 0 : parameters->alloc.dptr,
                  parameters->alloc.bytesize, result);
    else if (parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        note_node(scope, GM_CALL_GRAPH_FREE, GM_ACT_UNMAP, parameters->free.dptr, 0, result);
    return result;
}

/* The device of which the node takes memory. */
static CUdevice device_of(const CUgraphNodeParams *parameters) {
    struct gm_context current;
    if (parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return parameters->alloc.poolProps.location.id;
    return gm_context_current(&current) ? current.device : -1;
}

#define ADDS_NODE(symbol, parameters, arguments)                                                      \
    CUresult CUDAAPI gm_hook_##symbol(LIST parameters) {                                              \
        struct gm_scope scope;                                                                        \
        ENTER(symbol, LIST arguments);                                                                \
        BEGIN(&scope, GM_CALL_GRAPH_ALLOC, 0);                                                        \
        note_reason(added);                                                                           \
        LEAVE(generic_node(&scope, added, WITH_TRIM_OF(device_of(added), gm_real.symbol arguments))); \
    }
ADDS_NODE(cuGraphAddNode,
          (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUgraphNodeParams *added),
          (node, graph, dependencies, count, added))
ADDS_NODE(cuGraphAddNode_v2,
          (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
           size_t count, CUgraphNodeParams *added),
          (node, graph, dependencies, edges, count, added))
