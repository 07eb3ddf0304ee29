/* A graph with memory nodes of its own: allocate, fill, copy out, free. */
#include <cuda_runtime_api.h>

#include "program.h"

int main(void) {
    enum { SIZE = 1 << 16 };
    void *target = device_alloc(SIZE);
    static unsigned char host[SIZE];
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaGraphNode_t made, filled, copied, dropped;
    struct cudaMemAllocNodeParams request = {
        .poolProps = {.allocType = cudaMemAllocationTypePinned,
                      .location = {.type = cudaMemLocationTypeDevice, .id = 0}},
        .bytesize = SIZE};
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaGraphAddMemAllocNode(&made, graph, NULL, 0, &request));
    note_alloc("cuGraphAddMemAllocNode", SIZE, request.dptr);
    struct cudaMemsetParams fill = {
        .dst = request.dptr, .value = 0x2b, .elementSize = 1, .width = SIZE, .height = 1, .pitch = SIZE};
    MUST(cudaGraphAddMemsetNode(&filled, graph, &made, 1, &fill));
    MUST(cudaGraphAddMemcpyNode1D(&copied, graph, &filled, 1, target, request.dptr, SIZE, cudaMemcpyDeviceToDevice));
    note_free("cuGraphAddMemFreeNode", request.dptr);
    MUST(cudaGraphAddMemFreeNode(&dropped, graph, &copied, 1, request.dptr));
    MUST(cudaGraphInstantiate(&executable, graph, 0));
    MUST(cudaGraphLaunch(executable, 0));
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(host, target, SIZE, cudaMemcpyDeviceToHost));
    EXPECT(all_bytes_are(host, 0x2b, SIZE));
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    device_free(target);
    printf("ok graph_memory %d bytes\n", SIZE);
    return 0;
}
