/* Streams, events, captures and graphs of the simulated runtime. */
#include "runtime.h"
#include <string.h>

RT_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned int flags, int priority) {
    RT_CALL(rt_legacy.cuStreamCreateWithPriority(s, flags, priority));
}
RT_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned int flags) {
    RT_CALL(rt_legacy.cuStreamCreate(s, flags));
}
RT_API cudaError_t cudaStreamCreate(cudaStream_t *s) { RT_CALL(rt_legacy.cuStreamCreate(s, 0)); }
RT_API cudaError_t cudaStreamDestroy(cudaStream_t s) { RT_CALL(rt_legacy.cuStreamDestroy(s)); }
RT_TWIN(_ptsz, cudaStreamQuery, (cudaStream_t s), (s)) { RT_CALL(d->cuStreamQuery(s)); }
RT_TWIN(_ptsz, cudaStreamSynchronize, (cudaStream_t s), (s)) { RT_CALL(d->cuStreamSynchronize(s)); }
RT_TWIN(_ptsz, cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t event, unsigned int flags), (s, event, flags)) {
    RT_CALL(d->cuStreamWaitEvent(s, event, flags));
}
RT_TWIN(_ptsz, cudaStreamGetPriority, (cudaStream_t s, int *p), (s, p)) { RT_CALL(d->cuStreamGetPriority(s, p)); }
RT_TWIN(_ptsz, cudaStreamGetFlags, (cudaStream_t s, unsigned int *f), (s, f)) { RT_CALL(d->cuStreamGetFlags(s, f)); }
RT_TWIN(_ptsz, cudaStreamGetId, (cudaStream_t s, unsigned long long *id), (s, id)) {
    RT_CALL(d->cuStreamGetId(s, id));
}
RT_TWIN(_ptsz, cudaStreamAddCallback,
        (cudaStream_t s, cudaStreamCallback_t callback, void *userData, unsigned int flags),
        (s, callback, userData, flags)) {
    RT_CALL(d->cuStreamAddCallback(s, (CUstreamCallback)callback, userData, flags));
}
RT_TWIN(_ptsz, cudaLaunchHostFunc, (cudaStream_t s, cudaHostFn_t fn, void *userData), (s, fn, userData)) {
    RT_CALL(d->cuLaunchHostFunc(s, fn, userData));
}
RT_TWIN(_ptsz, cudaStreamAttachMemAsync, (cudaStream_t s, void *devPtr, size_t length, unsigned int flags),
        (s, devPtr, length, flags)) {
    RT_CALL(d->cuStreamAttachMemAsync(s, (CUdeviceptr)(uintptr_t)devPtr, length, flags));
}

/* ---- events ---- */

RT_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    RT_CALL(rt_legacy.cuEventCreate(event, flags));
}
RT_API cudaError_t cudaEventCreate(cudaEvent_t *event) { RT_CALL(rt_legacy.cuEventCreate(event, 0)); }
RT_API cudaError_t cudaEventDestroy(cudaEvent_t event) { RT_CALL(rt_legacy.cuEventDestroy(event)); }
RT_TWIN(_ptsz, cudaEventRecord, (cudaEvent_t event, cudaStream_t s), (event, s)) {
    RT_CALL(d->cuEventRecord(event, s));
}
RT_TWIN(_ptsz, cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t s, unsigned int flags), (event, s, flags)) {
    RT_CALL(d->cuEventRecordWithFlags(event, s, flags));
}
RT_API cudaError_t cudaEventQuery(cudaEvent_t event) { RT_CALL(rt_legacy.cuEventQuery(event)); }
RT_API cudaError_t cudaEventSynchronize(cudaEvent_t event) { RT_CALL(rt_legacy.cuEventSynchronize(event)); }
RT_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    RT_CALL(rt_legacy.cuEventElapsedTime(ms, start, end));
}

/* ---- capture ---- */

