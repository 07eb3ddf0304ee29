/* While a stream captures, freed memory is available to threads that may allocate: in a relaxed capture, and in a
 * relaxed thread beside a capture that forbids it to others. Arguments: MIB, the size of a device on which no two of
 * the large blocks fit together; and "early", when a large block from before the capture is freed during it. */
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "program.h"

enum { BLOCKS = 8, MIB = 1 << 20, USED = 1 << 16 };

static size_t card;
static int early;

/* Sizes in eighths of the device memory; no block can serve a request of another size. */
static void come_and_go(void *old) {
    size_t eighth = card / 8;
    void *blocks[BLOCKS], *block;
    if (old)
        device_free(old);
    for (int i = 0; i < 7; i++)
        blocks[i] = device_alloc(eighth - (size_t)(BLOCKS - i) * MIB);
    for (int i = 0; i < 7; i++)
        device_free(blocks[i]);
    for (int size = 7; size > 3; size--) {
        block = device_alloc(eighth * (size_t)size);
        MUST(cudaMemset(block, 7, USED));
        device_free(block);
    }
}

static void *in_relaxed_thread(void *old) {
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaStream_t stream;
    void *block;
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (old)
        device_free(old);
    for (size_t size = 7; size > 3; size--) {
        block = device_alloc(card / 8 * size);
        MUST(cudaMemsetAsync(block, 7, USED, stream));
        device_free(block);
    }
    MUST(cudaStreamDestroy(stream));
    return NULL;
}

static void one_capture(enum cudaStreamCaptureMode mode, void *target) {
    static unsigned char host[USED];
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    enum cudaStreamCaptureStatus status;
    pthread_t thread;
    void *old = NULL;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMemset(target, 0, USED));
    come_and_go(NULL); /* before the capture, too */
    if (early)
        old = device_alloc(card / 8 * 6);
    MUST(cudaStreamBeginCapture(stream, mode));
    MUST(cudaMemsetAsync(target, 0x11 * (mode + 1), USED, stream));
    if (mode == cudaStreamCaptureModeRelaxed) {
        come_and_go(old);
    } else {
        EXPECT(pthread_create(&thread, NULL, in_relaxed_thread, old) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
    }
    MUST(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&executable, graph, 0));
    MUST(cudaGraphLaunch(executable, stream));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemcpy(host, target, USED, cudaMemcpyDeviceToHost));
    EXPECT(all_bytes_are(host, (unsigned char)(0x11 * (mode + 1)), USED));
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(stream));
}

int main(int count, char **arguments) {
    EXPECT(count >= 2);
    early = count > 2;
    card = (size_t)atoi(arguments[1]) << 20;
    void *target = device_alloc(USED);
    one_capture(cudaStreamCaptureModeRelaxed, target);
    one_capture(cudaStreamCaptureModeThreadLocal, target);
    one_capture(cudaStreamCaptureModeGlobal, target);
    device_free(target);
    printf("ok capture_memory\n");
    return 0;
}
