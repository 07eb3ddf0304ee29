// Rows of blind_calls: graphs and their nodes. None of them is launched.
#include "blind_calls.h"

static CUgraph new_graph(Probe &p) {
    CUgraph graph;
    MUST(CALL(cuGraphCreate)(&graph, 0));
    p.later.push_back([=] { MUST(CALL(cuGraphDestroy)(graph)); });
    return graph;
}

static CUgraphNode empty_node(CUgraph graph) {
    CUgraphNode node;
    MUST(CALL(cuGraphAddEmptyNode)(&node, graph, nullptr, 0));
    return node;
}

struct Kernel {
    CUdeviceptr to = things.block;
    unsigned value = 2;
    void *values[2] = {&to, &value};
    CUDA_KERNEL_NODE_PARAMS now = {};
    CUDA_KERNEL_NODE_PARAMS_v1 first = {};
    Kernel() {
        first.func = now.func = things.idle;
        first.gridDimX = first.gridDimY = first.gridDimZ = first.blockDimX = first.blockDimY = first.blockDimZ = 1;
        now.gridDimX = now.gridDimY = now.gridDimZ = now.blockDimX = now.blockDimY = now.blockDimZ = 1;
        first.kernelParams = now.kernelParams = values;
    }
};

static CUDA_MEMSET_NODE_PARAMS fill() {
    CUDA_MEMSET_NODE_PARAMS made = {};
    made.dst = things.block;
    made.elementSize = 1;
    made.width = 32;
    made.height = 1;
    return made;
}

static void nothing(void *) {}

