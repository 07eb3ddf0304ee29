/* A graph with its own memory nodes: allocate, fill, copy out, free. */
#include <cuda.h>

#include "program.h"

enum { SIZE = 1 << 16 };

static CUgraph build(CUcontext context, CUdeviceptr target) {
    CUgraph graph;
    CUgraphNode made, filled, copied, dropped;
    CUDA_MEM_ALLOC_NODE_PARAMS request = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
                                          .bytesize = SIZE};
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemAllocNode(&made, graph, NULL, 0, &request));
    note("map", "cuGraphAddMemAllocNode", SIZE, (void *)request.dptr);
    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = request.dptr, .value = 0x2b, .elementSize = 1, .width = SIZE, .height = 1, .pitch = SIZE};
    MUST(cuGraphAddMemsetNode(&filled, graph, &made, 1, &fill, context));
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = request.dptr,
                          .srcPitch = SIZE,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = target,
                          .dstPitch = SIZE,
                          .WidthInBytes = SIZE,
                          .Height = 1,
                          .Depth = 1};
    MUST(cuGraphAddMemcpyNode(&copied, graph, &filled, 1, &copy, context));
    note("unmap", "cuGraphAddMemFreeNode", ANY_BYTES, (void *)request.dptr);
    MUST(cuGraphAddMemFreeNode(&dropped, graph, &copied, 1, request.dptr));
    return graph;
}

int main(void) {
    static unsigned char host[SIZE];
    CUcontext context;
    CUgraphExec executable;
    CUstream stream;
    CUdeviceptr target;
    context = start_driver();
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc(&target, SIZE));
    note_alloc("cuMemAlloc", SIZE, (void *)target);
    CUgraph graph = build(context, target);
    MUST(cuGraphInstantiate(&executable, graph, 0));
    MUST(cuGraphLaunch(executable, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemcpyDtoH(host, target, SIZE));
    EXPECT(all_bytes_are(host, 0x2b, SIZE));
    MUST(cuGraphExecDestroy(executable));
    MUST(cuGraphDestroy(graph));
    note_free("cuMemFree", (void *)target);
    MUST(cuMemFree(target));
    MUST(cuStreamDestroy(stream));
    printf("ok graph_memory %d bytes\n", SIZE);
    return 0;
}
