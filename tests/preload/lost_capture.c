/* Captures that are never ended, for instance because of an exception: the stream is destroyed, the context is
 * destroyed, the device is reset, or the thread whose default stream captures ends. Afterwards allocations and frees
 * work as before. Argument: which of these; or "leaked": the thread that could end the capture has ended and the
 * stream still exists, so no memory is reused but all of it is released. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "program.h"

enum { STREAMS = 100, ROUNDS = 200, MIB = 1 << 20 };

static void begin_captures(cudaStream_t *streams, int count) {
    for (int i = 0; i < count; i++) {
        MUST(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        MUST(cudaStreamBeginCapture(streams[i], cudaStreamCaptureModeRelaxed));
    }
}

static void lose_streams(void) {
    cudaStream_t streams[STREAMS];
    begin_captures(streams, STREAMS);
    for (int i = 0; i < STREAMS; i++)
        MUST(cudaStreamDestroy(streams[i]));
}

static void lose_device(void) {
    cudaStream_t streams[3];
    begin_captures(streams, 3);
    MUST(cudaDeviceReset());
}

static void lose_context(void) {
    CUcontext context;
    CUdevice device;
    CUstream streams[3];
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, NULL, 0, device));
    begin_captures((cudaStream_t *)streams, 3);
    MUST(cuCtxDestroy(context));
}

/* The default streams of two threads: one capture is ended, the other is lost. */
static void *capture_by_default(void *lost) {
    cudaGraph_t graph;
    MUST(cudaFree(NULL));
    MUST(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal));
    if (!lost) {
        MUST(cudaStreamEndCapture(cudaStreamPerThread, &graph));
        MUST(cudaGraphDestroy(graph));
    }
    return NULL;
}

static void lose_threads(void) {
    static int lost;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, capture_by_default, i % 2 ? &lost : NULL) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
}

static void *capture_and_leak(void *unused) {
    cudaStream_t stream;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    return unused;
}

static void leak_stream(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, capture_and_leak, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
}

static const struct {
    const char *name;
    void (*lose)(void);
} ways[] = {{"stream", lose_streams},
            {"reset", lose_device},
            {"context", lose_context},
            {"thread", lose_threads},
            {"leaked", leak_stream}};

/* A device of 1 GiB has no room for both blocks at once. */
static void two_large_ones(void) {
    void *block = NULL;
    for (int i = 0; i < 2; i++) {
        MUST(cudaMalloc(&block, (size_t)(600 + 200 * i) * MIB));
        note_alloc("cuMemAlloc", (long long)(600 + 200 * i) * MIB, block);
        device_free(block);
    }
}

int main(int count, char **arguments) {
    EXPECT(count == 2);
    device_free(device_alloc(MIB));
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, arguments[1]) == 0)
            ways[i].lose();
    for (int i = 0; i < ROUNDS; i++) {
        void *block = device_alloc(MIB);
        MUST(cudaMemset(block, i, 1));
        device_free(block);
    }
    two_large_ones();
    printf("ok lost_capture %s\n", arguments[1]);
    return 0;
}