std::vector<BlindRow> graph_rows() {
    return {
        ROW(cuGraphCreate, CUgraph v = nullptr; p.at([&] { return f(&v, 0); });
            p.later.push_back([=] { MUST(CALL(cuGraphDestroy)(v)); });),
            ROW(cuGraphClone, CUgraph v = nullptr; p.at([&] { return f(&v, things.graph); });
                p.later.push_back([=] { MUST(CALL(cuGraphDestroy)(v)); });),
            ROW(cuGraphDestroy, CUgraph v; MUST(CALL(cuGraphCreate)(&v, 0)); (void)empty_node(v);
                p.at([&] { return f(v); });),
            ROW(cuGraphAddEmptyNode, CUgraphNode v; CUgraph graph = new_graph(p);
                p.at([&] { return f(&v, graph, nullptr, 0); });),
            ROW(cuGraphAddKernelNode, CUgraphNode v; CUgraph graph = new_graph(p); Kernel k;
                p.at([&] { return f(&v, graph, nullptr, 0, &k.first); });),
            ROW(cuGraphAddKernelNode_v2, CUgraphNode v; CUgraph graph = new_graph(p); Kernel k;
                p.at([&] { return f(&v, graph, nullptr, 0, &k.now); });),
            ROW(cuGraphAddMemsetNode, CUgraphNode v; CUgraph graph = new_graph(p); CUDA_MEMSET_NODE_PARAMS m = fill();
                p.at([&] { return f(&v, graph, nullptr, 0, &m, things.context); });),
            ROW(cuGraphAddChildGraphNode, CUgraphNode v; CUgraph graph = new_graph(p);
                p.at([&] { return f(&v, graph, nullptr, 0, things.child); });),
            ROW(cuGraphAddEventRecordNode, CUgraphNode v; CUgraph graph = new_graph(p);
                p.at([&] { return f(&v, graph, nullptr, 0, things.event); });),
            ROW(cuGraphAddEventWaitNode, CUgraphNode v; CUgraph graph = new_graph(p);
                p.at([&] { return f(&v, graph, nullptr, 0, things.event); });),
            ROW(cuGraphAddDependencies, CUgraph graph = new_graph(p); CUgraphNode a = empty_node(graph);
                CUgraphNode b = empty_node(graph); p.at([&] { return f(graph, &a, &b, 1); });),
            ROW(cuGraphAddDependencies_v2, CUgraph graph = new_graph(p); CUgraphNode a = empty_node(graph);
                CUgraphNode b = empty_node(graph); p.at([&] { return f(graph, &a, &b, nullptr, 1); });),
            ROW(cuGraphRemoveDependencies, CUgraph graph = new_graph(p); CUgraphNode a = empty_node(graph);
                CUgraphNode b = empty_node(graph); MUST(CALL(cuGraphAddDependencies)(graph, &a, &b, 1));
                p.at([&] { return f(graph, &a, &b, 1); });),
            ROW(cuGraphRemoveDependencies_v2, CUgraph graph = new_graph(p); CUgraphNode a = empty_node(graph);
                CUgraphNode b = empty_node(graph); MUST(CALL(cuGraphAddDependencies)(graph, &a, &b, 1));
                p.at([&] { return f(graph, &a, &b, nullptr, 1); });),
            ROW(cuGraphDestroyNode, CUgraph graph = new_graph(p); CUgraphNode a = empty_node(graph);
                p.at([&] { return f(a); });),
            ROW(cuGraphConditionalHandleCreate, CUgraphConditionalHandle v = 0; CUgraph graph = new_graph(p);
                p.at([&] { return f(&v, graph, things.context, 0, 0); });),
            ROW(cuGraphGetNodes, size_t v = 0; p.at([&] { return f(things.graph, nullptr, &v); });
                p.note((long long)v);),
            ROW(cuGraphGetRootNodes, size_t v = 0; p.at([&] { return f(things.graph, nullptr, &v); });
                p.note((long long)v);),
            ROW(cuGraphGetEdges, size_t v = 0; p.at([&] { return f(things.graph, nullptr, nullptr, &v); });
                p.note((long long)v);),
            ROW(cuGraphGetEdges_v2, size_t v = 0; p.at([&] { return f(things.graph, nullptr, nullptr, nullptr, &v); });
                p.note((long long)v);),
            ROW(cuGraphNodeFindInClone, CUgraphNode v = nullptr; CUgraph clone;
                MUST(CALL(cuGraphClone)(&clone, things.graph)); p.at([&] { return f(&v, things.kernel_node, clone); });
                p.note(v != nullptr); p.later.push_back([=] { MUST(CALL(cuGraphDestroy)(clone)); });),
            ROW(cuGraphNodeGetDependencies, size_t v = 0; p.at([&] { return f(things.fill_node, nullptr, &v); });
                p.note((long long)v);),
            ROW(cuGraphNodeGetDependencies_v2, size_t v = 0;
                p.at([&] { return f(things.fill_node, nullptr, nullptr, &v); }); p.note((long long)v);),
            ROW(cuGraphNodeGetDependentNodes, size_t v = 0; p.at([&] { return f(things.fill_node, nullptr, &v); });
                p.note((long long)v);),
            ROW(cuGraphNodeGetDependentNodes_v2, size_t v = 0;
                p.at([&] { return f(things.fill_node, nullptr, nullptr, &v); }); p.note((long long)v);),
            ROW(cuGraphNodeGetType, CUgraphNodeType v = (CUgraphNodeType)99;
                p.at([&] { return f(things.fill_node, &v); }); p.note(v);),
            ROW(cuGraphKernelNodeGetParams, CUDA_KERNEL_NODE_PARAMS_v1 v = {};
                p.at([&] { return f(things.kernel_node, &v); }); p.note(v.func == things.idle);),
            ROW(cuGraphKernelNodeGetParams_v2, CUDA_KERNEL_NODE_PARAMS v = {};
                p.at([&] { return f(things.kernel_node, &v); }); p.note(v.func == things.idle);),
            ROW(cuGraphKernelNodeGetAttribute, CUkernelNodeAttrValue v = {};
                p.at([&] { return f(things.kernel_node, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &v); });
                p.note(v.cooperative);),
            ROW(cuGraphKernelNodeSetAttribute, CUkernelNodeAttrValue v = {}; v.priority = 0;
                p.at([&] { return f(things.kernel_node, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &v); });),
            ROW(cuGraphKernelNodeCopyAttributes, p.at([&] { return f(things.kernel_node, things.kernel_node); });),
            ROW(cuGraphKernelNodeSetParams, Kernel k; p.at([&] { return f(things.kernel_node, &k.first); });),
            ROW(cuGraphKernelNodeSetParams_v2, Kernel k; p.at([&] { return f(things.kernel_node, &k.now); });),
            ROW(cuGraphMemsetNodeGetParams, CUDA_MEMSET_NODE_PARAMS v = {};
                p.at([&] { return f(things.fill_node, &v); }); p.note(v.dst == things.block);),
            ROW(cuGraphMemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS m = fill();
                p.at([&] { return f(things.fill_node, &m); });),
            ROW(cuGraphChildGraphNodeGetGraph, CUgraph v = nullptr; p.at([&] { return f(things.child_node, &v); });
                p.note(v != nullptr);),
            ROW(cuGraphEventRecordNodeGetEvent, CUevent v = nullptr; p.at([&] { return f(things.record_node, &v); });
                p.note(v == things.event);),
            ROW(cuGraphEventWaitNodeGetEvent, CUevent v = nullptr; p.at([&] { return f(things.wait_node, &v); });
                p.note(v == things.event);),
            ROW(cuGraphEventRecordNodeSetEvent, p.at([&] { return f(things.record_node, things.event); });),
            ROW(cuGraphEventWaitNodeSetEvent, p.at([&] { return f(things.wait_node, things.event); });),
            ROW(cuGraphMemcpyNodeGetParams, CUDA_MEMCPY3D v = {}; p.at([&] { return f(things.kernel_node, &v); });),
            ROW(cuGraphDebugDotPrint, p.at([&] { return f(things.graph, "/dev/null", 0); });),
            ROW(cuUserObjectRetain, CUuserObject v;
                MUST(CALL(cuUserObjectCreate)(&v, nullptr, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
                p.at([&] { return f(v, 1); }); p.later.push_back([=] { MUST(CALL(cuUserObjectRelease)(v, 2)); });),
            ROW(cuUserObjectRelease, CUuserObject v;
                MUST(CALL(cuUserObjectCreate)(&v, nullptr, nothing, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
                p.at([&] { return f(v, 1); }); p.later.push_back([=] { MUST(CALL(cuUserObjectRelease)(v, 1)); });),
            ROW(cuGraphRetainUserObject, CUuserObject v; CUgraph graph = new_graph(p);
                MUST(CALL(cuUserObjectCreate)(&v, nullptr, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
                p.at([&] { return f(graph, v, 1, CU_GRAPH_USER_OBJECT_MOVE); });),
            ROW(cuGraphExecGetFlags, cuuint64_t v = 9; p.at([&] { return f(things.exec, &v); }); p.note((long long)v);),
            ROW(cuGraphNodeGetEnabled, unsigned v = 9; p.at([&] { return f(things.exec, things.kernel_node, &v); });
                p.note(v);),
            ROW(cuGraphNodeSetEnabled, p.at([&] { return f(things.exec, things.kernel_node, 1); });),
            ROW(cuGraphExecKernelNodeSetParams, Kernel k;
                p.at([&] { return f(things.exec, things.kernel_node, &k.first); });),
            ROW(cuGraphExecKernelNodeSetParams_v2, Kernel k;
                p.at([&] { return f(things.exec, things.kernel_node, &k.now); });),
            ROW(cuGraphExecMemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS m = fill();
                p.at([&] { return f(things.exec, things.fill_node, &m, things.context); });),
            ROW(cuGraphExecChildGraphNodeSetParams,
                p.at([&] { return f(things.exec, things.child_node, things.child); });),
            ROW(cuGraphExecEventRecordNodeSetEvent,
                p.at([&] { return f(things.exec, things.record_node, things.event); });),
            ROW(cuGraphExecEventWaitNodeSetEvent,
                p.at([&] { return f(things.exec, things.wait_node, things.event); });),
    };
}
