/* Calls between those that matter. They observe no work, or make and end something of their own, or fail. What they say
 * is printed, so it must not change with the driver's state. */
#include "perform.h"

static CUresult of_context(uint32_t variant, uint32_t *seen) {
    CUcontext context;
    TRY(CALL(cuCtxGetCurrent, &context));
    TRY(CALL(cuCtxPushCurrent_v2, context));
    return CALL(cuCtxPopCurrent_v2, &context);
}

static CUresult of_device(uint32_t variant, uint32_t *seen) {
    int value;
    CUdevice device;
    size_t size, all;
    TRY(CALL(cuCtxGetDevice, &device));
    TRY(CALL(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    TRY(CALL(cuCtxGetLimit, &size, CU_LIMIT_STACK_SIZE));
    seen[0] = (uint32_t)value;
    seen[1] = (uint32_t)size;
    return CALL(cuMemGetInfo_v2, &size, &all);
}

static CUresult of_graph_memory(uint32_t variant, uint32_t *seen) {
    CUdevice device;
    TRY(CALL(cuCtxGetDevice, &device));
    return CALL(cuDeviceGraphMemTrim, device);
}

static CUresult of_default_pool(uint32_t variant, uint32_t *seen) {
    CUdevice device;
    CUmemoryPool pool;
    TRY(CALL(cuCtxGetDevice, &device));
    TRY(CALL(cuDeviceGetDefaultMemPool, &pool, device));
    return CALL(cuMemPoolTrimTo, pool, 0);
}

static CUresult of_pool(uint32_t variant, uint32_t *seen) {
    CUmemPoolProps kind = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool pool;
    cuuint64_t used = 7;
    TRY(CALL(cuMemPoolCreate, &pool, &kind));
    TRY(CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    seen[0] = (uint32_t)used;
    return CALL(cuMemPoolDestroy, pool);
}

static CUresult of_event(uint32_t variant, uint32_t *seen) {
    CUevent event;
    TRY(CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING));
    seen[0] = (uint32_t)CALL(cuEventQuery, event);
    return CALL(cuEventDestroy_v2, event);
}

static CUresult of_graph(uint32_t variant, uint32_t *seen) {
    CUgraph graph;
    CUgraphExec ready;
    TRY(CALL(cuGraphCreate, &graph, 0));
    TRY(CALL(cuGraphInstantiateWithFlags, &ready, graph, 0));
    TRY(CALL(cuGraphExecDestroy, ready));
    return CALL(cuGraphDestroy, graph);
}

static CUresult of_memory(uint32_t variant, uint32_t *seen) {
    CUdeviceptr start;
    size_t size;
    CUmemorytype type;
    int device;
    TRY(CALL(cuMemGetAddressRange_v2, &start, &size, world.own + 64));
    TRY(CALL(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, world.own));
    TRY(CALL(cuPointerGetAttribute, &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, world.own));
    seen[0] = start == world.own;
    seen[1] = (uint32_t)type;
    seen[2] = (uint32_t)device;
    return CUDA_SUCCESS;
}

static CUresult of_reservation(uint32_t variant, uint32_t *seen) {
    CUdeviceptr address;
    TRY(CALL(cuMemAddressReserve, &address, (size_t)2 << 20, 0, 0, 0));
    return CALL(cuMemAddressFree, address, (size_t)2 << 20);
}

static CUresult of_handle(uint32_t variant, uint32_t *seen) {
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    TRY(CALL(cuMemCreate, &handle, (size_t)2 << 20, &kind, 0));
    return CALL(cuMemRelease, handle);
}

static CUresult of_function(uint32_t variant, uint32_t *seen) {
    int value;
    CUresult result = CALL(cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, world.mix[MAIN]);
    seen[0] = (uint32_t)value;
    return result;
}

static CUresult of_small_memory(uint32_t variant, uint32_t *seen) {
    CUdeviceptr address;
    TRY(CALL(cuMemAlloc_v2, &address, 1000));
    return CALL(cuMemFree_v2, address);
}

static CUresult of_nothing(uint32_t variant, uint32_t *seen) { return CALL(cuMemFree_v2, 0); }

static CUresult of_module(uint32_t variant, uint32_t *seen) {
    CUmodule module;
    if (world.place->kernels)
        return CUDA_SUCCESS;
    TRY(CALL(cuModuleLoadData, &module, "nothing"));
    return CALL(cuModuleUnload, module);
}

static CUresult of_primary_context(uint32_t variant, uint32_t *seen) {
    CUcontext context;
    TRY(CALL(cuDevicePrimaryCtxRetain, &context, 0));
    return CALL(cuDevicePrimaryCtxRelease_v2, 0);
}

static CUresult of_stream(uint32_t variant, uint32_t *seen) {
    CUstreamCaptureStatus status;
    int priority;
    TRY(CALL(cuStreamGetFlags, NULL, &seen[0]));
    TRY(CALL(cuStreamGetPriority, NULL, &priority));
    seen[1] = (uint32_t)priority;
    seen[2] = (uint32_t)CALL(cuStreamIsCapturing, CU_STREAM_PER_THREAD, &status);
    return CUDA_SUCCESS;
}

/* ---- calls that fail */

static CUresult free_of_other_address(uint32_t variant, uint32_t *seen) {
    seen[0] = (uint32_t)CALL(cuMemFree_v2, world.own + 256);
    return CUDA_SUCCESS;
}

/* A driver may find the context by the address. */
static CUresult free_without_context(uint32_t variant, uint32_t *seen) {
    CUcontext contexts[8];
    CUdeviceptr address;
    int count = 0;
    TRY(CALL(cuMemAlloc_v2, &address, 5000));
    while (count < 8 && CALL(cuCtxPopCurrent_v2, &contexts[count]) == CUDA_SUCCESS && contexts[count])
        count++;
    seen[0] = (uint32_t)CALL(cuMemFree_v2, address);
    while (count > 0)
        TRY(CALL(cuCtxPushCurrent_v2, contexts[--count]));
    return seen[0] ? CALL(cuMemFree_v2, address) : CUDA_SUCCESS;
}

static CUresult free_twice(uint32_t variant, uint32_t *seen) {
    CUdeviceptr address;
    if (world.place->kernels)
        return CUDA_SUCCESS;
    TRY(CALL(cuMemAlloc_v2, &address, (size_t)9 << 20));
    TRY(CALL(cuMemFree_v2, address));
    seen[0] = (uint32_t)CALL(cuMemFree_v2, address);
    return CUDA_SUCCESS;
}

static CUresult launch_of_nothing(uint32_t variant, uint32_t *seen) {
    if (!world.place->kernels) /* a card's driver may crash */
        seen[0] = (uint32_t)CALL(cuLaunchKernelEx, NULL, world.mix[MAIN], NULL, NULL);
    return CUDA_SUCCESS;
}

CUresult make_further_call(const struct call *call, uint32_t *seen) {
    static CUresult (*const rows[HARMLESS + REFUSED])(uint32_t, uint32_t *) = {
        of_context,         of_device,   of_graph_memory,   of_default_pool,       of_pool,
        of_event,           of_graph,    of_memory,         of_reservation,        of_handle,
        of_stream,          of_function, of_nothing,        of_small_memory,       of_module,
        of_primary_context, free_twice,  launch_of_nothing, free_of_other_address, free_without_context};
    return rows[call->value](call->variant, seen);
}
