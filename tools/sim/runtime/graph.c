/* Graph nodes of the simulated runtime: their parameters in the driver's structures. */
#include "runtime.h"
#include <string.h>

RT_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t x, cudaGraph_t g, cudaGraphExecUpdateResultInfo *info) {
    CUgraphExecUpdateResultInfo driver_info = {.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
    RT_READY();
    CUresult r = rt_legacy.cuGraphExecUpdate(x, g, &driver_info);
    memset(info, 0, sizeof *info);
    info->result = (enum cudaGraphExecUpdateResult)driver_info.result;
    return rt_error((cudaError_t)r);
}
RT_API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *n, cudaGraph_t g, const cudaGraphNode_t *deps, size_t count,
                                        const struct cudaHostNodeParams *p) {
    CUDA_HOST_NODE_PARAMS params = {.fn = p->fn, .userData = p->userData};
    RT_CALL(rt_legacy.cuGraphAddHostNode(n, g, deps, count, &params));
}
RT_API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *n, cudaGraph_t g, const cudaGraphNode_t *deps, size_t count,
                                          const struct cudaKernelNodeParams *p) {
    CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = p->gridDim.x,
                                      .gridDimY = p->gridDim.y,
                                      .gridDimZ = p->gridDim.z,
                                      .blockDimX = p->blockDim.x,
                                      .blockDimY = p->blockDim.y,
                                      .blockDimZ = p->blockDim.z,
                                      .sharedMemBytes = p->sharedMemBytes,
                                      .kernelParams = p->kernelParams,
                                      .extra = p->extra};
    RT_READY();
    cudaError_t e = rt_function(p->func, &params.func);
    return e ? e : rt_error((cudaError_t)rt_legacy.cuGraphAddKernelNode(n, g, deps, count, &params));
}
RT_API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *n, cudaGraph_t g, const cudaGraphNode_t *deps, size_t count,
                                          const struct cudaMemsetParams *p) {
    CUcontext ctx = NULL;
    CUDA_MEMSET_NODE_PARAMS params = {.dst = (CUdeviceptr)(uintptr_t)p->dst,
                                      .pitch = p->pitch,
                                      .value = p->value,
                                      .elementSize = p->elementSize,
                                      .width = p->width,
                                      .height = p->height};
    RT_READY();
    rt_legacy.cuCtxGetCurrent(&ctx);
    return rt_error((cudaError_t)rt_legacy.cuGraphAddMemsetNode(n, g, deps, count, &params, ctx));
}
RT_API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *n, cudaGraph_t g, const cudaGraphNode_t *deps,
                                            size_t count, struct cudaMemAllocNodeParams *p) {
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = (CUmemAllocationType)p->poolProps.allocType,
                      .location = {.type = (CUmemLocationType)p->poolProps.location.type,
                                   .id = p->poolProps.location.id}},
        .bytesize = p->bytesize};
    RT_READY();
    CUresult r = rt_legacy.cuGraphAddMemAllocNode(n, g, deps, count, &params);
    if (r == CUDA_SUCCESS)
        p->dptr = (void *)(uintptr_t)params.dptr;
    return rt_error((cudaError_t)r);
}