RT_TWIN(_ptsz, cudaStreamBeginCapture, (cudaStream_t s, enum cudaStreamCaptureMode mode), (s, mode)) {
    RT_CALL(d->cuStreamBeginCapture(s, (CUstreamCaptureMode)mode));
}
RT_TWIN(_ptsz, cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *graph), (s, graph)) {
    RT_CALL(d->cuStreamEndCapture(s, graph));
}
RT_TWIN(_ptsz, cudaStreamIsCapturing, (cudaStream_t s, enum cudaStreamCaptureStatus *status), (s, status)) {
    RT_CALL(d->cuStreamIsCapturing(s, (CUstreamCaptureStatus *)status));
}
RT_TWIN(_ptsz, cudaStreamGetCaptureInfo,
        (cudaStream_t s, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
         const cudaGraphNode_t **deps, const cudaGraphEdgeData **edges, size_t *count),
        (s, status, id, graph, deps, edges, count)) {
    RT_CALL(d->cuStreamGetCaptureInfo(s, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph, deps,
                                      (const CUgraphEdgeData **)edges, count));
}
RT_API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    RT_CALL(rt_legacy.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

/* ---- graphs ---- */

RT_API cudaError_t cudaGraphCreate(cudaGraph_t *g, unsigned int flags) { RT_CALL(rt_legacy.cuGraphCreate(g, flags)); }
RT_API cudaError_t cudaGraphDestroy(cudaGraph_t g) { RT_CALL(rt_legacy.cuGraphDestroy(g)); }
RT_API cudaError_t cudaGraphClone(cudaGraph_t *out, cudaGraph_t g) { RT_CALL(rt_legacy.cuGraphClone(out, g)); }
RT_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long flags) {
    RT_CALL(rt_legacy.cuGraphInstantiateWithFlags(x, g, flags));
}
RT_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long flags) {
    RT_CALL(rt_legacy.cuGraphInstantiateWithFlags(x, g, flags));
}
RT_TWIN(_ptsz, cudaGraphLaunch, (cudaGraphExec_t x, cudaStream_t s), (x, s)) { RT_CALL(d->cuGraphLaunch(x, s)); }
RT_TWIN(_ptsz, cudaGraphUpload, (cudaGraphExec_t x, cudaStream_t s), (x, s)) { RT_CALL(d->cuGraphUpload(x, s)); }
RT_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x) { RT_CALL(rt_legacy.cuGraphExecDestroy(x)); }
RT_API cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *count) {
    RT_CALL(rt_legacy.cuGraphGetNodes(g, nodes, count));
}
RT_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t x, cudaGraph_t g, cudaGraphExecUpdateResultInfo *info) {
    CUgraphExecUpdateResultInfo driver_info = {.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
    RT_READY();
    CUresult r = rt_legacy.cuGraphExecUpdate(x, g, &driver_info);
    memset(info, 0, sizeof *info);
    info->result = (enum cudaGraphExecUpdateResult)driver_info.result;
    return rt_error((cudaError_t)r);
}
RT_API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *n, cudaGraph_t g, const cudaGraphNode_t *deps, size_t count) {
    RT_CALL(rt_legacy.cuGraphAddEmptyNode(n, g, deps, count));
}
RT_API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *n, cudaGraph_t g, const cudaGraphNode_t *deps, size_t count,
                                        const struct cudaHostNodeParams *p) {
    CUDA_HOST_NODE_PARAMS params = {.fn = p->fn, .userData = p->userData};
    RT_CALL(rt_legacy.cuGraphAddHostNode(n, g, deps, count, &params));
}
RT_API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *n, cudaGraph_t g, const cudaGraphNode_t *deps, size_t count,
                                          const struct cudaKernelNodeParams *p) {
    CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = p->gridDim.x, .gridDimY = p->gridDim.y, .gridDimZ = p->gridDim.z,
                                      .blockDimX = p->blockDim.x, .blockDimY = p->blockDim.y,
                                      .blockDimZ = p->blockDim.z, .sharedMemBytes = p->sharedMemBytes,
                                      .kernelParams = p->kernelParams, .extra = p->extra};
    RT_READY();
    cudaError_t e = rt_function(p->func, &params.func);
    return e ? e : rt_error((cudaError_t)rt_legacy.cuGraphAddKernelNode(n, g, deps, count, &params));
}
RT_API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *n, cudaGraph_t g, const cudaGraphNode_t *deps, size_t count,
                                          const struct cudaMemsetParams *p) {
    CUcontext ctx = NULL;
    CUDA_MEMSET_NODE_PARAMS params = {.dst = (CUdeviceptr)(uintptr_t)p->dst, .pitch = p->pitch, .value = p->value,
                                      .elementSize = p->elementSize, .width = p->width, .height = p->height};
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
RT_API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *n, cudaGraph_t g, const cudaGraphNode_t *deps, size_t count,
                                           void *dptr) {
    RT_CALL(rt_legacy.cuGraphAddMemFreeNode(n, g, deps, count, (CUdeviceptr)(uintptr_t)dptr));
}
RT_API cudaError_t cudaDeviceGraphMemTrim(int device) { RT_CALL(rt_legacy.cuDeviceGraphMemTrim(device)); }
RT_API cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value) {
    RT_CALL(rt_legacy.cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attr, value));
}
