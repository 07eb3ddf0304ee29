/* Out of memory while a stream captures: the program gets the driver's error, and the capture continues. MIB: size
 * of a block that does not fit. */
#include <cuda_runtime_api.h>

#include "program.h"

int main(int count, char **arguments) {
    size_t large = count > 1 ? (size_t)atoi(arguments[1]) << 20 : 0;
    void *small = NULL, *more = NULL;
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    enum cudaStreamCaptureStatus status;
    EXPECT(large);
    MUST(cudaMalloc(&small, 1 << 20));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    MUST(cudaMemsetAsync(small, 7, 1 << 20, stream));
    printf("in capture: %s\n", cudaGetErrorName(cudaMalloc(&more, large)));
    cudaGetLastError();
    MUST(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    MUST(cudaStreamEndCapture(stream, &graph));
    EXPECT(graph != NULL);
    MUST(cudaGraphDestroy(graph));
    cudaError_t after = cudaMalloc(&more, large);
    printf("after it: %s\n", cudaGetErrorName(after));
    if (after == cudaSuccess) {
        round_trip(more, 1 << 20, 0x3c);
        MUST(cudaFree(more));
    }
    MUST(cudaFree(small));
    MUST(cudaStreamDestroy(stream));
    printf("ok oom_capture\n");
    return 0;
}
