/* Relaxed stream capture: while one stream captures, another thread allocates and frees. The capture survives, and
 * the resulting graph does what was captured. Allocations of the captured stream become part of the graph. */
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "program.h"

enum { SIZE = 1 << 16, ROUNDS = 8 };

static void *allocate_and_free(void *block) {
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    device_free(block);
    for (int i = 0; i < ROUNDS; i++)
        device_free(device_alloc(SIZE));
    return NULL;
}

int main(void) {
    static unsigned char host[SIZE];
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    enum cudaStreamCaptureStatus status;
    pthread_t thread;
    void *scratch = NULL;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    void *target = device_alloc(SIZE);
    void *given_away = device_alloc(SIZE);
    MUST(cudaMemset(target, 0, SIZE));
    MUST(cudaDeviceSynchronize());

    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    MUST(cudaMemsetAsync(target, 0x0f, SIZE, stream));
    EXPECT(pthread_create(&thread, NULL, allocate_and_free, given_away) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    MUST(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    MUST(cudaMallocAsync(&scratch, SIZE, stream));
    note_alloc("cuMemAllocAsync", SIZE, scratch);
    MUST(cudaMemsetAsync(scratch, 0xf0, SIZE, stream));
    MUST(cudaMemcpyAsync((char *)target + SIZE / 2, scratch, SIZE / 2, cudaMemcpyDeviceToDevice, stream));
    note_free("cuMemFreeAsync", scratch);
    MUST(cudaFreeAsync(scratch, stream));
    MUST(cudaStreamEndCapture(stream, &graph));

    MUST(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 2; i++)
        MUST(cudaGraphLaunch(executable, stream));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemcpy(host, target, SIZE, cudaMemcpyDeviceToHost));
    EXPECT(all_bytes_are(host, 0x0f, SIZE / 2));
    EXPECT(all_bytes_are(host + SIZE / 2, 0xf0, SIZE / 2));
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    device_free(target);
    MUST(cudaStreamDestroy(stream));
    printf("ok capture %d\n", ROUNDS);
    return 0;
}
