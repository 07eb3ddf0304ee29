/* What the arguments of a call say about its work (arguments.h). */
#include "shim/hook/arguments.h"

#include <string.h>

CUstream gm_called_stream(const struct gm_called *call) {
    const CUlaunchConfig *config;
    switch ((enum gm_call_stream)call->row->stream) {
    case GM_STREAM_DEFAULT:
    case GM_STREAM_NONE: return NULL;
    case GM_STREAM_CONFIG: config = gm_pointer_argument(call, 0); return config ? config->hStream : NULL;
    default: return gm_pointer_argument(call, call->row->stream);
    }
}

/* Attributes that leave a kernel behind the earlier work of its stream. */
static bool is_ordinary(const CUlaunchAttribute *attribute) {
    switch (attribute->id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: return true;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        return !attribute->value.programmaticStreamSerializationAllowed;
    default: return false;
    }
}

bool gm_is_ordinary_launch(const struct gm_called *call) {
    const CUlaunchConfig *config = call->row->stream == GM_STREAM_CONFIG ? gm_pointer_argument(call, 0) : NULL;
    bool ordinary = true;
    for (unsigned i = 0; config && config->attrs && i < config->numAttrs; i++)
        ordinary = ordinary && is_ordinary(&config->attrs[i]);
    return ordinary;
}

static bool is_device_memory(CUdeviceptr address) {
    bool managed;
    return gm_memory_type(&gm_drv, address, &managed) == CU_MEMORYTYPE_DEVICE && !managed;
}

#define HAS_HOST_OPERAND(copy)                                                                     \
    ((copy)->srcMemoryType == CU_MEMORYTYPE_HOST || (copy)->dstMemoryType == CU_MEMORYTYPE_HOST || \
     ((copy)->srcMemoryType == CU_MEMORYTYPE_UNIFIED && !is_device_memory((copy)->srcDevice)) ||   \
     ((copy)->dstMemoryType == CU_MEMORYTYPE_UNIFIED && !is_device_memory((copy)->dstDevice)))

bool gm_copies_host_memory(const struct gm_called *call) {
    static const char *const with_host[] = {"HtoD", "DtoH", "HtoA", "AtoH"};
    const CUDA_MEMCPY2D *plane;
    const CUDA_MEMCPY3D *volume;
    if (strncmp(call->row->symbol, "cuMemcpy", 8) != 0)
        return false;
    for (unsigned i = 0; i < sizeof with_host / sizeof *with_host; i++)
        if (strncmp(call->row->symbol + 8, with_host[i], 4) == 0)
            return true;
    switch ((enum gm_meaning)call->row->meaning) {
    case GM_MEANING_COPY: return !is_device_memory(gm_argument(call, 0)) || !is_device_memory(gm_argument(call, 1));
    case GM_MEANING_COPY_2D: plane = gm_pointer_argument(call, 0); return plane && HAS_HOST_OPERAND(plane);
    case GM_MEANING_COPY_3D: volume = gm_pointer_argument(call, 0); return volume && HAS_HOST_OPERAND(volume);
    default: return false;
    }
}

/* ---- calls that make work or memory visible */

/* Nodes let the host, or streams that wait, learn how far a graph is. */
enum gm_sync_reason gm_node_reason(const CUgraphNodeParams *node) {
    if (!node)
        return GM_SYNC_NO;
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return GM_SYNC_NO;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return HAS_HOST_OPERAND(&node->memcpy.copyParams) ? GM_SYNC_HOST_MEMORY : GM_SYNC_NO;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return GM_SYNC_VALUES;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: return GM_SYNC_SEMAPHORES;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL: return GM_SYNC_EXTERNAL;
    default: return GM_SYNC_HOST_FUNCTION;
    }
}

static enum gm_sync_reason reason_of_copy(const CUDA_MEMCPY3D *copy) {
    return copy && HAS_HOST_OPERAND(copy) ? GM_SYNC_HOST_MEMORY : GM_SYNC_NO;
}

enum gm_sync_reason gm_reason_of_call(const struct gm_called *call) {
    switch ((enum gm_meaning)call->row->meaning) {
    case GM_MEANING_COPY_NODE_1: return reason_of_copy(gm_pointer_argument(call, 1));
    case GM_MEANING_COPY_NODE_2: return reason_of_copy(gm_pointer_argument(call, 2));
    case GM_MEANING_COPY_NODE_4: return reason_of_copy(gm_pointer_argument(call, 4));
    case GM_MEANING_NODE_1: return gm_node_reason(gm_pointer_argument(call, 1));
    case GM_MEANING_NODE_2: return gm_node_reason(gm_pointer_argument(call, 2));
    default: return (enum gm_sync_reason)call->row->why;
    }
}
